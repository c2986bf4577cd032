/* ticks.c: the clock of the loop's timers. libh2o asks gettimeofday for it, so that a wall clock
 * that is set forward would end every wait at once, and one that is set back would hold all of them
 * up for as long, those of no time at all too, by which TLS goes on. This definition takes the
 * place of libc's in our file; in a front it counts from the machine's start instead. Nothing else
 * in a front asks for the time of day by that call. Trusts the kernel. */
#include "front.h"

#include "sallyport/log.h"

#include <sys/time.h>
#include <time.h>

/* Seconds ahead: libh2o takes a timeout, of a day or more, from the time without a look. */
#define AHEAD (INT64_C(1) << 31)

static bool steady;

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
                                                        void *restrict zone)
{
    struct timespec t;
    (void)zone;
    if (clock_gettime(steady ? CLOCK_MONOTONIC : CLOCK_REALTIME, &t) != 0)
        return -1;
    tv->tv_sec = t.tv_sec + (steady ? AHEAD : 0);
    tv->tv_usec = t.tv_nsec / 1000;
    return 0;
}

h2o_loop_t *ticks_loop(void)
{
    struct timeval now = {0};
    steady = true;
    h2o_loop_t *loop = h2o_evloop_create();
    (void)gettimeofday(&now, NULL);
    if (loop != NULL && (int64_t)(h2o_now(loop) / 1000) - now.tv_sec < -1)
        sp_log(SP_LOG_WARN, "time limits go by the wall clock: setting it upsets them");
    return loop;
}
