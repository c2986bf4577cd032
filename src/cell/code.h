/* code.h: two pieces of code in a process that is to go a way of ours: they are in its C library,
 * or in itself where that is linked in. */
#ifndef SALLYPORT_CELL_CODE_H
#define SALLYPORT_CELL_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SP_CODES 2 /* a system call that returns; rt_sigreturn */

/* Where they were found the last time, so that nothing is searched for again. */
struct sp_code {
    struct {
        unsigned long inode, offset; /* of the file; inode 0: not known yet */
    } at[SP_CODES];
};

/* maps: the text of /proc/PID/maps. False: they aren't there. */
bool sp_code_find(struct sp_code *known, pid_t pid, const char *maps, unsigned long at[SP_CODES]);
/* Where the heap ends: start, if there is none yet. */
unsigned long sp_code_heap_end(const char *maps, unsigned long start);

#endif
