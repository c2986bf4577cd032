/* guest.h: `sallyport guest`: the first process of a machine that is there for one daemon. */
#ifndef SALLYPORT_MAIN_GUEST_H
#define SALLYPORT_MAIN_GUEST_H

#include <stdbool.h>
#include <stddef.h>

/* True for the first process of an initramfs: called init, and nobody has mounted /proc. */
bool guest_is_init(const char *name);
/* Makes the machine ready, runs the daemon, ends the machine. words: "seat" or "box", or nothing.
 * Comes back, with an exit status, only where the machine wouldn't end or isn't ours. */
int guest(int nwords, char **words);

/* ---- guest_net.c ---- */
/* The loopback device, and the one that an ip= names in line, the kernel's command line. False,
 * with a line in the log, where that couldn't be done. */
bool guest_net(const char *line);
/* What stands behind key in line, "" where nothing does. False, with a line in the log, where it is
 * longer than cap - 1. */
bool guest_word(const char *line, const char *key, char *out, size_t cap);

#endif
