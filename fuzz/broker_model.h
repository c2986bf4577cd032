/* broker_model.h: what the front and the cells around a broker may see, for fuzz_broker.c. It knows
 * nothing of the broker's tables: only what was sent and what came. Included once; everything in it
 * is that target's own. */
#ifndef SALLYPORT_FUZZ_BROKER_MODEL_H
#define SALLYPORT_FUZZ_BROKER_MODEL_H

#include "broker/broker.h"
#include "input.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDS 2048u  /* of the front */
#define JOBS 8192u /* of the cells: the broker counts up from 1 */

/* An operation as the front sees it. */
struct asked {
    uint8_t kind; /* enum sp_op; 0: none */
    uint8_t key;
    bool want_stdin, staged_due, whole, opened, committed, cancelled;
    bool twice; /* asked again before its end was read: which one is answered isn't known */
};

/* The same as the cell sees it, by the broker's id. */
struct job {
    uint8_t kind;
    uint8_t slot;
    bool want_stdin, staged_due;
    bool whole;         /* PUT: came with its bytes. OPEN: the answer may */
    bool opened, ended; /* by what the cell said */
    bool committed, cancelled;
};

struct cell {
    struct sp_chan c;    /* our end; fd -1: none */
    struct sp_chan port; /* of its file threads' socket; fd -1: none */
    bool up;
    bool mute; /* it doesn't read now */
};

static struct broker b;
static struct sp_chan front;
static bool front_mute;   /* it doesn't read now */
static bool drained;      /* commands are ended without the front's asking */
static bool front_behind; /* nor did it all the time: what it may send isn't known */
static struct asked asked[IDS];
static struct job job[JOBS];
static struct cell cell[BROKER_SLOTS_MAX];
static struct sp_frame got;
static uint64_t now;

#define must(what) ((what) ? (void)0 : broken(#what, __LINE__))

static inline void broken(const char *what, int line)
{
    fprintf(stderr, "broken: line %d: %s\n", line, what);
    abort();
}

/* ---- descriptors that cells hand out ---- */

enum proto_fd { READ_END, WRITE_END, PLAIN, SEALED, FOLDER, DEVICE, WRITABLE, BARE, PROTO_FDS };
static int proto_fd[PROTO_FDS];

