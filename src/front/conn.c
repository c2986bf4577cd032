/* conn.c: one client connection: accepting, reading, clocks, the turn from one request to the
 * next, and the end. Everything that comes in here is hostile. */
#include "box.h"
#include "tls.h"

#include "sallyport/log.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_BATCH 32
#define LINGER_BYTES (64u << 20)
/* A client that sends or takes less than this in a stall period makes no progress. */
#define PROGRESS_BYTES 1024u

static void on_readable(h2o_socket_t *sock, const char *err);
static void on_timer(h2o_timeout_entry_t *entry);

/* ---- clocks ---- */

void conn_clock(struct conn *c, enum conn_clock clock)
{
    if (h2o_timeout_is_linked(&c->timer))
        h2o_timeout_unlink(&c->timer);
    c->clock = clock;
    c->moved = 0;
    assert(clock == CLOCK_NONE || c->state != CONN_DEAD); /* who is to be freed is on no list */
    if (clock != CLOCK_NONE)
        h2o_timeout_link(front.loop, &front.clocks[clock], &c->timer);
}

void conn_progress(struct conn *c, size_t n)
{
    c->moved += n;
    if (c->clock == CLOCK_STALL && c->moved >= PROGRESS_BYTES)
        conn_clock(c, CLOCK_STALL);
}

/* Work that is somebody else's, too, or that would be half done. */
static bool goes_on_alone(const struct conn *c)
{
    return c->probe || parts_placing(c);
}

static void on_timer(h2o_timeout_entry_t *entry)
{
    struct conn *c = H2O_STRUCT_FROM_MEMBER(struct conn, timer, entry);
    enum conn_clock clock = c->clock;
    c->clock = CLOCK_NONE;
    bool sends = c->state == CONN_SEND || c->state == CONN_STREAM;
    if (clock == CLOCK_STALL && sends && io_newly_taken(c) >= (int64_t)PROGRESS_BYTES) {
        conn_clock(c, CLOCK_STALL);
        return;
    }
    if (clock == CLOCK_HEAD || clock == CLOCK_IDLE || clock == CLOCK_STALL)
        metrics_timeout(clock == CLOCK_HEAD   ? WAIT_HEAD
                        : clock == CLOCK_IDLE ? WAIT_IDLE
                                              : WAIT_STALL);
    if (clock == CLOCK_HANGUP) {
        /* Input is full or ended, so the loop can't tell us that the client left. */
        if (!goes_on_alone(c) && io_hung_up(c))
            conn_close(c);
        else
            conn_clock(c, CLOCK_HANGUP);
        return;
    }
    bool unanswered = (c->state == CONN_HEAD && !io_idle(c)) || c->state == CONN_JSON ||
                      c->state == CONN_UPLOAD || c->state == CONN_PARTS;
    if (!unanswered) {
        conn_close(c);
        return;
    }
    c->unread_body = true;
    reply_error(c, SP_E_TIMEOUT, NULL);
}

/* ---- accept ---- */

static void conn_new(int fd, bool tls)
{
    struct conn *c = calloc(1, sizeof *c);
    if (c == NULL) {
        close(fd);
        return;
    }
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* fails on unix sockets */
    c->fd = fd;
    c->file = -1;
    c->state = CONN_HEAD;
    if (tls && !tls_begin(c)) {
        free(c);
        close(fd);
        return;
    }
    c->sock = h2o_evloop_socket_create(front.loop, fd, H2O_SOCKET_FLAG_DONT_READ);
    c->sock->data = c;
    c->timer.cb = on_timer;
    h2o_linklist_insert(&front.conns, &c->all);
    front.nconns++;
    metrics_connection();
    /* The first request may already be there. */
    c->reading = true;
    h2o_socket_read_start(c->sock, on_readable);
    conn_clock(c, CLOCK_HEAD);
}

/* The idle clock's list is in the order of its start: the first has been idle longest. */
static bool close_oldest_idle(void)
{
    h2o_linklist_t *idle = &front.clocks[CLOCK_IDLE]._entries;
    if (h2o_linklist_is_empty(idle))
        return false;
    h2o_timeout_entry_t *e = H2O_STRUCT_FROM_MEMBER(h2o_timeout_entry_t, _link, idle->next);
    conn_close(H2O_STRUCT_FROM_MEMBER(struct conn, timer, e));
    return true;
}

/* Until a connection ends or becomes idle. */
static void pause_accept(const char *why)
{
    front.accept_paused = true;
    for (unsigned l = 0; l < front.nlisteners; l++)
        h2o_socket_read_stop(front.listeners[l]);
    sp_log(SP_LOG_WARN, "%zu connections: %s; new ones wait", front.nconns, why);
}

