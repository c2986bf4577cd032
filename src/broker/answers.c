/* answers.c: what the cell may say, in which state, and what happens when it is lost. The cell is
 * the process that handles the workspace, and the nearest to what commands do: its words are
 * checked as a stranger's. A breach gets it killed with everything it started. */
#include "broker/broker.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/stat.h>

void broker_cell_new(struct broker *b, struct slot *s, int fd, uint64_t now)
{
    sp_chan_init_wary(&s->cell, fd);
    s->cell_up = false;
    s->cell_breach = NULL;
    queue_flush(b, s);
    queue_next(b, s, now);
    settle(b, now);
}

void broker_cell_broke(struct slot *s, const char *why)
{
    if (s->cell_breach == NULL)
        s->cell_breach = why;
}

void broker_cell_gone(struct broker *b, struct slot *s, bool retry, enum sp_err e, uint64_t now)
{
    broker_slot_part(s);
    s->cell_up = false;
    s->cell_breach = NULL;
    s->seat = NULL;
    for (unsigned i = 0; i < b->touched && s->nops > 0; i++) {
        struct op *o = &b->ops[i];
        if (o->slot != s || o->state == OP_FREE || o->state == OP_QUEUED || o->kind == SP_OP_REMOVE)
            continue;
        answer_fail(b, o, b->draining && o->kind == SP_OP_EXEC ? SP_E_DRAINING : e);
        op_free(b, o);
    }
    if (!retry) {
        queue_fail(b, &s->early, e);
        queue_fail(b, &s->queue, e);
    }
    settle(b, now);
}

/* ---- the descriptors ---- */

static bool is_pipe(int fd, int access)
{
    struct stat st;
    int flags = fcntl(fd, F_GETFL);
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode) && flags >= 0 &&
           (flags & O_ACCMODE) == access;
}

/* The front reads what it gets without looking again: no folder, no device, no socket, and nothing
 * that it could write a file through. */
static bool fds_sound(const struct op *o, const struct sp_msg *m, const struct sp_frame *f)
{
    struct stat st;
    if (m->op == SP_OP_EXITED)
        return f->nfds == 0 || (is_pipe(f->fds[0], O_RDONLY) && is_pipe(f->fds[1], O_RDONLY));
    if (m->op == SP_OP_STARTED)
        return f->nfds == (o->want_stdin ? 3 : 2) && is_pipe(f->fds[0], O_RDONLY) &&
               is_pipe(f->fds[1], O_RDONLY) && (!o->want_stdin || is_pipe(f->fds[2], O_WRONLY));
    if (m->op == SP_OP_READY)
        return is_pipe(f->fds[0], O_WRONLY);
    if (m->op == SP_OP_STREAM)
        return is_pipe(f->fds[0], O_RDONLY);
    if (m->op != SP_OP_FILE || (m->flags & SP_FILE_WHOLE) != 0)
        return true;
    if (fstat(f->fds[0], &st) != 0 || !S_ISREG(st.st_mode))
        return false;
    if (m->flags & SP_FILE_LISTING) { /* a memfd, which nobody can write any more */
        int seals = fcntl(f->fds[0], F_GET_SEALS);
        return seals >= 0 && (seals & F_SEAL_WRITE);
    }
    int flags = fcntl(f->fds[0], F_GETFL);
    return flags >= 0 && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH);
}

/* ---- the messages ---- */

enum verdict { BREACH, STAYS, ENDS };

static enum verdict judge_exec(const struct op *o, uint8_t op, int nfds)
{
    bool started = o->state == OP_OPEN;
    if (op == SP_OP_STARTED)
        return started ? BREACH : STAYS;
    if (op == SP_OP_EXITED) /* a short one comes with its pipes */
        return nfds == (started ? 0 : 2) && (started || !o->want_stdin) ? ENDS : BREACH;
    return op == SP_OP_FAIL && !started ? ENDS : BREACH;
}

