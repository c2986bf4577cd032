/* test_execreq.c: the /execute body reader against docs/api.md, member by member. */
#include "front/execreq.h"

#include "sallyport/proto.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct exec_request req;
static char why[200];

static enum sp_err take(const char *body)
{
    exec_request_free(&req);
    return exec_request_read(body, strlen(body), "/workspace", 1000, 60000, &req, why, sizeof why);
}

static void refused(const char *body, enum sp_err want)
{
    enum sp_err got = take(body);
    ck_assert_msg(got == want, "%.80s: %s, not %s", body, sp_err_name(got), sp_err_name(want));
    ck_assert_msg(why[0] != '\0', "%.80s: no sentence", body);
}

START_TEST(reads_all_members)
{
    ck_assert_int_eq(take("{\"command\":\"a "
                          "b\",\"timeout\":1.5,\"cwd\":\"x/y/\",\"env\":{\"A\":\"1\",\"B_2\":\"\"},"
                          "\"stdin\":\"in\\u0000x\"}"),
                     SP_OK);
    ck_assert_str_eq(req.command, "a b");
    ck_assert_uint_eq(req.timeout_ms, 1500);
    ck_assert_str_eq(req.cwd, "x/y");
    ck_assert_uint_eq(req.nenv, 2);
    ck_assert_uint_eq(req.env_len, 9);
    ck_assert_mem_eq(req.env, "A=1\0B_2=\0", 9);
    ck_assert_uint_eq(req.stdin_len, 4);
}
END_TEST

START_TEST(fills_in_defaults)
{
    ck_assert_int_eq(take("{\"command\":\"x\"}"), SP_OK);
    ck_assert_uint_eq(req.timeout_ms, 1000);
    ck_assert_str_eq(req.cwd, "");
    ck_assert_ptr_null(req.stdin_text);
    ck_assert_int_eq(take("{\"command\":\"x\",\"timeout\":0.0001}"), SP_OK);
    ck_assert_uint_eq(req.timeout_ms, 1);
    ck_assert_int_eq(take("{\"command\":\"x\",\"timeout_ms\":60000}"), SP_OK);
}
END_TEST

START_TEST(makes_cwd_relative)
{
    static const char *const rows[][2] = {{"/workspace", ""},
                                          {"/workspace/", ""},
                                          {"/workspace/a", "a"},
                                          {"/workspace//", ""},
                                          {"a/b", "a/b"},
                                          {".", ""},
                                          {"", ""}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char body[200];
        snprintf(body, sizeof body, "{\"command\":\"x\",\"cwd\":\"%s\"}", rows[i][0]);
        ck_assert_msg(take(body) == SP_OK, "%s: %s", body, why);
        ck_assert_str_eq(req.cwd, rows[i][1]);
    }
    refused("{\"command\":\"x\",\"cwd\":\"/\"}", SP_E_OUTSIDE_WORKSPACE);
    refused("{\"command\":\"x\",\"cwd\":\"/workspacex\"}", SP_E_OUTSIDE_WORKSPACE);
    refused("{\"command\":\"x\",\"cwd\":\"/etc\"}", SP_E_OUTSIDE_WORKSPACE);
    refused("{\"command\":\"x\",\"cwd\":\"../etc\"}", SP_E_BAD_FIELD);
    refused("{\"command\":\"x\",\"cwd\":\"/workspace/../etc\"}", SP_E_BAD_FIELD);
    refused("{\"command\":\"x\",\"cwd\":\"a\\u0000b\"}", SP_E_BAD_FIELD);
    refused("{\"command\":\"x\",\"cwd\":7}", SP_E_BAD_FIELD);
}
END_TEST

