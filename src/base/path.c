/* path.c: the one rule for a workspace-relative path. The front, the broker and the cell each
 * apply it, because none of them trusts the one before. Form only: links are the cell's matter. */
#include "sallyport/proto.h"

#include <limits.h>
#include <string.h>

static bool component_ok(const char *p, size_t n)
{
    if (n == 0 || n > NAME_MAX)
        return false;
    return p[0] != '.' || !(n == 1 || (n == 2 && p[1] == '.'));
}

enum sp_err sp_path_check(const char *p, size_t n)
{
    if (n == 0)
        return SP_OK;
    if (n > SP_PATH_BYTES_MAX || memchr(p, 0, n))
        return SP_E_BAD_PATH;
    for (size_t at = 0;;) {
        const char *slash = memchr(p + at, '/', n - at);
        size_t end = slash ? (size_t)(slash - p) : n;
        if (!component_ok(p + at, end - at))
            return SP_E_BAD_PATH;
        if (!slash)
            return SP_OK;
        at = end + 1; /* a slash at the end leaves an empty component, which is refused */
    }
}
