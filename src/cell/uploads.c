/* uploads.c: which upload is in which state, and that one thread at a time works on it.
 *
 * Whatever happens to an upload (begin, pipe ready, commit, cancel) sets a bit in `pending` and has
 * it run by whoever comes first; a thread that runs it goes on until no bit is set. An event of a
 * pipe may be delivered after its upload ended: the generation in its key tells. Trusts the main
 * thread, not the client at the pipe's other end. */
#include "cell/pool.h"
#include "sallyport/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

enum { BEGIN = 1, READABLE = 2, COMMIT = 4, CANCEL = 8 };

static struct sp_upload *find(struct sp_pool *p, uint32_t id)
{
    for (size_t i = 0; i < p->touched; i++) {
        if (p->upload[i].used && p->upload[i].id == id)
            return &p->upload[i];
    }
    return NULL;
}

static uint64_t key_of(const struct sp_upload *u)
{
    return (uint64_t)u->generation << 8 | (uint64_t)(u - u->pool->upload);
}

/* With the lock held. True: wake a thread, without the lock. */
static bool note(struct sp_upload *u, unsigned what)
{
    u->pending |= what;
    if (u->running || u->queued)
        return false;
    u->queued = true;
    sp_pool_queue(u->pool, &u->work);
    return true;
}

static struct sp_result *failure(const struct sp_upload *u, enum sp_err e)
{
    struct sp_result *r = sp_result_new(u->id, SP_OP_FAIL);
    r->err = e;
    return r;
}

/* It came with its bytes. */
static struct sp_result *whole(struct sp_upload *u)
{
    struct sp_result *r = sp_result_new(u->id, SP_OP_DONE);
    r->err = sp_put_whole(&u->pool->space, &u->put, u->data, u->size, r);
    if (r->err != SP_OK)
        r->op = SP_OP_FAIL;
    return r;
}

/* NULL: goes on; else the last answer. */
static struct sp_result *begin(struct sp_upload *u)
{
    struct sp_put *put = &u->put;
    int write_end = -1;
    if (u->data != NULL)
        return whole(u);
    enum sp_err e = sp_put_begin(&u->pool->space, put, &write_end);
    if (e != SP_OK)
        return failure(u, e);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = key_of(u)};
    if (epoll_ctl(u->pool->epoll, EPOLL_CTL_ADD, put->pipe, &ev) != 0) {
        sp_log(SP_LOG_ERROR, "upload: watching the pipe failed: %s", strerror(errno));
        close(write_end);
        sp_put_drop(put);
        return failure(u, SP_E_INTERNAL);
    }
    struct sp_result *r = sp_result_new(u->id, SP_OP_READY);
    r->fd = write_end;
    sp_outbox_post(u->pool->out, r);
    return NULL;
}

/* All is here that was sent. Says so where that was asked for, if it could be put at its place. */
static struct sp_result *staged(struct sp_upload *u)
{
    mode_t mode;
    if ((u->put.flags & SP_PUT_STAGED) == 0)
        return NULL;
    enum sp_err e = sp_put_check(&u->pool->space, &u->put, &mode);
    if (e != SP_OK) {
        sp_put_drop(&u->put);
        return failure(u, e);
    }
    struct sp_result *r = sp_result_new(u->id, SP_OP_STAGED);
    r->size = u->put.received;
    sp_outbox_post(u->pool->out, r);
    return NULL;
}

static struct sp_result *receive(struct sp_upload *u)
{
    enum sp_err e = SP_E_INTERNAL;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = key_of(u)};
    switch (sp_put_receive(&u->pool->space, &u->put, &e)) {
    case SP_PUT_EOF:
        u->eof = true;
        return staged(u);
    case SP_PUT_MORE:
        if (epoll_ctl(u->pool->epoll, EPOLL_CTL_MOD, u->put.pipe, &ev) == 0)
            return NULL;
        sp_log(SP_LOG_ERROR, "upload: watching the pipe failed: %s", strerror(errno));
        sp_put_drop(&u->put);
        break;
    case SP_PUT_BROKEN:
        break;
    }
    return failure(u, e);
}

