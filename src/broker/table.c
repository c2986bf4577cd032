/* table.c: the broker's operations by either id. Bounded, nothing is allocated after the start, and
 * the cell's ids are ours, so that no front can choose which operation a cell's answer hits. Ids
 * from the front are any 32 bits it likes: at worst all of its own share a chain, 1024 long. */
#include "broker/broker.h"

#include <stdlib.h>
#include <string.h>

static void slot_init(struct slot *s)
{
    sp_chan_init(&s->cell, -1);
    sp_chan_init(&s->port, -1);
}

void broker_init(struct broker *b, uint64_t max_timeout_ms)
{
    sp_chan_init(&b->front, -1);
    b->max_timeout_ms = max_timeout_ms;
    b->front_fds = SP_CHAN_QUEUE_FDS;
    b->queue_max = BROKER_QUEUE_MAX;
    b->busy_max = 1;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        slot_init(&b->slot[i]);
    b->slot[0].used = true;
}

bool broker_full(const struct broker *b)
{
    return b->nops == BROKER_OPS_MAX;
}

/* One that was in use before, else the next that never was: pages of the table that no operation
 * has needed stay untouched. */
static struct op *take_free(struct broker *b)
{
    struct op *o = b->free_ops;
    if (o != NULL)
        b->free_ops = o->next_front;
    else if (b->touched < BROKER_OPS_MAX)
        o = &b->ops[b->touched++];
    return o;
}

void broker_be_box(struct broker *b, unsigned queue_max, unsigned busy_max)
{
    b->box = true;
    b->queue_max = queue_max;
    b->busy_max = busy_max;
    b->slot[0].used = false;
}

void broker_free(struct broker *b)
{
    for (unsigned i = 0; i < b->touched; i++)
        free(b->ops[i].held);
    if (b->front.fd >= 0)
        sp_chan_close(&b->front);
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++)
        broker_slot_part(&b->slot[i]);
    uint64_t max_timeout_ms = b->max_timeout_ms;
    memset(b, 0, sizeof *b);
    broker_init(b, max_timeout_ms);
}

/* ---- slots ---- */

struct slot *broker_slot(struct broker *b, const uint8_t key[SP_KEY_LEN], bool make)
{
    struct slot *unused = NULL;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &b->slot[i];
        if (s->used && memcmp(s->key, key, SP_KEY_LEN) == 0)
            return s;
        if (!s->used && unused == NULL)
            unused = s;
    }
    if (!make || unused == NULL)
        return NULL;
    memset(unused, 0, sizeof *unused);
    slot_init(unused);
    unused->used = true;
    unused->idle_since = b->now;
    memcpy(unused->key, key, SP_KEY_LEN);
    return unused;
}

void broker_slot_part(struct slot *s)
{
    sp_chan_close(&s->cell);
    sp_chan_close(&s->port);
}

void broker_slot_free(struct slot *s)
{
    broker_slot_part(s);
    s->used = false;
}

bool broker_slot_waits(const struct slot *s)
{
    return s->queue.n > 0 || s->early.n > 0;
}

/* ---- operations ---- */

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

struct op *op_new(struct broker *b, struct slot *s, uint8_t kind, uint32_t front_id)
{
    struct op *o = take_free(b);
    if (o == NULL)
        return NULL;
    memset(o, 0, sizeof *o);
    o->state = OP_STARTING;
    o->slot = s;
    o->kind = kind;
    o->deadline = BROKER_NEVER;
    o->front_id = front_id;
    o->cell_id = fresh_cell_id(b);
    struct op **f = &b->by_front[bucket(front_id)], **c = &b->by_cell[bucket(o->cell_id)];
    o->next_front = *f;
    *f = o;
    o->next_cell = *c;
    *c = o;
    s->nops++;
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

void op_release(struct broker *b, struct op *o)
{
    free(o->held);
    b->held -= o->held_len;
    o->held = NULL;
    o->held_len = 0;
}

void op_free(struct broker *b, struct op *o)
{
    if (!o->orphan)
        unlink_front(b, o);
    struct op **p = &b->by_cell[bucket(o->cell_id)];
    while (*p != o)
        p = &(*p)->next_cell;
    *p = o->next_cell;
    op_release(b, o);
    if (--o->slot->nops == 0)
        o->slot->idle_since = b->now;
    memset(o, 0, sizeof *o);
    o->next_front = b->free_ops;
    b->free_ops = o;
    b->nops--;
}
