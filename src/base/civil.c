/* civil.c: calendar arithmetic in UTC without libc's time zone code, on eras of 400 years that
 * begin in March, so that the leap day is the last of its year. Trusts nobody: see civil.h. */
#include "sallyport/civil.h"

#define DAY 86400
#define ERA 146097         /* days in 400 years */
#define EPOCH 719468       /* days from 0000-03-01 to 1970-01-01 */
#define MIN (-62135596800) /* 0001-01-01 00:00:00 */
#define MAX 253402300799   /* 9999-12-31 23:59:59 */

struct sp_civil sp_civil_from(int64_t t)
{
    if (t < MIN)
        t = MIN;
    if (t > MAX)
        t = MAX;
    int64_t days = t / DAY, rest = t % DAY;
    if (rest < 0) {
        rest += DAY;
        days--;
    }
    int64_t weekday = (days + 4) % 7; /* 1970-01-01 was a Thursday */
    days += EPOCH;                    /* not negative any more: MIN is in the year 1 */
    int64_t era = days / ERA, of_era = days % ERA;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / (ERA - 1)) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153; /* 0: March */
    return (struct sp_civil){
        .year = (int)(year + era * 400 + (month >= 10)),
        .month = (int)(month < 10 ? month + 3 : month - 9),
        .day = (int)(of_year - (153 * month + 2) / 5 + 1),
        .hour = (int)(rest / 3600),
        .minute = (int)(rest / 60 % 60),
        .second = (int)(rest % 60),
        .weekday = (int)(weekday < 0 ? weekday + 7 : weekday),
    };
}

int64_t sp_civil_to(const struct sp_civil *c)
{
    int64_t year = c->year - (c->month <= 2);
    int64_t era = year / 400, of_era = year % 400;
    int64_t month = c->month > 2 ? c->month - 3 : c->month + 9;
    int64_t of_year = (153 * month + 2) / 5 + c->day - 1;
    int64_t days = era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year - EPOCH;
    return days * DAY + c->hour * 3600 + c->minute * 60 + c->second;
}
