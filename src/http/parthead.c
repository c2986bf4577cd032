/* parthead.c: reads a part's head and the form's Content-Type, with one reader of parameters for
 * both. A name that two programs read differently is how a check is got past, so whatever is not
 * plain is refused. All input is a stranger's. */
#include "parthead.h"

#include "grammar.h"

#include "sallyport/utf8.h"

#include <string.h>

/* The rest of a field's value. */
struct params {
    const char *p;
    size_t n;
};

struct param {
    struct sp_slice name, value; /* value: without quotes, escapes still in */
    bool quoted;
};

static bool blank(char c)
{
    return c == ' ' || c == '\t';
}

static void skip(struct params *s, size_t n)
{
    s->p += n;
    s->n -= n;
}

static void skip_blanks(struct params *s)
{
    while (s->n > 0 && blank(s->p[0]))
        skip(s, 1);
}

static struct sp_slice token(struct params *s)
{
    struct sp_slice t = {s->p, 0};
    while (t.n < s->n && sp_is_tchar(s->p[t.n]))
        t.n++;
    skip(s, t.n);
    return t;
}

/* s is behind the opening quote. False: no closing one, or a backslash that escapes neither. */
static bool quoted(struct params *s, struct sp_slice *out)
{
    *out = (struct sp_slice){s->p, 0};
    for (size_t i = 0; i < s->n; i++) {
        if (s->p[i] == '"') {
            out->n = i;
            skip(s, i + 1);
            return true;
        }
        if (s->p[i] != '\\')
            continue;
        if (++i == s->n || (s->p[i] != '"' && s->p[i] != '\\'))
            return false;
    }
    return false;
}

/* *( OWS ";" OWS token "=" ( token / quoted-string ) ) OWS. 1 one more, 0 the end, -1 malformed. */
static int next_param(struct params *s, struct param *out)
{
    skip_blanks(s);
    if (s->n == 0)
        return 0;
    if (s->p[0] != ';')
        return -1;
    skip(s, 1);
    skip_blanks(s);
    out->name = token(s);
    if (out->name.n == 0 || s->n == 0 || s->p[0] != '=')
        return -1;
    skip(s, 1);
    out->quoted = s->n > 0 && s->p[0] == '"';
    if (out->quoted) {
        skip(s, 1);
        return quoted(s, &out->value) ? 1 : -1;
    }
    out->value = token(s);
    return out->value.n > 0 ? 1 : -1;
}

/* ---- the form's Content-Type ---- */

static bool bchar(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c != '\0' && strchr("'()+_,-./:=? ", c) != NULL);
}

enum sp_mp_error sp_part_boundary(struct sp_slice content_type, struct sp_slice *boundary)
{
    struct params s = {content_type.p, content_type.n};
    struct param one;
    int r;
    *boundary = (struct sp_slice){NULL, 0};
    if (content_type.p == NULL)
        return SP_MP_E_TYPE;
    while (s.n > 0 && s.p[0] != ';' && !blank(s.p[0]))
        skip(&s, 1);
    if (!sp_slice_is((struct sp_slice){content_type.p, content_type.n - s.n},
                     "multipart/form-data"))
        return SP_MP_E_TYPE;
    while ((r = next_param(&s, &one)) == 1) {
        if (!sp_slice_is(one.name, "boundary"))
            continue;
        if (boundary->p != NULL)
            return SP_MP_E_BOUNDARY;
        *boundary = one.value;
    }
    if (r < 0 || boundary->p == NULL || boundary->n == 0 || boundary->n > SP_MP_BOUNDARY_MAX ||
        boundary->p[boundary->n - 1] == ' ')
        return SP_MP_E_BOUNDARY;
    for (size_t i = 0; i < boundary->n; i++)
        if (!bchar(boundary->p[i]))
            return SP_MP_E_BOUNDARY;
    return SP_MP_OK;
}

/* ---- a part's head ---- */

/* Takes the escapes out of text[0..n), in place; the new length. */
static size_t unescape(char *text, size_t n)
{
    size_t to = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\\')
            i++;
        text[to++] = text[i];
    }
    return to;
}

