/* probe_names.c: attributes of files outside the workspace: modes, owners, times, extended
 * attributes, handles, watches; the path calls that are younger than the libraries. */
#include "probe.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/time.h>
#include <sys/xattr.h>

/* Younger than the headers of bookworm. */
enum {
    NR_FCHMODAT2 = 452,
    NR_SETXATTRAT = 463,
    NR_GETXATTRAT = 464,
    NR_REMOVEXATTRAT = 466,
    NR_FILE_GETATTR = 468,
    NR_FILE_SETATTR = 469
};

static int mode_of(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    char link[64];
    int fd;
    switch (p->x) {
    case 0:
        return CALL(SYS_chmod, path, 0644);
    case 1:
        return CALL(SYS_fchmodat, AT_FDCWD, path, 0644);
    case 2:
        return CALL(NR_FCHMODAT2, AT_FDCWD, path, 0644, AT_SYMLINK_NOFOLLOW);
    default:
        fd = open(path, O_PATH | O_CLOEXEC);
        if (fd < 0)
            return errno;
        (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        return CALL(SYS_chmod, link, 0644);
    }
}

static int owner_of(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    switch (p->x) {
    case 0:
        return CALL(SYS_chown, path, -1, getgid());
    case 1:
        return CALL(SYS_lchown, path, -1, getgid());
    default:
        return CALL(SYS_fchownat, AT_FDCWD, path, -1, getgid(), 0);
    }
}

static int times_of(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    const struct timespec t[2] = {{1, 0}, {1, 0}};
    const struct timeval v[2] = {{1, 0}, {1, 0}};
    const long u[2] = {1, 1};
    switch (p->x) {
    case 0:
        return CALL(SYS_utimensat, AT_FDCWD, path, t, 0);
    case 1:
        return CALL(SYS_utimes, path, v);
    case 2:
        return CALL(SYS_utime, path, u);
    default:
        return CALL(SYS_futimesat, AT_FDCWD, path, v);
    }
}

static int xattr_of(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    char buf[4096];
    switch (p->x) {
    case 0:
        return outcome(setxattr(path, "user.sp", "x", 1, 0));
    case 1:
        return outcome(lsetxattr(path, "user.sp2", "x", 1, 0));
    case 2:
        return outcome(listxattr(path, buf, sizeof buf));
    case 3:
        return outcome(getxattr(path, "user.given", buf, sizeof buf));
    case 4:
        return outcome(removexattr(path, "user.remove"));
    default:
        return outcome(lremovexattr(path, "user.remove2"));
    }
}

static int xattr_at(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    char buf[16] = "x";
    struct {
        uint64_t value;
        uint32_t size, flags;
    } args = {(uintptr_t)buf, 1, 0};
    if (p->x == 0)
        return CALL(NR_SETXATTRAT, AT_FDCWD, path, 0, "user.sp3", &args, sizeof args);
    if (p->x == 1)
        return CALL(NR_REMOVEXATTRAT, AT_FDCWD, path, 0, "user.remove3");
    args.size = sizeof buf;
    return CALL(NR_GETXATTRAT, AT_FDCWD, path, 0, "user.given", &args, sizeof args);
}

/* Flags as chattr sets them, without opening the file. */
static int file_attr(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    struct {
        uint64_t xflags;
        uint32_t extsize, nextents, projid, cowextsize;
    } a = {0};
    int r = CALL(NR_FILE_GETATTR, AT_FDCWD, path, &a, sizeof a, 0);
    return r != 0 || p->x == 0 ? r : CALL(NR_FILE_SETATTR, AT_FDCWD, path, &a, sizeof a, 0);
}

static int look(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, "attr");
    struct statfs fs;
    char x[256];
    switch (p->x) {
    case 0:
        return outcome(access(path, R_OK));
    case 1:
        return outcome(statfs(path, &fs));
    case 2:
        return CALL(SYS_statx, AT_FDCWD, path, 0, 0x7ff, x);
    default:
        return CALL(SYS_name_to_handle_at, AT_FDCWD, path, memcpy(x, &(uint32_t[2]){128, 0}, 8),
                    &(int){0}, 0);
    }
}

static int open_handle(const struct probe_stage *s, const struct probe *p)
{
    struct {
        uint32_t bytes;
        int32_t type;
        char handle[128];
    } h = {.bytes = 128};
    int mount, dir = open(s->ws, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)p;
    int r = CALL(SYS_name_to_handle_at, AT_FDCWD, outside(s, "secret"), &h, &mount, 0);
    if (r != 0) /* an attacker guesses it: inode numbers are small */
        h.bytes = 8, h.type = 1;
    return CALL(SYS_open_by_handle_at, dir, &h, O_RDONLY | O_CLOEXEC);
}

