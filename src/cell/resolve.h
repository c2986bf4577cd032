/* resolve.h: opens what a client names, beneath the workspace and nowhere else.
 *
 * The kernel does it (openat2 with RESOLVE_BENEATH) where it can; walk.c does the same by hand
 * where the call is missing or forbidden. Both give the same answers; tests/unit/test_resolve.c
 * compares them. Trusts neither the path nor the tree: a running command may rename anything at any
 * time. */
#ifndef SALLYPORT_CELL_RESOLVE_H
#define SALLYPORT_CELL_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define SP_RESOLVE_NAME 256

/* Opens path[0..n) beneath the folder root; "" is the root itself. Inner links are followed. The
 * descriptor (close-on-exec) or -errno: -EXDEV leads out, -ELOOP too many links or a magic one. */
int sp_resolve_open(int root, const char *path, size_t n, int flags, mode_t mode, bool use_openat2);

/* Opens (O_PATH) the folder that holds the last component of path, and copies that component to
 * name. mkdirs: makes missing folders, 0755. -ENOTDIR also where something that isn't a folder is
 * in the way of making one. */
int sp_resolve_parent(int root, const char *path, size_t n, bool mkdirs, bool use_openat2,
                      char name[SP_RESOLVE_NAME]);

/* The walk alone; path is NUL-terminated. -EAGAIN: the tree was moved under our feet. */
int sp_walk_open(int root, const char *path, int flags, mode_t mode);

/* True once openat2 was found to be missing (for tests and the log). */
bool sp_resolve_walks(void);

#endif
