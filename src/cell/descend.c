/* descend.c: the folder stack behind recursive DELETE and the usage count. Trusts nothing about the
 * tree: see descend.h.
 *
 * Only the deepest SP_DESCEND_OPEN levels hold a descriptor and a buffer of entries. A level
 * further up is opened again through its child's "..", and must then be the same device and inode;
 * reading goes on at the directory offset where it had stopped. */
#include "cell/descend.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DENTS 8192u
#define FOLDER_READ (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct sp_level {
    uint64_t dev, ino;
    char *name;
    char *buf; /* of entries; NULL while the level is closed */
    int fd;    /* -1 while closed */
    size_t used, len;
    int64_t offset; /* after the last entry handed out */
};

void sp_descend_init(struct sp_descend *d)
{
    *d = (struct sp_descend){0};
}

static void shut(struct sp_level *l)
{
    if (l->fd >= 0)
        close(l->fd);
    free(l->buf);
    l->fd = -1;
    l->buf = NULL;
    l->used = l->len = 0;
}

void sp_descend_free(struct sp_descend *d)
{
    while (d->depth > 0) {
        struct sp_level *l = &d->level[--d->depth];
        shut(l);
        free(l->name);
    }
    free(d->level);
    d->level = NULL;
    d->cap = 0;
}

int sp_descend_fd(const struct sp_descend *d)
{
    return d->level[d->depth - 1].fd;
}

static int stat_folder(int fd, struct statx *sx)
{
    if (statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_INO | STATX_UID | STATX_MNT_ID,
              sx) != 0)
        return -errno;
    return 0;
}

static uint64_t device_of(const struct statx *sx)
{
    // The analyzer doesn't know that statx fills it.
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult)
    return (uint64_t)sx->stx_dev_major << 32 | sx->stx_dev_minor;
}

/* A bind mount shows the device it came from: the mount's id tells, where there is one (Linux 5.8).
 */
static uint64_t mount_of(const struct statx *sx)
{
    return (sx->stx_mask & STATX_MNT_ID) != 0 ? sx->stx_mnt_id : device_of(sx);
}

/* Through the descriptor, never through the name: a link could stand there by now. */
static void give_owner_rwx(int path_fd, const struct statx *sx)
{
    mode_t mode = (mode_t)(sx->stx_mode & 07777u) | 0700u;
    if ((sx->stx_mode & 0700u) == 0700u || sx->stx_uid != geteuid())
        return;
    char self[32];
    snprintf(self, sizeof self, "/proc/self/fd/%d", path_fd);
    if (fchmodat(AT_FDCWD, self, mode, 0) != 0)
        return; /* opening the folder will say why */
}

static int open_child(struct sp_descend *d, int in, const char *name, bool make_rwx,
                      struct statx *sx)
{
    int path_fd = openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (path_fd < 0)
        return errno == ELOOP ? -ENOTDIR : -errno;
    int err = stat_folder(path_fd, sx);
    if (err == 0 && d->mount_known && mount_of(sx) != d->mount)
        err = -EXDEV;
    int fd = -1;
    if (err == 0) {
        if (make_rwx)
            give_owner_rwx(path_fd, sx);
        fd = openat(path_fd, ".", FOLDER_READ);
        if (fd < 0)
            err = -errno;
    }
    close(path_fd);
    return err != 0 ? err : fd;
}

static int room(struct sp_descend *d)
{
    if (d->depth < d->cap)
        return 0;
    size_t cap = d->cap == 0 ? 32 : d->cap * 2;
    struct sp_level *l = reallocarray(d->level, cap, sizeof *l);
    if (l == NULL)
        return -ENOMEM;
    d->level = l;
    d->cap = cap;
    return 0;
}

int sp_descend_push(struct sp_descend *d, int in, const char *name, bool make_rwx)
{
    struct statx sx;
    if (d->depth == 0 && !d->mount_known) {
        int err = stat_folder(in, &sx);
        if (err != 0)
            return err;
        d->mount = mount_of(&sx);
        d->mount_known = true;
    }
    int err = room(d);
    if (err != 0)
        return err;
    int fd = open_child(d, d->depth == 0 ? in : sp_descend_fd(d), name, make_rwx, &sx);
    if (fd < 0)
        return fd;
    struct sp_level l = {.dev = device_of(&sx), .ino = sx.stx_ino, .fd = fd};
    l.name = strdup(name);
    l.buf = malloc(DENTS);
    if (l.name == NULL || l.buf == NULL) {
        free(l.name);
        shut(&l);
        return -ENOMEM;
    }
    d->level[d->depth++] = l;
    if (d->depth > SP_DESCEND_OPEN)
        shut(&d->level[d->depth - 1 - SP_DESCEND_OPEN]);
    return 0;
}

int sp_descend_next(struct sp_descend *d, struct sp_entry *e)
{
    struct sp_level *l = &d->level[d->depth - 1];
    for (;;) {
        if (l->used == l->len) {
            long got = syscall(SYS_getdents64, l->fd, l->buf, DENTS);
            if (got <= 0)
                return got == 0 || errno == ENOENT ? 0 : -errno; /* ENOENT: removed, so empty */
            l->used = 0;
            l->len = (size_t)got;
        }
        const struct dirent64 *ent = (const void *)(l->buf + l->used);
        l->used += ent->d_reclen;
        l->offset = ent->d_off;
        if (strcmp(ent->d_name, ".") == 0 || strcmp(ent->d_name, "..") == 0)
            continue;
        *e = (struct sp_entry){ent->d_name, ent->d_type};
        return 1;
    }
}

/* Opens the level above the current one again. */
static int reopen_above(struct sp_descend *d)
{
    struct sp_level *l = &d->level[d->depth - 2];
    struct statx sx;
    if (l->fd >= 0)
        return 0;
    int fd = openat(sp_descend_fd(d), "..", FOLDER_READ);
    if (fd < 0)
        return -errno;
    int err = stat_folder(fd, &sx);
    if (err == 0 && (device_of(&sx) != l->dev || sx.stx_ino != l->ino))
        err = -ESTALE; /* the current folder was moved to another place */
    if (err == 0 && l->offset != 0 && lseek(fd, l->offset, SEEK_SET) < 0)
        err = -errno;
    if (err == 0 && (l->buf = malloc(DENTS)) == NULL)
        err = -ENOMEM;
    if (err != 0) {
        close(fd);
        return err;
    }
    l->fd = fd;
    return 0;
}

int sp_descend_pop(struct sp_descend *d, char *name)
{
    struct sp_level *l = &d->level[d->depth - 1];
    int err = d->depth > 1 ? reopen_above(d) : 0;
    snprintf(name, NAME_MAX + 1, "%s", l->name);
    shut(l);
    free(l->name);
    d->depth--;
    return err;
}
