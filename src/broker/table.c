/* table.c: the broker's operations by either id. Bounded, nothing is allocated after the start, and
 * the cell's ids are ours, so that no front can choose which operation a cell's answer hits. Ids
 * from the front are any 32 bits it likes: at worst all of its own share a chain, 1024 long. */
#include "broker/broker.h"

#include <stdlib.h>
#include <string.h>

void broker_init(struct broker *b, uint64_t max_timeout_ms)
{
    memset(b, 0, sizeof *b);
    sp_chan_init(&b->front, -1);
    sp_chan_init(&b->cell, -1);
    b->max_timeout_ms = max_timeout_ms;
    for (unsigned i = BROKER_OPS_MAX; i-- > 0;) {
        b->ops[i].next_front = b->free_ops;
        b->free_ops = &b->ops[i];
    }
}

void broker_free(struct broker *b)
{
    for (unsigned i = 0; i < BROKER_OPS_MAX; i++)
        free(b->ops[i].held);
    if (b->front.fd >= 0)
        sp_chan_close(&b->front);
    if (b->cell.fd >= 0)
        sp_chan_close(&b->cell);
    broker_init(b, b->max_timeout_ms);
}

static unsigned bucket(uint32_t id)
{
    return (id * 2654435761u) >> 21 & (BROKER_BUCKETS - 1);
}

struct op *op_by_front(struct broker *b, uint32_t id)
{
    struct op *o = b->by_front[bucket(id)];
    while (o != NULL && o->front_id != id)
        o = o->next_front;
    return o;
}

struct op *op_by_cell(struct broker *b, uint32_t id)
{
    struct op *o = b->by_cell[bucket(id)];
    while (o != NULL && o->cell_id != id)
        o = o->next_cell;
    return o;
}

/* Never 0, never one that is alive: an answer can't be taken for an older operation's. */
static uint32_t fresh_cell_id(struct broker *b)
{
    do
        b->last_cell_id++;
    while (b->last_cell_id == 0 || op_by_cell(b, b->last_cell_id) != NULL);
    return b->last_cell_id;
}

struct op *op_new(struct broker *b, uint8_t kind, uint32_t front_id)
{
    struct op *o = b->free_ops;
    if (o == NULL)
        return NULL;
    b->free_ops = o->next_front;
    memset(o, 0, sizeof *o);
    o->state = OP_STARTING;
    o->kind = kind;
    o->deadline = BROKER_NEVER;
    o->front_id = front_id;
    o->cell_id = fresh_cell_id(b);
    struct op **f = &b->by_front[bucket(front_id)], **c = &b->by_cell[bucket(o->cell_id)];
    o->next_front = *f;
    *f = o;
    o->next_cell = *c;
    *c = o;
    b->nops++;
    return o;
}

static void unlink_front(struct broker *b, struct op *o)
{
    struct op **p = &b->by_front[bucket(o->front_id)];
    while (*p != o)
        p = &(*p)->next_front;
    *p = o->next_front;
    o->next_front = NULL;
}

void op_orphan(struct broker *b, struct op *o)
{
    if (o->orphan)
        return;
    unlink_front(b, o);
    o->orphan = true;
}

void op_free(struct broker *b, struct op *o)
{
    if (!o->orphan)
        unlink_front(b, o);
    struct op **p = &b->by_cell[bucket(o->cell_id)];
    while (*p != o)
        p = &(*p)->next_cell;
    *p = o->next_cell;
    free(o->held);
    memset(o, 0, sizeof *o);
    o->next_front = b->free_ops;
    b->free_ops = o;
    b->nops--;
}
