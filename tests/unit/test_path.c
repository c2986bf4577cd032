/* test_path.c: the path rule, on bytes that a client may send. */
#include "sallyport/proto.h"

#include "unit.h"

START_TEST(table)
{
    static const struct {
        struct sp_slice path;
        bool ok;
    } t[] = {
        {{"", 0}, true},
        {{NULL, 0}, true},
        {{"a", 1}, true},
        {{"a/b/c", 5}, true},
        {{"...", 3}, true},
        {{"..a", 3}, true},
        {{"a..", 3}, true},
        {{".a", 2}, true},
        {{".git/config", 11}, true},
        {{" ", 1}, true},
        {{"\\..\\x", 5}, true},
        {{"%2e%2e", 6}, true}, /* decoded once, so this is a name */
        {{"\xff\xfe", 2}, true},
        {{"a\nb", 3}, true},
        {{"/", 1}, false},
        {{"/a", 2}, false},
        {{"a/", 2}, false},
        {{"a//b", 4}, false},
        {{"//", 2}, false},
        {{".", 1}, false},
        {{"..", 2}, false},
        {{"a/.", 3}, false},
        {{"a/..", 4}, false},
        {{"./a", 3}, false},
        {{"../a", 4}, false},
        {{"a/../b", 6}, false},
        {{"a/./b", 5}, false},
        {{"\0", 1}, false},
        {{"a\0", 2}, false},
        {{"a\0b", 3}, false},
        {{"a/\0", 3}, false},
        {{"..\0", 3}, false},
    };
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_msg(sp_path_check(t[i].path.p, t[i].path.n) == (t[i].ok ? SP_OK : SP_E_BAD_PATH),
                      "row %zu", i);
}
END_TEST

START_TEST(lengths)
{
    char p[SP_PATH_BYTES_MAX + 2];
    memset(p, 'x', sizeof p);
    ck_assert_int_eq(sp_path_check(p, 255), SP_OK);
    ck_assert_int_eq(sp_path_check(p, 256), SP_E_BAD_PATH);
    p[255] = '/';
    ck_assert_int_eq(sp_path_check(p, 511), SP_OK);
    ck_assert_int_eq(sp_path_check(p, 512), SP_E_BAD_PATH);
    for (size_t i = 1; i < sizeof p; i += 2)
        p[i] = '/';
    for (size_t i = 0; i < sizeof p; i += 2)
        p[i] = 'x';
    ck_assert_int_eq(sp_path_check(p, SP_PATH_BYTES_MAX - 1), SP_OK);
    p[SP_PATH_BYTES_MAX - 1] = 'y';
    ck_assert_int_eq(sp_path_check(p, SP_PATH_BYTES_MAX), SP_OK);
    ck_assert_int_eq(sp_path_check(p, SP_PATH_BYTES_MAX + 1), SP_E_BAD_PATH);
}
END_TEST

UNIT_MAIN("path", table, lengths)
