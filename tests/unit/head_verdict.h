/* head_verdict.h: the head parser's verdict on bytes, checked not to depend on how they arrive. For
 * test_http_head.c and test_http_field.c; trusts them. */
#ifndef SP_TESTS_HEAD_VERDICT_H
#define SP_TESTS_HEAD_VERDICT_H

#include "sallyport/http.h"

#include "unit.h"

#define H "Host: x\r\n"
#define GET "GET / HTTP/1.1\r\n"

static struct sp_head h;
static enum sp_err err;

/* The verdict on p[0..n) must not depend on how it arrives; nor may the parser look past `len`, so
 * each part is handed over in memory of its own. */
static inline int delivered(const char *p, size_t n, size_t first, size_t step)
{
    size_t from = 0;
    for (size_t len = first;; len = len + step < n ? len + step : n) {
        char *copy = malloc(len ? len : 1);
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, p, len);
        int r = sp_head_parse(copy, len, from, &h, &err);
        free(copy);
        if (r != 0 || len == n)
            return r;
        from = len;
    }
}

static inline int verdict(const char *p, size_t n)
{
    enum sp_err e = SP_OK;
    int r = sp_head_parse(p, n, 0, &h, &err);
    if (r < 0)
        e = err;
    for (size_t cut = 0; n < 600 && cut <= n; cut++) {
        ck_assert_msg(delivered(p, n, cut, n) == r, "cut at %zu: %.*s", cut, (int)n, p);
        ck_assert(r >= 0 || err == e);
    }
    ck_assert_msg(delivered(p, n, 0, 1) == r, "byte by byte: %.*s", (int)n, p);
    ck_assert(r >= 0 || err == e);
    ck_assert_int_eq(sp_head_parse(p, n, 0, &h, &err), r); /* h for the caller */
    if (r == 1)
        ck_assert_uint_le(h.size, n);
    return r;
}

static inline void is(struct sp_slice s, const char *want)
{
    if (!want) {
        ck_assert_ptr_null(s.p);
        return;
    }
    ck_assert_ptr_nonnull(s.p);
    ck_assert_uint_eq(s.n, strlen(want));
    ck_assert_mem_eq(s.p, want, s.n);
}

#endif
