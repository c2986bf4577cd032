/* test_http_target.c: percent encoding both ways and the one query. */
#include "sallyport/http.h"

#include "unit.h"

#include <stdio.h>

START_TEST(decode)
{
    static const struct {
        const char *in;
        struct sp_slice out; /* p NULL: refused */
    } t[] = {{"", SLICE("")},
             {"/a/b", SLICE("/a/b")},
             {"%41%6a%6A", SLICE("Ajj")},
             {"%00", SLICE("\0")}, /* sp_path_check's to refuse */
             {"%2f%2F", SLICE("//")},
             {"%252e", SLICE("%2e")}, /* once */
             {"%c3%A9%ff", SLICE("\xc3\xa9\xff")},
             {"-._~!$&'()*+,;=:@", SLICE("-._~!$&'()*+,;=:@")},
             {"a+b", SLICE("a+b")},
             {"%", {NULL, 0}},
             {"%4", {NULL, 0}},
             {"a%4", {NULL, 0}},
             {"%4g", {NULL, 0}},
             {"%g4", {NULL, 0}},
             {"%%41", {NULL, 0}},
             {"% 1", {NULL, 0}},
             {"%u0041", {NULL, 0}},
             {"%+1", {NULL, 0}},
             {"a b", {NULL, 0}},
             {"a?b", {NULL, 0}},
             {"a#b", {NULL, 0}},
             {"a\\b", {NULL, 0}},
             {"a\"b", {NULL, 0}},
             {"[a]", {NULL, 0}},
             {"{a}", {NULL, 0}},
             {"a|b", {NULL, 0}},
             {"a^b", {NULL, 0}},
             {"`", {NULL, 0}},
             {"<>", {NULL, 0}},
             {"\x01", {NULL, 0}},
             {"\x7f", {NULL, 0}},
             {"\xc3\xa9", {NULL, 0}}};
    for (size_t i = 0; i < COUNT(t); i++) {
        char out[64];
        size_t n = 99;
        bool ok = sp_pct_decode((struct sp_slice){t[i].in, strlen(t[i].in)}, out, &n);
        ck_assert_msg(ok == (t[i].out.p != NULL), "%s", t[i].in);
        if (ok) {
            ck_assert_uint_eq(n, t[i].out.n);
            ck_assert(n == 0 || memcmp(out, t[i].out.p, n) == 0);
        }
    }
    char out[4];
    size_t n;
    ck_assert(!sp_pct_decode(SLICE("a\0b"), out, &n));
    ck_assert(!sp_pct_decode((struct sp_slice){"%41", 2}, out, &n)); /* the digit is not ours */
}
END_TEST

START_TEST(all_bytes)
{
    char in[256], enc[768], dec[768];
    for (int i = 0; i < 256; i++)
        in[i] = (char)i;
    size_t n = sp_pct_encode(in, sizeof in, enc), back;
    ck_assert_uint_eq(n, 66 + 3 * 190);
    ck_assert(sp_pct_decode((struct sp_slice){enc, n}, dec, &back));
    ck_assert_uint_eq(back, 256);
    ck_assert_mem_eq(dec, in, 256);
    ck_assert_uint_eq(sp_pct_encode("/ a~", 4, enc), 8);
    ck_assert_mem_eq(enc, "%2F%20a~", 8);
}
END_TEST

START_TEST(query)
{
    static const struct {
        const char *q;
        int want; /* -1: refused */
    } t[] = {{"", 0},
             {"recursive=true", 1},
             {"recursive=1", 1},
             {"recursive=false", 0},
             {"recursive=0", 0},
             {"recursive", -1},
             {"recursive=", -1},
             {"recursive=yes", -1},
             {"recursive=TRUE", -1},
             {"recursive=truex", -1},
             {"recursive=%74rue", -1},
             {"Recursive=true", -1},
             {"recursiv=true", -1},
             {"recursivee=true", -1},
             {"recursive=true&", -1},
             {"&recursive=true", -1},
             {"recursive=true&recursive=true", -1},
             {"recursive=true&x=1", -1},
             {"x=1", -1},
             {"=true", -1},
             {"&", -1}};
    for (size_t i = 0; i < COUNT(t); i++) {
        bool v = true;
        bool ok = sp_query_bool((struct sp_slice){t[i].q, strlen(t[i].q)}, "recursive", &v);
        ck_assert_msg(ok == (t[i].want >= 0), "%s", t[i].q);
        ck_assert(!ok || v == (t[i].want == 1));
    }
}
END_TEST

UNIT_MAIN("http_target", decode, all_bytes, query)
