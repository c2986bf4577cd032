/* err.h: the failure codes that travel between processes and reach a client.
 * The one table behind docs/api.md "All codes". Trusts nobody: a number from the
 * wire goes through sp_err_valid first. */
#ifndef SALLYPORT_ERR_H
#define SALLYPORT_ERR_H

#include <stdbool.h>
#include <stdint.h>

enum sp_err {
    SP_OK = 0,
    SP_E_BAD_REQUEST,
    SP_E_BAD_JSON,
    SP_E_BAD_FIELD,
    SP_E_BAD_PATH,
    SP_E_BAD_QUERY,
    SP_E_LINK_LOOP,
    SP_E_NOT_A_DIRECTORY,
    SP_E_FORBIDDEN,
    SP_E_OUTSIDE_WORKSPACE,
    SP_E_NO_ROUTE,
    SP_E_NOT_FOUND,
    SP_E_BAD_METHOD,
    SP_E_TIMEOUT,
    SP_E_BUSY,
    SP_E_NOT_EMPTY,
    SP_E_IS_A_DIRECTORY,
    SP_E_NOT_A_DIRECTORY_CONFLICT,
    SP_E_NOT_A_FILE,
    SP_E_PRECONDITION_FAILED,
    SP_E_BODY_TOO_LARGE,
    SP_E_COMMAND_TOO_LONG,
    SP_E_URI_TOO_LONG,
    SP_E_BAD_MEDIA_TYPE,
    SP_E_BAD_RANGE,
    SP_E_BAD_EXPECTATION,
    SP_E_HEADERS_TOO_LARGE,
    SP_E_INTERNAL,
    SP_E_SPAWN_FAILED,
    SP_E_UNKNOWN_METHOD,
    SP_E_CELL_LOST,
    SP_E_DRAINING,
    SP_E_OVERLOADED,
    SP_E_BAD_VERSION,
    SP_E_NO_SPACE,
    /* the box */
    SP_E_UNAUTHORIZED,
    SP_E_BAD_IDENTITY,
    SP_E_IS_DIRECTORY,
    SP_E_QUOTA,
    SP_E_COUNT
};

/* True if n is one of the codes above, SP_OK excluded. */
bool sp_err_valid(uint32_t n);
/* "busy" and so on; "internal" for anything invalid. */
const char *sp_err_name(enum sp_err e);
/* HTTP status of the code, 400..599; 500 for anything invalid. */
int sp_err_status(enum sp_err e);
/* A default sentence for people; ends in '.'. */
const char *sp_err_text(enum sp_err e);
/* The code for a file operation's errno (positive). EXDEV means outside the workspace. */
enum sp_err sp_err_from_errno(int err);

#endif
