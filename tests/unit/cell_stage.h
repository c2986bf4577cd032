/* cell_stage.h: a whole cell process under test, with the test as its broker. */
#ifndef SALLYPORT_TEST_CELL_STAGE_H
#define SALLYPORT_TEST_CELL_STAGE_H

#include "sallyport/proto.h"
#include "sallyport/role.h"

#include <stdbool.h>
#include <sys/types.h>

struct stage {
    struct sp_config config;
    char path[64]; /* of the workspace */
    int ws;
    pid_t pid;
    struct sp_chan chan;
    struct sp_frame frame;
    struct sp_msg msg; /* the last one received; borrows from frame */
};

/* Fills the settings, as root, with a fresh workspace; change them, then raise. */
void stage_settings(struct stage *s);
/* Starts the cell and waits for UP. */
void stage_raise(struct stage *s);
/* Starts it and returns its exit status, for starts that fail. */
int stage_raise_in_vain(struct stage *s);
/* Closes the socket, waits for the cell and returns its exit status. */
int stage_end(struct stage *s);
/* Sends; empty slices for NULL. */
void stage_send(struct stage *s, const struct sp_msg *m);
/* With LIVE, so that STARTED comes before EXITED. */
void stage_exec(struct stage *s, uint32_t id, const char *command, const char *cwd, uint8_t flags);
void stage_path(struct stage *s, uint8_t op, uint32_t id, const char *path, uint8_t flags);
/* The next message within a generous bound; fails the test if it isn't op with id. */
const struct sp_msg *stage_expect(struct stage *s, uint8_t op, uint32_t id);
void stage_expect_fail(struct stage *s, uint32_t id, enum sp_err e);
/* False if nothing comes for ms. */
bool stage_next(struct stage *s, int ms);
int stage_fd(struct stage *s, int i);
/* Reads to the end of a (nonblocking) pipe or file; the buffer is the next call's. Closes fd. */
const char *stage_read(int fd);
/* EXEC to EXITED: its output (both streams, stdout first), *exited a copy of EXITED. */
const char *stage_run(struct stage *s, const char *command, struct sp_msg *exited);

#endif
