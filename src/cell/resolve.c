/* resolve.c: openat2 with a fallback, and the folder that holds a name.
 *
 * Trusts nobody: see resolve.h. openat2 answers EAGAIN while something is renamed beneath the root
 * and ".." is involved; that is tried a bounded number of times and then left to the walk, which
 * always gets somewhere. */
#include "cell/resolve.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KERNEL_TRIES 32
#define WALK_TRIES 64
#define MAKE_TRIES 8
#define PATH_CAP 4096

static atomic_bool no_openat2;

bool sp_resolve_walks(void)
{
    return atomic_load_explicit(&no_openat2, memory_order_relaxed);
}

static int by_kernel(int root, const char *path, int flags, mode_t mode)
{
    struct open_how how = {
        .flags = (uint64_t)(unsigned)flags | O_CLOEXEC,
        .mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode & 07777u : 0,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
    };
    int err = EAGAIN;
    for (int i = 0; i < KERNEL_TRIES && (err == EAGAIN || err == EINTR); i++) {
        long fd = syscall(SYS_openat2, root, path, &how, sizeof how);
        if (fd >= 0)
            return (int)fd;
        err = errno;
    }
    return -err;
}

static int by_walk(int root, const char *path, int flags, mode_t mode)
{
    int fd = -EAGAIN;
    for (int i = 0; i < WALK_TRIES && (fd == -EAGAIN || fd == -EINTR); i++)
        fd = sp_walk_open(root, path, flags, mode);
    return fd;
}

static int open_string(int root, const char *path, int flags, mode_t mode, bool use_openat2)
{
    if (*path == '\0')
        path = ".";
    if (use_openat2 && !sp_resolve_walks()) {
        int fd = by_kernel(root, path, flags, mode);
        if (fd == -ENOSYS)
            atomic_store_explicit(&no_openat2, true, memory_order_relaxed);
        /* EPERM is how some seccomp policies say "no such call", and has rare honest uses: the
         * walk gives the true answer in both cases. */
        else if (fd != -EAGAIN && fd != -EPERM)
            return fd;
    }
    return by_walk(root, path, flags, mode);
}

static int copy_path(char out[PATH_CAP], const char *path, size_t n)
{
    if (n >= PATH_CAP)
        return -ENAMETOOLONG;
    if (n > 0 && memchr(path, '\0', n) != NULL)
        return -EINVAL;
    if (n > 0)
        memcpy(out, path, n);
    out[n] = '\0';
    return 0;
}

int sp_resolve_open(int root, const char *path, size_t n, int flags, mode_t mode, bool use_openat2)
{
    char buf[PATH_CAP];
    int err = copy_path(buf, path, n);
    return err != 0 ? err : open_string(root, buf, flags, mode, use_openat2);
}

/* ---- the folder of a name ---- */

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY)

static int open_folder(int root, char *path, size_t n, bool use_openat2)
{
    char keep = path[n];
    path[n] = '\0';
    int fd = open_string(root, path, FOLDER_FLAGS, 0, use_openat2);
    path[n] = keep;
    return fd;
}

/* The end of the component that begins at or after from. */
static size_t component_end(const char *path, size_t from, size_t n)
{
    while (from < n && path[from] == '/')
        from++;
    while (from < n && path[from] != '/')
        from++;
    return from;
}

/* Ends of components, so that the deepest existing folder is found in log2(components) steps: from
 * the top it would cost the square of the depth. */
static size_t deepest_existing(int root, char *path, size_t n, bool use_openat2, int *fd)
{
    uint16_t ends[PATH_CAP / 2];
    size_t count = 0, low = 0;
    for (size_t e = component_end(path, 0, n);; e = component_end(path, e, n)) {
        ends[count++] = (uint16_t)e;
        if (e >= n || count == sizeof ends / sizeof *ends)
            break;
    }
    *fd = open_folder(root, path, 0, use_openat2);
    size_t high = count; /* ends[low - 1] exists, ends[high] is taken not to */
    while (*fd >= 0 && low < high) {
        size_t mid = low + (high - low) / 2;
        int next = open_folder(root, path, ends[mid], use_openat2);
        if (next >= 0) {
            close(*fd);
            *fd = next;
            low = mid + 1;
        } else if (next == -ENOENT) {
            high = mid;
        } else {
            close(*fd);
            *fd = next;
        }
    }
    return low == 0 ? 0 : ends[low - 1];
}

/* One go at making the folders of path[0..n). -EAGAIN: something else was made there meanwhile. */
static int make_folders(int root, char *path, size_t n, bool use_openat2)
{
    int fd = -1;
    size_t at = deepest_existing(root, path, n, use_openat2, &fd);
    while (fd >= 0 && at < n) {
        size_t end = component_end(path, at, n);
        while (at < end && path[at] == '/')
            at++;
        if (at == end)
            break;
        char keep = path[end];
        path[end] = '\0';
        int made = mkdirat(fd, path + at, 0755) == 0 ? 0 : -errno;
        int next = made == 0 || made == -EEXIST
                       ? openat(fd, path + at, FOLDER_FLAGS | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (next < 0 && (made == 0 || made == -EEXIST))
            made = errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? -EAGAIN : -errno;
        path[end] = keep;
        close(fd);
        fd = next >= 0 ? next : made;
        at = end;
    }
    return fd;
}

int sp_resolve_parent(int root, const char *path, size_t n, bool mkdirs, bool use_openat2,
                      char name[SP_RESOLVE_NAME])
{
    char buf[PATH_CAP];
    int err = copy_path(buf, path, n);
    if (err != 0)
        return err;
    const char *slash = n > 0 ? memrchr(buf, '/', n) : NULL;
    size_t dir = slash == NULL ? 0 : (size_t)(slash - buf);
    size_t from = slash == NULL ? 0 : dir + 1;
    if (n - from == 0 || strcmp(buf + from, ".") == 0 || strcmp(buf + from, "..") == 0)
        return -EINVAL;
    if (n - from >= SP_RESOLVE_NAME)
        return -ENAMETOOLONG;
    if (slash == buf)
        return -EXDEV;
    memcpy(name, buf + from, n - from + 1);
    int fd = open_folder(root, buf, dir, use_openat2);
    for (int i = 0; mkdirs && i < MAKE_TRIES && (fd == -ENOENT || fd == -EAGAIN); i++)
        fd = make_folders(root, buf, dir, use_openat2);
    /* Still in the way after all tries: a dangling link, which mkdir -p refuses as well. */
    if (mkdirs && fd == -EAGAIN)
        fd = -ENOTDIR;
    return fd;
}
