/* put.h: one upload's file: begun, filled from a pipe in turns, committed or dropped. Called by one
 * file thread at a time; uploads.c sees to that. */
#ifndef SALLYPORT_CELL_PUT_H
#define SALLYPORT_CELL_PUT_H

#include "cell/files.h"
#include "cell/resolve.h"
#include "cell/terms.h"

#define SP_PUT_TURN (4u << 20) /* bytes moved before another upload gets the thread */

struct sp_put {
    char path[SP_PATH_BYTES_MAX + 1];
    size_t path_len;
    uint8_t flags; /* SP_PUT_* */
    struct sp_terms terms;
    char name[SP_RESOLVE_NAME]; /* in parent */
    char temp[40];              /* name of the file while it has one, else "" */
    int parent, file, pipe;     /* -1 when closed */
    int replaced;               /* the old file, until the answer is out: freeing it takes time */
    bool by_hand;               /* splice doesn't work here: read and write */
    uint64_t received;
    uint64_t taken; /* of the quota, by this upload */
    struct sp_quota *quota;
};

void sp_put_init(struct sp_put *p);
/* Checks the target and the conditions, makes the file and the pipe. SP_OK with the write end
 * (nonblocking) in *write_end; else everything is undone. */
enum sp_err sp_put_begin(const struct sp_workspace *w, struct sp_put *p, int *write_end);
/* All of it at once: n bytes of data, at the place, or nothing is left of it. */
enum sp_err sp_put_whole(const struct sp_workspace *w, struct sp_put *p, const char *data, size_t n,
                         struct sp_result *r);
enum sp_put_turn { SP_PUT_MORE, SP_PUT_EOF, SP_PUT_BROKEN };
/* Moves what is there, at most SP_PUT_TURN. BROKEN: *err says why, the file is dropped. */
enum sp_put_turn sp_put_receive(const struct sp_workspace *w, struct sp_put *p, enum sp_err *err);
/* Puts the file at its place, all or nothing, and closes. size: what the client sent. */
enum sp_err sp_put_commit(const struct sp_workspace *w, struct sp_put *p, uint64_t size,
                          struct sp_result *r);
void sp_put_drop(struct sp_put *p);

/* commit.c. The conditions on what is at the target now: SP_OK with its type in *mode (0: nothing).
 */
enum sp_err sp_put_check(const struct sp_workspace *w, const struct sp_put *p, mode_t *mode);
/* Random name for a file that can't be unnamed. 0 or -errno. */
/* Takes the temporary name away, if there is one. */
void sp_put_unname(struct sp_put *p);
int sp_put_temp_name(char out[40]);

#endif
