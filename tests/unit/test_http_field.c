/* test_http_field.c: header fields that the wall lets through and those that it doesn't: framing,
 * Host, Connection, Expect, and all that may come once. */
#include "head_verdict.h"

#include <stdio.h>

/* What follows the request line, to the last byte. */
static const struct {
    struct sp_slice rest;
    bool ok;
} fields[] = {
    {SLICE(H "\r\n"), true},
    {SLICE(H "A:\r\n\r\n"), true},
    {SLICE(H "A: \t \r\n\r\n"), true},
    {SLICE(H "A: b:c\r\n\r\n"), true},
    {SLICE(H "X_y: 1\r\nX_y: 1\r\n\r\n"), true},
    {SLICE("\r\n"), false}, /* no Host */
    {SLICE(H H "\r\n"), false},
    {SLICE("Host: x\r\nhost: y\r\n\r\n"), false},
    /* the blank line, CR and LF */
    {SLICE(H "\n"), false},
    {SLICE("Host: x\n\r\n"), false},
    {SLICE("Host: x\n\n"), false},
    {SLICE("Host: x\r\r\n\r\n"), false},
    {SLICE("Host: x\rA: b\r\n\r\n"), false},
    {SLICE(H "A: b\rc\r\n\r\n"), false},
    {SLICE(H "A: b\nc: d\r\n\r\n"), false},
    {SLICE(H "\r\r\n"), false},
    {SLICE(H "A: b\r\n\n"), false},
    /* folding and odd names */
    {SLICE(H " A: b\r\n\r\n"), false},
    {SLICE(H "A: b\r\n c\r\n\r\n"), false},
    {SLICE(H "A: b\r\n\tc\r\n\r\n"), false},
    {SLICE(H "A: b\r\n \r\n\r\n"), false},
    {SLICE(" " H "\r\n"), false},
    {SLICE(H "A : b\r\n\r\n"), false},
    {SLICE(H "A\t: b\r\n\r\n"), false},
    {SLICE("Host : x\r\n\r\n"), false},
    {SLICE(H "Content-Length : 0\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding : chunked\r\n\r\n"), false},
    {SLICE(H ": b\r\n\r\n"), false},
    {SLICE(H "A\r\n\r\n"), false},
    {SLICE(H "A b: c\r\n\r\n"), false},
    {SLICE(H "A(: c\r\n\r\n"), false},
    {SLICE(H "\xc3\xa9: c\r\n\r\n"), false},
    {SLICE(H "A\0: c\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding\x0b: chunked\r\n\r\n"), false},
    /* control characters in values */
    {SLICE(H "A: b\0c\r\n\r\n"), false},
    {SLICE(H "A: \x01\r\n\r\n"), false},
    {SLICE(H "A: \x0b\r\n\r\n"), false},
    {SLICE(H "A: \x1b[2J\r\n\r\n"), false},
    {SLICE(H "A: \x7f\r\n\r\n"), false},
    {SLICE(H "A: \x80\xff\r\n\r\n"), true},
    /* Content-Length */
    {SLICE(H "Content-Length: 0\r\n\r\n"), true},
    {SLICE(H "Content-Length:5\t\r\n\r\n"), true},
    {SLICE(H "Content-Length: 9223372036854775807\r\n\r\n"), true},
    {SLICE(H "Content-Length: 9223372036854775808\r\n\r\n"), false},
    {SLICE(H "Content-Length: 18446744073709551616\r\n\r\n"), false},
    {SLICE(H "Content-Length: 99999999999999999999999999\r\n\r\n"), false},
    {SLICE(H "Content-Length:\r\n\r\n"), false},
    {SLICE(H "Content-Length: +5\r\n\r\n"), false},
    {SLICE(H "Content-Length: -5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 0x5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5 5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5,5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5, 5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5;\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5.0\r\n\r\n"), false},
    {SLICE(H "Content-Length: \xd9\xa5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5\r\nContent-Length: 5\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5\r\ncontent-length: 6\r\n\r\n"), false},
    /* Transfer-Encoding */
    {SLICE(H "Transfer-Encoding: chunked\r\n\r\n"), true},
    {SLICE(H "transfer-encoding:CHUNKED\t\r\n\r\n"), true},
    {SLICE(H "Transfer-Encoding:\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: identity\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: xchunked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked,\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: ,chunked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: gzip, chunked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked, identity\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: \"chunked\"\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked;a=b\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chun\xc2\xadked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n"), false},
    {SLICE(H "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n"), false},
    {SLICE(H "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n"), false},
    /* Connection */
    {SLICE(H "Connection: a, ,close\r\nConnection: keep-alive\r\n\r\n"), true},
    {SLICE(H "Connection:\r\n\r\n"), true},
    {SLICE(H "Connection: a b\r\n\r\n"), false},
    {SLICE(H "Connection: \"close\"\r\n\r\n"), false},
};

START_TEST(field_table)
{
    for (size_t i = 0; i < COUNT(fields); i++) {
        char req[300] = GET;
        size_t n = strlen(GET);
        memcpy(req + n, fields[i].rest.p, fields[i].rest.n);
        n += fields[i].rest.n;
        int r = verdict(req, n);
        ck_assert_msg(r == (fields[i].ok ? 1 : -1), "%d: %s", r, fields[i].rest.p);
        ck_assert(r > 0 || err == SP_E_BAD_REQUEST);
        ck_assert(r < 0 || h.size == n);
    }
}
END_TEST

