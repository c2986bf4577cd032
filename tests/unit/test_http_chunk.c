/* test_http_chunk.c: the chunked decoder, each body whole, cut at every place, and byte by byte. */
#include "sallyport/http.h"

#include "unit.h"

#include <stdio.h>

static char data[70000];
static size_t data_n, taken;

/* Feeds p in parts of `first`, then `step` bytes; each in memory of its own. */
static int feed(const char *p, size_t n, size_t first, size_t step)
{
    struct sp_chunk c;
    sp_chunk_init(&c);
    data_n = taken = 0;
    int r = 0;
    for (size_t at = 0, len = first; r == 0 && at < n; at += len, len = step) {
        len = len < n - at ? len : n - at;
        char *part = malloc(len ? len : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, p + at, len);
        for (size_t off = 0; r == 0 && off < len;) {
            const char *d;
            size_t used, dn;
            r = sp_chunk_next(&c, part + off, len - off, &used, &d, &dn);
            ck_assert_uint_le(used, len - off);
            ck_assert(r != 0 || used > 0); /* always gets on */
            if (dn) {
                ck_assert(d >= part + off && d + dn <= part + off + used);
                memcpy(data + data_n, d, dn);
                data_n += dn;
            }
            off += used;
            taken += used;
        }
        free(part);
    }
    if (r) { /* the end stays the end */
        const char *d;
        size_t used, dn;
        ck_assert_int_eq(sp_chunk_next(&c, "0\r\n\r\n", 5, &used, &d, &dn), r);
        ck_assert(used == 0 && dn == 0 && !d);
    }
    return r;
}

static int decode(const char *p, size_t n)
{
    int r = feed(p, n, n, n);
    size_t dn = data_n, used = taken;
    for (size_t cut = 0; n < 600 && cut <= n; cut++) {
        ck_assert_msg(feed(p, n, cut, n) == r, "cut at %zu: %s", cut, p);
        ck_assert_uint_eq(taken, used);
    }
    ck_assert_int_eq(feed(p, n, 1, 1), r);
    ck_assert_uint_eq(taken, used);
    ck_assert(r < 0 || data_n == dn);
    return r;
}

