/* test_files.c: the work of the file threads, called directly on a real tree. */
#include "cell/files.h"
#include "private_ns.h"
#include "sallyport/utf8.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sp_workspace ws;
static char ws_path[64];

static void begin(void)
{
    ws = (struct sp_workspace){.root = private_folder(ws_path), .use_openat2 = true};
    private_drop_ids();
}

static enum sp_err get(const char *path, bool must_dir, struct sp_result *r)
{
    *r = (struct sp_result){.fd = -1};
    return sp_file_open(&ws, path, strlen(path), must_dir, r);
}

static enum sp_err del(const char *path, bool recursive)
{
    return sp_file_delete(&ws, path, strlen(path), recursive ? SP_DELETE_RECURSIVE : 0, NULL);
}

static bool exists(const char *path)
{
    struct stat st;
    return fstatat(ws.root, path, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static char *slurp(int fd)
{
    static char buf[1 << 16];
    ssize_t n = pread(fd, buf, sizeof buf - 1, 0);
    ck_assert_int_ge(n, 0);
    buf[n] = '\0';
    return buf;
}

START_TEST(open_kinds)
{
    struct sp_result r;
    struct stat st;
    char etag[SP_ETAG_MAX];
    begin();
    mkdirat(ws.root, "d", 0755);
    private_write(ws.root, "d/f", "hello", 5);
    private_write(ws.root, "no", "x", 1);
    private_mode(ws.root, "no", 0);
    mkfifoat(ws.root, "fifo", 0666);
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/sock", ws_path);
    ck_assert_int_eq(bind(s, (void *)&a, sizeof a), 0);
    private_link(ws.root, "d/f", "in");
    private_link(ws.root, "/dev/null", "dev");
    private_link(ws.root, "fifo", "to_fifo");
    private_link(ws.root, "me", "me");
    ck_assert_int_eq(get("d/f", false, &r), SP_OK);
    ck_assert_str_eq(slurp(r.fd), "hello");
    ck_assert_int_eq(fstat(r.fd, &st), 0);
    sp_file_etag(etag, &st);
    ck_assert_str_eq(r.etag, etag);
    ck_assert_uint_eq(r.size, 5);
    ck_assert_int_eq(r.mtime_ns, st.st_mtim.tv_sec * 1000000000L + st.st_mtim.tv_nsec);
    ck_assert_int_eq(r.flags, 0);
    close(r.fd);
    ck_assert_int_eq(get("in", false, &r), SP_OK);
    close(r.fd);
    ck_assert_int_eq(get("d/f", true, &r), SP_E_NOT_A_DIRECTORY);
    ck_assert_int_eq(get("fifo", true, &r), SP_E_NOT_A_DIRECTORY);
    ck_assert_int_eq(get("d/f/x", false, &r), SP_E_NOT_FOUND);
    ck_assert_int_eq(get("nope", false, &r), SP_E_NOT_FOUND);
    ck_assert_int_eq(get("fifo", false, &r), SP_E_NOT_A_FILE);
    ck_assert_int_eq(get("to_fifo", false, &r), SP_E_NOT_A_FILE);
    ck_assert_int_eq(get("sock", false, &r), SP_E_NOT_A_FILE);
    ck_assert_int_eq(get("no", false, &r), SP_E_FORBIDDEN);
    ck_assert_int_eq(get("dev", false, &r), SP_E_OUTSIDE_WORKSPACE);
    ck_assert_int_eq(get("me", false, &r), SP_E_LINK_LOOP);
    ck_assert_int_eq(r.fd, -1);
}
END_TEST

START_TEST(list_names)
{
    struct sp_result r;
    begin();
    mkdirat(ws.root, "d", 0755);
    int d = openat(ws.root, "d", O_RDONLY | O_DIRECTORY);
    ck_assert_int_eq(get("d", false, &r), SP_OK);
    ck_assert_str_eq(slurp(r.fd), "{\"path\":\"d\",\"entries\":[],\"truncated\":false}");
    private_write(d, "b", "123", 3);
    private_write(d, "a\"\\\n", "", 0);
    private_write(d, "\xff%z", "", 0);
    mkdirat(d, "B", 0700);
    private_link(d, "b", "l");
    mkfifoat(d, "p", 0600);
    struct timespec old[2] = {{0, UTIME_OMIT}, {-2, 250000000}};
    struct timespec now[2] = {{0, UTIME_OMIT}, {1700000000, 123456789}};
    ck_assert_int_eq(utimensat(d, "b", now, 0), 0);
    bool ancient = utimensat(d, "p", old, 0) == 0;
    ck_assert_int_eq(get("d", true, &r), SP_OK);
    ck_assert_int_eq(r.flags, SP_FILE_LISTING);
    char *json = slurp(r.fd);
    ck_assert_uint_eq(r.size, strlen(json));
    static const char *const order[] = {
        "{\"path\":\"d\",\"entries\":[{\"name\":\"B\",\"type\":\"directory\",",
        "\"mode\":\"0700\"",
        "{\"name\":\"a\\\"\\\\\\n\",\"type\":\"file\",\"size\":0,\"mode\":\"0644\",",
        "{\"name\":\"b\",\"type\":\"file\",\"size\":3,\"mode\":\"0644\",\"mtime\":1700000000.123}",
        "{\"name\":\"l\",\"type\":\"symlink\",\"size\":1,",
        "{\"name\":\"p\",\"type\":\"other\",\"size\":0,\"mode\":\"0600\",\"mtime\":",
        ",\"raw\":\"%FF%25z\",\"type\":\"file\"",
        "],\"truncated\":false}",
    };
    char *at = json;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        at = strstr(at, order[i]);
        ck_assert_msg(at != NULL, "%s: not in %s", order[i], json);
    }
    if (ancient)
        ck_assert_ptr_nonnull(strstr(json, "\"mtime\":-1.750}"));
    ck_assert(sp_utf8_valid(json, strlen(json)));
    ck_assert_int_lt(ftruncate(r.fd, 0), 0); /* sealed */
    ck_assert_int_lt(write(r.fd, "x", 1), 0);
    ck_assert_int_eq(sp_list(d, "d", 1, 3, false, &r), 0);
    ck_assert_ptr_nonnull(strstr(slurp(r.fd), "],\"truncated\":true}"));
}
END_TEST

static void deep(const char *top, int levels)
{
    ck_assert_int_eq(mkdirat(ws.root, top, 0755), 0);
    int fd = openat(ws.root, top, O_PATH | O_DIRECTORY);
    for (int i = 0; i < levels; i++) {
        char name[128];
        snprintf(name, sizeof name, "%d-%0100d", i, 0);
        ck_assert_int_eq(mkdirat(fd, name, 0755), 0);
        if (i % 100 == 0)
            private_write(fd, "z", "z", 1);
        int next = openat(fd, name, O_PATH | O_DIRECTORY);
        ck_assert_int_ge(next, 0);
        close(fd);
        fd = next;
    }
    private_write(fd, "leaf", "x", 1);
    close(fd);
}

START_TEST(remove_kinds)
{
    begin();
    mkdirat(ws.root, "keep", 0755);
    private_write(ws.root, "keep/f", "x", 1);
    mkdirat(ws.root, "d", 0755);
    mkdirat(ws.root, "d/e", 0755);
    private_link(ws.root, "../keep", "d/l");
    private_link(ws.root, "/etc", "d/e/out");
    mkfifoat(ws.root, "d/fifo", 0600);
    private_link(ws.root, "keep", "l");
    private_write(ws.root, "f", "x", 1);
    ck_assert_int_eq(del("", true), SP_E_BAD_PATH);
    ck_assert_int_eq(del("nope", true), SP_E_NOT_FOUND);
    ck_assert_int_eq(del("f/x", true), SP_E_NOT_FOUND);
    ck_assert_int_eq(del("f", false), SP_OK);
    ck_assert_int_eq(del("l", true), SP_OK);
    ck_assert_int_eq(del("d", false), SP_E_NOT_EMPTY);
    ck_assert_int_eq(del("d", true), SP_OK);
    ck_assert(!exists("d") && !exists("l") && exists("keep/f"));
    ck_assert_int_eq(del("keep/f", false), SP_OK);
    ck_assert_int_eq(del("keep", false), SP_OK);
}
END_TEST

START_TEST(remove_closed_folders)
{
    begin();
    for (mode_t mode = 0; mode <= 0700; mode += 0100) {
        mkdirat(ws.root, "d", 0755);
        mkdirat(ws.root, "d/x", 0755);
        mkdirat(ws.root, "d/x/y", 0755);
        private_write(ws.root, "d/x/y/f", "x", 1);
        private_mode(ws.root, "d/x/y", mode);
        private_mode(ws.root, "d/x", mode);
        private_mode(ws.root, "d", mode);
        ck_assert_msg(del("d", true) == SP_OK, "mode %o", mode);
        ck_assert(!exists("d"));
    }
}
END_TEST

START_TEST(remove_stops_at_mounts)
{
    char at[96];
    ws = (struct sp_workspace){.root = private_folder(ws_path), .use_openat2 = true};
    mkdirat(ws.root, "d", 0755);
    mkdirat(ws.root, "src", 0755);
    mkdirat(ws.root, "d/bind", 0755);
    private_write(ws.root, "src/f", "x", 1);
    char src[96];
    snprintf(src, sizeof src, "%s/src", ws_path);
    snprintf(at, sizeof at, "%s/d/bind", ws_path);
    ck_assert_int_eq(mount(src, at, NULL, MS_BIND, NULL), 0); /* the same device */
    ck_assert_int_eq(del("d", true), SP_E_NOT_EMPTY);
    ck_assert(exists("src/f"));
    struct sp_result r = {0};
    ck_assert_int_eq(sp_file_usage(&ws, "d", 1, &r), SP_OK);
    ck_assert_uint_eq(r.entries, 0);
    ck_assert_int_eq(umount(at), 0);
    ck_assert_int_eq(del("d", true), SP_OK);
}
END_TEST

START_TEST(deep_trees)
{
    struct sp_result r = {0};
    begin();
    deep("deep", 3000);
    deep("deeper", 10000);
    ck_assert_int_eq(sp_file_usage(&ws, "deep", 4, &r), SP_OK);
    ck_assert_uint_eq(r.entries, 3000 + 30 + 1);
    ck_assert_int_eq(del("deep", false), SP_E_NOT_EMPTY);
    ck_assert_int_eq(del("deep", true), SP_OK);
    ck_assert_int_eq(del("deeper", true), SP_OK);
    ck_assert(!exists("deep") && !exists("deeper"));
}
END_TEST

START_TEST(wide_trees)
{
    struct sp_result r = {0};
    char name[64];
    begin();
    mkdirat(ws.root, "w", 0755);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "w/%d", i);
        if (i % 3 == 0)
            private_write(ws.root, name, "x", 1);
        else
            mkdirat(ws.root, name, 0755);
        snprintf(name, sizeof name, "w/%d/f", i);
        if (i % 3 == 1)
            private_write(ws.root, name, "x", 1);
    }
    ck_assert_int_eq(sp_file_usage(&ws, "", 0, &r), SP_OK);
    ck_assert_uint_eq(r.entries, 1 + 3000 + 1000);
    ck_assert_int_eq(del("w", true), SP_OK);
    ck_assert(!exists("w"));
}
END_TEST

