/* test_log.c: what a stranger sent can't forge a line of the log or steer a terminal. */
#include "sallyport/log.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

/* Logs %s with the text and returns what stderr got. */
static size_t logged(enum sp_log_level l, const char *text, char *out, size_t cap)
{
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    int saved = dup(STDERR_FILENO);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    errno = EXDEV;
    sp_log(l, "said %s", text);
    ck_assert_int_eq(errno, EXDEV);
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    close(saved);
    close(ends[1]);
    ssize_t n = read(ends[0], out, cap - 1);
    close(ends[0]);
    ck_assert_int_ge(n, 0);
    out[n] = 0;
    return (size_t)n;
}

START_TEST(form)
{
    char line[4096];
    sp_log_init("front", SP_LOG_INFO);
    size_t n = logged(SP_LOG_WARN, "x", line, sizeof line);
    ck_assert_uint_gt(n, 26);
    ck_assert_str_eq(line + 24, " front warn said x\n");
    ck_assert_int_eq(line[10], 'T');
    ck_assert_int_eq(line[23], 'Z');
    ck_assert_uint_eq(logged(SP_LOG_DEBUG, "x", line, sizeof line), 0); /* above the level */
}
END_TEST

/* Whatever is said, a line is one JSON object. */
START_TEST(json)
{
    char line[4096];
    sp_log_init("front", SP_LOG_INFO);
    sp_log_as_json(true);
    (void)logged(SP_LOG_WARN, "a\"\\\n\x1b\xff", line, sizeof line);
    ck_assert_int_eq(strncmp(line, "{\"time\":\"2", 10), 0);
    ck_assert_str_eq(line + strlen("{\"time\":\"2026-11-29T22:00:00.000Z\""),
                     ",\"role\":\"front\",\"level\":\"warn\",\"message\":\"said a\\\"\\\\\\n\\u001b"
                     "\xef\xbf\xbd\"}\n");
    (void)logged(SP_LOG_WARN, "\xc2\x9b|\xe2\x80\xae|\xe2\x81\xa6|\xc3\xa9", line, sizeof line);
    ck_assert_ptr_nonnull(strstr(line, "said \\u009b|\\u202e|\\u2066|\xc3\xa9\"}\n"));
    static char many[4000];
    memset(many, '"', sizeof many - 1);
    size_t n = logged(SP_LOG_WARN, many, line, sizeof line);
    ck_assert_uint_le(n, 2048);
    ck_assert_str_eq(line + n - 6, "...\"}\n");
    sp_log_as_json(false);
}
END_TEST

START_TEST(escaped)
{
    static const struct {
        const char *in, *out;
    } t[] = {{"a\nb", "a\\x0ab"},
             {"a\r\tb\x7f", "a\\x0d\\x09b\\x7f"},
             {"\x1b[31m", "\\x1b[31m"},
             {"a\\x0a", "a\\x5cx0a"},
             {"\xc3\xa9", "\xc3\xa9"},
             {"\xff", "\\xff"},
             {"\xc2\x9b", "\\xc2\\x9b"},
             {"\xe2\x80\xae", "\\xe2\\x80\\xae"},
             {"\xe2\x80\xa8", "\\xe2\\x80\\xa8"},
             {"\xe2\x81\xa6", "\\xe2\\x81\\xa6"},
             {"\xe2\x82\xac", "\xe2\x82\xac"}};
    sp_log_init("cell", SP_LOG_DEBUG);
    for (size_t i = 0; i < COUNT(t); i++) {
        char line[4096], want[256];
        logged(SP_LOG_DEBUG, t[i].in, line, sizeof line);
        snprintf(want, sizeof want, " cell debug said %s\n", t[i].out);
        ck_assert_str_eq(line + 24, want);
    }
}
END_TEST

START_TEST(bounded)
{
    char text[20000], line[4096];
    sp_log_init("broker", SP_LOG_INFO);
    for (int k = 0; k < 2; k++) {
        memset(text, k ? '\n' : 'x', sizeof text);
        text[sizeof text - 1] = 0;
        size_t n = logged(SP_LOG_INFO, text, line, sizeof line);
        ck_assert_uint_le(n, 2048);
        ck_assert_str_eq(line + n - 4, "...\n");
        ck_assert_ptr_eq(strchr(line, '\n'), line + n - 1);
    }
}
END_TEST

UNIT_MAIN("log", form, json, escaped, bounded)
