/* probe_spaces.c: namespaces, mounts and other roots, by the old calls and the new. A control run
 * first takes a user namespace, which is what a command would do, too. */
#include "probe.h"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { NR_STATMOUNT = 457, NR_LISTMOUNT = 458, NR_OPEN_TREE_ATTR = 467 };

static int leave(const struct probe_stage *s, const struct probe *p)
{
    if (p->x != CLONE_NEWUSER)
        take_namespaces(s, 0);
    return CALL(SYS_unshare, p->x);
}

/* A child ends at once; what it was given counts. */
static int child_made(long r)
{
    if (r == 0)
        _exit(0);
    if (r > 0)
        (void)waitpid((pid_t)r, NULL, __WALL);
    return outcome(r);
}

static int by_clone(const struct probe_stage *s, const struct probe *p)
{
    if ((p->x & CLONE_NEWUSER) == 0)
        take_namespaces(s, 0);
    return child_made(syscall(SYS_clone, p->x | p->y | SIGCHLD, 0, 0, 0, 0));
}

static int by_clone3(const struct probe_stage *s, const struct probe *p)
{
    struct clone_args a = {.flags = (uint64_t)p->x, .exit_signal = SIGCHLD};
    (void)s;
    return child_made(syscall(SYS_clone3, &a, sizeof a));
}

