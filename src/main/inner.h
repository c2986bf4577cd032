/* inner.h: the inner binary, from which the broker and its cells are started. */
#ifndef SALLYPORT_MAIN_INNER_H
#define SALLYPORT_MAIN_INNER_H

/* Makes an executable file in memory of it and has sp_role_spawn use that. Where the host allows no
 * such file, or this build carries none, the roles are started from the daemon's own file. */
void inner_use(void);

#endif
