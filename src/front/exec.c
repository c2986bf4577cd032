/* exec.c: POST /execute: collects the body, asks the broker, reads the command's pipes until it
 * ends. The client and the command are hostile; the broker's messages were checked. */
#include "box.h"
#include "execreq.h"

#include "sallyport/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define CAPTURE_FIRST 4096u

static char scratch[65536]; /* where bytes over the limit go */

/* ---- the body ---- */

void exec_begin(struct conn *c)
{
    if (!conn_send_continue(c))
        return;
    c->state = CONN_JSON;
    c->body_cap = c->head.has_length ? (size_t)c->head.length : 0;
    if (c->body_cap > 0 && (c->body = malloc(c->body_cap)) == NULL) {
        reply_error(c, SP_E_OVERLOADED, NULL);
        return;
    }
    sp_chunk_init(&c->body_chunk);
    conn_clock(c, CLOCK_STALL);
    exec_read_body(c);
}

bool exec_body_append(struct conn *c, const char *p, size_t n)
{
    if (n > FRONT_JSON_MAX - c->body_len) {
        reply_error(c, SP_E_BODY_TOO_LARGE, NULL);
        return false;
    }
    if (c->body_cap - c->body_len < n) {
        size_t cap = (c->body_len + n) * 2;
        char *q = realloc(c->body, cap);
        if (q == NULL) {
            reply_error(c, SP_E_OVERLOADED, NULL);
            return false;
        }
        c->body = q;
        c->body_cap = cap;
    }
    if (n > 0)
        memcpy(c->body + c->body_len, p, n);
    c->body_len += n;
    return true;
}

/* Both: 1 the body is whole, 0 wait for more, -1 answered or closed. */
static int read_plain(struct conn *c)
{
    size_t have = c->in_len - c->body_pos;
    if (have > c->body_left)
        have = (size_t)c->body_left;
    if (have > 0) {
        memcpy(c->body, c->in + c->body_pos, have);
        c->body_pos += have;
        c->body_len += have;
        c->body_left -= have;
    }
    while (c->body_left > 0) {
        ssize_t n = io_recv(c, c->body + c->body_len, (size_t)c->body_left);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            conn_close(c);
            return -1;
        }
        c->body_len += (size_t)n;
        c->body_left -= (size_t)n;
        conn_progress(c, (size_t)n);
    }
    return 1;
}

static int read_chunked(struct conn *c)
{
    for (size_t turn = 0;;) {
        while (c->body_pos < c->in_len) {
            const char *data;
            size_t used, dn;
            int r = sp_chunk_next(&c->body_chunk, c->in + c->body_pos, c->in_len - c->body_pos,
                                  &used, &data, &dn);
            c->body_pos += used;
            if (r < 0) {
                reply_error(c, SP_E_BAD_REQUEST, "The chunked body is malformed.");
                return -1;
            }
            if (!exec_body_append(c, data, dn))
                return -1;
            if (r == 1)
                return 1;
            if (used == 0 && dn == 0)
                break;
        }
        if (turn >= FRONT_TURN) /* all that is here is used: the loop tells us of more */
            return 0;
        ssize_t n = io_refill(c);
        if (n <= 0)
            return (int)n;
        turn += (size_t)n;
    }
}

void exec_read_body(struct conn *c)
{
    int r = c->head.chunked ? read_chunked(c) : read_plain(c);
    if (r == 0)
        conn_read_on(c, true); /* off since the buffer was full behind an earlier request */
    if (r == 1) {
        c->head.chunked = false; /* read to its end: the connection can go on */
        exec_body_ready(c);
    }
}

struct exec_state *exec_state_new(struct conn *c)
{
    struct exec_state *x = calloc(1, sizeof *x);
    if (x != NULL) {
        x->out.fd = x->err.fd = -1;
        x->conn = c;
    }
    return x;
}

static enum sp_err read_request(struct conn *c, struct exec_request *req, char *why, size_t whylen)
{
    return exec_request_read(c->body != NULL ? c->body : "", c->body_len,
                             c->space != NULL ? c->space : front.cfg->workspace,
                             front.cfg->default_timeout_ms, front.cfg->max_timeout_ms, req, why,
                             whylen);
}

bool exec_body_check(struct conn *c)
{
    char why[200];
    struct exec_request req;
    enum sp_err e = read_request(c, &req, why, sizeof why);
    if (e == SP_OK)
        exec_request_free(&req);
    else
        reply_error(c, e, why);
    return e == SP_OK;
}

