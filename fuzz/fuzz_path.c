/* fuzz_path.c: percent decoding and the path rule beside a plain reading of docs/api.md: the same
 * verdict, the same bytes; and what was decoded, encoded anew, decodes to the same.
 * Covers: src/http/target.c src/base/path.c */
#include "sallyport/http.h"
#include "sallyport/proto.h"

#include <stdlib.h>
#include <string.h>

#define MOST 8192u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int nibble(uint8_t c)
{
    static const char all[] = "0123456789abcdef", upper[] = "0123456789ABCDEF";
    for (int i = 0; i < 16; i++)
        if (c == (uint8_t)all[i] || c == (uint8_t)upper[i])
            return i;
    return -1;
}

/* RFC 3986: pchar and '/'. */
static bool decode_plainly(const uint8_t *p, size_t n, char *out, size_t *len)
{
    static const char raw[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "-._~!$&'()*+,;=:@/";
    *len = 0;
    while (n > 0) {
        size_t step = 1;
        char c = (char)*p;
        if (*p == '%') {
            if (n < 3 || nibble(p[1]) < 0 || nibble(p[2]) < 0)
                return false;
            c = (char)(uint8_t)(nibble(p[1]) * 16 + nibble(p[2]));
            step = 3;
        } else if (memchr(raw, *p, sizeof raw - 1) == NULL) {
            return false;
        }
        out[(*len)++] = c;
        p += step;
        n -= step;
    }
    return true;
}

/* docs/api.md, "/files/{path}". */
static bool rule(const char *p, size_t n)
{
    if (n > 4000)
        return false;
    size_t start = 0;
    for (size_t i = 0; i <= n && n > 0; i++) {
        if (i < n && p[i] == '\0')
            return false;
        if (i < n && p[i] != '/')
            continue;
        size_t len = i - start;
        bool dots = (len == 1 || len == 2) && memcmp(p + start, "..", len) == 0;
        if (len == 0 || len > 255 || dots)
            return false;
        start = i + 1;
    }
    return true;
}

static void check_rule(const char *p, size_t n)
{
    enum sp_err e = sp_path_check(p, n);
    if ((e == SP_OK) != rule(p, n) || (e != SP_OK && e != SP_E_BAD_PATH))
        abort();
}

static void check_query(struct sp_slice q)
{
    static const char *const words[] = {"", "recursive=0", "recursive=false", "recursive=1",
                                        "recursive=true"};
    bool v = false, known = sp_query_bool(q, "recursive", &v);
    int hit = -1;
    for (int i = 0; i < 5; i++)
        if (q.n == strlen(words[i]) && memcmp(q.p, words[i], q.n) == 0)
            hit = i;
    if (known != (hit >= 0) || (known && v != (hit >= 3)))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char out[MOST], plain[MOST], text[3 * MOST], again[3 * MOST];
    size_t n = 0, want = 0, back = 0;
    if (size > MOST)
        return 0;
    struct sp_slice in = {(const char *)data, size};
    check_rule(in.p, size);
    check_query(in);
    bool ok = sp_pct_decode(in, out, &n);
    if (ok != decode_plainly(data, size, plain, &want))
        abort();
    if (ok && (n != want || memcmp(out, plain, n) != 0))
        abort();
    if (ok)
        check_rule(out, n);
    size_t len = sp_pct_encode(in.p, size, text);
    if (len > 3 * size || !sp_pct_decode((struct sp_slice){text, len}, again, &back) ||
        back != size || memcmp(again, data, size) != 0)
        abort();
    for (size_t i = 0; i < len; i++)
        if (text[i] == '/' || text[i] == '\r' || text[i] == '"')
            abort(); /* it goes into a header, or a JSON string */
    return 0;
}
