/* multipart.c: finds the delimiters of a form's body as the bytes come, and hands out what is
 * between them. All input is a stranger's.
 *
 * A boundary holds no CR, so the delimiter's only CR is its first byte: where a match breaks off,
 * what had matched is data, and the byte that broke it can only be the beginning of another match.
 * Nothing has to be kept for that but a count. */
#include "sallyport/multipart.h"

#include "parthead.h"

#include <string.h>

enum state {
    S_FIRST,      /* the first delimiter, without its CRLF */
    S_AFTER,      /* behind a delimiter: CR or '-' */
    S_AFTER_LF,   /* behind that CR */
    S_AFTER_DASH, /* behind that '-' */
    S_CLOSING,    /* END is to be told */
    S_HEAD,
    S_DATA,
    S_CLOSED, /* behind the closing delimiter: nothing, or CR */
    S_CLOSED_LF,
    S_DONE,
    S_BAD
};

enum sp_mp_error sp_multipart_init(struct sp_multipart *m, struct sp_slice content_type,
                                   uint32_t max_parts)
{
    struct sp_slice b;
    *m = (struct sp_multipart){.state = S_FIRST, .max_parts = max_parts, .matched = 2};
    m->error = sp_part_boundary(content_type, &b);
    if (m->error != SP_MP_OK) {
        m->state = S_BAD;
        return m->error;
    }
    memcpy(m->delim, "\r\n--", 4);
    memcpy(m->delim + 4, b.p, b.n);
    m->delim_n = 4 + b.n;
    return SP_MP_OK;
}

static enum sp_mp_event bad(struct sp_multipart *m, enum sp_mp_error e)
{
    m->state = S_BAD;
    m->error = e;
    return SP_MP_ERROR;
}

static enum sp_mp_event first(struct sp_multipart *m, char b)
{
    if (b != m->delim[m->matched])
        return bad(m, SP_MP_E_PREAMBLE);
    if (++m->matched == m->delim_n)
        m->state = S_AFTER;
    return SP_MP_MORE;
}

/* The rest of a delimiter's line. m->parts > 0: it ends a part. */
static enum sp_mp_event after(struct sp_multipart *m, char b)
{
    bool ends = m->parts > 0;
    if (m->state == S_AFTER && (b == '\r' || b == '-')) {
        m->state = b == '\r' ? S_AFTER_LF : S_AFTER_DASH;
        return SP_MP_MORE;
    }
    if (m->state == S_AFTER_LF && b == '\n') {
        m->state = S_HEAD;
        m->head_n = 0;
        return ends ? SP_MP_PART_END : SP_MP_MORE;
    }
    if (m->state == S_AFTER_DASH && b == '-') {
        m->state = S_CLOSING;
        return ends ? SP_MP_PART_END : bad(m, SP_MP_E_EMPTY);
    }
    return bad(m, SP_MP_E_DELIMITER);
}

static enum sp_mp_event head(struct sp_multipart *m, char b)
{
    if (m->head_n == 0 && m->parts == m->max_parts)
        return bad(m, SP_MP_E_MANY);
    m->head[m->head_n++] = b;
    size_t n = m->head_n;
    if (b == '\n' && ((n >= 4 && memcmp(m->head + n - 4, "\r\n\r\n", 4) == 0) ||
                      (n == 2 && m->head[0] == '\r'))) {
        enum sp_mp_error e = sp_part_head(m->head, n, &m->part);
        if (e != SP_MP_OK)
            return bad(m, e);
        m->parts++;
        m->state = S_DATA;
        m->matched = 2;
        m->fresh = true;
        return SP_MP_PART;
    }
    return n == SP_MP_HEAD_MAX ? bad(m, SP_MP_E_HEAD_LARGE) : SP_MP_MORE;
}

static enum sp_mp_event epilogue(struct sp_multipart *m, char b)
{
    if (m->state == S_CLOSED && b == '\r')
        m->state = S_CLOSED_LF;
    else if (m->state == S_CLOSED_LF && b == '\n')
        m->state = S_DONE;
    else
        return bad(m, SP_MP_E_EPILOGUE);
    return SP_MP_MORE;
}

