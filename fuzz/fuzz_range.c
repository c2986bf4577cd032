/* fuzz_range.c: ranges, dates, entity tags and the order of conditions (RFC 9110 13.2.2) beside
 * plain readings of their grammar. The input is lines: Range, If-Range, If-Match, If-None-Match,
 * If-Modified-Since, If-Unmodified-Since, Accept; an empty line is an absent field.
 * Covers: src/http/range.c src/http/cond.c src/http/date.c src/http/accept.c src/base/civil.c */
#include "sallyport/http.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FIELDS 7

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char tag[] = "1-2-3";
static const int64_t mtime = 784111777; /* Sun, 06 Nov 1994 08:49:37 GMT */

/* ---- ranges ---- */

/* Decimal digits as a comparison with a bound needs them: without leading zeros. */
static bool digits(const char **p, const char *end, const char **at, size_t *n)
{
    const char *s = *p;
    while (*p < end && isdigit((unsigned char)**p))
        ++*p;
    if (*p == s)
        return false;
    while (s < *p - 1 && *s == '0')
        s++;
    *at = s;
    *n = (size_t)(*p - s);
    return true;
}

/* The number, or bound where it is larger. */
static uint64_t upto(const char *s, size_t n, uint64_t bound)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%llu", (unsigned long long)bound);
    if (n > (size_t)len || (n == (size_t)len && memcmp(s, text, n) >= 0))
        return bound;
    uint64_t v = 0;
    for (size_t i = 0; i < n; i++)
        v = v * 10 + (uint64_t)(s[i] - '0');
    return v;
}

static bool less(const char *a, size_t an, const char *b, size_t bn)
{
    return an != bn ? an < bn : memcmp(a, b, an) < 0;
}

static enum sp_range_result range_plainly(struct sp_slice v, uint64_t size, uint64_t *a,
                                          uint64_t *b)
{
    const char *p = v.p, *end = v.p + v.n, *f = NULL, *l = NULL;
    size_t fn = 0, ln = 0;
    if (v.p == NULL || v.n < 6 || strncasecmp(p, "bytes=", 6) != 0)
        return SP_RANGE_NONE;
    p += 6;
    bool first = digits(&p, end, &f, &fn);
    if (p == end || *p++ != '-')
        return SP_RANGE_NONE;
    bool last = digits(&p, end, &l, &ln);
    if (p != end || (!first && !last))
        return SP_RANGE_NONE;
    if (!first) { /* the last so many */
        uint64_t want = upto(l, ln, size == 0 ? 1 : size);
        if (want == 0)
            return SP_RANGE_UNSATISFIABLE;
        *a = size - want;
        *b = size - 1;
        return size == 0 ? SP_RANGE_NONE : SP_RANGE_ONE;
    }
    /* Beyond 64 bits all numbers are the same to the daemon: no file is as long. */
    static const char most[] = "18446744073709551615";
    bool huge_l = last && !less(l, ln, most, sizeof most - 1);
    if (last && !huge_l && less(l, ln, f, fn))
        return SP_RANGE_NONE;
    *a = upto(f, fn, size);
    if (*a >= size)
        return SP_RANGE_UNSATISFIABLE;
    *b = last ? upto(l, ln, size - 1) : size - 1;
    return SP_RANGE_ONE;
}

static void check_range(struct sp_slice v)
{
    static const uint64_t sizes[] = {0, 1, 2, 1000, 1u << 30, INT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t a = 0, b = 0, c = 0, d = 0;
        enum sp_range_result r = sp_range_parse(v, sizes[i], &a, &b);
        if (r != range_plainly(v, sizes[i], &c, &d))
            abort();
        if (r == SP_RANGE_ONE && (a != c || b != d || a > b || b >= sizes[i]))
            abort();
    }
}

/* ---- dates ---- */

static void write_date(const struct tm *tm, char out[32])
{
    (void)snprintf(out, 32, "%.3s, %02d %.3s %04d %02d:%02d:%02d GMT",
                   &"SunMonTueWedThuFriSat"[3 * tm->tm_wday], tm -> tm_mday,
                   &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * tm->tm_mon], tm -> tm_year + 1900,
                   tm -> tm_hour, tm -> tm_min, tm -> tm_sec);
}

