/* events.c: a command's output as server-sent events while it runs. Nothing is kept: a pipe is read
 * only once the client's socket has taken what was read before, so that a client that stops reading
 * stops the command. The client and the command are hostile. */
#include "front.h"

#include "sallyport/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define READ_ONCE 32768u    /* bytes of one pipe, then the other gets its turn */
#define TEXT_MAX 65000u     /* of one event, escaped: a line is under 64 KiB */
#define STALL_PROGRESS 1024 /* a client that takes less in a stall period is gone */
#define EVENT_MAX (TEXT_MAX + 64u)

/* One stream of the command. */
struct source {
    struct capture *pipe;
    const char *name;
    uint64_t bytes;
    size_t left;   /* once the command is dead: what is still to be read */
    char carry[4]; /* a character that has begun */
    size_t ncarry;
};

struct events {
    struct conn *conn;
    struct source src[2];
    unsigned turn; /* whose pipe is read next */
    bool ended;    /* the command is dead */
    bool last;     /* the last event is in the buffer */
    h2o_timeout_entry_t beat, stall;
    int64_t reached; /* io_taken when the stall clock was set */
};

/* ---- what goes out ---- */

/* One event, or a comment (name NULL), as a chunk where the answer has chunks. */
static bool put(struct conn *c, const char *name, const char *data, size_t n)
{
    static char buf[EVENT_MAX];
    int head = name != NULL ? snprintf(buf, sizeof buf, "event: %s\ndata: ", name)
                            : snprintf(buf, sizeof buf, ":");
    size_t at = (size_t)head;
    if (n > 0)
        memcpy(buf + at, data, n);
    at += n;
    memcpy(buf + at, "\n\n", 2);
    at += 2;
    char size[16];
    int len = c->head.minor > 0 ? snprintf(size, sizeof size, "%zx\r\n", at) : 0;
    if (reply_append(c, size, (size_t)len) && reply_append(c, buf, at) &&
        reply_append(c, "\r\n", len > 0 ? 2 : 0))
        return true;
    conn_close(c);
    return false;
}

/* The bytes as one event or, where much is escaped, as several. */
static bool put_text(struct conn *c, const struct source *s, const char *p, size_t n)
{
    static char json[TEXT_MAX];
    static const char open[] = "{\"text\":\"";
    while (n > 0) {
        size_t used, at = sizeof open - 1;
        memcpy(json, open, at);
        at += sp_json_escape(p, n, json + at, sizeof json - at - 2, &used);
        memcpy(json + at, "\"}", 2);
        if (!put(c, s->name, json, at + 2))
            return false;
        p += used;
        n -= used;
    }
    return true;
}

/* Nothing comes after this event. */
static void put_last(struct conn *c, const char *name, const char *json, size_t n)
{
    c->exec->ev->last = true;
    if (put(c, name, json, n) && c->head.minor > 0 && !reply_append(c, "0\r\n\r\n", 5))
        conn_close(c);
}

static void put_exit(struct conn *c)
{
    const struct events *ev = c->exec->ev;
    char json[400];
    int n = snprintf(json, sizeof json, "{");
    n += (int)exec_result_members(c->exec, json + n, sizeof json - (size_t)n);
    n +=
        snprintf(json + n, sizeof json - (size_t)n, ",\"stdout_bytes\":%llu,\"stderr_bytes\":%llu}",
                 (unsigned long long)ev->src[0].bytes, (unsigned long long)ev->src[1].bytes);
    put_last(c, "exit", json, (size_t)n);
}

/* ---- what comes from the pipes ---- */

static void source_end(struct conn *c, struct source *s)
{
    exec_capture_end(s->pipe);
    s->left = 0;
    size_t n = s->ncarry;
    s->ncarry = 0;
    (void)put_text(c, s, s->carry, n); /* a character that never ended */
}

/* Reads some of one pipe: bytes read, 0 nothing there now or ever. */
static size_t source_read(struct conn *c, struct source *s)
{
    static char buf[sizeof s->carry + READ_ONCE];
    const bool ended = c->exec->ev->ended;
    if (s->pipe->fd < 0)
        return 0;
    size_t want = ended && s->left < READ_ONCE ? s->left : READ_ONCE;
    ssize_t n;
    do
        n = want > 0 ? io_pipe_read(s->pipe->fd, buf + s->ncarry, want) : 0;
    while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN && !ended)
        return 0;
    if (n <= 0) {
        source_end(c, s);
        return 0;
    }
    memcpy(buf, s->carry, s->ncarry);
    size_t have = s->ncarry + (size_t)n, whole = sp_utf8_whole(buf, have);
    s->ncarry = have - whole;
    memcpy(s->carry, buf + whole, s->ncarry);
    s->bytes += (uint64_t)n;
    s->left -= ended ? (size_t)n : 0;
    (void)put_text(c, s, buf, whole);
    return (size_t)n;
}

/* As above, of the two in turn; 0: neither has anything. */
static size_t read_some(struct conn *c)
{
    struct events *ev = c->exec->ev;
    for (int i = 0; i < 2; i++) {
        struct source *s = &ev->src[ev->turn];
        ev->turn ^= 1;
        size_t n = source_read(c, s);
        if (n > 0 || c->state == CONN_DEAD)
            return n;
    }
    return 0;
}

