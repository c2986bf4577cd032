/* port.c: the file threads' own socket from the broker. A small request goes to whichever thread is
 * idle, instead of waking the main thread first, which would wake the other; the answer goes back
 * as always. No thread holds a request that it doesn't do at once.
 *
 * Trusts the broker as the main thread does: what is no message, or isn't for here, ends the cell.
 */
#include "cell/pool.h"
#include "sallyport/log.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

void sp_port_open(struct sp_pool *p, int fd)
{
    bool ok = p->port.fd < 0 && sp_pool_ready(p);
    /* As `wake`, which stands for it, too: whoever takes one wakes the next for what is left. */
    struct epoll_event ev = {.events = EPOLLIN | EPOLLET, .data.u64 = UINT64_MAX};
    pthread_mutex_lock(&p->lock); /* the threads see all of this, or nothing */
    for (int i = 0; ok && i < SP_POOL_THREADS; i++) {
        p->frame[i] = p->frame[i] == NULL ? malloc(sizeof *p->frame[i]) : p->frame[i];
        ok = p->frame[i] != NULL; /* large, but hardly touched */
    }
    if (ok)
        sp_chan_init(&p->port, fd);
    pthread_mutex_unlock(&p->lock);
    if (ok && epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &ev) == 0)
        return;
    sp_log(SP_LOG_WARN, "the file threads get no socket of their own");
    pthread_mutex_lock(&p->lock);
    if (ok)
        p->port.fd = -1;
    pthread_mutex_unlock(&p->lock);
    close(fd);
}

static void handle(struct sp_pool *p, const struct sp_msg *m)
{
    char path[SP_PATH_BYTES_MAX + 1] __attribute__((uninitialized));
    struct sp_terms terms __attribute__((uninitialized));
    if (m->op == SP_OP_PUT && (m->flags & SP_PUT_WHOLE) != 0) {
        sp_upload_whole(p, m);
        return;
    }
    if (m->op != SP_OP_OPEN && m->op != SP_OP_DELETE && m->op != SP_OP_USAGE) {
        sp_log(SP_LOG_ERROR, "message %u is not for a file thread", m->op);
        _exit(1);
    }
    struct sp_ask a = {m->op, m->flags, path, m->path.n, NULL};
    if (a.n > 0)
        memcpy(path, m->path.p, a.n); /* the decoder bounds and checks it */
    path[a.n] = '\0';
    if (m->op == SP_OP_DELETE && (m->flags & SP_IF_ANY) != 0) {
        sp_terms_set(&terms, m);
        a.terms = &terms;
    }
    struct sp_result *r = sp_result_new(m->id, SP_OP_FAIL);
    sp_pool_do(p, &a, r);
    sp_outbox_post(p->out, r);
}

void sp_port_serve(struct sp_pool *p, unsigned number)
{
    pthread_mutex_lock(&p->lock);
    struct sp_chan port = p->port;
    struct sp_frame *f = p->frame[number % SP_POOL_THREADS];
    pthread_mutex_unlock(&p->lock);
    for (;;) {
        struct sp_msg m;
        int more = 0, got = port.fd < 0 ? 0 : sp_chan_recv(&port, f);
        if (got == 0 && port.fd >= 0 && ioctl(port.fd, FIONREAD, &more) == 0 && more > 0)
            continue;                  /* for want of memory: nobody would be woken for it again */
        if (got == 0 || got == -EPIPE) /* gone: the main thread hears of it */
            return;
        if (got < 0 || !sp_msg_decode(&m, f->data, f->len, f->nfds)) {
            sp_log(SP_LOG_ERROR, "the broker sent the file threads no message");
            _exit(1);
        }
        if (ioctl(port.fd, FIONREAD, &more) != 0 || more > 0) /* not every kernel tells */
            sp_pool_wake(p);
        handle(p, &m);
    }
}
