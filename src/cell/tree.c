/* tree.c: kills a command's processes, however they hide: in other sessions, behind double forks,
 * stopped, ignoring signals, or forking as fast as they can. Trusts none of them.
 *
 * kill(-1) is one atomic step of the kernel: a fork in flight either is seen or fails. The walk
 * isn't, so it first stops what it finds and takes away the right to fork, until a pass finds
 * nothing new, and kills then. What it misses becomes our child when its parent dies, and is met
 * next round. */
#include "cell/tree.h"
#include "cell/spawn.h"
#include "sallyport/confine.h"
#include "sallyport/log.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PASSES 12      /* of stopping, a round */
#define DOUBT_ROUNDS 8 /* of kill(-1) before the walk is added */
#define GROUP_ROUNDS 3
#define WARN_NS 5000000000u

void sp_tree_init(struct sp_tree *t, int proc, bool signal_scope, bool own_uid)
{
    char self[32] = "", ours[32];
    *t = (struct sp_tree){.proc = proc, .self = getpid(), .freezer = -1, .procs = -1, .cpu = -1};
    /* A /proc of another PID namespace would give us strangers' numbers. */
    ssize_t n = proc < 0 ? -1 : readlinkat(proc, "self", self, sizeof self - 1);
    snprintf(ours, sizeof ours, "%d", (int)t->self);
    if (n <= 0 || strcmp(self, ours) != 0)
        t->proc = -1;
    int adopts = 0;
    (void)prctl(PR_GET_CHILD_SUBREAPER, &adopts, 0, 0, 0);
    t->adopts = adopts != 0 || t->self == 1;
    bool bounded = signal_scope || (own_uid && geteuid() != 0);
    t->method = bounded ? SP_TREE_KILL_ALL : SP_TREE_WALK;
}

static void limit_again(const struct sp_tree *t)
{
    int r = t->cpu >= 0 ? sp_cgroup_cpus(t->cpu, t->limits) : 0;
    if (r != 0)
        sp_log(SP_LOG_ERROR, "commands' processors aren't limited: %s", strerror(-r));
}

void sp_tree_use_cgroup(struct sp_tree *t, int freezer, int procs, int cpu,
                        const struct sp_config *c)
{
    /* A cell before us may have died with all of this half undone. */
    t->cpu = cpu;
    t->limits = c;
    limit_again(t);
    if (!t->adopts) /* then only kill(-1) can tell that none is left */
        return;
    t->freezer = freezer;
    t->procs = procs;
    (void)sp_cgroup_thaw(freezer);
}

bool sp_tree_reap(pid_t shell, int *status, bool *ended)
{
    for (;;) {
        int st = 0;
        pid_t pid = waitpid(-1, &st, WNOHANG | __WALL);
        if (pid == 0)
            return false;
        if (pid < 0 && errno == EINTR)
            continue;
        if (pid < 0)
            return true; /* ECHILD */
        if (pid == shell) {
            *status = st;
            *ended = true;
        }
    }
}

/* ---- the walk ---- */

static int add(struct sp_tree *t, pid_t pid, pid_t parent)
{
    if (t->count == t->cap) {
        size_t cap = t->cap == 0 ? 1024 : t->cap * 2;
        struct sp_tree_proc *list = reallocarray(t->list, cap, sizeof *list);
        if (list == NULL)
            return -ENOMEM;
        t->list = list;
        t->cap = cap;
    }
    t->list[t->count++] = (struct sp_tree_proc){.pid = pid, .parent = parent};
    return 0;
}

static ssize_t read_at(int dir, const char *path, char *buf, size_t cap)
{
    int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t n = read(fd, buf, cap - 1);
    close(fd);
    buf[n > 0 ? n : 0] = '\0';
    return n;
}

/* Parent of pid by its stat: "pid (name) state ppid"; the name may hold anything, so from behind.
 * Zombies count: one whose first thread ended may go on in another. 0: gone. */
static pid_t parent_of(const struct sp_tree *t, const char *pid)
{
    char path[32], buf[512];
    snprintf(path, sizeof path, "%.12s/stat", pid);
    if (read_at(t->proc, path, buf, sizeof buf) <= 0)
        return 0;
    const char *p = strrchr(buf, ')');
    char state = 0;
    int parent = 0;
    if (p == NULL || sscanf(p + 1, " %c %d", &state, &parent) != 2)
        return 0;
    return parent;
}

