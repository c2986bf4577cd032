/* fsuser.h: whose files a call opens, for a moment. Needs CAP_SETUID. */
#ifndef SALLYPORT_FSUSER_H
#define SALLYPORT_FSUSER_H

#include <sys/types.h>

/* What this thread opens and makes from now on is as uid would, or with (uid_t)-1 as we ourselves:
 * filesystem ids, setfsuid(2). Without the right to it nothing changes; then the calls that follow
 * fail. The first call comes with our own ids. */
void sp_fs_user(uid_t uid);

#endif
