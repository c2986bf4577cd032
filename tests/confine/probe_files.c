/* probe_files.c: reading, writing, making, removing and moving what is outside the workspace, and
 * what may be executed. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

static int read_outside(const struct probe_stage *s, const struct probe *p)
{
    return try_read(outside(s, p->path));
}

static int open_outside(const struct probe_stage *s, const struct probe *p)
{
    return try_open(outside(s, p->path), (int)p->x);
}

static int open_openat2(const struct probe_stage *s, const struct probe *p)
{
    struct open_how how = {.flags = O_RDONLY, .resolve = RESOLVE_NO_SYMLINKS};
    return CALL(SYS_openat2, AT_FDCWD, outside(s, p->path), &how, sizeof how);
}

static int open_legacy(const struct probe_stage *s, const struct probe *p)
{
    return p->x ? CALL(SYS_creat, outside(s, p->path), 0600)
                : CALL(SYS_open, outside(s, p->path), O_RDONLY, 0);
}

/* By way of a descriptor that only names it. */
static int reopen(const struct probe_stage *s, const struct probe *p)
{
    char link[64];
    int fd = open(outside(s, p->path), O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return p->x == O_PATH ? 0 : try_open(link, (int)p->x);
}

static int list_outside(const struct probe_stage *s, const struct probe *p)
{
    DIR *d = opendir(outside(s, p->path));
    return d == NULL ? errno : readdir(d) == NULL ? errno : 0;
}

static int stat_outside(const struct probe_stage *s, const struct probe *p)
{
    struct stat st;
    return outcome(stat(outside(s, p->path), &st));
}

static int readlink_outside(const struct probe_stage *s, const struct probe *p)
{
    char buf[64];
    return outcome(readlink(outside(s, p->path), buf, sizeof buf));
}

static int chdir_outside(const struct probe_stage *s, const struct probe *p)
{
    return outcome(chdir(outside(s, p->path)));
}

static int truncate_outside(const struct probe_stage *s, const struct probe *p)
{
    return outcome(truncate(outside(s, p->path), 1));
}

static int make_outside(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, p->path);
    switch (p->x) {
    case S_IFDIR:
        return outcome(mkdir(path, 0700));
    case S_IFLNK:
        return outcome(symlink("x", path));
    default:
        return outcome(mknod(path, (mode_t)p->x | 0600, 0));
    }
}

static int remove_outside(const struct probe_stage *s, const struct probe *p)
{
    return outcome(unlinkat(AT_FDCWD, outside(s, p->path), p->x ? AT_REMOVEDIR : 0));
}

static int unnamed_outside(const struct probe_stage *s, const struct probe *p)
{
    return try_open(outside(s, p->path), O_TMPFILE | O_RDWR);
}

static int make_here(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
    return fd < 0 ? errno : 0;
}

/* x 0: in, 1: out, 2: both change places. y: by links, the other name stays. */
static int move(const struct probe_stage *s, const struct probe *p)
{
    char here[5000];
    (void)snprintf(here, sizeof here, "%s/%s", s->ws, p->name);
    const char *there = outside(s, p->path);
    int r = p->x != 0 ? make_here(here) : 0;
    if (r != 0)
        return r;
    if (p->y)
        return outcome(p->x == 0 ? link(there, here) : link(here, there));
    if (p->x == 2)
        return CALL(SYS_renameat2, AT_FDCWD, here, AT_FDCWD, there, 2 /* RENAME_EXCHANGE */);
    return outcome(p->x == 0 ? rename(there, here) : rename(here, there));
}