static void on_pipe(h2o_socket_t *sock, const char *err)
{
    (void)err;
    events_pump(sock->data);
}

static void watch_pipes(struct events *ev, bool on)
{
    for (int i = 0; i < 2; i++) {
        h2o_socket_t *s = ev->src[i].pipe->sock;
        if (s == NULL || on == (bool)h2o_socket_is_reading(s))
            continue;
        if (on)
            h2o_socket_read_start(s, on_pipe);
        else
            h2o_socket_read_stop(s);
    }
}

/* ---- the client's pace ---- */

static void on_stall(h2o_timeout_entry_t *entry)
{
    struct events *ev = H2O_STRUCT_FROM_MEMBER(struct events, stall, entry);
    int64_t now = io_taken(ev->conn);
    if (now - ev->reached < STALL_PROGRESS) {
        conn_close(ev->conn); /* as if it had left: the command is killed */
        return;
    }
    ev->reached = now;
    h2o_timeout_link(front.loop, &front.clocks[CLOCK_STALL], &ev->stall);
}

static void stall_clock(struct events *ev, bool on)
{
    bool is_on = h2o_timeout_is_linked(&ev->stall);
    if (on && !is_on) {
        ev->reached = io_taken(ev->conn);
        h2o_timeout_link(front.loop, &front.clocks[CLOCK_STALL], &ev->stall);
    } else if (!on && is_on) {
        h2o_timeout_unlink(&ev->stall);
    }
}

static void on_beat(h2o_timeout_entry_t *entry)
{
    struct events *ev = H2O_STRUCT_FROM_MEMBER(struct events, beat, entry);
    struct conn *c = ev->conn;
    h2o_timeout_link(front.loop, &front.clocks[CLOCK_BEAT], &ev->beat);
    if (c->out_pos < c->out_len || ev->last)
        return; /* it has enough to read */
    if (put(c, NULL, "", 0))
        events_pump(c);
}

void events_pump(struct conn *c)
{
    struct events *ev = c->exec->ev;
    for (size_t turn = 0;;) {
        int r = reply_flush(c);
        if (r < 0) {
            conn_close(c);
            return;
        }
        stall_clock(ev, r == 0);
        if (r == 0) {
            watch_pipes(ev, false);
            reply_wait(c);
            return;
        }
        if (ev->last) {
            conn_request_done(c);
            return;
        }
        size_t n = turn < FRONT_TURN || ev->ended ? read_some(c) : 0;
        if (c->state == CONN_DEAD)
            return;
        turn += n;
        if (n > 0 || c->out_len > 0)
            continue;
        if (!ev->ended) {
            watch_pipes(ev, true);
            return;
        }
        put_exit(c);
        if (c->state == CONN_DEAD)
            return;
    }
}

/* ---- from the broker ---- */

void events_begin(struct conn *c)
{
    struct exec_state *x = c->exec;
    struct events *ev = calloc(1, sizeof *ev);
    if (ev == NULL) {
        reply_error(c, SP_E_OVERLOADED, NULL); /* forgets, and so cancels */
        return;
    }
    x->ev = ev;
    ev->conn = c;
    ev->src[0] = (struct source){.pipe = &x->out, .name = "stdout"};
    ev->src[1] = (struct source){.pipe = &x->err, .name = "stderr"};
    ev->beat.cb = on_beat;
    ev->stall.cb = on_stall;
    x->out.sock = exec_watch(c, x->out.fd);
    x->err.sock = exec_watch(c, x->err.fd);
    c->state = CONN_EVENTS;
    h2o_timeout_link(front.loop, &front.clocks[CLOCK_BEAT], &ev->beat);
    reply_events_head(c);
    if (c->state != CONN_DEAD && put(c, "start", "{}", 2))
        events_pump(c);
}

/* All of the command's processes are dead, and the result is in c->exec. What is in the pipes now
 * is all that is theirs; somebody else may hold a write end, and could fill it as fast as we read.
 */
void events_exited(struct conn *c)
{
    struct events *ev = c->exec->ev;
    watch_pipes(ev, false);
    for (int i = 0; i < 2; i++) {
        int left = 0;
        if (ev->src[i].pipe->fd >= 0 && ioctl(ev->src[i].pipe->fd, FIONREAD, &left) == 0)
            ev->src[i].left = left > 0 ? (size_t)left : 0;
    }
    ev->ended = true;
    events_pump(c);
}

void events_failed(struct conn *c, enum sp_err e)
{
    char json[1024];
    size_t n = reply_error_text(json, sizeof json, e, NULL);
    exec_capture_end(&c->exec->out);
    exec_capture_end(&c->exec->err);
    put_last(c, "error", json, n);
    if (c->state != CONN_DEAD)
        events_pump(c);
}

void events_free(struct exec_state *x)
{
    struct events *ev = x->ev;
    if (ev == NULL)
        return;
    if (h2o_timeout_is_linked(&ev->beat))
        h2o_timeout_unlink(&ev->beat);
    stall_clock(ev, false);
    free(ev);
    x->ev = NULL;
}
