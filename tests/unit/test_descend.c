/* test_descend.c: the stack of folders against trees that are moved while it is in them. */
#include "cell/descend.h"
#include "private_ns.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEEP 1200

static int root;
static struct sp_descend d;

static void up(void)
{
    char path[64];
    root = private_folder(path);
    private_drop_ids();
    sp_descend_init(&d);
}

static void down(void)
{
    sp_descend_free(&d);
    close(root);
}

/* n folders "d", one in another, in the new folder name of dir. */
static void chain(int dir, const char *name, int n)
{
    ck_assert_int_eq(mkdirat(dir, name, 0700), 0);
    int at = openat(dir, name, O_PATH | O_CLOEXEC);
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_PATH | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        close(at);
        at = next;
    }
    close(at);
}

static void enter(int n)
{
    for (int i = 0; i < n; i++)
        ck_assert_int_eq(sp_descend_push(&d, -1, "d", SP_CLOSED_LENT), 0);
}

START_TEST(a_deep_one)
{
    char name[NAME_MAX + 1];
    chain(root, "p", DEEP);
    ck_assert_int_eq(sp_descend_push(&d, root, "p", SP_CLOSED_LENT), 0);
    enter(DEEP);
    ck_assert_uint_eq(d.depth, DEEP + 1);
    while (d.depth > 0)
        ck_assert_int_eq(sp_descend_pop(&d, name), 0);
    ck_assert_str_eq(name, "p");
}
END_TEST

/* What was gone through is moved away, at any of its levels: the walk ends at the next look, and
 * doesn't remember a way that isn't there. */
START_TEST(a_way_that_is_no_more)
{
    static const struct {
        int before, moved;
    } at[] = {{254, 0}, {254, 100}, {254, 253}, {510, 300}, {1022, 1}};
    char from[PATH_MAX] = "p";
    int before = at[_i].before;
    chain(root, "p", DEEP);
    ck_assert_int_eq(mkdirat(root, "other", 0700), 0);
    ck_assert_int_eq(sp_descend_push(&d, root, "p", SP_CLOSED_LENT), 0);
    enter(before);
    size_t n = 1;
    for (int i = 0; i <= at[_i].moved; i++)
        n += (size_t)snprintf(from + n, sizeof from - n, "/d");
    ck_assert_int_eq(renameat(root, from, root, "other/here"), 0);
    ck_assert_int_eq(sp_descend_push(&d, -1, "d", SP_CLOSED_LENT), -ESTALE);
}
END_TEST

/* Two chains, of which the one that was gone through is always put below the other. */
START_TEST(a_way_without_end)
{
    static const char *const name[] = {"p", "q"};
    int end[2], err = 0, at = 0, entered = 0;
    for (int k = 0; k < 2; k++) {
        char path[PATH_MAX] = "";
        size_t n = (size_t)snprintf(path, sizeof path, "%s", name[k]);
        chain(root, name[k], 60);
        for (int i = 0; i < 60; i++)
            n += (size_t)snprintf(path + n, sizeof path - n, "/d");
        end[k] = openat(root, path, O_PATH | O_CLOEXEC);
        ck_assert_int_ge(end[k], 0);
    }
    ck_assert_int_eq(sp_descend_push(&d, root, "p", SP_CLOSED_LENT), 0);
    enter(60);
    ck_assert_int_eq(renameat(root, "q", end[0], "q"), 0);
    while (err == 0 && entered < 10000) {
        int next = 1 - at;
        err = sp_descend_push(&d, -1, name[next], SP_CLOSED_LENT);
        for (int i = 0; i < 60 && err == 0; i++, entered++)
            err = sp_descend_push(&d, -1, "d", SP_CLOSED_LENT);
        ck_assert_int_eq(renameat(end[at], name[next], root, name[next]), 0);
        ck_assert_int_eq(renameat(root, name[at], end[next], name[at]), 0);
        at = next;
    }
    ck_assert_int_eq(err, -ESTALE);
    ck_assert_int_lt(entered, 300);
    close(end[0]);
    close(end[1]);
}
END_TEST

static int run(void)
{
    Suite *s = suite_create("descend");
    TCase *t = tcase_create("descend");
    tcase_add_checked_fixture(t, up, down);
    tcase_add_test(t, a_deep_one);
    tcase_add_loop_test(t, a_way_that_is_no_more, 0, 5);
    tcase_add_test(t, a_way_without_end);
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
