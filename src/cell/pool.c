/* pool.c: three threads that do what touches files, so that a slow disk stops neither commands nor
 * cancels. They send on the broker's socket, but never read from it. Trusts the main thread; the
 * work they do trusts nobody.
 *
 * They come with the first work for them, or the first command. All wait in one epoll set: on
 * `wake`, which is written to when work is queued (edge-triggered, never read), on the pipes of
 * uploads, one shot each, and on their own socket from the broker (port.c). */
#include "cell/pool.h"
#include "cell/quota.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#ifdef SP_SANITIZE
#define STACK (2u << 20)
#else
#define STACK (256u << 10) /* listings and paths need 70 KiB */
#endif
#define WAKE UINT64_MAX /* also of the port */

struct job {
    struct sp_work work;
    struct sp_pool *pool;
    struct sp_result *result;
    uint8_t op, flags;
    struct sp_terms *terms; /* NULL: none */
    size_t n;
    char path[];
};

/* ---- the way back ---- */

int sp_outbox_init(struct sp_outbox *o)
{
    pthread_mutex_init(&o->lock, NULL);
    o->head = NULL;
    o->tail = &o->head;
    o->taken = false;
    o->chan = NULL;
    o->efd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return o->efd < 0 ? -errno : 0;
}

struct sp_result *sp_result_new(uint32_t id, uint8_t op)
{
    struct sp_result *r = calloc(1, sizeof *r);
    if (r == NULL) {
        sp_log(SP_LOG_ERROR, "out of memory");
        _exit(1); /* an operation without an answer would hang its client */
    }
    r->id = id;
    r->op = op;
    r->fd = -1;
    return r;
}

static void poke(int efd)
{
    uint64_t one = 1;
    ssize_t n = write(efd, &one, sizeof one);
    (void)n; /* EAGAIN: readable already */
}

struct sp_msg sp_result_msg(const struct sp_result *r)
{
    struct sp_msg m = {.op = r->op, .flags = r->flags, .id = r->id, .err = (uint16_t)r->err};
    m.etag = (struct sp_slice){r->etag, strlen(r->etag)};
    m.data = (struct sp_slice){r->data, r->data != NULL ? (size_t)r->size : 0};
    m.size = r->size;
    m.mtime_ns = r->mtime_ns;
    m.ino = r->entries;
    return m;
}

void sp_result_free(struct sp_result *r)
{
    if (r->fd >= 0)
        close(r->fd);
    free(r->data);
    free(r);
}

/* With the lock held: nothing may be sent before what waits. */
static bool send_now(const struct sp_outbox *o, struct sp_result *r)
{
    if (o->chan == NULL || r->id == 0 || o->head != NULL || o->taken)
        return false;
    const struct sp_msg m = sp_result_msg(r);
    if (sp_msg_try(o->chan, &m, &r->fd, r->fd >= 0 ? 1 : 0) != 0)
        return false; /* the main thread knows what to do */
    r->fd = -1;
    return true;
}

void sp_outbox_post(struct sp_outbox *o, struct sp_result *r)
{
    r->next = NULL;
    pthread_mutex_lock(&o->lock);
    bool sent = send_now(o, r), was_empty = o->head == NULL;
    if (!sent) {
        *o->tail = r;
        o->tail = &r->next;
    }
    pthread_mutex_unlock(&o->lock);
    if (sent)
        sp_result_free(r);
    else if (was_empty)
        poke(o->efd);
}

struct sp_result *sp_outbox_take(struct sp_outbox *o)
{
    pthread_mutex_lock(&o->lock);
    struct sp_result *r = o->head;
    o->head = NULL;
    o->tail = &o->head;
    o->taken = r != NULL;
    pthread_mutex_unlock(&o->lock);
    return r;
}

void sp_outbox_sent(struct sp_outbox *o)
{
    pthread_mutex_lock(&o->lock);
    o->taken = false;
    pthread_mutex_unlock(&o->lock);
}

/* ---- the queue ---- */

void sp_pool_queue(struct sp_pool *p, struct sp_work *w)
{
    w->next = NULL;
    *p->tail = w;
    p->tail = &w->next;
}

void sp_pool_wake(struct sp_pool *p)
{
    poke(p->wake);
}

/* Wakes the next thread if there is more: several writes to `wake` may have been one event. */
static struct sp_work *take_work(struct sp_pool *p)
{
    pthread_mutex_lock(&p->lock);
    struct sp_work *w = p->head;
    bool more = false;
    if (w != NULL) {
        p->head = w->next;
        more = p->head != NULL;
        if (!more)
            p->tail = &p->head;
    }
    pthread_mutex_unlock(&p->lock);
    if (more)
        sp_pool_wake(p);
    return w;
}

static void free_job(struct job *j)
{
    free(j->terms);
    free(j);
}

