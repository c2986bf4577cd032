/* test_resolve.c: openat2 and the walk, side by side on a zoo of links, and under renames. */
#include "cell/resolve.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <seccomp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static char root_path[64];
static int root;

static void zoo(void)
{
    root = private_folder(root_path);
    private_drop_ids();
    ck_assert_int_eq(mkdirat(root, "a", 0755), 0);
    ck_assert_int_eq(mkdirat(root, "a/b", 0755), 0);
    ck_assert_int_eq(mkdirat(root, "a/b/c", 0755), 0);
    ck_assert_int_eq(mkdirat(root, "locked", 0755), 0);
    private_write(root, "f", "root", 4);
    private_write(root, "a/f", "a", 1);
    private_write(root, "a/b/c/f", "abc", 3);
    private_write(root, "locked/f", "x", 1);
    ck_assert_int_eq(mkfifoat(root, "fifo", 0644), 0);
    static const char *const links[][2] = {
        {"a", "to_a"},
        {"a/f", "to_af"},
        {"../f", "a/up"},
        {"../..", "a/b/up2"},
        {"../../..", "a/b/up3"},
        {"/etc/passwd", "abs"},
        {"/", "absroot"},
        {"..", "out"},
        {"../etc", "out2"},
        {"loop2", "loop1"},
        {"loop1", "loop2"},
        {"self", "self"},
        {"missing", "dangle"},
        {"a/", "slash"},
        {"f/", "file_slash"},
        {"./a/./b//c", "dots"},
        {"to_a/b/../up", "chain"},
        {"a/b/c/../../../a/b/up2/f", "long"},
        {"../ws/../../x", "wild"},
        {"locked/f", "to_locked"},
        {"fifo", "to_fifo"},
        {"to_af/x", "through_file"},
        {"a/b/up2/a/b/up2/a/b/up2/f", "round"},
    };
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        ck_assert_int_eq(symlinkat(links[i][0], root, links[i][1]), 0);
    char from[16], to[16]; /* n39 -> ... -> n0 -> f: 40 links; n40: 41 */
    for (int i = 0; i <= 40; i++) {
        snprintf(from, sizeof from, i == 0 ? "f" : "n%d", i - 1);
        snprintf(to, sizeof to, "n%d", i);
        ck_assert_int_eq(symlinkat(from, root, to), 0);
    }
    ck_assert_int_eq(fchmodat(root, "locked", 0, 0), 0);
}

static const char *const paths[] = {
    "",
    ".",
    "./",
    "f",
    "f/",
    "f/.",
    "f/x",
    "a",
    "a/",
    "a/.",
    "a/..",
    "a/../f",
    "a/b/../../f",
    "..",
    "../",
    "a/../..",
    "a/b/../../..",
    "/",
    "/etc",
    "a/f",
    "a/b/c/f",
    "a//f",
    "a/./b/./c/f",
    "missing",
    "missing/x",
    "a/missing",
    "to_a",
    "to_a/",
    "to_a/f",
    "to_a/b/c/f",
    "to_af",
    "to_af/",
    "to_af/x",
    "a/up",
    "a/b/up2",
    "a/b/up2/f",
    "a/b/up3",
    "a/b/up3/etc",
    "abs",
    "abs/x",
    "absroot",
    "absroot/etc/passwd",
    "out",
    "out/x",
    "out2/passwd",
    "loop1",
    "loop1/x",
    "self",
    "dangle",
    "dangle/x",
    "slash",
    "slash/f",
    "file_slash",
    "dots",
    "dots/f",
    "chain",
    "long",
    "wild",
    "locked",
    "locked/f",
    "locked/..",
    "locked/../f",
    "locked/.",
    "to_locked",
    "fifo",
    "fifo/",
    "fifo/x",
    "to_fifo",
    "to_fifo/..",
    "through_file",
    "round",
    "n0",
    "n1",
    "n38",
    "n39",
    "n40",
    "a/to_a",
    "...",
    "a/...",
    "a/b/c/../../../a/b/c/../../../f",
};

