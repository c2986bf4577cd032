/* io.c: the bytes between a client and us, in one place: plain or in TLS, and counted. What comes
 * is hostile. */
#include "front.h"

#include "metrics.h"

#include <errno.h>
#include <sys/sendfile.h>
#include <sys/socket.h>

ssize_t io_recv(struct conn *c, void *p, size_t n)
{
    ssize_t got;
    do
        got = recv(c->fd, p, n, 0);
    while (got < 0 && errno == EINTR);
    if (got > 0)
        metrics_bytes((uint64_t)got, 0);
    return got;
}

ssize_t io_send(struct conn *c, const void *p, size_t n, bool more)
{
    ssize_t sent;
    do
        sent = send(c->fd, p, n, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
    while (sent < 0 && errno == EINTR);
    if (sent > 0)
        metrics_bytes(0, (uint64_t)sent);
    return sent;
}

ssize_t io_send_file(struct conn *c, int fd, uint64_t at, size_t n)
{
    ssize_t sent;
    off_t off = (off_t)at;
    do
        sent = sendfile(c->fd, fd, &off, n);
    while (sent < 0 && errno == EINTR);
    if (sent > 0)
        metrics_bytes(0, (uint64_t)sent);
    return sent;
}
