/* descend.h: goes through a folder tree of any depth with a bounded number of descriptors and a
 * bounded stack, without following a link or entering a mount. Trusts nothing about the tree, which
 * a command may change meanwhile. */
#ifndef SALLYPORT_CELL_DESCEND_H
#define SALLYPORT_CELL_DESCEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define SP_DESCEND_OPEN 24 /* levels kept open, the deepest ones */

/* What to do about a folder whose owner, who we are, took his own rights away. */
enum sp_closed {
    SP_CLOSED_STAYS,
    SP_CLOSED_OPENED, /* gets them for good */
    SP_CLOSED_LENT,   /* ... until it is left, but for what another changed meanwhile */
};

struct sp_level;
struct sp_descend {
    struct sp_level *level;
    size_t depth, cap;
    uint64_t mount; /* id of the mount, or the device where the kernel doesn't tell */
    bool mount_known;
};

struct sp_entry {
    const char *name; /* valid until the next call */
    unsigned char type;
};

void sp_descend_init(struct sp_descend *d);
void sp_descend_free(struct sp_descend *d);
/* Enters the folder name in the folder `in` (the first one), or in the current one (in < 0).
 * 0, -EXDEV: another mount, -ENOTDIR: no folder (a link, say), -ESTALE: a folder on the way here
 * was moved to another place, -errno. After -ESTALE the walk is at its end. */
int sp_descend_push(struct sp_descend *d, int in, const char *name, enum sp_closed closed);
/* Next entry of the current folder: 1, 0 at its end, -errno. */
int sp_descend_next(struct sp_descend *d, struct sp_entry *e);
/* Descriptor (readable) of the current folder. */
int sp_descend_fd(const struct sp_descend *d);
/* Leaves the current folder; its name is copied out (NAME_MAX + 1). 0, or -errno: the folder above
 * isn't where it was (-ESTALE). Leaving the first one: 0. */
int sp_descend_pop(struct sp_descend *d, char *name);

#endif
