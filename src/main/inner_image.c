/* inner_image.c: the inner binary's bytes, part of this file, and how they become one that can be
 * executed: a sealed file in memory, which nobody can open by a name. A host may refuse to execute
 * those (sysctl vm.memfd_noexec, a security module): nothing depends on it. Trusts the build. */
#include "main/inner.h"

#include "sallyport/log.h"
#include "sallyport/role.h"

#ifdef SP_INNER

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

/* inner_blob.S: whole pages. What follows the last byte of the binary is zero, and nothing to it.
 */
extern const char sp_inner_begin[], sp_inner_end[];

static int fill(int fd)
{
    int err = sp_write_all(fd, sp_inner_begin, (size_t)(sp_inner_end - sp_inner_begin));
    if (err != 0)
        return err;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) != 0)
        return -errno;
    return 0;
}

/* What is open for writing isn't executed: so it is opened again. */
static int make(void)
{
    char path[32];
    int fd = memfd_create("sallyport-inner", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
        fd = memfd_create("sallyport-inner", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    int r = fill(fd);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (r == 0) {
        r = open(path, O_PATH | O_CLOEXEC);
        r = r < 0 ? -errno : r;
    }
    close(fd);
    /* The file has its own copy: ours needn't stay in memory. The address is a page's, see above;
     * only the type is in the way. */
    uintptr_t from = (uintptr_t)sp_inner_begin;
    (void)madvise((void *)from, (size_t)(sp_inner_end - sp_inner_begin), MADV_DONTNEED); // NOLINT
    return r;
}

void inner_use(void)
{
    int fd = make();
    if (fd < 0)
        sp_log(SP_LOG_DEBUG, "no executable file in memory: %s", strerror(-fd));
    else
        sp_role_use_inner(fd);
}

#else

void inner_use(void)
{
}

#endif
