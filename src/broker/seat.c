/* seat.c: who may run a command, and how an operation ends. One command at a time in a workspace.
 * In the seat whoever comes second is told so at once. The exception is a holder that is already
 * being killed because its client left: then a few may wait for the moments that takes, so that a
 * client that hangs up and comes again doesn't meet its own ghost. In the box a workspace's
 * commands wait for each other, in order and up to a bound; how many workspaces may be at it is
 * bounded, too. */
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

void op_begun(struct op *o)
{
    o->state = o->kind == SP_OP_PUT && o->whole ? OP_COMMITTING : OP_STARTING;
}

static bool have_cell(const struct slot *s)
{
    return s->cell.fd >= 0 && s->cell_breach == NULL;
}

/* Why a send to the cell failed: 0 it didn't. */
static enum sp_err sent(struct slot *s, int r)
{
    if (r == 0)
        return SP_OK;
    if (r == -ENOBUFS)
        return SP_E_OVERLOADED;
    if (r != -EPIPE)
        return SP_E_INTERNAL;
    broker_cell_broke(s, "its socket is closed");
    return SP_E_CELL_LOST;
}

/* Sent to the file threads. What doesn't go at once there goes the other way: the order doesn't
 * matter, as nobody asks twice before an answer and expects one. */
static bool by_port(struct slot *s, const struct op *o, const struct sp_msg *m)
{
    bool fit = m->op == SP_OP_OPEN || m->op == SP_OP_DELETE || m->op == SP_OP_USAGE ||
               (m->op == SP_OP_PUT && o->whole);
    return fit && s->port.fd >= 0 && sp_msg_try(&s->port, m, NULL, 0) == 0;
}

/* After the first operation, when nobody waits for it. */
static void open_port(const struct broker *b, struct slot *s)
{
    int p[2];
    const struct sp_msg m = {.op = SP_OP_PORT};
    if (!b->ports || s->port.fd >= 0 || !s->cell_up || !have_cell(s) || sp_frame_pair(p) != 0)
        return;
    if (sp_msg_try(&s->cell, &m, &p[1], 1) == 0) {
        sp_chan_init_wary(&s->port, p[0]);
    } else {
        close(p[0]);
        close(p[1]);
    }
}

bool forward(struct broker *b, struct op *o, const struct sp_msg *m)
{
    struct sp_msg out = *m;
    out.id = o->cell_id;
    struct slot *s = o->slot;
    enum sp_err e = SP_E_CELL_LOST;
    out.key = (struct sp_slice){"", 0};
    if (have_cell(s))
        e = by_port(s, o, &out) ? SP_OK : sent(s, sp_msg_send(&s->cell, &out, NULL, 0));
    if (e == SP_OK)
        return true;
    answer_fail(b, o, e);
    op_free(b, o);
    return false;
}

