/* affinity.h: the processor that front, broker and the seat's cell share where SALLYPORT_ONE_CPU is
 * on; commands and file threads have all that main had. Each: 0 or -errno; nothing to do where the
 * setting is off or there is one processor. Source: sched_setaffinity(2), whose thread 0 is the
 * caller. */
#ifndef SALLYPORT_AFFINITY_H
#define SALLYPORT_AFFINITY_H

#include "sallyport/role.h"

/* main: this processor and all that there are, into the settings. */
int sp_affinity_note(struct sp_config *c);
/* The calling thread, and what it starts from here on. */
int sp_affinity_pin(const struct sp_config *c);
int sp_affinity_spread(const struct sp_config *c);

#endif