void exec_body_ready(struct conn *c)
{
    char why[200];
    struct exec_request req;
    enum sp_err e = read_request(c, &req, why, sizeof why);
    free(c->body);
    c->body = NULL;
    c->body_len = c->body_cap = 0;
    if (e != SP_OK) {
        reply_error(c, e, why);
        return;
    }
    if (c->eof) { /* nobody waits for the command */
        exec_request_free(&req);
        conn_close(c);
        return;
    }
    c->exec = exec_state_new(c);
    if (c->exec != NULL) {
        c->exec->live = sp_accept_events(c->head.accept);
        c->exec->in = req.stdin_text;
        c->exec->in_len = req.stdin_len;
        bool has_stdin = req.stdin_text != NULL;
        req.stdin_text = NULL;
        struct sp_msg m = {.op = SP_OP_EXEC,
                           .flags = (uint8_t)((has_stdin ? SP_EXEC_STDIN : 0) |
                                              (c->exec->live ? SP_EXEC_LIVE : 0)),
                           .command = {req.command, req.command_len},
                           .cwd = {req.cwd, req.cwd_len},
                           .env = {req.env, req.env_len},
                           .nenv = req.nenv,
                           .timeout_ms = req.timeout_ms};
        (void)link_request(c, &m);
    } else {
        reply_error(c, SP_E_OVERLOADED, NULL);
    }
    exec_request_free(&req);
}

/* ---- the pipes ---- */

void exec_capture_end(struct capture *cap)
{
    if (cap->sock != NULL)
        h2o_socket_close(cap->sock);
    else if (cap->fd >= 0)
        close(cap->fd);
    cap->sock = NULL;
    cap->fd = -1;
}

static bool capture_room(struct capture *cap)
{
    size_t limit = (size_t)front.cfg->max_output;
    if (cap->len < cap->cap || cap->cap >= limit)
        return true;
    size_t want = cap->cap == 0 ? CAPTURE_FIRST : cap->cap * 4;
    if (want > limit)
        want = limit;
    char *p = realloc(cap->buf, want);
    if (p == NULL)
        return false;
    cap->buf = p;
    cap->cap = want;
    return true;
}

/* Reads what is there, at most `turn` bytes. */
static void capture_read(struct capture *cap, size_t turn)
{
    const int fd = cap->fd;
    for (size_t got = 0; got < turn;) {
        if (!capture_room(cap))
            cap->truncated = true; /* no memory: kept as far as it went */
        bool keep = cap->len < cap->cap && !cap->truncated;
        ssize_t n = keep ? io_pipe_read(fd, cap->buf + cap->len, cap->cap - cap->len)
                         : io_pipe_read(fd, scratch, sizeof scratch);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            exec_capture_end(cap);
            return;
        }
        got += (size_t)n;
        if (keep)
            cap->len += (size_t)n;
        else
            cap->truncated = true;
    }
}

static void on_out(h2o_socket_t *sock, const char *err)
{
    (void)err;
    capture_read(&((struct conn *)sock->data)->exec->out, FRONT_TURN);
}

static void on_err(h2o_socket_t *sock, const char *err)
{
    (void)err;
    capture_read(&((struct conn *)sock->data)->exec->err, FRONT_TURN);
}

static void feed_stdin(h2o_socket_t *sock, const char *err)
{
    struct conn *c = sock->data;
    struct exec_state *x = c->exec;
    (void)err;
    while (x->in_pos < x->in_len) {
        ssize_t n =
            io_pipe_write(h2o_socket_get_fd(sock), x->in + x->in_pos, x->in_len - x->in_pos);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            h2o_socket_notify_write(sock, feed_stdin);
            return;
        }
        if (n < 0)
            break; /* the command closed its stdin */
        x->in_pos += (size_t)n;
    }
    h2o_socket_close(sock);
    x->in_sock = NULL;
    free(x->in);
    x->in = NULL;
}

