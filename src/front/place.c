/* place.c: the files of a multipart body. Each is an upload of its own in the cell, which keeps it
 * without a name; only when the whole body was good, and the cell has all of it, are they given
 * their names, one after the other. If then one can't be, because a command just put something in
 * its way, those after it aren't either. What a client calls them is hostile. */
#include "parts.h"

#include "sallyport/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One is the other, or lies below it. */
static bool collide(const struct part_file *a, const struct part_file *b)
{
    const struct part_file *s = a->path_len < b->path_len ? a : b, *l = s == a ? b : a;
    return memcmp(s->path, l->path, s->path_len) == 0 &&
           (s->path_len == l->path_len || l->path[s->path_len] == '/');
}

/* Where the file goes: below the folder that the query named. */
static enum sp_err set_path(const struct conn *c, struct part_file *f, struct sp_slice name)
{
    size_t base = c->path != NULL ? c->path_len : 0, slash = base > 0 ? 1 : 0;
    f->path = malloc(base + slash + name.n + 1);
    if (f->path == NULL)
        return SP_E_OVERLOADED;
    if (base > 0) {
        memcpy(f->path, c->path, base);
        f->path[base] = '/';
    }
    memcpy(f->path + base + slash, name.p, name.n);
    f->path_len = base + slash + name.n;
    f->path[f->path_len] = '\0';
    bool plain = c->parts->kind != PARTS_FILE || memchr(name.p, '/', name.n) == NULL;
    return plain && sp_path_check(name.p, name.n) == SP_OK ? sp_path_check(f->path, f->path_len)
                                                           : SP_E_BAD_PATH;
}

bool place_begin(struct conn *c, struct sp_slice filename)
{
    struct parts_state *p = c->parts;
    if (p->n == PARTS_MAX) {
        reply_error(c, SP_E_BAD_FIELD, "There are more files than one request may have.");
        return false;
    }
    struct part_file *f = &p->file[p->n++];
    enum sp_err e = set_path(c, f, filename);
    const char *why = NULL;
    for (unsigned i = 0; e == SP_OK && i + 1 < p->n; i++)
        if (collide(f, &p->file[i])) {
            e = SP_E_BAD_FIELD;
            why = "Two files have the same path, or one lies below the other.";
        }
    if (e == SP_OK) {
        struct sp_msg m = {.op = SP_OP_PUT, .flags = SP_PUT_STAGED, .path = {f->path, f->path_len}};
        (void)upload_terms(&c->head, &m); /* they were asked before the body */
        f->id = link_take(c, &m);
        e = f->id == 0 ? SP_E_OVERLOADED : SP_OK;
    }
    if (e != SP_OK) {
        reply_error(c, e, why);
        return false;
    }
    p->waiting = true;
    conn_read_on(c, false);
    conn_clock(c, CLOCK_HANGUP);
    return true;
}

static void on_writable(h2o_socket_t *sock, const char *err)
{
    struct conn *c = sock->data;
    (void)err;
    if (c->state == CONN_PARTS)
        parts_pump(c);
}

void place_wait(struct conn *c)
{
    h2o_socket_t *s = c->parts->pipe;
    conn_read_on(c, false);
    if (s->_cb.write == NULL)
        h2o_socket_notify_write(s, on_writable);
}

int place_bytes(struct conn *c)
{
    struct parts_state *p = c->parts;
    while (p->npending > 0) {
        ssize_t n = io_pipe_write(h2o_socket_get_fd(p->pipe), p->pending, p->npending);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n < 0) {
            p->lost = true;
            conn_read_on(c, false);
            conn_clock(c, CLOCK_HANGUP); /* FAIL is on its way */
            return -1;
        }
        p->pending += n;
        p->npending -= (size_t)n;
        p->file[p->n - 1].size += (uint64_t)n;
    }
    return 1;
}

static void close_pipe(struct parts_state *p)
{
    if (p->pipe != NULL)
        h2o_socket_close(p->pipe);
    p->pipe = NULL;
}

void place_end(struct conn *c)
{
    close_pipe(c->parts);
}

/* ---- the end ---- */

static bool put_file(struct conn *c, const struct part_file *f, bool with_created)
{
    static char json[6 * SP_PATH_BYTES_MAX + 128];
    size_t used;
    int n = snprintf(json, sizeof json, "{\"path\":\"");
    size_t at = (size_t)n;
    at += sp_json_escape(f->path, f->path_len, json + at, sizeof json - at - 96, &used);
    n = snprintf(json + at, sizeof json - at, "\",\"size\":%llu", (unsigned long long)f->size);
    at += (size_t)n;
    if (with_created) {
        n = snprintf(json + at, sizeof json - at, ",\"created\":%s", f->created ? "true" : "false");
        at += (size_t)n;
    }
    json[at++] = '}';
    return reply_append(c, json, at);
}