/* A link made from a descriptor's name in /proc, which needs no right to the path itself. */
static int link_by_fd(const struct probe_stage *s, const struct probe *p)
{
    char link[64];
    int fd = open(outside(s, p->path), O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    return outcome(linkat(AT_FDCWD, link, AT_FDCWD, inside(s, p->name), AT_SYMLINK_FOLLOW));
}

static int by_symlink(const struct probe_stage *s, const struct probe *p)
{
    const char *link = inside(s, p->name);
    if (symlink(outside(s, p->path), link) != 0)
        return errno;
    return try_open(link, (int)p->x);
}

static int by_dots(const struct probe_stage *s, const struct probe *p)
{
    const char *base = strrchr(s->out, '/');
    char path[600];
    (void)snprintf(path, sizeof path, "..%s/%s", base, p->path);
    return try_read(path);
}

static int by_proc_self(const struct probe_stage *s, const struct probe *p)
{
    char path[5000];
    (void)snprintf(path, sizeof path, "/proc/self/%s%s", p->path, outside(s, "secret"));
    return try_read(path);
}

/* Anything that was open before us. */
static int inherited(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    (void)p;
    for (int fd = 9; fd < 4096; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return 0;
    return EBADF;
}

/* ---- programs ---- */

/* "ran": the program's status is 0; "raised": it is 0 if exec gave it rights. */
static int execute(const char *path, const char *word)
{
    char arg[16], name[] = "probe", *argv[] = {name, arg, NULL}, *envp[] = {NULL};
    (void)snprintf(arg, sizeof arg, "%s", word);
    execve(path, argv, envp);
    return errno;
}

static int exec_outside(const struct probe_stage *s, const struct probe *p)
{
    return execute(outside(s, p->path), "ran");
}

static int exec_inside(const struct probe_stage *s, const struct probe *p)
{
    return execute(inside(s, p->path), p->x ? "raised" : "ran");
}

static int exec_memory(const struct probe_stage *s, const struct probe *p)
{
    char name[] = "probe", word[] = "ran", *argv[] = {name, word, NULL}, *envp[] = {NULL};
    static char buf[65536];
    ssize_t n;
    (void)p;
    int in = open(inside(s, "probe"), O_RDONLY | O_CLOEXEC), out = memfd_create("x", MFD_CLOEXEC);
    if (in < 0 || out < 0)
        return errno;
    while ((n = read(in, buf, sizeof buf)) > 0)
        if (write(out, buf, (size_t)n) != n)
            return PROBE_BROKEN;
    return CALL(SYS_execveat, out, "", argv, envp, AT_EMPTY_PATH);
}

const struct probe probes_files[] = {
    {"read-outside", read_outside, "secret", 0, 0, 0},
    {"read-outside-openat2", open_openat2, "secret", 0, 0, 0},
    {"read-outside-open", open_legacy, "secret", 0, 0, 0},
    {"write-outside", open_outside, "victim", O_WRONLY, 0, 0},
    {"append-outside", open_outside, "victim", O_WRONLY | O_APPEND, 0, 0},
    {"truncate-outside", truncate_outside, "victim", 0, 0, 0},
    {"truncate-outside-open", open_outside, "victim", O_RDONLY | O_TRUNC, 0, 0},
    {"create-outside", open_outside, "made", O_WRONLY | O_CREAT | O_EXCL, 0, 0},
    {"create-outside-creat", open_legacy, "made2", 1, 0, 0},
    {"create-outside-unnamed", unnamed_outside, "", 0, 0, 0},
    {"mkdir-outside", make_outside, "made-dir", S_IFDIR, 0, 0},
    {"symlink-outside", make_outside, "made-link", S_IFLNK, 0, 0},
    {"fifo-outside", make_outside, "made-fifo", S_IFIFO, 0, 0},
    {"socket-node-outside", make_outside, "made-sock", S_IFSOCK, 0, 0},
    {"unlink-outside", remove_outside, "unlink-me", 0, 0, 0},
    {"rmdir-outside", remove_outside, "rmdir-me", 1, 0, 0},
    {"rename-in", move, "rename-me", 0, 0, 0},
    {"rename-out", move, "renamed", 1, 0, 0},
    {"rename-exchange", move, "exchange-me", 2, 0, 0},
    {"link-in", move, "secret", 0, 1, 0},
    {"link-out", move, "linked", 1, 1, 0},
    {"link-in-by-fd", link_by_fd, "secret", 0, 0, 0},
    {"list-outside", list_outside, "", 0, 0, 0},
    {"name-outside", reopen, "secret", O_PATH, 0, 0},
    {"reopen-outside", reopen, "secret", O_RDONLY, 0, 0},
    {"reopen-outside-write", reopen, "victim", O_WRONLY, 0, 0},
    {"stat-outside", stat_outside, "secret", 0, 0, 0},
    {"readlink-outside", readlink_outside, "a-link", 0, 0, 0},
    {"chdir-outside", chdir_outside, "", 0, 0, 0},
    {"symlink-to-outside", by_symlink, "secret", O_RDONLY, 0, 0},
    {"symlink-to-outside-write", by_symlink, "victim", O_WRONLY, 0, 0},
    {"dots-to-outside", by_dots, "secret", 0, 0, 0},
    {"proc-self-root-outside", by_proc_self, "root", 0, 0, 0},
    {"proc-thread-root-outside", by_proc_self, "task/../root", 0, 0, 0},
    {"inherited-descriptor", inherited, NULL, 0, 0, 0},
    {"exec-outside", exec_outside, "tool", 0, 0, 0},
    {"exec-workspace", exec_inside, "probe", 0, 0, 0},
    {"exec-memory", exec_memory, NULL, 0, 0, 0},
    {"setuid-root-gains", exec_inside, "suid-root", 1, 0, 0},
    {"setuid-other-gains", exec_inside, "suid-other", 1, 0, 0},
    {"setgid-gains", exec_inside, "sgid-other", 1, 0, 0},
    {"file-capability-gains", exec_inside, "filecap", 1, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
