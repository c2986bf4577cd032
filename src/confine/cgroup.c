/* cgroup.c: a cgroup for commands, beside one for the daemon, below the cgroup that main was
 * started in. Makes, limits and removes them. Trusts the kernel and the operator's limits. What
 * can't be had is told in `why`; the daemon works without.
 *
 *   OWN                     where main was started; empty afterwards, so that it may have
 * controllers
 *   `- sallyport-PID
 *      |- daemon            main, front, broker, cell
 *      `- commands          memory.max, pids.max; ended by cgroup.freeze
 *
 * Commands could move themselves by writing cgroup.procs, which belongs to their user since clone3
 * asks for that right. Landlock and the view keep them from opening it: one of the two is always
 * there. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT 65536

static ssize_t read_text(const char *path, char *buf, size_t cap)
{
    size_t n = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    for (;;) {
        ssize_t got = read(fd, buf + n, cap - 1 - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0 || (n += (size_t)got) == cap - 1)
            break;
    }
    close(fd);
    buf[n] = '\0';
    return (ssize_t)n;
}

__attribute__((format(printf, 3, 4))) static int open_in(const struct sp_cgroup *g, int flags,
                                                         const char *fmt, ...)
{
    char path[sizeof g->base + 64], name[64];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(name, sizeof name, fmt, ap);
    va_end(ap);
    (void)snprintf(path, sizeof path, "%s/%s", g->base, name);
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static int write_file(const char *folder, const char *name, const char *text)
{
    char path[4096 + 128];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static bool has_word(const char *folder, const char *name, const char *word)
{
    char path[4096 + 128], text[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return read_text(path, text, sizeof text) >= 0 && sp_cgroup_word(text, word);
}

static int fail(struct sp_cgroup *g, int r, const char *why, const char *fix)
{
    (void)snprintf(g->why, sizeof g->why, "%s: %s", why, strerror(-r));
    g->fix = fix;
    return r;
}

/* ---- making and removing ---- */

static void remove_dirs(const char *base)
{
    char path[4096 + 128];
    (void)snprintf(path, sizeof path, "%s/commands", base);
    (void)rmdir(path);
    (void)snprintf(path, sizeof path, "%s/daemon", base);
    (void)rmdir(path);
    (void)rmdir(base);
}

/* What a main left that was killed: nobody holds its lock, and nobody lives in it. */
static void remove_stale(const char *own)
{
    char path[4096 + 64];
    for (int n = 0; n < 64; n++) {
        (void)snprintf(path, sizeof path, "%s/sallyport-%d", own, n);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            remove_dirs(path);
        if (fd >= 0)
            close(fd);
    }
}

/* The lowest number that is free. */
static int make_base(struct sp_cgroup *g)
{
    int r = -EEXIST;
    remove_stale(g->own);
    for (int n = 0; r == -EEXIST && n < 64; n++) {
        (void)snprintf(g->base, sizeof g->base, "%s/sallyport-%d", g->own, n);
        r = mkdir(g->base, 0755) == 0 ? 0 : -errno;
    }
    if (r != 0) {
        g->base[0] = '\0'; /* not ours to remove */
        return r;
    }
    g->lock = open(g->base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (g->lock < 0 || flock(g->lock, LOCK_EX | LOCK_NB) != 0)
        return -errno;
    char path[sizeof g->base + 16];
    static const char *const leaf[] = {"daemon", "commands"};
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", g->base, leaf[i]);
        if (mkdir(path, 0755) != 0)
            return -errno;
    }
    return 0;
}

/* For clone3 the cell's user must be allowed to move a process from one leaf to the other. */
static int give_to(const struct sp_cgroup *g, const struct sp_config *c)
{
    char path[sizeof g->base + 32];
    static const char *const files[] = {"cgroup.procs", "commands/cgroup.procs"};
    for (int i = 0; i < 2 && c->switch_uid && c->command_uid != geteuid(); i++) {
        (void)snprintf(path, sizeof path, "%s/%s", g->base, files[i]);
        if (chown(path, c->command_uid, (gid_t)-1) != 0)
            return -errno;
    }
    return 0;
}

