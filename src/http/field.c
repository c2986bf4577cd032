/* field.c: header fields, one line at a time, and the rules between them. This is where two
 * readers of one request could come to disagree about where it ends (request smuggling), so
 * whatever is not plain is refused, and a known field comes at most once. All input is a
 * stranger's.
 */
#include "field.h"

#include "grammar.h"

#include <string.h>

enum known {
    K_HOST,
    K_LENGTH,
    K_CODING,
    K_EXPECT,
    K_CONTENT_RANGE,
    K_PLAIN, /* from here on: the value is kept as it is */
    K_CONTENT_TYPE = K_PLAIN,
    K_CONTENT_ENCODING,
    K_RANGE,
    K_IF_RANGE,
    K_IF_MATCH,
    K_IF_NONE_MATCH,
    K_IF_MODIFIED,
    K_IF_UNMODIFIED,
    K_ACCEPT,
    K_ONCE, /* those before come at most once */
    K_CONNECTION = K_ONCE,
    K_COUNT
};

static const char *const names[K_COUNT] = {
    [K_HOST] = "host",
    [K_LENGTH] = "content-length",
    [K_CODING] = "transfer-encoding",
    [K_EXPECT] = "expect",
    [K_CONTENT_RANGE] = "content-range",
    [K_CONTENT_TYPE] = "content-type",
    [K_CONTENT_ENCODING] = "content-encoding",
    [K_RANGE] = "range",
    [K_IF_RANGE] = "if-range",
    [K_IF_MATCH] = "if-match",
    [K_IF_NONE_MATCH] = "if-none-match",
    [K_IF_MODIFIED] = "if-modified-since",
    [K_IF_UNMODIFIED] = "if-unmodified-since",
    [K_ACCEPT] = "accept",
    [K_CONNECTION] = "connection",
};

static enum known lookup(struct sp_slice name)
{
    int k = 0;
    while (k < K_COUNT && !sp_slice_is(name, names[k]))
        k++;
    return (enum known)k;
}

/* Where head keeps the value of a K_PLAIN field. */
static struct sp_slice *slot(struct sp_head *h, enum known k)
{
    switch (k) {
    case K_CONTENT_TYPE:
        return &h->content_type;
    case K_CONTENT_ENCODING:
        return &h->content_encoding;
    case K_RANGE:
        return &h->range;
    case K_IF_RANGE:
        return &h->if_range;
    case K_IF_MATCH:
        return &h->if_match;
    case K_IF_NONE_MATCH:
        return &h->if_none_match;
    case K_IF_MODIFIED:
        return &h->if_modified_since;
    case K_IF_UNMODIFIED:
        return &h->if_unmodified_since;
    case K_ACCEPT:
        return &h->accept;
    default:
        return NULL;
    }
}

/* #connection-option: tokens between commas, empty ones allowed (RFC 9110 5.6.1.2). */
static bool connection(struct sp_fields *f, struct sp_slice list)
{
    for (;;) {
        const char *comma = list.n ? memchr(list.p, ',', list.n) : NULL;
        size_t len = comma ? (size_t)(comma - list.p) : list.n;
        struct sp_slice one = sp_trim((struct sp_slice){list.p, len});
        if (one.n && !sp_is_token(one))
            return false;
        f->close |= sp_slice_is(one, "close");
        f->keep_alive |= sp_slice_is(one, "keep-alive");
        if (!comma)
            return true;
        list.p += len + 1;
        list.n -= len + 1;
    }
}

static bool meaning(struct sp_fields *f, enum known k, struct sp_slice value)
{
    struct sp_head *h = f->h;
    struct sp_slice *kept = slot(h, k);
    if (kept) {
        *kept = value;
        return true;
    }
    switch (k) {
    case K_HOST:
        return sp_is_authority(value);
    case K_LENGTH:
        h->has_length = true;
        return sp_parse_length(value, &h->length);
    case K_CODING:
        f->chunked = true;
        return sp_slice_is(value, "chunked");
    case K_EXPECT:
        f->expect = true;
        f->expect_known = sp_slice_is(value, "100-continue");
        return true;
    case K_CONTENT_RANGE:
        h->has_content_range = true;
        return true;
    case K_CONNECTION:
        return connection(f, value);
    default:
        return true;
    }
}

bool sp_field_line(struct sp_fields *f, struct sp_slice line, enum sp_err *err)
{
    *err = SP_E_BAD_REQUEST;
    if (++f->count > SP_FIELDS_MAX) {
        *err = SP_E_HEADERS_TOO_LARGE;
        return false;
    }
    const char *colon = memchr(line.p, ':', line.n);
    if (!colon)
        return false;
    struct sp_slice name = {line.p, (size_t)(colon - line.p)};
    struct sp_slice value = {colon + 1, line.n - name.n - 1};
    if (!sp_is_token(name)) /* also a space before the colon, or a folded line */
        return false;
    for (size_t i = 0; i < value.n; i++)
        if (!sp_is_value_char(value.p[i]))
            return false;
    enum known k = lookup(name);
    if (k < K_ONCE) {
        if (f->seen & 1u << k)
            return false;
        f->seen |= 1u << k;
    }
    return meaning(f, k, sp_trim(value));
}

bool sp_fields_finish(struct sp_fields *f, enum sp_err *err)
{
    struct sp_head *h = f->h;
    bool modern = h->minor >= 1;
    *err = SP_E_BAD_REQUEST;
    if (modern && !(f->seen & 1u << K_HOST))
        return false;
    if (f->chunked && (h->has_length || !modern))
        return false;
    h->chunked = f->chunked;
    h->keep_alive = !f->close && (modern || f->keep_alive);
    if (modern && f->expect) {
        *err = SP_E_BAD_EXPECTATION;
        h->expect_continue = f->expect_known;
        return f->expect_known;
    }
    return true;
}

bool sp_no_coding(const struct sp_head *h)
{
    return h->content_encoding.p == NULL || sp_slice_is(h->content_encoding, "identity");
}
