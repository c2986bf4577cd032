/* archiver.h: a folder as a pax tar (POSIX.1-2001), written to a pipe while it is read. Trusts
 * nothing about the tree, which a command may change meanwhile.
 *
 * What is in it: folders, regular files and links, named relative to the folder, in the order of
 * their bytes, so that an unchanged tree gives the same archive each time. A link is stored, never
 * followed; no mount is entered. Owners become 0 and have no name, set-user-id bits and their like
 * are taken off (they would be root's after an extraction by root), times are whole seconds, and a
 * file with several names is stored under each. A file that changes its size meanwhile is cut, or
 * filled with zeros, to the size in its header. Names keep their bytes, UTF-8 or not.
 *
 * What isn't, but is counted: FIFOs, sockets and devices; what the user of commands may not read;
 * what is behind a mount; paths over SP_ARCHIVE_PATH bytes. */
#ifndef SALLYPORT_CELL_ARCHIVER_H
#define SALLYPORT_CELL_ARCHIVER_H

#include "cell/files.h"
#include "sallyport/role.h"

#define SP_ARCHIVE_PATH 65536u       /* bytes of a path in the archive */
#define SP_ARCHIVE_NAMES (32u << 20) /* memory for names, of all folders that are open */
#define SP_ARCHIVES_MAX 4u           /* at a time; each has a thread, which may have to wait */

struct sp_archive_count {
    uint64_t bytes, entries, left_out;
};

/* Before confinement: what turns names to UTF-8 reads files of the C library. */
void sp_archive_init(void);
/* Writes the folder dir to the blocking descriptor out. 0, -EPIPE: the reader left, -E2BIG: more
 * names at once than memory is set apart for, -errno. */
int sp_archive_write(int dir, int out, struct sp_archive_count *count);

/* ---- archiver.c: the operation ---- */
struct sp_outbox;
struct sp_archiver {
    const struct sp_config *config;
    struct sp_workspace space;
    struct sp_outbox *out;
    unsigned running; /* atomic */
};

void sp_archiver_init(struct sp_archiver *a, const struct sp_config *c, int root,
                      struct sp_outbox *out);
/* ARCHIVE: SP_OK, and STREAM, then DONE or FAIL, or FAIL alone, go to the outbox; or what to FAIL
 * with. */
enum sp_err sp_archiver_job(struct sp_archiver *a, const struct sp_msg *m);

#endif