START_TEST(once)
{
    static const char *const names[] = {"Host",
                                        "Content-Length",
                                        "Transfer-Encoding",
                                        "Expect",
                                        "Content-Type",
                                        "Range",
                                        "If-Range",
                                        "Content-Range",
                                        "Accept",
                                        "Content-Encoding",
                                        "If-None-Match",
                                        "If-Unmodified-Since",
                                        "If-Modified-Since",
                                        "If-Match"};
    for (size_t i = 0; i < COUNT(names); i++) {
        const char *v = i == 0 ? "h" : i == 1 ? "0" : i == 2 ? "chunked" : "100-continue";
        char req[300];
        for (int minor = 0; minor < 2; minor++) {
            int n =
                snprintf(req, sizeof req, "GET / HTTP/1.%d\r\n%s%s: %s\r\nA: b\r\n%s: %s\r\n\r\n",
                         minor, i ? H : "", names[i], v, names[i], v);
            ck_assert_msg(verdict(req, (size_t)n) == -1, "%s", names[i]);
            ck_assert_int_eq(err, SP_E_BAD_REQUEST);
        }
    }
}
END_TEST

START_TEST(hosts)
{
    static const struct {
        const char *host;
        bool ok;
    } t[] = {{"x", true},
             {"x:80", true},
             {"x:", true},
             {"x:65535", true},
             {"127.0.0.1:8", true},
             {"[::1]", true},
             {"[::1]:80", true},
             {"[2001:db8::1]:", true},
             {"a-b.c_d~", true},
             {"%41", true},
             {"a,b", true},
             {"", false},
             {":80", false},
             {"x:65536", false},
             {"x:999999", false},
             {"x:8a", false},
             {"x:-1", false},
             {"x:80:80", false},
             {"x y", false},
             {"x/", false},
             {"u@x", false},
             {"x?", false},
             {"x#", false},
             {"x\\", false},
             {"[::1", false},
             {"::1", false},
             {"[]", false},
             {"[::1]x", false},
             {"[::g]", false},
             {"[::1%25lo]", false},
             {"[v1.x]", false},
             {"[1.2.3.4]", false},
             {"%4", false},
             {"%", false},
             {"%zz", false},
             {"http://x", false},
             {"x\xff", false},
             {"x, y", false},
             {"\"x\"", false},
             {"[[::1]]", false},
             {"[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]", false}};
    for (size_t i = 0; i < COUNT(t); i++)
        for (int minor = 0; minor < 2; minor++) { /* on 1.0 it may be missing, not malformed */
            char req[200];
            int n =
                snprintf(req, sizeof req, "GET / HTTP/1.%d\r\nHost: %s\r\n\r\n", minor, t[i].host);
            ck_assert_msg(verdict(req, (size_t)n) == (t[i].ok ? 1 : -1), "%s", t[i].host);
        }
}
END_TEST

START_TEST(old_version)
{
    static const struct {
        const char *rest;
        int r;
        bool keep;
    } t[] = {{"\r\n", 1, false},
             {"Connection: keep-alive\r\n\r\n", 1, true},
             {"Connection: Keep-Alive, close\r\n\r\n", 1, false},
             {"Expect: 100-continue\r\n\r\n", 1, false},
             {"Expect: nonsense\r\n\r\n", 1, false},
             {"Content-Length: 3\r\n\r\n", 1, false},
             {"Transfer-Encoding: chunked\r\n\r\n", -1, false},
             {"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", -1, false}};
    for (size_t i = 0; i < COUNT(t); i++) {
        char req[200];
        int n = snprintf(req, sizeof req, "GET / HTTP/1.0\r\n%s", t[i].rest);
        ck_assert_int_eq(verdict(req, (size_t)n), t[i].r);
        if (t[i].r == 1) {
            ck_assert_int_eq(h.minor, 0);
            ck_assert_int_eq(h.keep_alive, t[i].keep);
            ck_assert(!h.expect_continue);
        }
    }
}
END_TEST

START_TEST(connection)
{
    static const struct {
        const char *value;
        bool keep;
    } t[] = {{"keep-alive", true},
             {"close", false},
             {"CLOSE", false},
             {"x, close", false},
             {"x,,close ,", false},
             {"closed", true},
             {"keep-alive, close", false},
             {",", true}};
    for (size_t i = 0; i < COUNT(t); i++) {
        char req[200];
        int n = snprintf(req, sizeof req, GET H "Connection: %s\r\n\r\n", t[i].value);
        ck_assert_int_eq(verdict(req, (size_t)n), 1);
        ck_assert_int_eq(h.keep_alive, t[i].keep);
    }
}
END_TEST

START_TEST(expectations)
{
    static const char *const bad[] = {"", "200-ok", "100-continue, x", "100-continue;a", "100"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char req[200];
        int n = snprintf(req, sizeof req, GET H "Expect: %s\r\n\r\n", bad[i]);
        ck_assert_int_eq(verdict(req, (size_t)n), -1);
        ck_assert_int_eq(err, SP_E_BAD_EXPECTATION);
        /* a framing fault is the graver one */
        n = snprintf(req, sizeof req, GET "Expect: %s\r\n\r\n", bad[i]);
        ck_assert_int_eq(verdict(req, (size_t)n), -1);
        ck_assert_int_eq(err, SP_E_BAD_REQUEST);
    }
}
END_TEST

UNIT_MAIN("http_field", field_table, once, hosts, old_version, connection, expectations)
