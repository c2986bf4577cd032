/* cgroup.c: a cgroup for commands, beside one for the daemon, below the cgroup that main was
 * started in. Makes, limits and removes them. Trusts the kernel and the operator's limits. What
 * can't be had is told in `why`; the daemon works without.
 *
 *   OWN                     where main was started; empty afterwards, so that it may have
 * controllers
 *   `- sallyport-PID
 *      |- daemon            main, front, broker, cell
 *      `- commands          memory.max, pids.max, cpu.max; ended by cgroup.freeze. In the box one
 *                           for each cell is below it: cgroup_cell.c
 *
 * Commands could move themselves by writing cgroup.procs, which belongs to their user since clone3
 * asks for that right. Landlock and the view keep them from opening it: one of the two is always
 * there. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT 65536

static const char controllers[] =
    "cgroup v2 with the memory, pids and cpu controllers (systemd: Delegate=memory pids cpu)";

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
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        sp_cgroup_cells_remove(fd);
        close(fd);
    }
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
static int give_away(const struct sp_cgroup *g, const struct sp_config *c)
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

void sp_cgroup_remove(struct sp_cgroup *g)
{
    if (g->base[0] == '\0')
        return;
    /* A cgroup that gives controllers to its children takes no process. */
    static const char *const back[] = {"-memory", "-pids", "-cpu"};
    const bool gave[] = {g->gave_memory, g->gave_pids, g->gave_cpu};
    char commands[sizeof g->base + 16];
    (void)snprintf(commands, sizeof commands, "%s/commands", g->base);
    if (g->fds.dir >= 0)
        sp_cgroup_cells_remove(g->fds.dir);
    for (int i = 0; i < 3; i++) {
        (void)write_file(commands, "cgroup.subtree_control", back[i]);
        (void)write_file(g->base, "cgroup.subtree_control", back[i]);
        if (gave[i])
            (void)write_file(g->own, "cgroup.subtree_control", back[i]);
    }
    (void)write_file(g->own, "cgroup.procs", "0");
    remove_dirs(g->base);
    sp_cgroup_close(&g->fds);
    if (g->lock >= 0)
        close(g->lock);
    g->lock = -1;
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

/* From our own cgroup down to the parent of the one that is to be limited. */
static int give_down(const struct sp_cgroup *g, bool box, const char *controller, bool *gave)
{
    static const char *const down[] = {"", "/commands", "/commands/1"};
    char path[sizeof g->base + 32];
    bool below;
    if (!has_word(g->own, "cgroup.controllers", controller))
        return -ENODEV;
    int r = give(g->own, controller, gave);
    for (int i = 0; r == 0 && i < (box ? 3 : 1); i++) {
        (void)snprintf(path, sizeof path, "%s%s", g->base, down[i]);
        r = give(path, controller, &below);
    }
    return r;
}

/* "a", "a and b", "a, b and c" of what is set in which. */
static void list(char *out, size_t cap, const bool which[3])
{
    static const char *const what[] = {"memory", "processes", "processors"};
    int left = which[0] + which[1] + which[2];
    size_t n = 0;
    out[0] = '\0';
    for (int i = 0; i < 3 && n < cap; i++) {
        if (!which[i])
            continue;
        left--;
        n += (size_t)snprintf(out + n, cap - n, "%s%s", what[i],
                              left > 1    ? ", "
                              : left == 1 ? " and "
                                          : "");
    }
}

static void tell(struct sp_cgroup *g, const int error[3])
{
    const bool failed[3] = {error[0] != 0, error[1] != 0, error[2] != 0};
    int r = failed[0] ? error[0] : failed[1] ? error[1] : error[2];
    char names[48];
    list(names, sizeof names, failed);
    (void)snprintf(g->why, sizeof g->why, "commands are ended together%s%s%s%s%s",
                   g->memory ? ", their memory has one limit" : "",
                   g->pids ? ", their number has one" : "",
                   g->cpu ? ", their processors have one" : "",
                   r == 0         ? ""
                   : r == -ENODEV ? "; no controller for "
                   : r == -EBUSY  ? "; others share our cgroup, so no limit for "
                                  : "; no limit for ",
                   names);
    if (r == -EBUSY)
        g->fix = "start the daemon in a cgroup of its own (systemd: Delegate=memory pids cpu)";
    else if (r != 0)
        g->fix = controllers;
}

/* What wasn't asked for isn't missed. dir: of the cgroup with the limits. */
static void limit(struct sp_cgroup *g, const struct sp_config *c, int dir)
{
    const struct {
        bool asked;
        const char *controller;
        int (*set)(int dir, const struct sp_config *c);
        bool *gave, *limited;
    } t[3] = {{c->limit_memory != 0, "memory", sp_cgroup_limit_memory, &g->gave_memory, &g->memory},
              {c->limit_procs != 0, "pids", sp_cgroup_limit_pids, &g->gave_pids, &g->pids},
              {c->limit_cpus != 0, "cpu", sp_cgroup_limit_cpu, &g->gave_cpu, &g->cpu}};
    int error[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++) {
        if (!t[i].asked)
            continue;
        error[i] = give_down(g, c->mode == SP_MODE_BOX, t[i].controller, t[i].gave);
        if (error[i] == 0)
            error[i] = t[i].set(dir, c);
        *t[i].limited = error[i] == 0;
    }
    tell(g, error);
}