static void compare(const char *path, int flags)
{
    struct stat x, y;
    int k = sp_resolve_open(root, path, strlen(path), flags, 0600, true);
    int w = sp_resolve_open(root, path, strlen(path), flags, 0600, false);
    if (k < 0 || w < 0) {
        ck_assert_msg(k == w, "'%s' flags %#x: kernel %d, walk %d", path, (unsigned)flags, k, w);
        return;
    }
    ck_assert_int_eq(fstat(k, &x), 0);
    ck_assert_int_eq(fstat(w, &y), 0);
    ck_assert_msg(x.st_ino == y.st_ino && x.st_dev == y.st_dev, "'%s': another thing", path);
    int aside = ~(O_NOFOLLOW | O_DIRECTORY); /* of no effect once open */
    ck_assert_int_eq(fcntl(k, F_GETFL) & aside, fcntl(w, F_GETFL) & aside);
    ck_assert_int_eq(fcntl(w, F_GETFD), FD_CLOEXEC);
    close(k);
    close(w);
}

START_TEST(side_by_side)
{
    static const int flags[] = {
        O_PATH,
        O_PATH | O_DIRECTORY,
        O_RDONLY | O_NONBLOCK,
        O_RDONLY | O_DIRECTORY,
        O_PATH | O_NOFOLLOW,
        O_RDONLY | O_NOFOLLOW | O_NONBLOCK,
        O_RDONLY | O_NOFOLLOW | O_DIRECTORY,
        O_WRONLY | O_NONBLOCK,
    };
    zoo();
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        for (size_t j = 0; j < sizeof flags / sizeof *flags; j++)
            compare(paths[i], flags[j]);
    }
    ck_assert(!sp_resolve_walks());
}
END_TEST

START_TEST(long_and_odd)
{
    char path[5000], name[SP_RESOLVE_NAME];
    zoo();
    memset(path, 'x', sizeof path);
    for (size_t n = 250; n < 262; n++) {
        path[n] = '\0';
        compare(path, O_PATH);
        path[n] = 'x';
    }
    for (int walk = 0; walk < 2; walk++) {
        ck_assert_int_eq(sp_resolve_open(root, path, 4999, O_PATH, 0, !walk), -ENAMETOOLONG);
        ck_assert_int_eq(sp_resolve_open(root, "a\0b", 3, O_PATH, 0, !walk), -EINVAL);
        ck_assert_int_eq(sp_resolve_parent(root, "", 0, false, !walk, name), -EINVAL);
        ck_assert_int_eq(sp_resolve_parent(root, "a/..", 4, false, !walk, name), -EINVAL);
        ck_assert_int_eq(sp_resolve_parent(root, "/x", 2, false, !walk, name), -EXDEV);
        ck_assert_int_eq(sp_resolve_parent(root, "out/x", 5, true, !walk, name), -EXDEV);
        ck_assert_int_eq(sp_resolve_parent(root, "loop1/x", 7, true, !walk, name), -ELOOP);
        ck_assert_int_eq(sp_resolve_parent(root, "f/x", 3, true, !walk, name), -ENOTDIR);
        ck_assert_int_eq(sp_resolve_parent(root, "dangle/x", 8, true, !walk, name), -ENOTDIR);
        ck_assert_int_eq(sp_resolve_parent(root, "dangle/y/x", 10, true, !walk, name), -ENOTDIR);
        ck_assert_int_eq(sp_resolve_parent(root, "m/x", 3, false, !walk, name), -ENOENT);
    }
}
END_TEST

/* Creates 1500 folders in one go, below a link, and finds the last one again. */
START_TEST(parents)
{
    char path[4000], name[SP_RESOLVE_NAME];
    struct stat st;
    zoo();
    for (int walk = 0; walk < 2; walk++) {
        int n = snprintf(path, sizeof path, "to_a/deep%d", walk);
        for (int i = 0; i < 1500; i++)
            n += snprintf(path + n, sizeof path - (size_t)n, "/%d", i % 10);
        strcpy(path + n, "/leaf");
        int fd = sp_resolve_parent(root, path, strlen(path), true, !walk, name);
        ck_assert_msg(fd >= 0, "%d", fd);
        ck_assert_str_eq(name, "leaf");
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_int_eq((int)(st.st_mode & 07777u), 0755);
        close(fd);
        for (int by = 0; by < 2; by++) {
            fd = sp_resolve_open(root, path, (size_t)n, O_PATH | O_DIRECTORY, 0, by);
            ck_assert_msg(fd >= 0, "%d", fd);
            close(fd);
        }
    }
}
END_TEST

