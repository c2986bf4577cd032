/* broker.h: the broker's state, without a process around it: channels go in, frames go in, the time
 * goes in, and what the loop has to do comes out as flags. So that a test or a fuzzer can be the
 * front, the cells and the clock.
 *
 * A slot is a workspace in use: its cell, its one running command and who waits for it. The seat
 * has one slot, for ever. The box has one for each identity that is at work, and its requests carry
 * the identity's key.
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
#define BROKER_SLOTS_MAX 128          /* of the box */
#define BROKER_SLOT_OPS_MAX 256       /* of the box: one identity can't take all */
#define BROKER_QUEUE_MAX 16           /* of the seat */
#define BROKER_HELD_MAX (32u << 20)   /* bytes of all requests that wait, in all queues */
#define BROKER_BUCKETS 2048           /* power of two, over BROKER_OPS_MAX */
#define BROKER_CANCEL_GRACE_MS 10000u /* from a CANCEL to the end that the cell owes */
#define BROKER_START_GRACE_MS 30000u  /* from an EXEC to STARTED or FAIL */
#define BROKER_NEVER UINT64_MAX

enum op_state {
    OP_FREE,
    OP_QUEUED,     /* EXEC that waits for its slot's command to end; others: for the cell */
    OP_STARTING,   /* EXEC sent; PUT sent; every other operation for its whole life */
    OP_OPEN,       /* EXEC: STARTED seen. PUT: READY seen */
    OP_COMMITTING, /* PUT: COMMIT sent, or all of it at once */
};

struct slot;

struct op {
    enum op_state state;
    struct slot *slot;
    uint8_t kind;    /* enum sp_op of the request */
    bool want_stdin; /* EXEC: three descriptors are due */
    bool staging;    /* PUT: STAGED is due */
    bool whole;      /* PUT: sent with its bytes. OPEN: the bytes may be in the answer */
    bool cancelled;  /* a CANCEL went to the cell */
    bool left;       /* ... and because its client or front left, not for its timeout */
    bool orphan;     /* its front is gone: answer nobody */
    uint32_t front_id, cell_id;
    uint64_t timeout_ms;
    uint64_t deadline;                 /* of the present wait; BROKER_NEVER */
    struct op *next_front, *next_cell; /* hash chains */
    struct op *next_queued;
    uint8_t *held; /* OP_QUEUED: the encoded request */
    size_t held_len;
};

struct queue {
    struct op *head, *tail;
    unsigned n;
};

struct slot {
    bool used;
    bool removing; /* its workspace goes: nobody is let in */
    uint8_t key[SP_KEY_LEN];
    struct sp_chan cell; /* fd -1: none */
    struct sp_chan port; /* to its file threads; fd -1: none, or not yet */
    bool cell_up;        /* this cell has said UP */
    struct op *seat;     /* the EXEC that the cell has */
    struct queue queue;  /* EXECs */
    struct queue early;  /* the box: all else that came before the cell */
    unsigned nops;       /* operations of this slot, in any state */
    uint64_t idle_since; /* with nops 0 */
    /* Set once, read and cleared by the loop. */
    const char *cell_breach; /* why the cell has to be killed; then call broker_cell_gone */
};

struct broker {
    struct sp_chan front; /* fd -1: none */
    bool draining;
    uint64_t max_timeout_ms;
    unsigned front_fds; /* that may wait for the front to take them */
    bool box;
    bool ports;                   /* cells may be given a second socket */
    unsigned queue_max, busy_max; /* EXECs that wait in a slot; slots with one that runs or waits */
    uint64_t now;                 /* as the loop last told */
    size_t held;                  /* bytes that wait in all queues */

    struct slot slot[BROKER_SLOTS_MAX]; /* the seat's is the first */

    struct op ops[BROKER_OPS_MAX];
    struct op *free_ops; /* of those that were in use before */
    unsigned touched;    /* the first so many of `ops` were */
    unsigned nops;
    struct op *by_front[BROKER_BUCKETS], *by_cell[BROKER_BUCKETS];
    uint32_t last_cell_id;

