/* broker.h: the broker's state, without a process around it: channels go in, frames go in, the time
 * goes in, and what the loop has to do comes out as flags. So that a test or a fuzzer can be the
 * front, the cell and the clock.
 *
 * Neither the front nor the cell is trusted. The front's ids never reach the cell: each
 * operation has a second id that we made. */
#ifndef SALLYPORT_BROKER_BROKER_H
#define SALLYPORT_BROKER_BROKER_H

#include "sallyport/frame.h"
#include "sallyport/proto.h"

#include <stdbool.h>
#include <stdint.h>

#define BROKER_OPS_MAX 1024
#define BROKER_QUEUE_MAX 16
#define BROKER_BUCKETS 2048           /* power of two, over BROKER_OPS_MAX */
#define BROKER_CANCEL_GRACE_MS 10000u /* from a CANCEL to the end that the cell owes */
#define BROKER_START_GRACE_MS 30000u  /* from an EXEC to STARTED or FAIL */
#define BROKER_NEVER UINT64_MAX

enum op_state {
    OP_FREE,
    OP_QUEUED,     /* EXEC that waits for a seat whose holder is already being killed */
    OP_STARTING,   /* EXEC sent; PUT sent; every other operation for its whole life */
    OP_OPEN,       /* EXEC: STARTED seen. PUT: READY seen */
    OP_COMMITTING, /* PUT: COMMIT sent */
};

struct op {
    enum op_state state;
    uint8_t kind;    /* enum sp_op of the request */
    bool want_stdin; /* EXEC: three descriptors are due */
    bool cancelled;  /* a CANCEL went to the cell */
    bool left;       /* ... and because its client or front left, not for its timeout */
    bool orphan;     /* its front is gone: answer nobody */
    uint32_t front_id, cell_id;
    uint64_t timeout_ms;
    uint64_t deadline;                 /* of the present wait; BROKER_NEVER */
    struct op *next_front, *next_cell; /* hash chains */
    struct op *next_queued;
    uint8_t *held; /* OP_QUEUED: the encoded EXEC */
    size_t held_len;
};

struct broker {
    struct sp_chan front, cell; /* fd -1: none */
    bool cell_up;               /* this cell has said UP */
    bool draining;
    uint64_t max_timeout_ms;

    struct op ops[BROKER_OPS_MAX];
    struct op *free_ops;
    unsigned nops;
    struct op *by_front[BROKER_BUCKETS], *by_cell[BROKER_BUCKETS];
    uint32_t last_cell_id;

    struct op *seat; /* the EXEC that the cell has */
    struct op *queue_head, *queue_tail;
    unsigned nqueued;

    /* Set once, read and cleared by the loop. */
    bool front_broken;        /* nothing is sent to it or read from it any more */
    const char *front_breach; /* why; its work is cancelled: tell main, then broker_front_gone */
    const char *cell_breach;  /* why the cell has to be killed; then call broker_cell_gone */
};

void broker_init(struct broker *b, uint64_t max_timeout_ms);
/* Closes both channels and frees what is queued. */
void broker_free(struct broker *b);

/* ---- what the loop calls ---- */
/* One frame each. Descriptors left in f stay the caller's to close. */
void broker_from_front(struct broker *b, struct sp_frame *f, uint64_t now);
void broker_from_cell(struct broker *b, struct sp_frame *f, uint64_t now);
/* A front's end: cancels its work, forgets its ids, closes its channel. */
void broker_front_gone(struct broker *b, uint64_t now);
/* A new front; the old one, if any, is gone. Takes fd. */
void broker_front_new(struct broker *b, int fd, uint64_t now);
/* The front misbehaves, by a frame that isn't one for instance. */
void broker_front_broke(struct broker *b, const char *why, uint64_t now);
/* A cell was started at the other end of fd (taken). A queued command goes to it at once. */
void broker_cell_new(struct broker *b, int fd, uint64_t now);
/* The cell and all it had are dead: fails its operations. What is queued waits for
 * broker_cell_new, unless there won't be one at once (retry false). */
void broker_cell_gone(struct broker *b, bool retry, uint64_t now);
void broker_cell_broke(struct broker *b, const char *why);
/* Cancels the running command, refuses queued and later ones. */
void broker_kill_all(struct broker *b, uint64_t now);
/* Does what is due; the time of the next thing due, or BROKER_NEVER. */
uint64_t broker_tick(struct broker *b, uint64_t now);

/* ---- table.c ---- */
/* NULL when all are taken. front_id must not be alive. */
struct op *op_new(struct broker *b, uint8_t kind, uint32_t front_id);
struct op *op_by_front(struct broker *b, uint32_t id);
struct op *op_by_cell(struct broker *b, uint32_t id);
/* Out of the front's ids; the cell still owes its end. */
void op_orphan(struct broker *b, struct op *o);
void op_free(struct broker *b, struct op *o);

/* ---- seat.c ---- */
/* To the front, unless the operation is an orphan. Takes fds. */
void answer(struct broker *b, const struct op *o, const struct sp_msg *m, const int *fds, int nfds);
void answer_fail(struct broker *b, const struct op *o, enum sp_err e);
/* Sends a request of o to the cell; failing that, fails and frees o: false. */
bool forward(struct broker *b, struct op *o, const struct sp_msg *m);
/* why: SP_CANCEL_*. A queued command is answered and freed; operations that can't be
 * cancelled, or were, go on as they are. */
void cancel(struct broker *b, struct op *o, uint8_t why, uint64_t now);
/* Admission of an EXEC that was decoded. */
void seat_admit(struct broker *b, const struct sp_msg *m, uint64_t now);
/* Frees an operation that was answered; a freed seat goes to the queue. */
void op_end(struct broker *b, struct op *o, uint64_t now);
void queue_remove(struct broker *b, struct op *o);
/* Everyone in the queue is told e. */
void queue_fail(struct broker *b, enum sp_err e);
/* The first in the queue takes a free seat; the others learn that it is taken. */
void queue_next(struct broker *b, uint64_t now);
/* After anything that may have sent to the front: lets go a front that broke. */
void settle(struct broker *b, uint64_t now);

#endif
