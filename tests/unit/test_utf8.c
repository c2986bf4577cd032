/* test_utf8.c: every two-byte sequence and a dense sample of longer ones against a decoder written
 * another way, the standard's own examples of repair, and JSON escapes in buffers of every size. */
#include "sallyport/utf8.h"

#include "unit.h"

#include <stdint.h>

/* By arithmetic on code points rather than by table 3-7. */
static size_t oracle(const uint8_t *p, size_t n)
{
    size_t len = p[0] < 0x80       ? 1
                 : p[0] >> 5 == 6  ? 2
                 : p[0] >> 4 == 14 ? 3
                 : p[0] >> 3 == 30 ? 4
                                   : 0;
    if (len == 0 || len > n)
        return 0;
    uint32_t cp = len == 1 ? p[0] : p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if (p[i] >> 6 != 2)
            return 0;
        cp = cp << 6 | (p[i] & 0x3fu);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (cp < least[len] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
        return 0;
    return len;
}

/* Could more bytes make p[0..n) well-formed? Tried with the extremes of what may follow. */
static bool might_go_on(const uint8_t *p, size_t n)
{
    static const uint8_t more[] = {0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf};
    for (size_t i = 0; i < COUNT(more); i++)
        for (size_t k = 1; n + k <= 4; k++) {
            uint8_t t[4] = {0};
            memcpy(t, p, n);
            memset(t + n, 0x80, k);
            t[n] = more[i];
            if (oracle(t, n + k) == n + k)
                return true;
        }
    return false;
}

/* Millions of times: so no ck_assert but for the one that fails, each of which is a write(2). */
static void compare(const uint8_t *p, size_t n)
{
    size_t bad = 99, got = sp_utf8_next((const char *)p, n, &bad), want = oracle(p, n);
    size_t maximal = 1; /* the longest prefix that could have gone on, at least one byte */
    while (!want && maximal < n && maximal < 3 && might_go_on(p, maximal + 1))
        maximal++;
    if (got != want || (!want && bad != maximal))
        ck_abort_msg("%02x %02x of %zu: %zu (%zu), not %zu (%zu)", p[0], n > 1 ? p[1] : 0u, n, got,
                     bad, want, maximal);
}

START_TEST(two_bytes)
{
    for (unsigned v = 0; v < 0x10000; v++) {
        uint8_t p[2] = {(uint8_t)(v >> 8), (uint8_t)(v & 0xff)};
        compare(p, 1);
        compare(p, 2);
        bool pair = oracle(p, 2) == 2 || (oracle(p, 1) == 1 && oracle(p + 1, 1) == 1);
        if (sp_utf8_valid((const char *)p, 2) != pair)
            ck_abort_msg("%04x", v);
    }
}
END_TEST

START_TEST(longer)
{
    static const uint8_t edge[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0,
                                   0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4, 0xf5, 0xff};
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            for (size_t c = 0; c < COUNT(edge); c++) {
                uint8_t p[4] = {(uint8_t)a, (uint8_t)b, edge[c], 0};
                compare(p, 3);
                for (size_t d = 0; a >= 0xe0 && d < COUNT(edge); d += 3) {
                    p[3] = edge[d];
                    compare(p, 4);
                }
            }
}
END_TEST

START_TEST(whole)
{
    static const struct {
        const char *s;
        size_t n, want;
    } t[] = {{"", 0, 0},
             {"abc", 3, 3},
             {"ab\xc3", 3, 2},
             {"ab\xc3\xa9", 4, 4},
             {"\xe2\x82", 2, 0},
             {"\xe2", 1, 0},
             {"\xe2\x82\xac", 3, 3},
             {"a\xf0\x9f\x98", 4, 1},
             {"\xf0\x9f\x98\x80", 4, 4},
             {"a\x80\x80\x80\x80", 5, 5}, /* no character, so nothing to wait for */
             {"a\xff", 2, 2},
             {"a\xe0\x80", 3, 3}, /* overlong: it can't go on */
             {"a\xed\xa0", 3, 3},
             {"a\xf4\x90\x80", 4, 4},
             {"\xc3\xe2\x82", 3, 1}};
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_uint_eq(sp_utf8_whole(t[i].s, t[i].n), t[i].want);
}
END_TEST

#define R "\xef\xbf\xbd"
START_TEST(repair)
{
    static const struct {
        const char *in, *out;
    } t[] = {{"", ""},
             {"plain \xc3\xa9", "plain \xc3\xa9"},
             /* Unicode 15, tables 3-8 to 3-11 */
             {"\xc0\xaf\xe0\x80\xbf\xf0\x81\x82\x41", R R R R R R R R "A"},
             {"\xed\xa0\x80\xed\xbf\xbf\xed\xaf\x41", R R R R R R R R "A"},
             {"\xf4\x91\x92\x93\xff\x41\x80\xbf\x42", R R R R R "A" R R "B"},
             {"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", R R R R "A"},
             {"\xc3", R},
             {"\xf0\x9f\x98", R}};
    for (size_t i = 0; i < COUNT(t); i++) {
        char out[64];
        size_t n = sp_utf8_repair(t[i].in, strlen(t[i].in), out);
        ck_assert_uint_eq(n, strlen(t[i].out));
        ck_assert_mem_eq(out, t[i].out, n);
        ck_assert(sp_utf8_valid(out, n));
    }
}
END_TEST

static const struct {
    const char *in;
    size_t n;
    const char *out;
} escapes[] = {
    {"", 0, ""},
    {"abc", 3, "abc"},
    {"\"\\/", 3, "\\\"\\\\/"},
    {"\b\f\n\r\t", 5, "\\b\\f\\n\\r\\t"},
    {"a\0b", 3, "a\\u0000b"},
    {"\x01\x1f\x7f", 3, "\\u0001\\u001f\\u007f"},
    {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
    {"x\xffy\xe2\x82z\xf0\x9f\x98", 9, "x" R "y" R "z" R},
};

START_TEST(json)
{
    for (size_t i = 0; i < COUNT(escapes); i++) {
        char out[64];
        size_t used = 99, want = strlen(escapes[i].out);
        ck_assert_uint_eq(sp_json_escaped_len(escapes[i].in, escapes[i].n), want);
        ck_assert_uint_eq(sp_json_escape(escapes[i].in, escapes[i].n, out, sizeof out, &used),
                          want);
        ck_assert_uint_eq(used, escapes[i].n);
        ck_assert_mem_eq(out, escapes[i].out, want);
    }
}
END_TEST

START_TEST(json_tiny)
{
    for (size_t i = 0; i < COUNT(escapes); i++)
        for (size_t cap = 0; cap < 12; cap++) {
            char sum[64], out[16];
            size_t at = 0, to = 0;
            while (at < escapes[i].n) {
                memset(out, 0x55, sizeof out);
                size_t used,
                    n = sp_json_escape(escapes[i].in + at, escapes[i].n - at, out, cap, &used);
                ck_assert_uint_le(n, cap);
                for (size_t k = n; k < sizeof out; k++)
                    ck_assert_int_eq(out[k], 0x55); /* nothing beyond what was told */
                ck_assert_int_eq(used == 0, n == 0);
                if (used == 0)
                    break;
                memcpy(sum + to, out, n);
                to += n;
                at += used;
            }
            ck_assert(cap < 6 || at == escapes[i].n); /* six always make progress */
            if (at == escapes[i].n) {
                ck_assert_uint_eq(to, strlen(escapes[i].out));
                ck_assert_mem_eq(sum, escapes[i].out, to);
            }
        }
}
END_TEST

/* Each byte value at each place among eight bytes and more: what is taken eight at a time must come
 * out as what is taken alone. */
START_TEST(json_runs)
{
    for (unsigned b = 0; b < 256; b++)
        for (size_t at = 0; at < 20; at++) {
            char in[20], out[128], one[6], want[128];
            size_t used, n = 0;
            memset(in, ' ' + (int)(b % 2 ? 0 : 'x' - ' '), sizeof in);
            in[at] = (char)b;
            for (size_t i = 0; i < sizeof in; i++) {
                size_t len = sp_json_escape(in + i, 1, one, sizeof one, &used);
                memcpy(want + n, one, len);
                n += len;
            }
            ck_assert_uint_eq(sp_json_escaped_len(in, sizeof in), n);
            ck_assert_uint_eq(sp_json_escape(in, sizeof in, out, sizeof out, &used), n);
            ck_assert_uint_eq(used, sizeof in);
            ck_assert_mem_eq(out, want, n);
        }
}
END_TEST

UNIT_MAIN("utf8", two_bytes, longer, whole, repair, json, json_tiny, json_runs)
