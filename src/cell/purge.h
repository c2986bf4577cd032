/* purge.h: the box: empties a workspace that is to go. */
#ifndef SALLYPORT_CELL_PURGE_H
#define SALLYPORT_CELL_PURGE_H

#include "sallyport/role.h"

/* As its user, confined: removes everything in the workspace and what else of the user's a host
 * keeps without a process: in /tmp and its like, System V IPC. 0 or -errno. */
int sp_purge(const struct sp_config *c, int root);

#endif
