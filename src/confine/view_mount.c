/* view_mount.c: the single steps of building a root, by the mount calls that take descriptors.
 * Trusts its caller for paths; nothing hostile has run in the namespace yet. */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LINK_MAX_BYTES 4096
#define EMPTY_FILE ".empty" /* in the new root, while it is built */

int view_fail(struct sp_view_error *e, int err, const char *step, const char *path)
{
    if (e->step == NULL) {
        e->step = step;
        (void)snprintf(e->path, sizeof e->path, "%s", path);
    }
    return err;
}

/* A detached mount of a new file system. Descriptor or -errno. */
static int make_fs(const char *type, uint64_t attr, const char *const *options)
{
    int fs = fsopen(type, FSOPEN_CLOEXEC), r = 0;
    if (fs < 0)
        return -errno;
    for (; r == 0 && options != NULL && options[0] != NULL; options += 2) {
        unsigned cmd = options[1] != NULL ? FSCONFIG_SET_STRING : FSCONFIG_SET_FLAG;
        r = fsconfig(fs, cmd, options[0], options[1], 0) == 0 ? 0 : -errno;
    }
    if (r == 0)
        r = fsconfig(fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0 ? 0 : -errno;
    if (r == 0) {
        r = fsmount(fs, FSMOUNT_CLOEXEC, (unsigned)attr);
        r = r < 0 ? -errno : r;
    }
    close(fs);
    return r;
}

static int set_attr(int fd, const char *path, unsigned flags, uint64_t attr)
{
    struct mount_attr a = {.attr_set = attr};
    return mount_setattr(fd, path, flags, &a, sizeof a) == 0 ? 0 : -errno;
}

int view_new_root(struct sp_view_error *e, int *fd)
{
    static const char *const options[] = {"size", "1m", "nr_inodes", "4096", "mode", "755", NULL};
    /* Nothing that is mounted here later shows elsewhere, and the other way round. */
    if (mount(NULL, "/", "none", MS_REC | MS_PRIVATE, NULL) != 0)
        return view_fail(e, -errno, "making mounts private", "/");
    *fd = make_fs("tmpfs", MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, options);
    if (*fd < 0)
        return view_fail(e, *fd, "making a new root", "");
    if (move_mount(*fd, "", AT_FDCWD, "/", MOVE_MOUNT_F_EMPTY_PATH) != 0)
        return view_fail(e, -errno, "mounting the new root", "/");
    return 0;
}

/* ---- places in the new root ---- */

void view_as_user(const struct view *v, bool on)
{
    if (!v->switches)
        return;
    (void)setfsgid(on ? v->c->command_gid : getegid());
    (void)setfsuid(on ? v->c->command_uid : geteuid());
}

/* Next component of *path into name; false at the end. */
static bool component(const char **path, char name[256])
{
    *path += strspn(*path, "/");
    size_t n = strcspn(*path, "/");
    if (n == 0 || n > 255)
        return false;
    memcpy(name, *path, n);
    name[n] = '\0';
    *path += n;
    return true;
}

static int step_into(const struct view *v, int dir, const char *name, bool last_file)
{
    int flags = O_PATH | O_NOFOLLOW | O_CLOEXEC | (last_file ? 0 : O_DIRECTORY);
    int fd = openat(dir, name, flags), err = errno;
    if (fd < 0 && err == ENOENT) { /* in a read-only part it stays so */
        if (last_file)
            (void)mknodat(dir, name, S_IFREG | 0444, 0);
        else
            (void)mkdirat(dir, name, 0755);
        fd = openat(dir, name, flags);
        err = errno;
    }
    if (fd < 0 && err == EACCES) { /* we have no right of root's over files: it may be the user's */
        view_as_user(v, true);
        fd = openat(dir, name, flags);
        err = errno;
        view_as_user(v, false);
    }
    return fd < 0 ? -err : fd;
}

/* An O_PATH descriptor of path in the new root, made as needed. Never follows a link. */
static int place(const struct view *v, const char *path, bool is_dir)
{
    char name[256];
    int at = fcntl(v->root, F_DUPFD_CLOEXEC, 0);
    if (at < 0)
        return -errno;
    while (component(&path, name)) {
        bool last = path[strspn(path, "/")] == '\0';
        int next = step_into(v, at, name, last && !is_dir);
        close(at);
        if (next < 0)
            return next;
        at = next;
    }
    return at;
}

int view_make(struct view *v, const char *path)
{
    int at = place(v, path, true);
    if (at < 0)
        return view_fail(v->e, at, "making the place of", path);
    close(at);
    return 0;
}

int view_attach(struct view *v, int tree, const char *path, bool is_dir)
{
    int at = place(v, path, is_dir);
    if (at < 0)
        return view_fail(v->e, at, "making the place of", path);
    int r = move_mount(tree, "", at, "", MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) == 0
                ? 0
                : -errno;
    close(at);
    return r == 0 ? 0 : view_fail(v->e, r, "mounting", path);
}

int view_new_fs(struct view *v, const char *type, const char *path, uint64_t attr,
                const char *const *options)
{
    int fd = make_fs(type, attr, options);
    if (fd < 0)
        return view_fail(v->e, fd, "making the file system of", path);
    int r = view_attach(v, fd, path, true);
    close(fd);
    return r;
}

/* ---- what the old root has ---- */

static int copy_link(struct view *v, int link, const char *path)
{
    char target[LINK_MAX_BYTES], parent[LINK_MAX_BYTES];
    ssize_t n = readlinkat(link, "", target, sizeof target - 1);
    if (n < 0)
        return view_fail(v->e, -errno, "reading the link", path);
    target[n] = '\0';
    const char *name = strrchr(path, '/');
    if (name == NULL || (size_t)(name - path) >= sizeof parent)
        return view_fail(v->e, -EINVAL, "making the link", path);
    memcpy(parent, path, (size_t)(name - path));
    parent[name - path] = '\0';
    int at = place(v, parent, true);
    if (at < 0)
        return view_fail(v->e, at, "making the place of", path);
    int r = symlinkat(target, at, name + 1) == 0 || errno == EEXIST ? 0 : -errno;
    close(at);
    return r == 0 ? 0 : view_fail(v->e, r, "making the link", path);
}

static int bind_found(struct view *v, int at, const char *path, uint64_t attr)
{
    struct stat st;
    if (fstat(at, &st) != 0)
        return view_fail(v->e, -errno, "looking at", path);
    if (S_ISLNK(st.st_mode))
        return copy_link(v, at, path);
    int tree =
        open_tree(at, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_EMPTY_PATH);
    if (tree < 0)
        return view_fail(v->e, -errno, "copying the mount of", path);
    /* A device is written through a read-only mount all the same; its mode, owner and times, which
     * are the host's, are not. */
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        attr |= MOUNT_ATTR_RDONLY;
    int r = set_attr(tree, "", AT_EMPTY_PATH | AT_RECURSIVE, attr);
    if (r != 0)
        (void)view_fail(v->e, r, "making read-only", path);
    else
        r = view_attach(v, tree, path, S_ISDIR(st.st_mode));
    close(tree);
    return r;
}

/* Through no link on the way: below a folder that commands may write, they could have laid one
 * since the daemon started. */
int view_bind(struct view *v, const char *path, uint64_t attr)
{
    const struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                                 .resolve = RESOLVE_NO_SYMLINKS};
    long at = syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof how);
    if (at < 0)
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES || errno == ELOOP
                   ? 0
                   : view_fail(v->e, -errno, "looking at", path);
    int r = bind_found(v, (int)at, path, attr);
    close((int)at);
    return r;
}

