/* bare.c: the limits that the daemon is held against: the same work with nothing around it.
 * Trusts its caller. */
#include "bench.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char bench_buf[BENCH_BUF];

uint64_t bench_now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

void bench_die(const char *what)
{
    perror(what);
    exit(1);
}

void bench_send(int fd, const void *p, size_t n)
{
    const char *s = p;
    while (n > 0) {
        ssize_t w = send(fd, s, n, MSG_NOSIGNAL);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            bench_die("send");
        s += w;
        n -= (size_t)w;
    }
}

void bench_drop(int fd, size_t n)
{
    while (n > 0) {
        ssize_t r = recv(fd, bench_buf, n < BENCH_BUF ? n : BENCH_BUF, 0);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            bench_die("recv");
        n -= (size_t)r;
    }
}

/* ---- spawn ---- */

struct spawn_job {
    const char *shell, *command;
    char **env;
    int out, err, null;
};

/* What the daemon gives its commands: a shell without SHELL, say, asks who it runs as, and one with
 * LANG opens some thirty files more. */
static char **command_env(const char *shell)
{
    static _Thread_local char *env[24], own[300];
    static const char *const passed[] = {"PATH=", "LANG=", "LC_", "TZ=", NULL};
    size_t n = 0;
    if (env[0] != NULL)
        return env;
    (void)snprintf(own, sizeof own, "SHELL=%s", shell);
    env[n++] = own;
    env[n++] = (char *)(uintptr_t) "TMPDIR=/tmp";
    env[n++] = (char *)(uintptr_t) "HOME=/";
    env[n++] = (char *)(uintptr_t) "PWD=/";
    for (char **e = environ; *e != NULL && n + 1 < sizeof env / sizeof *env; e++)
        for (size_t i = 0; passed[i] != NULL; i++)
            if (strncmp(*e, passed[i], strlen(passed[i])) == 0 && n + 1 < sizeof env / sizeof *env)
                env[n++] = *e;
    return env;
}

static int spawn_child(void *arg)
{
    struct spawn_job *j = arg;
    const char *slash = strrchr(j->shell, '/');
    char *argv[] = {(char *)(uintptr_t)(slash != NULL ? slash + 1 : j->shell),
                    (char *)(uintptr_t) "-c", (char *)(uintptr_t)j->command, NULL};
    dup2(j->null, 0);
    dup2(j->out, 1);
    dup2(j->err, 2);
    execve(j->shell, argv, j->env);
    _exit(127);
}

uint64_t bare_spawn(const char *shell, const char *command)
{
    static _Thread_local char stack[65536] __attribute__((aligned(16)));
    static _Thread_local int null = -1;
    int out[2], err[2], status;
    if (null < 0)
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    uint64_t t = bench_now_us();
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        bench_die("pipe2");
    struct spawn_job j = {shell, command, command_env(shell), out[1], err[1], null};
    pid_t pid = clone(spawn_child, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, &j);
    if (pid < 0)
        bench_die("clone");
    close(out[1]);
    close(err[1]);
    while (read(out[0], bench_buf, BENCH_BUF) > 0) {
    }
    while (read(err[0], bench_buf, BENCH_BUF) > 0) {
    }
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("bare spawn");
    close(out[0]);
    close(err[0]);
    return bench_now_us() - t;
}

/* ---- loopback transfers ---- */

static int listen_loopback(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) != 0 || listen(s, 1) != 0 ||
        getsockname(s, (struct sockaddr *)&a, &n) != 0)
        bench_die("listen");
    *port = ntohs(a.sin_port);
    return s;
}

static void serve_file(int fd, const char *file, size_t size)
{
    int f = open(file, O_RDONLY | O_CLOEXEC);
    off_t off = 0;
    if (f < 0)
        bench_die(file);
    while ((size_t)off < size)
        if (sendfile(fd, f, &off, size - (size_t)off) <= 0)
            bench_die("sendfile");
}

static void store_file(int fd, const char *dir, size_t size)
{
    int f = open(dir, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0644);
    if (f < 0)
        bench_die(dir);
    for (size_t got = 0; got < size;) {
        ssize_t r = recv(fd, bench_buf, BENCH_BUF, 0);
        if (r <= 0 || write(f, bench_buf, (size_t)r) != r)
            bench_die("store");
        got += (size_t)r;
    }
    bench_send(fd, "k", 1);
}

static pid_t serve_once(int listener, void (*work)(int, const char *, size_t), const char *what,
                        size_t size)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int fd = accept(listener, NULL, NULL);
    if (fd < 0)
        _exit(1);
    bench_send(fd, "r", 1);
    char go;
    if (recv(fd, &go, 1, 0) != 1)
        _exit(1);
    work(fd, what, size);
    _exit(0);
}

/* The connection and the child exist before the clock starts, as they do with the daemon. */
static int transfer_begin(void (*work)(int, const char *, size_t), const char *what, size_t size,
                          pid_t *pid)
{
    uint16_t port;
    int l = listen_loopback(&port);
    *pid = serve_once(l, work, what, size);
    int fd = client_connect(port);
    close(l);
    bench_drop(fd, 1);
    return fd;
}

static uint64_t transfer_end(int fd, pid_t pid, uint64_t began)
{
    uint64_t took = bench_now_us() - began;
    int status;
    close(fd);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        bench_die("bare transfer");
    return took;
}

uint64_t bare_get(const char *file, size_t size)
{
    pid_t pid;
    int fd = transfer_begin(serve_file, file, size, &pid);
    uint64_t t = bench_now_us();
    bench_send(fd, "g", 1);
    bench_drop(fd, size);
    return transfer_end(fd, pid, t);
}

uint64_t bare_put(const char *dir, size_t size)
{
    pid_t pid;
    int fd = transfer_begin(store_file, dir, size, &pid);
    uint64_t t = bench_now_us();
    bench_send(fd, "g", 1);
    for (size_t left = size; left > 0;) {
        size_t n = left < BENCH_BUF ? left : BENCH_BUF;
        bench_send(fd, bench_buf, n);
        left -= n;
    }
    bench_drop(fd, 1);
    return transfer_end(fd, pid, t);
}
