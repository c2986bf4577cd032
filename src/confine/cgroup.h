/* cgroup.h: parts of the cgroup layer that are apart for their tests. */
#ifndef SP_CONFINE_CGROUP_H
#define SP_CONFINE_CGROUP_H

#include "sallyport/confine.h"

/* The folder of our own cgroup, from the texts of /proc/self/cgroup and /proc/self/mountinfo: the
 * nth (from 0) of the mounts through which it can be reached. False: there are no more. */
bool sp_cgroup_locate(const char *self, const char *mountinfo, unsigned nth, char *out, size_t cap);
/* True if word is one of the words of list, as cgroup.controllers has them. */
bool sp_cgroup_word(const char *list, const char *word);
/* The number behind key in a text of lines "key number"; 0 where it isn't there. */
uint64_t sp_cgroup_value(const char *text, const char *key);

#endif
