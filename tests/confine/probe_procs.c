/* probe_procs.c: the daemon's processes: to see them, signal them, trace them, read and write their
 * memory and files, change their limits and priorities. In a control run the victim is a process
 * of the same user. */
#include "probe.h"

#include <fcntl.h>
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

static const char *proc_path(int pid, const char *name)
{
    static char path[128];
    (void)snprintf(path, sizeof path, "/proc/%d/%s", pid, name);
    return path;
}

/* x: 0 stat, 1 read, 2 open for writing, 3 readlink, 4 list, 5 open */
static int proc_file(int pid, const struct probe *p)
{
    const char *path = proc_path(pid, p->path);
    struct stat st;
    char buf[256];
    switch (p->x) {
    case 0:
        return outcome(stat(path, &st));
    case 1:
        return try_read(path);
    case 2:
        return try_open(path, O_WRONLY);
    case 3:
        return outcome(readlink(path, buf, sizeof buf));
    case 4:
        return try_open(path, O_RDONLY | O_DIRECTORY);
    default:
        return try_open(path, O_RDONLY);
    }
}

/* An address that is mapped in a child of ours, too; any other process fails earlier. */
static int proc_mem(int pid, const struct probe *p)
{
    static volatile char here = 'x';
    int fd = open(proc_path(pid, "mem"), (p->x ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    char c = 'y';
    if (fd < 0)
        return errno;
    return outcome(p->x ? pwrite(fd, &c, 1, (off_t)(uintptr_t)&here)
                        : pread(fd, &c, 1, (off_t)(uintptr_t)&here));
}

static int by_signal(int pid, const struct probe *p)
{
    siginfo_t si = {.si_signo = (int)p->y, .si_code = SI_QUEUE};
    int fd;
    switch (p->x) {
    case 0:
        return CALL(SYS_kill, pid, p->y);
    case 1:
        return CALL(SYS_tkill, pid, p->y);
    case 2:
        return CALL(SYS_tgkill, pid, pid, p->y);
    case 3:
        return CALL(SYS_rt_sigqueueinfo, pid, p->y, &si);
    case 4:
        return CALL(SYS_rt_tgsigqueueinfo, pid, pid, p->y, &si);
    case 5: /* -1 would be everybody, oneself too */
        return pid == 1 ? EPERM : CALL(SYS_kill, -pid, p->y);
    default:
        fd = (int)syscall(SYS_pidfd_open, pid, 0);
        return fd < 0 || p->x == 7 ? outcome(fd)
                                   : CALL(SYS_pidfd_send_signal, fd, p->y, NULL, p->x == 8 ? 4 : 0);
    }
}

static bool stopped(int pid)
{
    char buf[256] = "";
    int fd = open(proc_path(pid, "stat"), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, buf, sizeof buf - 1) <= 0)
        return false;
    close(fd);
    const char *end = strrchr(buf, ')');
    return end != NULL && end[2] == 'T';
}

/* The kernel sends it, in our name, when the socket is ready; the sender isn't told of a refusal.
 */
static int by_owner(int pid, const struct probe *p)
{
    int pair[2];
    (void)p;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return errno;
    if (fcntl(pair[0], F_SETOWN, pid) != 0 || fcntl(pair[0], F_SETSIG, SIGSTOP) != 0 ||
        fcntl(pair[0], F_SETFL, O_ASYNC) != 0 || write(pair[1], "x", 1) != 1)
        return errno;
    for (int i = 0; i < 30; i++) {
        if (stopped(pid)) /* our end closes the pair, which is another event */
            return fcntl(pair[0], F_SETFL, 0) != 0 ? PROBE_BROKEN : outcome(kill(pid, SIGCONT));
        usleep(10000);
    }
    return EPERM;
}

static int by_ptrace(int pid, const struct probe *p)
{
    return outcome(ptrace((enum __ptrace_request)p->x, pid, NULL, NULL));
}

static int by_vm(int pid, const struct probe *p)
{
    static char here[8], there[8];
    struct iovec l = {here, 8}, r = {there, 8};
    return outcome(p->x ? process_vm_writev(pid, &l, 1, &r, 1, 0)
                        : process_vm_readv(pid, &l, 1, &r, 1, 0));
}

static int by_pidfd(int pid, const struct probe *p)
{
    static char page[8192];
    struct iovec v = {(void *)(((uintptr_t)page + 4095) & ~(uintptr_t)4095), 4096};
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        fd = 0; /* what the call itself says is what counts */
    switch (p->x) {
    case 0:
        return CALL(SYS_pidfd_getfd, fd, 0, 0);
    case 1:
        return CALL(SYS_process_madvise, fd, &v, 1, MADV_COLD, 0);
    case 2: /* the kernel only helps with what is dying: EINVAL is beyond the door */
        return reached(CALL(SYS_process_mrelease, fd, 0), EINVAL);
    default:
        return CALL(SYS_setns, fd, CLONE_NEWUTS);
    }
}

static int by_kernel(int pid, const struct probe *p)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .exclude_kernel = 1,
                                .exclude_hv = 1};
    unsigned long node = 1;
    void *list = NULL;
    size_t len;
    switch (p->x) {
    case 0:
        return CALL(SYS_kcmp, pid, pid, KCMP_FILE, 0, 0);
    case 1:
        return CALL(SYS_perf_event_open, &a, pid, -1, -1, 0);
    case 2:
        return CALL(SYS_get_robust_list, pid, &list, &len);
    case 3:
        return CALL(SYS_migrate_pages, pid, 2, &node, &node);
    case 4:
        return CALL(SYS_move_pages, pid, 0, NULL, NULL, NULL, 0);
    case 5:
        return CALL(SYS_setpgid, pid, pid);
    case 6:
        return CALL(SYS_getpgid, pid);
    case 7:
        return CALL(SYS_getsid, pid);
    default:
        return CALL(SYS_capget, &(uint32_t[2]){0x20080522, (uint32_t)pid}, &(uint32_t[6]){0});
    }
}

