/* test_cell_uploads.c: files through a whole cell: the pool, its bounds, and uploads in any order
 * of bytes, end, commit and cancel. */
#include "cell/pool.h"
#include "cell_stage.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct stage s;

static void up(void)
{
    stage_settings(&s);
    stage_raise(&s);
}

static int put(uint32_t id, const char *path, uint8_t flags)
{
    stage_path(&s, SP_OP_PUT, id, path, flags);
    (void)stage_expect(&s, SP_OP_READY, id);
    return stage_fd(&s, 0);
}

static void commit(uint32_t id, uint64_t size)
{
    struct sp_msg m = {.op = SP_OP_COMMIT, .id = id, .size = size};
    stage_send(&s, &m);
}

static void cancel(uint32_t id, uint8_t flags)
{
    struct sp_msg m = {.op = SP_OP_CANCEL, .id = id, .flags = flags};
    stage_send(&s, &m);
}

/* Feeds a nonblocking pipe. False: nobody reads any more. */
static bool feed(int fd, char fill, size_t n)
{
    static char block[1 << 16];
    memset(block, fill, sizeof block);
    while (n > 0) {
        ssize_t k = write(fd, block, n < sizeof block ? n : sizeof block);
        if (k < 0 && errno == EPIPE)
            return false;
        if (k < 0) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            ck_assert_int_eq(errno, EAGAIN);
            ck_assert_int_eq(poll(&p, 1, 60000), 1);
            continue;
        }
        n -= (size_t)k;
    }
    return true;
}

static off_t size_of(const char *path)
{
    struct stat st;
    return fstatat(s.ws, path, &st, AT_SYMLINK_NOFOLLOW) == 0 ? st.st_size : -1;
}

