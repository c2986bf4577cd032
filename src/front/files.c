/* files.c: GET, HEAD and DELETE below /files. The path has been checked; conditions and ranges
 * are the client's and hostile. The descriptor comes from the cell through the broker. */
#include "box.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void files_delete(struct conn *c, struct sp_slice path, bool recursive, bool must_dir)
{
    struct sp_msg m = {.op = SP_OP_DELETE, .path = path};
    m.flags =
        (uint8_t)((recursive ? SP_DELETE_RECURSIVE : 0) | (must_dir ? SP_DELETE_MUST_DIR : 0));
    enum sp_err e = terms_read(&c->head, &m);
    if (e == SP_OK)
        (void)link_request(c, &m);
    else
        reply_error(c, e, NULL);
}

void files_open(struct conn *c, struct sp_msg *m)
{
    if (!c->http_head)
        m->flags |= SP_OPEN_WHOLE;
    (void)link_request(c, m);
}

void files_begin(struct conn *c, const char *path, size_t n, bool must_dir)
{
    struct sp_msg m = {.op = SP_OP_OPEN, .path = {path, n}};
    if (c->head.method == SP_M_DELETE) {
        bool recursive = false;
        if (c->head.has_query && !sp_query_bool(c->head.query, "recursive", &recursive)) {
            reply_error(c, SP_E_BAD_QUERY, NULL);
            return;
        }
        files_delete(c, m.path, recursive, must_dir);
        return;
    }
    if (must_dir)
        m.flags = SP_OPEN_MUST_DIR;
    files_open(c, &m);
}

/* The head is made; n bytes follow it, from the message or from the descriptor in c->file. */
static void send_body(struct conn *c, const struct sp_msg *m, uint64_t first, uint64_t n)
{
    const bool whole = (m->flags & SP_FILE_WHOLE) != 0;
    if (c->state == CONN_DEAD)
        return;
    if (!c->http_head && !whole)
        c->file_left = n;
    if (!c->http_head && whole && !reply_append(c, m->data.p + first, (size_t)n)) {
        conn_close(c);
        return;
    }
    reply_start(c);
}

static void send_listing(struct conn *c, const struct sp_msg *m, int fd)
{
    if ((m->flags & SP_FILE_WHOLE) != 0) {
        reply_head(c, 200, "application/json", m->size, "");
        send_body(c, m, 0, m->size);
        return;
    }
    /* It is memory, which slow readers keep. One is always let through: the cell bounds it. */
    if (front.listings > 0 && m->size > FRONT_LISTINGS_MAX - front.listings) {
        close(fd);
        reply_error(c, SP_E_OVERLOADED, "Too many long listings are being sent.");
        return;
    }
    c->file = fd;
    c->listing = m->size < FRONT_LISTINGS_MAX ? m->size : FRONT_LISTINGS_MAX;
    front.listings += c->listing;
    reply_head(c, 200, "application/json", m->size, "");
    send_body(c, m, 0, m->size);
}

static void send_file(struct conn *c, const struct sp_msg *m, int fd)
{
    char date[32], extra[320];
    bool use_range = false;
    int64_t mtime = m->mtime_ns / 1000000000 - (m->mtime_ns % 1000000000 < 0); /* before 1970 too */
    c->file = fd;
    int verdict = sp_conditions(&c->head, m->etag, mtime, &use_range);
    sp_http_date(mtime, date);
    int n = snprintf(extra, sizeof extra,
                     "ETag: \"%.*s\"\r\nLast-Modified: %s\r\nAccept-Ranges: bytes\r\n",
                     (int)m->etag.n, m->etag.p, date);
    if (verdict == 412) {
        reply_error_extra(c, SP_E_PRECONDITION_FAILED, NULL, extra);
        return;
    }
    if (verdict == 304) {
        reply_head(c, 304, NULL, 0, extra);
        if (c->state != CONN_DEAD)
            reply_start(c);
        return;
    }
    uint64_t first = 0, last = 0;
    enum sp_range_result r = SP_RANGE_NONE;
    if (use_range && c->head.range.p != NULL && c->head.method == SP_M_GET)
        r = sp_range_parse(c->head.range, m->size, &first, &last);
    if (r == SP_RANGE_UNSATISFIABLE) {
        snprintf(extra + n, sizeof extra - (size_t)n, "Content-Range: bytes */%llu\r\n",
                 (unsigned long long)m->size);
        reply_error_extra(c, SP_E_BAD_RANGE, NULL, extra);
        return;
    }
    uint64_t length = m->size;
    if (r == SP_RANGE_ONE) {
        length = last - first + 1;
        snprintf(extra + n, sizeof extra - (size_t)n, "Content-Range: bytes %llu-%llu/%llu\r\n",
                 (unsigned long long)first, (unsigned long long)last, (unsigned long long)m->size);
    }
    c->file_pos = first;
    reply_head(c, r == SP_RANGE_ONE ? 206 : 200, "application/octet-stream", length, extra);
    send_body(c, m, first, length);
}

void files_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f)
{
    uint8_t op = c->op;
    link_forget(c, false);
    if (m->op == SP_OP_FAIL) {
        reply_error(c, (enum sp_err)m->err, NULL);
    } else if (m->op == SP_OP_FILE && op == SP_OP_OPEN) {
        if (box_wrong_kind(c, (m->flags & SP_FILE_LISTING) != 0))
            return;
        int fd = sp_frame_take_fd(f, 0);
        if ((m->flags & SP_FILE_LISTING) != 0)
            send_listing(c, m, fd);
        else
            send_file(c, m, fd);
    } else if (m->op == SP_OP_DONE && op == SP_OP_DELETE) {
        reply_head(c, 204, NULL, 0, "");
        if (c->state != CONN_DEAD)
            reply_start(c);
    } else {
        conn_close(c);
    }
}