static int limit(int pid, const struct probe *p)
{
    struct rlimit now = {0, 0};
    int r = CALL(SYS_prlimit64, pid | p->y, RLIMIT_NOFILE, NULL, &now);
    if (p->x == 0)
        return r;
    if (r != 0)
        now.rlim_cur = now.rlim_max = 4096;
    return CALL(SYS_prlimit64, pid | p->y, RLIMIT_NOFILE, &now, NULL);
}

static int priority(int pid, const struct probe *p)
{
    const struct sched_param none = {0};
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime, deadline, period;
    } attr = {.size = 48, .nice = getpriority(PRIO_PROCESS, 0)};
    unsigned long cpus[16] = {0};
    switch (p->x) {
    case 0:
        return CALL(SYS_setpriority, PRIO_PROCESS, pid | p->y, 19);
    case 1:
        return CALL(SYS_setpriority, PRIO_PGRP, pid, 19);
    case 2:
        return CALL(SYS_setpriority, PRIO_USER, 0, getpriority(PRIO_PROCESS, 0));
    case 3:
        return CALL(SYS_ioprio_set, IOPRIO_WHO_PROCESS, pid, IOPRIO_PRIO_VALUE(3, 0));
    case 4:
        return CALL(SYS_sched_setscheduler, pid | p->y, SCHED_BATCH, &none);
    case 5:
        return CALL(SYS_sched_setparam, pid | p->y, &none);
    case 6:
        return CALL(SYS_sched_setattr, pid | p->y, &attr, 0);
    case 7:
        if (sched_getaffinity(0, sizeof cpus, (cpu_set_t *)cpus) != 0)
            return PROBE_BROKEN;
        return CALL(SYS_sched_setaffinity, pid, sizeof cpus, cpus);
    case 8:
        return CALL(SYS_sched_getaffinity, pid, sizeof cpus, cpus);
    case 9:
        return CALL(SYS_getpriority, PRIO_PROCESS, pid);
    default:
        return CALL(SYS_ioprio_set, 3 /* user */, getuid(), IOPRIO_PRIO_VALUE(2, 7));
    }
}

