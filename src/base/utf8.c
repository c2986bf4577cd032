/* utf8.c: UTF-8 by Unicode's table 3-7, and JSON string escapes by RFC 8259. The input is what a
 * command printed or a file is called: trusted in nothing. */
#include "sallyport/utf8.h"

#include <stdint.h>
#include <string.h>

static const char replacement[3] = "\xef\xbf\xbd"; /* U+FFFD */

/* The length that a first byte announces (0: none), and the bounds of its second byte, in which
 * the exceptions of table 3-7 lie: no overlong form, no surrogate, nothing over U+10FFFF. */
static size_t lead(uint8_t c, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    if (c < 0xe0)
        return 2;
    if (c == 0xe0)
        *lo = 0xa0;
    if (c == 0xed)
        *hi = 0x9f;
    if (c < 0xf0)
        return 3;
    if (c == 0xf0)
        *lo = 0x90;
    if (c == 0xf4)
        *hi = 0x8f;
    return 4;
}

size_t sp_utf8_next(const char *p, size_t n, size_t *bad)
{
    uint8_t lo, hi;
    size_t len = lead((uint8_t)p[0], &lo, &hi);
    *bad = 1;
    for (size_t i = 1; i < len; i++) {
        if (i == n || (uint8_t)p[i] < lo || (uint8_t)p[i] > hi) {
            *bad = i;
            return 0;
        }
        lo = 0x80;
        hi = 0xbf;
    }
    return len;
}

bool sp_utf8_valid(const char *p, size_t n)
{
    for (size_t at = 0, bad; at < n;) {
        size_t len = sp_utf8_next(p + at, n - at, &bad);
        if (!len)
            return false;
        at += len;
    }
    return true;
}

size_t sp_utf8_whole(const char *p, size_t n)
{
    for (size_t k = 1; k <= 3 && k <= n; k++) {
        uint8_t lo, hi, c = (uint8_t)p[n - k];
        if (c >= 0x80 && c < 0xc0)
            continue; /* a following byte: its first byte is further left */
        size_t bad, len = lead(c, &lo, &hi);
        bool begun = len > k && sp_utf8_next(p + n - k, k, &bad) == 0 && bad == k;
        return begun ? n - k : n;
    }
    return n;
}

size_t sp_utf8_repair(const char *in, size_t n, char *out)
{
    size_t to = 0;
    for (size_t at = 0, bad; at < n;) {
        size_t len = sp_utf8_next(in + at, n - at, &bad);
        if (len) {
            memcpy(out + to, in + at, len);
            at += len;
            to += len;
        } else {
            memcpy(out + to, replacement, sizeof replacement);
            at += bad;
            to += sizeof replacement;
        }
    }
    return to;
}

static bool plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* How many bytes from p on stand in JSON as they are: nearly all of most texts, so eight at a time.
 */
static size_t plain_run(const char *p, size_t n)
{
    const uint64_t ones = UINT64_MAX / 255, highs = ones * 0x80;
    size_t i = 0;
    for (; n - i >= 8; i += 8) {
        uint64_t w;
        memcpy(&w, p + i, sizeof w);
        uint64_t quote = w ^ ones * '"', slash = w ^ ones * '\\', del = w ^ ones * 0x7f;
        /* A high bit, a byte below a blank, or one that became 0 (below 1). */
        uint64_t other = w | (w - ones * 0x20) | (quote - ones) | (slash - ones) | (del - ones);
        if ((other & highs) != 0)
            break;
    }
    while (i < n && plain((uint8_t)p[i]))
        i++;
    return i;
}

/* One character or ill-formed subpart at p as it stands in JSON: at most 6 bytes in out; *took of
 * the input. */
static size_t escape_one(const char *p, size_t n, char out[6], size_t *took)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt", hex[] = "0123456789abcdef";
    uint8_t c = (uint8_t)p[0];
    *took = 1;
    if (plain(c)) {
        out[0] = p[0];
        return 1;
    }
    if (c >= 0x80) {
        size_t bad, len = sp_utf8_next(p, n, &bad);
        *took = len ? len : bad;
        memcpy(out, len ? p : replacement, len ? len : sizeof replacement);
        return len ? len : sizeof replacement;
    }
    const char *hit = c ? strchr(from, c) : NULL;
    if (hit) {
        out[0] = '\\';
        out[1] = to[hit - from];
        return 2;
    }
    memcpy(out, "\\u00", 4);
    out[4] = hex[c >> 4];
    out[5] = hex[c & 15];
    return 6;
}

size_t sp_json_escaped_len(const char *in, size_t n)
{
    size_t sum = 0;
    for (size_t at = 0, took; at < n; at += took) {
        char one[6];
        took = plain_run(in + at, n - at);
        sum += took > 0 ? took : escape_one(in + at, n - at, one, &took);
    }
    return sum;
}

size_t sp_json_escape(const char *in, size_t n, char *out, size_t cap, size_t *used)
{
    size_t at = 0, to = 0;
    while (at < n) {
        size_t room = cap - to, run = plain_run(in + at, n - at < room ? n - at : room);
        memcpy(out + to, in + at, run);
        at += run;
        to += run;
        if (run > 0)
            continue;
        char one[6];
        size_t took, len = escape_one(in + at, n - at, one, &took);
        if (len > cap - to)
            break;
        memcpy(out + to, one, len);
        to += len;
        at += took;
    }
    *used = at;
    return to;
}
