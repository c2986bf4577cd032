/* test_http_range.c: byte ranges, dates, entity tags, and the order of conditions. */
#include "sallyport/http.h"

#include "unit.h"

static struct sp_slice str(const char *s)
{
    return (struct sp_slice){s, s ? strlen(s) : 0};
}

START_TEST(ranges)
{
    const enum sp_range_result none = SP_RANGE_NONE, one = SP_RANGE_ONE,
                               un = SP_RANGE_UNSATISFIABLE;
    const struct {
        const char *v;
        uint64_t size;
        enum sp_range_result r;
        uint64_t first, last;
    } t[] = {{"bytes=0-0", 10, one, 0, 0},
             {"bytes=0-9", 10, one, 0, 9},
             {"BYTES=2-5", 10, one, 2, 5},
             {"bytes=5-", 10, one, 5, 9},
             {"bytes=5-100", 10, one, 5, 9},
             {"bytes=5-99999999999999999999999", 10, one, 5, 9},
             {"bytes=-3", 10, one, 7, 9},
             {"bytes=-30", 10, one, 0, 9},
             {"bytes=-99999999999999999999999", 10, one, 0, 9},
             {"bytes=9-9", 10, one, 9, 9},
             {"bytes=10-", 10, un, 0, 0},
             {"bytes=10-20", 10, un, 0, 0},
             {"bytes=99999999999999999999999-", 10, un, 0, 0},
             {"bytes=-0", 10, un, 0, 0},
             {"bytes=0-", 0, un, 0, 0},
             {"bytes=-5", 0, none, 0, 0},
             {"bytes=0-18446744073709551615", UINT64_MAX, one, 0, UINT64_MAX - 1},
             {NULL, 10, none, 0, 0},
             {"", 10, none, 0, 0},
             {"bytes", 10, none, 0, 0},
             {"bytes=", 10, none, 0, 0},
             {"bytes=-", 10, none, 0, 0},
             {"bytes=5", 10, none, 0, 0},
             {"bytes=5-4", 10, none, 0, 0},
             {"bytes=0-1,3-4", 10, none, 0, 0},
             {"bytes=0-1,", 10, none, 0, 0},
             {"bytes=,0-1", 10, none, 0, 0},
             {"bytes= 0-1", 10, none, 0, 0},
             {"bytes=0 -1", 10, none, 0, 0},
             {"bytes=0-1 ", 10, none, 0, 0},
             {"bytes =0-1", 10, none, 0, 0},
             {"bytes=+0-1", 10, none, 0, 0},
             {"bytes=0--1", 10, none, 0, 0},
             {"bytes=--1", 10, none, 0, 0},
             {"bytes=0x0-1", 10, none, 0, 0},
             {"bytes=a-b", 10, none, 0, 0},
             {"items=0-1", 10, none, 0, 0},
             {"bytes:0-1", 10, none, 0, 0}};
    for (size_t i = 0; i < COUNT(t); i++) {
        uint64_t first = 0, last = 0;
        ck_assert_msg(sp_range_parse(str(t[i].v), t[i].size, &first, &last) == t[i].r, "%s",
                      t[i].v);
        ck_assert_msg(first == t[i].first && last == t[i].last, "%s", t[i].v);
    }
}
END_TEST

