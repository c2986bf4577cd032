/* fuzz_chunk.c: the chunked decoder: the same bytes out and the same verdict at every cut.
 * Covers: src/http/chunk.c */
#include "sallyport/http.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct result {
    int verdict;
    size_t consumed, n;
    char bytes[65536];
};

static void decode(const char *p, size_t n, size_t step, struct result *r)
{
    struct sp_chunk c;
    sp_chunk_init(&c);
    memset(r, 0, sizeof *r);
    while (r->consumed < n && r->verdict == 0) {
        size_t left = n - r->consumed, give = left < step ? left : step, used, dn;
        const char *d;
        r->verdict = sp_chunk_next(&c, p + r->consumed, give, &used, &d, &dn);
        if (used > give || (used == 0 && r->verdict == 0))
            abort();
        if (r->verdict >= 0 && dn > 0) {
            if (d < p + r->consumed || d + dn > p + r->consumed + used)
                abort();
            memcpy(r->bytes + r->n, d, dn);
            r->n += dn;
        }
        r->consumed += used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct result a, b;
    if (size > sizeof a.bytes)
        return 0;
    decode((const char *)data, size, SIZE_MAX, &a);
    for (size_t step = 1; step <= 5; step += 2) {
        decode((const char *)data, size, step, &b);
        if (a.verdict != b.verdict || a.n != b.n || memcmp(a.bytes, b.bytes, a.n) != 0)
            abort();
        if (a.verdict == 1 && a.consumed != b.consumed)
            abort();
    }
    return 0;
}
