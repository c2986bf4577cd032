/* quota.c: keeps the account of one workspace. A figure that says "too much" is believed only when
 * nothing but uploads happened since it was counted: else it is counted again first, so that
 * whoever made room is not refused. Trusts nothing about the tree. */
#include "cell/quota.h"

#include "cell/spawn.h"

#include <string.h>
#include <time.h>

/* What folders take isn't added up: so it is counted again once there may be so many new ones, and
 * one to sixteen of those that there were. */
#define ADDED_MIN 1024u
#define ADDED_PART 16u

void sp_quota_init(struct sp_quota *q, uint64_t limit)
{
    memset(q, 0, sizeof *q);
    pthread_mutex_init(&q->lock, NULL);
    q->limit = limit;
}

static uint64_t thread_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

enum sp_err sp_quota_count(struct sp_quota *q, const struct sp_workspace *w)
{
    struct sp_result r = {.fd = -1};
    uint64_t begun = thread_ns();
    pthread_mutex_lock(&q->lock);
    q->stale = false; /* what changes from here on makes it so again */
    uint64_t added = q->added;
    pthread_mutex_unlock(&q->lock);
    enum sp_err e = sp_file_usage(w, "", 0, &r);
    pthread_mutex_lock(&q->lock);
    if (e == SP_OK) {
        q->known = true;
        q->used = r.size;
        q->entries = r.entries;
        q->added -= added < q->added ? added : q->added; /* two may count at a time */
    } else {
        q->stale = true;
    }
    q->cost_ns = thread_ns() - begun;
    q->counted_ns = sp_now_ns();
    pthread_mutex_unlock(&q->lock);
    return e;
}

/* True: over, by a figure that can be believed. */
static bool over(struct sp_quota *q, bool *believe)
{
    pthread_mutex_lock(&q->lock);
    bool too_much = q->used + q->pending > q->limit;
    *believe = q->known && !q->stale;
    pthread_mutex_unlock(&q->lock);
    return too_much;
}

static bool truly_over(struct sp_quota *q, const struct sp_workspace *w)
{
    bool believe;
    if (!over(q, &believe))
        return false;
    if (!believe && sp_quota_count(q, w) == SP_OK)
        return over(q, &believe);
    return true;
}

enum sp_err sp_quota_room(struct sp_quota *q, const struct sp_workspace *w)
{
    if (q == NULL || q->limit == 0)
        return SP_OK;
    enum sp_err e = SP_OK;
    pthread_mutex_lock(&q->lock);
    bool count = !q->known || q->added > ADDED_MIN + q->entries / ADDED_PART;
    pthread_mutex_unlock(&q->lock);
    if (count)
        e = sp_quota_count(q, w);
    if (e != SP_OK)
        return e;
    return truly_over(q, w) ? SP_E_QUOTA : SP_OK;
}

bool sp_quota_take(struct sp_quota *q, const struct sp_workspace *w, uint64_t n)
{
    if (q == NULL || q->limit == 0)
        return true;
    pthread_mutex_lock(&q->lock);
    q->pending += n;
    pthread_mutex_unlock(&q->lock);
    return !truly_over(q, w);
}

void sp_quota_give(struct sp_quota *q, uint64_t n)
{
    if (q == NULL || q->limit == 0 || n == 0)
        return;
    pthread_mutex_lock(&q->lock);
    q->pending -= n < q->pending ? n : q->pending;
    pthread_mutex_unlock(&q->lock);
}

/* What it replaced isn't known: the next refusal counts. */
void sp_quota_keep(struct sp_quota *q, uint64_t n, uint64_t on_disk, uint64_t added)
{
    if (q == NULL || q->limit == 0)
        return;
    pthread_mutex_lock(&q->lock);
    q->pending -= n < q->pending ? n : q->pending;
    q->used += on_disk > n ? on_disk : n;
    q->added += added;
    q->stale = true;
    pthread_mutex_unlock(&q->lock);
}

void sp_quota_changed(struct sp_quota *q)
{
    if (q == NULL || q->limit == 0)
        return;
    pthread_mutex_lock(&q->lock);
    q->stale = true;
    pthread_mutex_unlock(&q->lock);
}

bool sp_quota_doubled(struct sp_quota *q)
{
    if (q->limit == 0)
        return false;
    pthread_mutex_lock(&q->lock);
    bool doubled =
        q->known && q->used > SP_QUOTA_SLACK && (q->used - SP_QUOTA_SLACK) / 2 > q->limit;
    pthread_mutex_unlock(&q->lock);
    return doubled;
}

void sp_quota_removed(struct sp_quota *q, const struct sp_workspace *w)
{
    sp_quota_changed(q);
    if (q != NULL && sp_quota_doubled(q))
        (void)sp_quota_count(q, w);
}