START_TEST(good)
{
    static const struct {
        const char *in, *out;
    } t[] = {{"0\r\n\r\n", ""},
             {"000\r\n\r\n", ""},
             {"3\r\nabc\r\n0\r\n\r\n", "abc"},
             {"0000000000000003\r\nabc\r\n0\r\n\r\n", "abc"},
             {"3\r\n\r\n\r\r\n0\r\n\r\n", "\r\n\r"},
             {"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
             {"1;a\r\nx\r\n0;b=c\r\n\r\n", "x"},
             {"1 ; a = \"q;\\\"\t\\\\\r\"\r\nx\r\n0\r\n\r\n", NULL}, /* a CR in the quotes */
             {"1 ;\ta = \"q;\\\"\t\\\\\xff\" ;b;c=d\r\nx\r\n0\r\n\r\n", "x"},
             {"0\r\nA: b\r\nC:\r\nD: \xff\t\r\n\r\n", ""}};
    for (size_t i = 0; i < COUNT(t); i++) {
        int r = decode(t[i].in, strlen(t[i].in));
        ck_assert_msg(r == (t[i].out ? 1 : -1), "%s", t[i].in);
        if (!t[i].out)
            continue;
        ck_assert_uint_eq(taken, strlen(t[i].in));
        ck_assert_uint_eq(data_n, strlen(t[i].out));
        ck_assert_mem_eq(data, t[i].out, data_n);
    }
}
END_TEST

START_TEST(bad)
{
    static const struct sp_slice t[] = {
        SLICE("\r\n"),
        SLICE(" 3\r\n"),
        SLICE("x"),
        SLICE("-1\r\n"),
        SLICE("+1\r\n"),
        SLICE("0x3\r\n"),
        SLICE("3\n"),
        SLICE("3\r\r\n"),
        SLICE("3\rabc"),
        SLICE("3 \r\n"),
        SLICE("3\t\r\n"),
        SLICE("3g\r\n"),
        SLICE(";a\r\n"),
        SLICE("\0"),
        SLICE("3\0\r\n"),
        SLICE("3,\r\n"),
        SLICE("00000000000000003\r\n"), /* 17 digits */
        SLICE("8000000000000000\r\n"),
        SLICE("ffffffffffffffff\r\n"),
        SLICE("10000000000000000\r\n"),
        SLICE("3\r\nabc0\r\n\r\n"),
        SLICE("3\r\nabc\n0\r\n\r\n"),
        SLICE("3\r\nabcd\r\n"),
        SLICE("3\r\nabc\r0"),
        SLICE("3\r\nabc\r\n\r\n"),
        SLICE("3\r\nabc\r\n 0"),
        SLICE("3;\r\n"),
        SLICE("3;a=\r\n"),
        SLICE("3;a=b c\r\n"),
        SLICE("3;a b\r\n"),
        SLICE("3;a \r\n"),
        SLICE("3;a=\"b\r\n"),
        SLICE("3;a=\"b\"c\r\n"),
        SLICE("3;a=\"b\\\r\n"),
        SLICE("3;a=\"b\n\"\r\n"),
        SLICE("3;a=\"b\0\"\r\n"),
        SLICE("3;a=\"\x7f\"\r\n"),
        SLICE("3;a\x01\r\n"),
        SLICE("3;a\n"),
        SLICE("3;a=b\n"),
        SLICE("3;a=\"b\"\n"),
        SLICE("3;;\r\n"),
        SLICE("3;=b\r\n"),
        SLICE("3;(\r\n"),
        SLICE("3 a\r\n"),
        SLICE("3;a=b \r\n"),
        SLICE("0\r\n\n"),
        SLICE("0\r\n\rx"),
        SLICE("0\r\n A: b\r\n\r\n"),
        SLICE("0\r\n: b\r\n\r\n"),
        SLICE("0\r\nA\r\n\r\n"),
        SLICE("0\r\nA : b\r\n\r\n"),
        SLICE("0\r\nA: b\r\n c\r\n\r\n"),
        SLICE("0\r\nA: b\n\r\n"),
        SLICE("0\r\nA: b\rc\r\n\r\n"),
        SLICE("0\r\nA: \0\r\n\r\n"),
        SLICE("0\r\nA: \x7f\r\n\r\n"),
        SLICE("0\r\n\xff: b\r\n\r\n"),
        SLICE("0\n\n"),
    };
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_msg(decode(t[i].p, t[i].n) == -1, "%zu: %s", i, t[i].p);
}
END_TEST

START_TEST(unfinished)
{
    static const char *const t[] = {"",
                                    "3",
                                    "3;",
                                    "3;a=\"",
                                    "3\r",
                                    "3\r\n",
                                    "3\r\nab",
                                    "3\r\nabc",
                                    "3\r\nabc\r",
                                    "0\r\n",
                                    "0\r\n\r",
                                    "0\r\nA",
                                    "0\r\nA: b\r\n",
                                    "7fffffffffffffff\r\nabc"};
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_msg(decode(t[i], strlen(t[i])) == 0, "%s", t[i]);
}
END_TEST

/* What follows the body belongs to the next request. */
START_TEST(pipelined)
{
    static const char in[] = "3\r\nabc\r\n0\r\nT: v\r\n\r\nGET / HTTP/1.1\r\n";
    ck_assert_int_eq(decode(in, sizeof in - 1), 1);
    ck_assert_uint_eq(taken, sizeof in - 1 - 16); /* "GET / HTTP/1.1\r\n" is left */
}
END_TEST

START_TEST(bounds)
{
    static char in[70000];
    for (int over = 0; over < 2; over++) { /* a size line of 256 bytes, and of 257 */
        memset(in, 'e', sizeof in);
        memcpy(in, "1;", 2);
        memcpy(in + 254 + over, "\r\nx\r\n0\r\n\r\n", 10);
        ck_assert_int_eq(decode(in, 264 + (size_t)over), over ? -1 : 1);
        /* the same in the second chunk: the count starts anew */
        memmove(in + 6, in, 300);
        memcpy(in, "1\r\ny\r\n", 6);
        ck_assert_int_eq(decode(in, 270 + (size_t)over), over ? -1 : 1);
    }
    for (int over = 0; over < 2; over++) { /* trailers of 8192 bytes with their blank line */
        memset(in, 't', sizeof in);
        memcpy(in, "0\r\nA:", 5);
        memcpy(in + 3 + 8192 - 4 + over, "\r\n\r\n", 4);
        ck_assert_int_eq(decode(in, 3 + 8192 + (size_t)over), over ? -1 : 1);
    }
    memcpy(in, "0\r\n", 3); /* many short ones */
    for (size_t i = 3; i + 4 < sizeof in; i += 4)
        memcpy(in + i, "A:\r\n", 4);
    ck_assert_int_eq(decode(in, sizeof in - 8), -1);
    ck_assert_uint_eq(taken, 3 + 8193);

    int n = snprintf(in, sizeof in, "%x\r\n", 65000);
    memset(in + n, 'd', 65000);
    memcpy(in + n + 65000, "\r\n0\r\n\r\n", 7);
    ck_assert_int_eq(decode(in, (size_t)n + 65007), 1);
    ck_assert_uint_eq(data_n, 65000);
}
END_TEST

UNIT_MAIN("http_chunk", good, bad, unfinished, pipelined, bounds)
