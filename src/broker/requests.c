/* requests.c: what the front may ask, in which state, and what happens to its work when it ends.
 * The front talks to strangers and may have been taken over by one: anything that a sound front
 * doesn't do lets it go. CANCEL and COMMIT of an unknown id are no breach: they race with the end
 * that the cell reports. */
#include "broker/broker.h"

#include <stddef.h>

/* Its ids are forgotten, its commands and uploads cancelled; what can't be cancelled ends unheard.
 */
static void detach(struct broker *b, uint64_t now)
{
    for (unsigned i = 0; i < b->touched; i++) {
        struct op *o = &b->ops[i];
        if (o->state == OP_FREE)
            continue;
        bool queued = o->state == OP_QUEUED;
        cancel(b, o, SP_CANCEL_GONE, now); /* frees a queued one */
        if (!queued)
            op_orphan(b, o);
    }
}

void settle(struct broker *b, uint64_t now)
{
    if (b->front_broken)
        detach(b, now); /* the loop closes the socket, once it has told main */
}

void broker_front_broke(struct broker *b, const char *why, uint64_t now)
{
    b->front_broken = true;
    b->front_breach = why;
    settle(b, now);
}

void broker_front_gone(struct broker *b, uint64_t now)
{
    b->front_broken = false;
    b->front_breach = NULL;
    sp_chan_close(&b->front);
    detach(b, now);
}

void broker_front_new(struct broker *b, int fd, uint64_t now)
{
    broker_front_gone(b, now);
    sp_chan_init_wary(&b->front, fd);
    b->front.max_fds = b->front_fds;
}

static void breach(struct broker *b, const char *why)
{
    b->front_broken = true;
    b->front_breach = why;
}

static void refuse(struct broker *b, uint32_t front_id, enum sp_err e)
{
    const struct op nobody = {.front_id = front_id};
    answer_fail(b, &nobody, e);
}

/* A whole workspace is to go: only while nothing is done in it. The loop does the rest. */
static void removal(struct broker *b, struct slot *s, const struct sp_msg *m)
{
    if (s->nops > 0) {
        refuse(b, m->id, SP_E_BUSY);
        return;
    }
    s->removing = op_new(b, s, SP_OP_REMOVE, m->id) != NULL;
}

static void request(struct broker *b, const struct sp_msg *m, uint64_t now)
{
    struct slot *s = &b->slot[0];
    if (op_by_front(b, m->id) != NULL) {
        breach(b, "it used a live id again");
        return;
    }
    if ((m->key.n != 0) != b->box) {
        breach(b, "it named a workspace where there is one, or none where there are many");
        return;
    }
    if (broker_full(b)) {
        refuse(b, m->id, SP_E_OVERLOADED);
        return;
    }
    if (b->box)
        s = broker_slot(b, (const uint8_t *)m->key.p, true);
    if (s == NULL || s->removing) {
        refuse(b, m->id, s == NULL ? SP_E_OVERLOADED : SP_E_BUSY);
        return;
    }
    if (b->box && s->nops >= BROKER_SLOT_OPS_MAX) {
        refuse(b, m->id, SP_E_OVERLOADED);
        return;
    }
    if (m->op == SP_OP_EXEC) {
        seat_admit(b, s, m, now);
        return;
    }
    if (m->op == SP_OP_REMOVE) {
        removal(b, s, m);
        return;
    }
    struct op *o = op_new(b, s, m->op, m->id);
    if (o == NULL)
        return;
    o->staging = m->op == SP_OP_PUT && (m->flags & SP_PUT_STAGED) != 0;
    o->whole = m->op == SP_OP_PUT    ? (m->flags & SP_PUT_WHOLE) != 0
               : m->op == SP_OP_OPEN ? (m->flags & SP_OPEN_WHOLE) != 0
                                     : false;
    op_begun(o);
    if (!b->box || s->cell.fd >= 0) {
        (void)forward(b, o, m);
    } else if (!queue_add(b, o, m)) {
        answer_fail(b, o, SP_E_OVERLOADED);
        op_free(b, o);
    }
}

static void commit(struct broker *b, const struct sp_msg *m)
{
    struct op *o = op_by_front(b, m->id);
    if (o == NULL)
        return;
    if (o->kind != SP_OP_PUT || o->state != OP_OPEN || o->cancelled) {
        breach(b, "it committed what isn't an open upload");
        return;
    }
    struct sp_msg out = *m;
    out.id = o->cell_id;
    o->state = OP_COMMITTING;
    /* The cell has this operation, so it can't be dropped here: a cell that can't be told is lost.
     */
    if (o->slot->cell_breach == NULL && sp_msg_send(&o->slot->cell, &out, NULL, 0) != 0)
        broker_cell_broke(o->slot, "it doesn't read its requests");
}

void broker_from_front(struct broker *b, struct sp_frame *f, uint64_t now)
{
    struct sp_msg m;
    if (b->front_broken)
        return;
    if (!sp_msg_decode(&m, f->data, f->len, f->nfds)) {
        broker_front_broke(b, "it sent what isn't a message", now);
        return;
    }
    switch (m.op) {
    case SP_OP_EXEC:
    case SP_OP_OPEN:
    case SP_OP_PUT:
    case SP_OP_DELETE:
    case SP_OP_USAGE:
    case SP_OP_ARCHIVE:
    case SP_OP_REMOVE:
        request(b, &m, now);
        break;
    case SP_OP_COMMIT:
        commit(b, &m);
        break;
    case SP_OP_CANCEL: {
        struct op *o = op_by_front(b, m.id);
        if (m.flags != SP_CANCEL_GONE)
            breach(b, "it claimed a timeout, which isn't its to tell");
        else if (o != NULL)
            cancel(b, o, SP_CANCEL_GONE, now);
        break;
    }
    default:
        breach(b, "it sent a message that isn't a front's");
    }
    settle(b, now);
}

void broker_kill_all(struct broker *b, uint64_t now)
{
    b->draining = true;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        struct slot *s = &b->slot[i];
        queue_fail(b, &s->queue, SP_E_DRAINING);
        if (s->seat != NULL)
            cancel(b, s->seat, SP_CANCEL_GONE, now);
    }
    settle(b, now);
}
