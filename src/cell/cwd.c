/* cwd.c: the folder that a command starts in. Trusts nothing of the workspace, which commands made.
 */
#include "cell/cell.h"
#include "cell/resolve.h"
#include "sallyport/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void sp_exec_unshut(const struct sp_cell *c)
{
    struct stat st;
    if (fstat(c->root, &st) == 0 && (st.st_mode & 0700) != 0700 && st.st_uid == geteuid() &&
        fchmod(c->root, (st.st_mode & 07777) | 0700) != 0)
        sp_log(SP_LOG_WARN, "opening the workspace to its owner: %s", strerror(errno));
}

/* The decoder checked it with sp_path_check. */
enum sp_err sp_exec_cwd(struct sp_cell *c, struct sp_slice cwd, char rest[4096])
{
    if (cwd.n > SP_PATH_BYTES_MAX)
        return SP_E_BAD_FIELD;
    if (cwd.n > 0)
        memcpy(rest, cwd.p, cwd.n);
    rest[cwd.n] = '\0';
    if (cwd.n == 0)
        return SP_OK;
    int fd = sp_resolve_open(c->root, rest, cwd.n, O_PATH | O_DIRECTORY, 0, c->config->use_openat2);
    if (fd < 0)
        return fd == -ENOTDIR ? SP_E_NOT_A_DIRECTORY : sp_err_from_errno(-fd);
    c->exec.cwd = fd;
    return SP_OK;
}
