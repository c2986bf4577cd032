/* upload.c: PUT below /files: bytes go from the client's socket into a pipe that the cell reads,
 * by splice where the length is known, so that they never enter this process. The client is
 * hostile; a pipe whose reader is gone means that the cell will say why. */
#include "front.h"

#include "sallyport/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum sp_err upload_terms(const struct sp_head *h, struct sp_msg *m)
{
    if (h->has_content_range)
        return SP_E_BAD_REQUEST;
    if (!sp_no_coding(h))
        return SP_E_BAD_MEDIA_TYPE;
    enum sp_err e = terms_read(h, m);
    if (sp_etag_any(h->if_none_match)) { /* which only links what has no name yet */
        m->flags = (uint8_t)((m->flags & ~SP_IF_NONE_MATCH) | SP_PUT_NEW_ONLY);
        m->none.n = 0;
    }
    return e;
}

/* A small body that is here already goes with the request: one turn instead of two, and no pipe. */
static void take_whole(struct conn *c, struct sp_msg *m)
{
    const struct sp_head *h = &c->head;
    if (!h->has_length || h->length > SP_WHOLE_MAX)
        return;
    /* Many clients send the two one after the other: by now it may have come. */
    if (h->length > c->in_len - c->body_pos && !h->expect_continue)
        (void)conn_recv(c, FRONT_IN_MAX);
    if (h->length > c->in_len - c->body_pos)
        return;
    m->flags |= SP_PUT_WHOLE;
    m->data = (struct sp_slice){c->in + c->body_pos, (size_t)h->length};
    c->body_pos += m->data.n;
    c->body_left = 0;
    c->upload->committed = true;
}

void upload_begin(struct conn *c)
{
    const struct sp_head *h = &c->head;
    struct sp_msg m = {.op = SP_OP_PUT, .path = {c->path, c->path_len}};
    enum sp_err e = upload_terms(h, &m);
    if (e == SP_OK && h->has_length && h->length > front.cfg->max_upload)
        e = SP_E_BODY_TOO_LARGE;
    if (e == SP_OK && (c->upload = calloc(1, sizeof *c->upload)) == NULL)
        e = SP_E_OVERLOADED;
    if (e != SP_OK) {
        reply_error(c, e, NULL);
        return;
    }
    sp_chunk_init(&c->upload->chunk);
    take_whole(c, &m);
    (void)link_request(c, &m);
}

static void on_pipe_writable(h2o_socket_t *sock, const char *err)
{
    struct conn *c = sock->data;
    (void)err;
    if (c->state == CONN_UPLOAD)
        upload_pump(c);
}

static void wait_pipe(struct conn *c)
{
    h2o_socket_t *p = c->upload->pipe;
    conn_read_on(c, false);
    if (p->_cb.write == NULL)
        h2o_socket_notify_write(p, on_pipe_writable);
}

/* Whole body is in the pipe. */
static void commit(struct conn *c)
{
    struct upload_state *u = c->upload;
    h2o_socket_close(u->pipe);
    u->pipe = NULL;
    u->committed = true;
    c->head.chunked = false;
    struct sp_msg m = {.op = SP_OP_COMMIT, .id = c->id, .size = u->sent};
    c->state = CONN_WAIT;
    conn_clock(c, CLOCK_NONE);
    conn_read_on(c, true);
    if (!link_send(&m))
        reply_error(c, SP_E_OVERLOADED, NULL);
}

/* Writes to the pipe: bytes taken, 0 full, -1 the cell let go. */
static ssize_t to_pipe(struct conn *c, const char *p, size_t n)
{
    for (;;) {
        ssize_t w = io_pipe_write(h2o_socket_get_fd(c->upload->pipe), p, n);
        if (w >= 0) {
            c->upload->sent += (uint64_t)w;
            return w;
        }
        if (errno == EINTR)
            continue;
        return errno == EAGAIN ? 0 : -1;
    }
}

static void pipe_lost(struct conn *c)
{
    c->upload->pipe_gone = true;
    conn_read_on(c, false);
    conn_clock(c, CLOCK_HANGUP); /* FAIL is on its way */
}

/* The same, with what is to be done of it: bytes taken, 0 waiting, -1 ended. */
static ssize_t push(struct conn *c, const char *p, size_t n)
{
    ssize_t w = to_pipe(c, p, n);
    if (w < 0)
        pipe_lost(c);
    else if (w == 0)
        wait_pipe(c);
    return w;
}

/* 1 done, 0 waiting, -1 ended. */
static int pump_plain(struct conn *c)
{
    struct upload_state *u = c->upload;
    size_t have = c->in_len - c->body_pos, turn = 0;
    if (have > c->body_left)
        have = (size_t)c->body_left;
    while (have > 0) {
        ssize_t w = push(c, c->in + c->body_pos, have);
        if (w <= 0)
            return (int)w;
        c->body_pos += (size_t)w;
        c->body_left -= (uint64_t)w;
        have -= (size_t)w;
    }
    while (c->body_left > 0) {
        size_t want = c->body_left < FRONT_TURN ? (size_t)c->body_left : FRONT_TURN;
        ssize_t n = splice(c->fd, NULL, h2o_socket_get_fd(u->pipe), NULL, want,
                           SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        if (n > 0) {
            u->sent += (uint64_t)n;
            c->body_left -= (uint64_t)n;
            metrics_bytes((uint64_t)n, 0);
            turn += (size_t)n;
            conn_progress(c, (size_t)n);
            if (turn >= FRONT_TURN && c->body_left > 0) {
                wait_pipe(c); /* back after the others' turn */
                return 0;
            }
            continue;
        }
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            struct pollfd p = {.fd = h2o_socket_get_fd(u->pipe), .events = POLLOUT};
            if (poll(&p, 1, 0) == 1 && (p.revents & POLLOUT) != 0 && (p.revents & POLLERR) == 0)
                conn_read_on(c, true);
            else
                wait_pipe(c);
            return 0;
        }
        if (n < 0 && errno == EPIPE)
            pipe_lost(c);
        else
            conn_close(c); /* cancels: nothing is written */
        return -1;
    }
    return 1;
}

