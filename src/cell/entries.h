/* entries.h: the JSON of a folder's entries, through a buffer into a file. Names are bytes that
 * commands chose. */
#ifndef SALLYPORT_CELL_ENTRIES_H
#define SALLYPORT_CELL_ENTRIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* More than an entry of a folder takes, with a comma: a name of 255 bytes, each escaped as six, and
 * again as three. */
#define SP_ENTRY_MAX 2800u

/* What an entry says besides its name. */
struct sp_brief {
    int64_t size, seconds; /* since 1970, of its mtime, and: */
    uint32_t nanoseconds;
    uint32_t mode;
};

struct sp_out {
    int fd, err;       /* the first error, -errno; nothing is written after it */
    int (*make)(void); /* where fd is -1: makes it with the first bytes to write, or -errno */
    size_t n, cap;     /* bytes in buf, and its size, at least 128 */
    uint64_t total;    /* that were written */
    char *buf;
};

void sp_out_flush(struct sp_out *o);
void sp_out_bytes(struct sp_out *o, const char *s, size_t n);
void sp_out_text(struct sp_out *o, const char *s);
void sp_out_escaped(struct sp_out *o, const char *s, size_t n); /* as JSON wants it in a string */
void sp_out_entry(struct sp_out *o, const char *name, const struct sp_brief *b);
/* Of the name in the folder dir, a link as it is; of what may not be looked at the type alone,
 * which its folder has (DT_*). False: it is gone. */
bool sp_brief_get(int dir, const char *name, unsigned char type, struct sp_brief *b);

#endif
