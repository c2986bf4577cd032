/* archiver.c: ARCHIVE, from the message to its end. Each archive has a thread of its own while it
 * runs, as it waits for whoever reads the pipe: a slow reader must hold up neither the file threads
 * nor other archives. The thread may read the workspace and do nothing else. Trusts the main
 * thread; not the tree. */
#include "cell/archiver.h"
#include "cell/pool.h"
#include "cell/resolve.h"
#include "sallyport/affinity.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#ifdef SP_SANITIZE
#define STACK (2u << 20)
#else
#define STACK (256u << 10)
#endif

struct job {
    struct sp_archiver *archiver;
    uint32_t id;
    size_t n;
    char path[];
};

void sp_archiver_init(struct sp_archiver *a, const struct sp_config *c, int root,
                      struct sp_outbox *out)
{
    a->config = c;
    a->space = (struct sp_workspace){root, c->use_openat2, c->max_upload, NULL};
    a->out = out;
    a->running = 0;
}

static enum sp_err open_folder(const struct sp_workspace *w, const struct job *j, int *dir)
{
    struct stat st;
    *dir = sp_resolve_open(w->root, j->path, j->n, O_PATH, 0, w->use_openat2);
    if (*dir < 0)
        return sp_err_from_errno(-*dir);
    enum sp_err e = fstat(*dir, &st) == 0 ? SP_OK : sp_err_from_errno(errno);
    if (e == SP_OK && !S_ISDIR(st.st_mode))
        e = SP_E_NOT_A_DIRECTORY;
    if (e == SP_OK && faccessat(*dir, ".", R_OK | X_OK, AT_EACCESS) != 0)
        e = sp_err_from_errno(errno); /* told before a stream begins */
    if (e != SP_OK)
        close(*dir);
    return e;
}

/* The front reads without blocking; we wait for it. */
static enum sp_err open_stream(const struct job *j, int *out)
{
    int ends[2], one = 1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return sp_err_from_errno(errno);
    if (ioctl(ends[0], FIONBIO, &one) != 0) {
        close(ends[0]);
        close(ends[1]);
        return SP_E_INTERNAL;
    }
    struct sp_result *r = sp_result_new(j->id, SP_OP_STREAM);
    r->fd = ends[0];
    sp_outbox_post(j->archiver->out, r);
    *out = ends[1];
    return SP_OK;
}

static enum sp_err code_of(int err)
{
    if (err == -EPIPE)
        return SP_E_BAD_REQUEST; /* nobody is left to read it */
    return err == -ESTALE || err == -E2BIG ? SP_E_OVERLOADED : sp_err_from_errno(-err);
}

static void make_archive(struct job *j, struct sp_result *r)
{
    struct sp_archiver *a = j->archiver;
    struct sp_archive_count count = {0};
    int dir = -1, out = -1;
    const struct sp_config *c = a->config;
    int err = sp_affinity_spread(c);
    if (err == 0 && c->have_landlock)
        err = sp_landlock_reader(c->landlock_abi, a->space.root);
    if (err != 0) {
        sp_log(SP_LOG_ERROR, "archive: the thread can't confine itself: %s", strerror(-err));
        return;
    }
    r->err = open_folder(&a->space, j, &dir);
    if (r->err != SP_OK)
        return;
    r->err = open_stream(j, &out);
    if (r->err == SP_OK) {
        err = sp_archive_write(dir, out, &count);
        close(out);
        if (err != 0 && err != -EPIPE)
            sp_log(SP_LOG_WARN, "archive: ended before its time: %s", strerror(-err));
        r->err = err != 0 ? code_of(err) : SP_OK;
    }
    close(dir);
    if (r->err != SP_OK)
        return;
    if (count.left_out > 0)
        sp_log(SP_LOG_INFO, "archive: %llu entries left out as special or out of reach, %llu in it",
               (unsigned long long)count.left_out, (unsigned long long)count.entries);
    r->op = SP_OP_DONE;
    r->flags = count.left_out > 0 ? SP_DONE_PARTIAL : 0;
    r->size = count.bytes;
    r->entries = count.entries;
}

/* Returns, as the cell's threads must: pthread_exit would load a library. */
static void *run(void *arg)
{
    struct job *j = arg;
    struct sp_archiver *a = j->archiver;
    struct sp_result *r = sp_result_new(j->id, SP_OP_FAIL);
    r->err = SP_E_INTERNAL;
    make_archive(j, r);
    free(j);
    /* The place is free before the answer is out: it may bring the next request. */
    __atomic_sub_fetch(&a->running, 1, __ATOMIC_ACQ_REL);
    sp_outbox_post(a->out, r);
    return NULL;
}

static int start_thread(struct job *j)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int err = pthread_create(&thread, &attr, run, j);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return err;
}

enum sp_err sp_archiver_job(struct sp_archiver *a, const struct sp_msg *m)
{
    if (__atomic_load_n(&a->running, __ATOMIC_ACQUIRE) >= SP_ARCHIVES_MAX)
        return SP_E_OVERLOADED;
    struct job *j = malloc(sizeof *j + m->path.n + 1);
    if (j == NULL)
        return SP_E_OVERLOADED;
    *j = (struct job){.archiver = a, .id = m->id, .n = m->path.n};
    if (j->n > 0)
        memcpy(j->path, m->path.p, j->n);
    j->path[j->n] = '\0';
    __atomic_add_fetch(&a->running, 1, __ATOMIC_ACQ_REL); /* only this thread adds */
    int err = start_thread(j);
    if (err == 0)
        return SP_OK;
    sp_log(SP_LOG_WARN, "archive: can't start a thread: %s", strerror(err));
    __atomic_sub_fetch(&a->running, 1, __ATOMIC_ACQ_REL);
    free(j);
    return SP_E_OVERLOADED;
}
