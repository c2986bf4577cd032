/* launch.h: between role.c and launch.c. */
#ifndef SP_BASE_LAUNCH_H
#define SP_BASE_LAUNCH_H

/* Our own binary, -1 before sp_role_init_self. */
extern int sp_role_self_fd;

#endif
