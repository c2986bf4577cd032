/* cgroup_cell.c: in the box each cell has a cgroup of its own, made with it and gone with it: what
 * one identity's commands use together is limited, and ended, apart from all others'. Trusts main.
 *
 *   commands/N          given to the identity's user as far as clone3 asks for: cgroup.procs
 *      |- cell          the cell, born there
 *      `- run           its commands, with the limits
 *
 * The cell is beside its commands because clone3 wants the right to the cgroup above both: so that
 * is one of theirs alone. */
#include "cgroup.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH 64

static int make_folder(int at, const char *name)
{
    return mkdirat(at, name, 0755) == 0 || errno == EEXIST ? 0 : -errno;
}

static int open_folder(int at, const char *name)
{
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int sp_cgroup_cell_folders(int commands, unsigned n)
{
    static const char *const below[] = {"", "/cell", "/run"};
    char path[PATH];
    int r = 0;
    for (int i = 0; r == 0 && i < 3; i++) {
        (void)snprintf(path, sizeof path, "%u%s", n, below[i]);
        r = make_folder(commands, path);
    }
    return r;
}

static int limit(int group, int run, const struct sp_config *c)
{
    int r = 0;
    if (c->cgroup_memory && (r = sp_cgroup_write(group, "cgroup.subtree_control", "+memory")) == 0)
        r = sp_cgroup_limit_memory(run, c);
    if (r == 0 && c->cgroup_pids &&
        (r = sp_cgroup_write(group, "cgroup.subtree_control", "+pids")) == 0)
        r = sp_cgroup_limit_pids(run, c);
    if (r == 0 && c->cgroup_cpu &&
        (r = sp_cgroup_write(group, "cgroup.subtree_control", "+cpu")) == 0)
        r = sp_cgroup_limit_cpu(run, c);
    return r;
}

int sp_cgroup_cell_make(int commands, unsigned n, const struct sp_config *c,
                        struct sp_cgroup_fds *f, int *home)
{
    char path[PATH];
    int r = sp_cgroup_cell_folders(commands, n);
    if (r != 0)
        return r;
    (void)snprintf(path, sizeof path, "%u", n);
    int group = open_folder(commands, path);
    if (group < 0)
        return group;
    int run = open_folder(group, "run");
    r = run < 0 ? run : limit(group, run, c);
    if (r == 0)
        r = sp_cgroup_open(run, c->cgroup_memory, c->cgroup_cpu, f);
    if (r == 0 && (*home = open_folder(group, "cell")) < 0) {
        r = *home;
        sp_cgroup_close(f);
    }
    if (run >= 0)
        close(run);
    close(group);
    return r;
}

int sp_cgroup_cell_give(int commands, unsigned n, uid_t uid)
{
    static const char *const files[] = {"cgroup.procs", "run/cgroup.procs"};
    char path[PATH];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof path, "%u/%s", n, files[i]);
        if (fchownat(commands, path, uid, (gid_t)-1, AT_SYMLINK_NOFOLLOW) != 0)
            return -errno;
    }
    return 0;
}

int sp_cgroup_cell_lift(int commands, unsigned n)
{
    char path[PATH];
    (void)snprintf(path, sizeof path, "%u/run", n);
    int run = open_folder(commands, path);
    if (run < 0)
        return run;
    int r = sp_cgroup_limit_cpu(run, NULL);
    close(run);
    return r;
}

int sp_cgroup_cell_remove(int commands, unsigned n)
{
    static const char *const below[] = {"/run", "/cell", ""};
    char path[PATH];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof path, "%u%s", n, below[i]);
        if (unlinkat(commands, path, AT_REMOVEDIR) != 0 && errno != ENOENT)
            return -errno;
    }
    return 0;
}

void sp_cgroup_cells_remove(int commands)
{
    int fd = open_folder(commands, ".");
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (d == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    const struct dirent *e;
    while ((e = readdir(d)) != NULL)
        if (e->d_name[0] >= '1' && e->d_name[0] <= '9')
            (void)sp_cgroup_cell_remove(commands, (unsigned)strtoul(e->d_name, NULL, 10));
    closedir(d);
}