/* Takes what is in the buffer out of its chunks, in place: many small ones are one write. False:
 * answered. */
static bool decode(struct conn *c)
{
    struct upload_state *u = c->upload;
    u->ready = 0;
    u->ready_at = c->head.size;
    while (c->body_pos < c->in_len && !u->last) {
        const char *data;
        size_t used, dn;
        int r = sp_chunk_next(&u->chunk, c->in + c->body_pos, c->in_len - c->body_pos, &used, &data,
                              &dn);
        if (r < 0 || dn > front.cfg->max_upload - u->sent - u->ready) {
            reply_error(c, r < 0 ? SP_E_BAD_REQUEST : SP_E_BODY_TOO_LARGE,
                        r < 0 ? "The chunked body is malformed." : NULL);
            return false;
        }
        if (dn > 0)
            memmove(c->in + u->ready_at + u->ready, data, dn);
        u->ready += dn;
        c->body_pos += used;
        u->last = r == 1;
    }
    return true;
}

/* As pump_plain, where the bytes have to be decrypted on the way. */
static int pump_copied(struct conn *c)
{
    size_t turn = 0;
    for (;;) {
        size_t have = c->in_len - c->body_pos;
        have = have < c->body_left ? have : (size_t)c->body_left;
        ssize_t w = have > 0 ? to_pipe(c, c->in + c->body_pos, have) : 0;
        if (w < 0) {
            pipe_lost(c);
            return -1;
        }
        c->body_pos += (size_t)w;
        c->body_left -= (uint64_t)w;
        if (c->body_left == 0)
            return 1;
        if ((size_t)w < have || turn >= FRONT_TURN) {
            wait_pipe(c);
            return 0;
        }
        ssize_t n = io_refill(c);
        if (n == 0)
            conn_read_on(c, true);
        if (n <= 0)
            return (int)n;
        turn += (size_t)n;
    }
}

static int pump_chunked(struct conn *c)
{
    struct upload_state *u = c->upload;
    for (size_t turn = 0;;) {
        while (u->ready > 0) {
            ssize_t w = push(c, c->in + u->ready_at, u->ready);
            if (w <= 0)
                return (int)w;
            u->ready_at += (size_t)w;
            u->ready -= (size_t)w;
        }
        if (u->last)
            return 1;
        if (turn >= FRONT_TURN) {
            wait_pipe(c);
            return 0;
        }
        if (c->body_pos == c->in_len) {
            ssize_t n = io_refill(c);
            if (n == 0)
                conn_read_on(c, true);
            if (n <= 0)
                return (int)n;
            turn += (size_t)n;
        }
        if (!decode(c))
            return -1;
    }
}

void upload_pump(struct conn *c)
{
    if (c->upload->pipe_gone)
        return;
    int r = c->head.chunked ? pump_chunked(c) : c->tls != NULL ? pump_copied(c) : pump_plain(c);
    if (r == 1)
        commit(c);
}

static void done(struct conn *c, const struct sp_msg *m)
{
    char extra[128], json[3 * SP_PATH_BYTES_MAX * 2 + 64];
    snprintf(extra, sizeof extra, "ETag: \"%.*s\"\r\n", (int)m->etag.n, m->etag.p);
    int n = snprintf(json, sizeof json, "{\"path\":\"");
    size_t at = (size_t)n, used;
    at += sp_json_escape(c->path, c->path_len, json + at, sizeof json - at - 48, &used);
    n = snprintf(json + at, sizeof json - at, "\",\"size\":%llu}\n", (unsigned long long)m->size);
    reply_json(c, (m->flags & SP_DONE_CREATED) != 0 ? 201 : 200, extra, json, at + (size_t)n);
}

void upload_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f)
{
    struct upload_state *u = c->upload;
    if (m->op == SP_OP_READY && c->state == CONN_WAIT && u->pipe == NULL && !u->committed) {
        u->pipe =
            h2o_evloop_socket_create(front.loop, sp_frame_take_fd(f, 0), H2O_SOCKET_FLAG_DONT_READ);
        u->pipe->data = c;
        if (!conn_send_continue(c))
            return;
        c->state = CONN_UPLOAD;
        conn_clock(c, CLOCK_STALL);
        upload_pump(c);
    } else if (m->op == SP_OP_DONE && u->committed) {
        link_forget(c, false);
        done(c, m);
    } else if (m->op == SP_OP_FAIL) {
        link_forget(c, false);
        reply_error(c, (enum sp_err)m->err, NULL);
    } else {
        conn_close(c);
    }
}

void upload_free(struct conn *c)
{
    if (c->upload == NULL)
        return;
    if (c->upload->pipe != NULL)
        h2o_socket_close(c->upload->pipe);
    free(c->upload);
    c->upload = NULL;
}