void conn_accept(h2o_socket_t *listener)
{
    for (int i = 0; i < ACCEPT_BATCH; i++) {
        const bool full = front.nconns >= front.max_conns;
        if (full && h2o_linklist_is_empty(&front.clocks[CLOCK_IDLE]._entries)) {
            pause_accept("the limit");
            return;
        }
        int fd = accept4(h2o_socket_get_fd(listener), NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                if (close_oldest_idle())
                    continue;
                if (front.nconns > 0)
                    pause_accept(strerror(errno));
                else /* nobody would resume */
                    sp_pause();
            }
            return;
        }
        if (full) /* now that somebody is there to have the place */
            (void)close_oldest_idle();
        conn_new(fd, listener->data != NULL);
    }
}

/* ---- input ---- */

void conn_read_on(struct conn *c, bool on)
{
    if (c->eof)
        on = false;
    if (c->state == CONN_DEAD)
        return;
    if (on && !c->reading)
        h2o_socket_read_start(c->sock, on_readable);
    else if (!on && c->reading)
        h2o_socket_read_stop(c->sock);
    c->reading = on;
    if (c->tls != NULL)
        tls_arm(c);
}

ssize_t conn_recv(struct conn *c, size_t max_total)
{
    if (c->in_len >= max_total)
        return -1;
    /* One size, so that the head's slices never move. Untouched pages cost nothing. */
    if (c->in == NULL) {
        c->in = malloc(FRONT_IN_MAX);
        if (c->in == NULL)
            return -2;
        c->in_cap = FRONT_IN_MAX;
    }
    size_t room = c->in_cap < max_total ? c->in_cap : max_total;
    ssize_t n = io_recv(c, c->in + c->in_len, room - c->in_len);
    if (n > 0) {
        c->in_len += (size_t)n;
    } else if (n == 0) {
        c->eof = true;
        conn_read_on(c, false);
    } else {
        return errno == EAGAIN ? -1 : -2;
    }
    return n;
}

bool conn_send_continue(struct conn *c)
{
    if (!c->head.expect_continue || c->in_len > c->head.size)
        return true;
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    if (io_send(c, text, sizeof text - 1, false) == (ssize_t)sizeof text - 1)
        return true;
    conn_close(c); /* a fresh socket that can't take 25 bytes */
    return false;
}

/* Input while we answer: what a pipelining client sends ahead, or the news that it left. */
static void read_ahead(struct conn *c)
{
    ssize_t n = conn_recv(c, FRONT_IN_MAX);
    bool left = n == -2 || (n == 0 && (c->state == CONN_EXEC || c->op == SP_OP_EXEC));
    if (left && goes_on_alone(c)) {
        c->eof = true;
        conn_read_on(c, false);
        return;
    }
    if (left) {
        conn_close(c);
        return;
    }
    if (c->in_len < FRONT_IN_MAX)
        return;
    conn_read_on(c, false);
    if (c->clock == CLOCK_NONE)
        conn_clock(c, CLOCK_HANGUP);
}

static void linger_read(struct conn *c)
{
    char *scratch = c->in != NULL ? c->in : (c->in = malloc(FRONT_IN_MAX));
    if (scratch == NULL) {
        conn_close(c);
        return;
    }
    ssize_t n = recv(c->fd, scratch, FRONT_IN_MAX, 0);
    if (n > 0 && (c->moved += (size_t)n) < LINGER_BYTES)
        return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    conn_close(c);
}

static void on_readable(h2o_socket_t *sock, const char *err)
{
    (void)err; /* recv tells more */
    conn_readable(sock->data);
}

void conn_readable(struct conn *c)
{
    if (c->state == CONN_HEAD) {
        ssize_t n = conn_recv(c, FRONT_IN_MAX);
        if (n == -2 || (n == 0 && c->in_len == 0)) {
            conn_close(c);
            return;
        }
        conn_run(c);
    } else if (c->state == CONN_JSON) {
        exec_read_body(c);
    } else if (c->state == CONN_UPLOAD) {
        upload_pump(c);
    } else if (c->state == CONN_PARTS) {
        parts_pump(c);
    } else if (c->state == CONN_LINGER) {
        linger_read(c);
    } else if (c->state != CONN_DEAD) {
        read_ahead(c);
    }
}

/* ---- requests ---- */

/* True when a request was begun. */
static bool next_request(struct conn *c)
{
    enum sp_err e = SP_E_BAD_REQUEST;
    if (c->in_len == 0)
        return false;
    int r = sp_head_parse(c->in, c->in_len, c->scanned, &c->head, &e);
    if (r == 0) {
        c->scanned = c->in_len;
        if (c->eof)
            conn_close(c);
        else if (c->clock != CLOCK_HEAD)
            conn_clock(c, CLOCK_HEAD);
        return false;
    }
    conn_clock(c, CLOCK_NONE);
    c->began_us = metrics_now_us();
    if (r < 0) {
        memset(&c->head, 0, sizeof c->head);
        c->unread_body = true;
        reply_error(c, e, NULL);
        return true;
    }
    c->scanned = 0;
    c->body_pos = c->head.size;
    c->body_left = c->head.has_length ? c->head.length : 0;
    c->http_head = c->head.method == SP_M_HEAD;
    c->close_after = !c->head.keep_alive;
    route_request(c);
    return true;
}

