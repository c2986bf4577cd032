/* range.c: one byte range (RFC 9110 14.1.2). A stranger's bytes: what isn't plainly one byte range
 * is treated as absent, which the RFC allows for any of them. */
#include "sallyport/http.h"

#include "grammar.h"

#include <string.h>

/* *DIGIT; a number too large to hold is as good as the largest. */
static bool position(struct sp_slice s, uint64_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] < '0' || s.p[i] > '9')
            return false;
        if (__builtin_mul_overflow(*out, 10u, out) ||
            __builtin_add_overflow(*out, (uint64_t)(s.p[i] - '0'), out))
            *out = UINT64_MAX;
    }
    return s.n > 0;
}

static enum sp_range_result suffix(uint64_t want, uint64_t size, uint64_t *first, uint64_t *last)
{
    if (want == 0)
        return SP_RANGE_UNSATISFIABLE;
    if (size == 0)
        return SP_RANGE_NONE; /* satisfiable, but no Content-Range can say it */
    *first = want < size ? size - want : 0;
    *last = size - 1;
    return SP_RANGE_ONE;
}

enum sp_range_result sp_range_parse(struct sp_slice value, uint64_t size, uint64_t *first,
                                    uint64_t *last)
{
    static const char unit[] = "bytes=";
    const size_t skip = sizeof unit - 1;
    if (!value.p || value.n <= skip || !sp_slice_is((struct sp_slice){value.p, skip}, unit))
        return SP_RANGE_NONE;
    const char *p = value.p + skip, *end = value.p + value.n;
    const char *dash = memchr(p, '-', (size_t)(end - p));
    if (!dash)
        return SP_RANGE_NONE;
    struct sp_slice from = {p, (size_t)(dash - p)}, to = {dash + 1, (size_t)(end - dash) - 1};
    uint64_t a = 0, b = UINT64_MAX;
    if ((to.n && !position(to, &b)) || (from.n && !position(from, &a)))
        return SP_RANGE_NONE; /* a list has a comma: no digit */
    if (from.n == 0)
        return to.n ? suffix(b, size, first, last) : SP_RANGE_NONE;
    if (a > b)
        return SP_RANGE_NONE;
    if (a >= size)
        return SP_RANGE_UNSATISFIABLE;
    *first = a;
    *last = b < size ? b : size - 1;
    return SP_RANGE_ONE;
}
