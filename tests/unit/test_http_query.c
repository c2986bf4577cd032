/* test_http_query.c: the query parser: what it takes, and each way in which it refuses. */
#include "sallyport/query.h"

#include "unit.h"

#include <stdio.h>

static struct sp_query q;

/* Parses from memory of its own, so that a sanitizer sees an overrun by one. */
static enum sp_query_error parse(struct sp_slice in)
{
    char *copy = malloc(in.n > 0 ? in.n : 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, in.p, in.n);
    enum sp_query_error e = sp_query_parse((struct sp_slice){copy, in.n}, &q);
    free(copy); /* and that nothing borrows from it */
    return e;
}

static void expect(const char *name, struct sp_slice want)
{
    struct sp_slice got = sp_query_get(&q, name);
    ck_assert_msg(got.p != NULL, "no %s", name);
    ck_assert_uint_eq(got.n, want.n);
    ck_assert_mem_eq(got.p, want.p, want.n);
}

START_TEST(good)
{
    ck_assert_int_eq(parse(SLICE("")), SP_QUERY_OK);
    ck_assert_uint_eq(q.n, 0);
    ck_assert_int_eq(parse(SLICE("path=a%2Fb%20c/d+e%2Bf&recursive=true&x")), SP_QUERY_OK);
    ck_assert_uint_eq(q.n, 3);
    expect("path", SLICE("a/b c/d e+f"));
    expect("recursive", SLICE("true"));
    expect("x", SLICE(""));
    ck_assert(q.param[1].has_value && !q.param[2].has_value);
    ck_assert_ptr_null(sp_query_get(&q, "pat").p);
    ck_assert_ptr_null(sp_query_get(&q, "path ").p);
    ck_assert_ptr_null(sp_query_get(&q, "").p);
    ck_assert_int_eq(parse(SLICE("a=b=c==&A=&%c3%a4=%ff%FE%0a&b=?/:@!$'()*,;~")), SP_QUERY_OK);
    expect("a", SLICE("b=c=="));
    expect("A", SLICE(""));
    expect("\xc3\xa4", SLICE("\xff\xfe\n"));
    expect("b", SLICE("?/:@!$'()*,;~"));
    ck_assert_int_eq(parse(SLICE("a%3Db=c%26d")), SP_QUERY_OK); /* decoded after the split */
    ck_assert_uint_eq(q.n, 1);
    expect("a=b", SLICE("c&d"));
}
END_TEST

