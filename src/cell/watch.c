/* watch.c: the quota while a command runs. The tree is counted again and again by a file thread, at
 * an interval that keeps this under two hundredths of a core, but of ten seconds at most; between
 * two counts the file system is asked how much it has left, and where it lost what would take the
 * workspace over its quota, whoever wrote that, the next count comes at once, for a quarter of a
 * core at most. A command that made its tree grow over the quota is killed. One that began over the
 * quota may go on as long as it doesn't make it worse: it may be the one that removes things. But
 * none goes on far above the quota, or while the tree can't be counted, as when folders are moved
 * about under our feet again and again. On the main thread. */
#include "cell/cell.h"

#include <sys/vfs.h>

#define FIRST_NS 50000000u     /* from a command's start: most are over by then */
#define INTERVAL_NS 200000000u /* at least */
#define SHARE 50u              /* one part in so many of a core */
#define HASTY_SHARE 4u         /* while the file system fills up */
#define MOST_NS 10000000000u   /* file systems that don't tell what they have left */
#define ROOM_PART 8u  /* of the quota: what others write is no cause for a count each time */
#define FAILED_MAX 8u /* counts in a row */

static uint64_t earliest(struct sp_quota *q, unsigned share, uint64_t wanted)
{
    pthread_mutex_lock(&q->lock);
    uint64_t rest = q->cost_ns * share;
    uint64_t t = q->counted_ns + (rest < MOST_NS ? rest : MOST_NS);
    pthread_mutex_unlock(&q->lock);
    return t > wanted ? t : wanted;
}

/* What the file system has left, in bytes; 0 if it doesn't tell. */
static uint64_t left(const struct sp_cell *c)
{
    struct statfs fs;
    if (fstatfs(c->root, &fs) != 0 || fs.f_bsize <= 0)
        return 0;
    return (uint64_t)fs.f_bfree * (uint64_t)fs.f_bsize;
}

/* Since the last count began it lost more than the workspace may grow by. */
static bool filling(struct sp_cell *c)
{
    struct sp_watch *w = &c->watch;
    uint64_t now = left(c);
    if (w->left <= now)
        return false;
    pthread_mutex_lock(&c->quota.lock);
    uint64_t room = c->quota.limit / ROOM_PART;
    if (w->have_base && w->base > c->quota.used && w->base - c->quota.used > room)
        room = w->base - c->quota.used;
    pthread_mutex_unlock(&c->quota.lock);
    return w->left - now > room;
}

static void plan(struct sp_cell *c, uint64_t wanted)
{
    struct sp_watch *w = &c->watch;
    w->count_ns = earliest(&c->quota, SHARE, wanted);
    w->due_ns = earliest(&c->quota, HASTY_SHARE, wanted);
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
    plan(c, sp_now_ns() + (w->have_base ? FIRST_NS : 0));
    w->left = w->count_ns > w->due_ns ? left(c) : 0; /* a small tree is counted soon anyway */
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
    uint64_t now = sp_now_ns();
    if (!w->on || w->counting || now < w->due_ns)
        return;
    if (c->exec.state == SP_EXEC_SPAWNING) /* it waits for nothing that can wait */
        return;
    if (now < w->count_ns && !filling(c)) {
        w->due_ns = now + INTERVAL_NS < w->count_ns ? now + INTERVAL_NS : w->count_ns;
        return;
    }
    w->left = left(c);
    const struct sp_msg m = {.op = SP_OP_USAGE, .path = {"", 0}}; /* id 0: ours */
    w->counting = sp_pool_job(&c->pool, &m) == SP_OK;
    if (!w->counting)
        w->due_ns = now + INTERVAL_NS;
}

void sp_watch_counted(struct sp_cell *c, bool ok)
{
    struct sp_watch *w = &c->watch;
    w->counting = false;
    plan(c, sp_now_ns() + INTERVAL_NS);
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
