/* head.c: the head of a request (RFC 9112 2, 3), the daemon's main wall against request smuggling:
 * strict, no repair. All input is a stranger's.
 *
 * Each byte is looked at once as it comes (scan), each line once when it is complete (lines), and
 * the whole head once more when its blank line has come; so the cost is linear however the bytes
 * are cut. A line that is refused alone is refused in the whole, so an early refusal is never one
 * that would have been taken back. */
#include "sallyport/http.h"

#include "field.h"
#include "grammar.h"

#include <string.h>

static bool equals(struct sp_slice s, const char *lit)
{
    return strlen(lit) == s.n && memcmp(s.p, lit, s.n) == 0;
}

static enum sp_method method_of(struct sp_slice s)
{
    static const struct {
        const char *name;
        enum sp_method m;
    } known[] = {{"GET", SP_M_GET},       {"HEAD", SP_M_HEAD},     {"PUT", SP_M_PUT},
                 {"POST", SP_M_POST},     {"DELETE", SP_M_DELETE}, {"OPTIONS", SP_M_OTHER},
                 {"CONNECT", SP_M_OTHER}, {"TRACE", SP_M_OTHER},   {"PATCH", SP_M_OTHER},
                 {"QUERY", SP_M_OTHER}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (equals(s, known[i].name))
            return known[i].m;
    return SP_M_UNKNOWN;
}

/* HTTP-version: "HTTP/" DIGIT "." DIGIT. A higher minor speaks 1.1 too (RFC 9110 2.5). */
static bool version(struct sp_slice s, int *minor, enum sp_err *err)
{
    if (s.n != 8 || memcmp(s.p, "HTTP/", 5) != 0 || s.p[6] != '.' || s.p[5] < '0' || s.p[5] > '9' ||
        s.p[7] < '0' || s.p[7] > '9')
        return false;
    if (s.p[5] != '1') {
        *err = SP_E_BAD_VERSION;
        return false;
    }
    *minor = s.p[7] == '0' ? 0 : 1;
    return true;
}

/* absolute-path [ "?" query ]. Whether a '%' has its digits is for sp_pct_decode to say. */
static bool path_and_query(struct sp_head *h, struct sp_slice t)
{
    const char *mark = t.n ? memchr(t.p, '?', t.n) : NULL;
    h->path = (struct sp_slice){t.p, mark ? (size_t)(mark - t.p) : t.n};
    if (mark) {
        h->has_query = true;
        h->query = (struct sp_slice){mark + 1, t.n - h->path.n - 1};
    }
    for (size_t i = 0; i < t.n; i++) {
        char c = t.p[i];
        if (!sp_is_pchar(c) && c != '/' && c != '%' && c != '?') /* no '#': a fragment stays home */
            return false;
    }
    return true;
}

static bool begins(struct sp_slice t, const char *lit)
{
    size_t n = strlen(lit);
    return t.n > n && sp_slice_is((struct sp_slice){t.p, n}, lit);
}

static bool target(struct sp_head *h, struct sp_slice method, struct sp_slice t)
{
    size_t skip;
    if (t.n == 0)
        return false;
    if (equals(t, "*")) {
        h->path = t;
        return equals(method, "OPTIONS");
    }
    if (t.p[0] == '/')
        return path_and_query(h, t);
    if (begins(t, "http://"))
        skip = 7;
    else if (begins(t, "https://"))
        skip = 8;
    else
        return false;
    h->secure = skip == 8;
    size_t end = skip;
    while (end < t.n && t.p[end] != '/' && t.p[end] != '?')
        end++;
    if (!sp_is_authority((struct sp_slice){t.p + skip, end - skip}) ||
        !path_and_query(h, (struct sp_slice){t.p + end, t.n - end}))
        return false;
    if (h->path.n == 0)
        h->path = (struct sp_slice){"/", 1};
    return true;
}

static bool request_line(struct sp_head *h, struct sp_slice line, enum sp_err *err)
{
    *err = SP_E_BAD_REQUEST;
    if (line.n > SP_LINE_MAX) {
        *err = SP_E_URI_TOO_LONG;
        return false;
    }
    const char *sp1 = memchr(line.p, ' ', line.n);
    const char *sp2 = memrchr(line.p, ' ', line.n);
    if (!sp1 || sp1 == sp2)
        return false;
    struct sp_slice method = {line.p, (size_t)(sp1 - line.p)};
    struct sp_slice where = {sp1 + 1, (size_t)(sp2 - sp1) - 1}; /* a third space is no pchar */
    struct sp_slice proto = {sp2 + 1, line.n - (size_t)(sp2 - line.p) - 1};
    if (!sp_is_token(method))
        return false;
    h->method = method_of(method);
    /* The version first: of another major we can't say what its targets look like. */
    return version(proto, &h->minor, err) && target(h, method, where);
}

/* The complete lines of buf[at..stop); first: the request line is at `start`. */
static bool lines(struct sp_fields *f, const char *buf, size_t start, size_t at, size_t stop,
                  enum sp_err *err)
{
    const char *lf;
    while (at < stop && (lf = memchr(buf + at, '\n', stop - at))) {
        size_t next = (size_t)(lf - buf) + 1;
        struct sp_slice line = {buf + at, next - at - 2}; /* scan saw the CR */
        if (line.n && !(at == start ? request_line(f->h, line, err) : sp_field_line(f, line, err)))
            return false;
        at = next;
    }
    return true;
}

struct scan {
    size_t stop;     /* bytes that are lexically fine; with the blank line if `end` */
    size_t first_lf; /* of the bytes scanned; SIZE_MAX where none */
    bool end, bad;
};

/* What can be told of a byte from those just before it. */
static struct scan scan(const char *buf, size_t start, size_t from, size_t len)
{
    struct scan s = {.first_lf = SIZE_MAX};
    size_t i = from;
    for (; i < len && !s.end && !s.bad; i++) {
        char c = buf[i], before = i > start ? buf[i - 1] : 0;
        if ((c == '\n') != (before == '\r')) {
            s.bad = true; /* a bare LF, or a CR without one */
        } else if (c == '\n') {
            if (s.first_lf == SIZE_MAX)
                s.first_lf = i;
            s.end = i - start >= 3 && buf[i - 2] == '\n';
        } else if (c != '\r' && !sp_is_value_char(c)) {
            s.bad = true;
        } else if (before == '\n' && (c == ' ' || c == '\t')) {
            s.bad = true; /* obs-fold */
        }
    }
    s.stop = s.bad ? i - 1 : i;
    return s;
}

static int refuse(enum sp_err *err, enum sp_err e)
{
    *err = e;
    return -1;
}

/* No line end where even the longest request line would have had it. Looked for only in the call
 * that crosses that mark. */
static bool endless_line(const char *buf, size_t start, size_t from, size_t stop)
{
    const size_t mark = start + SP_LINE_MAX + 2;
    return from < mark && stop >= mark && !memchr(buf + start, '\n', mark - start);
}

int sp_head_parse(const char *buf, size_t len, size_t from, struct sp_head *h, enum sp_err *err)
{
    memset(h, 0, sizeof *h);
    size_t start = 0;
    if (len && buf[0] == '\r') {
        if (len > 1 && buf[1] != '\n')
            return refuse(err, SP_E_BAD_REQUEST);
        start = 2;
    }
    if (len <= start)
        return 0;
    if (!sp_is_tchar(buf[start]))
        return refuse(err, SP_E_BAD_REQUEST); /* TLS, binary, a second blank line */
    if (from < start || from > len)
        from = start;

    struct scan s = scan(buf, start, from, len < SP_HEAD_MAX ? len : SP_HEAD_MAX);
    if (endless_line(buf, start, from, s.stop))
        return refuse(err, SP_E_URI_TOO_LONG);
    struct sp_fields f = {.h = h};
    if (s.end) {
        if (!lines(&f, buf, start, start, s.stop, err) || !sp_fields_finish(&f, err))
            return -1;
        h->size = s.stop;
        return 1;
    }
    if (s.first_lf != SIZE_MAX) {
        /* The line that got its end now may have begun in an earlier call. */
        const char *lf = memrchr(buf + start, '\n', s.first_lf - start);
        size_t at = lf ? (size_t)(lf - buf) + 1 : start;
        if (!lines(&f, buf, start, at, s.stop, err))
            return -1;
    }
    if (s.bad)
        return refuse(err, SP_E_BAD_REQUEST);
    return s.stop < SP_HEAD_MAX ? 0 : refuse(err, SP_E_HEADERS_TOO_LARGE);
}
