/* probe_tables.c: large kernel interfaces that a command does without, other system call tables,
 * and arguments whose upper half a filter may forget. */
#include "probe.h"

#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

static int bpf(const struct probe_stage *s, const struct probe *p)
{
    union bpf_attr a = {0};
    const struct bpf_insn code[] = {{.code = 0xb7}, {.code = 0x95}}; /* r0 = 0; exit */
    (void)s;
    if (p->x == 0) {
        a.map_type = BPF_MAP_TYPE_ARRAY;
        a.key_size = a.value_size = 4;
        a.max_entries = 1;
        return CALL(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
    }
    a.prog_type = BPF_PROG_TYPE_SOCKET_FILTER;
    a.insns = (uintptr_t)code;
    a.insn_cnt = 2;
    a.license = (uintptr_t) "GPL";
    return CALL(SYS_bpf, BPF_PROG_LOAD, &a, sizeof a);
}

static int perf(const struct probe_stage *s, const struct probe *p)
{
    struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
                                .size = sizeof a,
                                .config = PERF_COUNT_SW_TASK_CLOCK,
                                .exclude_kernel = p->x == 0,
                                .exclude_hv = 1};
    (void)s;
    return CALL(SYS_perf_event_open, &a, p->x == 0 ? 0 : -1, p->x == 0 ? -1 : 0, -1, 0);
}

static int keys(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    switch (p->x) {
    case 0:
        return CALL(SYS_add_key, "user", "sp", "x", 1, KEY_SPEC_PROCESS_KEYRING);
    case 1:
        return reached(CALL(SYS_request_key, "user", "sp", NULL, 0), ENOKEY);
    case 2:
        return CALL(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1);
    default:
        return CALL(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    }
}

static int uring(const struct probe_stage *s, const struct probe *p)
{
    struct io_uring_params u = {0};
    (void)s;
    if (p->x == 0)
        return CALL(SYS_io_uring_setup, 4, &u);
    int fd = (int)syscall(SYS_io_uring_setup, 4, &u);
    if (p->x == 1)
        return CALL(SYS_io_uring_enter, fd, 0, 0, 0, NULL, 0);
    return CALL(SYS_io_uring_register, fd, 8 /* REGISTER_PROBE */, &(char[2064]){0}, 256);
}

static int faults(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return CALL(SYS_userfaultfd, O_CLOEXEC | p->x);
}

static int secret(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    (void)p;
    return CALL(SYS_memfd_secret, 0);
}

/* Its listener would answer for the filtered process: only ever one of its own children. */
static int listener(const struct probe_stage *s, const struct probe *p)
{
    struct sock_filter ok[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog prog = {1, ok};
    (void)s;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return errno;
    return CALL(SYS_seccomp, SECCOMP_SET_MODE_FILTER, p->x, &prog);
}

static int rules(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    (void)p;
    return CALL(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* ---- the other tables ---- */

static int int80(const struct probe_stage *s, const struct probe *p)
{
    long r;
    (void)s;
    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(p->x), "b"(p->y), "c"(0L), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return r < 0 && r > -4096 ? (int)-r : 0;
}

static int numbered(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    return CALL(p->x, p->y, p->z, 9, 0, 0, 0);
}

static int terminal(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    char c = 2;
    return fd < 0 ? errno : reached(CALL(SYS_ioctl, fd | p->y, p->x, &c), ENOTTY);
}

#define HIGH (1L << 32)
#define X32 0x40000000L

const struct probe probes_tables[] = {
    {"bpf-map", bpf, NULL, 0, 0, 0},
    {"bpf-program", bpf, NULL, 1, 0, 0},
    {"perf-self", perf, NULL, 0, 0, 0},
    {"perf-cpu", perf, NULL, 1, 0, 0},
    {"add-key", keys, NULL, 0, 0, 0},
    {"request-key", keys, NULL, 1, 0, 0},
    {"keyctl-user-ring", keys, NULL, 2, 0, 0},
    {"keyctl-session", keys, NULL, 3, 0, 0},
    {"io-uring-setup", uring, NULL, 0, 0, 0},
    {"io-uring-enter", uring, NULL, 1, 0, 0},
    {"io-uring-register", uring, NULL, 2, 0, 0},
    {"userfaultfd", faults, NULL, 0, 0, 0},
    {"userfaultfd-user", faults, NULL, UFFD_USER_MODE_ONLY, 0, 0},
    {"memfd-secret", secret, NULL, 0, 0, 0},
    {"seccomp-listener", listener, NULL, SECCOMP_FILTER_FLAG_NEW_LISTENER, 0, 0},
    {"seccomp-more", listener, NULL, 0, 0, 0},
    {"landlock-more", rules, NULL, 0, 0, 0},
    {"int80-getpid", int80, NULL, 20, 0, 0},
    {"int80-unshare", int80, NULL, 310, CLONE_NEWUSER, 0},
    {"int80-unknown", int80, NULL, 9999, 0, 0},
    {"x32-getpid", numbered, NULL, X32 | SYS_getpid, 0, 0},
    {"x32-unshare", numbered, NULL, X32 | SYS_unshare, CLONE_NEWUSER, 0},
    {"number-bit32-unshare", numbered, NULL, HIGH | SYS_unshare, CLONE_NEWUSER, 0},
    {"number-bit63-unshare", numbered, NULL, (long)(1UL << 63 | SYS_unshare), CLONE_NEWUSER, 0},
    {"socket-bit32-family", numbered, NULL, SYS_socket, HIGH | AF_NETLINK, SOCK_RAW},
    {"socket-bit32-unix-netlink", numbered, NULL, SYS_socket, (AF_UNIX * HIGH) | AF_NETLINK,
     SOCK_RAW},
    {"tiocsti", terminal, NULL, TIOCSTI, 0, 0},
    {"tiocsti-bit32", terminal, NULL, HIGH | TIOCSTI, 0, 0},
    {"tioclinux", terminal, NULL, TIOCLINUX, 0, 0},
    {"tioclinux-bit32", terminal, NULL, HIGH | TIOCLINUX, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
