/* fuzz_resolve.c: the resolver on a real tree with links of all kinds, made once in a private
 * folder, beside a model that knows the tree and no file system. The kernel's openat2, our walk and
 * the model agree on every path: the same file, or the same error, and never one outside. The first
 * byte says how it is opened; folders that are made go again.
 * Covers: src/cell/resolve.c src/cell/walk.c */
#include "cell/resolve.h"
#include "sallyport/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_CAP 1024

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The tree: what is at a path, from the top on. A link has a target. */
static const struct entry {
    const char *dir, *name, *target; /* dir: its folder's path */
} tree[] = {
    {"", "a", NULL},
    {"a", "b", NULL},
    {"", "f", NULL},
    {"a/b", "f", NULL},
    {"", "l", "a"},
    {"a", "m", "b"},
    {"a", "up", ".."},
    {"a/b", "uu", "../.."},
    {"a/b", "out", "../../.."},
    {"", "abs", "/"},
    {"", "pw", "/etc/passwd"},
    {"", "loop1", "loop2"},
    {"", "loop2", "loop1"},
    {"", "lf", "f"},
    {"", "dots", "a/./b/../b/f"},
    {"", "dang", "gone"},
    {"", "slash", "a/"},
    {"", "fslash", "f/"},
    {"", "top", ".."},
    {"", "dd", "gone/deep"},
};
#define ENTRIES ((int)(sizeof tree / sizeof *tree))
#define TOP ENTRIES /* the root's number */

static char top[] = "/tmp/fuzz-resolve-XXXXXX";
static int root = -1;
static struct stat known[ENTRIES + 1];

static void must(bool ok)
{
    if (!ok) {
        perror("fuzz_resolve");
        abort();
    }
}

static void full(int i, char out[64])
{
    (void)snprintf(out, 64, "%s%s%s", tree[i].dir, *tree[i].dir != '\0' ? "/" : "", tree[i].name);
}

static bool is_dir(int node)
{
    return node == TOP || (tree[node].target == NULL && tree[node].name[0] != 'f');
}

static void clean(void)
{
    char path[64];
    for (int i = ENTRIES; i-- > 0;) {
        full(i, path);
        (void)unlinkat(root, path, is_dir(i) ? AT_REMOVEDIR : 0);
    }
    (void)rmdir(top);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[64];
    (void)argc;
    (void)argv;
    must(mkdtemp(top) != NULL && (root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC)) >= 0);
    must(atexit(clean) == 0);
    for (int i = 0; i < ENTRIES; i++) {
        full(i, path);
        if (tree[i].target != NULL)
            must(symlinkat(tree[i].target, root, path) == 0);
        else if (is_dir(i))
            must(mkdirat(root, path, 0755) == 0);
        else
            must(close(openat(root, path, O_CREAT | O_WRONLY, 0644)) == 0);
        must(fstatat(root, path, &known[i], AT_SYMLINK_NOFOLLOW) == 0);
    }
    must(fstat(root, &known[TOP]) == 0);
    return 0;
}

/* ---- the model ---- */

static int child(int dir, const char *name, size_t n)
{
    char path[64] = "";
    if (n > NAME_MAX)
        return -ENAMETOOLONG;
    if (dir != TOP)
        full(dir, path);
    for (int i = 0; i < ENTRIES; i++)
        if (strcmp(tree[i].dir, path) == 0 && strlen(tree[i].name) == n &&
            memcmp(tree[i].name, name, n) == 0)
            return i;
    return -ENOENT;
}

static int parent(int dir)
{
    for (int i = 0; i < ENTRIES; i++) {
        char path[64];
        full(i, path);
        if (dir != TOP && strcmp(path, tree[dir].dir) == 0)
            return i;
    }
    return dir == TOP ? -EXDEV : TOP;
}

/* From *at along path[0..n), links counted. The node, or -errno; *at: the folder of the last
 * component; *missing: that component is all that is missing. */
static int go(int *at, const char *path, size_t n, bool stay, int *links, bool *missing)
{
    int node = *at;
    *missing = false;
    if (n > 0 && path[0] == '/')
        return -EXDEV;
    for (size_t i = 0; i < n && node >= 0;) {
        size_t len = 0;
        while (i < n && path[i] == '/')
            i++;
        while (i + len < n && path[i + len] != '/')
            len++;
        if (!is_dir(node))
            return -ENOTDIR; /* also for a slash at the end */
        bool last = i + len == n;
        if (len == 0 || (len == 1 && path[i] == '.')) {
            i += len;
            continue;
        }
        *at = node;
        node =
            len == 2 && memcmp(path + i, "..", 2) == 0 ? parent(node) : child(node, path + i, len);
        *missing = node == -ENOENT && last;
        i += len;
        if (node >= 0 && node != TOP && tree[node].target != NULL && !(last && stay)) {
            bool inner;
            const char *t = tree[node].target;
            int from = *at;
            if (++*links > 40)
                return -ELOOP;
            node = go(&from, t, strlen(t), false, links, &inner);
        }
    }
    return node;
}

static int model_open(const char *path, size_t n, int flags)
{
    int at = TOP, links = 0;
    bool missing, stay = flags & O_NOFOLLOW;
    int node = go(&at, path, n, stay, &links, &missing);
    if (node < 0)
        return node;
    bool link = node != TOP && tree[node].target != NULL;
    if ((flags & O_DIRECTORY) && !is_dir(node))
        return -ENOTDIR;
    return link && !(flags & O_PATH) ? -ELOOP : node;
}

