/* pool.h: the file threads, their queue, the uploads, and the way results go back to the main
 * thread. Only the main thread calls what is declared here but for sp_outbox_post. */
#ifndef SALLYPORT_CELL_POOL_H
#define SALLYPORT_CELL_POOL_H

#include "cell/files.h"
#include "cell/put.h"
#include "sallyport/role.h"

#include <pthread.h>
#include <stdatomic.h>

#define SP_POOL_THREADS 3
#define SP_POOL_JOBS 256u
#define SP_POOL_UPLOADS 64u

/* Results on their way. A thread sends its own where it can, which saves waking the main thread;
 * else it waits here, and what comes after it, too, so that the order stays. efd is readable while
 * there are some. */
struct sp_outbox {
    pthread_mutex_t lock; /* also held to send on chan */
    struct sp_result *head, **tail;
    bool taken; /* the main thread is sending some */
    int efd;
    const struct sp_chan *chan; /* to the broker; NULL: results wait in any case */
};
int sp_outbox_init(struct sp_outbox *o);
struct sp_result *sp_result_new(uint32_t id, uint8_t op); /* never NULL: the cell ends instead */
void sp_outbox_post(struct sp_outbox *o, struct sp_result *r);
struct sp_result *sp_outbox_take(struct sp_outbox *o);  /* all of them, oldest first */
void sp_outbox_sent(struct sp_outbox *o);               /* what was taken is on its way */
struct sp_msg sp_result_msg(const struct sp_result *r); /* borrows from it */
void sp_result_free(struct sp_result *r);               /* and closes what it has */

/* ---- a unit of work in the queue ---- */
struct sp_work {
    struct sp_work *next;
    void (*run)(struct sp_work *w);
};

struct sp_pool;
struct sp_upload {
    struct sp_work work;
    struct sp_pool *pool;
    struct sp_put put; /* the running thread's, as are: */
    bool eof, committed;
    uint32_t id, generation; /* under the pool's lock, as is the rest */
    bool used, running, queued;
    unsigned pending; /* what happened to it and wasn't dealt with */
    uint64_t size;    /* of COMMIT, or of data */
    char *data;       /* all of the file, or NULL: it comes by a pipe */
    enum sp_err cancel_code;
};

struct sp_pool {
    const struct sp_config *config;
    struct sp_workspace space;
    struct sp_outbox *out;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* an upload ended */
    struct sp_work *head, **tail;
    unsigned jobs;   /* queued, of OPEN, DELETE, USAGE */
    unsigned active; /* uploads used */
    size_t touched;  /* the first so many of `upload` have been in use */
    int epoll, wake;
    int started; /* threads */
    atomic_uint numbered;
    struct sp_chan port;                     /* see port.c; fd -1: none */
    struct sp_frame *frame[SP_POOL_THREADS]; /* of each thread, for that */
    pthread_t thread[SP_POOL_THREADS];
    struct sp_upload upload[SP_POOL_UPLOADS];
};

/* What the threads will need: see sp_pool_ready. 0 or -errno. */
int sp_pool_start(struct sp_pool *p, const struct sp_config *c, int root, struct sp_quota *quota,
                  struct sp_outbox *out);
/* Starts those that are missing; they inherit the filter and the Landlock domain of the caller, and
 * confine themselves further before they take work. False: there is none. */
bool sp_pool_ready(struct sp_pool *p);
/* OPEN, DELETE, USAGE; USAGE with id 0 counts for the quota. SP_OK, or what to FAIL with. */
enum sp_err sp_pool_job(struct sp_pool *p, const struct sp_msg *m);
/* What was asked for: OPEN, DELETE or USAGE. */
struct sp_ask {
    uint8_t op, flags;
    const char *path; /* with its NUL */
    size_t n;
    const struct sp_terms *terms; /* NULL: none */
};
/* On a file thread: does it, and fills r, but for its id. */
void sp_pool_do(struct sp_pool *p, const struct sp_ask *a, struct sp_result *r);
/* Puts work in the queue; called with the lock held. A thread is woken without it, as it would have
 * to wait for it. */
void sp_pool_queue(struct sp_pool *p, struct sp_work *w);
void sp_pool_wake(struct sp_pool *p);

/* ---- port.c ---- */
/* Takes fd: from now on the file threads serve it. Without memory for it, or without threads, it is
 * closed, and the broker sends by the main thread as before. */
void sp_port_open(struct sp_pool *p, int fd);
void sp_port_serve(struct sp_pool *p, unsigned number); /* on file thread `number` */

/* ---- uploads.c ---- */
void sp_uploads_init(struct sp_pool *p);
enum sp_err sp_upload_start(struct sp_pool *p, const struct sp_msg *m);
bool sp_upload_commit(struct sp_pool *p, uint32_t id, uint64_t size); /* false: no such upload */
bool sp_upload_cancel(struct sp_pool *p, uint32_t id, enum sp_err code);
/* Cancels all and waits at most ms for it, so that no temporary name stays behind. */
void sp_uploads_abort(struct sp_pool *p, unsigned ms);
/* One that comes with its bytes, on a file thread: it is at its place or failed when this returns.
 */
void sp_upload_whole(struct sp_pool *p, const struct sp_msg *m);
/* A pipe is ready; on a file thread. key: the event's data. */
void sp_upload_event(struct sp_pool *p, uint64_t key);

#endif
