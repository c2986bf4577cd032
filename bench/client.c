/* client.c: the benchmark's HTTP client: as little as will do, so that it isn't what is measured.
 * Trusts the daemon. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

_Thread_local const char *client_headers = "";

int client_connect(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) != 0)
        bench_die("connect");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int read_answer(int fd)
{
    static _Thread_local char head[8192];
    size_t n = 0;
    char *end = NULL;
    while (end == NULL) {
        ssize_t r = recv(fd, head + n, sizeof head - 1 - n, 0);
        if (r <= 0)
            bench_die("recv");
        n += (size_t)r;
        head[n] = '\0';
        end = strstr(head, "\r\n\r\n");
    }
    const char *cl = strcasestr(head, "\r\nContent-Length: ");
    size_t length = cl != NULL && cl < end ? (size_t)strtoull(cl + 18, NULL, 10) : 0;
    size_t have = n - (size_t)(end + 4 - head);
    if (have < length)
        bench_drop(fd, length - have);
    return (int)strtol(head + 9, NULL, 10);
}

static void send_head(int fd, const char *method, const char *path, size_t n)
{
    char head[1024];
    int len = snprintf(head, sizeof head,
                       "%s %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %zu\r\n%s\r\n", method,
                       path, n, client_headers);
    bench_send(fd, head, (size_t)len);
}

int client_request(int fd, const char *method, const char *path, const char *body, size_t n)
{
    char buf[1024];
    int len =
        snprintf(buf, sizeof buf, "%s %s HTTP/1.1\r\nHost: bench\r\nContent-Length: %zu\r\n%s\r\n",
                 method, path, n, client_headers);
    if ((size_t)len + n < sizeof buf) { /* one packet, as clients do it */
        if (n > 0)
            memcpy(buf + len, body, n);
        bench_send(fd, buf, (size_t)len + n);
    } else {
        bench_send(fd, buf, (size_t)len);
        bench_send(fd, body, n);
    }
    return read_answer(fd);
}

int client_put(int fd, const char *path, size_t n)
{
    send_head(fd, "PUT", path, n);
    for (size_t left = n; left > 0;) {
        size_t k = left < BENCH_BUF ? left : BENCH_BUF;
        bench_send(fd, bench_buf, k);
        left -= k;
    }
    return read_answer(fd);
}