/* ---- what the resolver says ---- */

static void check_same(int fd, const struct stat *want)
{
    struct stat st;
    must(fstat(fd, &st) == 0);
    must(st.st_dev == want->st_dev && st.st_ino == want->st_ino);
}

/* The kernel counts the links of an attempt that it gives up for a concurrent rename towards its
 * 40: that one answer may differ. */
static void check(const char *what, int fd, int want, bool kernel)
{
    if (kernel && fd == -ELOOP && want != -ELOOP)
        return;
    if (fd < 0 ? fd != want : want < 0) {
        fprintf(stderr, "%s (%s): %d, not %d\n", what, kernel ? "openat2" : "walk", fd, want);
        abort();
    }
    if (fd >= 0)
        check_same(fd, &known[want]);
}

static void check_open(const char *path, size_t n, int flags)
{
    int want = model_open(path, n, flags), extra = O_CLOEXEC | (flags & O_PATH ? 0 : O_NONBLOCK);
    for (int kernel = 0; kernel < 2; kernel++) {
        int fd = sp_resolve_open(root, path, n, flags | extra, 0, kernel);
        check("open", fd, want, kernel);
        if (fd >= 0)
            close(fd);
    }
}

/* The folder of the last component, which need not exist. */
static void check_parent(const char *path, size_t n)
{
    const char *slash = n > 0 ? memrchr(path, '/', n) : NULL, *base = slash ? slash + 1 : path;
    size_t len = n - (size_t)(base - path);
    int want = 0;
    if (len == 0 || (len == 1 && *base == '.') || (len == 2 && memcmp(base, "..", 2) == 0))
        want = -EINVAL;
    else if (len >= SP_RESOLVE_NAME)
        want = -ENAMETOOLONG;
    else
        want = slash == path ? -EXDEV
                             : model_open(path, slash ? (size_t)(slash - path) : 0, O_DIRECTORY);
    for (int kernel = 0; kernel < 2; kernel++) {
        char name[SP_RESOLVE_NAME];
        int fd = sp_resolve_parent(root, path, n, false, kernel, name);
        check("parent", fd, want, kernel);
        if (fd >= 0) {
            must(strlen(name) == len && memcmp(name, base, len) == 0);
            close(fd);
        }
    }
}

/* How much of path[0..n) exists, up to its first missing component, or -errno. */
static int existing(const char *path, size_t n)
{
    size_t end = 0;
    for (;;) {
        size_t next = end;
        while (next < n && path[next] == '/')
            next++;
        while (next < n && path[next] != '/')
            next++;
        int at = TOP, links = 0;
        bool missing;
        int node = go(&at, path, next, false, &links, &missing);
        if (node == -ENOENT)
            return missing ? (int)end : -ENOTDIR; /* a dangling link is in the way */
        if (node < 0)
            return node;
        if (!is_dir(node))
            return -ENOTDIR;
        end = next;
        if (end >= n)
            return (int)n;
    }
}

/* The missing folders are made, one below the other, and nothing else. */
static void check_made(const char *path, size_t n)
{
    const char *slash = memrchr(path, '/', n);
    size_t dir = slash ? (size_t)(slash - path) : 0;
    int want = existing(path, dir);
    for (int kernel = 0; kernel < 2; kernel++) {
        char name[SP_RESOLVE_NAME], part[PATH_CAP];
        int fd = sp_resolve_parent(root, path, n, true, kernel, name);
        if (kernel && fd == -ELOOP)
            continue;
        if (fd < 0 ? fd != want : want < 0) {
            fprintf(stderr, "make (%s): %d, not %d\n", kernel ? "openat2" : "walk", fd, want);
            abort();
        }
        if (fd < 0)
            continue;
        struct stat st;
        for (size_t end = dir; end > (size_t)want; end--) {
            if (end < dir && path[end] != '/')
                continue;
            memcpy(part, path, end);
            part[end] = '\0';
            must(fstatat(root, part, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode));
            if (end == dir)
                check_same(fd, &st);
            must(unlinkat(root, part, AT_REMOVEDIR) == 0);
        }
        close(fd);
    }
}

static void check_nul(const char *path, size_t n)
{
    char name[SP_RESOLVE_NAME];
    must(sp_resolve_open(root, path, n, O_RDONLY, 0, true) == -EINVAL);
    must(sp_resolve_parent(root, path, n, true, true, name) == -EINVAL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int flags[] = {O_RDONLY, O_RDONLY | O_DIRECTORY, O_PATH, O_PATH | O_NOFOLLOW,
                                O_RDONLY | O_NOFOLLOW};
    char path[PATH_CAP];
    if (size < 1 || size > sizeof path)
        return 0;
    size_t n = size - 1;
    memcpy(path, data + 1, n);
    path[n] = '\0';
    unsigned how = data[0] % 7;
    if (strlen(path) != n)
        check_nul(path, n);
    else if (how < 5)
        check_open(path, n, flags[how]);
    else if (how == 5)
        check_parent(path, n);
    else if (n > 0 && sp_path_check(path, n) == SP_OK) /* as the cell lets them through */
        check_made(path, n);
    return 0;
}
