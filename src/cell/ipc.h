/* ipc.h: the end of what commands leave in an IPC namespace of their own. */
#ifndef SP_CELL_IPC_H
#define SP_CELL_IPC_H

/* Removes every System V object of the namespace. Only where it is the commands' alone. */
void sp_ipc_clear(void);

#endif