/* Uses some of in[0..n), n > 0. MORE: no event yet. */
static enum sp_mp_event content(struct sp_multipart *m, const char *in, size_t n, size_t *used,
                                const char **data, size_t *dn)
{
    size_t at = 0;
    while (at < n && m->matched < m->delim_n && m->matched > 0 && in[at] == m->delim[m->matched]) {
        m->matched++;
        at++;
    }
    *used = at;
    if (m->matched == m->delim_n) {
        if (m->fresh)
            return bad(m, SP_MP_E_DELIMITER);
        m->state = S_AFTER;
        return SP_MP_MORE;
    }
    if (at == n)
        return SP_MP_MORE;
    size_t from = m->fresh ? 2 : 0, held = m->matched;
    m->fresh = false;
    m->matched = 0;
    if (held > from) {
        *data = m->delim + from;
        *dn = held - from;
        return SP_MP_DATA;
    }
    const char *cr = memchr(in + at, '\r', n - at);
    size_t len = cr != NULL ? (size_t)(cr - in) - at : n - at;
    m->matched = cr != NULL;
    *used = at + len + m->matched;
    if (len == 0)
        return SP_MP_MORE;
    *data = in + at;
    *dn = len;
    return SP_MP_DATA;
}

static enum sp_mp_event step(struct sp_multipart *m, char b)
{
    if (m->state == S_FIRST)
        return first(m, b);
    if (m->state == S_HEAD)
        return head(m, b);
    return m->state <= S_AFTER_DASH ? after(m, b) : epilogue(m, b);
}

enum sp_mp_event sp_multipart_next(struct sp_multipart *m, const char *in, size_t n, size_t *used,
                                   const char **data, size_t *dn)
{
    enum sp_mp_event ev = SP_MP_MORE;
    size_t at = 0, took = 0;
    *data = NULL;
    *dn = 0;
    *used = 0;
    if (m->state == S_BAD)
        return SP_MP_ERROR;
    if (m->state == S_CLOSING) {
        m->state = S_CLOSED;
        return SP_MP_END;
    }
    while (at < n && ev == SP_MP_MORE) {
        if (m->state == S_DATA) {
            ev = content(m, in + at, n - at, &took, data, dn);
            at += took;
        } else {
            ev = step(m, in[at++]);
        }
    }
    *used = at;
    return ev;
}

enum sp_mp_error sp_multipart_finish(struct sp_multipart *m)
{
    if (m->state == S_CLOSED || m->state == S_DONE)
        return SP_MP_OK;
    if (m->state != S_BAD)
        (void)bad(m, SP_MP_E_UNFINISHED);
    return m->error;
}

const char *sp_mp_error_text(enum sp_mp_error e)
{
    static const char *const text[SP_MP_ERROR_COUNT] = {
        [SP_MP_OK] = "The form is fine.",
        [SP_MP_E_TYPE] = "The body is not multipart/form-data.",
        [SP_MP_E_BOUNDARY] = "The form's boundary is missing or not acceptable.",
        [SP_MP_E_PREAMBLE] = "The form does not begin with its boundary.",
        [SP_MP_E_DELIMITER] = "The form's boundary is followed by something else.",
        [SP_MP_E_HEAD_LARGE] = "The head of a part is larger than allowed.",
        [SP_MP_E_HEAD] = "The head of a part is malformed.",
        [SP_MP_E_DISPOSITION] =
            "A part has no Content-Disposition of form-data with one name, or a malformed one.",
        [SP_MP_E_EXTENDED] = "A part has an extended parameter like filename*: forms have none.",
        [SP_MP_E_NAME] = "The name of a part or file is not acceptable.",
        [SP_MP_E_ENCODING] = "A part has a Content-Transfer-Encoding that is not supported.",
        [SP_MP_E_MANY] = "The form has more parts than allowed.",
        [SP_MP_E_EMPTY] = "The form has no part.",
        [SP_MP_E_EPILOGUE] = "Something follows the end of the form.",
        [SP_MP_E_UNFINISHED] = "The body ends before the form does.",
    };
    return e < SP_MP_ERROR_COUNT ? text[e] : text[SP_MP_E_HEAD];
}
