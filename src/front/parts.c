/* parts.c: reads a multipart body in constant memory: out of its chunks, through the parser, into
 * the pipes of uploads or the text of a command's request. The body is hostile. */
#include "parts.h"

#include "sallyport/box.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STEP_COST 32u /* what an event counts, in bytes: a body may have one for each byte */

/* ---- the body ---- */

/* Both: bytes are in buf 1, the body is over 2, wait 0, answered or closed -1. */
static int refill_plain(struct conn *c)
{
    struct parts_state *p = c->parts;
    size_t have = c->in_len - c->body_pos;
    if (c->body_left == 0)
        return 2;
    size_t want = c->body_left < PARTS_BUFFER ? (size_t)c->body_left : PARTS_BUFFER;
    ssize_t n;
    if (have > 0) {
        n = (ssize_t)(have < want ? have : want);
        memcpy(p->buf, c->in + c->body_pos, (size_t)n);
        c->body_pos += (size_t)n;
    } else {
        n = io_recv(c, p->buf, want);
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0) {
            conn_close(c); /* cancels: nothing is written */
            return -1;
        }
        conn_progress(c, (size_t)n);
    }
    c->body_left -= (uint64_t)n;
    p->len = (size_t)n;
    return 1;
}

static int refill_chunked(struct conn *c)
{
    struct parts_state *p = c->parts;
    for (;;) {
        while (c->body_pos < c->in_len && p->len < PARTS_BUFFER / 2) {
            const char *data;
            size_t used, dn, room = c->in_len - c->body_pos;
            /* No more than fits, whatever of it is data. */
            if (room > PARTS_BUFFER - p->len)
                room = PARTS_BUFFER - p->len;
            int r = sp_chunk_next(&p->chunk, c->in + c->body_pos, room, &used, &data, &dn);
            if (r < 0) {
                reply_error(c, SP_E_BAD_REQUEST, "The chunked body is malformed.");
                return -1;
            }
            if (dn > 0)
                memcpy(p->buf + p->len, data, dn);
            p->len += dn;
            c->body_pos += used;
            if (r == 1) {
                c->head.chunked = false; /* read to its end: the connection can go on */
                return p->len > 0 ? 1 : 2;
            }
            if (used == 0)
                break;
        }
        if (p->len > 0)
            return 1;
        ssize_t n = io_refill(c);
        if (n <= 0)
            return (int)n;
    }
}

static int refill(struct conn *c)
{
    struct parts_state *p = c->parts;
    p->pos = p->len = 0;
    if (c->head.chunked)
        return refill_chunked(c);
    return c->head.has_length ? refill_plain(c) : 2;
}

/* ---- the parts ---- */

static bool refuse(struct conn *c, enum sp_err e, const char *why)
{
    reply_error(c, e, why);
    return false;
}

static bool part_begins(struct conn *c)
{
    struct parts_state *p = c->parts;
    const struct sp_mp_part *part = &p->mp.part;
    static const char request[] = BOX_PART_REQUEST;
    bool is_request = p->kind == PARTS_EXEC && part->name.n == sizeof request - 1 &&
                      memcmp(part->name.p, request, part->name.n) == 0;
    if (is_request) {
        if (p->have_request)
            return refuse(c, SP_E_BAD_FIELD, "The part \"request\" comes twice.");
        p->in_request = p->have_request = true;
        return true;
    }
    if (!part->has_filename || part->filename.n == 0)
        return refuse(c, SP_E_BAD_FIELD, "There is a part that is no file: it has no filename.");
    return place_begin(c, part->filename);
}

static bool part_bytes(struct conn *c, const char *data, size_t n)
{
    struct parts_state *p = c->parts;
    if (p->in_request)
        return exec_body_append(c, data, n);
    if (p->npending == 0)
        p->pending = p->out;
    size_t used = (size_t)(p->pending - p->out) + p->npending;
    if (n > sizeof p->out - used)
        return refuse(c, SP_E_INTERNAL, NULL); /* can't be: see parts.h */
    memcpy(p->out + used, data, n);
    p->npending += n;
    return true;
}

static void part_ends(struct conn *c)
{
    c->parts->part_over = !c->parts->in_request;
    c->parts->in_request = false;
}

