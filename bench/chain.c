/* chain.c: what processes one behind the other cost by themselves. A request goes by loopback to
 * the first of N, which passes it on by a socket pair, and so on; the last spawns a shell, or has
 * the answer ready; that goes back the same way. Each waits, receives and sends, and does nothing
 * else: no HTTP, no check, no confinement. N is 1 to 3, as many as the daemon has on that way
 * (front, broker, cell); the daemon and the bare work take their turns in the same rounds. Prints
 * `WORK WAY p50 p95`, in microseconds. bench/chain.py starts the daemon and makes the table. usage:
 * bench-chain SHELL ROUNDS PORT, with file k1 there */
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BARE, ONE, TWO, THREE, DAEMON, WAYS };
#define THERE 200u /* bytes, about what our messages have */
#define BACK 300u

static const char *const names[WAYS] = {"bare", "one", "two", "three", "daemon"};
static const char *shell;

/* ---- the processes ---- */

static int poll_for(int fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int poll = epoll_create1(EPOLL_CLOEXEC);
    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, fd, &e) != 0)
        bench_die("epoll");
    return poll;
}

/* Waits and receives; the end of the chain's user is its end. */
static void take(int poll, int fd)
{
    static char message[4096];
    struct epoll_event e;
    while (epoll_wait(poll, &e, 1, -1) != 1) {
    }
    if (recv(fd, message, sizeof message, 0) <= 0)
        _exit(0);
}

static void process(int up, int down, bool spawns)
{
    int from_up = poll_for(up), from_down = down >= 0 ? poll_for(down) : -1;
    for (;;) {
        take(from_up, up);
        if (down >= 0) {
            bench_send(down, bench_buf, THERE);
            take(from_down, down);
        } else if (spawns) {
            (void)bare_spawn(shell, "true");
        }
        bench_send(up, bench_buf, BACK);
    }
}

static int loopback(int *other)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (s < 0 || bind(s, (struct sockaddr *)&a, n) != 0 || listen(s, 1) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &n) != 0)
        bench_die("listen");
    int fd = client_connect(ntohs(a.sin_port));
    *other = accept(s, NULL, NULL);
    if (*other < 0 || setsockopt(*other, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0)
        bench_die("accept");
    close(s);
    return fd;
}

/* The client's end of a chain of n. They end when it is closed. */
static int chain(unsigned n, bool spawns)
{
    int up, fd = loopback(&up);
    for (; n > 0; n--) {
        int pair[2] = {-1, -1};
        if (n > 1 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
            bench_die("socketpair");
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork");
        if (pid == 0) {
            close(fd);
            if (n > 1)
                close(pair[1]);
            process(up, pair[0], spawns);
        }
        close(up);
        if (n > 1)
            close(pair[0]);
        up = pair[1];
    }
    return fd;
}

/* ---- the rounds ---- */

static uint64_t once(int way, int fd, bool spawns)
{
    static const char json[] = "{\"command\":\"true\"}";
    if (way == BARE && spawns)
        return bare_spawn(shell, "true");
    uint64_t t = bench_now_us();
    if (way == DAEMON) {
        int status = spawns ? client_request(fd, "POST", "/execute", json, sizeof json - 1)
                            : client_request(fd, "GET", "/files/k1", NULL, 0);
        if (status != 200) {
            fprintf(stderr, "bench-chain: answered %d\n", status);
            exit(1);
        }
    } else if (way != BARE) {
        bench_send(fd, bench_buf, THERE);
        bench_drop(fd, BACK);
    }
    return bench_now_us() - t;
}

static int by_value(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static void measure(const char *work, bool spawns, size_t rounds, uint16_t port)
{
    int fd[WAYS] = {[BARE] = -1, [DAEMON] = client_connect(port)};
    uint64_t *times[WAYS];
    for (int w = ONE; w <= THREE; w++)
        fd[w] = chain((unsigned)w, spawns);
    for (int w = 0; w < WAYS; w++)
        if ((times[w] = calloc(rounds, sizeof(uint64_t))) == NULL)
            bench_die("calloc");
    size_t warm = rounds / 10 + 2;
    for (size_t i = 0; i < rounds + warm; i++) {
        for (size_t k = 0; k < WAYS; k++) { /* each is first, after the others, in turn */
            size_t w = (i + k) % WAYS;
            uint64_t t = once((int)w, fd[w], spawns);
            if (i >= warm)
                times[w][i - warm] = t;
        }
    }
    for (int w = spawns ? BARE : ONE; w < WAYS; w++) {
        qsort(times[w], rounds, sizeof(uint64_t), by_value);
        printf("%s %s %llu %llu\n", work, names[w], (unsigned long long)times[w][rounds / 2],
               (unsigned long long)times[w][rounds * 95 / 100]);
    }
    for (int w = 0; w < WAYS; w++) {
        free(times[w]);
        if (fd[w] >= 0)
            close(fd[w]);
    }
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: bench-chain SHELL ROUNDS PORT\n");
        return 2;
    }
    shell = argv[1];
    size_t rounds = (size_t)strtoul(argv[2], NULL, 10);
    uint16_t port = (uint16_t)strtoul(argv[3], NULL, 10);
    memset(bench_buf, 'x', sizeof bench_buf);
    measure("true", true, rounds, port);
    measure("get-1k", false, rounds * 5, port);
    return 0;
}