static struct sp_result *commit(struct sp_upload *u, uint64_t size)
{
    struct sp_result *r = sp_result_new(u->id, SP_OP_DONE);
    enum sp_err e = sp_put_commit(&u->pool->space, &u->put, size, r);
    if (e == SP_E_INTERNAL)
        sp_log(SP_LOG_ERROR, "upload: commit failed (%llu bytes announced, %llu received)",
               (unsigned long long)size, (unsigned long long)u->put.received);
    if (e != SP_OK) {
        r->op = SP_OP_FAIL;
        r->err = e;
    }
    return r;
}

/* Deals with what happened. NULL: goes on; else the last answer. */
static struct sp_result *step(struct sp_upload *u, unsigned what, uint64_t size,
                              enum sp_err cancel_code)
{
    struct sp_result *last = NULL;
    if ((what & CANCEL) != 0) {
        sp_put_drop(&u->put);
        return failure(u, cancel_code);
    }
    if ((what & BEGIN) != 0)
        last = begin(u);
    if (last == NULL && (what & READABLE) != 0 && !u->eof)
        last = receive(u);
    if ((what & COMMIT) != 0)
        u->committed = true;
    if (last == NULL && u->committed && u->eof)
        last = commit(u, size);
    return last;
}

/* What is to be done without the lock once an upload has ended. */
struct rest {
    struct sp_result *last; /* its answer, after the place is free: its id may come again at once */
    int replaced;
    char *data;
};

/* With the lock held, by the thread that has set running. */
static struct rest work_off(struct sp_upload *u)
{
    struct rest rest = {.replaced = -1};
    struct sp_pool *p = u->pool;
    struct sp_result *last = NULL;
    while (last == NULL && u->pending != 0) {
        unsigned what = u->pending;
        uint64_t size = u->size;
        enum sp_err code = u->cancel_code;
        u->pending = 0;
        pthread_mutex_unlock(&p->lock);
        last = step(u, what, size, code);
        pthread_mutex_lock(&p->lock);
        if (last == NULL && u->pending != 0 && p->head != NULL) {
            u->queued = true; /* a fast sender: others first, and this thread takes more */
            sp_pool_queue(p, &u->work);
            break;
        }
    }
    u->running = false;
    if (last != NULL) {
        rest = (struct rest){last, u->put.replaced, u->data};
        u->put.replaced = -1;
        u->data = NULL;
        u->used = false;
        u->generation++;
        p->active--;
        pthread_cond_broadcast(&p->changed);
    }
    return rest;
}

static void finish(struct sp_pool *p, struct rest rest)
{
    if (rest.last != NULL)
        sp_outbox_post(p->out, rest.last);
    if (rest.replaced >= 0)
        close(rest.replaced);
    free(rest.data);
}

static void set_put(struct sp_put *put, const struct sp_msg *m)
{
    sp_put_init(put);
    if (m->path.n > 0)
        memcpy(put->path, m->path.p, m->path.n);
    put->path[m->path.n] = '\0';
    put->path_len = m->path.n;
    put->flags = m->flags;
    sp_terms_set(&put->terms, m);
}

static void run_upload(struct sp_work *work)
{
    struct sp_upload *u = (struct sp_upload *)work; /* its first member */
    struct sp_pool *p = u->pool;
    pthread_mutex_lock(&p->lock);
    u->queued = false;
    u->running = true;
    struct rest rest = work_off(u);
    pthread_mutex_unlock(&p->lock);
    finish(p, rest);
}