    /* Set once, read and cleared by the loop. */
    bool front_broken;        /* nothing is sent to it or read from it any more */
    const char *front_breach; /* why; its work is cancelled: tell main, then broker_front_gone */
};

/* b: all zero, as static memory is. Not cleared here: that would touch all of its pages. */
void broker_init(struct broker *b, uint64_t max_timeout_ms);
/* Before anything else: many slots, made as keys come. */
void broker_be_box(struct broker *b, unsigned queue_max, unsigned busy_max);
/* Closes both channels and frees what is queued. */
void broker_free(struct broker *b);

/* ---- what the loop calls ---- */
/* One frame each. Descriptors left in f stay the caller's to close. */
void broker_from_front(struct broker *b, struct sp_frame *f, uint64_t now);
void broker_from_cell(struct broker *b, struct slot *s, struct sp_frame *f, uint64_t now);
/* A front's end: cancels its work, forgets its ids, closes its channel. */
void broker_front_gone(struct broker *b, uint64_t now);
/* A new front; the old one, if any, is gone. Takes fd. */
void broker_front_new(struct broker *b, int fd, uint64_t now);
/* The front misbehaves, by a frame that isn't one for instance. */
void broker_front_broke(struct broker *b, const char *why, uint64_t now);
/* A cell was started at the other end of fd (taken). What waited for one goes to it at once. */
void broker_cell_new(struct broker *b, struct slot *s, int fd, uint64_t now);
/* The cell and all it had are dead: fails its operations. What is queued waits for
 * broker_cell_new, unless there won't be one at once (retry false): that fails with e, too. */
void broker_cell_gone(struct broker *b, struct slot *s, bool retry, enum sp_err e, uint64_t now);
void broker_cell_broke(struct slot *s, const char *why);
/* True if the slot has anything that waits for a cell. */
bool broker_slot_waits(const struct slot *s);
/* Closes what leads to its cell. */
void broker_slot_part(struct slot *s);
/* A slot without operations and cell is nobody's any more. */
void broker_slot_free(struct slot *s);
/* The slot of a key; NULL: none, and with make: all are in use. */
struct slot *broker_slot(struct broker *b, const uint8_t key[SP_KEY_LEN], bool make);
/* Cancels the running commands, refuses queued and later ones. */
void broker_kill_all(struct broker *b, uint64_t now);
/* Does what is due; the time of the next thing due, or BROKER_NEVER. */
uint64_t broker_tick(struct broker *b, uint64_t now);

/* ---- table.c ---- */
bool broker_full(const struct broker *b);
/* NULL when all are taken. front_id must not be alive. */
struct op *op_new(struct broker *b, struct slot *s, uint8_t kind, uint32_t front_id);
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
void seat_admit(struct broker *b, struct slot *s, const struct sp_msg *m, uint64_t now);
/* Frees an operation that was answered; a freed seat goes to the queue. */
void op_begun(struct op *o); /* its request goes to the cell */
void op_end(struct broker *b, struct op *o, uint64_t now);
/* What o holds, if anything, has gone to the cell or won't. */
void op_release(struct broker *b, struct op *o);
/* Takes a queued operation out of its slot's queue. */
void queue_remove(struct op *o);
/* Holds a request until the slot has a cell. False: no memory, or as much as there may be is held.
 */
bool queue_add(struct broker *b, struct op *o, const struct sp_msg *m);
/* Everyone in the queue is told e. */
void queue_fail(struct broker *b, struct queue *q, enum sp_err e);
/* What came before the cell goes to it. */
void queue_flush(struct broker *b, struct slot *s);
/* The first in the queue takes a free seat; in the seat the others learn that it is taken. */
void queue_next(struct broker *b, struct slot *s, uint64_t now);
/* After anything that may have sent to the front: lets go a front that broke. */
void settle(struct broker *b, uint64_t now);

#endif
