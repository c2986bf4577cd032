/* date.c: the dates of HTTP (RFC 9110 5.6.7): IMF-fixdate is written; the two obsolete forms are
 * read, too, as a condition with a date that isn't one is ignored, and a PUT or a DELETE then
 * changes what it should have left alone. Input is a stranger's. */
#include "sallyport/http.h"

#include "sallyport/civil.h"

#include <string.h>

#define DATE_LEN 29

static const char days[] = "SunMonTueWedThuFriSat";
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

static void put(char *out, int v, int digits)
{
    while (digits-- > 0) {
        out[digits] = (char)('0' + v % 10);
        v /= 10;
    }
}

void sp_http_date(int64_t t, char *out)
{
    struct sp_civil c = sp_civil_from(t);
    memcpy(out, "ddd, 00 mmm 0000 00:00:00 GMT", DATE_LEN + 1);
    memcpy(out, days + 3 * c.weekday, 3);
    put(out + 5, c.day, 2);
    memcpy(out + 8, months + 3 * (c.month - 1), 3);
    put(out + 12, c.year, 4);
    put(out + 17, c.hour, 2);
    put(out + 20, c.minute, 2);
    put(out + 23, c.second, 2);
}

static int number(const char *p, int digits)
{
    int v = 0;
    for (int i = 0; i < digits; i++) {
        if (p[i] < '0' || p[i] > '9')
            return -1;
        v = v * 10 + (p[i] - '0');
    }
    return v;
}

/* The start of s is the English name of a day, at full length or of three letters; its number, or
 * -1. */
static int day_name(struct sp_slice s, bool whole, size_t *len)
{
    static const char *const rest[] = {"day", "day", "sday", "nesday", "rsday", "day", "urday"};
    for (int i = 0; i < 7; i++) {
        size_t more = whole ? strlen(rest[i]) : 0;
        if (s.n < 3 + more || memcmp(s.p, days + 3 * i, 3) != 0 ||
            memcmp(s.p + 3, rest[i], more) != 0)
            continue;
        *len = 3 + more;
        return i;
    }
    return -1;
}

static int month_name(const char *p)
{
    for (int i = 0; i < 12; i++)
        if (memcmp(p, months + 3 * i, 3) == 0)
            return i + 1;
    return -1;
}

/* hh:mm:ss */
static void clock_time(const char *p, struct sp_civil *c)
{
    bool ok = p[2] == ':' && p[5] == ':';
    c->hour = ok ? number(p, 2) : -1;
    c->minute = number(p + 3, 2);
    c->second = number(p + 6, 2);
}

/* True if there is such a day, and it was that weekday. */
static bool real(const struct sp_civil *c, int64_t *t)
{
    if (c->year < 1 || c->month < 1 || c->day < 1 || c->day > 31 || c->hour < 0 || c->hour > 23 ||
        c->minute < 0 || c->minute > 59 || c->second < 0 || c->second > 59)
        return false;
    int64_t v = sp_civil_to(c);
    struct sp_civil again = sp_civil_from(v);
    if (again.day != c->day || again.weekday != c->weekday)
        return false;
    *t = v;
    return true;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static bool fixed(struct sp_slice s, int64_t *t)
{
    size_t n;
    struct sp_civil c = {.weekday = day_name(s, false, &n)};
    if (s.n != DATE_LEN || c.weekday < 0 || memcmp(s.p + 3, ", ", 2) != 0 || s.p[7] != ' ' ||
        s.p[11] != ' ' || s.p[16] != ' ' || memcmp(s.p + 25, " GMT", 4) != 0)
        return false;
    c.day = number(s.p + 5, 2);
    c.month = month_name(s.p + 8);
    c.year = number(s.p + 12, 4);
    clock_time(s.p + 17, &c);
    return real(&c, t);
}

/* "Sunday, 06-Nov-94 08:49:37 GMT". The weekday tells the century: no two that follow each other
 * have the same one on a date. So no clock is asked which of them is more than 50 years ahead. */
static bool rfc850(struct sp_slice s, int64_t *t)
{
    size_t n;
    struct sp_civil c = {.weekday = day_name(s, true, &n)};
    if (c.weekday < 0 || s.n != n + 24 || memcmp(s.p + n, ", ", 2) != 0 || s.p[n + 4] != '-' ||
        s.p[n + 8] != '-' || s.p[n + 11] != ' ' || memcmp(s.p + n + 20, " GMT", 4) != 0)
        return false;
    int year = number(s.p + n + 9, 2);
    c.day = number(s.p + n + 2, 2);
    c.month = month_name(s.p + n + 5);
    clock_time(s.p + n + 12, &c);
    for (int century = 2000; year >= 0 && century >= 1900; century -= 100) {
        c.year = century + year;
        if (real(&c, t))
            return true;
    }
    return false;
}

/* "Sun Nov  6 08:49:37 1994" */
static bool asctime_form(struct sp_slice s, int64_t *t)
{
    size_t n;
    struct sp_civil c = {.weekday = day_name(s, false, &n)};
    if (s.n != 24 || c.weekday < 0 || s.p[3] != ' ' || s.p[7] != ' ' || s.p[10] != ' ' ||
        s.p[19] != ' ')
        return false;
    c.month = month_name(s.p + 4);
    c.day = s.p[8] == ' ' ? number(s.p + 9, 1) : number(s.p + 8, 2);
    clock_time(s.p + 11, &c);
    c.year = number(s.p + 20, 4);
    return real(&c, t);
}

bool sp_http_date_parse(struct sp_slice s, int64_t *t)
{
    return s.p != NULL && (fixed(s, t) || rfc850(s, t) || asctime_form(s, t));
}
