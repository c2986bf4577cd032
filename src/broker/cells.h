/* cells.h: the cell processes that the broker has, one for each slot at most. */
#ifndef SALLYPORT_BROKER_CELLS_H
#define SALLYPORT_BROKER_CELLS_H

#include "broker/broker.h"
#include "sallyport/role.h"

struct cell_proc {
    pid_t pid;           /* 0: none */
    uint64_t started;    /* of the present one; without one: the last attempt */
    uint64_t restart_at; /* the seat, without one: when to start it */
    unsigned failures;   /* in a row */
    bool ever_up;
    int status; /* of the last one, from waitpid */
};

/* A cell process without a slot; fd: our end of its socket. */
struct spare {
    pid_t pid;
    int fd;
};

#define SPARES_MAX 8
struct spares {
    struct spare one[SPARES_MAX];
    unsigned n, want;
    int config_fd;        /* what all are told; -1 before the first */
    uint64_t due, latest; /* of the next one: when it is quiet, and in any case */
};

struct cells {
    const struct sp_config *cfg;
    struct broker *b;
    struct spares spares;
    struct cell_proc proc[BROKER_SLOTS_MAX]; /* of the slot with the same number */
};

/* Raises our own limit of open files; cells get the old one. */
void cells_init(struct cells *c, struct broker *b, const struct sp_config *cfg);
struct cell_proc *cells_proc(struct cells *c, const struct slot *s);
/* Starts one for a slot. own: settings for it alone, or NULL for those that all have. workspace:
 * its folder. 0 or -errno. */
int cells_start(struct cells *c, struct slot *s, const struct sp_config *own, int workspace,
                uint64_t now);
/* The same without a slot, as role "cell" or "idle"; workspace -1: none. own: its namespaces. */
int cells_launch(const struct cells *c, const char *role, const struct sp_config *own,
                 int config_fd, int workspace, struct spare *made);
/* Takes out of settings what no cell need know. */
void cells_forget(struct sp_config *own);
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

/* ---- spare.c: the box's cells that wait for an identity ---- */
void spare_init(struct cells *c);
/* Starts one that is missing, when there is time for it; the time of the next thing due. */
uint64_t spare_tick(struct cells *c, uint64_t now);
/* Makes one the cell of slot s. 0 or -errno: then one has to be started. */
int spare_give(struct cells *c, struct slot *s, uid_t uid, int workspace, uint64_t now);
/* True if the process, which was reaped, was one. */
bool spare_ended(struct cells *c, pid_t pid, int status, uint64_t now);
void spare_finish(struct cells *c);

uint64_t broker_now_ms(void);
#define CELLS_UP_GRACE_MS 15000u

#endif
