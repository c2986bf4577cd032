/* walk.c: resolves a path by hand, one component at a time, for kernels and containers without
 * openat2. Trusts neither the path nor the tree.
 *
 * Each component is opened with O_PATH|O_NOFOLLOW, so nothing is followed but what we read and
 * checked ourselves. Of the folders above only device and inode are remembered: ".." is opened and
 * compared, which needs one descriptor however deep the path, and notices a folder moved meanwhile.
 * One answer differs from the kernel's: no link on procfs is followed, not even a plain one. */
#include "cell/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 40
#define REST_MAX (256u << 10) /* what is left of the path with all links written out */
#define RACES_MAX 16

struct place {
    dev_t dev;
    ino_t ino;
};

struct walk {
    int root, cur;    /* cur == root at the top, else ours to close */
    struct place at;  /* of cur */
    struct place *up; /* of the folders above cur, from the root down */
    size_t depth, cap;
    char *rest; /* malloc'ed; next points into it */
    char *next;
    int links, races;
};

static bool same(struct place a, const struct stat *st)
{
    return a.dev == st->st_dev && a.ino == st->st_ino;
}

static void move_to(struct walk *w, int fd, const struct stat *st)
{
    if (w->cur != w->root)
        close(w->cur);
    w->cur = fd;
    w->at = (struct place){st->st_dev, st->st_ino};
}

static int enter(struct walk *w, int fd, const struct stat *st)
{
    if (w->depth == w->cap) {
        size_t cap = w->cap == 0 ? 64 : w->cap * 2;
        struct place *up = reallocarray(w->up, cap, sizeof *up);
        if (up == NULL) {
            close(fd);
            return -ENOMEM;
        }
        w->up = up;
        w->cap = cap;
    }
    w->up[w->depth++] = w->at;
    move_to(w, fd, st);
    return 0;
}

static int leave(struct walk *w)
{
    struct stat st;
    if (w->depth == 0)
        return -EXDEV;
    int fd = openat(w->cur, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int err = fstat(fd, &st) == 0 ? 0 : -errno;
    if (err == 0 && !same(w->up[w->depth - 1], &st))
        err = -EAGAIN;
    if (err != 0) {
        close(fd);
        return err;
    }
    w->depth--;
    move_to(w, fd, &st);
    return 0;
}

/* Puts the link's target in front of what is left. Takes fd. */
static int follow(struct walk *w, int fd)
{
    char target[PATH_MAX];
    struct statfs fs;
    ssize_t n = -1;
    int err = 0;
    if (++w->links > LINKS_MAX)
        err = -ELOOP;
    else if (fstatfs(fd, &fs) != 0)
        err = -errno;
    else if (fs.f_type == PROC_SUPER_MAGIC)
        err = -ELOOP;
    else if ((n = readlinkat(fd, "", target, sizeof target)) < 0)
        err = -errno;
    else if (n == 0)
        err = -ENOENT;
    else if ((size_t)n == sizeof target)
        err = -ENAMETOOLONG;
    else if (target[0] == '/')
        err = -EXDEV;
    close(fd);
    if (err != 0)
        return err;
    size_t left = strlen(w->next), len = (size_t)n;
    char *rest = left + len >= REST_MAX ? NULL : malloc(len + left + 1);
    if (rest == NULL)
        return left + len >= REST_MAX ? -ENAMETOOLONG : -ENOMEM;
    memcpy(rest, target, len);
    memcpy(rest + len, w->next, left + 1); /* next starts with '/', or is empty */
    free(w->rest);
    w->rest = w->next = rest;
    return 0;
}

/* Cuts the next component out of what is left: its length, 0 at the end. */
static size_t take(struct walk *w, char name[NAME_MAX + 1], int *err)
{
    while (*w->next == '/')
        w->next++;
    size_t n = strcspn(w->next, "/");
    *err = n > NAME_MAX ? -ENAMETOOLONG : 0;
    if (*err != 0)
        return 0;
    memcpy(name, w->next, n);
    name[n] = '\0';
    w->next += n;
    return n;
}

/* The last component is there and no link that is to be followed: opens it as asked. It may have
 * been swapped since we looked: -EAGAIN then. */
static int open_last(struct walk *w, const char *name, const struct stat *seen, int flags,
                     mode_t mode)
{
    struct stat st;
    int fd = openat(w->cur, name, flags | O_NOFOLLOW | O_CLOEXEC, mode);
    if (fd < 0) {
        int err = errno;
        bool swapped = seen == NULL
                           ? err == ELOOP
                           : !S_ISLNK(seen->st_mode) &&
                                 (err == ELOOP || (err == ENOTDIR && S_ISDIR(seen->st_mode)));
        return swapped ? -EAGAIN : -err;
    }
    if (seen != NULL &&
        (fstat(fd, &st) != 0 || st.st_dev != seen->st_dev || st.st_ino != seen->st_ino)) {
        close(fd);
        return -EAGAIN;
    }
    return fd;
}

/* Handles the last component. A descriptor, -errno, or INT_MIN: a link, now in front of the rest.
 */
static int last(struct walk *w, const char *name, int flags, mode_t mode)
{
    struct stat st;
    bool must_dir = *w->next == '/';
    bool stay = !must_dir &&
                ((flags & O_NOFOLLOW) != 0 || (flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL));
    int fd = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        if (errno != ENOENT || (flags & O_CREAT) == 0)
            return -errno;
        return must_dir ? -EISDIR : open_last(w, name, NULL, flags, mode);
    }
    if (fstat(fd, &st) != 0) {
        int err = -errno;
        close(fd);
        return err;
    }
    if (S_ISLNK(st.st_mode) && !stay) {
        int err = follow(w, fd);
        return err == 0 ? INT_MIN : err;
    }
    if ((must_dir || (flags & O_DIRECTORY) != 0) && !S_ISDIR(st.st_mode)) {
        close(fd);
        return -ENOTDIR;
    }
    if ((flags & O_PATH) != 0)
        return fd;
    int real = open_last(w, name, &st, flags, mode);
    close(fd);
    return real;
}