static bool fit_name(struct sp_slice s, size_t max)
{
    if (s.n > max || !sp_utf8_valid(s.p, s.n))
        return false;
    for (size_t i = 0; i < s.n; i++)
        if ((uint8_t)s.p[i] < 0x20 || s.p[i] == 0x7f)
            return false;
    return true;
}

static enum sp_mp_error disposition(char *head, struct sp_slice value, struct sp_mp_part *part)
{
    struct params s = {value.p, value.n};
    struct param one;
    int r;
    if (!sp_slice_is(token(&s), "form-data"))
        return SP_MP_E_DISPOSITION;
    while ((r = next_param(&s, &one)) == 1) {
        bool is_name = sp_slice_is(one.name, "name");
        if (memchr(one.name.p, '*', one.name.n) != NULL) /* RFC 2231's pieces, too */
            return SP_MP_E_EXTENDED;
        if (!is_name && !sp_slice_is(one.name, "filename"))
            continue;
        if (is_name ? part->name.p != NULL : part->has_filename)
            return SP_MP_E_DISPOSITION;
        if (one.quoted)
            one.value.n = unescape(head + (one.value.p - head), one.value.n);
        if (is_name)
            part->name = one.value;
        else
            part->filename = one.value;
        part->has_filename = part->has_filename || !is_name;
    }
    if (r < 0 || part->name.p == NULL)
        return SP_MP_E_DISPOSITION;
    if (part->name.n == 0 || !fit_name(part->name, SP_MP_NAME_MAX) ||
        (part->has_filename && !fit_name(part->filename, SP_MP_FILENAME_MAX)))
        return SP_MP_E_NAME;
    return SP_MP_OK;
}

enum { SEEN_DISPOSITION = 1, SEEN_TYPE = 2, SEEN_ENCODING = 4 };

/* One line without its CRLF. */
static enum sp_mp_error field(char *head, struct sp_slice line, unsigned *seen,
                              struct sp_mp_part *part)
{
    const char *colon = memchr(line.p, ':', line.n);
    struct sp_slice name = {line.p, colon != NULL ? (size_t)(colon - line.p) : 0};
    if (colon == NULL || !sp_is_token(name)) /* also a folded line */
        return SP_MP_E_HEAD;
    for (size_t i = name.n; i < line.n; i++)
        if (!sp_is_value_char(line.p[i]))
            return SP_MP_E_HEAD;
    struct sp_slice value = sp_trim((struct sp_slice){colon + 1, line.n - name.n - 1});
    unsigned what = sp_slice_is(name, "content-disposition")         ? SEEN_DISPOSITION
                    : sp_slice_is(name, "content-type")              ? SEEN_TYPE
                    : sp_slice_is(name, "content-transfer-encoding") ? SEEN_ENCODING
                                                                     : 0;
    if (*seen & what)
        return SP_MP_E_HEAD;
    *seen |= what;
    if (what == SEEN_DISPOSITION)
        return disposition(head, value, part);
    if (what == SEEN_TYPE) {
        part->content_type = value;
        return value.n > 0 ? SP_MP_OK : SP_MP_E_HEAD;
    }
    if (what == SEEN_ENCODING && !sp_slice_is(value, "binary") && !sp_slice_is(value, "8bit") &&
        !sp_slice_is(value, "7bit"))
        return SP_MP_E_ENCODING;
    return SP_MP_OK;
}

enum sp_mp_error sp_part_head(char *head, size_t n, struct sp_mp_part *part)
{
    unsigned seen = 0;
    *part = (struct sp_mp_part){.name = {NULL, 0}};
    for (size_t at = 0; n - at > 2;) {
        const char *cr =
            memchr(head + at, '\r', n - at - 1); /* the last byte is the blank line's */
        size_t len = cr != NULL ? (size_t)(cr - head) - at : 0;
        if (cr == NULL || cr[1] != '\n')
            return SP_MP_E_HEAD;
        enum sp_mp_error e = field(head, (struct sp_slice){head + at, len}, &seen, part);
        if (e != SP_MP_OK)
            return e;
        at += len + 2;
    }
    return seen & SEEN_DISPOSITION ? SP_MP_OK : SP_MP_E_DISPOSITION;
}
