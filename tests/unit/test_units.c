/* test_units.c: what settings may say, and what they may not. */
#include "sallyport/units.h"

#include "unit.h"

typedef bool (*parse_fn)(const char *, uint64_t *);

static const struct {
    parse_fn parse;
    const char *text;
    uint64_t want;
} good[] = {
    {sp_parse_u64, "0", 0},
    {sp_parse_u64, "007", 7},
    {sp_parse_u64, "18446744073709551615", UINT64_MAX},
    {sp_parse_duration_ms, "30", 30000},
    {sp_parse_duration_ms, "0", 0},
    {sp_parse_duration_ms, "0s", 0},
    {sp_parse_duration_ms, "250ms", 250},
    {sp_parse_duration_ms, "1.5s", 1500},
    {sp_parse_duration_ms, "1.5", 1500},
    {sp_parse_duration_ms, "0.001", 1},
    {sp_parse_duration_ms, "1.0009", 1000},
    {sp_parse_duration_ms, "2m", 120000},
    {sp_parse_duration_ms, "0.5m", 30000},
    {sp_parse_duration_ms, "1h", 3600000},
    {sp_parse_duration_ms, "1d", 86400000},
    {sp_parse_duration_ms, "18446744073709551615ms", UINT64_MAX},
    {sp_parse_size, "4096", 4096},
    {sp_parse_size, "0", 0},
    {sp_parse_size, "7B", 7},
    {sp_parse_size, "64k", 65536},
    {sp_parse_size, "64K", 65536},
    {sp_parse_size, "64KiB", 65536},
    {sp_parse_size, "1.5M", 1572864},
    {sp_parse_size, "16MiB", 16777216},
    {sp_parse_size, "2g", 2147483648},
    {sp_parse_size, "1GiB", 1073741824},
    {sp_parse_size, "500kB", 500000},
    {sp_parse_size, "1MB", 1000000},
    {sp_parse_size, "1T", 1099511627776},
    {sp_parse_thousandths, "0", 0},
    {sp_parse_thousandths, "2", 2000},
    {sp_parse_thousandths, "1.5", 1500},
    {sp_parse_thousandths, "0.0019", 1},
    {sp_parse_size, "16777215T", 16777215u * 1099511627776u},
};

static const struct {
    parse_fn parse;
    const char *text;
} bad[] = {
    {sp_parse_u64, ""},
    {sp_parse_u64, "-1"},
    {sp_parse_u64, "+1"},
    {sp_parse_u64, " 1"},
    {sp_parse_u64, "1 "},
    {sp_parse_u64, "0x10"},
    {sp_parse_u64, "1k"},
    {sp_parse_u64, "18446744073709551616"},
    {sp_parse_u64, "99999999999999999999999"},
    {sp_parse_u64, NULL},
    {sp_parse_thousandths, NULL},
    {sp_parse_thousandths, ""},
    {sp_parse_thousandths, "-1"},
    {sp_parse_thousandths, "1,5"},
    {sp_parse_thousandths, "150%"},
    {sp_parse_thousandths, "0.0009"},
    {sp_parse_thousandths, "18446744073709551615"},
    {sp_parse_duration_ms, NULL},
    {sp_parse_duration_ms, ""},
    {sp_parse_duration_ms, "s"},
    {sp_parse_duration_ms, ".5s"},
    {sp_parse_duration_ms, "1."},
    {sp_parse_duration_ms, "1.s"},
    {sp_parse_duration_ms, "1.5.5"},
    {sp_parse_duration_ms, "-1s"},
    {sp_parse_duration_ms, "1 s"},
    {sp_parse_duration_ms, "1S"},
    {sp_parse_duration_ms, "1M"},
    {sp_parse_duration_ms, "1s "},
    {sp_parse_duration_ms, "1ss"},
    {sp_parse_duration_ms, "1e3"},
    {sp_parse_duration_ms, "nan"},
    {sp_parse_duration_ms, "0.0001"},
    {sp_parse_duration_ms, "0.5ms"},
    {sp_parse_duration_ms, "1.0000000001"},
    {sp_parse_duration_ms, "18446744073709551615"},
    {sp_parse_duration_ms, "18446744073709551d"},
    {sp_parse_size, NULL},
    {sp_parse_size, ""},
    {sp_parse_size, "k"},
    {sp_parse_size, "1 k"},
    {sp_parse_size, "1kb"},
    {sp_parse_size, "1kib"},
    {sp_parse_size, "1Ki"},
    {sp_parse_size, "1iB"},
    {sp_parse_size, "1kk"},
    {sp_parse_size, "1x"},
    {sp_parse_size, "0.5"},
    {sp_parse_size, "16777216T"},
    {sp_parse_size, "-4096"},
};

START_TEST(accepted)
{
    for (size_t i = 0; i < COUNT(good); i++) {
        uint64_t v = 12345;
        ck_assert_msg(good[i].parse(good[i].text, &v), "%s", good[i].text);
        ck_assert_msg(v == good[i].want, "%s: %ju", good[i].text, (uintmax_t)v);
    }
}
END_TEST

START_TEST(refused)
{
    for (size_t i = 0; i < COUNT(bad); i++) {
        uint64_t v = 12345;
        ck_assert_msg(!bad[i].parse(bad[i].text, &v), "%s", bad[i].text);
        ck_assert_msg(v == 12345, "%s touched its result", bad[i].text);
    }
}
END_TEST

START_TEST(booleans)
{
    static const char *const yes[] = {"1", "true", "YES", "On", "TRUE"};
    static const char *const no[] = {"0", "false", "No", "oFF"};
    static const char *const neither[] = {"", " 1", "1 ", "2", "y", "truee", "01", NULL};
    bool v = false;
    for (size_t i = 0; i < COUNT(yes); i++)
        ck_assert(sp_parse_bool(yes[i], &v) && v);
    for (size_t i = 0; i < COUNT(no); i++)
        ck_assert(sp_parse_bool(no[i], &v) && !v);
    for (size_t i = 0; i < COUNT(neither); i++)
        ck_assert(!sp_parse_bool(neither[i], &v));
}
END_TEST

UNIT_MAIN("units", accepted, refused, booleans)
