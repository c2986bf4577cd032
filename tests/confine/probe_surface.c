/* probe_surface.c: what any user may ask of an ordinary kernel by ordinary calls, and that reaches
 * others all the same: leases, files' flags, line disciplines, modules loaded for a protocol,
 * counts of the whole machine. */
#include "probe.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#define HIGH 0xf00000000

enum { LEASE, FLAGS, PROJECT, SUBVOLUME, CLONE };

/* A file of one's own in the workspace. y: bits that the kernel ignores. */
static int own_file(const struct probe_stage *s, const struct probe *p)
{
    struct fsxattr x;
    int flags, r = 0, fd = open(inside(s, "surface"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    switch (p->x) {
    case LEASE:
        return CALL(SYS_fcntl, fd, F_SETLEASE | p->y, F_WRLCK);
    case FLAGS: /* set to what they are */
        r = CALL(SYS_ioctl, fd, FS_IOC_GETFLAGS, &flags);
        return r != 0 ? PROBE_BROKEN : CALL(SYS_ioctl, fd, (long)FS_IOC_SETFLAGS | p->y, &flags);
    case PROJECT:
        r = CALL(SYS_ioctl, fd, FS_IOC_FSGETXATTR, &x);
        return r != 0 ? PROBE_BROKEN : CALL(SYS_ioctl, fd, (long)FS_IOC_FSSETXATTR | p->y, &x);
    case SUBVOLUME: /* of btrfs; another file system says that it isn't its */
        return reached(CALL(SYS_ioctl, fd, 0x5000940e | p->y, NULL), ENOTTY);
    default:
        return reached(CALL(SYS_ioctl, fd, (long)FICLONE | p->y, -1), EBADF);
    }
}

static int discipline(const struct probe_stage *s, const struct probe *p)
{
    int plain = 0, fd = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    (void)s;
    return fd < 0 ? errno : CALL(SYS_ioctl, fd, TIOCSETD | p->y, &plain);
}

static int memory(const struct probe_stage *s, const struct probe *p)
{
    unsigned long context = 0;
    int ends[2];
    (void)s;
    switch (p->x) {
    case 0:
        return CALL(SYS_memfd_create, "x", MFD_HUGETLB | p->y);
    case 1:
        return CALL(SYS_mmap, NULL, 2 << 20, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | MAP_NORESERVE, -1, 0);
    case 2: {
        void *at = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return at == MAP_FAILED ? errno : CALL(SYS_madvise, at, 4096, MADV_MERGEABLE | p->y);
    }
    case 3:
        return CALL(SYS_io_setup, 1, &context);
    default:
        return reached(CALL(SYS_pipe2, ends, O_EXCL | p->y), ENOPKG);
    }
}

static int protocol(const struct probe_stage *s, const struct probe *p)
{
    (void)s;
    if (p->x != 0)
        return CALL(SYS_socket, p->x, p->y, p->z);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? errno
                  : reached(CALL(SYS_setsockopt, fd, IPPROTO_TCP, TCP_ULP | p->y, "", 0), EINVAL);
}

const struct probe probes_surface[] = {
    {"lease", own_file, NULL, LEASE, 0, 0},
    {"lease-bit32", own_file, NULL, LEASE, HIGH, 0},
    {"file-flags", own_file, NULL, FLAGS, 0, 0},
    {"file-flags-bit32", own_file, NULL, FLAGS, HIGH, 0},
    {"file-project", own_file, NULL, PROJECT, 0, 0},
    {"btrfs-subvolume", own_file, NULL, SUBVOLUME, 0, 0},
    {"btrfs-subvolume-bit32", own_file, NULL, SUBVOLUME, HIGH, 0},
    {"clone-file", own_file, NULL, CLONE, 0, 0},
    {"line-discipline", discipline, NULL, 0, 0, 0},
    {"line-discipline-bit32", discipline, NULL, 0, HIGH, 0},
    {"huge-memory-file", memory, NULL, 0, 0, 0},
    {"huge-map", memory, NULL, 1, 0, 0},
    {"merge-pages", memory, NULL, 2, 0, 0},
    {"merge-pages-bit32", memory, NULL, 2, HIGH, 0},
    {"aio-setup", memory, NULL, 3, 0, 0},
    {"notice-pipe", memory, NULL, 4, 0, 0},
    {"socket-mptcp", protocol, NULL, AF_INET, SOCK_STREAM, 262},
    {"socket-mptcp6", protocol, NULL, AF_INET6, SOCK_STREAM, 262},
    {"socket-mptcp-bit32", protocol, NULL, AF_INET, SOCK_STREAM, HIGH | 262},
    {"socket-udp", protocol, NULL, AF_INET, SOCK_DGRAM, IPPROTO_UDP},
    {"upper-protocol", protocol, NULL, 0, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
