/* test_names.c: a folder's names are sorted as comparing their bytes sorts them, and each keeps its
 * type and its place among those that were added. */
#include "cell/names.h"

#include "unit.h"

#include <stdio.h>

#define MOST 20000u
#define LONGEST 255u

static struct sp_names s;
static char *model[MOST]; /* each with its type before it, in order of adding */
static size_t count;
static uint32_t seed = 1;

static uint32_t any(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static void add(const char *name, size_t n)
{
    unsigned char type = (unsigned char)any(256);
    char *m = malloc(n + 2);
    ck_assert_ptr_nonnull(m);
    m[0] = (char)type;
    memcpy(m + 1, name, n);
    m[n + 1] = '\0';
    model[count++] = m;
    ck_assert_int_eq(sp_names_add(&s, type, m + 1), 0);
}

static int by_model(const void *a, const void *b)
{
    return strcmp(*(char *const *)a + 1, *(char *const *)b + 1);
}

static void sorted(void)
{
    char **expect = malloc((count + 1) * sizeof *expect);
    ck_assert_ptr_nonnull(expect);
    memcpy(expect, model, count * sizeof *expect);
    qsort(expect, count, sizeof *expect, by_model);
    sp_names_sort(&s);
    ck_assert_uint_eq(s.count, count);
    for (size_t i = 0; i < count; i++) {
        unsigned char type;
        const char *name = sp_names_get(&s, i, &type);
        ck_assert_str_eq(name, expect[i] + 1);
        ck_assert_uint_lt(s.name[i].nr, count);
        ck_assert_str_eq(name, model[s.name[i].nr] + 1);
        ck_assert_uint_eq(type, (unsigned char)model[s.name[i].nr][0]);
    }
    free(expect);
    for (size_t i = 0; i < count; i++)
        free(model[i]);
    count = 0;
    sp_names_free(&s);
}

START_TEST(numbered)
{
    static const char *const before[] = {"", "f", "12345678", "a long beginning that all have "};
    static const size_t counts[] = {0, 1, 2, 63, 64, 65, 1000, MOST};
    char name[100];
    for (size_t i = 0; i < COUNT(before); i++)
        for (size_t k = 0; k < COUNT(counts); k++)
            for (int backwards = 0; backwards < 2; backwards++) {
                for (size_t n = 0; n < counts[k]; n++)
                    add(name, (size_t)snprintf(name, sizeof name, "%s%06zu", before[i],
                                               backwards ? counts[k] - n : n));
                sorted();
            }
}
END_TEST

/* Bytes of all values and lengths; few kinds of bytes, so that many begin alike, or are the same.
 */
START_TEST(random_names)
{
    char name[LONGEST];
    for (unsigned kinds = 1; kinds <= 256; kinds *= 2)
        for (unsigned longest = 1; longest <= LONGEST; longest += 18) {
            for (unsigned n = any(3000); n > 0; n--) {
                size_t len = 1 + any(longest);
                for (size_t i = 0; i < len; i++)
                    name[i] = (char)(1 + (any(kinds) + 127) % 255);
                add(name, len);
            }
            sorted();
        }
}
END_TEST

/* One is what all begin with; the eight bytes behind that end in the middle of others. */
START_TEST(beginnings)
{
    char name[LONGEST];
    memset(name, 'x', sizeof name);
    for (size_t n = LONGEST; n > 0; n--)
        add(name, n);
    sorted();
    for (size_t n = 0; n < 200; n++) {
        name[20 + n % 10] = (char)('a' + n % 7);
        add(name, 20 + any(100));
    }
    sorted();
}
END_TEST

UNIT_MAIN("names", numbered, random_names, beginnings)