static void body_ends(struct conn *c)
{
    struct parts_state *p = c->parts;
    enum sp_mp_error e = sp_multipart_finish(&p->mp);
    c->body_left = 0;
    if (e != SP_MP_OK)
        (void)refuse(c, SP_E_BAD_REQUEST, sp_mp_error_text(e));
    else if (p->kind == PARTS_EXEC && !p->have_request)
        (void)refuse(c, SP_E_BAD_FIELD, "The part \"request\" is missing.");
    else if (p->kind == PARTS_FILE && p->n != 1)
        (void)refuse(c, SP_E_BAD_FIELD, "There must be one file: /v1/files/batch takes several.");
    else if (p->kind != PARTS_EXEC || exec_body_check(c)) /* before anything is written */
        place_all(c);
}

/* One step of the parser. False: stop here. */
static bool step(struct conn *c)
{
    struct parts_state *p = c->parts;
    const char *data = NULL;
    size_t used = 0, dn = 0;
    enum sp_mp_event ev =
        sp_multipart_next(&p->mp, p->buf + p->pos, p->len - p->pos, &used, &data, &dn);
    p->pos += used;
    switch (ev) {
    case SP_MP_PART:
        return part_begins(c);
    case SP_MP_DATA:
        return part_bytes(c, data, dn);
    case SP_MP_PART_END:
        part_ends(c);
        return true;
    case SP_MP_ERROR:
        return refuse(c, SP_E_BAD_REQUEST, sp_mp_error_text(p->mp.error));
    case SP_MP_MORE:
    case SP_MP_END:
        break;
    }
    if (ev == SP_MP_END || p->pos < p->len || !p->body_end)
        return true;
    body_ends(c);
    return false;
}

/* True: there is something to parse, or the body is over. */
static bool have_input(struct conn *c)
{
    struct parts_state *p = c->parts;
    if (p->pos < p->len || p->body_end)
        return true;
    int r = refill(c);
    if (r == 0)
        conn_read_on(c, true);
    if (r == 2)
        p->body_end = true;
    return r > 0;
}

void parts_pump(struct conn *c)
{
    struct parts_state *p = c->parts;
    size_t turn = 0;
    while (c->state == CONN_PARTS && !p->waiting && !p->lost) {
        if (p->npending > 0 && (p->part_over || p->pos == p->len)) {
            size_t before = p->npending;
            int r = place_bytes(c);
            if (r < 0)
                return;
            turn += before - p->npending;
            if (r == 0 || turn >= FRONT_TURN) {
                place_wait(c);
                return;
            }
            continue;
        }
        if (p->part_over) {
            p->part_over = false;
            place_end(c);
            continue;
        }
        turn += STEP_COST;
        if (!have_input(c) || !step(c))
            return;
    }
}

void parts_begin(struct conn *c, enum parts_kind kind)
{
    struct parts_state *p = calloc(1, sizeof *p);
    if (p == NULL || (p->buf = malloc(PARTS_BUFFER)) == NULL) {
        free(p);
        reply_error(c, SP_E_OVERLOADED, NULL);
        return;
    }
    c->parts = p;
    p->kind = kind;
    sp_chunk_init(&p->chunk);
    enum sp_mp_error e = sp_multipart_init(&p->mp, c->head.content_type,
                                           kind == PARTS_EXEC ? PARTS_MAX + 1 : PARTS_MAX);
    if (e != SP_MP_OK) {
        reply_error(c, e == SP_MP_E_TYPE ? SP_E_BAD_MEDIA_TYPE : SP_E_BAD_REQUEST,
                    e == SP_MP_E_TYPE ? NULL : sp_mp_error_text(e));
        return;
    }
    if (front.draining) {
        reply_error(c, SP_E_DRAINING, NULL);
        return;
    }
    if (!conn_send_continue(c))
        return;
    c->state = CONN_PARTS;
    conn_clock(c, CLOCK_STALL);
    parts_pump(c);
}

bool parts_placing(const struct conn *c)
{
    return c->parts != NULL && c->parts->whole;
}

void parts_free(struct conn *c)
{
    struct parts_state *p = c->parts;
    if (p == NULL)
        return;
    parts_cancel(c);
    for (unsigned i = 0; i < p->n; i++)
        free(p->file[i].path);
    free(p->buf);
    free(p);
    c->parts = NULL;
}
