/* fsuser.c: whose files a call opens: ours, or for a moment another user's, where root without
 * CAP_DAC_OVERRIDE, or a user with CAP_SETUID, couldn't look. Trusts nobody; changes this thread
 * alone. */
#include "sallyport/fsuser.h"

#include <sys/fsuid.h>
#include <sys/syscall.h>
#include <unistd.h>

void sp_fs_user(uid_t uid)
{
    static uid_t own = (uid_t)-1;
    if (own == (uid_t)-1)
        own = geteuid();
    uid = uid == (uid_t)-1 ? own : uid;
    (void)setfsuid(uid);
    if ((uid_t)setfsuid((uid_t)-1) == uid)
        return;
    /* gVisor of 2022 has no setfsuid. Not by glibc, which would ask all threads. */
    (void)syscall(SYS_setresuid, (uid_t)-1, uid, (uid_t)-1);
}
