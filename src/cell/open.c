/* open.c: GET and HEAD: a regular file's descriptor, or a folder's listing.
 *
 * What lies at a path may be a device or a FIFO that a command made. Opening those can block or
 * make a driver act, so the thing is looked at through O_PATH first and opened only when it is a
 * regular file; as it may be swapped in between, what was opened must be what was looked at. */
#include "cell/files.h"
#include "cell/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define SWAPS_MAX 16

void sp_file_etag(char out[SP_ETAG_MAX], const struct stat *st)
{
    unsigned long long ns = (unsigned long long)st->st_ctim.tv_sec * 1000000000ull +
                            (unsigned long long)st->st_ctim.tv_nsec;
    snprintf(out, SP_ETAG_MAX, "%llx-%llx-%llx", (unsigned long long)st->st_ino,
             (unsigned long long)st->st_size, ns);
}

void sp_file_stat(struct sp_result *r, const struct stat *st)
{
    r->size = st->st_size > 0 ? (uint64_t)st->st_size : 0;
    /* Seconds beyond the year 2262 don't fit in nanoseconds: saturated. */
    if (__builtin_mul_overflow(st->st_mtim.tv_sec, (int64_t)1000000000, &r->mtime_ns) ||
        __builtin_add_overflow(r->mtime_ns, st->st_mtim.tv_nsec, &r->mtime_ns))
        r->mtime_ns = st->st_mtim.tv_sec < 0 ? INT64_MIN : INT64_MAX;
    sp_file_etag(r->etag, st);
}

/* Opens for real what was seen through O_PATH. -EAGAIN: it is another thing by now. */
static int open_seen(const struct sp_workspace *w, const char *path, size_t n,
                     const struct stat *seen, struct stat *st)
{
    int fd = sp_resolve_open(w->root, path, n, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0, w->use_openat2);
    if (fd < 0)
        return fd;
    int err = fstat(fd, st) == 0 ? 0 : -errno;
    if (err == 0 && (st->st_dev != seen->st_dev || st->st_ino != seen->st_ino))
        err = -EAGAIN;
    if (err != 0) {
        close(fd);
        return err;
    }
    return fd;
}

/* What GET shows as Last-Modified is never ahead of its Date (RFC 9110 8.8.2.1), whatever a command
 * wrote. */
static void not_ahead(struct sp_result *r)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME_COARSE, &now) == 0 && r->mtime_ns / 1000000000 > now.tv_sec)
        r->mtime_ns = now.tv_sec * INT64_C(1000000000);
}

/* A small file goes with the answer, if it still has the size that it had. */
static void read_whole(struct sp_result *r)
{
    if (r->size > SP_WHOLE_MAX || (r->data = malloc(r->size + 1)) == NULL)
        return;
    ssize_t n;
    do
        n = pread(r->fd, r->data, r->size + 1, 0);
    while (n < 0 && errno == EINTR);
    if (n < 0 || (uint64_t)n != r->size) {
        free(r->data);
        r->data = NULL;
        return;
    }
    close(r->fd);
    r->fd = -1;
    r->flags = SP_FILE_WHOLE;
}

static int list_seen(int seen_fd, const char *path, size_t n, uint8_t flags, struct sp_result *r)
{
    const bool whole = (flags & SP_OPEN_WHOLE) != 0;
    int dir = openat(seen_fd, ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    int err = (flags & SP_OPEN_TREE) != 0 ? sp_list_tree(dir, path, n, SP_LIST_MAX, whole, r)
                                          : sp_list(dir, path, n, SP_LIST_MAX, whole, r);
    close(dir);
    return err;
}

/* One go. 0, -errno, or a positive enum sp_err. */
static int try_open(const struct sp_workspace *w, const char *path, size_t n, uint8_t flags,
                    struct sp_result *r)
{
    struct stat seen, st;
    int fd = sp_resolve_open(w->root, path, n, O_PATH, 0, w->use_openat2);
    if (fd < 0)
        return fd;
    int res;
    if (fstat(fd, &seen) != 0) {
        res = -errno;
    } else if (S_ISDIR(seen.st_mode)) {
        res = list_seen(fd, path, n, flags, r);
    } else if ((flags & (SP_OPEN_MUST_DIR | SP_OPEN_TREE)) != 0) {
        res = SP_E_NOT_A_DIRECTORY;
    } else if (!S_ISREG(seen.st_mode)) {
        res = SP_E_NOT_A_FILE;
    } else {
        /* fd stays open meanwhile, so that the inode's number can't be used again. */
        res = open_seen(w, path, n, &seen, &st);
        if (res >= 0) {
            r->fd = res;
            r->flags = 0;
            sp_file_stat(r, &st);
            not_ahead(r);
            if ((flags & SP_OPEN_WHOLE) != 0)
                read_whole(r);
            res = 0;
        }
    }
    close(fd);
    return res;
}

enum sp_err sp_file_open(const struct sp_workspace *w, const char *path, size_t n, uint8_t flags,
                         struct sp_result *r)
{
    int res = -EAGAIN;
    r->fd = -1;
    for (int i = 0; i < SWAPS_MAX && res == -EAGAIN; i++)
        res = try_open(w, path, n, flags, r);
    if (res == 0)
        return SP_OK;
    if (res > 0)
        return (enum sp_err)res;
    /* A resolver's ENXIO can only come from a FIFO or device swapped in after the look. */
    return sp_err_from_errno(-res);
}