static void close_all(struct sp_cgroup *g)
{
    int *fds[] = {&g->dir, &g->freezer, &g->procs, &g->events, &g->lock};
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

void sp_cgroup_remove(struct sp_cgroup *g)
{
    if (g->base[0] == '\0')
        return;
    /* A cgroup that gives controllers to its children takes no process. */
    (void)write_file(g->base, "cgroup.subtree_control", "-memory -pids");
    if (g->gave_memory)
        (void)write_file(g->own, "cgroup.subtree_control", "-memory");
    if (g->gave_pids)
        (void)write_file(g->own, "cgroup.subtree_control", "-pids");
    (void)write_file(g->own, "cgroup.procs", "0");
    remove_dirs(g->base);
    close_all(g);
    g->base[0] = '\0';
}

/* ---- limits ---- */

static int give(const char *folder, const char *controller, bool *gave)
{
    char text[32];
    if (has_word(folder, "cgroup.subtree_control", controller))
        return 0;
    (void)snprintf(text, sizeof text, "+%s", controller);
    int r = write_file(folder, "cgroup.subtree_control", text);
    *gave = r == 0;
    return r;
}

static int give_down(const struct sp_cgroup *g, const char *controller, bool *gave)
{
    bool below;
    if (!has_word(g->own, "cgroup.controllers", controller))
        return -ENODEV;
    int r = give(g->own, controller, gave);
    return r == 0 ? give(g->base, controller, &below) : r;
}

static int set_number(const struct sp_cgroup *g, const char *name, uint64_t n)
{
    char folder[sizeof g->base + 16], text[32];
    (void)snprintf(folder, sizeof folder, "%s/commands", g->base);
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return write_file(folder, name, text);
}

/* What wasn't asked for isn't missed. */
static void limit(struct sp_cgroup *g, const struct sp_config *c)
{
    int m = c->limit_memory == 0 ? 0 : give_down(g, "memory", &g->gave_memory);
    if (m == 0 && c->limit_memory != 0) {
        m = set_number(g, "memory.max", c->limit_memory);
        /* Without swap accounting the file isn't there, and there is nothing to limit. */
        int swap = m == 0 ? set_number(g, "memory.swap.max", 0) : 0;
        if (swap != 0 && swap != -ENOENT)
            m = swap;
        if (m == 0)
            m = set_number(g, "memory.oom.group", 1);
        g->memory = m == 0;
    }
    int p = c->limit_procs == 0 ? 0 : give_down(g, "pids", &g->gave_pids);
    if (p == 0 && c->limit_procs != 0) {
        p = set_number(g, "pids.max", c->limit_procs);
        g->pids = p == 0;
    }
    int r = m != 0 ? m : p;
    (void)snprintf(g->why, sizeof g->why, "commands are ended together%s%s%s%s",
                   g->memory ? ", their memory has one limit" : "",
                   g->pids ? ", their number has one" : "",
                   r == 0         ? ""
                   : r == -ENODEV ? "; no controller for "
                   : r == -EBUSY  ? "; others share our cgroup, so no limit for "
                                  : "; no limit for ",
                   r == 0             ? ""
                   : m != 0 && p != 0 ? "memory and processes"
                   : m != 0           ? "memory"
                                      : "processes");
    if (r == -EBUSY)
        g->fix = "start the daemon in a cgroup of its own (systemd: Delegate=memory pids)";
    else if (r != 0)
        g->fix = "cgroup v2 with the memory and pids controllers (systemd: Delegate=memory pids)";
}

/* ---- the whole ---- */

static int nothing(void *arg)
{
    (void)arg;
    _exit(0);
}

/* As the cell will do it: with its ids. */
static int try_clone(const struct sp_cgroup *g, const struct sp_config *c)
{
    static char stack[16384] __attribute__((aligned(16)));
    const uint64_t token[2] = {0, 0};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (c->switch_uid && sp_confine_ids(c->command_uid, c->command_gid) != 0)
            _exit(125);
        pid_t in = sp_cgroup_clone(g->dir, 0, nothing, stack, sizeof stack, NULL, token);
        if (in > 0)
            (void)waitpid(in, NULL, 0);
        _exit(in > 0 ? 0 : in > -125 ? -in : 125);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    if (pid < 0)
        return -EAGAIN;
    return WIFEXITED(status) ? -WEXITSTATUS(status) : -ESRCH;
}

static int fill(struct sp_cgroup *g, const struct sp_config *c)
{
    static const char too_old[] = "Linux 5.7 or newer";
    g->dir = open_in(g, O_RDONLY | O_DIRECTORY, "commands");
    if (g->dir < 0)
        return fail(g, g->dir, "the new cgroup can't be opened", NULL);
    g->freezer = open_in(g, O_WRONLY, "commands/cgroup.freeze");
    if (g->freezer < 0)
        return fail(g, g->freezer, "no cgroup.freeze", too_old);
    g->procs = open_in(g, O_RDONLY, "commands/cgroup.procs");
    if (g->procs < 0)
        return fail(g, g->procs, "no cgroup.procs", too_old);
    int r = give_to(g, c);
    if (r != 0)
        return fail(g, r, "the new cgroup can't be given to the user of commands", NULL);
    char leaf[sizeof g->base + 16];
    (void)snprintf(leaf, sizeof leaf, "%s/daemon", g->base);
    r = write_file(leaf, "cgroup.procs", "0");
    if (r != 0)
        return fail(g, r, "the daemon can't enter a new cgroup", NULL);
    r = try_clone(g, c);
    if (r != 0)
        return fail(g, r, "no process can be started in the new cgroup",
                    "a system call filter around the daemon that allows clone3");
    limit(g, c);
    if (g->memory)
        g->events = open_in(g, O_RDONLY, "commands/memory.events");
    return 0;
}

int sp_cgroup_make(struct sp_cgroup *g, const struct sp_config *c)
{
    static const char delegate[] =
        "a cgroup that the daemon may write (systemd: Delegate=memory pids; "
        "in a container a writable /sys/fs/cgroup)";
    static char self[TEXT], mounts[TEXT * 4];
    *g = (struct sp_cgroup){.dir = -1, .freezer = -1, .procs = -1, .events = -1, .lock = -1};
    if (read_text("/proc/self/cgroup", self, sizeof self) < 0 ||
        read_text("/proc/self/mountinfo", mounts, sizeof mounts) < 0)
        return fail(g, -ENOENT, "/proc doesn't tell", NULL);
    int r = -ENOENT;
    bool any = false;
    for (unsigned i = 0;
         r != 0 && i < 16 && sp_cgroup_locate(self, mounts, i, g->own, sizeof g->own); i++) {
        any = true;
        r = make_base(g);
        if (r != 0)
            sp_cgroup_remove(g);
    }
    if (!any)
        return fail(g, r, "no cgroup v2 is mounted here", "cgroup v2 at /sys/fs/cgroup");
    if (r == 0)
        r = fill(g, c);
    else
        (void)fail(g, r, "our cgroup can't be written", delegate);
    if (r != 0)
        sp_cgroup_remove(g);
    return r;
}

uint64_t sp_cgroup_oom_kills(int events)
{
    char text[1024];
    ssize_t n = pread(events, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return sp_cgroup_value(text, "oom_kill");
}
