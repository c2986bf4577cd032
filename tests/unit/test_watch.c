/* test_watch.c: when a running command's workspace is counted. The cell is a structure with a pool
 * whose threads never come, so that a count is a job that stays in its queue; time is what the test
 * says. */
#include "cell/cell.h"
#include "private_ns.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define LIMIT (64 * MIB)
#define SECOND 1000000000u

static struct sp_cell *c;
static struct sp_config config;
static int root;

static void up(void)
{
    char path[64];
    root = private_folder(path);
    c = calloc(1, sizeof *c);
    ck_assert_ptr_nonnull(c);
    c->root = root;
    sp_quota_init(&c->quota, LIMIT);
    ck_assert_int_eq(sp_pool_start(&c->pool, &config, root, &c->quota, &c->out), 0);
    c->pool.started = SP_POOL_THREADS;
}

/* What is queued stays there, and the cell with it. */
static void down(void)
{
    close(root);
}

/* It was counted just now, took a tenth of a second, and a command starts. */
static void command(uint64_t used)
{
    c->quota.known = true;
    c->quota.used = used;
    c->quota.cost_ns = SECOND / 10;
    c->quota.counted_ns = sp_now_ns();
    sp_watch_started(c);
    uint64_t from = c->quota.counted_ns;
    ck_assert_uint_eq(c->watch.count_ns - from, 5ull * SECOND); /* two hundredths of a core */
    ck_assert_uint_eq(c->watch.due_ns - from, 4ull * SECOND / 10);
}

/* The watch's next look; whether it has begun to count. */
static bool looks(void)
{
    c->watch.due_ns = 0;
    unsigned before = c->pool.jobs;
    sp_watch_tick(c);
    ck_assert_int_eq(c->watch.counting, c->pool.jobs == before + 1);
    return c->watch.counting;
}

static void writes(const char *name, uint64_t n)
{
    int fd = openat(root, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(posix_fallocate(fd, 0, (off_t)n), 0);
    close(fd);
}

START_TEST(nothing_happens)
{
    command(MIB);
    ck_assert(!looks());
    uint64_t now = sp_now_ns();
    ck_assert(c->watch.due_ns > now - SECOND && c->watch.due_ns <= now + SECOND / 5);
    ck_assert_int_le(sp_watch_wait_ms(c), 201);
    ck_assert(!looks());
    c->watch.count_ns = now; /* its time */
    ck_assert(looks());
}
END_TEST

START_TEST(what_fits_is_no_cause)
{
    command(MIB);
    writes("a", 62 * MIB);
    ck_assert(!looks());
    writes("b", 2 * MIB);
    ck_assert(looks());
}
END_TEST

/* From the second count on against what was left at the first. */
START_TEST(each_count_begins_anew)
{
    command(MIB);
    writes("a", 70 * MIB);
    ck_assert(looks());
    sp_watch_counted(c, true); /* somebody else's, or without a name: it isn't in the tree */
    ck_assert(c->watch.on);
    ck_assert(!looks());
    writes("b", 62 * MIB);
    ck_assert(!looks());
    writes("c", 2 * MIB);
    ck_assert(looks());
}
END_TEST

/* It began above the quota, or just under it: the writes of others aren't counted one by one. */
START_TEST(no_room)
{
    static const uint64_t used[] = {LIMIT - MIB, LIMIT, 2 * LIMIT};
    command(used[_i]);
    writes("a", 7 * MIB);
    ck_assert(!looks());
    writes("b", 2 * MIB);
    ck_assert(looks());
}
END_TEST

START_TEST(room_is_made)
{
    writes("a", 80 * MIB);
    command(2 * LIMIT);
    ck_assert_int_eq(unlinkat(root, "a", 0), 0);
    ck_assert(!looks());
    writes("b", 80 * MIB);
    ck_assert(!looks());
}
END_TEST

/* Nobody waits for the quota where a count takes long: ten seconds. */
START_TEST(a_long_count)
{
    c->quota.known = true;
    c->quota.cost_ns = 3600ull * SECOND;
    c->quota.counted_ns = sp_now_ns();
    sp_watch_started(c);
    ck_assert_uint_eq(c->watch.count_ns - c->quota.counted_ns, 10ull * SECOND);
    ck_assert_uint_eq(c->watch.due_ns, c->watch.count_ns);
}
END_TEST

static int run(void)
{
    Suite *s = suite_create("watch");
    TCase *t = tcase_create("watch");
    tcase_add_checked_fixture(t, up, down);
    tcase_add_test(t, nothing_happens);
    tcase_add_test(t, what_fits_is_no_cause);
    tcase_add_test(t, each_count_begins_anew);
    tcase_add_loop_test(t, no_room, 0, 3);
    tcase_add_test(t, room_is_made);
    tcase_add_test(t, a_long_count);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

int main(void)
{
    return private_ns_run(run);
}
