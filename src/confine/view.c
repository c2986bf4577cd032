/* view.c: what a command sees of the machine: a root that holds read-only programs, a few devices,
 * its own /tmp and /proc, and the workspace. Nothing is hidden one by one: what isn't named isn't
 * there, be it a socket, another user's files or the daemon's. Trusts main's settings and the
 * policy text; runs before anything hostile does. */
#include "view.h"
#include "sallyport/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHM_MAX (256ull << 20)
#define READ_ONLY (MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)
#define PLAIN_DATA (MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV)

/* Of these, a container runtime shows nothing either: kernel memory and keys, hardware, and what
 * tells of others' work. */
static const char *const masked[] = {
    "/proc/acpi",       "/proc/asound",        "/proc/interrupts",    "/proc/kcore",
    "/proc/keys",       "/proc/latency_stats", "/proc/sched_debug",   "/proc/scsi",
    "/proc/timer_list", "/proc/timer_stats",   "/proc/sysrq-trigger",
};

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* Made by us, whatever the policy's line says. */
static bool made_here(const char *path)
{
    return is(path, "/tmp") || is(path, "/var/tmp") || is(path, "/proc") || is(path, "/dev/shm") ||
           is(path, "/dev/mqueue") || is(path, "/dev/pts") || is(path, "/dev/ptmx");
}

static bool device(const char *path)
{
    return strncmp(path, "/dev/", 5) == 0;
}

struct walk {
    struct view *v;
    bool devices; /* this turn */
};

static int one_rule(void *arg, enum sp_path_word word, const char *path)
{
    const struct walk *w = arg;
    if (word == SP_PATH_WORKSPACE || made_here(path) || device(path) != w->devices)
        return 0;
    if (device(path))
        return view_bind(w->v, path, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC);
    return view_bind(w->v, path, word == SP_PATH_WRITE ? PLAIN_DATA : READ_ONLY);
}

/* Anyone's to write, up to so many bytes of memory. */
static int scratch(struct view *v, const char *path, uint64_t bytes)
{
    char size[32], inodes[32];
    const char *const options[] = {"size", size, "nr_inodes", inodes, "mode", "1777", NULL};
    uint64_t files = bytes / 4096;
    (void)snprintf(size, sizeof size, "%llu", (unsigned long long)bytes);
    (void)snprintf(inodes, sizeof inodes, "%llu",
                   (unsigned long long)(files < 4096 ? 4096 : files));
    return view_new_fs(v, "tmpfs", path, PLAIN_DATA, options);
}

static int private_tmp(struct view *v)
{
    int r = scratch(v, "/tmp", v->c->tmp_bytes);
    if (r == 0 && mkdirat(v->root, "var", 0755) != 0 && errno != EEXIST)
        r = view_fail(v->e, -errno, "making", "/var");
    if (r == 0 && symlinkat("../tmp", v->root, "var/tmp") != 0 && errno != EEXIST)
        r = view_fail(v->e, -errno, "making", "/var/tmp");
    return r;
}

/* Its queues are those of the IPC namespace that we are in. A kernel may be built without. */
static int queues(struct view *v)
{
    const uint64_t attr = PLAIN_DATA | MOUNT_ATTR_NOEXEC;
    if ((v->c->cell_ns & CLONE_NEWIPC) == 0)
        return 0; /* the host's folder would be a way to the host's queues by their path */
    int r = view_new_fs(v, "mqueue", "/dev/mqueue", attr, NULL);
    if (r != -ENODEV)
        return r;
    *v->e = (struct sp_view_error){0};
    return 0;
}