void conn_run(struct conn *c)
{
    if (c->running)
        return;
    c->running = true;
    while (c->state == CONN_HEAD && next_request(c)) {
    }
    c->running = false;
    if (c->state != CONN_HEAD)
        return;
    if (c->eof) {
        conn_close(c);
        return;
    }
    conn_read_on(c, true);
    if (c->in_len == 0 && c->clock == CLOCK_NONE) {
        free(c->in);
        c->in = NULL;
        c->in_cap = 0;
        conn_clock(c, CLOCK_IDLE);
        front_resume_accept(); /* this one could make room */
    }
}

static void free_request(struct conn *c)
{
    free(c->body);
    free(c->path);
    free(c->out);
    free(c->space);
    c->body = c->path = c->out = c->space = NULL;
    c->body_len = c->body_cap = c->path_len = c->out_len = c->out_pos = c->out_cap = 0;
    exec_free(c);
    upload_free(c);
    stream_free(c);
    parts_free(c);
    box_probe_dropped(c);
    c->has_key = false;
    c->route = NULL;
    c->want = WANT_ANY;
    if (c->file >= 0)
        close(c->file);
    c->file = -1;
    front.listings -= c->listing;
    c->listing = 0;
    c->file_pos = c->file_left = 0;
    c->bytes_out = 0;
    c->fill = NULL;
}

static void begin_linger(struct conn *c)
{
    c->state = CONN_LINGER;
    if (c->tls != NULL)
        tls_shut_write(c);
    if (c->eof || shutdown(c->fd, SHUT_WR) != 0) {
        conn_close(c);
        return;
    }
    conn_read_on(c, true);
    conn_clock(c, CLOCK_LINGER);
}

void conn_request_done(struct conn *c)
{
    box_log(c, c->status);
    if (front.cfg->log_requests && front.cfg->mode == SP_MODE_SEAT)
        sp_log(SP_LOG_INFO, "request method=%d status=%d path=%.*s", (int)c->head.method, c->status,
               c->head.path.p == NULL ? 0 : (int)c->head.path.n,
               c->head.path.p == NULL ? "" : c->head.path.p);
    uint64_t now = metrics_now_us();
    metrics_request(c->kind, c->status, c->began_us != 0 ? now - c->began_us : 0);
    c->began_us = 0;
    c->kind = ROUTE_OTHER; /* of a next one that comes to no head */
    free_request(c);
    link_forget(c, true);
    if (c->unread_body || ((c->close_after || front.draining) && io_more(c))) {
        begin_linger(c);
        return;
    }
    if (c->close_after || front.draining) {
        conn_close(c);
        return;
    }
    size_t rest = c->in_len - c->body_pos;
    memmove(c->in, c->in + c->body_pos, rest);
    c->in_len = rest;
    c->scanned = c->body_pos = 0;
    memset(&c->head, 0, sizeof c->head);
    c->http_head = false; /* what is refused without being understood gets a body */
    c->state = CONN_HEAD;
    conn_clock(c, CLOCK_NONE);
    conn_run(c);
}

/* ---- the end ---- */

void conn_close(struct conn *c)
{
    if (c->state == CONN_DEAD)
        return;
    link_forget(c, true);
    conn_clock(c, CLOCK_NONE);
    box_log(c, 0);
    free_request(c);
    if (c->began_us != 0)
        metrics_aborted(c->kind);
    c->state = CONN_DEAD;
    if (c->tls != NULL) {
        tls_shut_write(c);
        tls_free(c);
    }
    h2o_socket_close(c->sock);
    c->sock = NULL;
    h2o_linklist_unlink(&c->all);
    h2o_linklist_insert(&front.dead, &c->all);
    front.nconns--;
    front_resume_accept();
}

void conn_free_dead(void)
{
    h2o_linklist_t *next;
    for (h2o_linklist_t *l = front.dead.next; l != &front.dead; l = next) {
        next = l->next;
        struct conn *c = H2O_STRUCT_FROM_MEMBER(struct conn, all, l);
        free(c->in);
        free(c);
    }
    h2o_linklist_init_anchor(&front.dead);
}

void conn_close_idle(void)
{
    h2o_linklist_t *next;
    for (h2o_linklist_t *l = front.conns.next; l != &front.conns; l = next) {
        next = l->next;
        struct conn *c = H2O_STRUCT_FROM_MEMBER(struct conn, all, l);
        if (c->state == CONN_HEAD && io_idle(c))
            conn_close(c);
    }
}