h2o_socket_t *exec_watch(struct conn *c, int fd)
{
    h2o_socket_t *s = h2o_evloop_socket_create(front.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    s->data = c;
    return s;
}

static void runs(struct conn *c, struct sp_frame *f)
{
    struct exec_state *x = c->exec;
    c->state = CONN_EXEC;
    x->counted = !c->probe; /* nobody asked for that one */
    if (x->counted)
        metrics_command_begin();
    x->out.fd = sp_frame_take_fd(f, 0);
    x->err.fd = sp_frame_take_fd(f, 1);
}

/* It lasts: most commands are over sooner, and come with their pipes when they are. */
static void started(struct conn *c, struct sp_frame *f)
{
    struct exec_state *x = c->exec;
    bool has_stdin = x->in != NULL;
    if (f->nfds != (has_stdin ? 3 : 2)) {
        conn_close(c);
        return;
    }
    runs(c, f);
    if (has_stdin) {
        x->in_sock = exec_watch(c, sp_frame_take_fd(f, 2));
        feed_stdin(x->in_sock, NULL);
    }
    if (x->live) {
        events_begin(c);
        return;
    }
    x->out.sock = exec_watch(c, x->out.fd);
    x->err.sock = exec_watch(c, x->err.fd);
    h2o_socket_read_start(x->out.sock, on_out);
    h2o_socket_read_start(x->err.sock, on_err);
}

/* All of the command's processes are dead: what is in the pipes now is all that is theirs. Somebody
 * else may have been handed a write end, and could fill it as fast as we read: no further. */
static void capture_finish(struct capture *cap)
{
    int left = 0;
    if (cap->fd >= 0 && ioctl(cap->fd, FIONREAD, &left) == 0 && left > 0)
        capture_read(cap, (size_t)left);
    if (cap->sock != NULL)
        exec_capture_end(cap); /* else when the answer is out */
    if (cap->truncated)
        cap->len = sp_utf8_whole(cap->buf, cap->len);
}

/* Once, whatever comes first. */
static void count_end(struct exec_state *x, enum metrics_outcome o)
{
    if (x->counted)
        metrics_command_end(o, x->duration_us);
    x->counted = false;
}

static void exited(struct conn *c, const struct sp_msg *m)
{
    struct exec_state *x = c->exec;
    x->exit_code = m->exit_code;
    x->signal = m->signal;
    x->flags = m->flags;
    x->duration_us = m->duration_us;
    count_end(x, (x->flags & SP_EXIT_TIMED_OUT) != 0   ? COMMAND_TIMED_OUT
                 : (x->flags & SP_EXIT_CANCELLED) != 0 ? COMMAND_CANCELLED
                 : x->signal != 0                      ? COMMAND_SIGNALLED
                                                       : COMMAND_EXITED);
    link_forget(c, false);
    if (x->ev != NULL) {
        events_exited(c);
        return;
    }
    capture_finish(&x->out);
    capture_finish(&x->err);
    if (c->probe) {
        box_probed(c, x->exit_code == 0 && x->flags == 0);
        return;
    }
    reply_head(c, 200, "application/json", exec_result_length(c), "");
    if (c->state == CONN_DEAD)
        return;
    c->fill = exec_result_fill;
    if (!exec_result_fill(c)) /* small answers leave with their head */
        c->fill = NULL;
    if (c->state != CONN_DEAD)
        reply_start(c);
}

/* Also after the head of a stream is out, where only an event can say it. */
void exec_failed(struct conn *c, enum sp_err e)
{
    if (c->exec != NULL)
        count_end(c->exec, COMMAND_LOST);
    if (c->probe) /* every place taken is work, not a failure */
        box_probed(c, e == SP_E_BUSY);
    else if (c->state == CONN_EVENTS)
        events_failed(c, e);
    else
        reply_error_extra(c, e, NULL, e == SP_E_BUSY ? "Retry-After: 1\r\n" : "");
}

void exec_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f)
{
    if (m->op == SP_OP_STARTED && c->state == CONN_WAIT) {
        started(c, f);
    } else if (m->op == SP_OP_EXITED && c->state == CONN_WAIT && f->nfds == 2 && !c->exec->live) {
        runs(c, f);
        exited(c, m);
    } else if (m->op == SP_OP_EXITED && (c->state == CONN_EXEC || c->state == CONN_EVENTS)) {
        exited(c, m);
    } else if (m->op == SP_OP_FAIL) {
        link_forget(c, false);
        exec_failed(c, (enum sp_err)m->err);
    } else {
        conn_close(c);
    }
}

void exec_free(struct conn *c)
{
    struct exec_state *x = c->exec;
    if (x == NULL)
        return;
    count_end(x, COMMAND_CANCELLED);
    events_free(x);
    exec_capture_end(&x->out);
    exec_capture_end(&x->err);
    if (x->in_sock != NULL)
        h2o_socket_close(x->in_sock);
    free(x->in);
    free(x->out.buf);
    free(x->err.buf);
    free(x);
    c->exec = NULL;
}
