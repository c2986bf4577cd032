/* cgroup_limit.c: the files of one cgroup of commands: its limits, and what a cell is handed of it.
 * Trusts the kernel and the operator's limits. */
#include "cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PERIOD_US 100000u /* the kernel's own default */

int sp_cgroup_write(int dir, const char *name, const char *text)
{
    int fd = openat(dir, name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = write(fd, text, strlen(text)) < 0 ? -errno : 0;
    close(fd);
    return r;
}

static int set_number(int dir, const char *name, uint64_t n)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return sp_cgroup_write(dir, name, text);
}

int sp_cgroup_limit_memory(int dir, const struct sp_config *c)
{
    int r = set_number(dir, "memory.max", c->limit_memory);
    /* Without swap accounting the file isn't there, and there is nothing to limit. */
    int swap = r == 0 ? set_number(dir, "memory.swap.max", 0) : 0;
    if (swap != 0 && swap != -ENOENT)
        r = swap;
    return r == 0 ? set_number(dir, "memory.oom.group", 1) : r;
}

int sp_cgroup_limit_pids(int dir, const struct sp_config *c)
{
    return set_number(dir, "pids.max", c->limit_procs);
}

int sp_cgroup_cpus(int fd, const struct sp_config *c)
{
    char text[48];
    int n = c == NULL
                ? snprintf(text, sizeof text, "max %u", PERIOD_US)
                : snprintf(text, sizeof text, "%llu %u",
                           (unsigned long long)(c->limit_cpus * PERIOD_US / 1000u), PERIOD_US);
    return pwrite(fd, text, (size_t)n, 0) == n ? 0 : -errno;
}

int sp_cgroup_limit_cpu(int dir, const struct sp_config *c)
{
    int fd = openat(dir, "cpu.max", O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int r = sp_cgroup_cpus(fd, c);
    close(fd);
    return r;
}

static int open_file(int dir, const char *name, int flags, int *fd)
{
    *fd = openat(dir, name, flags | O_NOFOLLOW | O_CLOEXEC);
    return *fd < 0 ? -errno : 0;
}

int sp_cgroup_open(int dir, bool memory, bool cpu, struct sp_cgroup_fds *f)
{
    *f = (struct sp_cgroup_fds){-1, -1, -1, -1, -1};
    int r = open_file(dir, ".", O_RDONLY | O_DIRECTORY, &f->dir);
    if (r == 0)
        r = open_file(dir, "cgroup.freeze", O_WRONLY, &f->freezer);
    if (r == 0)
        r = open_file(dir, "cgroup.procs", O_RDONLY, &f->procs);
    if (r == 0 && memory)
        r = open_file(dir, "memory.events", O_RDONLY, &f->events);
    if (r == 0 && cpu)
        r = open_file(dir, "cpu.max", O_WRONLY, &f->cpu);
    if (r != 0)
        sp_cgroup_close(f);
    return r;
}

void sp_cgroup_close(struct sp_cgroup_fds *f)
{
    int *fds[SP_CGROUP_FDS] = {&f->dir, &f->freezer, &f->procs, &f->events, &f->cpu};
    for (int i = 0; i < SP_CGROUP_FDS; i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

int sp_cgroup_map(const struct sp_cgroup_fds *f, struct sp_fdmap *map)
{
    const struct sp_fdmap all[SP_CGROUP_FDS] = {{f->dir, SP_FD_CGROUP},
                                                {f->freezer, SP_FD_CGROUP_FREEZE},
                                                {f->procs, SP_FD_CGROUP_PROCS},
                                                {f->events, SP_FD_CGROUP_EVENTS},
                                                {f->cpu, SP_FD_CGROUP_CPU}};
    int n = 0;
    for (int i = 0; i < SP_CGROUP_FDS; i++)
        if (all[i].from >= 0)
            map[n++] = all[i];
    return n;
}

uint64_t sp_cgroup_oom_kills(int events)
{
    char text[1024];
    ssize_t n = pread(events, text, sizeof text - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return sp_cgroup_value(text, "oom_kill");
}
