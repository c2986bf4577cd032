/* watch.c: the quota while a command runs. The tree is counted again and again by a file thread, at
 * an interval that keeps this under two hundredths of a core, but of ten seconds at most; a command
 * that made it grow over the quota is killed. One that began over the quota may go on as long as it
 * doesn't make it worse: it may be the one that removes things. But none goes on far above the
 * quota, or while the tree can't be counted, as when folders are moved about under our feet again
 * and again. On the main thread. */
#include "cell/cell.h"

#define FIRST_NS 50000000u     /* from a command's start: most are over by then */
#define INTERVAL_NS 200000000u /* at least */
#define SHARE 50u              /* one part in so many of a core */
#define MOST_NS 10000000000u   /* what a command can write meanwhile is past the quota */
#define FAILED_MAX 8u          /* counts in a row */

static uint64_t earliest(struct sp_quota *q, uint64_t wanted)
{
    pthread_mutex_lock(&q->lock);
    uint64_t rest = q->cost_ns * SHARE;
    uint64_t t = q->counted_ns + (rest < MOST_NS ? rest : MOST_NS);
    pthread_mutex_unlock(&q->lock);
    return t > wanted ? t : wanted;
}

void sp_watch_started(struct sp_cell *c)
{
    struct sp_watch *w = &c->watch;
    if (c->quota.limit == 0)
        return;
    pthread_mutex_lock(&c->quota.lock);
    w->have_base = c->quota.known && !c->quota.stale;
    w->base = c->quota.used > c->quota.limit ? c->quota.used : c->quota.limit;
    pthread_mutex_unlock(&c->quota.lock);
    w->on = true;
    w->failed = 0;
    w->due_ns = earliest(&c->quota, sp_now_ns() + (w->have_base ? FIRST_NS : 0));
}

void sp_watch_ended(struct sp_cell *c)
{
    c->watch.on = false;
    sp_quota_changed(&c->quota);
}

int sp_watch_wait_ms(const struct sp_cell *c)
{
    if (!c->watch.on || c->watch.counting || c->exec.state == SP_EXEC_SPAWNING)
        return -1;
    uint64_t now = sp_now_ns();
    return c->watch.due_ns <= now ? 0 : (int)((c->watch.due_ns - now) / 1000000u) + 1;
}

void sp_watch_tick(struct sp_cell *c)
{
    struct sp_watch *w = &c->watch;
    if (!w->on || w->counting || sp_now_ns() < w->due_ns)
        return;
    if (c->exec.state == SP_EXEC_SPAWNING) /* it waits for nothing that can wait */
        return;
    const struct sp_msg m = {.op = SP_OP_USAGE, .path = {"", 0}}; /* id 0: ours */
    w->counting = sp_pool_job(&c->pool, &m) == SP_OK;
    if (!w->counting)
        w->due_ns = sp_now_ns() + INTERVAL_NS;
}

void sp_watch_counted(struct sp_cell *c, bool ok)
{
    struct sp_watch *w = &c->watch;
    w->counting = false;
    w->due_ns = earliest(&c->quota, sp_now_ns() + INTERVAL_NS);
    if (!w->on)
        return;
    w->failed = ok ? 0 : w->failed + 1;
    if (w->failed >= FAILED_MAX || sp_quota_doubled(&c->quota))
        sp_exec_over_quota(c);
    if (!ok)
        return;
    pthread_mutex_lock(&c->quota.lock);
    uint64_t used = c->quota.used;
    pthread_mutex_unlock(&c->quota.lock);
    uint64_t least = used > c->quota.limit ? used : c->quota.limit;
    if (!w->have_base || least < w->base)
        w->base = least;
    w->have_base = true;
    if (used > w->base)
        sp_exec_over_quota(c);
}
