/* sweep.c: kills whatever descends from us by walking /proc. Used when a cell or the broker
 * died and can't end its own processes any more. What it hunts may fork as fast as it can: all
 * are stopped before any is killed, since a stopped process still fills its place under a process
 * limit, and a killed one makes room for the next. Trusts the kernel's /proc alone. */
#include "sallyport/sweep.h"
#include "sallyport/uids.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STOP_ROUNDS 24

enum mark { UNKNOWN, OURS, OTHER };

struct proc {
    pid_t pid, parent;
    char state;
    enum mark mark;
};

struct list {
    struct proc *p;
    size_t n, cap;
};

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* "pid (name) state ppid ...": the name may hold anything, so look for its last bracket. */
static bool read_stat(int dir, const char *pid, struct proc *p)
{
    char path[32], buf[512];
    int len = snprintf(path, sizeof path, "%s/stat", pid);
    if (len < 0 || (size_t)len >= sizeof path)
        return false;
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, buf, sizeof buf - 1);
    close(fd);
    if (n <= 0)
        return false;
    buf[n] = '\0';
    const char *end = strrchr(buf, ')');
    return end != NULL && sscanf(end + 1, " %c %d", &p->state, &p->parent) == 2;
}

static int scan(struct list *l)
{
    l->n = 0;
    DIR *d = opendir("/proc");
    if (d == NULL)
        return -errno;
    const struct dirent *e;
    while ((e = readdir(d)) != NULL) {
        char *end;
        long pid = strtol(e->d_name, &end, 10);
        if (*end != '\0' || pid <= 0 || pid > INT32_MAX)
            continue;
        if (l->n == l->cap) {
            size_t cap = l->cap == 0 ? 512 : 2 * l->cap;
            struct proc *p = reallocarray(l->p, cap, sizeof *p);
            if (p == NULL)
                break; /* the rest is for the next round */
            l->p = p;
            l->cap = cap;
        }
        struct proc *p = &l->p[l->n];
        *p = (struct proc){.pid = (pid_t)pid};
        if (read_stat(dirfd(d), e->d_name, p))
            l->n++;
    }
    closedir(d);
    return 0;
}

static int by_pid(const void *a, const void *b)
{
    const struct proc *x = a, *y = b;
    return (x->pid > y->pid) - (x->pid < y->pid);
}

static struct proc *find(const struct list *l, pid_t pid)
{
    const struct proc key = {.pid = pid};
    return bsearch(&key, l->p, l->n, sizeof key, by_pid);
}

static bool kept(const pid_t *keep, int n, pid_t pid)
{
    for (int i = 0; i < n; i++)
        if (keep[i] == pid)
            return true;
    return false;
}

/* Follows parents up to someone known, then gives everyone on the way the same mark. */
static void mark(struct list *l, struct proc *from, pid_t self, const pid_t *keep, int nkeep)
{
    enum mark m = UNKNOWN;
    struct proc *p = from;
    for (size_t steps = 0; m == UNKNOWN; steps++) {
        if (p == NULL || steps > l->n || p->pid == self || kept(keep, nkeep, p->pid))
            m = OTHER;
        else if (p->mark != UNKNOWN)
            m = p->mark;
        else if (p->parent == self)
            m = OURS;
        else
            p = find(l, p->parent);
    }
    for (p = from; p != NULL && p->mark == UNKNOWN; p = find(l, p->parent)) {
        p->mark = m;
        if (p->pid == self || p->parent == self)
            break;
    }
}

/* Reaps what is dead; returns how many of ours are alive, fresh: how many aren't stopped yet. */
static int look(struct list *l, const pid_t *keep, int nkeep, int *fresh)
{
    pid_t self = getpid();
    int alive = 0, r = scan(l);
    *fresh = 0;
    if (r != 0)
        return r;
    if (l->n > 0)
        qsort(l->p, l->n, sizeof *l->p, by_pid);
    for (size_t i = 0; i < l->n; i++) {
        struct proc *p = &l->p[i];
        mark(l, p, self, keep, nkeep);
        if (p->mark != OURS)
            continue;
        if (p->parent == self && waitpid(p->pid, NULL, WNOHANG) == p->pid) {
            p->mark = OTHER;
            continue;
        }
        if (p->state == 'Z' && p->parent != self) {
            p->mark = OTHER; /* its parent, or we after that, will reap it */
            continue;
        }
        alive++;
        if (p->state != 'T' && p->state != 'Z')
            ++*fresh;
    }
    return alive;
}

static void signal_all(const struct list *l, int sig)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->p[i].mark == OURS)
            (void)kill(l->p[i].pid, sig);
}

static int walk(const pid_t *keep, int n, uint64_t limit_ms)
{
    struct list l = {0};
    uint64_t end = now_ms() + limit_ms;
    int alive, fresh;
    while ((alive = look(&l, keep, n, &fresh)) > 0 && now_ms() < end) {
        for (int i = 0; i < STOP_ROUNDS && alive > 0 && fresh > 0; i++) {
            signal_all(&l, SIGSTOP);
            alive = look(&l, keep, n, &fresh);
        }
        signal_all(&l, SIGKILL);
        const struct timespec nap = {.tv_nsec = 1000000};
        nanosleep(&nap, NULL);
    }
    free(l.p);
    return alive;
}

/* Whether orphans below us become our children. */
static bool adopts(void)
{
    int on = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &on, 0, 0, 0);
    return on != 0 || getpid() == 1;
}

int sp_sweep(const pid_t *keep, int n, uid_t uid, uint64_t limit_ms)
{
    /* Some may be another's children: the walk wouldn't find them. */
    if (!adopts())
        sp_uid_kill(uid);
    int alive = walk(keep, n, limit_ms / 2);
    if (alive <= 0)
        return alive;
    /* They fork faster than we walk, or hang in the kernel. */
    sp_uid_kill(uid);
    return walk(keep, n, limit_ms / 2);
}
