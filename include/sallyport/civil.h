/* civil.h: seconds since 1970 to and from the Gregorian calendar in UTC. Not gmtime(3): glibc's
 * opens /etc/localtime at its first call, which a confined process may not. Trusts nobody:
 * any number is taken. */
#ifndef SALLYPORT_CIVIL_H
#define SALLYPORT_CIVIL_H

#include <stdint.h>

struct sp_civil {
    int year, month, day; /* 1..9999, 1..12, 1..31 */
    int hour, minute, second;
    int weekday; /* 0: Sunday */
};

/* Clamped to the years 1 to 9999. */
struct sp_civil sp_civil_from(int64_t seconds);
/* Weekday is not looked at; the other fields must be in their ranges (day may be too large
 * for its month: it runs over into the next). */
int64_t sp_civil_to(const struct sp_civil *c);

#endif