void sp_pool_do(struct sp_pool *p, const struct sp_ask *a, struct sp_result *r)
{
    enum sp_err e = SP_E_INTERNAL;
    r->op = SP_OP_DONE;
    if (a->op == SP_OP_OPEN) {
        r->op = SP_OP_FILE;
        e = sp_file_open(&p->space, a->path, a->n, a->flags, r);
    } else if (a->op == SP_OP_DELETE) {
        e = sp_file_delete(&p->space, a->path, a->n, a->flags, a->terms);
        sp_quota_removed(p->space.quota, &p->space);
    } else if (a->op == SP_OP_USAGE && r->id == 0) {
        e = sp_quota_count(p->space.quota, &p->space);
    } else if (a->op == SP_OP_USAGE) {
        e = sp_file_usage(&p->space, a->path, a->n, r);
    }
    if (e != SP_OK) {
        r->op = SP_OP_FAIL;
        r->flags = 0;
        r->err = e;
    }
}

static void run_job(struct sp_work *work)
{
    struct job *j = (struct job *)work; /* its first member */
    struct sp_pool *p = j->pool;
    struct sp_result *r = j->result;
    const struct sp_ask a = {j->op, j->flags, j->path, j->n, j->terms};
    pthread_mutex_lock(&p->lock);
    p->jobs--;
    pthread_mutex_unlock(&p->lock);
    sp_pool_do(p, &a, r);
    free_job(j);
    sp_outbox_post(p->out, r);
}

enum sp_err sp_pool_job(struct sp_pool *p, const struct sp_msg *m)
{
    if (!sp_pool_ready(p))
        return SP_E_OVERLOADED;
    struct job *j = malloc(sizeof *j + m->path.n + 1);
    if (j == NULL)
        return SP_E_OVERLOADED;
    *j = (struct job){.work = {.run = run_job}, .pool = p, .op = m->op, .flags = m->flags};
    if (m->op == SP_OP_DELETE && (m->flags & SP_IF_ANY) != 0) {
        j->terms = malloc(sizeof *j->terms);
        if (j->terms == NULL) {
            free(j);
            return SP_E_OVERLOADED;
        }
        sp_terms_set(j->terms, m);
    }
    j->n = m->path.n;
    if (j->n > 0)
        memcpy(j->path, m->path.p, j->n);
    j->path[j->n] = '\0';
    pthread_mutex_lock(&p->lock);
    bool full = p->jobs >= SP_POOL_JOBS;
    if (!full) {
        j->result = sp_result_new(m->id, SP_OP_FAIL);
        p->jobs++;
        sp_pool_queue(p, &j->work);
    }
    pthread_mutex_unlock(&p->lock);
    if (full)
        free_job(j);
    else
        sp_pool_wake(p);
    return full ? SP_E_OVERLOADED : SP_OK;
}

/* ---- the threads ---- */

/* The filter is there already: the main thread has put it on itself. */
static int confine(const struct sp_pool *p)
{
    int err = sp_affinity_spread(p->config);
    if (err == 0 && p->config->have_landlock)
        err = sp_landlock_files(p->config->landlock_abi, p->space.root);
    return err;
}

static void *file_thread(void *arg)
{
    struct sp_pool *p = arg;
    int err = confine(p);
    const unsigned number = atomic_fetch_add(&p->numbered, 1u);
    if (err != 0) { /* what it was started for would wait for ever */
        sp_log(SP_LOG_ERROR, "confining a file thread: %s", strerror(-err));
        _exit(1);
    }
    for (;;) {
        struct epoll_event ev;
        int n = epoll_wait(p->epoll, &ev, 1, -1);
        if (n < 0 && errno != EINTR) {
            sp_log(SP_LOG_ERROR, "file thread: waiting failed: %s", strerror(errno));
            _exit(1);
        }
        if (n <= 0)
            continue;
        if (ev.data.u64 != WAKE)
            sp_upload_event(p, ev.data.u64);
        for (struct sp_work *w = take_work(p); w != NULL; w = take_work(p))
            w->run(w);
        sp_port_serve(p, number);
    }
}

static int start_threads(struct sp_pool *p)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int err = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->started < SP_POOL_THREADS && err == 0) {
        err = -pthread_create(&p->thread[p->started], &attr, file_thread, p);
        p->started += err == 0;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

bool sp_pool_ready(struct sp_pool *p)
{
    if (p->started == SP_POOL_THREADS)
        return true;
    int err = start_threads(p);
    if (err != 0)
        sp_log(SP_LOG_ERROR, "starting the file threads: %s", strerror(-err));
    return p->started > 0; /* fewer than wanted will do */
}

int sp_pool_start(struct sp_pool *p, const struct sp_config *c, int root, struct sp_quota *quota,
                  struct sp_outbox *out)
{
    p->config = c;
    p->space = (struct sp_workspace){root, c->use_openat2, c->max_upload, quota};
    p->out = out;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->head = NULL;
    p->tail = &p->head;
    p->jobs = 0;
    p->started = 0;
    p->port.fd = -1;
    atomic_init(&p->numbered, 0);
    sp_uploads_init(p);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = WAKE};
    if (p->epoll < 0 || p->wake < 0 || epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->wake, &ev) != 0)
        return -errno;
    return 0;
}
