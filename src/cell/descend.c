/* descend.c: the folder stack behind recursive DELETE and the usage count. Trusts nothing about the
 * tree: see descend.h.
 *
 * Only the deepest SP_DESCEND_OPEN levels hold a descriptor and a buffer of entries. A level
 * further up is opened again through its child's "..", and must then be the same device and inode;
 * reading goes on at the directory offset where it had stopped.
 *
 * Whoever moves folders that were gone through to where the walk is going could have it descend for
 * ever, and remember each step. So it looks up at times, whether all that it remembers is above
 * it: what it takes is bounded by the folders that there really are, one in another. */
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
#define LOOK_UP 256u /* at this depth, and whenever it has doubled */
#define LENT 0500
#define FOLDER_READ (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)

struct sp_level {
    uint64_t dev, ino;
    char *name;
    char *buf; /* of entries; NULL while the level is closed */
    int fd;    /* -1 while closed */
    size_t used, len;
    int64_t offset; /* after the last entry handed out */
    int lent;       /* the mode that it had before we opened it for ourselves; -1 */
};

void sp_descend_init(struct sp_descend *d)
{
    *d = (struct sp_descend){0};
}

/* Whoever changed the mode meanwhile keeps his. */
static void give_back(struct sp_level *l)
{
    struct stat st;
    if (l->lent >= 0 && l->fd >= 0 && fstat(l->fd, &st) == 0 &&
        (int)(st.st_mode & 07777u) == (l->lent | LENT))
        (void)fchmod(l->fd, (mode_t)l->lent);
    l->lent = -1;
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
        give_back(l);
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

/* Gives the owner the rights that are missing: through the descriptor, never through the name,
 * where a link could stand by now. Returns the mode before, or -1 where nothing was changed. */
static int open_up(int path_fd, const struct statx *sx, mode_t rights)
{
    const mode_t mode = sx->stx_mode & 07777u;
    char self[32];
    if ((mode & rights) == rights || sx->stx_uid != geteuid())
        return -1;
    snprintf(self, sizeof self, "/proc/self/fd/%d", path_fd);
    return fchmodat(AT_FDCWD, self, mode | rights, 0) == 0 ? (int)mode : -1;
}

/* "." needs no right to search the folder, which we have a descriptor of. */
static int open_path(int in, const char *name)
{
    int fd = strcmp(name, ".") == 0
                 ? fcntl(in, F_DUPFD_CLOEXEC, 0)
                 : openat(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd >= 0 ? fd : errno == ELOOP ? -ENOTDIR : -errno;
}

static int open_child(struct sp_descend *d, int in, const char *name, enum sp_closed closed,
                      struct statx *sx, int *lent)
{
    *lent = -1;
    int path_fd = open_path(in, name);
    if (path_fd < 0)
        return path_fd;
    int err = stat_folder(path_fd, sx);
    if (err == 0 && d->mount_known && mount_of(sx) != d->mount)
        err = -EXDEV;
    if (err == 0 && closed == SP_CLOSED_OPENED)
        (void)open_up(path_fd, sx, 0700);
    if (err == 0 && closed == SP_CLOSED_LENT)
        *lent = open_up(path_fd, sx, LENT);
    int fd = err == 0 ? openat(path_fd, ".", FOLDER_READ) : -1;
    if (err == 0 && fd < 0)
        err = -errno;
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

/* 0, or -ESTALE: what is above the current folder isn't what we came through, or can't be seen. */
static int look_up(const struct sp_descend *d)
{
    struct statx sx;
    int err = 0, fd = sp_descend_fd(d);
    for (size_t i = d->depth - 1; i > 0 && err == 0; i--) {
        const struct sp_level *above = &d->level[i - 1];
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        err = up < 0 ? -errno : stat_folder(up, &sx);
        if (err == 0 && (device_of(&sx) != above->dev || sx.stx_ino != above->ino))
            err = -ESTALE;
        if (fd != sp_descend_fd(d))
            close(fd);
        fd = up;
    }
    if (fd >= 0 && fd != sp_descend_fd(d))
        close(fd);
    return err == 0 ? 0 : -ESTALE;
}

int sp_descend_push(struct sp_descend *d, int in, const char *name, enum sp_closed closed)
{
    struct statx sx;
    int lent;
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
    int fd = open_child(d, d->depth == 0 ? in : sp_descend_fd(d), name, closed, &sx, &lent);
    if (fd < 0)
        return fd;
    struct sp_level l = {.dev = device_of(&sx), .ino = sx.stx_ino, .fd = fd, .lent = lent};
    l.name = strdup(name);
    l.buf = malloc(DENTS);
    if (l.name == NULL || l.buf == NULL) {
        free(l.name);
        give_back(&l);
        shut(&l);
        return -ENOMEM;
    }
    d->level[d->depth++] = l;
    if (d->depth > SP_DESCEND_OPEN)
        shut(&d->level[d->depth - 1 - SP_DESCEND_OPEN]);
    return d->depth >= LOOK_UP && (d->depth & (d->depth - 1)) == 0 ? look_up(d) : 0;
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
    give_back(l);
    shut(l);
    free(l->name);
    d->depth--;
    return err;
}