START_TEST(usage_counts)
{
    struct sp_result r = {0}, one = {0};
    char block[8192] = {1};
    begin();
    private_write(ws.root, "f", block, sizeof block);
    ck_assert_int_eq(sp_file_usage(&ws, "f", 1, &one), SP_OK);
    ck_assert_uint_eq(one.size, sizeof block);
    ck_assert_uint_eq(one.entries, 1);
    for (int i = 0; i < 600; i++) { /* more than the table's first size */
        char name[32], twin[32];
        snprintf(name, sizeof name, "n%d", i);
        snprintf(twin, sizeof twin, "t%d", i);
        private_write(ws.root, name, "x", 1);
        ck_assert_int_eq(linkat(ws.root, name, ws.root, twin, 0), 0);
    }
    private_link(ws.root, "f", "l");
    ck_assert_int_eq(sp_file_usage(&ws, "", 0, &r), SP_OK);
    ck_assert_uint_eq(r.entries, 602);
    ck_assert_uint_eq(r.size, sizeof block + 600 * 4096);
    ck_assert_int_eq(sp_file_usage(&ws, "none", 4, &r), SP_E_NOT_FOUND);
}
END_TEST

static atomic_bool stop;

static void *refill(void *arg)
{
    (void)arg;
    for (unsigned i = 0; !atomic_load(&stop); i++) {
        char name[32];
        snprintf(name, sizeof name, "d/%u", i % 7);
        (void)!mkdirat(ws.root, "d", 0755);
        (void)!mkdirat(ws.root, name, 0755);
        (void)!symlinkat("../keep", ws.root, "d/link");
        (void)!renameat(ws.root, "d/link", ws.root, name);
        strcat(name, "/x");
        int fd = openat(ws.root, name, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

START_TEST(remove_races)
{
    pthread_t t;
    begin();
    mkdirat(ws.root, "keep", 0755);
    private_write(ws.root, "keep/f", "x", 1);
    ck_assert_int_eq(pthread_create(&t, NULL, refill, NULL), 0);
    for (int i = 0; i < 2000; i++) {
        enum sp_err e = del("d", true);
        ck_assert_msg(e == SP_OK || e == SP_E_NOT_EMPTY || e == SP_E_NOT_FOUND, "%s",
                      sp_err_name(e));
        ck_assert(exists("keep/f"));
    }
    atomic_store(&stop, true);
    pthread_join(t, NULL);
}
END_TEST

static int tests(void)
{
    Suite *s = suite_create("files");
    TCase *t = tcase_create("all");
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, open_kinds);
    tcase_add_test(t, list_names);
    tcase_add_test(t, remove_kinds);
    tcase_add_test(t, remove_closed_folders);
    tcase_add_test(t, remove_stops_at_mounts);
    tcase_add_test(t, deep_trees);
    tcase_add_test(t, wide_trees);
    tcase_add_test(t, usage_counts);
    tcase_add_test(t, remove_races);
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