/* One entry point for all of the above: which one, by the group in z. */
static int daemon_probe(const struct probe_stage *s, const struct probe *p)
{
    static int (*const f[])(int, const struct probe *) = {proc_file, proc_mem, by_signal, by_owner,
                                                          by_ptrace, by_vm,    by_pidfd,  by_kernel,
                                                          limit,     priority};
    return on_each(s, p, f[p->z]);
}

static int trace_me(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    (void)p;
    return outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

#define HIGH (1L << 32)
enum { PROC, MEM, SIG, OWNER, TRACE, VM, PIDFD, KERNEL, LIMIT, PRIO };

const struct probe probes_procs[] = {
    {"daemon-seen-in-proc", daemon_probe, "", 0, 0, PROC},
    {"daemon-status", daemon_probe, "status", 1, 0, PROC},
    {"daemon-cmdline", daemon_probe, "cmdline", 1, 0, PROC},
    {"daemon-limits", daemon_probe, "limits", 1, 0, PROC},
    {"daemon-environ", daemon_probe, "environ", 1, 0, PROC},
    {"daemon-maps", daemon_probe, "maps", 1, 0, PROC},
    {"daemon-auxv", daemon_probe, "auxv", 1, 0, PROC},
    {"daemon-syscall", daemon_probe, "syscall", 1, 0, PROC},
    {"daemon-io", daemon_probe, "io", 1, 0, PROC},
    {"daemon-exe", daemon_probe, "exe", 3, 0, PROC},
    {"daemon-exe-read", daemon_probe, "exe", 1, 0, PROC},
    {"daemon-cwd", daemon_probe, "cwd", 3, 0, PROC},
    {"daemon-root", daemon_probe, "root", 3, 0, PROC},
    {"daemon-root-enter", daemon_probe, "root/", 4, 0, PROC},
    {"daemon-cwd-enter", daemon_probe, "cwd/", 4, 0, PROC},
    {"daemon-fd-list", daemon_probe, "fd", 4, 0, PROC},
    {"daemon-fd-stat", daemon_probe, "fd/0", 0, 0, PROC},
    {"daemon-fd-link", daemon_probe, "fd/0", 3, 0, PROC},
    {"daemon-fdinfo", daemon_probe, "fdinfo/0", 1, 0, PROC},
    {"daemon-map-files", daemon_probe, "map_files", 4, 0, PROC},
    {"daemon-ns-open", daemon_probe, "ns/mnt", 5, 0, PROC},
    {"daemon-ns-user", daemon_probe, "ns/user", 3, 0, PROC},
    {"daemon-mem-read", daemon_probe, NULL, 0, 0, MEM},
    {"daemon-mem-write", daemon_probe, NULL, 1, 0, MEM},
    {"daemon-comm-write", daemon_probe, "comm", 2, 0, PROC},
    {"daemon-oom-score-write", daemon_probe, "oom_score_adj", 2, 0, PROC},
    {"daemon-clear-refs", daemon_probe, "clear_refs", 2, 0, PROC},
    {"daemon-timerslack", daemon_probe, "timerslack_ns", 2, 0, PROC},
    {"daemon-uid-map", daemon_probe, "uid_map", 2, 0, PROC},
    {"daemon-signal-0", daemon_probe, NULL, 0, 0, SIG},
    {"daemon-kill", daemon_probe, NULL, 0, SIGCONT, SIG},
    {"daemon-tkill", daemon_probe, NULL, 1, SIGCONT, SIG},
    {"daemon-tgkill", daemon_probe, NULL, 2, SIGCONT, SIG},
    {"daemon-sigqueue", daemon_probe, NULL, 3, SIGURG, SIG},
    {"daemon-tgsigqueue", daemon_probe, NULL, 4, SIGURG, SIG},
    {"daemon-kill-group", daemon_probe, NULL, 5, SIGCONT, SIG},
    {"daemon-pidfd-signal", daemon_probe, NULL, 6, SIGURG, SIG},
    {"daemon-pidfd-group", daemon_probe, NULL, 8, SIGURG, SIG},
    {"daemon-pidfd-open", daemon_probe, NULL, 7, 0, SIG},
    {"daemon-sigio", daemon_probe, NULL, 0, 0, OWNER},
    {"daemon-ptrace-attach", daemon_probe, NULL, PTRACE_ATTACH, 0, TRACE},
    {"daemon-ptrace-seize", daemon_probe, NULL, PTRACE_SEIZE, 0, TRACE},
    {"own-ptrace-traceme", trace_me, NULL, 0, 0, 0},
    {"daemon-vm-read", daemon_probe, NULL, 0, 0, VM},
    {"daemon-vm-write", daemon_probe, NULL, 1, 0, VM},
    {"daemon-pidfd-getfd", daemon_probe, NULL, 0, 0, PIDFD},
    {"daemon-madvise", daemon_probe, NULL, 1, 0, PIDFD},
    {"daemon-mrelease", daemon_probe, NULL, 2, 0, PIDFD},
    {"daemon-setns", daemon_probe, NULL, 3, 0, PIDFD},
    {"daemon-kcmp", daemon_probe, NULL, 0, 0, KERNEL},
    {"daemon-perf", daemon_probe, NULL, 1, 0, KERNEL},
    {"daemon-robust-list", daemon_probe, NULL, 2, 0, KERNEL},
    {"daemon-migrate-pages", daemon_probe, NULL, 3, 0, KERNEL},
    {"daemon-move-pages", daemon_probe, NULL, 4, 0, KERNEL},
    {"daemon-setpgid", daemon_probe, NULL, 5, 0, KERNEL},
    {"daemon-getpgid", daemon_probe, NULL, 6, 0, KERNEL},
    {"daemon-getsid", daemon_probe, NULL, 7, 0, KERNEL},
    {"daemon-capget", daemon_probe, NULL, 8, 0, KERNEL},
    {"daemon-limit-read", daemon_probe, NULL, 0, 0, LIMIT},
    {"daemon-limit-set", daemon_probe, NULL, 1, 0, LIMIT},
    {"daemon-limit-set-bit32", daemon_probe, NULL, 1, HIGH, LIMIT},
    {"daemon-setpriority", daemon_probe, NULL, 0, 0, PRIO},
    {"daemon-setpriority-bit32", daemon_probe, NULL, 0, HIGH, PRIO},
    {"daemon-setpriority-group", daemon_probe, NULL, 1, 0, PRIO},
    {"daemon-setpriority-user", daemon_probe, NULL, 2, 0, PRIO},
    {"daemon-ioprio", daemon_probe, NULL, 3, 0, PRIO},
    {"daemon-ioprio-user", daemon_probe, NULL, 10, 0, PRIO},
    {"daemon-setscheduler", daemon_probe, NULL, 4, 0, PRIO},
    {"daemon-setscheduler-bit32", daemon_probe, NULL, 4, HIGH, PRIO},
    {"daemon-setparam", daemon_probe, NULL, 5, 0, PRIO},
    {"daemon-setattr", daemon_probe, NULL, 6, 0, PRIO},
    {"daemon-affinity-set", daemon_probe, NULL, 7, 0, PRIO},
    {"daemon-affinity-get", daemon_probe, NULL, 8, 0, PRIO},
    {"daemon-getpriority", daemon_probe, NULL, 9, 0, PRIO},
    {NULL, NULL, NULL, 0, 0, 0},
};
