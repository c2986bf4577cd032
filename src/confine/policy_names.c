/* policy_names.c: the names that a policy may use for values and errors. A closed table: what
 * isn't here is an error in the lint, never a silent zero. */
#include "policy.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* Younger than the oldest headers that we build with. */
#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif
#ifndef PR_SCHED_CORE
#define PR_SCHED_CORE 62
#endif

struct name {
    const char *name;
    uint64_t value;
};

#define N(x)                                                                                       \
    {                                                                                              \
#x, (uint64_t)(x)                                                                          \
    }

static const struct name values[] = {
    N(AF_UNIX),
    N(AF_INET),
    N(AF_INET6),
    N(AF_NETLINK),
    N(AF_PACKET),
    N(AF_VSOCK),
    N(AF_ALG),
    N(SOCK_STREAM),
    N(SOCK_DGRAM),
    N(SOCK_SEQPACKET),
    N(SOCK_RAW),
    N(SOCK_PACKET),
    N(SOCK_CLOEXEC),
    N(SOCK_NONBLOCK),
    N(NETLINK_ROUTE),
    N(IPPROTO_ICMP),
    N(IPPROTO_TCP),
    N(IPPROTO_UDP),
    N(IPPROTO_ICMPV6),
    N(TCP_ULP),
    N(CLONE_VM),
    N(CLONE_FS),
    N(CLONE_FILES),
    N(CLONE_SIGHAND),
    N(CLONE_THREAD),
    N(CLONE_VFORK),
    N(CLONE_NEWNS),
    N(CLONE_NEWCGROUP),
    N(CLONE_NEWUTS),
    N(CLONE_NEWIPC),
    N(CLONE_NEWUSER),
    N(CLONE_NEWPID),
    N(CLONE_NEWNET),
    N(CLONE_NEWTIME),
    N(PR_SET_PDEATHSIG),
    N(PR_GET_PDEATHSIG),
    N(PR_GET_DUMPABLE),
    N(PR_SET_DUMPABLE),
    N(PR_SET_NAME),
    N(PR_GET_NAME),
    N(PR_SET_MM),
    N(PR_SET_CHILD_SUBREAPER),
    N(PR_GET_CHILD_SUBREAPER),
    N(PR_SET_NO_NEW_PRIVS),
    N(PR_GET_NO_NEW_PRIVS),
    N(PR_SET_SECCOMP),
    N(PR_CAP_AMBIENT),
    N(PR_CAPBSET_READ),
    N(PR_CAPBSET_DROP),
    N(PR_SET_SECUREBITS),
    N(PR_SCHED_CORE),
    {"PR_SET_VMA", 0x53564d41u},
    N(TIOCSTI),
    {"TIOCLINUX", 0x541cu},
    N(TIOCSETD),
    N(FS_IOC_SETFLAGS),
    N(FS_IOC_FSSETXATTR),
    N(FICLONE),
    N(FICLONERANGE),
    N(FIDEDUPERANGE),
    N(TIOCGWINSZ),
    N(TIOCOUTQ),
    N(TCGETS),
    N(FIONBIO),
    N(FIONREAD),
    N(FIOCLEX),
    N(F_DUPFD),
    N(F_DUPFD_CLOEXEC),
    N(F_GETFD),
    N(F_SETFD),
    N(F_GETFL),
    N(F_SETFL),
    N(F_SETLEASE),
    {"F_SETDELEG", 1040},
    N(F_ADD_SEALS),
    N(F_GET_SEALS),
    N(F_SETPIPE_SZ),
    N(F_GETPIPE_SZ),
    N(PROT_READ),
    N(PROT_WRITE),
    N(PROT_EXEC),
    N(MAP_SHARED),
    N(MAP_PRIVATE),
    N(MAP_ANONYMOUS),
    N(MAP_FIXED),
    N(MAP_HUGETLB),
    N(MFD_HUGETLB),
    N(SHM_HUGETLB),
    N(MADV_MERGEABLE),
    N(O_WRONLY),
    N(O_RDWR),
    N(O_CREAT),
    N(O_EXCL),
    N(O_TMPFILE),
    N(S_ISUID),
    N(S_ISGID),
    N(SIGABRT),
    N(SIGKILL),
    N(SIGSTOP),
    {"PER_LINUX", 0},
    {"PER_LINUX32", 8},
    {"UNAME26", 0x20000u},
    {"ADDR_NO_RANDOMIZE", 0x40000u},
};

static const struct name errors[] = {
    N(EPERM),      N(ENOENT),          N(EIO),
    N(ENXIO),      N(EBADF),           N(EAGAIN),
    N(ENOMEM),     N(EACCES),          N(EFAULT),
    N(EBUSY),      N(EEXIST),          N(EXDEV),
    N(ENODEV),     N(EINVAL),          N(ENOTTY),
    N(ENOSPC),     N(ENOSYS),          N(EPROTONOSUPPORT),
    N(EOPNOTSUPP), N(EPROTOTYPE),      N(EAFNOSUPPORT),
    N(EPIPE),      N(ESOCKTNOSUPPORT), N(ENOPKG),
};

static const struct name *find(const struct name *t, size_t n, const char *s, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(t[i].name) == len && memcmp(t[i].name, s, len) == 0)
            return &t[i];
    return NULL;
}

bool sp_policy_value(const char *s, size_t n, uint64_t *out)
{
    const struct name *f = find(values, sizeof values / sizeof values[0], s, n);
    if (f == NULL)
        return false;
    *out = f->value;
    return true;
}

int sp_policy_errno(const char *s, size_t n)
{
    const struct name *f = find(errors, sizeof errors / sizeof errors[0], s, n);
    return f == NULL ? 0 : (int)f->value;
}
