/* fuzz_units.c: numbers with units beside a plain reader that does long arithmetic on digits: the
 * same verdict and the same number, and nothing is touched on refusal.
 * Covers: src/base/units.c */
#include "sallyport/units.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef unsigned __int128 big;

/* s = number, then one of the units: floor(number * unit), or false. The number is taken as an
 * integer of 10^-9, which 128 bits hold as long as the result fits in 64. */
static bool read_plainly(const char *s, const char *const *names, const uint64_t *units,
                         uint64_t *out)
{
    size_t whole = strspn(s, "0123456789"), part = 0;
    const char *rest = s + whole;
    if (whole == 0)
        return false;
    if (*rest == '.') {
        part = strspn(rest + 1, "0123456789");
        if (part == 0 || part > 9)
            return false;
        rest += 1 + part;
    }
    int u = 0;
    while (names[u] != NULL && strcmp(names[u], rest) != 0)
        u++;
    if (names[u] == NULL)
        return false;
    big nano = 0;
    bool any = false;
    for (size_t i = 0; i < whole + 9; i++) {
        char c = i < whole ? s[i] : i - whole < part ? s[i + 1] : '0';
        any |= c != '0';
        nano = nano * 10u + (unsigned)(c - '0');
        if (nano > (big)UINT64_MAX * 1000000000u + 999999999u)
            return false;
    }
    big v = 0; /* by shift and add, against an overflow of the product */
    for (int bit = 63; bit >= 0; bit--) {
        if (v > (big)-1 >> 1)
            return false;
        v <<= 1;
        if (units[u] >> bit & 1) {
            if (v + nano < v)
                return false;
            v += nano;
        }
    }
    v /= 1000000000u;
    if (v > UINT64_MAX || (v == 0 && any))
        return false;
    *out = (uint64_t)v;
    return true;
}

static void same(bool got, uint64_t v, bool want, uint64_t w)
{
    if (got != want || (got && v != w) || (!got && v != 77))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const times[] = {"", "ms", "s", "m", "h", "d", NULL};
    static const uint64_t ms[] = {1000, 1, 1000, 60000, 3600000, 86400000};
    static const char *const sizes[] = {"",   "B",   "k",   "K",  "kiB", "KiB", "kB", "KB",  "m",
                                        "M",  "miB", "MiB", "mB", "MB",  "g",   "G",  "giB", "GiB",
                                        "gB", "GB",  "t",   "T",  "tiB", "TiB", "tB", "TB",  NULL};
    static const uint64_t bytes[] = {
        1,          1,          1024,       1024,          1024,         1024,       1000,
        1000,       1u << 20,   1u << 20,   1u << 20,      1u << 20,     1000000,    1000000,
        1u << 30,   1u << 30,   1u << 30,   1u << 30,      1000000000,   1000000000, 1ull << 40,
        1ull << 40, 1ull << 40, 1ull << 40, 1000000000000, 1000000000000};
    static const char *const plain[] = {"", NULL};
    static const uint64_t one[] = {1};
    char s[256];
    if (size >= sizeof s)
        return 0;
    memcpy(s, data, size);
    s[size] = '\0';
    uint64_t v = 77, w = 0;
    bool got = sp_parse_duration_ms(s, &v), want = read_plainly(s, times, ms, &w);
    same(got, v, want, w);
    v = 77;
    got = sp_parse_size(s, &v);
    want = read_plainly(s, sizes, bytes, &w);
    same(got, v, want, w);
    v = 77;
    got = sp_parse_u64(s, &v);
    want = strchr(s, '.') == NULL && read_plainly(s, plain, one, &w);
    same(got, v, want, w);
    static const char *const words[] = {"0", "1", "false", "true", "no", "yes", "off", "on"};
    for (size_t i = 0; s[i] != '\0'; i++)
        s[i] = (char)tolower((unsigned char)s[i]);
    int hit = -1;
    for (int i = 0; i < 8; i++)
        if (strcmp(s, words[i]) == 0)
            hit = i % 2;
    memcpy(s, data, size);
    bool b = false, known = sp_parse_bool(s, &b);
    if (known != (hit >= 0) || (known && b != (hit == 1)))
        abort();
    return 0;
}
