/* cells.h: the one cell process that the broker has at a time. */
#ifndef SALLYPORT_BROKER_CELLS_H
#define SALLYPORT_BROKER_CELLS_H

#include "broker/broker.h"
#include "sallyport/role.h"

struct cells {
    const struct sp_config *cfg;
    struct broker *b;
    pid_t pid;           /* 0: none */
    uint64_t started;    /* of the present one */
    uint64_t restart_at; /* without one: when to start it */
    unsigned failures;   /* in a row */
    bool ever_up;
};

/* Raises our own limit of open files; cells get the old one. */
void cells_init(struct cells *c, struct broker *b, const struct sp_config *cfg);
/* 0 or -errno; on failure another attempt is scheduled. */
int cells_start(struct cells *c, uint64_t now);
/* Kills the cell, if it lives, and everything that it left; fails what it had to do and
 * starts another, now or later. */
void cells_lost(struct cells *c, const char *why, uint64_t now);
/* What is due; the time of the next thing due, or BROKER_NEVER. */
uint64_t cells_tick(struct cells *c, uint64_t now);
/* At our own end: asks it to end, waits, insists. */
void cells_finish(struct cells *c);

uint64_t broker_now_ms(void);

#endif
