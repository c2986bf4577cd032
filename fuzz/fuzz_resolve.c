/* fuzz_resolve.c: the resolver on a real tree with links of all kinds, made once in a private
 * folder. The kernel's openat2 and our walk must agree, and whatever is opened must lie inside the
 * tree. Only opens for reading: nothing is made, changed or removed.
 * Covers: src/cell/resolve.c src/cell/walk.c */
#include "cell/resolve.h"
#include "sallyport/err.h"
#include "sallyport/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int root = -1;
static dev_t dev;
static ino_t inside[64];
static size_t ninside;

static void must(int r)
{
    if (r < 0) {
        perror("fuzz_resolve");
        exit(1);
    }
}

static void note(const char *path)
{
    struct stat st;
    must(fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW));
    dev = st.st_dev;
    inside[ninside++] = st.st_ino;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    static char top[] = "/tmp/fuzz-resolve-XXXXXX";
    static const char *const links[][2] = {{"a", "l"},
                                           {"b", "a/m"},
                                           {"..", "a/up"},
                                           {"../..", "a/b/uu"},
                                           {"../../..", "a/b/out"},
                                           {"/", "abs"},
                                           {"/etc/passwd", "pw"},
                                           {"loop2", "loop1"},
                                           {"loop1", "loop2"},
                                           {"f", "lf"},
                                           {"a/./b/../b/f", "dots"},
                                           {"gone", "dang"},
                                           {"a/", "slash"},
                                           {"f/", "fslash"},
                                           {"..", "top"}};
    if (mkdtemp(top) == NULL)
        must(-1);
    must(root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC));
    must(mkdirat(root, "a", 0755));
    must(mkdirat(root, "a/b", 0755));
    must(close(openat(root, "f", O_CREAT | O_WRONLY, 0644)));
    must(close(openat(root, "a/b/f", O_CREAT | O_WRONLY, 0644)));
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        must(symlinkat(links[i][0], root, links[i][1]));
    static const char *const all[] = {".", "a", "a/b", "f", "a/b/f"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        note(all[i]);
    return 0;
}

static void check_inside(int fd)
{
    struct stat st;
    must(fstat(fd, &st));
    for (size_t i = 0; i < ninside; i++)
        if (st.st_dev == dev && st.st_ino == inside[i])
            return;
    abort(); /* it led out, or to a link itself */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[512];
    if (size == 0 || size >= sizeof path || memchr(data, 0, size) != NULL)
        return 0;
    memcpy(path, data, size);
    path[size] = '\0';
    int flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
    int kernel = sp_resolve_open(root, path, size, flags, 0, true);
    int walk = sp_resolve_open(root, path, size, flags, 0, false);
    if (kernel >= 0)
        check_inside(kernel);
    if (walk >= 0)
        check_inside(walk);
    /* The kernel counts the links of an attempt that it gives up for a concurrent rename towards
     * its 40. */
    bool recount = kernel == -ELOOP && walk != -ELOOP;
    if (!recount && ((kernel >= 0) != (walk >= 0) || (kernel < 0 && kernel != walk))) {
        fprintf(stderr, "openat2: %d, walk: %d\n", kernel, walk);
        abort();
    }
    if (kernel >= 0)
        close(kernel);
    if (walk >= 0)
        close(walk);
    return 0;
}
