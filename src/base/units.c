/* units.c: numbers with units from settings and policies. Trusts nobody to have typed them
 * right: what isn't wholly understood is refused, never guessed. */
#include "sallyport/units.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#define FRACTION_MAX 9 /* digits after the point */

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits from *s, at least one, into *v. */
static bool digits(const char **s, uint64_t *v)
{
    const char *p = *s;
    *v = 0;
    for (; digit(*p); p++) {
        if (__builtin_mul_overflow(*v, 10u, v) ||
            __builtin_add_overflow(*v, (uint64_t)(*p - '0'), v))
            return false;
    }
    bool some = p != *s;
    *s = p;
    return some;
}

bool sp_parse_u64(const char *s, uint64_t *out)
{
    uint64_t v;
    if (!s || !digits(&s, &v) || *s)
        return false;
    *out = v;
    return true;
}

/* A number as whole + part / base, so that no floating point rounds it. */
struct decimal {
    uint64_t whole, part, base;
};

static bool decimal(const char **s, struct decimal *d)
{
    d->part = 0;
    d->base = 1;
    if (!digits(s, &d->whole))
        return false;
    if (**s != '.')
        return true;
    ++*s;
    int n = 0;
    for (; digit(**s); ++*s, n++) {
        if (n == FRACTION_MAX)
            return false;
        d->part = d->part * 10 + (uint64_t)(**s - '0');
        d->base *= 10;
    }
    return n > 0;
}

/* d * unit, rounded down. What is more than nothing must not become 0: 0 often means "no limit". */
static bool scale(const struct decimal *d, uint64_t unit, uint64_t *out)
{
    uint64_t v;
    if (__builtin_mul_overflow(d->whole, unit, &v))
        return false;
    unsigned __int128 rest = (unsigned __int128)d->part * unit / d->base; /* below unit */
    if (__builtin_add_overflow(v, (uint64_t)rest, &v))
        return false;
    if (v == 0 && (d->whole || d->part))
        return false;
    *out = v;
    return true;
}

bool sp_parse_duration_ms(const char *s, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    struct decimal d;
    if (!s || !decimal(&s, &d))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(s, units[i].name) == 0)
            return scale(&d, units[i].ms, out);
    return false;
}

bool sp_parse_size(const char *s, uint64_t *out)
{
    static const char letters[] = "kmgt";
    struct decimal d;
    if (!s || !decimal(&s, &d))
        return false;
    int power = 0;
    for (int i = 0; letters[i]; i++)
        if (*s && (*s | 0x20) == letters[i])
            power = i + 1;
    uint64_t step = 1024;
    if (power) {
        s++;
        if (strcmp(s, "B") == 0)
            step = 1000;
        else if (*s && strcmp(s, "iB") != 0)
            return false;
    } else if (*s && strcmp(s, "B") != 0) {
        return false;
    }
    uint64_t unit = 1;
    while (power-- > 0)
        unit *= step;
    return scale(&d, unit, out);
}

bool sp_parse_thousandths(const char *s, uint64_t *out)
{
    struct decimal d;
    return s && decimal(&s, &d) && *s == '\0' && scale(&d, 1000, out);
}

bool sp_parse_bool(const char *s, bool *out)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"false", "true"}, {"no", "yes"}, {"off", "on"}};
    for (size_t i = 0; s && i < sizeof words / sizeof *words; i++)
        for (int v = 0; v < 2; v++)
            if (strcasecmp(s, words[i][v]) == 0) {
                *out = v == 1;
                return true;
            }
    return false;
}
