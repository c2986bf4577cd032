/* http.h: HTTP/1 grammar without I/O (RFC 9110, RFC 9112), strict. Everything here reads
 * bytes of a stranger. Nothing allocates. */
#ifndef SALLYPORT_HTTP_H
#define SALLYPORT_HTTP_H

#include "sallyport/err.h"
#include "sallyport/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_HEAD_MAX 16384u
#define SP_LINE_MAX 8192u
#define SP_FIELDS_MAX 100u

enum sp_method {
    SP_M_GET,
    SP_M_HEAD,
    SP_M_PUT,
    SP_M_POST,
    SP_M_DELETE,
    SP_M_OTHER /* known to RFC 9110 or 5789, or QUERY */,
    SP_M_UNKNOWN
};

struct sp_head {
    enum sp_method method;
    int minor;             /* HTTP/1.minor: 0 or 1 */
    struct sp_slice path;  /* of the target, still encoded, starts with '/', or "*" */
    struct sp_slice query; /* without '?' */
    bool has_query;
    bool secure;     /* the target's scheme is https, which only TLS may serve (RFC 9110 7.4) */
    bool keep_alive; /* what the client asks for */
    bool chunked;
    bool has_length;
    uint64_t length;
    bool expect_continue;
    struct sp_slice content_type, content_encoding; /* p NULL when absent */
    bool has_content_range;
    struct sp_slice range, if_range, if_match, if_none_match, if_modified_since,
        if_unmodified_since, accept;
    size_t size; /* bytes of the head with its blank line */
};

/* Parses the head at buf. 1: done, h set (slices borrow buf). 0: more bytes needed.
 * -1: refused, *err set (BAD_REQUEST, URI_TOO_LONG, HEADERS_TOO_LARGE, BAD_VERSION,
 * BAD_EXPECTATION). from: bytes already looked at by an earlier call with 0 (for linear cost); 0 is
 * always right. Leading CRLFs (at most one pair) before the request line are skipped. Refuses as
 * early as it can tell. A field named in struct sp_head comes at most once, list or not, and so do
 * Host, Content-Length, Transfer-Encoding, Expect and Content-Range: also identical ones are
 * refused. Connection may repeat. Expect is ignored on HTTP/1.0. h holds nothing of use unless 1 is
 * returned. */
int sp_head_parse(const char *buf, size_t len, size_t from, struct sp_head *h, enum sp_err *err);

/* ---- chunked ---- */
struct sp_chunk {
    int state;
    uint64_t left;  /* data bytes left in the current chunk */
    uint32_t extra; /* bytes of trailers so far, bounded (8 KiB a body for trailers) */
    uint32_t line;  /* of the size line, CRLF included; bounded (256) */
};
void sp_chunk_init(struct sp_chunk *c);
/* Looks at in[0..n): *used bytes are consumed; if data is found, *data and *dn tell where inside in
 * (consumed too). 1: body ended (after trailers). 0: go on. -1: malformed. May return 0
 * with *used < n: call again. */
int sp_chunk_next(struct sp_chunk *c, const char *in, size_t n, size_t *used, const char **data,
                  size_t *dn);

/* ---- target ---- */
/* Percent-decodes once: '%' must have two hex digits; raw bytes must be RFC 3986 pchar or '/'.
 * out >= in.n bytes. false: malformed. NULs pass: the path check refuses them. */
bool sp_pct_decode(struct sp_slice in, char *out, size_t *n);
/* Percent-encodes everything but unreserved; out >= 3 * n. Returns the length. */
size_t sp_pct_encode(const char *in, size_t n, char *out);
/* The value of the one allowed parameter `name` as a bool ("true" "false" "1" "0"). Returns false
 * for any other parameter, a repeat, or another value. Empty query: *val = false. */
bool sp_query_bool(struct sp_slice query, const char *name, bool *val);

/* ---- range and conditions ---- */
enum sp_range_result { SP_RANGE_NONE, SP_RANGE_ONE, SP_RANGE_UNSATISFIABLE };
/* NONE for absent, malformed, other units, or several ranges. */
enum sp_range_result sp_range_parse(struct sp_slice value, uint64_t size, uint64_t *first,
                                    uint64_t *last);
/* "Sun, 06 Nov 1994 08:49:37 GMT" from/to seconds. out >= 30. All three forms are read. */
void sp_http_date(int64_t t, char *out);
bool sp_http_date_parse(struct sp_slice s, int64_t *t);
/* etag without quotes. True if the list holds it ("*" always). weak: allow W/ to match. */
bool sp_etag_listed(struct sp_slice list, struct sp_slice etag, bool weak);
/* Takes the next tag of a list: 1 with what is between its quotes, 0 at the end, -1 where the list
 * is malformed. */
int sp_etag_next(struct sp_slice *list, struct sp_slice *tag, bool *weak);
bool sp_etag_any(struct sp_slice list); /* it is "*" */
/* The list is exactly one strong tag: its inside; else p NULL. */
struct sp_slice sp_etag_single(struct sp_slice list);
/* No Content-Encoding, or "identity" in any case. */
bool sp_no_coding(const struct sp_head *h);
/* RFC 9110 13.2.2 for GET/HEAD: 0 go on, 304, or 412. *use_range: If-Range lets Range count. */
int sp_conditions(const struct sp_head *h, struct sp_slice etag, int64_t mtime, bool *use_range);

/* ---- content negotiation ---- */
/* The value of Accept names text/event-stream, not less than application/json. A wildcard doesn't
 * name it. p NULL: false. */
bool sp_accept_events(struct sp_slice accept);

#endif