/* The two obsolete forms, by the same means. */
static bool old_date_plainly(const char *text, int64_t *t)
{
    static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                       "Thursday", "Friday", "Saturday"};
    char again[64];
    struct tm tm = {0};
    const char *end = strptime(text, "%a %b %e %H:%M:%S %Y", &tm);
    if (end != NULL && *end == '\0' && tm.tm_year >= -1899 && tm.tm_year <= 8099) {
        *t = timegm(&tm);
        for (int zero = 0; zero < 2; zero++) {
            (void)snprintf(again, sizeof again,
                           zero ? "%.3s %.3s %02d %02d:%02d:%02d %04d"
                                : "%.3s %.3s %2d %02d:%02d:%02d %04d",
                           days[tm.tm_wday], &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * tm.tm_mon],
                           tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, tm.tm_year + 1900);
            if (strcmp(again, text) == 0)
                return true;
        }
    }
    struct tm read = {0};
    end = strptime(text, "%A, %d-%b-%y %H:%M:%S GMT", &read);
    for (int century = 100; end != NULL && *end == '\0' && century >= 0; century -= 100) {
        tm = read;
        tm.tm_year = century + read.tm_year % 100;
        *t = timegm(&tm);
        (void)snprintf(again, sizeof again, "%s, %02d-%.3s-%02d %02d:%02d:%02d GMT",
                       days[tm.tm_wday], tm.tm_mday,
                       &"JanFebMarAprMayJunJulAugSepOctNovDec"[3 * tm.tm_mon], tm.tm_year % 100,
                       tm.tm_hour, tm.tm_min, tm.tm_sec);
        if (strcmp(again, text) == 0)
            return true;
    }
    return false;
}

/* libc's reading, which is loose, and what it read written again. */
static bool date_plainly(struct sp_slice s, int64_t *t)
{
    char text[40], again[32];
    struct tm tm = {0};
    if (s.p == NULL || s.n >= sizeof text || memchr(s.p, '\0', s.n) != NULL)
        return false;
    memcpy(text, s.p, s.n);
    text[s.n] = '\0';
    if (s.n != 29)
        return old_date_plainly(text, t);
    const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &tm);
    if (end == NULL || *end != '\0' || tm.tm_year < -1899 || tm.tm_year > 8099)
        return old_date_plainly(text, t);
    time_t v = timegm(&tm); /* corrects what isn't a date, and the weekday */
    write_date(&tm, again);
    *t = v;
    return strcmp(again, text) == 0 || old_date_plainly(text, t);
}

static bool check_date(struct sp_slice s, int64_t *t)
{
    int64_t v = 0, w = 0;
    bool ok = sp_http_date_parse(s, &v);
    if (ok != date_plainly(s, &w) || (ok && v != w))
        abort();
    *t = v;
    /* And the other way: from any 64 bits. */
    for (int shift = 0; s.p != NULL && s.n >= 8 && shift < 40; shift += 13) {
        char out[30], was[32];
        int64_t any, sec;
        struct tm tm;
        memcpy(&any, s.p, sizeof any);
        sec = any >>= shift;
        if (sec < -62135596800 || sec > 253402300799)
            sec = sec < 0 ? -62135596800 : 253402300799;
        sp_http_date(any, out);
        (void)gmtime_r(&sec, &tm);
        write_date(&tm, was);
        if (strcmp(out, was) != 0)
            abort();
    }
    return ok;
}

/* ---- tags ---- */

struct tags {
    bool good, any;       /* the list is one; it is "*" */
    bool strong_hit, hit; /* it holds ours */
    unsigned n;           /* elements */
    bool only_strong;
    const char *one;
    size_t one_n;
};

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Elements at commas outside quotes; each [W/]"..." between blanks, or nothing. */
static struct tags tags_plainly(struct sp_slice v)
{
    struct tags t = {.good = true, .only_strong = true};
    size_t from = 0;
    bool quoted = false;
    while (from < v.n && blank(v.p[from]))
        from++;
    size_t end = v.n;
    while (end > from && blank(v.p[end - 1]))
        end--;
    t.any = end - from == 1 && v.p[from] == '*';
    for (size_t i = from; i <= end && v.p != NULL; i++) {
        if (i < end && v.p[i] == '"')
            quoted = !quoted;
        if (i < end && (v.p[i] != ',' || quoted))
            continue;
        size_t a = from, b = i;
        from = i + 1;
        while (a < b && blank(v.p[a]))
            a++;
        while (b > a && blank(v.p[b - 1]))
            b--;
        if (a == b)
            continue;
        bool weak = b - a >= 2 && memcmp(v.p + a, "W/", 2) == 0;
        a += weak ? 2 : 0;
        const char *in = v.p + a + 1;
        if (b - a < 2 || v.p[a] != '"' || v.p[b - 1] != '"') {
            t.good = false;
            break;
        }
        size_t n = b - a - 2;
        if (memchr(in, '"', n) != NULL || memchr(in, ' ', n) != NULL ||
            memchr(in, '\t', n) != NULL) {
            t.good = false;
            break;
        }
        bool ours = n == sizeof tag - 1 && memcmp(in, tag, n) == 0;
        t.hit |= ours;
        t.strong_hit |= ours && !weak;
        t.only_strong &= !weak;
        t.n++;
        t.one = in;
        t.one_n = n;
    }
    return t;
}

