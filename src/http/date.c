/* date.c: IMF-fixdate (RFC 9110 5.6.7). The obsolete two forms are not read: a condition with
 * such a date is ignored, which is always safe. Input is a stranger's. */
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

bool sp_http_date_parse(struct sp_slice s, int64_t *t)
{
    if (!s.p || s.n != DATE_LEN)
        return false;
    struct sp_civil c = {.year = number(s.p + 12, 4),
                         .day = number(s.p + 5, 2),
                         .hour = number(s.p + 17, 2),
                         .minute = number(s.p + 20, 2),
                         .second = number(s.p + 23, 2)};
    for (int i = 0; i < 12; i++)
        if (memcmp(s.p + 8, months + 3 * i, 3) == 0)
            c.month = i + 1;
    if (c.year < 1 || c.month < 1 || c.day < 1 || c.hour < 0 || c.minute < 0 || c.second < 0)
        return false;
    /* One way to write a second: so a wrong weekday, the 30th of February, 24:00 or another
     * separator shows when it is written again. */
    char again[DATE_LEN + 1];
    int64_t v = sp_civil_to(&c);
    sp_http_date(v, again);
    if (memcmp(again, s.p, DATE_LEN) != 0)
        return false;
    *t = v;
    return true;
}