static int own_ns(const struct probe_stage *s, const struct probe *p)
{
    take_namespaces(s, (int)p->x);
    int fd = open(p->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fd = 0; /* the call itself is what is asked */
    return CALL(SYS_setns, fd, p->x);
}

static const char *stage_mount(const struct probe_stage *s)
{
    const char *dir = inside(s, "mnt");
    take_namespaces(s, CLONE_NEWNS);
    (void)mkdir(dir, 0755);
    if (s->control)
        (void)mount("x", dir, "tmpfs", 0, NULL);
    return dir;
}

static int old_mount(const struct probe_stage *s, const struct probe *p)
{
    const char *dir = stage_mount(s);
    switch (p->x) {
    case 0:
        return CALL(SYS_mount, "x", dir, "tmpfs", 0, NULL);
    case 1:
        return CALL(SYS_mount, s->out, dir, NULL, MS_BIND | MS_REC, NULL);
    case 2:
        take_namespaces(s, CLONE_NEWPID | CLONE_NEWNS);
        if (s->control && fork() != 0) {
            int status = 0;
            (void)wait(&status);
            return WEXITSTATUS(status);
        }
        return CALL(SYS_mount, "p", dir, "proc", 0, NULL);
    case 3:
        return CALL(SYS_mount, NULL, dir, NULL, MS_REMOUNT | MS_NOATIME, NULL);
    case 4:
        return CALL(SYS_mount, NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
    case 5:
        return CALL(SYS_umount2, dir, MNT_DETACH);
    default:
        return chdir(dir) != 0 ? errno : CALL(SYS_pivot_root, ".", ".");
    }
}

static int new_mount(const struct probe_stage *s, const struct probe *p)
{
    const char *dir = stage_mount(s);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_NOATIME, .attr_clr = MOUNT_ATTR__ATIME};
    int fd = -1;
    if (p->x >= 2 &&
        p->x <= 4) { /* the chain up to the call that is asked; -1 where it is refused */
        fd = (int)syscall(SYS_fsopen, "tmpfs", 0);
        if (p->x >= 3 && fd >= 0)
            (void)syscall(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
        if (p->x >= 4 && fd >= 0)
            fd = (int)syscall(SYS_fsmount, fd, 0, 0);
    }
    switch (p->x) {
    case 0:
        return CALL(SYS_open_tree, AT_FDCWD, "/", OPEN_TREE_CLONE | AT_RECURSIVE);
    case 1:
        return CALL(SYS_fsopen, "tmpfs", 0);
    case 2:
        return CALL(SYS_fsconfig, fd, FSCONFIG_CMD_CREATE, NULL, NULL, 0);
    case 3:
        return CALL(SYS_fsmount, fd, 0, 0);
    case 4:
        return CALL(SYS_move_mount, fd, "", AT_FDCWD, dir, MOVE_MOUNT_F_EMPTY_PATH);
    case 5:
        return CALL(SYS_fspick, AT_FDCWD, dir, 0);
    case 6:
        return CALL(SYS_mount_setattr, AT_FDCWD, dir, 0, &attr, sizeof attr);
    case 7:
        return CALL(NR_OPEN_TREE_ATTR, AT_FDCWD, dir, OPEN_TREE_CLONE, &attr, sizeof attr);
    default:
        return CALL(SYS_open_tree, AT_FDCWD, s->out, 0);
    }
}

/* Which mounts there are, without /proc. */
static int ask_mounts(const struct probe_stage *s, const struct probe *p)
{
    struct {
        uint32_t size, spare;
        uint64_t id, param;
    } req = {24, 0, ~(uint64_t)0 /* LSMT_ROOT */, 0};
    uint64_t ids[64];
    char buf[4096];
    struct statx stx;
    (void)s;
    if (p->x == 0)
        return CALL(NR_LISTMOUNT, &req, ids, 64, 0);
    if (statx(AT_FDCWD, ".", 0, 0x4000 /* STATX_MNT_ID_UNIQUE */, &stx) != 0)
        return PROBE_BROKEN;
    memcpy(&req.id, (const char *)&stx + 144, sizeof req.id);
    req.param = 1; /* STATMOUNT_SB_BASIC */
    return CALL(NR_STATMOUNT, &req, buf, sizeof buf, 0);
}

#define HIGH (1L << 32)

const struct probe probes_spaces[] = {
    {"unshare-user", leave, NULL, CLONE_NEWUSER, 0, 0},
    {"unshare-mount", leave, NULL, CLONE_NEWNS, 0, 0},
    {"unshare-pid", leave, NULL, CLONE_NEWPID, 0, 0},
    {"unshare-net", leave, NULL, CLONE_NEWNET, 0, 0},
    {"unshare-ipc", leave, NULL, CLONE_NEWIPC, 0, 0},
    {"unshare-uts", leave, NULL, CLONE_NEWUTS, 0, 0},
    {"unshare-cgroup", leave, NULL, CLONE_NEWCGROUP, 0, 0},
    {"unshare-time", leave, NULL, CLONE_NEWTIME, 0, 0},
    {"unshare-files", leave, NULL, CLONE_FILES, 0, 0},
    {"clone-user", by_clone, NULL, CLONE_NEWUSER, 0, 0},
    {"clone-user-mount", by_clone, NULL, CLONE_NEWUSER | CLONE_NEWNS, 0, 0},
    {"clone-mount", by_clone, NULL, CLONE_NEWNS, 0, 0},
    {"clone-pid", by_clone, NULL, CLONE_NEWPID, 0, 0},
    {"clone-net", by_clone, NULL, CLONE_NEWNET, 0, 0},
    {"clone-ipc", by_clone, NULL, CLONE_NEWIPC, 0, 0},
    {"clone-uts", by_clone, NULL, CLONE_NEWUTS, 0, 0},
    {"clone-cgroup", by_clone, NULL, CLONE_NEWCGROUP, 0, 0},
    {"clone-user-bit32", by_clone, NULL, CLONE_NEWUSER, HIGH, 0},
    {"clone3-user", by_clone3, NULL, CLONE_NEWUSER, 0, 0},
    {"clone3-plain", by_clone3, NULL, 0, 0, 0},
    {"setns-mount", own_ns, "/proc/self/ns/mnt", CLONE_NEWNS, 0, 0},
    {"setns-uts", own_ns, "/proc/self/ns/uts", CLONE_NEWUTS, 0, 0},
    {"setns-net", own_ns, "/proc/self/ns/net", CLONE_NEWNET, 0, 0},
    {"mount-tmpfs", old_mount, NULL, 0, 0, 0},
    {"mount-bind", old_mount, NULL, 1, 0, 0},
    {"mount-proc", old_mount, NULL, 2, 0, 0},
    {"mount-remount", old_mount, NULL, 3, 0, 0},
    {"mount-private", old_mount, NULL, 4, 0, 0},
    {"umount", old_mount, NULL, 5, 0, 0},
    {"pivot-root", old_mount, NULL, 6, 0, 0},
    {"open-tree-clone", new_mount, NULL, 0, 0, 0},
    {"open-tree-outside", new_mount, NULL, 8, 0, 0},
    {"open-tree-attr", new_mount, NULL, 7, 0, 0},
    {"fsopen", new_mount, NULL, 1, 0, 0},
    {"fsconfig", new_mount, NULL, 2, 0, 0},
    {"fsmount", new_mount, NULL, 3, 0, 0},
    {"move-mount", new_mount, NULL, 4, 0, 0},
    {"fspick", new_mount, NULL, 5, 0, 0},
    {"mount-setattr", new_mount, NULL, 6, 0, 0},
    {"listmount", ask_mounts, NULL, 0, 0, 0},
    {"statmount", ask_mounts, NULL, 1, 0, 0},
    {NULL, NULL, NULL, 0, 0, 0},
};