START_TEST(refuses_syntax)
{
    static const char *const bad[] = {"",
                                      " ",
                                      "{",
                                      "{\"command\":\"x\"} x",
                                      "{\"command\":\"x\",}",
                                      "{'command':'x'}",
                                      "{\"command\":\"x\",\"command\":\"y\"}",
                                      "\xef\xbb\xbf{\"command\":\"x\"}",
                                      "{\"command\":\"\xff\"}",
                                      "{\"command\":\"\\ud800\"}",
                                      "{\"command\":\"a\nb\"}",
                                      "NaN",
                                      "{\"command\":\"x\",\"timeout\":1e999}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i], SP_E_BAD_JSON);
    char deep[100];
    memset(deep, '[', 40);
    memset(deep + 40, ']', 40);
    deep[80] = '\0';
    refused(deep, SP_E_BAD_JSON);
    char many[2048] = "{\"command\":[1"; /* values, of which none is looked at */
    for (int i = 0; i < 512; i++)
        strcat(many, ",1");
    strcat(many, "]}");
    refused(many, SP_E_BAD_FIELD);
}
END_TEST

START_TEST(refuses_content)
{
    static const char *const bad[] = {"[]",
                                      "7",
                                      "null",
                                      "\"x\"",
                                      "{}",
                                      "{\"command\":\"\"}",
                                      "{\"command\":null}",
                                      "{\"command\":[\"x\"]}",
                                      "{\"command\":\"a\\u0000b\"}",
                                      "{\"command\":\"x\",\"timout\":1}",
                                      "{\"command\":\"x\",\"timeout\":0}",
                                      "{\"command\":\"x\",\"timeout\":-1}",
                                      "{\"command\":\"x\",\"timeout\":\"1\"}",
                                      "{\"command\":\"x\",\"timeout\":61}",
                                      "{\"command\":\"x\",\"timeout\":true}",
                                      "{\"command\":\"x\",\"timeout_ms\":1.5}",
                                      "{\"command\":\"x\",\"timeout\":1,\"timeout_ms\":1}",
                                      "{\"command\":\"x\",\"env\":[]}",
                                      "{\"command\":\"x\",\"env\":{\"\":\"\"}}",
                                      "{\"command\":\"x\",\"env\":{\"A=B\":\"\"}}",
                                      "{\"command\":\"x\",\"env\":{\"1A\":\"\"}}",
                                      "{\"command\":\"x\",\"env\":{\"A\":1}}",
                                      "{\"command\":\"x\",\"env\":{\"A\":\"\\u0000\"}}",
                                      "{\"command\":\"x\",\"stdin\":1}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refused(bad[i], SP_E_BAD_FIELD);
}
END_TEST

START_TEST(bounds_the_command)
{
    size_t n = SP_COMMAND_MAX;
    char *body = malloc(n + 40);
    ck_assert_ptr_nonnull(body);
    for (size_t over = 0; over < 2; over++) {
        int k = sprintf(body, "{\"command\":\"");
        memset(body + k, 'x', n + over);
        strcpy(body + (size_t)k + n + over, "\"}");
        if (over != 0)
            refused(body, SP_E_COMMAND_TOO_LONG);
        else
            ck_assert_int_eq(take(body), SP_OK);
    }
    free(body);
}
END_TEST

/* The linker puts this in malloc's place, for jansson too: see meson.build. */
static long fails_in = -1;
void *__real_malloc(size_t n); // NOLINT(bugprone-reserved-identifier)
void *__wrap_malloc(size_t n); // NOLINT(bugprone-reserved-identifier)
void *__wrap_malloc(size_t n)
{
    return fails_in >= 0 && fails_in-- == 0 ? NULL : __real_malloc(n);
}

/* jansson alone would run "echo out; echoerr" here, or write beyond a string's end. */
START_TEST(runs_nothing_else_without_memory)
{
    int refusals = 0;
    for (long n = 0;; n++) {
        fails_in = n;
        enum sp_err e = take("{\"command\":\"echo out; echo err >&2; exit 3\",\"env\":{\"ABC\":"
                             "\"a value of some length\"},\"stdin\":\"something to be read\"}");
        bool failed = fails_in < 0;
        fails_in = -1;
        if (!failed) {
            ck_assert_int_eq(e, SP_OK);
            break;
        }
        ck_assert_int_eq(e, SP_E_OVERLOADED);
        ck_assert_ptr_null(req.command);
        refusals++;
    }
    ck_assert_int_gt(refusals, 10);
    ck_assert_str_eq(req.command, "echo out; echo err >&2; exit 3");
    ck_assert_mem_eq(req.env, "ABC=a value of some length", req.env_len);
    ck_assert_str_eq(req.stdin_text, "something to be read");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("execreq");
    TCase *t = tcase_create("execreq");
    tcase_add_test(t, reads_all_members);
    tcase_add_test(t, fills_in_defaults);
    tcase_add_test(t, makes_cwd_relative);
    tcase_add_test(t, refuses_syntax);
    tcase_add_test(t, refuses_content);
    tcase_add_test(t, bounds_the_command);
    tcase_add_test(t, runs_nothing_else_without_memory);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
