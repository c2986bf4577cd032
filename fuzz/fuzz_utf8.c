/* fuzz_utf8.c: UTF-8 repair beside a decoder that knows numbers, not bytes: what is repaired is
 * always valid, repairing it again changes nothing, characters come through, and each maximal
 * ill-formed part becomes one U+FFFD. The JSON escapes read back to the same, at every capacity.
 * Covers: src/base/utf8.c */
#include "sallyport/utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define MOST 4096u

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t encode(uint32_t c, uint8_t out[4])
{
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t mark[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (uint8_t)(0x80 | (c & 0x3f));
    out[0] = (uint8_t)(mark[n] | c);
    return n;
}

/* Which one, two or three bytes are the beginning of a longer character: all are written down. */
static uint8_t begun[3][(1u << 24) / 8];

static size_t prefix(const uint8_t *p, size_t n)
{
    size_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    for (uint32_t c = 0; c <= 0x10ffff; c++) {
        uint8_t e[4];
        size_t len = encode(c, e);
        if (c >= 0xd800 && c <= 0xdfff)
            continue;
        for (size_t n = 1; n < len; n++)
            begun[n - 1][prefix(e, n) / 8] |= (uint8_t)(1u << prefix(e, n) % 8);
    }
    return 0;
}

static bool begins_one(const uint8_t *p, size_t n)
{
    return n <= 3 && (begun[n - 1][prefix(p, n) / 8] >> prefix(p, n) % 8 & 1);
}

static size_t char_at(const uint8_t *p, size_t n)
{
    for (size_t len = 1; len <= 4 && len <= n; len++) {
        uint32_t c = len == 1 ? p[0] : p[0] & (0x7fu >> len);
        uint8_t e[4];
        for (size_t i = 1; i < len; i++)
            c = c << 6 | (p[i] & 0x3fu);
        bool form = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
        if (form && encode(c, e) == len && memcmp(e, p, len) == 0)
            return len;
    }
    return 0;
}

static size_t repair_plainly(const uint8_t *p, size_t n, char *out, bool *valid)
{
    size_t to = 0;
    *valid = true;
    for (size_t at = 0; at < n;) {
        size_t len = char_at(p + at, n - at);
        if (len > 0) {
            memcpy(out + to, p + at, len);
            to += len;
            at += len;
            continue;
        }
        *valid = false;
        memcpy(out + to, "\xef\xbf\xbd", 3);
        to += 3;
        size_t bad = 1;
        while (at + bad < n && begins_one(p + at, bad + 1))
            bad++;
        at += bad;
    }
    return to;
}

static uint32_t hex4(const char *p)
{
    char t[5] = {p[0], p[1], p[2], p[3], 0};
    return (uint32_t)strtoul(t, NULL, 16);
}

/* Reads the inside of a JSON string. */
static size_t unescape(const char *p, size_t n, char *out)
{
    static const char from[] = "\"\\bfnrt", to[] = "\"\\\b\f\n\r\t";
    size_t len = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = (uint8_t)p[i];
        if (c < 0x20 || c == '"' || c == 0x7f)
            abort();
        if (c != '\\') {
            out[len++] = p[i];
        } else if (p[i + 1] == 'u') {
            uint32_t v = hex4(p + i + 2);
            if (n - i < 6 || v > 0x7f)
                abort();
            out[len++] = (char)v;
            i += 5;
        } else {
            const char *hit = n - i >= 2 ? strchr(from, p[i + 1]) : NULL;
            if (hit == NULL || *hit == '\0')
                abort();
            out[len++] = to[hit - from];
            i++;
        }
    }
    return len;
}

static void escape_at(const char *in, size_t n, size_t cap, const char *want, size_t want_n)
{
    static char out[6 * MOST + 8], back[6 * MOST];
    size_t to = 0, at = 0;
    while (at < n) {
        size_t used, w = sp_json_escape(in + at, n - at, out + to, cap, &used);
        if (w > cap || used == 0 || used > n - at)
            abort(); /* six bytes always make progress */
        at += used;
        to += w;
    }
    if (to != sp_json_escaped_len(in, n) || unescape(out, to, back) != want_n ||
        memcmp(back, want, want_n) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char once[3 * MOST], twice[9 * MOST], plain[3 * MOST];
    if (size > MOST)
        return 0;
    const char *in = (const char *)data;
    bool valid;
    size_t n = sp_utf8_repair(in, size, once), want = repair_plainly(data, size, plain, &valid);
    if (n != want || memcmp(once, plain, n) != 0 || sp_utf8_valid(in, size) != valid)
        abort();
    if (!sp_utf8_valid(once, n) || sp_utf8_repair(once, n, twice) != n ||
        memcmp(once, twice, n) != 0)
        abort();
    if (valid && (n != size || memcmp(once, in, n) != 0))
        abort();
    size_t whole = size;
    for (size_t k = 1; k <= 3 && k <= size; k++)
        if (begins_one(data + size - k, k))
            whole = size - k;
    if (sp_utf8_whole(in, size) != whole)
        abort();
    size_t a = sp_utf8_repair(in, whole, twice), b;
    b = sp_utf8_repair(in + whole, size - whole, twice + a);
    if (a + b != n || memcmp(once, twice, n) != 0)
        abort();
    escape_at(in, size, 6, once, n);
    escape_at(in, size, 6 * MOST, once, n);
    return 0;
}