static bool listed(struct sp_slice v, bool weak)
{
    struct sp_slice ours = {tag, sizeof tag - 1};
    struct tags t = tags_plainly(v);
    bool want = t.any || (t.good && (weak ? t.hit : t.strong_hit));
    if (sp_etag_listed(v, ours, weak) != want)
        abort();
    return want;
}

static bool single(struct sp_slice v)
{
    struct tags t = tags_plainly(v);
    struct sp_slice s = sp_etag_single(v);
    bool commas = false; /* one tag, not a list of one */
    for (size_t i = 0, q = 0; i < v.n; i++) {
        q ^= v.p[i] == '"';
        commas |= v.p[i] == ',' && !q;
    }
    bool want = t.good && !t.any && t.n == 1 && t.only_strong && !commas;
    if ((s.p != NULL) != want || (want && (s.p != t.one || s.n != t.one_n)))
        abort();
    return want && s.n == sizeof tag - 1 && memcmp(s.p, tag, s.n) == 0;
}

/* ---- all together ---- */

static int conditions(const struct sp_head *h, bool *use_range)
{
    int64_t t;
    bool date = check_date(h->if_range, &t);
    *use_range = h->if_range.p == NULL || single(h->if_range) || (date && t == mtime);
    date = check_date(h->if_unmodified_since, &t);
    if (h->if_match.p != NULL ? !listed(h->if_match, false) : date && mtime > t)
        return 412;
    date = check_date(h->if_modified_since, &t);
    if (h->if_none_match.p != NULL)
        return listed(h->if_none_match, true) ? 304 : 0;
    return date && mtime <= t ? 304 : 0;
}

/* A wildcard doesn't name it, and a stranger beside it changes nothing. */
static void check_accept(struct sp_slice v)
{
    static const char other[] = "image/png;q=1, ,";
    static char text[sizeof other + 1024];
    bool takes = sp_accept_events(v), named = false;
    for (size_t i = 0; i + 17 <= v.n; i++)
        named |= strncasecmp(v.p + i, "text/event-stream", 17) == 0;
    if (takes && !named)
        abort();
    if (v.p == NULL || v.n > 1024)
        return;
    memcpy(text, other, sizeof other - 1);
    memcpy(text + sizeof other - 1, v.p, v.n);
    if (sp_accept_events((struct sp_slice){text, sizeof other - 1 + v.n}) != takes)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sp_slice f[FIELDS] = {{NULL, 0}};
    const char *p = (const char *)data, *end = p + size;
    for (int i = 0; i < FIELDS && p < end; i++) {
        const char *lf = memchr(p, '\n', (size_t)(end - p)), *stop = lf != NULL ? lf : end;
        if (stop > p)
            f[i] = (struct sp_slice){p, (size_t)(stop - p)};
        p = stop < end ? stop + 1 : end;
    }
    for (int i = 0; i < FIELDS; i++)
        for (size_t k = 0; k < f[i].n; k++) /* as the head parser lets them through */
            if ((uint8_t)f[i].p[k] == 0x7f || ((uint8_t)f[i].p[k] < 0x20 && f[i].p[k] != '\t'))
                return 0;
    struct sp_head h = {.range = f[0],
                        .if_range = f[1],
                        .if_match = f[2],
                        .if_none_match = f[3],
                        .if_modified_since = f[4],
                        .if_unmodified_since = f[5]};
    check_range(h.range);
    bool use = false, want_use = false;
    int want = conditions(&h, &want_use);
    if (sp_conditions(&h, (struct sp_slice){tag, sizeof tag - 1}, mtime, &use) != want ||
        use != want_use)
        abort();
    check_accept(f[6]);
    return 0;
}