START_TEST(any_order)
{
    up();
    int fd = put(1, "a/b/f", 0);
    ck_assert(feed(fd, 'x', 10000000)); /* many turns */
    close(fd);
    commit(1, 10000000);
    const struct sp_msg *m = stage_expect(&s, SP_OP_DONE, 1);
    ck_assert_int_eq(m->flags, SP_DONE_CREATED);
    ck_assert_uint_eq(m->size, 10000000);
    ck_assert_int_eq(size_of("a/b/f"), 10000000);
    fd = put(2, "a/b/f", 0);
    commit(2, 5); /* before the end: waits for it */
    ck_assert(feed(fd, 'y', 5));
    ck_assert(!stage_next(&s, 50));
    close(fd);
    (void)stage_expect(&s, SP_OP_DONE, 2);
    ck_assert_int_eq(s.msg.flags, 0);
    ck_assert_int_eq(size_of("a/b/f"), 5);
    commit(2, 5); /* over: ignored */
    cancel(2, 0);
    fd = put(3, "a/b/f", 0);
    close(fd);
    ck_assert(!stage_next(&s, 50)); /* the end alone means nothing */
    cancel(3, 0);
    stage_expect_fail(&s, 3, SP_E_BAD_REQUEST);
    fd = put(3, "a/b/f", 0); /* the id is free again */
    ck_assert(feed(fd, 'z', 3));
    close(fd);
    commit(3, 4);
    stage_expect_fail(&s, 3, SP_E_INTERNAL);
    fd = put(4, "a/b/f", 0);
    cancel(4, SP_CANCEL_TIMEOUT);
    stage_expect_fail(&s, 4, SP_E_TIMEOUT);
    ck_assert(!feed(fd, 'z', 1));
    close(fd);
    ck_assert_int_eq(size_of("a/b/f"), 5);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

static void put_whole(uint32_t id, const char *path, uint8_t flags, struct sp_slice data)
{
    struct sp_msg m = {.op = SP_OP_PUT, .id = id, .flags = (uint8_t)(flags | SP_PUT_WHOLE)};
    m.path = (struct sp_slice){path, strlen(path)};
    m.data = data;
    stage_send(&s, &m);
}

/* Files that go and come in one message: the same answers, and what is larger has a descriptor. */
START_TEST(at_once)
{
    static char large[SP_WHOLE_MAX + 1];
    up();
    put_whole(1, "a/b/f", 0, (struct sp_slice){"x\0y", 3});
    const struct sp_msg *m = stage_expect(&s, SP_OP_DONE, 1);
    ck_assert_int_eq(m->flags, SP_DONE_CREATED);
    ck_assert_uint_eq(m->size, 3);
    put_whole(2, "a/b/f", SP_PUT_NEW_ONLY, (struct sp_slice){"z", 1});
    stage_expect_fail(&s, 2, SP_E_PRECONDITION_FAILED);
    put_whole(3, "a/b", 0, (struct sp_slice){"z", 1});
    stage_expect_fail(&s, 3, SP_E_IS_A_DIRECTORY);
    put_whole(4, "a/b/f/g", 0, (struct sp_slice){"z", 1});
    stage_expect_fail(&s, 4, SP_E_NOT_A_DIRECTORY_CONFLICT);
    stage_path(&s, SP_OP_OPEN, 5, "a/b/f", SP_OPEN_WHOLE);
    m = stage_expect(&s, SP_OP_FILE, 5);
    ck_assert_int_eq(m->flags, SP_FILE_WHOLE);
    ck_assert(m->data.n == 3 && memcmp(m->data.p, "x\0y", 3) == 0);
    for (size_t n = 0; n <= SP_WHOLE_MAX; n += SP_WHOLE_MAX) {
        put_whole(6, "n", 0, (struct sp_slice){large, n});
        (void)stage_expect(&s, SP_OP_DONE, 6);
        ck_assert_int_eq(size_of("n"), (off_t)n);
    }
    int fd = put(7, "n", 0);
    ck_assert(feed(fd, 'x', sizeof large));
    close(fd);
    commit(7, sizeof large);
    (void)stage_expect(&s, SP_OP_DONE, 7);
    stage_path(&s, SP_OP_OPEN, 8, "n", SP_OPEN_WHOLE);
    ck_assert_int_eq(stage_expect(&s, SP_OP_FILE, 8)->flags, 0);
    close(stage_fd(&s, 0));
    stage_path(&s, SP_OP_OPEN, 9, "a", SP_OPEN_WHOLE);
    m = stage_expect(&s, SP_OP_FILE, 9);
    ck_assert_int_eq(m->flags, SP_FILE_LISTING | SP_FILE_WHOLE);
    ck_assert(m->data.n > 20 && memcmp(m->data.p, "{\"path\":\"a\"", 11) == 0);
    stage_path(&s, SP_OP_OPEN, 10, "n", SP_OPEN_WHOLE | SP_OPEN_MUST_DIR);
    stage_expect_fail(&s, 10, SP_E_NOT_A_DIRECTORY);
    put_whole(11, "late", 0, (struct sp_slice){"z", 1});
    cancel(11, SP_CANCEL_GONE); /* too late, or it is dropped */
    ck_assert(stage_next(&s, 60000));
    ck_assert(s.msg.id == 11 && (s.msg.op == SP_OP_DONE || s.msg.op == SP_OP_FAIL));
    ck_assert_int_eq(size_of("late"), s.msg.op == SP_OP_DONE ? 1 : -1);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(two_with_one_condition)
{
    up();
    int a = put(1, "f", SP_PUT_NEW_ONLY), b = put(2, "f", SP_PUT_NEW_ONLY);
    close(a);
    close(b);
    commit(1, 0);
    (void)stage_expect(&s, SP_OP_DONE, 1);
    commit(2, 0);
    stage_expect_fail(&s, 2, SP_E_PRECONDITION_FAILED);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* All slots, none moving but one; and one too many. */
START_TEST(slow_ones_dont_block)
{
    int fd[SP_POOL_UPLOADS];
    char name[32];
    up();
    for (uint32_t i = 0; i < SP_POOL_UPLOADS; i++) {
        snprintf(name, sizeof name, "u%u", i);
        fd[i] = put(100 + i, name, 0);
        ck_assert(feed(fd[i], 's', 10));
    }
    stage_path(&s, SP_OP_PUT, 1, "more", 0);
    stage_expect_fail(&s, 1, SP_E_OVERLOADED);
    stage_path(&s, SP_OP_USAGE, 2, "", 0);
    ck_assert_uint_eq(stage_expect(&s, SP_OP_DONE, 2)->ino, 0); /* unnamed as yet */
    ck_assert(feed(fd[63], 's', 1000000));
    close(fd[63]);
    commit(163, 1000010);
    (void)stage_expect(&s, SP_OP_DONE, 163);
    for (uint32_t i = 0; i < SP_POOL_UPLOADS - 1; i++) {
        close(fd[i]);
        commit(100 + i, 10);
        (void)stage_expect(&s, SP_OP_DONE, 100 + i);
    }
    stage_path(&s, SP_OP_USAGE, 2, "", 0);
    ck_assert_uint_eq(stage_expect(&s, SP_OP_DONE, 2)->ino, SP_POOL_UPLOADS);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(no_space)
{
    char at[100];
    stage_settings(&s);
    ck_assert_int_eq(mkdirat(s.ws, "small", 0755), 0);
    snprintf(at, sizeof at, "%s/small", s.path);
    ck_assert_int_eq(mount("tmpfs", at, "tmpfs", 0, "size=256k,mode=1777"), 0);
    stage_raise(&s);
    int fd = put(1, "small/f", 0);
    ck_assert(!feed(fd, 'x', 10000000));
    close(fd);
    stage_expect_fail(&s, 1, SP_E_NO_SPACE);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

START_TEST(files)
{
    up();
    close(put(1, "d/f", 0));
    commit(1, 0);
    char etag[SP_ETAG_MAX + 1] = "";
    (void)stage_expect(&s, SP_OP_DONE, 1);
    memcpy(etag, s.msg.etag.p, s.msg.etag.n);
    stage_path(&s, SP_OP_OPEN, 2, "d/f", 0);
    (void)stage_expect(&s, SP_OP_FILE, 2);
    ck_assert_uint_eq(s.msg.etag.n, strlen(etag));
    ck_assert_int_eq(memcmp(s.msg.etag.p, etag, strlen(etag)), 0);
    ck_assert_str_eq(stage_read(stage_fd(&s, 0)), "");
    stage_path(&s, SP_OP_OPEN, 3, "d/f", SP_OPEN_MUST_DIR);
    stage_expect_fail(&s, 3, SP_E_NOT_A_DIRECTORY);
    stage_path(&s, SP_OP_OPEN, 4, "d", SP_OPEN_MUST_DIR);
    ck_assert_int_eq(stage_expect(&s, SP_OP_FILE, 4)->flags, SP_FILE_LISTING);
    uint64_t size = s.msg.size;
    ck_assert_uint_eq(strlen(stage_read(stage_fd(&s, 0))), size);
    stage_path(&s, SP_OP_DELETE, 5, "d", 0);
    stage_expect_fail(&s, 5, SP_E_NOT_EMPTY);
    stage_path(&s, SP_OP_DELETE, 6, "d", SP_DELETE_RECURSIVE);
    (void)stage_expect(&s, SP_OP_DONE, 6);
    stage_path(&s, SP_OP_PUT, 7, "", 0);
    stage_expect_fail(&s, 7, SP_E_BAD_PATH);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* A burst of more than the queue holds: each is answered once, some by "overloaded". */
START_TEST(burst)
{
    unsigned served = 0, refused = 0;
    bool seen[2001] = {false};
    up();
    for (uint32_t id = 1; id <= 2000; id++)
        stage_path(&s, SP_OP_OPEN, id, "none", 0);
    while (served + refused < 2000) {
        if (sp_chan_pending(&s.chan))
            ck_assert_int_eq(sp_chan_flush(&s.chan), 0);
        if (!stage_next(&s, 1))
            continue;
        ck_assert_int_eq(s.msg.op, SP_OP_FAIL);
        ck_assert_uint_le(s.msg.id, 2000);
        ck_assert(!seen[s.msg.id]);
        seen[s.msg.id] = true;
        if (s.msg.err == SP_E_OVERLOADED)
            refused++;
        else
            served += s.msg.err == SP_E_NOT_FOUND;
    }
    ck_assert_uint_gt(served, 0);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* The file threads' own socket; the test's end of it. */
static void open_port(struct sp_chan *port)
{
    int p[2];
    const struct sp_msg m = {.op = SP_OP_PORT};
    ck_assert_int_eq(sp_frame_pair(p), 0);
    ck_assert_int_eq(sp_msg_send(&s.chan, &m, &p[1], 1), 0);
    sp_chan_init(port, p[0]);
}

static void by_port(struct sp_chan *port, uint8_t op, uint32_t id, const char *path, uint8_t flags)
{
    struct sp_msg m = {.op = op, .id = id, .flags = flags, .path = {path, strlen(path)}};
    m.data = (struct sp_slice){"bytes", 5};
    ck_assert_int_eq(sp_msg_send(port, &m, NULL, 0), 0);
}

START_TEST(port_serves)
{
    struct sp_chan port, again;
    up();
    open_port(&port);
    open_port(&again); /* one is enough: it is closed */
    by_port(&port, SP_OP_PUT, 1, "d/f", SP_PUT_WHOLE);
    ck_assert_int_eq(stage_expect(&s, SP_OP_DONE, 1)->flags, SP_DONE_CREATED);
    ck_assert_int_eq(size_of("d/f"), 5);
    by_port(&port, SP_OP_PUT, 2, "d", SP_PUT_WHOLE);
    stage_expect_fail(&s, 2, SP_E_IS_A_DIRECTORY);
    by_port(&port, SP_OP_OPEN, 3, "d/f", SP_OPEN_WHOLE);
    const struct sp_msg *m = stage_expect(&s, SP_OP_FILE, 3);
    ck_assert(m->data.n == 5 && memcmp(m->data.p, "bytes", 5) == 0);
    by_port(&port, SP_OP_USAGE, 4, "", 0);
    ck_assert_uint_eq(stage_expect(&s, SP_OP_DONE, 4)->ino, 2);
    by_port(&port, SP_OP_DELETE, 5, "d/f", SP_IF_NONE_MATCH); /* of none: nothing is unmet */
    (void)stage_expect(&s, SP_OP_DONE, 5);
    by_port(&port, SP_OP_DELETE, 6, "d/f", SP_IF_MATCH);
    stage_expect_fail(&s, 6, SP_E_NOT_FOUND);
    cancel(7, SP_CANCEL_GONE); /* it may come before what it is for */
    by_port(&port, SP_OP_PUT, 7, "g", SP_PUT_WHOLE);
    (void)stage_expect(&s, SP_OP_DONE, 7);
    stage_path(&s, SP_OP_OPEN, 8, "none", 0); /* the other way stays open */
    stage_expect_fail(&s, 8, SP_E_NOT_FOUND);
    ck_assert_int_eq(sp_chan_recv(&again, &s.frame), -EPIPE);
    sp_chan_close(&port);
    sp_chan_close(&again);
    stage_path(&s, SP_OP_OPEN, 9, "none", 0);
    stage_expect_fail(&s, 9, SP_E_NOT_FOUND);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

/* However many at once, each is answered once. */
START_TEST(port_burst)
{
    struct sp_chan port;
    bool seen[2001] = {false};
    up();
    open_port(&port);
    for (uint32_t id = 1; id <= 2000; id++)
        by_port(&port, id % 2 ? SP_OP_OPEN : SP_OP_USAGE, id, "none", 0);
    for (unsigned answers = 0; answers < 2000;) {
        ck_assert_int_eq(sp_chan_flush(&port), 0);
        if (!stage_next(&s, 1))
            continue;
        ck_assert_int_eq(s.msg.op, SP_OP_FAIL);
        ck_assert(s.msg.id <= 2000 && !seen[s.msg.id]);
        ck_assert_uint_eq(s.msg.err, SP_E_NOT_FOUND);
        seen[s.msg.id] = true;
        answers++;
    }
    ck_assert_int_eq(stage_end(&s), 0);
    sp_chan_close(&port);
}
END_TEST

/* What isn't for there ends the cell. */
START_TEST(port_breach)
{
    struct sp_chan port;
    char byte = 1;
    up();
    open_port(&port);
    if (_i == 0)
        ck_assert_int_eq(sp_chan_send(&port, &byte, 1, NULL, 0), 0);
    else
        by_port(&port, _i == 1 ? SP_OP_ARCHIVE : SP_OP_PUT, 1, "d", 0);
    int st = 0;
    ck_assert_int_eq(waitpid(s.pid, &st, 0), s.pid);
    ck_assert(WIFEXITED(st) && WEXITSTATUS(st) == 1);
    sp_chan_close(&s.chan);
    sp_chan_close(&port);
}
END_TEST

/* Commands change the tree while files are put, read and removed. */
START_TEST(beside_a_command)
{
    up();
    stage_exec(&s, 1,
               "exec >/dev/null 2>&1; while :; do mkdir -p d/x; echo y > d/x/y; ln -sfn /etc d/l; "
               "rm -rf d; done",
               "", 0);
    (void)stage_expect(&s, SP_OP_STARTED, 1);
    sp_frame_close_fds(&s.frame);
    for (uint32_t id = 2; id < 1000; id++) {
        uint8_t op = id % 3 == 0 ? SP_OP_OPEN : id % 3 == 1 ? SP_OP_DELETE : SP_OP_USAGE;
        stage_path(&s, op, id, "d", op == SP_OP_DELETE ? SP_DELETE_RECURSIVE : 0);
        ck_assert(stage_next(&s, 60000));
        ck_assert_msg(s.msg.id == id, "op %u id %u: exit %d signal %u", s.msg.op, s.msg.id,
                      s.msg.exit_code, s.msg.signal);
        ck_assert_msg(s.msg.op != SP_OP_FAIL || s.msg.err != SP_E_INTERNAL, "op %u", op);
        sp_frame_close_fds(&s.frame);
    }
    cancel(1, SP_CANCEL_GONE);
    (void)stage_expect(&s, SP_OP_EXITED, 1);
    ck_assert_int_eq(stage_end(&s), 0);
}
END_TEST

static int tests(void)
{
    Suite *suite = suite_create("cell_uploads");
    TCase *t = tcase_create("all");
    signal(SIGPIPE, SIG_IGN);
    tcase_set_timeout(t, 150);
    tcase_add_test(t, any_order);
    tcase_add_test(t, at_once);
    tcase_add_test(t, two_with_one_condition);
    tcase_add_test(t, slow_ones_dont_block);
    tcase_add_test(t, no_space);
    tcase_add_test(t, files);
    tcase_add_test(t, burst);
    tcase_add_test(t, port_serves);
    tcase_add_test(t, port_burst);
    tcase_add_loop_test(t, port_breach, 0, 3);
    tcase_add_test(t, beside_a_command);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}

int main(void)
{
    return private_ns_run(tests);
}
