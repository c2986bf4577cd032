/* err.c: the one table of failure codes: name, HTTP status, sentence. Whoever adds a code adds
 * a row here and in docs/api.md. Trusts nobody: anything out of range is "internal". */
#include "sallyport/err.h"

#include <errno.h>

struct row {
    const char *name;
    int status;
    const char *text;
};

static const struct row rows[SP_E_COUNT] = {
    [SP_E_BAD_REQUEST] = {"bad_request", 400, "The request is not well-formed HTTP."},
    [SP_E_BAD_JSON] = {"bad_json", 400, "The body is not a well-formed JSON object."},
    [SP_E_BAD_FIELD] = {"bad_field", 400, "A member of the body is not acceptable."},
    [SP_E_BAD_PATH] = {"bad_path", 400, "The path is not acceptable."},
    [SP_E_BAD_QUERY] = {"bad_query", 400, "The query string is not acceptable here."},
    [SP_E_LINK_LOOP] = {"link_loop", 400, "The path runs through too many symbolic links."},
    [SP_E_NOT_A_DIRECTORY] = {"not_a_directory", 400, "The path is not a folder."},
    [SP_E_FORBIDDEN] = {"forbidden", 403, "The user of commands may not do that."},
    [SP_E_OUTSIDE_WORKSPACE] = {"outside_workspace", 403, "The path leads out of the workspace."},
    [SP_E_NO_ROUTE] = {"no_route", 404, "There is nothing at this address."},
    [SP_E_NOT_FOUND] = {"not_found", 404, "There is no such file or folder."},
    [SP_E_BAD_METHOD] = {"bad_method", 405, "The method is not allowed here."},
    [SP_E_TIMEOUT] = {"timeout", 408, "The request did not arrive in time."},
    [SP_E_BUSY] = {"busy", 409, "Another command is running."},
    [SP_E_NOT_EMPTY] = {"not_empty", 409,
                        "The folder is not empty, or something is mounted in it."},
    [SP_E_IS_A_DIRECTORY] = {"is_a_directory", 409, "The path is a folder."},
    [SP_E_NOT_A_DIRECTORY_CONFLICT] = {"not_a_directory_conflict", 409,
                                       "A part of the path is a file where a folder is needed."},
    [SP_E_NOT_A_FILE] = {"not_a_file", 409, "The path is neither a file nor a folder."},
    [SP_E_PRECONDITION_FAILED] = {"precondition_failed", 412,
                                  "A condition of the request does not hold."},
    [SP_E_BODY_TOO_LARGE] = {"body_too_large", 413, "The body is larger than allowed."},
    [SP_E_COMMAND_TOO_LONG] = {"command_too_long", 413, "The command is longer than allowed."},
    [SP_E_URI_TOO_LONG] = {"uri_too_long", 414, "The request line is longer than allowed."},
    [SP_E_BAD_MEDIA_TYPE] = {"bad_media_type", 415,
                             "The body's type or encoding is not supported."},
    [SP_E_BAD_RANGE] = {"bad_range", 416, "The range lies outside the file."},
    [SP_E_BAD_EXPECTATION] = {"bad_expectation", 417, "The expectation is not supported."},
    [SP_E_HEADERS_TOO_LARGE] = {"headers_too_large", 431,
                                "The request's head is larger than allowed."},
    [SP_E_INTERNAL] = {"internal", 500, "Something failed inside the daemon."},
    [SP_E_SPAWN_FAILED] = {"spawn_failed", 500, "The shell could not be started."},
    [SP_E_UNKNOWN_METHOD] = {"unknown_method", 501, "The method is not known."},
    [SP_E_CELL_LOST] = {"cell_lost", 503, "The process that did the work was lost."},
    [SP_E_DRAINING] = {"draining", 503, "The daemon is shutting down."},
    [SP_E_OVERLOADED] = {"overloaded", 503, "The daemon is short of resources."},
    [SP_E_BAD_VERSION] = {"bad_version", 505, "Only HTTP/1.0 and HTTP/1.1 are supported."},
    [SP_E_UNAUTHORIZED] = {"unauthorized", 401, "The request shows no valid key."},
    [SP_E_BAD_IDENTITY] = {"bad_identity", 400, "The request's identity is not acceptable."},
    [SP_E_IS_DIRECTORY] = {"is_directory", 400, "The path is a folder: list it instead."},
    [SP_E_QUOTA] = {"quota_exceeded", 507, "The workspace's quota is used up."},
    [SP_E_NO_SPACE] = {"no_space", 507, "There is no space or quota left."},
};

bool sp_err_valid(uint32_t n)
{
    return n > SP_OK && n < SP_E_COUNT;
}

static const struct row *row_of(enum sp_err e)
{
    return &rows[sp_err_valid((uint32_t)e) ? e : SP_E_INTERNAL];
}

const char *sp_err_name(enum sp_err e)
{
    return row_of(e)->name;
}

int sp_err_status(enum sp_err e)
{
    return row_of(e)->status;
}

const char *sp_err_text(enum sp_err e)
{
    return row_of(e)->text;
}

enum sp_err sp_err_from_errno(int err)
{
    switch (err) {
    case ENOENT:
    case ENOTDIR: /* a component that isn't a folder: docs/api.md calls that missing */
    case ESTALE:
        return SP_E_NOT_FOUND;
    case EXDEV:
        return SP_E_OUTSIDE_WORKSPACE;
    case ELOOP:
        return SP_E_LINK_LOOP;
    case EACCES:
    case EPERM:
    case EROFS:
    case ETXTBSY:
        return SP_E_FORBIDDEN;
    case EISDIR:
        return SP_E_IS_A_DIRECTORY;
    case ENOTEMPTY:
    case EEXIST: /* POSIX lets rmdir say either */
    case EBUSY:  /* a mount point */
        return SP_E_NOT_EMPTY;
    case ENAMETOOLONG:
    case EILSEQ: /* a name that the file system can't hold */
        return SP_E_BAD_PATH;
    case ENXIO:
    case ENODEV:
        return SP_E_NOT_A_FILE;
    case ENOSPC:
    case EDQUOT:
        return SP_E_NO_SPACE;
    case EFBIG:
        return SP_E_BODY_TOO_LARGE;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
        return SP_E_OVERLOADED;
    default:
        return SP_E_INTERNAL;
    }
}
