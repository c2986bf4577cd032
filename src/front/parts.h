/* parts.h: a multipart body: its files become uploads of one connection, which are all put at their
 * place once the whole body was good, or none. Private to parts.c and place.c. */
#ifndef SP_PARTS_H
#define SP_PARTS_H

#include "box.h"

#include "sallyport/multipart.h"

#define PARTS_MAX 48u /* a cell takes 64 uploads at a time */
#define PARTS_BUFFER 65536u

struct part_file {
    uint32_t id; /* the broker's name for its upload; 0: over, or given up */
    uint64_t size;
    char *path; /* owned */
    size_t path_len;
    bool created;
    char etag[SP_ETAG_MAX + 1];
};

struct parts_state {
    enum parts_kind kind;
    struct sp_multipart mp;
    struct sp_chunk chunk;
    char *buf; /* of the body, without chunks */
    size_t pos, len;
    bool body_end;
    /* Of a file, what is to go into its pipe: all of one buffer's in one write, however many pieces
     * the parser makes of it. Empty when buf is filled anew; so it has room for buf and for what
     * the parser held back before. */
    char out[PARTS_BUFFER + 128u];
    const char *pending;
    size_t npending;
    bool part_over; /* and then the pipe is closed */
    bool in_request, have_request;
    bool waiting;       /* for the READY of the last file */
    bool lost;          /* its pipe is gone: FAIL is on its way */
    h2o_socket_t *pipe; /* of the last file, NULL outside it */
    struct part_file file[PARTS_MAX];
    unsigned n, staged, placed;
    bool whole; /* the body was good */
};

/* place.c: the files. Each false: answered or closed. */
/* A part that is a file begins. */
bool place_begin(struct conn *c, struct sp_slice filename);
/* Bytes of it: 1 all taken, 0 the pipe is full, -1 the cell let go. */
int place_bytes(struct conn *c);
void place_end(struct conn *c);
void place_wait(struct conn *c); /* for room in the pipe */
/* The whole body was good. */
void place_all(struct conn *c);

#endif