static inline void open_protos(void)
{
    int p[2];
    must(pipe2(p, O_CLOEXEC) == 0);
    proto_fd[READ_END] = p[0];
    proto_fd[WRITE_END] = p[1];
    proto_fd[PLAIN] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    proto_fd[SEALED] = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    must(fcntl(proto_fd[SEALED], F_ADD_SEALS, F_SEAL_WRITE) == 0);
    proto_fd[FOLDER] = open("/", O_RDONLY | O_CLOEXEC);
    proto_fd[DEVICE] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    proto_fd[WRITABLE] = memfd_create("y", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    /* Not /proc/self/exe: valgrind opens that itself, and otherwise. */
    proto_fd[BARE] = open("/etc/passwd", O_PATH | O_CLOEXEC);
}

/* The kinds that op carries, in order; the number. */
static inline int right_fds(const struct sp_msg *m, bool want_stdin, bool opened,
                            enum proto_fd out[3])
{
    out[0] = out[1] = READ_END;
    out[2] = WRITE_END;
    if (m->op == SP_OP_STARTED)
        return want_stdin ? 3 : 2;
    if (m->op == SP_OP_EXITED)
        return opened ? 0 : 2;
    if (m->op == SP_OP_READY)
        out[0] = WRITE_END;
    else if (m->op == SP_OP_FILE && (m->flags & SP_FILE_WHOLE))
        return 0;
    else if (m->op == SP_OP_FILE)
        out[0] = m->flags & SP_FILE_LISTING ? SEALED : PLAIN;
    else if (m->op != SP_OP_STREAM)
        return 0;
    return 1;
}

static inline void check_fds(const struct sp_frame *f, const struct sp_msg *m, bool want_stdin,
                             bool opened)
{
    enum proto_fd want[3];
    struct stat a, w;
    must(f->nfds == right_fds(m, want_stdin, opened, want));
    for (int i = 0; i < f->nfds; i++) {
        must(fstat(f->fds[i], &a) == 0 && fstat(proto_fd[want[i]], &w) == 0);
        must(a.st_dev == w.st_dev && a.st_ino == w.st_ino);
        must(fcntl(f->fds[i], F_GETFL) == fcntl(proto_fd[want[i]], F_GETFL));
    }
}

/* ---- the front's side ---- */

static inline bool is_request(uint8_t op)
{
    return op >= SP_OP_EXEC && op <= SP_OP_REMOVE && op != SP_OP_CANCEL && op != SP_OP_COMMIT;
}

/* What may come for an operation; and with it the operation goes on, or ends. */
static inline bool may_hear(struct asked *a, const struct sp_msg *m)
{
    bool ends = true, ok = false;
    if (m->op == SP_OP_FAIL) {
        ok = true;
    } else if (a->kind == SP_OP_EXEC) {
        ends = m->op == SP_OP_EXITED;
        ok = ends ? a->opened || !a->want_stdin : m->op == SP_OP_STARTED && !a->opened;
    } else if (a->kind == SP_OP_PUT) {
        ends = m->op == SP_OP_DONE;
        ok = ends ? a->committed
                  : (m->op == SP_OP_READY && !a->opened && !a->whole) ||
                        (m->op == SP_OP_STAGED && a->opened && a->staged_due && !a->committed);
        a->staged_due &= m->op != SP_OP_STAGED;
    } else if (a->kind == SP_OP_ARCHIVE) {
        ends = m->op == SP_OP_DONE;
        ok = ends ? a->opened : m->op == SP_OP_STREAM && !a->opened;
    } else {
        ok = m->op == (a->kind == SP_OP_OPEN ? SP_OP_FILE : SP_OP_DONE) &&
             (m->op != SP_OP_FILE || a->whole || !(m->flags & SP_FILE_WHOLE));
    }
    a->opened = true;
    if (ends)
        a->kind = 0;
    return ok;
}

static inline void front_reads(void)
{
    struct sp_msg m;
    while (!front_mute && sp_chan_recv(&front, &got) == 1) {
        must(sp_msg_decode(&m, got.data, got.len, got.nfds));
        struct asked *a = &asked[m.id % IDS];
        if (a->twice) {
            sp_frame_close_fds(&got);
            continue;
        }
        must(m.id > 0 && m.id < IDS && a->kind != 0);
        uint8_t key = a->key, kind = a->kind;
        check_fds(&got, &m, a->want_stdin, a->opened);
        must(may_hear(a, &m));
        if (kind != SP_OP_REMOVE && (m.op == SP_OP_DONE || m.op == SP_OP_FILE))
            must(m.size == key); /* the cell of this workspace, and of no other */
        if (m.op == SP_OP_EXITED)
            must(m.duration_us == key);
        sp_frame_close_fds(&got);
        (void)sp_chan_flush(&b.front); /* as the loop does */
    }
}

/* May a front that keeps the rules send this now? */
static inline bool front_may(const struct sp_msg *m)
{
    const struct asked *a = &asked[m->id];
    if (is_request(m->op))
        return a->kind == 0 && (m->key.n > 0) == b.box;
    if (m->op == SP_OP_CANCEL)
        return m->flags == SP_CANCEL_GONE;
    return m->op == SP_OP_COMMIT &&
           (a->kind == 0 || (a->kind == SP_OP_PUT && a->opened && !a->committed && !a->cancelled));
}

static inline bool is_whole(const struct sp_msg *m)
{
    return (m->op == SP_OP_PUT && (m->flags & SP_PUT_WHOLE)) ||
           (m->op == SP_OP_OPEN && (m->flags & SP_OPEN_WHOLE));
}

static inline void front_said(const struct sp_msg *m)
{
    struct asked *a = &asked[m->id];
    if (is_request(m->op))
        *a = (struct asked){.twice = a->twice || a->kind != 0,
                            .kind = m->op,
                            .key = (uint8_t)(m->key.n > 0 ? m->key.p[0] : 0),
                            .want_stdin = m->op == SP_OP_EXEC && (m->flags & SP_EXEC_STDIN),
                            .staged_due = m->op == SP_OP_PUT && (m->flags & SP_PUT_STAGED),
                            .whole = is_whole(m)};
    a->committed |= m->op == SP_OP_COMMIT || (m->op == SP_OP_PUT && a->whole);
    a->cancelled |= m->op == SP_OP_CANCEL;
}

/* ---- the cells' side ---- */

static inline uint8_t key_of(unsigned slot)
{
    return b.box ? b.slot[slot].key[0] : 0;
}

/* Nobody is asked for what isn't in its workspace, nor for two commands at once; what is taken back
 * or committed was asked for. */
static inline void cell_hears(unsigned slot, const struct sp_msg *m)
{
    must(m->id > 0 && m->id < JOBS && m->key.n == 0);
    struct job *j = &job[m->id];
    if (is_request(m->op)) {
        char text[16];
        struct sp_slice said = m->op == SP_OP_EXEC ? m->command : m->path;
        (void)snprintf(text, sizeof text, "k%03u", key_of(slot));
        must(m->op != SP_OP_REMOVE && j->kind == 0 && said.n >= 4 && memcmp(said.p, text, 4) == 0);
        for (uint32_t i = 1; m->op == SP_OP_EXEC && i <= b.last_cell_id; i++)
            must(job[i].kind != SP_OP_EXEC || job[i].slot != slot || job[i].ended);
        j->kind = m->op;
        j->slot = (uint8_t)slot;
        j->want_stdin = m->op == SP_OP_EXEC && (m->flags & SP_EXEC_STDIN);
        j->staged_due = m->op == SP_OP_PUT && (m->flags & SP_PUT_STAGED);
        j->whole = is_whole(m);
        j->committed = m->op == SP_OP_PUT && j->whole;
        return;
    }
    must(j->kind != 0 && j->slot == slot);
    if (m->op == SP_OP_COMMIT) {
        must(j->kind == SP_OP_PUT && !j->committed && !j->cancelled && (j->opened || j->ended));
        j->committed = true;
    } else {
        must(m->op == SP_OP_CANCEL && !j->cancelled &&
             (j->kind == SP_OP_EXEC || j->kind == SP_OP_PUT));
        j->cancelled = true;
    }
}

/* What the file threads read: it is all theirs, and may be taken back by the other way. */
static inline void port_read(unsigned i)
{
    struct sp_msg m;
    while (cell[i].port.fd >= 0 && sp_chan_recv(&cell[i].port, &got) == 1) {
        must(sp_msg_decode(&m, got.data, got.len, got.nfds));
        must(m.op == SP_OP_OPEN || m.op == SP_OP_DELETE || m.op == SP_OP_USAGE ||
             (m.op == SP_OP_PUT && (m.flags & SP_PUT_WHOLE)));
        cell_hears(i, &m);
    }
}

static inline void cells_read(void)
{
    struct sp_msg m;
    for (unsigned i = 0; i < BROKER_SLOTS_MAX; i++) {
        if (!cell[i].mute)
            port_read(i);
        while (cell[i].c.fd >= 0 && !cell[i].mute && sp_chan_recv(&cell[i].c, &got) == 1) {
            must(sp_msg_decode(&m, got.data, got.len, got.nfds));
            if (m.op == SP_OP_PORT) {
                must(b.ports && cell[i].up && cell[i].port.fd < 0);
                sp_chan_init(&cell[i].port, sp_frame_take_fd(&got, 0));
                port_read(i); /* what is taken back further on may be there */
            } else {
                cell_hears(i, &m);
            }
            (void)sp_chan_flush(&b.slot[i].cell);
        }
    }
}

/* May a cell that keeps the rules say this now? */
static inline bool cell_may(unsigned slot, const struct sp_msg *m)
{
    const struct job *j = m->id < JOBS ? &job[m->id] : NULL;
    if (m->op == SP_OP_UP)
        return !cell[slot].up;
    if (!cell[slot].up || j == NULL || j->kind == 0 || j->slot != slot || j->ended)
        return false;
    switch (j->kind) {
    case SP_OP_EXEC:
        if (m->op == SP_OP_EXITED)
            return j->opened || !j->want_stdin;
        return (m->op == SP_OP_STARTED || m->op == SP_OP_FAIL) && !j->opened;
    case SP_OP_PUT:
        return m->op == SP_OP_FAIL || (m->op == SP_OP_READY && !j->opened && !j->whole) ||
               (m->op == SP_OP_STAGED && j->opened && j->staged_due && !j->committed) ||
               (m->op == SP_OP_DONE && j->committed);
    case SP_OP_ARCHIVE:
        return m->op == SP_OP_FAIL || m->op == (j->opened ? SP_OP_DONE : SP_OP_STREAM);
    case SP_OP_OPEN:
        return m->op == SP_OP_FAIL ||
               (m->op == SP_OP_FILE && (j->whole || !(m->flags & SP_FILE_WHOLE)));
    default:
        return m->op == SP_OP_FAIL || m->op == SP_OP_DONE;
    }
}

static inline void cell_said(unsigned slot, const struct sp_msg *m)
{
    cell[slot].up |= m->op == SP_OP_UP;
    if (m->id == 0 || m->id >= JOBS)
        return;
    struct job *j = &job[m->id];
    bool goes_on = m->op == SP_OP_STARTED || m->op == SP_OP_READY || m->op == SP_OP_STREAM ||
                   m->op == SP_OP_STAGED;
    j->opened |= goes_on;
    j->staged_due &= m->op != SP_OP_STAGED;
    j->ended |= !goes_on;
}

static inline void cell_died(unsigned slot)
{
    for (uint32_t i = 1; i <= b.last_cell_id && i < JOBS; i++)
        job[i].ended |= job[i].kind != 0 && job[i].slot == slot;
    sp_chan_close(&cell[slot].c);
    sp_chan_close(&cell[slot].port);
    cell[slot].up = cell[slot].mute = false;
}

#endif