START_TEST(procfs_is_refused)
{
    static const char *const magic[] = {"p/self/root", "p/self/root/etc/passwd", "p/self/cwd",
                                        "p/self/exe", "p/thread-self/fd/0"};
    root = private_folder(root_path);
    ck_assert_int_eq(mkdirat(root, "p", 0755), 0);
    strcat(root_path, "/p");
    ck_assert_int_eq(mount("proc", root_path, "proc", 0, NULL), 0);
    for (size_t i = 0; i < sizeof magic / sizeof *magic; i++) {
        size_t n = strlen(magic[i]);
        ck_assert_int_eq(sp_resolve_open(root, magic[i], n, O_PATH, 0, true), -ELOOP);
        ck_assert_int_eq(sp_resolve_open(root, magic[i], n, O_PATH, 0, false), -ELOOP);
    }
    int fd = sp_resolve_open(root, "p/1/stat", 8, O_RDONLY, 0, false);
    ck_assert_int_ge(fd, 0);
    close(fd);
}
END_TEST

static atomic_bool stop_renames;

/* `x` is by turns a folder, a link to a folder and a link out; `a/b` moves about. */
static void *rename_all(void *arg)
{
    int dir = *(int *)arg;
    for (int i = 0; !atomic_load(&stop_renames); i++) {
        const char *as = i % 3 == 0 ? "spare_dir" : i % 3 == 1 ? "spare_in" : "spare_out";
        if (renameat(dir, as, dir, "x") == 0)
            (void)renameat(dir, "x", dir, as);
        (void)renameat(dir, "a/b", dir, "b");
        (void)renameat(dir, "b", dir, "a/b");
    }
    return NULL;
}

static void race(bool use_openat2)
{
    pthread_t t;
    struct stat st, outside;
    zoo();
    ck_assert_int_eq(mkdirat(root, "spare_dir", 0755), 0);
    private_write(root, "spare_dir/f", "in", 2);
    ck_assert_int_eq(symlinkat("a", root, "spare_in"), 0);
    ck_assert_int_eq(symlinkat("/etc", root, "spare_out"), 0);
    ck_assert_int_eq(stat("/etc", &outside), 0);
    ck_assert_int_eq(pthread_create(&t, NULL, rename_all, &root), 0);
    static const char *const tried[] = {"x/f",    "x/passwd",       "a/b/../../f",
                                        "x/../f", "a/b/c/../../up", "x"};
    int opened = 0;
    for (int i = 0; i < 30000; i++) {
        const char *p = tried[i % 6];
        int fd = sp_resolve_open(root, p, strlen(p), O_RDONLY | O_NONBLOCK, 0, use_openat2);
        if (fd < 0) {
            ck_assert_msg(fd == -ENOENT || fd == -EXDEV || fd == -ENOTDIR || fd == -EAGAIN,
                          "%s: %d", p, fd);
            continue;
        }
        opened++;
        ck_assert_int_eq(fstat(fd, &st), 0);
        ck_assert_msg(st.st_dev != outside.st_dev, "%s led out", p);
        close(fd);
    }
    atomic_store(&stop_renames, true);
    pthread_join(t, NULL);
    ck_assert_int_gt(opened, 0);
}

START_TEST(races_kernel)
{
    race(true);
}
END_TEST

START_TEST(races_walk)
{
    race(false);
}
END_TEST

static void deny_openat2(uint32_t action)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(seccomp_rule_add(f, action, (int)SYS_openat2, 0), 0);
    ck_assert_int_eq(seccomp_load(f), 0);
    seccomp_release(f);
}

START_TEST(denied)
{
    struct stat st;
    zoo();
    deny_openat2(SCMP_ACT_ERRNO((uint32_t)(_i == 0 ? ENOSYS : EPERM)));
    int fd = sp_resolve_open(root, "to_a/b/c/f", 10, O_RDONLY, 0, true);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, 3);
    close(fd);
    ck_assert_int_eq(sp_resolve_open(root, "abs", 3, O_RDONLY, 0, true), -EXDEV);
    ck_assert_int_eq(sp_resolve_open(root, "loop1", 5, O_RDONLY, 0, true), -ELOOP);
    ck_assert_int_eq(sp_resolve_walks(), _i == 0);
}
END_TEST

static int tests(void)
{
    Suite *s = suite_create("resolve");
    TCase *t = tcase_create("all");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, side_by_side);
    tcase_add_test(t, long_and_odd);
    tcase_add_test(t, parents);
    tcase_add_test(t, procfs_is_refused);
    tcase_add_test(t, races_kernel);
    tcase_add_test(t, races_walk);
    tcase_add_loop_test(t, denied, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(tests);
}
