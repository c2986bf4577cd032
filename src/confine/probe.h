/* probe.h: tries on this host what the plan wants to promise. */
#ifndef SP_CONFINE_PROBE_H
#define SP_CONFINE_PROBE_H

#include "sallyport/confine.h"

/* Each: 0 when it works here, else a negative errno, or -ESRCH when a signal ended the probe. None
 * changes the caller: what can't be undone is done in a child. */
int sp_probe_no_new_privs(void);
int sp_probe_caps(void);
int sp_probe_ids(uid_t uid, gid_t gid);
int sp_probe_seccomp(void);
int sp_probe_landlock(int abi);
int sp_probe_signal_scope(int abi);
int sp_probe_openat2(void);
int sp_probe_reaper(void);

#endif
