/* test_http_head.c: request lines, line ends, limits and early refusal, each head whole, cut at
 * every place, and byte by byte. Fields are in test_http_field.c. */
#include "head_verdict.h"

#include <stdio.h>

START_TEST(simple)
{
    static const char req[] = "GET /a%20b?x=1&y HTTP/1.1\r\n" H "\r\nREST";
    ck_assert_int_eq(verdict(req, sizeof req - 1), 1);
    ck_assert_uint_eq(h.size, sizeof req - 1 - 4);
    ck_assert_int_eq(h.method, SP_M_GET);
    ck_assert_int_eq(h.minor, 1);
    is(h.path, "/a%20b");
    is(h.query, "x=1&y");
    ck_assert(h.has_query && h.keep_alive);
    ck_assert(!h.chunked && !h.has_length && !h.expect_continue && !h.has_content_range);
    is(h.content_type, NULL);
    is(h.range, NULL);
    ck_assert_int_eq(verdict(req, sizeof req - 1 - 5), 0);
    ck_assert_int_eq(verdict("", 0), 0);
}
END_TEST

START_TEST(all_fields)
{
    static const char req[] = "PUT /f HTTP/1.1\r\nhOsT:x:80\r\nContent-Type: \t a/b; c=\"d\" \t\r\n"
                              "content-encoding:gzip\r\nContent-Range: bytes 1-2/3\r\n"
                              "Range: bytes=0-1\r\nIf-Range: \"r\"\r\nIf-Match: \"m\", \"n\"\r\n"
                              "If-None-Match: *\r\nIf-Modified-Since: d1\r\n"
                              "If-Unmodified-Since: d2\r\nAccept:\r\nExpect: 100-Continue\r\n"
                              "Content-Length: 0012\r\nX: \xff\t~\r\n\r\n";
    ck_assert_int_eq(verdict(req, sizeof req - 1), 1);
    ck_assert_uint_eq(h.size, sizeof req - 1);
    ck_assert_int_eq(h.method, SP_M_PUT);
    is(h.content_type, "a/b; c=\"d\"");
    is(h.content_encoding, "gzip");
    ck_assert(h.has_content_range && h.expect_continue && h.has_length && h.length == 12);
    is(h.range, "bytes=0-1");
    is(h.if_range, "\"r\"");
    is(h.if_match, "\"m\", \"n\"");
    is(h.if_none_match, "*");
    is(h.if_modified_since, "d1");
    is(h.if_unmodified_since, "d2");
    is(h.accept, ""); /* there, and empty */
}
END_TEST

START_TEST(methods)
{
    static const struct {
        const char *name;
        enum sp_method m;
    } t[] = {{"GET", SP_M_GET},
             {"HEAD", SP_M_HEAD},
             {"PUT", SP_M_PUT},
             {"POST", SP_M_POST},
             {"DELETE", SP_M_DELETE},
             {"OPTIONS", SP_M_OTHER},
             {"TRACE", SP_M_OTHER},
             {"PATCH", SP_M_OTHER},
             {"QUERY", SP_M_OTHER},
             {"get", SP_M_UNKNOWN},
             {"GETT", SP_M_UNKNOWN},
             {"BREW", SP_M_UNKNOWN},
             {"!#$%&'*+-.^_`|~", SP_M_UNKNOWN}};
    for (size_t i = 0; i < COUNT(t); i++) {
        char req[100];
        int n = snprintf(req, sizeof req, "%s / HTTP/1.1\r\n" H "\r\n", t[i].name);
        ck_assert_int_eq(verdict(req, (size_t)n), 1);
        ck_assert_int_eq(h.method, t[i].m);
    }
}
END_TEST