static enum verdict judge_put(const struct op *o, uint8_t op)
{
    if (op == SP_OP_FAIL)
        return ENDS;
    if (op == SP_OP_READY)
        return o->state == OP_STARTING ? STAYS : BREACH;
    if (op == SP_OP_STAGED)
        return o->state == OP_OPEN && o->staging ? STAYS : BREACH;
    return op == SP_OP_DONE && o->state == OP_COMMITTING ? ENDS : BREACH;
}

static enum verdict judge_archive(const struct op *o, uint8_t op)
{
    if (op == SP_OP_STREAM)
        return o->state == OP_STARTING ? STAYS : BREACH;
    return op == SP_OP_FAIL || (op == SP_OP_DONE && o->state == OP_OPEN) ? ENDS : BREACH;
}

static enum verdict judge(const struct op *o, uint8_t op, int nfds)
{
    switch (o->kind) {
    case SP_OP_EXEC:
        return judge_exec(o, op, nfds);
    case SP_OP_PUT:
        return judge_put(o, op);
    case SP_OP_ARCHIVE:
        return judge_archive(o, op);
    case SP_OP_OPEN: /* without a descriptor only where it may come whole */
        return (op == SP_OP_FILE && (nfds == 1 || o->whole)) || op == SP_OP_FAIL ? ENDS : BREACH;
    default:
        return op == SP_OP_DONE || op == SP_OP_FAIL ? ENDS : BREACH;
    }
}

static void pass_on(struct broker *b, const struct op *o, const struct sp_msg *m,
                    struct sp_frame *f)
{
    int fds[SP_FRAME_FDS], n = f->nfds;
    for (int i = 0; i < n; i++)
        fds[i] = sp_frame_take_fd(f, i);
    answer(b, o, m, fds, n);
}

void broker_from_cell(struct broker *b, struct slot *s, struct sp_frame *f, uint64_t now)
{
    struct sp_msg m;
    if (s->cell_breach != NULL)
        return; /* it is as good as dead */
    if (!sp_msg_decode(&m, f->data, f->len, f->nfds)) {
        broker_cell_broke(s, "it sent what isn't a message");
        return;
    }
    if (m.op == SP_OP_UP && !s->cell_up) {
        s->cell_up = true;
        return;
    }
    struct op *o = m.id != 0 && s->cell_up ? op_by_cell(b, m.id) : NULL;
    if (o == NULL || o->slot != s || o->state == OP_QUEUED || o->kind == SP_OP_REMOVE) {
        broker_cell_broke(s, "it answered what wasn't asked");
        return;
    }
    enum verdict v = judge(o, m.op, f->nfds);
    if (v == BREACH || !fds_sound(o, &m, f)) {
        broker_cell_broke(s, v == BREACH ? "it sent a message out of turn"
                                         : "it sent a descriptor of the wrong kind");
        return;
    }
    pass_on(b, o, &m, f);
    if (v == ENDS) {
        op_end(b, o, now);
    } else {
        o->state = OP_OPEN;
        o->staging = o->staging && m.op != SP_OP_STAGED;
        if (!o->cancelled)
            o->deadline = o->kind == SP_OP_EXEC ? now + o->timeout_ms : BROKER_NEVER;
    }
    settle(b, now);
}

uint64_t broker_tick(struct broker *b, uint64_t now)
{
    uint64_t next = BROKER_NEVER;
    b->now = now;
    for (unsigned i = 0; i < b->touched; i++) {
        struct op *o = &b->ops[i];
        if (o->state == OP_FREE || o->deadline == BROKER_NEVER)
            continue;
        if (o->deadline <= now) {
            if (o->cancelled)
                broker_cell_broke(o->slot, "it didn't end a cancelled operation in time");
            else if (o->state == OP_STARTING)
                broker_cell_broke(o->slot, "it didn't start a command in time");
            else
                cancel(b, o, SP_CANCEL_TIMEOUT, now);
        }
        if (o->deadline < next)
            next = o->deadline;
    }
    return next;
}
