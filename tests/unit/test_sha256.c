/* test_sha256.c: the examples of FIPS 180-4 and of NIST's test vectors, whole and in pieces. */
#include "sallyport/sha256.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char *hex_of(const char *p, size_t n, size_t piece)
{
    static char hex[65];
    uint8_t out[SP_SHA256_LEN];
    struct sp_sha256 s;
    sp_sha256_init(&s);
    for (size_t at = 0; at < n; at += piece)
        sp_sha256_add(&s, p + at, n - at < piece ? n - at : piece);
    sp_sha256_end(&s, out);
    sp_hex(out, sizeof out, hex);
    return hex;
}

START_TEST(vectors)
{
    static const struct {
        const char *text, *hex;
    } v[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
        {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrl"
         "mn"
         "opqrsmnopqrstnopqrstu",
         "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
    };
    for (size_t i = 0; i < sizeof v / sizeof *v; i++)
        for (size_t piece = 1; piece < 70; piece++)
            ck_assert_str_eq(hex_of(v[i].text, strlen(v[i].text), piece), v[i].hex);
}
END_TEST

START_TEST(million)
{
    char *a = malloc(1000000);
    ck_assert_ptr_nonnull(a);
    memset(a, 'a', 1000000);
    ck_assert_str_eq(hex_of(a, 1000000, 977),
                     "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(a);
}
END_TEST

START_TEST(compare)
{
    uint8_t a[SP_SHA256_LEN] = {0}, b[SP_SHA256_LEN] = {0};
    ck_assert(sp_same_digest(a, b));
    for (size_t i = 0; i < SP_SHA256_LEN; i++) {
        b[i] = 0x80;
        ck_assert(!sp_same_digest(a, b));
        b[i] = 0;
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sha256");
    TCase *t = tcase_create("sha256");
    tcase_add_test(t, vectors);
    tcase_add_test(t, million);
    tcase_add_test(t, compare);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failures = srunner_ntests_failed(r);
    srunner_free(r);
    return failures != 0;
}