/* A mount of a file that nothing can be read from and no write goes into: the null device would
 * take it. One does for all masks; it loses its name in the end. Descriptor or -errno. */
static int copy_empty_file(const struct view *v)
{
    if (mknodat(v->root, EMPTY_FILE, S_IFREG | 0444, 0) != 0 && errno != EEXIST)
        return -errno;
    int tree =
        open_tree(v->root, EMPTY_FILE, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW);
    return tree < 0 ? -errno : tree;
}

int view_mask(struct view *v, const char *path)
{
    static const char *const options[] = {"size", "4k", "nr_inodes", "2", "mode", "755", NULL};
    const uint64_t attr =
        MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    struct stat st;
    if (fstatat(v->root, path + strspn(path, "/"), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    if (S_ISDIR(st.st_mode))
        return view_new_fs(v, "tmpfs", path, attr, options);
    int tree = copy_empty_file(v);
    if (tree < 0)
        return view_fail(v->e, tree, "making an empty file for", path);
    int r = set_attr(tree, "", AT_EMPTY_PATH, attr);
    r = r == 0 ? view_attach(v, tree, path, false) : view_fail(v->e, r, "making read-only", path);
    close(tree);
    return r;
}

int view_masks_end(struct view *v)
{
    if (unlinkat(v->root, EMPTY_FILE, 0) != 0 && errno != ENOENT)
        return view_fail(v->e, -errno, "taking the name of", "/" EMPTY_FILE);
    return 0;
}

int view_set_attr(struct view *v, const char *path, uint64_t attr)
{
    int at = place(v, path, true);
    int r = at < 0 ? at : set_attr(at, "", AT_EMPTY_PATH, attr);
    if (at >= 0)
        close(at);
    return r == 0 ? 0 : view_fail(v->e, r, "making read-only", path);
}

int view_pivot(struct sp_view_error *e, int root)
{
    /* Both at once: the old root lands on top of the new one, and is taken away from there. */
    if (fchdir(root) != 0 || syscall(SYS_pivot_root, ".", ".") != 0)
        return view_fail(e, -errno, "changing the root", "");
    if (umount2(".", MNT_DETACH) != 0 || chdir("/") != 0)
        return view_fail(e, -errno, "leaving the old root", "");
    return 0;
}
