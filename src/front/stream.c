/* stream.c: a folder as a tar archive: bytes go from the cell's pipe to the client as they are
 * made, in chunks, so that an archive that breaks off can't be taken for a whole one. A client that
 * stops reading stops the archive. The client is hostile; so is what is in the pipe. */
#include "box.h"

#include "sallyport/box.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DISPOSITION "Content-Disposition: attachment; filename=\"workspace.tar\"\r\n"
#define READ_ONCE 65536u

struct stream_state {
    h2o_socket_t *pipe; /* NULL at its end */
    bool done;          /* the cell says that all is in the pipe */
    bool partial;       /* some of the folder isn't */
    bool last;          /* the last chunk is in the buffer */
};

static void on_pipe(h2o_socket_t *sock, const char *err)
{
    struct conn *c = sock->data;
    (void)err;
    h2o_socket_read_stop(sock);
    stream_pump(c);
}

static bool put_chunk(struct conn *c, const char *p, size_t n)
{
    char size[24];
    bool chunks = c->head.minor > 0;
    int len = chunks ? snprintf(size, sizeof size, "%zx\r\n", n) : 0;
    return reply_append(c, size, (size_t)len) && reply_append(c, p, n) &&
           (!chunks || reply_append(c, "\r\n", 2));
}

static void pipe_end(struct stream_state *s)
{
    if (s->pipe != NULL)
        h2o_socket_close(s->pipe);
    s->pipe = NULL;
}

/* Moves what is there into the buffer: 1 some, 0 nothing now, -1 closed. */
static int fill(struct conn *c)
{
    static char buf[READ_ONCE];
    struct stream_state *s = c->stream;
    if (s->pipe == NULL) {
        if (!s->done || s->last)
            return 0;
        s->last = true;
        const char *end = s->partial ? "0\r\n" BOX_T_ARCHIVE ": partial\r\n\r\n"
                                     : "0\r\n" BOX_T_ARCHIVE ": whole\r\n\r\n";
        if (c->head.minor > 0 && !reply_append(c, end, strlen(end)))
            return -1;
        return 1;
    }
    ssize_t n = io_pipe_read(h2o_socket_get_fd(s->pipe), buf, sizeof buf);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (n <= 0) {
        pipe_end(s);
        return fill(c);
    }
    return put_chunk(c, buf, (size_t)n) ? 1 : -1;
}

void stream_pump(struct conn *c)
{
    struct stream_state *s = c->stream;
    for (size_t turn = 0;;) {
        int r = reply_flush(c);
        if (r < 0) {
            conn_close(c);
            return;
        }
        if (r == 0 || turn >= FRONT_TURN) {
            if (c->clock != CLOCK_STALL)
                conn_clock(c, CLOCK_STALL);
            reply_wait(c);
            return;
        }
        if (s->last) {
            conn_request_done(c);
            return;
        }
        int got = fill(c);
        if (got < 0) {
            conn_close(c);
            return;
        }
        turn += c->out_len;
        if (got > 0)
            continue;
        conn_clock(c, CLOCK_NONE); /* the cell is at it: a large file, a slow disk */
        if (s->pipe != NULL)
            h2o_socket_read_start(s->pipe, on_pipe);
        return;
    }
}

static void begin(struct conn *c, struct sp_frame *f)
{
    c->stream = calloc(1, sizeof *c->stream);
    if (c->stream == NULL) {
        reply_error(c, SP_E_OVERLOADED, NULL);
        return;
    }
    c->stream->pipe =
        h2o_evloop_socket_create(front.loop, sp_frame_take_fd(f, 0), H2O_SOCKET_FLAG_DONT_READ);
    c->stream->pipe->data = c;
    c->state = CONN_STREAM;
    reply_stream_head(c, "application/x-tar",
                      c->head.minor > 0 ? DISPOSITION "Trailer: " BOX_T_ARCHIVE "\r\n"
                                        : DISPOSITION);
    if (c->state != CONN_DEAD)
        stream_pump(c);
}

void stream_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f)
{
    if (m->op == SP_OP_STREAM && c->state == CONN_WAIT) {
        begin(c, f);
    } else if (m->op == SP_OP_DONE && c->state == CONN_STREAM) {
        link_forget(c, false);
        c->stream->done = true;
        c->stream->partial = (m->flags & SP_DONE_PARTIAL) != 0;
        stream_pump(c);
    } else if (m->op == SP_OP_FAIL && c->state == CONN_WAIT) {
        link_forget(c, false);
        reply_error(c, (enum sp_err)m->err, NULL);
    } else {
        conn_close(c); /* without the last chunk: it isn't whole */
    }
}

void stream_free(struct conn *c)
{
    if (c->stream == NULL)
        return;
    pipe_end(c->stream);
    free(c->stream);
    c->stream = NULL;
}