START_TEST(bad)
{
    static const struct {
        struct sp_slice in;
        enum sp_query_error e;
    } t[] = {
        {SLICE("&"), SP_QUERY_NO_NAME},
        {SLICE("a=1&"), SP_QUERY_NO_NAME},
        {SLICE("&a=1"), SP_QUERY_NO_NAME},
        {SLICE("a=1&&b=2"), SP_QUERY_NO_NAME},
        {SLICE("="), SP_QUERY_NO_NAME},
        {SLICE("=v"), SP_QUERY_NO_NAME},
        {SLICE("a=1&=v"), SP_QUERY_NO_NAME},
        {SLICE("a=%"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%4"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%4g"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%g4"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%%41"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%4&1=2"), SP_QUERY_BAD_ESCAPE}, /* an escape doesn't cross the '&' */
        {SLICE("a%3=1"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%u0041"), SP_QUERY_BAD_ESCAPE},
        {SLICE("a=%00"), SP_QUERY_NUL},
        {SLICE("a%00b=1"), SP_QUERY_NUL},
        {SLICE("a\0=1"), SP_QUERY_BAD_CHAR},
        {SLICE("a=b c"), SP_QUERY_BAD_CHAR},
        {SLICE("a=b#c"), SP_QUERY_BAD_CHAR},
        {SLICE("a=[1]"), SP_QUERY_BAD_CHAR},
        {SLICE("a=\"b\""), SP_QUERY_BAD_CHAR},
        {SLICE("a=\xc3\xa4"), SP_QUERY_BAD_CHAR},
        {SLICE("a=b\r"), SP_QUERY_BAD_CHAR},
        {SLICE("%ff=1"), SP_QUERY_NOT_UTF8},
        {SLICE("%c3=1"), SP_QUERY_NOT_UTF8},
        {SLICE("%c0%af=1"), SP_QUERY_NOT_UTF8},
        {SLICE("%ed%a0%80=1"), SP_QUERY_NOT_UTF8},
        {SLICE("a=1&a=1"), SP_QUERY_REPEATED},
        {SLICE("a=1&b=2&a"), SP_QUERY_REPEATED},
        {SLICE("a=1&%61=2"), SP_QUERY_REPEATED}, /* compared decoded */
        {SLICE("a+b=1&a%20b=2"), SP_QUERY_REPEATED},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        enum sp_query_error e = parse(t[i].in);
        ck_assert_msg(e == t[i].e, "%s: %d, not %d", t[i].in.p, (int)e, (int)t[i].e);
        ck_assert_uint_eq(q.n, 0);
        const char *text = sp_query_error_text(e);
        ck_assert(text[strlen(text) - 1] == '.');
    }
}
END_TEST

START_TEST(bounds)
{
    static char in[SP_LINE_MAX + 1];
    size_t n = 0;
    for (unsigned i = 0; i < SP_QUERY_MAX; i++)
        n += (size_t)snprintf(in + n, sizeof in - n, "%sp%u=%u", i > 0 ? "&" : "", i, i);
    ck_assert_int_eq(parse((struct sp_slice){in, n}), SP_QUERY_OK);
    ck_assert_uint_eq(q.n, SP_QUERY_MAX);
    expect("p31", SLICE("31"));
    memcpy(in + n, "&z", 2);
    ck_assert_int_eq(parse((struct sp_slice){in, n + 2}), SP_QUERY_TOO_LONG);
    memset(in, 'a', sizeof in);
    in[1] = '=';
    ck_assert_int_eq(parse((struct sp_slice){in, SP_LINE_MAX}), SP_QUERY_OK);
    ck_assert_uint_eq(sp_query_get(&q, "a").n, SP_LINE_MAX - 2);
    ck_assert_int_eq(parse((struct sp_slice){in, SP_LINE_MAX + 1}), SP_QUERY_TOO_LONG);
}
END_TEST

START_TEST(typed)
{
    static const char *const names[] = {"f", "n", NULL};
    bool flag = true;
    uint64_t n = 7;
    ck_assert_int_eq(parse(SLICE("f=0&n=42")), SP_QUERY_OK);
    ck_assert(sp_query_flag(&q, "f", &flag) && !flag);
    ck_assert(sp_query_flag(&q, "absent", &flag) && !flag);
    ck_assert(sp_query_number(&q, "n", 1, 42, &n) && n == 42);
    ck_assert(!sp_query_number(&q, "n", 1, 41, &n) && n == 42);
    ck_assert(!sp_query_number(&q, "n", 43, 99, &n));
    ck_assert(sp_query_number(&q, "absent", 1, 2, &n) && n == 42);
    ck_assert_ptr_null(sp_query_stranger(&q, names).p);
    ck_assert_int_eq(parse(SLICE("f=TRUE&n=%2b1&other=1")), SP_QUERY_OK);
    ck_assert(!sp_query_flag(&q, "f", &flag) && !flag);
    ck_assert(!sp_query_number(&q, "n", 0, 99, &n) && n == 42);
    struct sp_slice s = sp_query_stranger(&q, names);
    ck_assert(s.n == 5 && memcmp(s.p, "other", 5) == 0);
    ck_assert_int_eq(parse(SLICE("f&n=99999999999999999999")), SP_QUERY_OK);
    ck_assert(!sp_query_flag(&q, "f", &flag));
    ck_assert(!sp_query_number(&q, "n", 0, UINT64_MAX, &n));
    ck_assert_int_eq(parse(SLICE("f=true&n=")), SP_QUERY_OK);
    ck_assert(sp_query_flag(&q, "f", &flag) && flag);
    ck_assert(!sp_query_number(&q, "n", 0, UINT64_MAX, &n));
}
END_TEST

UNIT_MAIN("http_query", good, bad, bounds, typed)
