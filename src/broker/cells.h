/* cells.h: the cell processes that the broker has, one for each slot at most. */
#ifndef SALLYPORT_BROKER_CELLS_H
#define SALLYPORT_BROKER_CELLS_H

#include "broker/broker.h"
#include "sallyport/confine.h"

struct cell_proc {
    pid_t pid;           /* 0: none */
    uint64_t started;    /* of the present one; without one: the last attempt */
    uint64_t restart_at; /* the seat, without one: when to start it */
    unsigned failures;   /* in a row */
    bool ever_up;
    unsigned group; /* of its cgroup, where the box has them; 0 none */
    int status;     /* of the last one, from waitpid */
};

/* A cell process without a slot; fd: our end of its socket. */
struct spare {
    pid_t pid;
    int fd;
    unsigned group; /* as cell_proc has it */
};

#define SPARES_MAX 8
struct spares {
    struct spare one[SPARES_MAX];
    unsigned n, want;
    int config_fd;        /* what all are told; -1 before the first */
    uint64_t due, latest; /* of the next one: when it is quiet, and in any case */
};

enum group_state { GROUP_FREE, GROUP_USED, GROUP_LEFT /* still to be removed */ };
#define GROUPS_MAX (BROKER_SLOTS_MAX + 2 * SPARES_MAX)

struct cells {
    const struct sp_config *cfg;
    struct broker *b;
    struct spares spares;
    unsigned char group[GROUPS_MAX];         /* enum group_state of the number less one */
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
int cells_launch(struct cells *c, const char *role, const struct sp_config *own, int config_fd,
                 int workspace, struct spare *made);
/* SIGKILL, to it and so that what it started needn't wait for its turn to die. */
void cells_kill(const struct cell_proc *p);
/* It was reaped. */
void cells_reaped(struct cells *c, struct cell_proc *p, int status);
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

/* ---- groups.c: the cgroups of the box's cells ---- */
/* Makes one with c's limits. 0 or -errno. home: the folder that its cell is to be born in. */
int group_make(struct cells *c, struct sp_cgroup_fds *f, int *home, unsigned *n);
/* Its cell is to be this user's. 0 or -errno. */
int group_give(unsigned n, uid_t uid);
/* Its cell is dead, or will be; *n becomes 0. */
void group_end(struct cells *c, unsigned *n);
/* Removes those that are empty by now. */
void groups_clear(struct cells *c);

uint64_t broker_now_ms(void);
#define CELLS_UP_GRACE_MS 15000u

#endif
