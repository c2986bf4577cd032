/* probe_front.c: what the front's filter lets through in one form and must not in another. They
 * mean little as a command, which may do most of it. Descriptor 8 is a listening socket that
 * outlives the process. */
#include "probe.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <net/if.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define LISTENER 8

static int look(const struct probe_stage *s, const struct probe *p)
{
    struct stat st;
    return CALL(SYS_newfstatat, AT_FDCWD, p->path != NULL ? p->path : outside(s, "secret"), &st,
                p->x);
}

static int listener(const struct probe_stage *s, const struct probe *p)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
    struct sock_filter none[] = {BPF_STMT(BPF_RET | BPF_K, 0)};
    const struct sock_fprog prog = {1, none};
    struct ifconf ifc = {.ifc_len = 0};
    in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    switch (p->x) {
    case 0:
        return CALL(SYS_shutdown, LISTENER, SHUT_RD);
    case 1:
        return reached(CALL(SYS_shutdown, LISTENER, SHUT_RDWR), ENOTCONN);
    case 2: /* that it is connected already, or is asked in vain, is an answer of the other side */
        return reached(CALL(SYS_sendto, LISTENER, "x", 1, MSG_FASTOPEN, &in, sizeof in),
                       ECONNREFUSED);
    case 3:
        return reached(CALL(SYS_sendto, LISTENER, "x", 1, MSG_NOSIGNAL, &in, sizeof in), EPIPE);
    case 4:
        return CALL(SYS_setsockopt, LISTENER, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof prog);
    case 5:
        return CALL(SYS_setsockopt, LISTENER, SOL_SOCKET, SO_RCVLOWAT, &(int){1}, sizeof(int));
    case 6:
        return CALL(SYS_listen, LISTENER, 1);
    case 7:
        return reached(CALL(SYS_connect, LISTENER, &in, sizeof in), EISCONN);
    case 8:
        return CALL(SYS_ioctl, LISTENER, SIOCGIFCONF, &ifc);
    default:
        return reached(CALL(SYS_fcntl, LISTENER, p->y, p->z), EINVAL);
    }
}

static int memory(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    if (p->x == 0)
        return outcome((long)(intptr_t)mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    void *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return errno;
    if (p->x == 2)
        return CALL(SYS_pkey_mprotect, m, 4096, PROT_READ | PROT_EXEC, -1);
    return reached(CALL(SYS_mprotect, m, 4096, (PROT_READ | PROT_EXEC) | p->y), EINVAL);
}

static int abort_daemon(int pid, const struct probe *p)
{
    return CALL(SYS_tgkill, pid, pid, p->x);
}

static int abort_others(const struct probe_stage *s, const struct probe *p)
{
    return on_each(s, p, abort_daemon);
}

/* A folder, or a file that has a name somewhere and can be written. */
static int holds(const struct probe_stage *s, const struct probe *p)
{
    struct stat st;
    (void)s;
    for (int fd = 3; fd < 4096; fd++) {
        if (syscall(SYS_fstat, fd, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode) || S_ISBLK(st.st_mode) || (S_ISREG(st.st_mode) && st.st_nlink > 0))
            return p->x == 0 ? 0 : EBADF;
    }
    return EBADF;
}

static int start(const struct probe_stage *s, const struct probe *p)
{
    char name[] = "true", *argv[] = {name, NULL}, *envp[] = {NULL};
    (void)s;
    if (p->x == 0)
        return CALL(SYS_execve, "/bin/true", argv, envp);
    if (p->x == 1)
        return CALL(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &(struct rlimit){0, 0});
    return reached(CALL(SYS_getdents64, LISTENER, argv, 8), ENOTDIR);
}

const struct probe probes_front[] = {
    {"front-stat-host", look, "/etc/passwd", AT_EMPTY_PATH, 0, 0},
    {"front-stat-outside", look, NULL, AT_EMPTY_PATH, 0, 0},
    {"front-stat-proc", look, "/proc/1/cmdline", AT_EMPTY_PATH, 0, 0},
    {"front-stat-plain", look, "/etc/passwd", 0, 0, 0},
    {"front-deafen-listener", listener, NULL, 0, 0, 0},
    {"front-shut-listener", listener, NULL, 1, 0, 0},
    {"front-fast-open", listener, NULL, 2, 0, 0},
    {"front-send-to", listener, NULL, 3, 0, 0},
    {"front-filter-listener", listener, NULL, 4, 0, 0},
    {"front-option-listener", listener, NULL, 5, 0, 0},
    {"front-listen", listener, NULL, 6, 0, 0},
    {"front-connect", listener, NULL, 7, 0, 0},
    {"front-interfaces", listener, NULL, 8, 0, 0},
    {"front-set-owner", listener, NULL, 9, F_SETOWN, 0},
    {"front-set-signal", listener, NULL, 9, F_SETSIG, 0},
    {"front-lease", listener, NULL, 9, F_SETLEASE, 0},
    {"front-map-code", memory, NULL, 0, 0, 0},
    {"front-make-code", memory, NULL, 1, 0, 0},
    {"front-make-code-bit32", memory, NULL, 1, 1L << 32, 0},
    {"front-make-code-pkey", memory, NULL, 2, 0, 0},
    {"front-abort-daemon", abort_others, NULL, SIGABRT, 0, 0},
    {"front-signal-daemon", abort_others, NULL, SIGCONT, 0, 0},
    {"front-holds-file", holds, NULL, 0, 0, 0},
    {"front-exec", start, NULL, 0, 0, 0},
    {"front-limits", start, NULL, 1, 0, 0},
    {"front-list-descriptor", start, NULL, 2, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