void cancel(struct broker *b, struct op *o, uint8_t why, uint64_t now)
{
    if (o->state == OP_QUEUED) {
        queue_remove(o);
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
    if (have_cell(o->slot) && sp_msg_send(&o->slot->cell, &m, NULL, 0) != 0)
        broker_cell_broke(o->slot, "it doesn't read its requests");
}

/* ---- the queue ---- */

static struct queue *queue_of(const struct op *o)
{
    return o->kind == SP_OP_EXEC ? &o->slot->queue : &o->slot->early;
}

void queue_remove(struct op *o)
{
    struct queue *q = queue_of(o);
    struct op **p = &q->head, *last = NULL;
    while (*p != o) {
        last = *p;
        p = &(*p)->next_queued;
    }
    *p = o->next_queued;
    if (q->tail == o)
        q->tail = last;
    o->next_queued = NULL;
    q->n--;
}

void queue_fail(struct broker *b, struct queue *q, enum sp_err e)
{
    struct op *o;
    while ((o = q->head) != NULL) {
        queue_remove(o);
        answer_fail(b, o, e);
        op_free(b, o);
    }
}

/* Keeps the request as bytes, since m borrows a frame. Together no more than a sound front's
 * clients may need: a front that was taken over could fill every queue with the longest commands.
 */
bool queue_add(struct broker *b, struct op *o, const struct sp_msg *m)
{
    static uint8_t buf[SP_FRAME_MAX];
    struct queue *q = queue_of(o);
    struct sp_msg out = *m;
    out.id = o->cell_id;
    out.key = (struct sp_slice){"", 0};
    size_t len = sp_msg_encode(&out, buf, sizeof buf);
    if (len == 0 || len > BROKER_HELD_MAX - b->held || (o->held = malloc(len)) == NULL)
        return false;
    memcpy(o->held, buf, len);
    o->held_len = len;
    b->held += len;
    o->state = OP_QUEUED;
    if (q->tail != NULL)
        q->tail->next_queued = o;
    else
        q->head = o;
    q->tail = o;
    q->n++;
    return true;
}

static void take_seat(struct op *o, uint64_t now)
{
    o->deadline = now + BROKER_START_GRACE_MS;
    o->slot->seat = o;
}

/* Out of its queue and to the cell. False: it failed, and is gone. */
static bool send_held(struct broker *b, struct op *o)
{
    queue_remove(o);
    enum sp_err e = sent(o->slot, sp_chan_send(&o->slot->cell, o->held, o->held_len, NULL, 0));
    if (e != SP_OK) {
        answer_fail(b, o, e);
        op_free(b, o);
        return false;
    }
    op_release(b, o);
    op_begun(o);
    return true;
}

void queue_flush(struct broker *b, struct slot *s)
{
    while (have_cell(s) && s->early.head != NULL)
        (void)send_held(b, s->early.head);
}

void queue_next(struct broker *b, struct slot *s, uint64_t now)
{
    struct op *o;
    while (s->seat == NULL && have_cell(s) && (o = s->queue.head) != NULL)
        if (send_held(b, o))
            take_seat(o, now);
    if (!b->box && s->seat != NULL && !s->seat->left)
        queue_fail(b, &s->queue, SP_E_BUSY);
}

/* ---- admission ---- */

/* The box: may this workspace have a command at work? */
static bool place_for(const struct broker *b, const struct slot *s)
{
    unsigned busy = 0;
    if (!b->box || s->seat != NULL || s->queue.n > 0)
        return true;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        const struct slot *other = &b->slot[i];
        busy += other->used && (other->seat != NULL || other->queue.n > 0);
    }
    return busy < b->busy_max;
}

static bool queue_open(const struct broker *b, const struct slot *s)
{
    if (b->box) /* without a running one the first in the queue is as good as running */
        return s->queue.n < b->queue_max + (s->seat == NULL ? 1 : 0);
    return (s->seat == NULL || s->seat->left) && s->queue.n < b->queue_max;
}

void seat_admit(struct broker *b, struct slot *s, const struct sp_msg *m, uint64_t now)
{
    bool place = place_for(b, s);
    struct op *o = op_new(b, s, SP_OP_EXEC, m->id);
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
    else if (!place)
        e = SP_E_BUSY;
    else if (s->seat == NULL && s->queue.n == 0 && (!b->box || have_cell(s))) {
        if (forward(b, o, &exec))
            take_seat(o, now);
        return;
    } else if (!queue_open(b, s))
        e = SP_E_BUSY;
    else if (!queue_add(b, o, &exec))
        e = SP_E_OVERLOADED;
    if (e != SP_OK) {
        answer_fail(b, o, e);
        op_free(b, o);
    }
}

void op_end(struct broker *b, struct op *o, uint64_t now)
{
    struct slot *s = o->slot;
    bool seat = s->seat == o;
    if (seat)
        s->seat = NULL;
    op_free(b, o);
    if (seat)
        queue_next(b, s, now);
    open_port(b, s);
}