/* A request line (without CRLF); path NULL: refused with e. */
static const struct {
    const char *line;
    const char *path, *query;
    enum sp_err e;
} request_lines[] = {
    {"GET /?a?b/c HTTP/1.1", "/", "a?b/c", 0},
    {"GET /? HTTP/1.1", "/", "", 0},
    {"GET //a HTTP/1.1", "//a", NULL, 0},
    {"GET /%zz HTTP/1.1", "/%zz", NULL, 0}, /* for sp_pct_decode to say */
    {"GET /-._~!$&'()*+,;=:@ HTTP/1.9", "/-._~!$&'()*+,;=:@", NULL, 0},
    {"GET http://h HTTP/1.1", "/", NULL, 0},
    {"GET HTTP://h:80/a?b HTTP/1.1", "/a", "b", 0},
    {"GET http://[::1]:8/a HTTP/1.1", "/a", NULL, 0},
    {"GET http://h?q HTTP/1.1", "/", "q", 0},
    {"GET https://h HTTP/1.1", "/", NULL, 0},
    {"GET HTTPS://h:443/a?b HTTP/1.1", "/a", "b", 0},
    {"OPTIONS * HTTP/1.1", "*", NULL, 0},
    {"GET * HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"OPTIONS *a HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"CONNECT h:80 HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET h:80 HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET a HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET https:// HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET https:///a HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET httpss://h/ HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET ftp://h/ HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET http:///a HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET http:// HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET http://u@h/ HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET http://h#f HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /#f HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /?#f HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /a\\b HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /a\"b HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /\xc3\xa9 HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /?\xc3 HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET  / HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /  HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/1.1 ", NULL, NULL, SP_E_BAD_REQUEST},
    {" GET / HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET\t/ HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /\tHTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /a b HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET /", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"G(T / HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET: / HTTP/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / http/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/1.", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/1.10", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/11", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/1,1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/x.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTPS/1.1", NULL, NULL, SP_E_BAD_REQUEST},
    {"GET / HTTP/0.9", NULL, NULL, SP_E_BAD_VERSION},
    {"GET / HTTP/2.0", NULL, NULL, SP_E_BAD_VERSION},
    {"PRI * HTTP/2.0", NULL, NULL, SP_E_BAD_VERSION},
    {"GET / HTTP/3.1", NULL, NULL, SP_E_BAD_VERSION},
};

START_TEST(lines)
{
    for (size_t i = 0; i < COUNT(request_lines); i++) {
        char req[200];
        int n = snprintf(req, sizeof req, "%s\r\n" H "\r\n", request_lines[i].line);
        int r = verdict(req, (size_t)n);
        ck_assert_msg(r == (request_lines[i].path ? 1 : -1), "%s", request_lines[i].line);
        if (r < 0) {
            ck_assert_msg(err == request_lines[i].e, "%s", request_lines[i].line);
            /* and as soon as the line has come */
            ck_assert_int_eq(sp_head_parse(req, strlen(request_lines[i].line) + 2, 0, &h, &err),
                             -1);
            continue;
        }
        is(h.path, request_lines[i].path);
        is(h.query, request_lines[i].query);
        ck_assert_int_eq(h.has_query, request_lines[i].query != NULL);
        ck_assert_int_eq(h.secure, strncasecmp(req, "GET https:", 10) == 0);
    }
}
END_TEST

START_TEST(leading_lines)
{
    ck_assert_int_eq(verdict("\r\n", 2), 0);
    ck_assert_int_eq(verdict("\r", 1), 0);
    ck_assert_int_eq(verdict("\n", 1), -1);
    ck_assert_int_eq(verdict("\r\r", 2), -1);
    ck_assert_int_eq(verdict("\r\n\r", 3), -1);
    ck_assert_int_eq(verdict("\r\n\n", 3), -1);
    ck_assert_int_eq(verdict("\r\n ", 3), -1);
    static const char req[] = "\r\n" GET H "\r\n";
    ck_assert_int_eq(verdict(req, sizeof req - 1), 1);
    ck_assert_uint_eq(h.size, sizeof req - 1);
    ck_assert_int_eq(h.method, SP_M_GET);
}
END_TEST

/* Nothing after these bytes could make a request of them. */
START_TEST(at_once)
{
    static const struct sp_slice t[] = {SLICE("\x16\x03\x01\x02"),
                                        SLICE("\x80"),
                                        SLICE("\0"),
                                        SLICE(" "),
                                        SLICE("{"),
                                        SLICE("GET\0"),
                                        SLICE("A\n"),
                                        SLICE("A\rB"),
                                        SLICE("A\x01"),
                                        SLICE("GET /\x7f"),
                                        SLICE(GET H "\r "),
                                        SLICE(GET " "),
                                        SLICE(GET H "Content-Length: x\r\n"),
                                        SLICE(GET "B : c\r\n"),
                                        SLICE("SSH-2.0-OpenSSH_9.2\r\n")};
    for (size_t i = 0; i < COUNT(t); i++) {
        ck_assert_msg(verdict(t[i].p, t[i].n) == -1, "%zu", i);
        ck_assert_int_eq(err, SP_E_BAD_REQUEST);
    }
}
END_TEST

static char big[3 * SP_HEAD_MAX];

START_TEST(long_line)
{
    for (size_t over = 0; over < 2; over++) {
        memset(big, 'a', sizeof big);
        memcpy(big, "GET /", 5);
        size_t n = SP_LINE_MAX + over;
        memcpy(big + n - 9, " HTTP/1.1\r\n" H "\r\n", 9 + 2 + 9 + 2);
        n += 2 + 9 + 2;
        ck_assert_int_eq(verdict(big, n), over ? -1 : 1);
        ck_assert(!over || err == SP_E_URI_TOO_LONG);
    }
    memset(big, 'a', sizeof big);
    ck_assert_int_eq(sp_head_parse(big, SP_LINE_MAX + 1, 0, &h, &err), 0);
    ck_assert_int_eq(verdict(big, SP_LINE_MAX + 2), -1); /* refused before its end */
    ck_assert_int_eq(err, SP_E_URI_TOO_LONG);
    ck_assert_int_eq(verdict(big, sizeof big), -1);
    ck_assert_int_eq(err, SP_E_URI_TOO_LONG);
}
END_TEST

START_TEST(large_head)
{
    for (size_t over = 0; over < 2; over++) {
        memset(big, 'a', sizeof big);
        memcpy(big, GET H "A:", strlen(GET H "A:"));
        size_t n = SP_HEAD_MAX + over;
        memcpy(big + n - 4, "\r\n\r\n", 4);
        ck_assert_int_eq(verdict(big, n), over ? -1 : 1);
        ck_assert(over ? err == SP_E_HEADERS_TOO_LARGE : h.size == SP_HEAD_MAX);
    }
    ck_assert_int_eq(sp_head_parse(big, SP_HEAD_MAX - 1, 0, &h, &err), 0);
    ck_assert_int_eq(sp_head_parse(big, SP_HEAD_MAX, 0, &h, &err), -1);
    ck_assert_int_eq(err, SP_E_HEADERS_TOO_LARGE);
}
END_TEST

START_TEST(many_fields)
{
    for (size_t count = SP_FIELDS_MAX; count <= SP_FIELDS_MAX + 1; count++) {
        size_t n = (size_t)snprintf(big, sizeof big, GET H);
        for (size_t i = 1; i < count; i++)
            n += (size_t)snprintf(big + n, sizeof big - n, "X-%zu: y\r\n", i);
        n += (size_t)snprintf(big + n, sizeof big - n, "\r\n");
        ck_assert_int_eq(verdict(big, n), count > SP_FIELDS_MAX ? -1 : 1);
        ck_assert(count <= SP_FIELDS_MAX || err == SP_E_HEADERS_TOO_LARGE);
    }
}
END_TEST

UNIT_MAIN("http_head", simple, all_fields, methods, lines, leading_lines, at_once, long_line,
          large_head, many_fields)
