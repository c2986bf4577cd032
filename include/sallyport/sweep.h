/* sweep.h: the last resort against processes that outlived what should have ended them. For a child
 * subreaper: every orphan below it is in the end its child. */
#ifndef SALLYPORT_SWEEP_H
#define SALLYPORT_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Kills and reaps every descendant of the caller but keep[0..n) and what is below those. uid: a
 * user id that only such descendants have, or (uid_t)-1. When half the time is gone and some still
 * live, all its processes are killed at once, which needs CAP_SETUID and CAP_KILL. Returns 0, or
 * how many still lived after limit_ms; -errno without a usable /proc. */
int sp_sweep(const pid_t *keep, int n, uid_t uid, uint64_t limit_ms);

#endif