/* ---- the whole ---- */

static int nothing(void *arg)
{
    (void)arg;
    _exit(0);
}

/* As the cell will do it: with its ids, and in the box from the place beside. */
static int try_clone(const struct sp_cgroup *g, const struct sp_config *c, int dir)
{
    static char stack[16384] __attribute__((aligned(16)));
    const uint64_t token[2] = {0, 0};
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (c->mode == SP_MODE_BOX && sp_cgroup_write(g->fds.dir, "1/cell/cgroup.procs", "0") != 0)
            _exit(125);
        if (c->switch_uid && sp_confine_ids(c->command_uid, c->command_gid) != 0)
            _exit(125);
        pid_t in = sp_cgroup_clone(dir, 0, nothing, stack, sizeof stack, NULL, token);
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

/* The folder of the cgroup that is to have the limits: that of commands, or of the box's first
 * cell, which is there to be tried. */
static int open_limited(struct sp_cgroup *g, const struct sp_config *c)
{
    const bool box = c->mode == SP_MODE_BOX;
    int r = box ? sp_cgroup_cell_folders(g->fds.dir, 1) : 0;
    if (r == 0)
        r = box ? sp_cgroup_cell_give(g->fds.dir, 1, c->command_uid) : give_away(g, c);
    if (r != 0)
        return fail(g, r, "the new cgroup can't be given to the user of commands", NULL);
    int dir = openat(g->fds.dir, box ? "1/run" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return dir < 0 ? fail(g, -errno, "the new cgroup can't be opened", NULL) : dir;
}

static int try_and_limit(struct sp_cgroup *g, const struct sp_config *c, int dir)
{
    char leaf[sizeof g->base + 16];
    (void)snprintf(leaf, sizeof leaf, "%s/daemon", g->base);
    int r = write_file(leaf, "cgroup.procs", "0");
    if (r != 0)
        return fail(g, r, "the daemon can't enter a new cgroup", NULL);
    r = try_clone(g, c, dir);
    if (r != 0)
        return fail(g, r, "no process can be started in the new cgroup",
                    "a system call filter around the daemon that allows clone3");
    limit(g, c, dir);
    return 0;
}

static int open_commands(struct sp_cgroup *g, bool memory, bool cpu)
{
    char path[sizeof g->base + 16];
    (void)snprintf(path, sizeof path, "%s/commands", g->base);
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r = dir < 0 ? -errno : sp_cgroup_open(dir, memory, cpu, &g->fds);
    if (dir >= 0)
        close(dir);
    return r == 0 ? 0
                  : fail(g, r, "no cgroup.freeze or cgroup.procs that can be opened",
                         "Linux 5.7 or newer");
}

static int fill(struct sp_cgroup *g, const struct sp_config *c)
{
    int r = open_commands(g, false, false);
    if (r != 0)
        return r;
    int dir = open_limited(g, c);
    if (dir < 0)
        return dir;
    r = try_and_limit(g, c, dir);
    close(dir);
    if (r != 0)
        return r;
    if (c->mode == SP_MODE_BOX) /* a broker makes them as it needs them */
        return sp_cgroup_cell_remove(g->fds.dir, 1);
    sp_cgroup_close(&g->fds);
    return open_commands(g, g->memory, g->cpu);
}

/* What the kernel says of where we are; static, as both are large. */
static bool read_own(const char **self, const char **mounts)
{
    static char in_self[TEXT], in_mounts[TEXT * 4];
    *self = in_self;
    *mounts = in_mounts;
    return read_text("/proc/self/cgroup", in_self, sizeof in_self) >= 0 &&
           read_text("/proc/self/mountinfo", in_mounts, sizeof in_mounts) >= 0;
}

bool sp_cgroup_limits_nothing(const struct sp_config *c, const char **fix)
{
    const char *self, *mounts;
    char own[4096], path[4096 + 32], text[4096];
    *fix = NULL;
    if (!read_own(&self, &mounts) || !sp_cgroup_locate(self, mounts, 0, own, sizeof own))
        return false;
    (void)snprintf(path, sizeof path, "%s/cgroup.controllers", own);
    if (read_text(path, text, sizeof text) < 0)
        return false;
    if (c->limit_memory != 0 || c->limit_procs != 0 || c->limit_cpus != 0)
        *fix = controllers;
    return !(c->limit_memory != 0 && sp_cgroup_word(text, "memory")) &&
           !(c->limit_procs != 0 && sp_cgroup_word(text, "pids")) &&
           !(c->limit_cpus != 0 && sp_cgroup_word(text, "cpu"));
}

int sp_cgroup_make(struct sp_cgroup *g, const struct sp_config *c)
{
    static const char delegate[] =
        "a cgroup that the daemon may write (systemd: Delegate=memory pids cpu; "
        "in a container a writable /sys/fs/cgroup)";
    const char *self, *mounts;
    *g = (struct sp_cgroup){.fds = {-1, -1, -1, -1, -1}, .lock = -1};
    if (!read_own(&self, &mounts))
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
