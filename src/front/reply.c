/* reply.c: makes and sends answers: a head, then bytes from a buffer, from a generator or, by
 * sendfile, from a descriptor. Trusts its callers in the front. */
#include "tls.h"

#include "sallyport/utf8.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void pump(struct conn *c);

static const char *status_text(int status)
{
    static const struct {
        int status;
        const char *text;
    } names[] = {{200, "OK"},
                 {201, "Created"},
                 {204, "No Content"},
                 {206, "Partial Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {409, "Conflict"},
                 {412, "Precondition Failed"},
                 {413, "Content Too Large"},
                 {414, "URI Too Long"},
                 {415, "Unsupported Media Type"},
                 {416, "Range Not Satisfiable"},
                 {417, "Expectation Failed"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {501, "Not Implemented"},
                 {503, "Service Unavailable"},
                 {505, "HTTP Version Not Supported"},
                 {507, "Insufficient Storage"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].status == status)
            return names[i].text;
    return "Error";
}

bool reply_append(struct conn *c, const void *p, size_t n)
{
    if (c->out_cap - c->out_len < n) {
        size_t cap = c->out_len + n + 512;
        char *q = realloc(c->out, cap);
        if (q == NULL)
            return false;
        c->out = q;
        c->out_cap = cap;
    }
    if (n > 0)
        memcpy(c->out + c->out_len, p, n);
    c->out_len += n;
    return true;
}

static void put_head(struct conn *c, int status, const char *type, const char *framing,
                     const char *extra)
{
    static time_t date_at = -1;
    static char date[32];
    time_t now = time(NULL);
    if (now != date_at) {
        sp_http_date(now, date);
        date_at = now;
    }
    /* An answer that leaves request bytes unread must be the connection's last. So is that to the
     * last request of a client that closed its side. */
    if (c->unread_body || front.draining || (c->eof && c->in_len <= c->body_pos))
        c->close_after = true;
    const char *connection = "";
    if (c->close_after)
        connection = "Connection: close\r\n";
    else if (c->head.minor == 0)
        connection = "Connection: keep-alive\r\n";
    char head[1024];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %d %s\r\nDate: %s\r\n%s%s%s%s%s%s"
                     "X-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n\r\n",
                     status, status_text(status), date, connection,
                     type != NULL ? "Content-Type: " : "", type != NULL ? type : "",
                     type != NULL ? "\r\n" : "", framing, extra);
    c->status = status;
    c->out_len = c->out_pos = 0;
    if (n < 0 || (size_t)n >= sizeof head || !reply_append(c, head, (size_t)n))
        conn_close(c);
}

void reply_head(struct conn *c, int status, const char *type, uint64_t length, const char *extra)
{
    /* One answer a request: what the broker may still say must not meet a half-sent one. */
    link_forget(c, true);
    if (c->parts != NULL)
        parts_cancel(c);
    char len[48] = "";
    if (status != 204 && status != 304)
        snprintf(len, sizeof len, "Content-Length: %llu\r\n", (unsigned long long)length);
    put_head(c, status, type, len, extra);
}

void reply_stream_head(struct conn *c, const char *type, const char *extra)
{
    const bool chunks = c->head.minor > 0;
    if (!chunks)
        c->close_after = true; /* which is how HTTP/1.0 sees the end */
    put_head(c, 200, type, chunks ? "Transfer-Encoding: chunked\r\n" : "", extra);
}

/* A proxy that gathers answers before it passes them on would make the stream useless. */
void reply_events_head(struct conn *c)
{
    reply_stream_head(c, "text/event-stream", "X-Accel-Buffering: no\r\n");
}

void reply_json(struct conn *c, int status, const char *extra, const char *json, size_t n)
{
    reply_head(c, status, "application/json", n, extra);
    if (c->state == CONN_DEAD)
        return;
    if (!c->http_head && !reply_append(c, json, n)) {
        conn_close(c);
        return;
    }
    reply_start(c);
}

void reply_text(struct conn *c, const char *type, const char *text, size_t n)
{
    reply_head(c, 200, type, n, "");
    if (c->state == CONN_DEAD)
        return;
    if (!c->http_head && !reply_append(c, text, n)) {
        conn_close(c);
        return;
    }
    reply_start(c);
}

size_t reply_error_text(char *json, size_t cap, enum sp_err e, const char *sentence)
{
    metrics_error(e);
    if (sentence == NULL || sentence[0] == '\0')
        sentence = sp_err_text(e);
    int n = snprintf(json, cap, "{\"error\":\"");
    size_t used, at = (size_t)n;
    at += sp_json_escape(sentence, strlen(sentence), json + at, 800, &used);
    return at + (size_t)snprintf(json + at, cap - at, "\",\"code\":\"%s\"}", sp_err_name(e));
}

void reply_error_extra(struct conn *c, enum sp_err e, const char *sentence, const char *extra)
{
    char json[1024];
    size_t n = reply_error_text(json, sizeof json - 1, e, sentence);
    json[n++] = '\n';
    /* Whatever of the body was not read can't be told from a next request. */
    if (c->head.chunked || c->body_left > 0)
        c->unread_body = true;
    reply_json(c, sp_err_status(e), extra, json, n);
}

void reply_error(struct conn *c, enum sp_err e, const char *sentence)
{
    reply_error_extra(c, e, sentence, "");
}

void reply_start(struct conn *c)
{
    assert(c->state != CONN_DEAD); /* nor may what is to be freed come to life again */
    c->state = CONN_SEND;
    conn_clock(c, CLOCK_STALL);
    pump(c);
}

static void on_writable(h2o_socket_t *sock, const char *err)
{
    struct conn *c = sock->data;
    (void)err;
    c->write_armed = false;
    if (c->tls != NULL && tls_wanted_write(c))
        conn_readable(c);
    if (c->state == CONN_SEND)
        pump(c);
    else if (c->state == CONN_EVENTS)
        events_pump(c);
    else if (c->state == CONN_STREAM)
        stream_pump(c);
}

void reply_wait(struct conn *c)
{
    if (c->write_armed)
        return;
    c->write_armed = true;
    h2o_socket_notify_write(c->sock, on_writable);
}

int reply_flush(struct conn *c)
{
    while (c->out_pos < c->out_len) {
        bool more = c->fill != NULL || c->file_left > 0;
        ssize_t n = io_send(c, c->out + c->out_pos, c->out_len - c->out_pos, more);
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        c->out_pos += (size_t)n;
        c->bytes_out += (uint64_t)n;
        conn_progress(c, (size_t)n);
    }
    c->out_len = c->out_pos = 0;
    return 1;
}

/* As reply_flush; 2: enough for this turn. */
static int flush_file(struct conn *c)
{
    uint64_t turn = 0;
    while (c->file_left > 0) {
        if (turn >= FRONT_TURN)
            return 2;
        size_t want = c->file_left < FRONT_TURN ? (size_t)c->file_left : FRONT_TURN;
        ssize_t n = io_send_file(c, c->file, c->file_pos, want);
        if (n < 0)
            return errno == EAGAIN ? 0 : -1;
        if (n == 0)
            return -1; /* the file shrank: the promised length can't be kept */
        c->file_pos += (uint64_t)n;
        c->file_left -= (uint64_t)n;
        c->bytes_out += (uint64_t)n;
        turn += (uint64_t)n;
        conn_progress(c, (size_t)n);
    }
    return 1;
}

static void pump(struct conn *c)
{
    for (;;) {
        int r = reply_flush(c);
        if (r == 1 && c->fill != NULL) {
            if (!c->fill(c))
                c->fill = NULL;
            if (c->state == CONN_DEAD)
                return; /* no memory for the rest */
            continue;
        }
        if (r == 1)
            r = flush_file(c);
        if (r == 0 || r == 2) {
            reply_wait(c);
            return;
        }
        if (r < 0)
            conn_close(c);
        else
            conn_request_done(c);
        return;
    }
}
