/* uids.h: the user ids that belong to the box's identities: who runs under them, and the end of
 * that. Needs CAP_SETUID and CAP_KILL. */
#ifndef SALLYPORT_UIDS_H
#define SALLYPORT_UIDS_H

#include <stdbool.h>
#include <sys/types.h>

/* SIGKILL to every process of uid at once: no fork can slip through. They may be dying still. Never
 * for root, for ourselves or for (uid_t)-1, which is no user. */
void sp_uid_kill(uid_t uid);
/* Calls found for every process that has, as any of its four ids, one from min to max; zombies are
 * none. True: it went through all, or found returned false. */
bool sp_uids_each(uid_t min, uid_t max, bool (*found)(void *arg, pid_t pid, uid_t uid), void *arg);
/* True also where it can't be told. */
bool sp_uid_in_use(uid_t uid);

#endif