START_TEST(dates)
{
    static const struct {
        int64_t t;
        const char *s;
    } t[] = {{0, "Thu, 01 Jan 1970 00:00:00 GMT"},
             {784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
             {951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
             {1709251199, "Thu, 29 Feb 2024 23:59:59 GMT"},
             {-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
             {4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
             {-62135596800, "Mon, 01 Jan 0001 00:00:00 GMT"},
             {253402300799, "Fri, 31 Dec 9999 23:59:59 GMT"}};
    char out[30];
    int64_t back;
    for (size_t i = 0; i < COUNT(t); i++) {
        sp_http_date(t[i].t, out);
        ck_assert_str_eq(out, t[i].s);
        ck_assert(sp_http_date_parse(str(out), &back) && back == t[i].t);
    }
    for (int64_t s = -62135596800; s < 253402300799; s += 86400 * 97 + 12345) {
        sp_http_date(s, out);
        ck_assert(sp_http_date_parse(str(out), &back) && back == s);
    }
    sp_http_date(INT64_MIN, out);
    ck_assert_str_eq(out, "Mon, 01 Jan 0001 00:00:00 GMT");
    sp_http_date(INT64_MAX, out);
    ck_assert_str_eq(out, "Fri, 31 Dec 9999 23:59:59 GMT");
}
END_TEST

START_TEST(old_dates)
{
    static const struct {
        int64_t t;
        const char *s;
    } t[] = {{784111777, "Sunday, 06-Nov-94 08:49:37 GMT"},
             {784111777, "Sun Nov  6 08:49:37 1994"},
             {784111777, "Sun Nov 06 08:49:37 1994"},
             {951782400, "Tuesday, 29-Feb-00 00:00:00 GMT"},
             {951782400, "Tue Feb 29 00:00:00 2000"},
             {1700000000, "Tuesday, 14-Nov-23 22:13:20 GMT"},
             {1700000000, "Tue Nov 14 22:13:20 2023"},
             {-1, "Wednesday, 31-Dec-69 23:59:59 GMT"},
             {3155759999, "Saturday, 31-Dec-69 23:59:59 GMT" /* in 2069 it is a Tuesday */}};
    int64_t v = 0;
    for (size_t i = 0; i < COUNT(t) - 1; i++)
        ck_assert_msg(sp_http_date_parse(str(t[i].s), &v) && v == t[i].t, "%s", t[i].s);
    ck_assert(!sp_http_date_parse(str(t[COUNT(t) - 1].s), &v));
    ck_assert(sp_http_date_parse(str("Tuesday, 31-Dec-69 23:59:59 GMT"), &v));
    ck_assert_int_eq(v, 3155759999);
}
END_TEST

START_TEST(bad_dates)
{
    static const char *const t[] = {"",
                                    "Monday, 06-Nov-94 08:49:37 GMT", /* in 2094 it is a Saturday */
                                    "Sun, 06-Nov-94 08:49:37 GMT",
                                    "Sunday, 06-Nov-1994 08:49:37 GMT",
                                    "Sunday, 6-Nov-94 08:49:37 GMT",
                                    "Sundaysday, 06-Nov-94 08:49:37 GMT",
                                    "Tuesday, 29-Feb-01 00:00:00 GMT",
                                    "Sunday, 06-Nov-94 08:49:37",
                                    "Sunday",
                                    "Sun",
                                    "Sun Nov 6 08:49:37 1994",
                                    "Sun Nov  6 08:49:37 94",
                                    "Mon Nov  6 08:49:37 1994",
                                    "Sun Nov   08:49:37 1994",
                                    "Sun Nov  0 08:49:37 1994",
                                    "Sun Nov  6 08:49:37 1994 GMT",
                                    "Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
                                    "sun, 06 Nov 1994 08:49:37 GMT",
                                    "Sun, 06 nov 1994 08:49:37 GMT",
                                    "Sun, 06 Nov 1994 08:49:37 UTC",
                                    "Sun, 06 Nov 1994 08:49:37 GMT ",
                                    " Sun, 06 Nov 1994 08:49:37 GMT",
                                    "Sun, 6 Nov 1994 08:49:37 GMT",
                                    "Sun, 06 Nov 1994 8:49:37 GMT",
                                    "Sun, 06 Nov 1994 24:00:00 GMT",
                                    "Sun, 06 Nov 1994 08:60:37 GMT",
                                    "Sun, 06 Nov 1994 08:49:60 GMT",
                                    "Sun, 06 Nov 1994 08-49-37 GMT",
                                    "Thu, 30 Feb 2024 00:00:00 GMT",
                                    "Fri, 30 Feb 2024 00:00:00 GMT",
                                    "Sun, 00 Nov 1994 08:49:37 GMT",
                                    "Sun, 06 Xxx 1994 08:49:37 GMT",
                                    "Sun, -6 Nov 1994 08:49:37 GMT",
                                    "Sun, 06 Nov 0000 08:49:37 GMT",
                                    "Sun, 06 anF 1994 08:49:37 GMT"};
    int64_t v;
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_msg(!sp_http_date_parse(str(t[i]), &v), "%s", t[i]);
    ck_assert(!sp_http_date_parse((struct sp_slice){NULL, 0}, &v));
}
END_TEST

START_TEST(tags)
{
    static const struct {
        const char *list;
        bool strong, weak;
        const char *single;
    } t[] = {{"\"a\"", true, true, "a"},
             {" \"a\"\t", true, true, "a"},
             {"W/\"a\"", false, true, NULL},
             {"\"b\"", false, false, "b"},
             {"\"\"", false, false, ""},
             {"\"b\", \"a\"", true, true, NULL},
             {"\"b\",\"a\"", true, true, NULL},
             {",, \"a\" ,", true, true, NULL},
             {"W/\"b\", W/\"a\"", false, true, NULL},
             {"*", true, true, NULL},
             {" * ", true, true, NULL},
             {"", false, false, NULL},
             {"a", false, false, NULL},
             {"\"a", false, false, NULL},
             {"a\"", false, false, NULL},
             {"w/\"a\"", false, false, NULL},
             {"W/ \"a\"", false, false, NULL},
             {"W/", false, false, NULL},
             {"\"", false, false, NULL},
             {"\"a\" \"b\"", false, false, NULL},
             {"\"a\", b", false, false, NULL},
             {"\"a\", *", false, false, NULL},
             {"*, \"a\"", false, false, NULL},
             {"\"a b\"", false, false, NULL},
             {"\"aa\"", false, false, "aa"},
             {"\"x,\"", false, false, "x,"},
             {"\"x,\", \"a\"", true, true, NULL}};
    for (size_t i = 0; i < COUNT(t); i++) {
        ck_assert_msg(sp_etag_listed(str(t[i].list), str("a"), false) == t[i].strong, "%s",
                      t[i].list);
        ck_assert_msg(sp_etag_listed(str(t[i].list), str("a"), true) == t[i].weak, "%s", t[i].list);
        struct sp_slice s = sp_etag_single(str(t[i].list));
        ck_assert_msg((s.p != NULL) == (t[i].single != NULL), "%s", t[i].list);
        ck_assert(!s.p || (s.n == strlen(t[i].single) && memcmp(s.p, t[i].single, s.n) == 0));
    }
    ck_assert(!sp_etag_listed(str("\"\""), (struct sp_slice){NULL, 0}, true));
    ck_assert(sp_etag_listed(str("*"), (struct sp_slice){NULL, 0}, true));
}
END_TEST

#define AT "Sun, 06 Nov 1994 08:49:37 GMT"     /* the file's own time */
#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT" /* a second earlier */
#define AFTER "Sun, 06 Nov 1994 08:49:38 GMT"

START_TEST(conditions)
{
    static const struct {
        const char *match, *unmodified, *none, *modified, *if_range;
        int want;
        bool range;
    } t[] = {
        {NULL, NULL, NULL, NULL, NULL, 0, true},
        {"\"a\"", NULL, NULL, NULL, NULL, 0, true},
        {"*", NULL, NULL, NULL, NULL, 0, true},
        {"\"b\"", NULL, NULL, NULL, NULL, 412, true},
        {"W/\"a\"", NULL, NULL, NULL, NULL, 412, true}, /* strong comparison */
        {"nonsense", NULL, NULL, NULL, NULL, 412, true},
        {"", NULL, NULL, NULL, NULL, 412, true},
        {NULL, AT, NULL, NULL, NULL, 0, true},
        {NULL, AFTER, NULL, NULL, NULL, 0, true},
        {NULL, BEFORE, NULL, NULL, NULL, 412, true},
        {NULL, "nonsense", NULL, NULL, NULL, 0, true},
        {"\"a\"", BEFORE, NULL, NULL, NULL, 0, true}, /* If-Match counts alone */
        {NULL, NULL, "\"a\"", NULL, NULL, 304, true},
        {NULL, NULL, "W/\"a\"", NULL, NULL, 304, true},
        {NULL, NULL, "*", NULL, NULL, 304, true},
        {NULL, NULL, "\"b\"", NULL, NULL, 0, true},
        {NULL, NULL, "\"b\"", AFTER, NULL, 0, true}, /* so does If-None-Match */
        {NULL, NULL, NULL, AT, NULL, 304, true},
        {NULL, NULL, NULL, AFTER, NULL, 304, true},
        {NULL, NULL, NULL, BEFORE, NULL, 0, true},
        {NULL, NULL, NULL, "nonsense", NULL, 0, true},
        {"\"a\"", NULL, "\"a\"", NULL, NULL, 304, true},
        {"\"b\"", NULL, "\"a\"", NULL, NULL, 412, true},
        {NULL, BEFORE, NULL, AFTER, NULL, 412, true},
        {NULL, NULL, NULL, NULL, "\"a\"", 0, true},
        {NULL, NULL, NULL, NULL, "\"b\"", 0, false},
        {NULL, NULL, NULL, NULL, "W/\"a\"", 0, false},
        {NULL, NULL, NULL, NULL, "*", 0, false},
        {NULL, NULL, NULL, NULL, "\"a\", \"b\"", 0, false},
        {NULL, NULL, NULL, NULL, AT, 0, true},
        {NULL, NULL, NULL, NULL, BEFORE, 0, false},
        {NULL, NULL, NULL, NULL, AFTER, 0, false}, /* exactly, not "since" */
        {NULL, NULL, NULL, NULL, "", 0, false},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        struct sp_head h = {.if_match = str(t[i].match),
                            .if_unmodified_since = str(t[i].unmodified),
                            .if_none_match = str(t[i].none),
                            .if_modified_since = str(t[i].modified),
                            .if_range = str(t[i].if_range)};
        bool range = !t[i].range;
        ck_assert_msg(sp_conditions(&h, str("a"), 784111777, &range) == t[i].want, "row %zu", i);
        ck_assert_msg(range == t[i].range, "row %zu", i);
    }
}
END_TEST

UNIT_MAIN("http_range", ranges, dates, old_dates, bad_dates, tags, conditions)