static int watch(const struct probe_stage *s, const struct probe *p)
{
    const char *path = outside(s, p->x == 2 ? "secret" : "");
    if (p->x != 1) {
        int fd = inotify_init1(IN_CLOEXEC);
        return fd < 0 ? errno
                      : outcome(inotify_add_watch(fd, path, IN_ALL_EVENTS & ~IN_DELETE_SELF));
    }
    int fd =
        (int)syscall(SYS_fanotify_init, FAN_CLASS_NOTIF | 0x200 /* FAN_REPORT_FID */, O_RDONLY);
    return fd < 0
               ? errno
               : CALL(SYS_fanotify_mark, fd, FAN_MARK_ADD, FAN_OPEN | FAN_MODIFY, AT_FDCWD, path);
}

/* Nodes of devices, in a command's reach by their path: what is told of them is the host's. */
static int node_of(const struct probe_stage *s, const struct probe *p)
{
    const struct timespec now[2] = {{0, UTIME_NOW}, {0, UTIME_NOW}};
    struct stat st;
    (void)s;
    if (stat(p->path, &st) != 0)
        return errno;
    return p->x ? CALL(SYS_utimensat, AT_FDCWD, p->path, now, 0)
                : CALL(SYS_chmod, p->path, st.st_mode & 07777);
}

static int turn_to(const struct probe_stage *s, const struct probe *p)
{
    take_namespaces(s, 0);
    return p->x ? CALL(SYS_chroot, s->out) : CALL(SYS_chroot, ".");
}

const struct probe probes_names[] = {
    {"chmod-outside", mode_of, NULL, 0, 0, 0},
    {"chmod-outside-at", mode_of, NULL, 1, 0, 0},
    {"chmod-outside-at2", mode_of, NULL, 2, 0, 0},
    {"chmod-outside-by-fd", mode_of, NULL, 3, 0, 0},
    {"chown-outside", owner_of, NULL, 0, 0, 0},
    {"lchown-outside", owner_of, NULL, 1, 0, 0},
    {"chown-outside-at", owner_of, NULL, 2, 0, 0},
    {"utimensat-outside", times_of, NULL, 0, 0, 0},
    {"utimes-outside", times_of, NULL, 1, 0, 0},
    {"utime-outside", times_of, NULL, 2, 0, 0},
    {"futimesat-outside", times_of, NULL, 3, 0, 0},
    {"setxattr-outside", xattr_of, NULL, 0, 0, 0},
    {"lsetxattr-outside", xattr_of, NULL, 1, 0, 0},
    {"listxattr-outside", xattr_of, NULL, 2, 0, 0},
    {"getxattr-outside", xattr_of, NULL, 3, 0, 0},
    {"removexattr-outside", xattr_of, NULL, 4, 0, 0},
    {"lremovexattr-outside", xattr_of, NULL, 5, 0, 0},
    {"setxattrat-outside", xattr_at, NULL, 0, 0, 0},
    {"removexattrat-outside", xattr_at, NULL, 1, 0, 0},
    {"getxattrat-outside", xattr_at, NULL, 2, 0, 0},
    {"file-getattr-outside", file_attr, NULL, 0, 0, 0},
    {"file-setattr-outside", file_attr, NULL, 1, 0, 0},
    {"access-outside", look, NULL, 0, 0, 0},
    {"statfs-outside", look, NULL, 1, 0, 0},
    {"statx-outside", look, NULL, 2, 0, 0},
    {"handle-of-outside", look, NULL, 3, 0, 0},
    {"open-by-handle", open_handle, NULL, 0, 0, 0},
    {"inotify-outside", watch, NULL, 0, 0, 0},
    {"inotify-outside-file", watch, NULL, 2, 0, 0},
    {"fanotify-outside", watch, NULL, 1, 0, 0},
    {"chmod-device", node_of, "/dev/null", 0, 0, 0},
    {"chmod-terminal", node_of, "/dev/tty", 0, 0, 0},
    {"touch-device", node_of, "/dev/full", 1, 0, 0},
    {"chmod-masked-file", node_of, "/proc/keys", 0, 0, 0},
    {"touch-masked-file", node_of, "/proc/keys", 1, 0, 0},
    {"chmod-etc", node_of, "/etc", 0, 0, 0},
    {"chroot-here", turn_to, NULL, 0, 0, 0},
    {"chroot-outside", turn_to, NULL, 1, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
