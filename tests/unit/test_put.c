/* test_put.c: uploads step by step, without the pool: conditions, modes, links, and that nothing
 * stays behind of one that fails. */
#include "cell/put.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
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

static enum sp_err put_as(const char *path, const char *text, uint8_t flags, const char *etag,
                          struct sp_result *r)
{
    static struct sp_put p;
    int end = -1;
    enum sp_err e = SP_E_INTERNAL;
    sp_put_init(&p);
    p.path_len = strlen(path);
    strcpy(p.path, path);
    strcpy(p.terms.tags, etag);
    p.terms.flags = flags & SP_IF_ANY;
    p.flags = flags;
    e = sp_put_begin(&ws, &p, &end);
    if (e != SP_OK)
        return e;
    ck_assert_int_eq(write(end, text, strlen(text)), (ssize_t)strlen(text));
    ck_assert_int_eq(sp_put_receive(&ws, &p, &e), SP_PUT_MORE);
    close(end);
    ck_assert_int_eq(sp_put_receive(&ws, &p, &e), SP_PUT_EOF);
    return sp_put_commit(&ws, &p, strlen(text), r);
}

static void holds(const char *path, const char *text, mode_t mode)
{
    struct stat st;
    int fd = openat(ws.root, path, O_RDONLY | O_NOFOLLOW);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_str_eq(slurp(fd), text);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq((int)(st.st_mode & 07777u), (int)mode);
    ck_assert_int_eq((int)st.st_nlink, 1);
    close(fd);
}

START_TEST(put_kinds)
{
    struct sp_result r = {0}, again;
    char etag[SP_ETAG_MAX];
    begin();
    ck_assert_int_eq(put_as("a/b/f", "one", 0, "", &r), SP_OK);
    ck_assert_int_eq(r.flags, SP_DONE_CREATED);
    ck_assert_uint_eq(r.size, 3);
    holds("a/b/f", "one", 0644);
    ck_assert_int_eq(get("a/b/f", false, &again), SP_OK);
    ck_assert_str_eq(r.etag, again.etag); /* what PUT says is what GET says */
    ck_assert_int_eq(r.mtime_ns, again.mtime_ns);
    private_mode(ws.root, "a/b/f", 0750);
    ck_assert_int_eq(put_as("a/b/f", "two!", 0, "", &r), SP_OK);
    ck_assert_int_eq(r.flags, 0);
    holds("a/b/f", "two!", 0750);
    strcpy(etag, r.etag);
    ck_assert_int_eq(put_as("a/b/f", "x", SP_PUT_NEW_ONLY, "", &r), SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(put_as("a/b/f", "x", SP_IF_MATCH, "1-2-3", &r), SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(put_as("none", "x", SP_IF_MATCH, "*", &r), SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(put_as("a/b/f", "3", SP_IF_MATCH, etag, &r), SP_OK);
    ck_assert_int_eq(put_as("a/b/f", "4", SP_IF_MATCH, etag, &r), SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(put_as("a/b/f", "5", SP_IF_MATCH, "*", &r), SP_OK);
    ck_assert_int_eq(put_as("new", "", SP_PUT_NEW_ONLY, "", &r), SP_OK);
    holds("new", "", 0644);
    ck_assert_int_eq(put_as("a/b", "x", 0, "", &r), SP_E_IS_A_DIRECTORY);
    ck_assert_int_eq(put_as("a/b/f/g", "x", 0, "", &r), SP_E_NOT_A_DIRECTORY_CONFLICT);
    ck_assert_int_eq(put_as("a/b/f/g/h", "x", 0, "", &r), SP_E_NOT_A_DIRECTORY_CONFLICT);
    ck_assert_int_eq(put_as("", "x", 0, "", &r), SP_E_BAD_PATH);
    private_link(ws.root, "a/b/f", "link");
    private_link(ws.root, "gone/x", "dangle");
    private_link(ws.root, "/tmp", "out");
    ck_assert_int_eq(put_as("link", "L", 0, "", &r), SP_OK);
    holds("link", "L", 0644);
    holds("a/b/f", "5", 0750);
    ck_assert_int_eq(put_as("dangle", "D", SP_PUT_NEW_ONLY, "", &r), SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(put_as("dangle", "D", 0, "", &r), SP_OK);
    holds("dangle", "D", 0644);
    ck_assert_int_eq(put_as("out/x", "x", 0, "", &r), SP_E_OUTSIDE_WORKSPACE);
    mkdirat(ws.root, "ro", 0555);
    ck_assert_int_eq(put_as("ro/x", "x", 0, "", &r), SP_E_FORBIDDEN);
}
END_TEST

START_TEST(put_leaves_nothing)
{
    struct sp_put *p = calloc(1, sizeof *p);
    struct sp_result r = {0};
    enum sp_err e;
    int end;
    begin();
    sp_put_init(p);
    p->path_len = 1;
    strcpy(p->path, "f");
    ck_assert_int_eq(sp_put_begin(&ws, p, &end), SP_OK);
    ck_assert_int_eq(write(end, "half", 4), 4);
    ck_assert_int_eq(sp_put_receive(&ws, p, &e), SP_PUT_MORE);
    ck_assert_int_eq(sp_put_commit(&ws, p, 5, &r), SP_E_INTERNAL); /* not what was announced */
    ck_assert(!exists("f"));
    ck_assert_int_eq(write(end, "x", 1), -1); /* the read end is closed */
    close(end);
    ws.max_upload = 3;
    sp_put_init(p);
    ck_assert_uint_eq(p->path_len, 0);
    p->path_len = 1;
    ck_assert_int_eq(sp_put_begin(&ws, p, &end), SP_OK);
    ck_assert_int_eq(write(end, "half", 4), 4);
    ck_assert_int_eq(sp_put_receive(&ws, p, &e), SP_PUT_BROKEN);
    ck_assert_int_eq(e, SP_E_BODY_TOO_LARGE);
    close(end);
    ck_assert_int_eq(get("", false, &r), SP_OK);
    ck_assert_str_eq(slurp(r.fd), "{\"path\":\"\",\"entries\":[],\"truncated\":false}");
    free(p);
}
END_TEST

START_TEST(put_without_space)
{
    char at[96];
    static struct sp_put p;
    static char block[1 << 16];
    enum sp_err e = SP_OK;
    int end;
    ws = (struct sp_workspace){.root = private_folder(ws_path), .use_openat2 = true};
    mkdirat(ws.root, "small", 0755);
    snprintf(at, sizeof at, "%s/small", ws_path);
    ck_assert_int_eq(mount("tmpfs", at, "tmpfs", 0, "size=128k"), 0);
    sp_put_init(&p);
    p.path_len = 7;
    strcpy(p.path, "small/f");
    ck_assert_int_eq(sp_put_begin(&ws, &p, &end), SP_OK);
    enum sp_put_turn t = SP_PUT_MORE;
    for (int i = 0; i < 10 && t == SP_PUT_MORE; i++) {
        ck_assert_int_gt(write(end, block, sizeof block), 0);
        t = sp_put_receive(&ws, &p, &e);
    }
    ck_assert_int_eq(t, SP_PUT_BROKEN);
    ck_assert_int_eq(e, SP_E_NO_SPACE);
    close(end);
    ck_assert(!exists("small/f"));
}
END_TEST

static int tests(void)
{
    Suite *s = suite_create("put");
    TCase *t = tcase_create("all");
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, put_kinds);
    tcase_add_test(t, put_leaves_nothing);
    tcase_add_test(t, put_without_space);
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