/* Our own children, which /proc may hide from a listing (hidepid) but not from us. */
static void list_children(struct sp_tree *t)
{
    char path[64], buf[4096];
    snprintf(path, sizeof path, "%d/task", (int)t->self);
    int fd = openat(t->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
        if (!isdigit((unsigned char)e->d_name[0]))
            continue;
        snprintf(path, sizeof path, "%d/task/%.12s/children", (int)t->self, e->d_name);
        if (read_at(t->proc, path, buf, sizeof buf) <= 0)
            continue;
        char *rest = buf;
        for (;;) {
            char *end;
            long pid = strtol(rest, &end, 10);
            if (end == rest || (*end != ' ' && *end != '\0') || pid <= 1 || pid > INT32_MAX)
                break;
            if (*end == ' ') /* else cut off by the buffer: next round */
                (void)add(t, (pid_t)pid, t->self);
            rest = end;
        }
    }
    closedir(d);
}

static void list_all(struct sp_tree *t)
{
    _Alignas(8) char buf[16 << 10];
    t->count = 0;
    if (t->proc < 0)
        return;
    list_children(t);
    (void)lseek(t->proc, 0, SEEK_SET);
    for (;;) {
        long n = syscall(SYS_getdents64, t->proc, buf, sizeof buf);
        if (n <= 0)
            return;
        for (long i = 0; i < n;) {
            const struct dirent64 *e = (const void *)(buf + i);
            i += e->d_reclen;
            if (!isdigit((unsigned char)e->d_name[0]))
                continue;
            pid_t parent = parent_of(t, e->d_name);
            if (parent > 0 && add(t, (pid_t)strtol(e->d_name, NULL, 10), parent) != 0)
                return;
        }
    }
}

/* Alive and of our user. The fields come in this order; a name's line breaks are escaped. */
static bool lives_as_us(const struct sp_tree *t, const char *pid)
{
    char path[32], buf[1536];
    unsigned uid = 0, threads = 0;
    snprintf(path, sizeof path, "%.12s/status", pid);
    if (read_at(t->proc, path, buf, sizeof buf) <= 0)
        return false;
    const char *state = strstr(buf, "\nState:\t"), *ids = strstr(buf, "\nUid:\t"),
               *count = strstr(buf, "\nThreads:\t");
    if (ids == NULL || sscanf(ids + 6, "%u", &uid) != 1 || uid != geteuid())
        return false;
    /* A zombie is dead unless other threads of it go on. */
    return state == NULL || state[8] != 'Z' ||
           (count != NULL && sscanf(count + 10, "%u", &threads) == 1 && threads > 1);
}

bool sp_tree_gone(const struct sp_tree *t)
{
    _Alignas(8) char buf[16 << 10];
    if (t->adopts || t->method != SP_TREE_KILL_ALL)
        return true;
    if (kill(-1, SIGKILL) != 0)
        return errno == ESRCH;
    /* It hit someone, or (on Linux) met others who are none of its business. */
    if (t->proc < 0 || lseek(t->proc, 0, SEEK_SET) != 0)
        return false;
    for (;;) {
        long n = syscall(SYS_getdents64, t->proc, buf, sizeof buf);
        if (n <= 0)
            return n == 0;
        for (long i = 0; i < n;) {
            const struct dirent64 *e = (const void *)(buf + i);
            i += e->d_reclen;
            if (isdigit((unsigned char)e->d_name[0]) && atoi(e->d_name) != (int)t->self &&
                lives_as_us(t, e->d_name))
                return false;
        }
    }
}

