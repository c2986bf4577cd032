/* cgroup.h: parts of the cgroup layer that are apart for their tests. */
#ifndef SP_CONFINE_CGROUP_H
#define SP_CONFINE_CGROUP_H

#include "sallyport/confine.h"

/* cgroup_limit.c: the files of one cgroup, by its folder's descriptor. 0 or -errno. */
int sp_cgroup_write(int dir, const char *name, const char *text);
int sp_cgroup_limit_memory(int dir, const struct sp_config *c);
int sp_cgroup_limit_pids(int dir, const struct sp_config *c);
int sp_cgroup_limit_cpu(int dir, const struct sp_config *c);
/* Opens what its cell has of it; f->events and f->cpu as asked for. Closed again where it fails. */
int sp_cgroup_open(int dir, bool memory, bool cpu, struct sp_cgroup_fds *f);
/* cgroup_cell.c: the two folders. */
int sp_cgroup_cell_folders(int commands, unsigned n);
/* All that are there, as far as they are empty. */
void sp_cgroup_cells_remove(int commands);
/* The folder of our own cgroup, from the texts of /proc/self/cgroup and /proc/self/mountinfo: the
 * nth (from 0) of the mounts through which it can be reached. False: there are no more. */
bool sp_cgroup_locate(const char *self, const char *mountinfo, unsigned nth, char *out, size_t cap);
/* True if word is one of the words of list, as cgroup.controllers has them. */
bool sp_cgroup_word(const char *list, const char *word);
/* The number behind key in a text of lines "key number"; 0 where it isn't there. */
uint64_t sp_cgroup_value(const char *text, const char *key);

#endif
