/* cells.c: starts, replaces and ends cell processes. A cell is the only process with the
 * workspace; when one dies, what it had started is killed before the next one begins, so that
 * no command outlives the process that accounted for it. Trusts main's settings alone. */
#include "broker/cells.h"
#include "sallyport/log.h"
#include "sallyport/sweep.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BACKOFF_FIRST_MS 100u
#define BACKOFF_LAST_MS 2000u
#define SETTLED_MS 60000u /* a cell that lived so long failed for a reason of its own */
#define UP_GRACE_MS 15000u
#define SWEEP_MS 10000u
#define FINISH_MS 5000

static struct rlimit files_before, files_ours;

uint64_t broker_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

void cells_init(struct cells *c, struct broker *b, const struct sp_config *cfg)
{
    *c = (struct cells){.cfg = cfg, .b = b};
    if (getrlimit(RLIMIT_NOFILE, &files_before) != 0)
        sp_log(SP_LOG_WARN, "can't read the limit of open files: %s", strerror(errno));
    files_ours = files_before;
    files_ours.rlim_cur = files_ours.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files_ours);
}

static void schedule(struct cells *c, uint64_t now)
{
    if (c->started != 0 && now - c->started >= SETTLED_MS)
        c->failures = 0;
    uint64_t wait = 0;
    if (c->failures > 0) {
        unsigned shift = c->failures - 1 < 8 ? c->failures - 1 : 8;
        wait = (uint64_t)BACKOFF_FIRST_MS << shift;
        wait = wait < BACKOFF_LAST_MS ? wait : BACKOFF_LAST_MS;
    }
    c->failures++;
    c->restart_at = now + wait;
}

int cells_start(struct cells *c, uint64_t now)
{
    int pair[2];
    int r = sp_frame_pair(pair);
    if (r != 0) {
        schedule(c, now);
        return r;
    }
    const struct sp_fdmap map[] = {{pair[1], SP_FD_MAIN},
                                   {SP_FD_CONFIG, SP_FD_CONFIG},
                                   {SP_FD_EXTRA, SP_FD_EXTRA},
                                   {SP_FD_FILTERS, SP_FD_FILTERS}};
    (void)setrlimit(RLIMIT_NOFILE, &files_before);
    pid_t pid = sp_role_spawn("cell", map, 4);
    (void)setrlimit(RLIMIT_NOFILE, &files_ours);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        sp_log(SP_LOG_ERROR, "can't start a cell: %s", strerror(-pid));
        schedule(c, now);
        return pid;
    }
    c->pid = pid;
    c->started = now;
    broker_cell_new(c->b, pair[0], now);
    return 0;
}

static void sweep(const struct cells *c)
{
    uid_t uid = c->cfg->own_uid && c->cfg->switch_uid ? c->cfg->command_uid : (uid_t)-1;
    int left = sp_sweep(NULL, 0, uid, SWEEP_MS);
    if (left < 0)
        sp_log(SP_LOG_ERROR, "can't look for processes that a cell left: %s", strerror(-left));
    else if (left > 0)
        sp_log(SP_LOG_ERROR, "%d processes that a cell left are still dying", left);
}

void cells_lost(struct cells *c, const char *why, uint64_t now)
{
    sp_log(SP_LOG_ERROR, "the cell is lost: %s", why);
    if (c->pid > 0)
        (void)kill(c->pid, SIGKILL);
    c->pid = 0;
    sweep(c); /* reaps it too */
    now = broker_now_ms() > now ? broker_now_ms() : now;
    schedule(c, now);
    bool at_once = c->restart_at <= now && c->ever_up;
    broker_cell_gone(c->b, at_once, now);
    if (at_once && cells_start(c, now) != 0)
        broker_cell_gone(c->b, false, now);
}

uint64_t cells_tick(struct cells *c, uint64_t now)
{
    if (c->pid == 0) {
        /* One that died unheard is cleared away first: a start would forget that it had work. */
        if (c->restart_at <= now && c->b->cell_breach == NULL)
            (void)cells_start(c, now);
        return c->pid == 0 ? c->restart_at : c->started + UP_GRACE_MS;
    }
    if (c->b->cell_up) {
        c->ever_up = true;
        return BROKER_NEVER;
    }
    if (now >= c->started + UP_GRACE_MS) {
        broker_cell_broke(c->b, "it didn't come up in time");
        return now;
    }
    return c->started + UP_GRACE_MS;
}

void cells_finish(struct cells *c)
{
    sp_chan_close(&c->b->cell); /* it kills its commands and ends */
    uint64_t end = broker_now_ms() + FINISH_MS;
    while (c->pid > 0 && broker_now_ms() < end) {
        pid_t pid = waitpid(-1, NULL, WNOHANG);
        if (pid == c->pid)
            c->pid = 0;
        if (pid == 0)
            (void)poll(NULL, 0, 5);
        else if (pid < 0)
            break;
    }
    if (c->pid > 0) {
        sp_log(SP_LOG_WARN, "the cell didn't end by itself");
        (void)kill(c->pid, SIGKILL);
        c->pid = 0;
    }
    sweep(c);
}
