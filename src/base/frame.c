/* frame.c: SOCK_SEQPACKET datagrams with descriptors, queued when the socket is full. Trusts
 * nobody on the other end: too many descriptors, or anything cut short, closes what came and is
 * -EPROTO. Who owns a descriptor is fixed at each call: see frame.h. */
#include "sallyport/frame.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PAUSE_NS 10000000L

#define DRAIN_MAX 4096 /* messages */

/* What a control buffer needs for n descriptors, aligned as the kernel wants it. */
union control {
    struct cmsghdr align;
    char buf[CMSG_SPACE(SP_FRAME_FDS * sizeof(int))];
};

/* As many as the kernel lets one message have (its SCM_MAX_FD), so that none is closed unseen. */
union many {
    struct cmsghdr align;
    char buf[CMSG_SPACE(253 * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

struct sp_chan_item {
    struct sp_chan_item *next;
    int fds[SP_FRAME_FDS];
    int nfds;
    size_t len;
    uint8_t data[];
};

static void close_all(const int *fds, int n)
{
    for (int i = 0; i < n; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

void sp_pause(void)
{
    const struct timespec t = {.tv_nsec = PAUSE_NS};
    (void)nanosleep(&t, NULL);
}

/* What came from a peer and isn't taken. The end of a TCP socket may have been told to wait for
 * minutes until its last bytes are read (SO_LINGER): by then it is us who would wait. */
static void drop(int fd, bool wary)
{
    const struct linger no = {0};
    struct stat st;
    if (fd < 0)
        return;
    if (wary && fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode))
        (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &no, sizeof no);
    close(fd);
}

int sp_frame_pair(int fds[2])
{
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) < 0)
        return -errno;
    /* A frame must fit where the host's default is small; the kernel doubles this and bounds it by
     * net.core.wmem_max. If it refuses, a large frame fails with -EMSGSIZE and is reported then. */
    int room = SP_FRAME_MAX;
    for (int i = 0; i < 2; i++)
        (void)setsockopt(fds[i], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    return 0;
}

void sp_chan_init(struct sp_chan *c, int fd)
{
    *c = (struct sp_chan){.fd = fd, .max_fds = SP_CHAN_QUEUE_FDS};
}

void sp_chan_init_wary(struct sp_chan *c, int fd)
{
    sp_chan_init(c, fd);
    c->wary = true;
}

static void pop(struct sp_chan *c)
{
    struct sp_chan_item *it = c->head;
    close_all(it->fds, it->nfds);
    c->queued -= sizeof *it + it->len;
    c->queued_fds -= (unsigned)it->nfds;
    c->head = it->next;
    if (!c->head)
        c->tail = NULL;
    free(it);
}

/* Moves the descriptors of m to the list of `room`; false when something else, or too many, came.
 */
static bool collect(struct msghdr *m, bool wary, int *fds, int room, int *count)
{
    bool ok = true;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h; h = CMSG_NXTHDR(m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) {
            ok = false;
            continue;
        }
        size_t n = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < n; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            if (*count < room) {
                fds[(*count)++] = fd;
            } else {
                drop(fd, wary);
                ok = false;
            }
        }
    }
    return ok;
}

/* What nobody will read any more; else the kernel closes its descriptors with the socket. A
 * datagram may be empty, and the end reads like one: but what was sent comes with its sender's
 * credentials. */
static void drain(int fd)
{
    const int on = 1;
    char byte;
    union many ctl;
    if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0)
        return;
    for (int i = 0; i < DRAIN_MAX; i++) {
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        struct msghdr m = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = ctl.buf,
                           .msg_controllen = sizeof ctl.buf};
        ssize_t n = recvmsg(fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        int none = 0;
        if (n > 0 || (n == 0 && m.msg_controllen > 0))
            (void)collect(&m, true, NULL, 0, &none);
        else if (n == 0 || (errno != EINTR && errno != ECONNRESET))
            return;
    }
}

void sp_chan_close(struct sp_chan *c)
{
    while (c->head)
        pop(c);
    if (c->fd >= 0) {
        if (c->wary)
            drain(c->fd);
        close(c->fd);
    }
    c->fd = -1;
}

/* One sendmsg. 0, or -errno with -EAGAIN for "not now", -ENOMEM for that where the socket may still
 * be writable, and -EPIPE for every way to be gone. */
static int transmit(int fd, const void *data, size_t len, const int *fds, int nfds)
{
    union control ctl = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds > 0) {
        size_t bytes = (size_t)nfds * sizeof(int);
        m.msg_control = ctl.buf;
        m.msg_controllen = CMSG_SPACE(bytes);
        struct cmsghdr *h = &ctl.align; /* CMSG_FIRSTHDR may be NULL, as far as analyzers know */
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(h), fds, bytes);
    }
    for (;;) {
        if (sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return 0; /* a datagram goes whole or not at all */
        switch (errno) {
        case EINTR:
            continue;
        case EAGAIN:
            return -EAGAIN;
        case ENOMEM: /* the kernel's, for the moment: no fault of the peer's */
        case ENOBUFS:
            return -ENOMEM;
        case EMSGSIZE:
            return -EMSGSIZE;
        case ETOOMANYREFS: /* too many descriptors on their way */
            return -ENOBUFS;
        default:
            return -EPIPE;
        }
    }
}

