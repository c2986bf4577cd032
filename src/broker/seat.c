/* seat.c: who may run a command, and how an operation ends. One command at a time: whoever
 * comes second is told so at once. The exception is a holder that is already being killed because
 * its client left: then a few may wait for the moments that takes, so that a client that
 * hangs up and comes again doesn't meet its own ghost. */
#include "broker/broker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

void answer(struct broker *b, const struct op *o, const struct sp_msg *m, const int *fds, int nfds)
{
    if (o->orphan || b->front.fd < 0 || b->front_broken) {
        close_all(fds, nfds);
        return;
    }
    struct sp_msg out = *m;
    out.id = o->front_id;
    int r = sp_msg_send(&b->front, &out, fds, nfds);
    if (r != 0 && r != -EPIPE) { /* gone is seen by reading */
        b->front_broken = true;
        b->front_breach = "it doesn't read its answers";
    }
}

void answer_fail(struct broker *b, const struct op *o, enum sp_err e)
{
    struct sp_msg m = {.op = SP_OP_FAIL, .err = (uint16_t)e};
    answer(b, o, &m, NULL, 0);
}

static bool have_cell(const struct broker *b)
{
    return b->cell.fd >= 0 && b->cell_breach == NULL;
}

/* Why a send to the cell failed: 0 it didn't. */
static enum sp_err sent(struct broker *b, int r)
{
    if (r == 0)
        return SP_OK;
    if (r == -ENOBUFS)
        return SP_E_OVERLOADED;
    if (r != -EPIPE)
        return SP_E_INTERNAL;
    broker_cell_broke(b, "its socket is closed");
    return SP_E_CELL_LOST;
}

bool forward(struct broker *b, struct op *o, const struct sp_msg *m)
{
    struct sp_msg out = *m;
    out.id = o->cell_id;
    enum sp_err e = SP_E_CELL_LOST;
    if (have_cell(b))
        e = sent(b, sp_msg_send(&b->cell, &out, NULL, 0));
    if (e == SP_OK)
        return true;
    answer_fail(b, o, e);
    op_free(b, o);
    return false;
}

void cancel(struct broker *b, struct op *o, uint8_t why, uint64_t now)
{
    if (o->state == OP_QUEUED) {
        queue_remove(b, o);
        answer_fail(b, o, SP_E_BUSY);
        op_free(b, o);
        return;
    }
    if (o->kind != SP_OP_EXEC && o->kind != SP_OP_PUT)
        return;
    if (why == SP_CANCEL_GONE)
        o->left = true;
    if (o->cancelled)
        return;
    o->cancelled = true;
    /* A commit may wait for a slow disk, and can't be taken back: its end is owed, but not soon. */
    o->deadline = o->state == OP_COMMITTING ? BROKER_NEVER : now + BROKER_CANCEL_GRACE_MS;
    struct sp_msg m = {.op = SP_OP_CANCEL, .id = o->cell_id, .flags = why};
    if (have_cell(b) && sp_msg_send(&b->cell, &m, NULL, 0) != 0)
        broker_cell_broke(b, "it doesn't read its requests");
}

/* ---- the queue ---- */

void queue_remove(struct broker *b, struct op *o)
{
    struct op **p = &b->queue_head, *last = NULL;
    while (*p != o) {
        last = *p;
        p = &(*p)->next_queued;
    }
    *p = o->next_queued;
    if (b->queue_tail == o)
        b->queue_tail = last;
    o->next_queued = NULL;
    b->nqueued--;
}

void queue_fail(struct broker *b, enum sp_err e)
{
    struct op *o;
    while ((o = b->queue_head) != NULL) {
        queue_remove(b, o);
        answer_fail(b, o, e);
        op_free(b, o);
    }
}

/* Keeps the request as bytes, since m borrows a frame. */
static bool enqueue(struct broker *b, struct op *o, const struct sp_msg *m)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct sp_msg out = *m;
    out.id = o->cell_id;
    o->held_len = sp_msg_encode(&out, buf, sizeof buf);
    o->held = o->held_len > 0 ? malloc(o->held_len) : NULL;
    if (o->held == NULL)
        return false;
    memcpy(o->held, buf, o->held_len);
    o->state = OP_QUEUED;
    if (b->queue_tail != NULL)
        b->queue_tail->next_queued = o;
    else
        b->queue_head = o;
    b->queue_tail = o;
    b->nqueued++;
    return true;
}

static void take_seat(struct broker *b, struct op *o, uint64_t now)
{
    o->state = OP_STARTING;
    o->deadline = now + BROKER_START_GRACE_MS;
    b->seat = o;
}

void queue_next(struct broker *b, uint64_t now)
{
    struct op *o;
    while (b->seat == NULL && have_cell(b) && (o = b->queue_head) != NULL) {
        queue_remove(b, o);
        enum sp_err e = sent(b, sp_chan_send(&b->cell, o->held, o->held_len, NULL, 0));
        if (e != SP_OK) {
            answer_fail(b, o, e);
            op_free(b, o);
            continue;
        }
        free(o->held);
        o->held = NULL;
        take_seat(b, o, now);
    }
    if (b->seat != NULL && !b->seat->left)
        queue_fail(b, SP_E_BUSY);
}

/* ---- admission ---- */

void seat_admit(struct broker *b, const struct sp_msg *m, uint64_t now)
{
    struct op *o = op_new(b, SP_OP_EXEC, m->id);
    if (o == NULL)
        return; /* the caller looked */
    struct sp_msg exec = *m;
    if (exec.timeout_ms == 0 || exec.timeout_ms > b->max_timeout_ms)
        exec.timeout_ms = b->max_timeout_ms;
    o->timeout_ms = exec.timeout_ms;
    o->want_stdin = (m->flags & SP_EXEC_STDIN) != 0;
    enum sp_err e = SP_OK;
    if (b->draining)
        e = SP_E_DRAINING;
    else if (b->seat == NULL && b->nqueued == 0) {
        if (forward(b, o, &exec))
            take_seat(b, o, now);
        return;
    } else if ((b->seat != NULL && !b->seat->left) || b->nqueued >= BROKER_QUEUE_MAX)
        e = SP_E_BUSY;
    else if (!enqueue(b, o, &exec))
        e = SP_E_OVERLOADED;
    if (e != SP_OK) {
        answer_fail(b, o, e);
        op_free(b, o);
    }
}

void op_end(struct broker *b, struct op *o, uint64_t now)
{
    bool seat = b->seat == o;
    if (seat)
        b->seat = NULL;
    op_free(b, o);
    if (seat)
        queue_next(b, now);
}
