/* query.c: splits and decodes a query string. Strict: what isn't plain is an error that the caller
 * gets to see, never skipped. All input is a stranger's. */
#include "sallyport/query.h"

#include "grammar.h"

#include "sallyport/utf8.h"

#include <string.h>

static bool query_char(char c)
{
    return sp_is_pchar(c) || c == '/' || c == '?';
}

/* Decodes one name or value to out, *n bytes. */
static enum sp_query_error decode(struct sp_slice in, char *out, size_t *n)
{
    size_t to = 0;
    for (size_t i = 0; i < in.n; i++) {
        char c = in.p[i];
        if (c == '%') {
            if (!sp_pct_byte(in, i, &c))
                return SP_QUERY_BAD_ESCAPE;
            if (c == '\0')
                return SP_QUERY_NUL;
            i += 2;
        } else if (!query_char(c)) {
            return SP_QUERY_BAD_CHAR;
        } else if (c == '+') {
            c = ' ';
        }
        out[to++] = c;
    }
    *n = to;
    return SP_QUERY_OK;
}

static bool same(struct sp_slice a, struct sp_slice b)
{
    return a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

static struct sp_slice text_of(const char *s)
{
    return (struct sp_slice){s, strlen(s)};
}

/* One parameter, encoded; *used: bytes of q->text that are taken. */
static enum sp_query_error add(struct sp_query *q, struct sp_slice one, size_t *used)
{
    const char *eq = one.n > 0 ? memchr(one.p, '=', one.n) : NULL;
    struct sp_slice name = {one.p, eq != NULL ? (size_t)(eq - one.p) : one.n};
    struct sp_slice value = {eq, 0};
    if (eq != NULL)
        value = (struct sp_slice){eq + 1, one.n - name.n - 1};
    if (name.n == 0)
        return SP_QUERY_NO_NAME;
    if (q->n == SP_QUERY_MAX)
        return SP_QUERY_TOO_LONG;
    size_t len = 0;
    enum sp_query_error e = decode(name, q->text + *used, &len);
    if (e != SP_QUERY_OK)
        return e;
    name = (struct sp_slice){q->text + *used, len};
    *used += len;
    if (!sp_utf8_valid(name.p, name.n))
        return SP_QUERY_NOT_UTF8;
    for (size_t i = 0; i < q->n; i++)
        if (same(q->param[i].name, name))
            return SP_QUERY_REPEATED;
    e = decode(value, q->text + *used, &len);
    if (e != SP_QUERY_OK)
        return e;
    q->param[q->n].name = name;
    q->param[q->n].value = (struct sp_slice){q->text + *used, len};
    q->param[q->n].has_value = eq != NULL;
    *used += len;
    q->n++;
    return SP_QUERY_OK;
}

enum sp_query_error sp_query_parse(struct sp_slice in, struct sp_query *q)
{
    size_t used = 0;
    q->n = 0;
    if (in.n > SP_LINE_MAX)
        return SP_QUERY_TOO_LONG;
    if (in.n == 0)
        return SP_QUERY_OK;
    for (;;) {
        const char *amp = in.n > 0 ? memchr(in.p, '&', in.n) : NULL;
        size_t len = amp != NULL ? (size_t)(amp - in.p) : in.n;
        enum sp_query_error e = add(q, (struct sp_slice){in.p, len}, &used);
        if (e != SP_QUERY_OK) {
            q->n = 0;
            return e;
        }
        if (amp == NULL)
            return SP_QUERY_OK;
        in.p += len + 1;
        in.n -= len + 1;
    }
}

const char *sp_query_error_text(enum sp_query_error e)
{
    static const char *const text[SP_QUERY_ERROR_COUNT] = {
        [SP_QUERY_OK] = "The query string is fine.",
        [SP_QUERY_TOO_LONG] = "The query string has too many parameters.",
        [SP_QUERY_BAD_CHAR] = "The query string holds a character that has to be percent-encoded.",
        [SP_QUERY_BAD_ESCAPE] = "The query string holds a percent sign without two hex digits.",
        [SP_QUERY_NUL] = "The query string holds a NUL.",
        [SP_QUERY_NO_NAME] = "The query string holds a parameter without a name.",
        [SP_QUERY_NOT_UTF8] = "The query string holds a parameter's name that is not UTF-8.",
        [SP_QUERY_REPEATED] = "The query string holds a parameter twice.",
    };
    return e < SP_QUERY_ERROR_COUNT ? text[e] : text[SP_QUERY_BAD_CHAR];
}

struct sp_slice sp_query_get(const struct sp_query *q, const char *name)
{
    for (size_t i = 0; i < q->n; i++)
        if (same(q->param[i].name, text_of(name)))
            return q->param[i].value;
    return (struct sp_slice){NULL, 0};
}

struct sp_slice sp_query_stranger(const struct sp_query *q, const char *const *names)
{
    for (size_t i = 0; i < q->n; i++) {
        size_t k = 0;
        while (names[k] != NULL && !same(q->param[i].name, text_of(names[k])))
            k++;
        if (names[k] == NULL)
            return q->param[i].name;
    }
    return (struct sp_slice){NULL, 0};
}

bool sp_query_flag(const struct sp_query *q, const char *name, bool *val)
{
    struct sp_slice v = sp_query_get(q, name);
    if (v.p == NULL)
        return true;
    bool yes = same(v, text_of("true")) || same(v, text_of("1"));
    if (!yes && !same(v, text_of("false")) && !same(v, text_of("0")))
        return false;
    *val = yes;
    return true;
}

bool sp_query_number(const struct sp_query *q, const char *name, uint64_t min, uint64_t max,
                     uint64_t *val)
{
    struct sp_slice v = sp_query_get(q, name);
    uint64_t n = 0;
    if (v.p == NULL)
        return true;
    if (!sp_parse_length(v, &n) || n < min || n > max)
        return false;
    *val = n;
    return true;
}