static int devices(struct view *v)
{
    static const char *const dev[] = {"size", "64k", "nr_inodes", "64", "mode", "755", NULL};
    static const char *const pts[] = {"newinstance", NULL, "ptmxmode", "0666", "mode", "620", NULL};
    static const char *const links[][2] = {{"/proc/self/fd", "dev/fd"},
                                           {"/proc/self/fd/0", "dev/stdin"},
                                           {"/proc/self/fd/1", "dev/stdout"},
                                           {"/proc/self/fd/2", "dev/stderr"},
                                           {"pts/ptmx", "dev/ptmx"}};
    struct walk w = {v, true};
    const uint64_t no_exec = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
    int r = view_new_fs(v, "tmpfs", "/dev", no_exec, dev);
    if (r == 0)
        r = sp_landlock_each(v->c->command_paths, one_rule, &w);
    if (r == 0)
        r = scratch(v, "/dev/shm", v->c->tmp_bytes < SHM_MAX ? v->c->tmp_bytes : SHM_MAX);
    if (r == 0)
        r = view_new_fs(v, "devpts", "/dev/pts", no_exec, pts);
    if (r == 0)
        r = queues(v);
    for (size_t i = 0; r == 0 && i < sizeof links / sizeof links[0]; i++)
        if (symlinkat(links[i][0], v->root, links[i][1]) != 0)
            r = view_fail(v->e, -errno, "making the link", links[i][1]);
    return r;
}

static int processes(struct view *v)
{
    const uint64_t attr = READ_ONLY | MOUNT_ATTR_NOEXEC;
    int r =
        v->c->pid_ns ? view_new_fs(v, "proc", "/proc", attr, NULL) : view_bind(v, "/proc", attr);
    for (size_t i = 0; r == 0 && i < sizeof masked / sizeof masked[0]; i++)
        r = view_mask(v, masked[i]);
    return r;
}

/* Links are followed within the new root. */
static bool has(const struct view *v, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_IN_ROOT};
    long fd = syscall(SYS_openat2, v->root, path, &how, sizeof how);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
}

/* The operator may have named one that the policy's folders don't hold. */
static int shell(struct view *v)
{
    const char *path = v->c->shell;
    if (has(v, path))
        return 0;
    char *real = realpath(path, NULL);
    if (real == NULL)
        return view_fail(v->e, -errno, "finding the shell", path);
    int r = view_bind(v, real, READ_ONLY);
    if (r == 0 && !is(path, real))
        r = view_bind(v, path, READ_ONLY);
    free(real);
    return r;
}