/* Makes the text in out, then moves it behind the head, whose length it decides. */
static void answer(struct conn *c)
{
    struct parts_state *p = c->parts;
    const struct part_file *f = &p->file[0];
    char extra[SP_ETAG_MAX + 32] = "";
    bool ok = true, one = p->kind == PARTS_FILE;
    c->out_len = 0;
    if (one) {
        ok = put_file(c, f, false);
        (void)snprintf(extra, sizeof extra, "ETag: \"%s\"\r\n", f->etag);
    } else {
        ok = reply_append(c, "{\"files\":[", 10);
        for (unsigned i = 0; ok && i < p->n; i++)
            ok = (i == 0 || reply_append(c, ",", 1)) && put_file(c, &p->file[i], true);
        ok = ok && reply_append(c, "]}", 2);
    }
    ok = ok && reply_append(c, "\n", 1);
    char *text = c->out;
    size_t n = c->out_len;
    c->out = NULL;
    c->out_len = c->out_cap = 0;
    if (ok)
        reply_json(c, one && f->created ? 201 : 200, extra, text, n);
    else
        conn_close(c); /* the files are there: what isn't to be had is the memory to say so */
    free(text);
}

static void place_next(struct conn *c)
{
    struct parts_state *p = c->parts;
    if (p->placed < p->n) {
        const struct part_file *f = &p->file[p->placed];
        struct sp_msg m = {.op = SP_OP_COMMIT, .id = f->id, .size = f->size};
        if (!link_send(&m))
            reply_error(c, SP_E_OVERLOADED, NULL);
        return;
    }
    if (p->kind != PARTS_EXEC) {
        answer(c);
        return;
    }
    parts_free(c);
    exec_body_ready(c);
}

/* The cell may find out late that bytes were too many: none is placed before all are there. */
void place_all(struct conn *c)
{
    struct parts_state *p = c->parts;
    p->whole = true;
    c->state = CONN_WAIT;
    conn_clock(c, CLOCK_NONE);
    conn_read_on(c, true);
    if (p->staged == p->n)
        place_next(c);
}

static void ready(struct conn *c, struct sp_frame *f)
{
    struct parts_state *p = c->parts;
    p->pipe =
        h2o_evloop_socket_create(front.loop, sp_frame_take_fd(f, 0), H2O_SOCKET_FLAG_DONT_READ);
    p->pipe->data = c;
    p->waiting = false;
    conn_clock(c, CLOCK_STALL);
    parts_pump(c);
}

static void done(struct conn *c, const struct sp_msg *m)
{
    struct parts_state *p = c->parts;
    struct part_file *f = &p->file[p->placed++];
    f->created = (m->flags & SP_DONE_CREATED) != 0;
    memcpy(f->etag, m->etag.p, m->etag.n); /* the decoder bounds it */
    link_drop(f->id);
    f->id = 0;
    place_next(c);
}

void parts_message(struct conn *c, const struct sp_msg *m, struct sp_frame *f)
{
    struct parts_state *p = c->parts;
    bool last = p->n > 0 && p->file[p->n - 1].id == m->id;
    if (m->op == SP_OP_READY && p->waiting && last) {
        ready(c, f);
    } else if (m->op == SP_OP_STAGED) {
        p->staged++; /* once each: the broker sees to that */
        if (p->whole && p->staged == p->n)
            place_next(c);
    } else if (m->op == SP_OP_DONE && c->state == CONN_WAIT && p->placed < p->n &&
               p->file[p->placed].id == m->id) {
        done(c, m);
    } else if (m->op == SP_OP_FAIL) {
        for (unsigned i = 0; i < p->n; i++)
            if (p->file[i].id == m->id) {
                link_drop(m->id);
                p->file[i].id = 0;
            }
        c->unread_body = c->unread_body || !p->body_end;
        reply_error(c, (enum sp_err)m->err, NULL);
    } else {
        conn_close(c);
    }
}

void parts_cancel(struct conn *c)
{
    struct parts_state *p = c->parts;
    close_pipe(p);
    for (unsigned i = 0; i < p->n; i++) {
        struct sp_msg m = {.op = SP_OP_CANCEL, .id = p->file[i].id};
        if (m.id == 0)
            continue;
        (void)link_send(&m);
        link_drop(m.id);
        p->file[i].id = 0;
    }
}
