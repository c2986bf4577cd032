/* cells.h: the cell processes that the broker has, one for each slot at most. */
#ifndef SALLYPORT_BROKER_CELLS_H
#define SALLYPORT_BROKER_CELLS_H

#include "broker/broker.h"
#include "sallyport/role.h"

struct cell_proc {
    pid_t pid;           /* 0: none */
    uint64_t started;    /* of the present one */
    uint64_t restart_at; /* the seat, without one: when to start it */
    unsigned failures;   /* in a row */
    bool ever_up;
    int status; /* of the last one, from waitpid */
};

struct cells {
    const struct sp_config *cfg;
    struct broker *b;
    struct cell_proc proc[BROKER_SLOTS_MAX]; /* of the slot with the same number */
};

/* Raises our own limit of open files; cells get the old one. */
void cells_init(struct cells *c, struct broker *b, const struct sp_config *cfg);
struct cell_proc *cells_proc(struct cells *c, const struct slot *s);
/* Starts one for a slot. own: settings for it alone, or NULL for those that all have. workspace:
 * its folder. 0 or -errno. */
int cells_start(struct cells *c, struct slot *s, const struct sp_config *own, int workspace,
                uint64_t now);
/* Of the process with this pid, which was reaped; NULL: none of ours. */
struct slot *cells_by_pid(struct cells *c, pid_t pid);

/* ---- the seat: it always has one ---- */
/* 0 or -errno; on failure another attempt is scheduled. */
int cells_seat_start(struct cells *c, uint64_t now);
/* Kills the cell, if it lives, and everything that it left; fails what it had to do and
 * starts another, now or later. */
void cells_seat_lost(struct cells *c, const char *why, uint64_t now);
/* What is due; the time of the next thing due, or BROKER_NEVER. */
uint64_t cells_seat_tick(struct cells *c, uint64_t now);

/* At our own end: asks all to end, waits, insists. */
void cells_finish(struct cells *c);

uint64_t broker_now_ms(void);
#define CELLS_UP_GRACE_MS 15000u

#endif
