/* io.c: the bytes between a client and us, in one place: plain or in TLS, and counted. What comes
 * is hostile. */
#include "tls.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define TLS_RECORD 16384u

ssize_t io_recv(struct conn *c, void *p, size_t n)
{
    ssize_t got;
    do
        got = c->tls != NULL ? tls_recv(c, p, n) : recv(c->fd, p, n, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        metrics_bytes((uint64_t)got, 0);
    return got;
}

ssize_t io_refill(struct conn *c)
{
    size_t rest = c->in_len - c->body_pos;
    memmove(c->in + c->head.size, c->in + c->body_pos, rest);
    c->body_pos = c->head.size;
    c->in_len = c->head.size + rest;
    ssize_t n = conn_recv(c, FRONT_IN_MAX);
    if (n == -1)
        return 0;
    if (n <= 0) {
        conn_close(c);
        return -1;
    }
    conn_progress(c, (size_t)n);
    return n;
}

static void count_sent(struct conn *c, ssize_t n)
{
    if (n <= 0)
        return;
    c->sent += (uint64_t)n;
    metrics_bytes(0, (uint64_t)n);
}

ssize_t io_send(struct conn *c, const void *p, size_t n, bool more)
{
    ssize_t sent;
    do
        sent = c->tls != NULL ? tls_send(c, p, n)
                              : send(c->fd, p, n, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    while (sent < 0 && errno == EINTR);
    count_sent(c, sent);
    return sent;
}

/* A write that OpenSSL has begun ends with the bytes it has, so reading them anew does no harm. */
static ssize_t copy_file(struct conn *c, int fd, uint64_t at, size_t n)
{
    static char buf[TLS_RECORD];
    ssize_t got;
    do
        got = pread(fd, buf, n < sizeof buf ? n : sizeof buf, (off_t)at);
    while (got < 0 && errno == EINTR);
    return got > 0 ? io_send(c, buf, (size_t)got, true) : got;
}

ssize_t io_send_file(struct conn *c, int fd, uint64_t at, size_t n)
{
    if (c->tls != NULL)
        return copy_file(c, fd, at, n);
    ssize_t sent;
    off_t off = (off_t)at;
    do
        sent = sendfile(c->fd, fd, &off, n);
    while (sent < 0 && errno == EINTR);
    count_sent(c, sent);
    return sent;
}

bool io_idle(const struct conn *c)
{
    return c->in_len == 0 || (c->in_len <= 2 && c->in[0] == '\r');
}

bool io_more(const struct conn *c)
{
    int unread = 0;
    return c->in_len > c->body_pos || (ioctl(c->fd, FIONREAD, &unread) == 0 && unread > 0);
}

int64_t io_taken(const struct conn *c)
{
    int queued = 0;
    if (ioctl(c->fd, TIOCOUTQ, &queued) != 0)
        queued = 0;
    return (int64_t)c->sent - queued;
}

bool io_hung_up(const struct conn *c)
{
    bool command = c->state == CONN_EXEC || c->op == SP_OP_EXEC;
    struct pollfd p = {.fd = c->fd, .events = command ? POLLRDHUP : 0};
    return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* What went into the socket before the clock was set counts as well: a client that stops has up to
 * two periods. */
int64_t io_newly_taken(struct conn *c)
{
    int64_t now = io_taken(c), more = now - c->reached;
    c->reached = now;
    return more;
}

/* ---- pipes ---- */

/* That a pipe doesn't block is a flag of the open pipe, which the cell that made it may still hold
 * and take away. So each call says it for itself, where the kernel can (pipes: Linux 6.4). */
static bool cant(ssize_t r)
{
    return r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL || errno == ESPIPE);
}

ssize_t io_pipe_read(int fd, void *p, size_t n)
{
    static bool plain;
    struct iovec v = {p, n};
    ssize_t got = plain ? -1 : preadv2(fd, &v, 1, -1, RWF_NOWAIT);
    plain = plain || cant(got);
    return plain ? read(fd, p, n) : got;
}

ssize_t io_pipe_write(int fd, const void *p, size_t n)
{
    static bool plain;
    struct iovec v = {(void *)(uintptr_t)p, n};
    ssize_t put = plain ? -1 : pwritev2(fd, &v, 1, -1, RWF_NOWAIT);
    plain = plain || cant(put);
    return plain ? write(fd, p, n) : put;
}