/* Handles one that has more after it. */
static int middle(struct walk *w, const char *name)
{
    struct stat st;
    int fd = openat(w->cur, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0) {
        if (S_ISLNK(st.st_mode))
            return follow(w, fd);
        if (S_ISDIR(st.st_mode))
            return enter(w, fd, &st);
        errno = ENOTDIR;
    }
    int err = -errno;
    close(fd);
    return err;
}

static int run(struct walk *w, int flags, mode_t mode)
{
    char name[NAME_MAX + 1];
    for (;;) {
        int err = 0;
        char *before = w->next;
        size_t n = take(w, name, &err);
        if (err != 0)
            return err;
        if (n == 0) { /* ended in "/", "." or "..": the folder we are in */
            int fd = openat(w->cur, ".", flags | O_CLOEXEC, mode);
            return fd < 0 ? -errno : fd;
        }
        if (strcmp(name, ".") == 0)
            continue;
        if (strcmp(name, "..") == 0) {
            err = leave(w);
        } else if (w->next[strspn(w->next, "/")] != '\0') {
            err = middle(w, name);
        } else {
            int fd = last(w, name, flags, mode);
            if (fd == -EAGAIN && ++w->races < RACES_MAX) {
                w->next = before;
                continue;
            }
            if (fd != INT_MIN)
                return fd;
        }
        if (err != 0)
            return err;
    }
}

int sp_walk_open(int root, const char *path, int flags, mode_t mode)
{
    struct stat st;
    if (*path == '\0')
        return -ENOENT;
    if (*path == '/')
        return -EXDEV;
    if (fstat(root, &st) != 0)
        return -errno;
    struct walk w = {.root = root, .cur = root, .at = {st.st_dev, st.st_ino}};
    w.rest = w.next = strdup(path);
    int fd = w.rest == NULL ? -ENOMEM : run(&w, flags, mode);
    if (w.cur != root)
        close(w.cur);
    free(w.up);
    free(w.rest);
    return fd;
}