static int by_pid(const void *a, const void *b)
{
    const struct sp_tree_proc *x = a, *y = b;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

static struct sp_tree_proc *lookup(struct sp_tree *t, pid_t pid)
{
    struct sp_tree_proc key = {.pid = pid};
    return t->count == 0 ? NULL : bsearch(&key, t->list, t->count, sizeof key, by_pid);
}

/* Marks those whose line of parents leads to us. */
static void mark_ours(struct sp_tree *t)
{
    if (t->count > 0)
        qsort(t->list, t->count, sizeof *t->list, by_pid);
    bool more = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < t->count; i++) {
            struct sp_tree_proc *p = &t->list[i];
            if (p->ours || p->pid == t->self)
                continue;
            struct sp_tree_proc *above = p->parent == t->self ? NULL : lookup(t, p->parent);
            if (p->parent == t->self || (above != NULL && above->ours))
                more = p->ours = true;
        }
    }
}

static bool is_stopped(const struct sp_tree_proc *old, size_t n, pid_t pid)
{
    struct sp_tree_proc key = {.pid = pid};
    const struct sp_tree_proc *p = n == 0 ? NULL : bsearch(&key, old, n, sizeof key, by_pid);
    return p != NULL && p->stopped;
}

/* One pass: stops what isn't, and keeps it from forking. Returns how many were new. */
static size_t stop_pass(struct sp_tree *t)
{
    const struct rlimit none = {0, 0};
    size_t fresh = 0, n = t->count;
    struct sp_tree_proc *old = n == 0 ? NULL : reallocarray(NULL, n, sizeof *old);
    if (old != NULL)
        memcpy(old, t->list, n * sizeof *old);
    list_all(t);
    mark_ours(t);
    for (size_t i = 0; i < t->count; i++) {
        struct sp_tree_proc *p = &t->list[i];
        if (!p->ours)
            continue;
        p->stopped = true;
        if (is_stopped(old, old == NULL ? 0 : n, p->pid))
            continue;
        fresh++;
        /* Both may fail for one that has ended; for one that may not be signalled nothing helps. */
        (void)kill(p->pid, SIGSTOP);
        (void)prlimit(p->pid, RLIMIT_NPROC, &none, NULL);
    }
    free(old);
    return fresh;
}

static void walk_round(struct sp_tree *t)
{
    t->count = 0; /* what was stopped a round ago is dead, and its number perhaps another's */
    for (int i = 0; i < PASSES && stop_pass(t) > 0; i++)
        ;
    for (size_t i = 0; i < t->count; i++) {
        if (t->list[i].ours)
            (void)kill(t->list[i].pid, SIGKILL);
    }
}

void sp_tree_begin(struct sp_tree *t, pid_t shell)
{
    t->shell = shell;
    t->rounds = 0;
    t->warned = false;
    t->begun_ns = sp_now_ns();
}

static void kill_round(struct sp_tree *t)
{
    if (t->method == SP_TREE_KILL_ALL)
        (void)kill(-1, SIGKILL); /* ESRCH: none but us */
    /* The shell's process group dies in one step, too: thousands that spin would leave us no time
     * to walk. Only at first, while its number can't have come round to another. */
    if (t->method == SP_TREE_WALK && t->rounds < GROUP_ROUNDS)
        (void)kill(-t->shell, SIGKILL);
    if (t->method == SP_TREE_WALK || t->rounds >= DOUBT_ROUNDS)
        walk_round(t);
}

int sp_tree_kill(struct sp_tree *t)
{
    bool by_cgroup = false;
    if (t->cpu >= 0 && !t->lifted)
        t->lifted = sp_cgroup_cpus(t->cpu, NULL) == 0;
    if (t->freezer >= 0) {
        t->frozen = true;
        by_cgroup = sp_cgroup_kill(t->freezer, t->procs) == 0;
    }
    if (!by_cgroup || t->rounds >= DOUBT_ROUNDS)
        kill_round(t);
    t->rounds++;
    if (!t->warned && sp_now_ns() - t->begun_ns > WARN_NS) {
        t->warned = true;
        sp_log(SP_LOG_WARN, "a command's processes are slow to die");
    }
    return t->rounds < 20 ? 1 : t->rounds < 100 ? 10 : 50;
}

void sp_tree_end(struct sp_tree *t)
{
    int err = t->frozen ? sp_cgroup_thaw(t->freezer) : 0;
    if (err != 0)
        sp_log(SP_LOG_ERROR, "the commands' cgroup stays frozen: %s", strerror(-err));
    if (t->lifted)
        limit_again(t);
    t->lifted = false;
    t->frozen = false;
}
