/* test_err.c: the code table is complete, agrees with docs/api.md's statuses, and survives any
 * number. */
#include "sallyport/err.h"

#include "unit.h"

#include <errno.h>

START_TEST(complete)
{
    for (uint32_t i = 1; i < SP_E_COUNT; i++) {
        enum sp_err e = (enum sp_err)i;
        ck_assert(sp_err_valid(i));
        ck_assert_ptr_nonnull(sp_err_name(e));
        ck_assert(sp_err_status(e) >= 400 && sp_err_status(e) < 600);
        const char *text = sp_err_text(e);
        ck_assert_ptr_nonnull(text);
        ck_assert_int_eq(text[strlen(text) - 1], '.');
        for (const char *p = sp_err_name(e); *p; p++)
            ck_assert(*p == '_' || (*p >= 'a' && *p <= 'z'));
        for (uint32_t k = 1; k < i; k++)
            ck_assert_str_ne(sp_err_name(e), sp_err_name((enum sp_err)k));
    }
}
END_TEST

START_TEST(invalid)
{
    static const uint32_t bad[] = {0, SP_E_COUNT, SP_E_COUNT + 1, 65535, UINT32_MAX};
    for (size_t i = 0; i < COUNT(bad); i++) {
        ck_assert(!sp_err_valid(bad[i]));
        ck_assert_str_eq(sp_err_name((enum sp_err)bad[i]), "internal");
        ck_assert_int_eq(sp_err_status((enum sp_err)bad[i]), 500);
        ck_assert_str_eq(sp_err_text((enum sp_err)bad[i]), sp_err_text(SP_E_INTERNAL));
    }
}
END_TEST

START_TEST(documented)
{
    static const struct {
        const char *name;
        int status;
    } doc[] = {{"bad_request", 400},
               {"bad_json", 400},
               {"bad_field", 400},
               {"bad_path", 400},
               {"bad_query", 400},
               {"link_loop", 400},
               {"not_a_directory", 400},
               {"forbidden", 403},
               {"outside_workspace", 403},
               {"no_route", 404},
               {"not_found", 404},
               {"bad_method", 405},
               {"timeout", 408},
               {"busy", 409},
               {"not_empty", 409},
               {"is_a_directory", 409},
               {"not_a_directory_conflict", 409},
               {"not_a_file", 409},
               {"precondition_failed", 412},
               {"body_too_large", 413},
               {"command_too_long", 413},
               {"uri_too_long", 414},
               {"bad_media_type", 415},
               {"bad_range", 416},
               {"bad_expectation", 417},
               {"headers_too_large", 431},
               {"internal", 500},
               {"spawn_failed", 500},
               {"unknown_method", 501},
               {"cell_lost", 503},
               {"draining", 503},
               {"overloaded", 503},
               {"bad_version", 505},
               {"no_space", 507},
               {"unauthorized", 401},
               {"bad_identity", 400},
               {"is_directory", 400},
               {"quota_exceeded", 507}};
    ck_assert_uint_eq(COUNT(doc), SP_E_COUNT - 1);
    for (size_t i = 0; i < COUNT(doc); i++) {
        bool found = false;
        for (int e = 1; e < SP_E_COUNT; e++)
            if (strcmp(doc[i].name, sp_err_name((enum sp_err)e)) == 0) {
                found = true;
                ck_assert_int_eq(sp_err_status((enum sp_err)e), doc[i].status);
            }
        ck_assert_msg(found, "%s", doc[i].name);
    }
}
END_TEST

START_TEST(from_errno)
{
    static const struct {
        int err;
        enum sp_err e;
    } t[] = {{ENOENT, SP_E_NOT_FOUND},
             {ENOTDIR, SP_E_NOT_FOUND},
             {EXDEV, SP_E_OUTSIDE_WORKSPACE},
             {ELOOP, SP_E_LINK_LOOP},
             {EACCES, SP_E_FORBIDDEN},
             {EPERM, SP_E_FORBIDDEN},
             {EROFS, SP_E_FORBIDDEN},
             {EISDIR, SP_E_IS_A_DIRECTORY},
             {ENOTEMPTY, SP_E_NOT_EMPTY},
             {EBUSY, SP_E_NOT_EMPTY},
             {ENAMETOOLONG, SP_E_BAD_PATH},
             {ENXIO, SP_E_NOT_A_FILE},
             {ENOSPC, SP_E_NO_SPACE},
             {EDQUOT, SP_E_NO_SPACE},
             {EMFILE, SP_E_OVERLOADED},
             {EIO, SP_E_INTERNAL},
             {0, SP_E_INTERNAL},
             {-1, SP_E_INTERNAL}};
    for (size_t i = 0; i < COUNT(t); i++)
        ck_assert_int_eq(sp_err_from_errno(t[i].err), t[i].e);
}
END_TEST

UNIT_MAIN("err", complete, invalid, documented, from_errno)
