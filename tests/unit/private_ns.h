/* private_ns.h: for test mains whose code deletes files or kills processes. Runs the tests where a
 * bug can't hurt the host: own mount namespace with everything read-only and a tmpfs on /tmp, own
 * PID namespace, so that even kill(-1) reaches nothing but the test. */
#ifndef SALLYPORT_TEST_PRIVATE_NS_H
#define SALLYPORT_TEST_PRIVATE_NS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A user id that nothing on the host should have, another in each test process: limits on a user's
 * processes count across namespaces. */
uid_t private_uid(void);

/* Enters the namespaces and runs tests() there; returns its status, or 77 (skipped) where the
 * kernel doesn't allow it. Call it first in main. */
int private_ns_run(int (*tests)(void));

/* ---- small things that these tests share ---- */
/* A new folder below /tmp that private_uid() owns; out >= 64. Its descriptor (O_PATH). Aborts on
 * failure, as all below do. Also checks that we are in the private namespace. */
int private_folder(char *out);
/* Becomes private_uid() for good. */
void private_drop_ids(void);
/* Writes a file relative to dir, making it. */
void private_write(int dir, const char *path, const void *data, size_t n);
/* symlinkat and fchmodat that must succeed. */
void private_link(int dir, const char *target, const char *name);
void private_mode(int dir, const char *path, mode_t mode);
/* Milliseconds of CLOCK_MONOTONIC. */
uint64_t private_now_ms(void);

#endif
