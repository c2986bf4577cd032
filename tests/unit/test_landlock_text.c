/* test_landlock_text.c: the path lines of docs/policy.md: their form, and who hears of them. */
#include "confine/landlock.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

struct heard {
    int n;
    enum sp_path_word word[64];
    char path[64][64];
};

static int hear(void *arg, enum sp_path_word word, const char *path)
{
    struct heard *h = arg;
    ck_assert_int_lt(h->n, 64);
    h->word[h->n] = word;
    (void)snprintf(h->path[h->n++], 64, "%s", path == NULL ? "-" : path);
    return path != NULL && strcmp(path, "/stop") == 0 ? 7 : 0;
}

START_TEST(text_form)
{
    int w;
    char path[4096];
    struct sp_policy_error e = {0};
    static const char *const wrong[] = {
        "read",   "read usr",   "reed /usr", "workspace /x", "write relative", "/usr read", "exec",
        "device", "read /a/..", "read //a",  "read /a/",     "read /./a",      "read /a\rb"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        e.text[0] = '\0';
        ck_assert_msg(sp_landlock_line(wrong[i], strlen(wrong[i]), &w, path, &e) == -EINVAL, "%s",
                      wrong[i]);
        ck_assert_msg(e.text[0] != '\0', "no sentence for %s", wrong[i]);
    }
    ck_assert_int_eq(sp_landlock_line("  # x", 5, &w, path, NULL), 0);
    ck_assert_int_eq(w, -1);
    ck_assert_int_eq(sp_landlock_line("exec\t/a b # c", 13, &w, path, NULL), 0);
    ck_assert_str_eq(path, "/a b");
    ck_assert_int_eq(w, SP_PATH_EXEC);
    ck_assert_int_eq(sp_landlock_line("workspace", 9, &w, path, NULL), 0);
    ck_assert(path[0] == '\0' && w == SP_PATH_WORKSPACE);
    ck_assert_int_eq(sp_landlock_line("read /", 6, &w, path, NULL), 0);
}
END_TEST

/* The built-in lines come first, then the operator's, and fn can end it. */
START_TEST(each_line)
{
    static struct heard h, more;
    ck_assert_int_eq(sp_landlock_each(NULL, hear, &h), 0);
    ck_assert_int_ge(h.n, 20);
    int workspaces = 0;
    for (int i = 0; i < h.n; i++)
        workspaces += h.word[i] == SP_PATH_WORKSPACE;
    ck_assert_int_eq(workspaces, 1);
    const char *added = "# ours\nexec /app\n\nwrite /my cache\nread /stop\nread /never";
    ck_assert_int_eq(sp_landlock_each(added, hear, &more), 7);
    ck_assert_int_eq(more.n, h.n + 3);
    ck_assert_str_eq(more.path[h.n], "/app");
    ck_assert_int_eq(more.word[h.n], SP_PATH_EXEC);
    ck_assert_str_eq(more.path[h.n + 1], "/my cache");
    ck_assert_int_eq(more.word[h.n + 1], SP_PATH_WRITE);
    struct sp_policy_error e;
    more.n = 0;
    ck_assert_int_eq(sp_landlock_check("read /a\n\nreed /b\n", 18, &e, hear, &more), -EINVAL);
    ck_assert_int_eq(e.line, 3);
    ck_assert_int_eq(more.n, 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("landlock_text");
    TCase *t = tcase_create("lines");
    tcase_add_test(t, text_form);
    tcase_add_test(t, each_line);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