static bool inside(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* What is at the path must still be the folder that main opened. Without a path it is the folder.
 */
static int take_workspace(struct view *v, int workspace_fd, const char *path, int *tree)
{
    const char *name = path != NULL ? path : "the workspace";
    unsigned how = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE | AT_SYMLINK_NOFOLLOW;
    struct stat is_now, was;
    view_as_user(v, true);
    *tree = path != NULL ? open_tree(AT_FDCWD, path, how)
                         : open_tree(workspace_fd, "", how | AT_EMPTY_PATH);
    int err = errno;
    view_as_user(v, false);
    if (*tree < 0)
        return view_fail(v->e, -err, "copying the mount of", name);
    struct mount_attr a = {.attr_set = PLAIN_DATA};
    int r = 0;
    if (fstat(*tree, &is_now) != 0 || fstat(workspace_fd, &was) != 0)
        r = view_fail(v->e, -errno, "looking at", name);
    else if (is_now.st_dev != was.st_dev || is_now.st_ino != was.st_ino)
        r = view_fail(v->e, -ESTALE, "finding the workspace again at", name);
    else if (mount_setattr(*tree, "", AT_EMPTY_PATH | AT_RECURSIVE, &a, sizeof a) != 0)
        r = view_fail(v->e, -errno, "setting flags of", name);
    if (r != 0)
        close(*tree);
    return r;
}

static int reopen_workspace(struct view *v, int workspace_fd)
{
    view_as_user(v, true);
    int fd = open(v->c->workspace, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int err = errno;
    view_as_user(v, false);
    if (fd < 0 && err == EACCES && v->c->mode == SP_MODE_BOX && v->c->cell_name[0] == '\0')
        return 0; /* the plan's probe, on the folder of all workspaces, which no user may list */
    if (fd < 0)
        return view_fail(v->e, -err, "opening", v->c->workspace);
    int r = dup3(fd, workspace_fd, O_CLOEXEC) < 0 ? -errno : 0;
    close(fd);
    return r == 0 ? 0 : view_fail(v->e, r, "opening", v->c->workspace);
}

/* All but the workspace. */
static int build(struct view *v)
{
    struct walk w = {v, false};
    int r = sp_landlock_each(v->c->command_paths, one_rule, &w);
    if (r == 0)
        r = private_tmp(v);
    if (r == 0)
        r = devices(v);
    if (r == 0)
        r = processes(v);
    if (r == 0)
        r = shell(v);
    if (r == 0 && v->c->binary[0] != '\0' && !inside(v->c->binary, v->c->workspace) &&
        !is(v->c->binary, v->c->shell))
        r = view_mask(v, v->c->binary);
    if (r == 0)
        r = view_masks_end(v);
    return r;
}

static struct view view_of(const struct sp_config *c, int root, struct sp_view_error *e)
{
    *e = (struct sp_view_error){0};
    return (struct view){.c = c,
                         .e = e,
                         .root = root,
                         /* by a user namespace they were taken before */
                         .switches = c->switch_uid && !c->user_ns};
}

int sp_view_begin(const struct sp_config *c, int *root, struct sp_view_error *e)
{
    struct view v = view_of(c, -1, e);
    mode_t mask = umask(0);
    int r = view_new_root(e, &v.root);
    if (r == 0)
        r = build(&v);
    if (r == 0 && c->mode == SP_MODE_BOX && c->cell_name[0] == '\0')
        r = view_make(&v, c->workspace); /* whoever comes has its workspace in there */
    if (r == 0)
        r = view_pivot(e, v.root);
    umask(mask);
    if (r != 0 && v.root >= 0)
        close(v.root);
    *root = r == 0 ? v.root : -1;
    return r;
}

int sp_view_end(const struct sp_config *c, int root, int tree, int workspace_fd,
                struct sp_view_error *e)
{
    struct view v = view_of(c, root, e);
    mode_t mask = umask(0);
    int r = view_attach(&v, tree, c->workspace, true);
    if (r == 0 && !inside("/dev", c->workspace))
        r = view_set_attr(&v, "/dev", MOUNT_ATTR_RDONLY);
    if (r == 0)
        r = view_set_attr(&v, "/", MOUNT_ATTR_RDONLY);
    if (r == 0)
        r = reopen_workspace(&v, workspace_fd);
    umask(mask);
    close(root);
    close(tree);
    return r;
}

int sp_view_tree(const struct sp_config *c, int workspace_fd, const char *path,
                 struct sp_view_error *e)
{
    struct view v = view_of(c, -1, e);
    int tree = -1;
    int r = take_workspace(&v, workspace_fd, path, &tree);
    return r == 0 ? tree : r;
}

int sp_view_enter(const struct sp_config *c, int workspace_fd, struct sp_view_error *e)
{
    int root = -1;
    int tree = sp_view_tree(c, workspace_fd, c->workspace, e); /* while the old root is there */
    if (tree < 0)
        return tree;
    int r = sp_view_begin(c, &root, e);
    if (r == 0)
        return sp_view_end(c, root, tree, workspace_fd, e);
    close(tree);
    return r;
}

int sp_view_empty(struct sp_view_error *e)
{
    int root = -1;
    *e = (struct sp_view_error){0};
    int r = view_new_root(e, &root);
    struct mount_attr a = {.attr_set = READ_ONLY | MOUNT_ATTR_NOEXEC};
    if (r == 0 && mount_setattr(root, "", AT_EMPTY_PATH, &a, sizeof a) != 0)
        r = view_fail(e, -errno, "making read-only", "/");
    if (r == 0)
        r = view_pivot(e, root);
    if (root >= 0)
        close(root);
    return r;
}