void sp_upload_whole(struct sp_pool *p, const struct sp_msg *m)
{
    struct sp_put put;
    struct sp_result *r = sp_result_new(m->id, SP_OP_DONE);
    set_put(&put, m);
    pthread_mutex_lock(&p->lock);
    p->active++; /* the cell doesn't end in the midst of it */
    pthread_mutex_unlock(&p->lock);
    r->err = sp_put_whole(&p->space, &put, m->data.p, m->data.n, r);
    if (r->err != SP_OK)
        r->op = SP_OP_FAIL;
    sp_outbox_post(p->out, r);
    if (put.replaced >= 0)
        close(put.replaced);
    pthread_mutex_lock(&p->lock);
    p->active--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

void sp_upload_event(struct sp_pool *p, uint64_t key)
{
    struct rest rest = {.replaced = -1};
    struct sp_upload *u = &p->upload[key & (SP_POOL_UPLOADS - 1)];
    pthread_mutex_lock(&p->lock);
    if (u->used && u->generation == key >> 8) {
        u->pending |= READABLE;
        if (!u->running && !u->queued) {
            u->running = true;
            rest = work_off(u);
        }
    }
    pthread_mutex_unlock(&p->lock);
    finish(p, rest);
}

void sp_uploads_init(struct sp_pool *p)
{
    p->active = 0;
    p->touched = 0; /* the places themselves are over a page each: see place_of */
}

/* The first free one. Places are prepared one by one, as they come into use: most cells never see
 * more than two uploads at once, and an untouched page costs nothing. */
static struct sp_upload *place_of(struct sp_pool *p)
{
    for (size_t i = 0; i < p->touched; i++)
        if (!p->upload[i].used)
            return &p->upload[i];
    if (p->touched == SP_POOL_UPLOADS)
        return NULL;
    struct sp_upload *u = &p->upload[p->touched++];
    u->pool = p;
    u->work.run = run_upload;
    u->used = false;
    u->data = NULL;
    return u;
}

enum sp_err sp_upload_start(struct sp_pool *p, const struct sp_msg *m)
{
    if (m->path.n > SP_PATH_BYTES_MAX)
        return SP_E_BAD_PATH;
    if (!sp_pool_ready(p))
        return SP_E_OVERLOADED;
    char *data = NULL;
    if ((m->flags & SP_PUT_WHOLE) != 0) {
        if ((data = malloc(m->data.n + 1)) == NULL)
            return SP_E_OVERLOADED;
        if (m->data.n > 0)
            memcpy(data, m->data.p, m->data.n);
    }
    bool wake = false;
    pthread_mutex_lock(&p->lock);
    struct sp_upload *u = place_of(p);
    bool twice = find(p, m->id) != NULL;
    if (u != NULL && !twice) {
        set_put(&u->put, m);
        u->id = m->id;
        u->used = true;
        u->running = u->queued = u->eof = u->committed = false;
        u->pending = 0;
        u->data = data;
        u->size = m->data.n;
        data = NULL;
        p->active++;
        wake = note(u, BEGIN);
    }
    pthread_mutex_unlock(&p->lock);
    if (wake)
        sp_pool_wake(p);
    free(data);
    if (twice)
        sp_log(SP_LOG_ERROR, "upload: id %u is in use", m->id);
    return twice ? SP_E_INTERNAL : u == NULL ? SP_E_OVERLOADED : SP_OK;
}

bool sp_upload_commit(struct sp_pool *p, uint32_t id, uint64_t size)
{
    bool wake = false;
    pthread_mutex_lock(&p->lock);
    struct sp_upload *u = find(p, id);
    if (u != NULL) {
        u->size = size;
        wake = note(u, COMMIT);
    }
    pthread_mutex_unlock(&p->lock);
    if (wake)
        sp_pool_wake(p);
    return u != NULL;
}

bool sp_upload_cancel(struct sp_pool *p, uint32_t id, enum sp_err code)
{
    bool wake = false;
    pthread_mutex_lock(&p->lock);
    struct sp_upload *u = find(p, id);
    if (u != NULL) {
        u->cancel_code = code;
        wake = note(u, CANCEL);
    }
    pthread_mutex_unlock(&p->lock);
    if (wake)
        sp_pool_wake(p);
    return u != NULL;
}

void sp_uploads_abort(struct sp_pool *p, unsigned ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < p->touched; i++) {
        if (p->upload[i].used) {
            p->upload[i].cancel_code = SP_E_INTERNAL;
            (void)note(&p->upload[i], CANCEL);
        }
    }
    sp_pool_wake(p);
    int err = 0;
    while (p->active > 0 && err == 0)
        err = pthread_cond_timedwait(&p->changed, &p->lock, &until);
    if (p->active > 0)
        sp_log(SP_LOG_WARN, "%u uploads could not be cleared away in time", p->active);
    pthread_mutex_unlock(&p->lock);
}