static int enqueue(struct sp_chan *c, const void *data, size_t len, const int *fds, int nfds)
{
    size_t cost = sizeof(struct sp_chan_item) + len;
    if (cost > SP_CHAN_QUEUE_MAX - c->queued || (unsigned)nfds > c->max_fds - c->queued_fds)
        return -ENOBUFS;
    struct sp_chan_item *it = malloc(cost);
    if (!it)
        return -ENOBUFS;
    *it = (struct sp_chan_item){.nfds = nfds, .len = len};
    memcpy(it->data, data, len);
    for (int i = 0; i < nfds; i++)
        it->fds[i] = fds[i];
    if (c->tail)
        c->tail->next = it;
    else
        c->head = it;
    c->tail = it;
    c->queued += cost;
    c->queued_fds += (unsigned)nfds;
    return 0;
}

int sp_chan_send(struct sp_chan *c, const void *data, size_t len, const int *fds, int nfds)
{
    int r;
    if (c->fd < 0)
        r = -EPIPE;
    else if (len == 0 || len > SP_FRAME_MAX || nfds < 0 || nfds > SP_FRAME_FDS)
        r = -EMSGSIZE; /* an empty datagram would look like our close */
    else
        r = c->head ? -EAGAIN : transmit(c->fd, data, len, fds, nfds);
    if (r == -EAGAIN || r == -ENOMEM) {
        r = enqueue(c, data, len, fds, nfds);
        if (r == 0)
            return 0; /* the queue has the descriptors now */
    }
    close_all(fds, nfds);
    return r;
}

int sp_chan_try(const struct sp_chan *c, const void *data, size_t len, const int *fds, int nfds)
{
    if (c->fd < 0 || c->head)
        return -EAGAIN;
    if (len == 0 || len > SP_FRAME_MAX || nfds < 0 || nfds > SP_FRAME_FDS)
        return -EMSGSIZE;
    int r = transmit(c->fd, data, len, fds, nfds);
    if (r == 0)
        close_all(fds, nfds);
    return r;
}

bool sp_chan_pending(const struct sp_chan *c)
{
    return c->head != NULL;
}

int sp_chan_flush(struct sp_chan *c)
{
    while (c->head) {
        const struct sp_chan_item *it = c->head;
        int r = c->fd < 0 ? -EPIPE : transmit(c->fd, it->data, it->len, it->fds, it->nfds);
        if (r == -ENOMEM)
            sp_pause();
        if (r == -EAGAIN || r == -ENOMEM || r == -ENOBUFS)
            return 0; /* stays queued */
        if (r < 0)
            return -EPIPE; /* a frame that can't be sent is as bad as no peer: the order is lost */
        pop(c);
    }
    return 0;
}

int sp_chan_recv(struct sp_chan *c, struct sp_frame *f)
{
    f->len = 0;
    f->nfds = 0;
    f->wary = c->wary;
    for (int i = 0; i < SP_FRAME_FDS; i++)
        f->fds[i] = -1;
    if (c->fd < 0)
        return -EPIPE;

    union many ctl;
    struct iovec iov = {.iov_base = f->data, .iov_len = sizeof f->data};
    struct msghdr m;
    ssize_t n;
    bool reset = false;
    for (;;) {
        m = (struct msghdr){.msg_iov = &iov,
                            .msg_iovlen = 1,
                            .msg_control = ctl.buf,
                            .msg_controllen = sizeof ctl.buf};
        n = recvmsg(c->fd, &m, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
        if (n >= 0)
            break;
        if (errno == EINTR)
            continue;
        /* The peer left without reading all that we sent. That error is told once, and before what
         * the peer had sent: look again, for its last words. */
        if (errno == ECONNRESET && !reset) {
            reset = true;
            continue;
        }
        if (errno == ENOMEM || errno == ENOBUFS) { /* the frame is still there */
            sp_pause();
            return 0;
        }
        if (errno == EAGAIN)
            return 0;
        return errno == ECONNRESET || errno == ENOTCONN ? -EPIPE : -errno;
    }
    bool ok = collect(&m, c->wary, f->fds, SP_FRAME_FDS, &f->nfds) &&
              !(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (ok && n > 0) {
        f->len = (size_t)n;
        return 1;
    }
    sp_frame_close_fds(f);
    return ok ? -EPIPE : -EPROTO;
}

void sp_frame_close_fds(struct sp_frame *f)
{
    for (int i = 0; i < f->nfds; i++)
        drop(f->fds[i], f->wary);
    for (int i = 0; i < SP_FRAME_FDS; i++)
        f->fds[i] = -1;
    f->nfds = 0;
}

int sp_frame_take_fd(struct sp_frame *f, int i)
{
    if (i < 0 || i >= f->nfds)
        return -1;
    int fd = f->fds[i];
    f->fds[i] = -1;
    return fd;
}
