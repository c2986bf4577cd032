/* head_model.h: RFC 9112's grammar of a head once more, for fuzz_head.c, as regular expressions
 * over a head that is there whole: nothing of src/http is used, and nothing is done by hand that an
 * expression can do. Strict: what it takes has one reading. Included once. */
#ifndef SALLYPORT_FUZZ_HEAD_MODEL_H
#define SALLYPORT_FUZZ_HEAD_MODEL_H

#include "sallyport/http.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
#define UNRESERVED "0-9A-Za-z._~-"
#define SUB_DELIMS "!$&'()*+,;="
#define PLACE "[/%:@" SUB_DELIMS UNRESERVED "]*"
#define QUERY "[?/%:@" SUB_DELIMS UNRESERVED "]*"
#define H16 "[0-9A-Fa-f]{1,4}"
#define OCTET "([0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
#define LS32 "(" H16 ":" H16 "|" OCTET "\\." OCTET "\\." OCTET "\\." OCTET ")"
#define IPV6                                                                                       \
    "((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 "|((" H16      \
    ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16 ")?::(" H16 ":){2}" LS32        \
    "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16 ":){0,4}" H16 ")?::" LS32 "|((" H16      \
    ":){0,5}" H16 ")?::" H16 "|((" H16 ":){0,6}" H16 ")?::)"
#define PORT "(:([0-9]{0,4}|[0-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
#define HOST "(([" SUB_DELIMS UNRESERVED "]|%[0-9A-Fa-f]{2})+|\\[" IPV6 "\\])"

enum rule {
    R_LINE,
    R_ORIGIN,
    R_ABSOLUTE,
    R_FIELD,
    R_AUTHORITY,
    R_LENGTH,
    R_CODING,
    R_OPTIONS,
    R_RULES
};

static const struct {
    const char *text;
    int flags;
} rule_text[R_RULES] = {
    [R_LINE] = {"^(" TOKEN ") ([^ ]+) HTTP/([0-9])\\.([0-9])$", 0},
    [R_ORIGIN] = {"^(/" PLACE ")([?]" QUERY ")?$", 0},
    [R_ABSOLUTE] = {"^[Hh][Tt][Tt][Pp]([Ss])?://([^/?]*)(/" PLACE ")?([?]" QUERY ")?$", 0},
    [R_FIELD] = {"^(" TOKEN "):[ \t]*([\t\x20-\x7e\x80-\xff]*)$", 0},
    [R_AUTHORITY] = {"^" HOST PORT "$", 0},
    [R_LENGTH] = {"^0*[0-9]{1,19}$", 0},
    [R_CODING] = {"^chunked$", REG_ICASE},
    [R_OPTIONS] = {"^[ \t]*(" TOKEN ")?[ \t]*(,[ \t]*(" TOKEN ")?[ \t]*)*$", 0},
};
static regex_t rules[R_RULES];

struct text {
    const char *p;
    size_t n;
};

/* What a head means; p NULL where a field isn't there. */
struct reading {
    struct text method, path, query, host, length, coding, expect;
    struct text type, encoding, range, if_range, match, none_match, modified, unmodified, accept,
        content_range;
    bool has_query, secure, close, keep;
    int minor;
};

static void model_init(void)
{
    for (int i = 0; i < R_RULES; i++)
        if (regcomp(&rules[i], rule_text[i].text, REG_EXTENDED | rule_text[i].flags) != 0)
            abort();
}

static bool match(enum rule r, struct text s, struct text *parts, size_t n)
{
    regmatch_t m[5] = {{.rm_so = 0, .rm_eo = (regoff_t)s.n}};
    if (regexec(&rules[r], s.p, n + 1, m, REG_STARTEND) != 0)
        return false;
    for (size_t i = 0; i < n; i++)
        parts[i] = m[i + 1].rm_so < 0 ? (struct text){NULL, 0}
                                      : (struct text){s.p + m[i + 1].rm_so,
                                                      (size_t)(m[i + 1].rm_eo - m[i + 1].rm_so)};
    return true;
}

static bool same(struct text s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static bool read_target(struct reading *r, struct text t)
{
    static const char slash[] = "/";
    struct text part[4];
    if (t.n == 1 && t.p[0] == '*') {
        r->path = t;
        return r->method.n == 7 && memcmp(r->method.p, "OPTIONS", 7) == 0;
    }
    if (match(R_ORIGIN, t, part, 2)) {
        r->path = part[0];
        r->query = part[1];
    } else if (match(R_ABSOLUTE, t, part, 4) && match(R_AUTHORITY, part[1], NULL, 0)) {
        r->secure = part[0].n > 0;
        r->path = part[2].n > 0 ? part[2] : (struct text){slash, 1};
        r->query = part[3];
    } else {
        return false;
    }
    r->has_query = r->query.p != NULL;
    if (r->has_query) {
        r->query.p++;
        r->query.n--;
    }
    return true;
}

static bool read_options(struct reading *r, struct text v)
{
    if (!match(R_OPTIONS, v, NULL, 0))
        return false;
    for (size_t i = 0; i < v.n;) {
        size_t n = strcspn(v.p + i, ", \t\r"); /* each value ends in a line's CR at the latest */
        struct text one = {v.p + i, n};
        r->close |= same(one, "close");
        r->keep |= same(one, "keep-alive");
        i += n > 0 ? n : 1;
    }
    return true;
}

static bool read_field(struct reading *r, struct text line)
{
    struct text part[2];
    if (!match(R_FIELD, line, part, 2))
        return false;
    struct text name = part[0], v = part[1];
    while (v.n > 0 && (v.p[v.n - 1] == ' ' || v.p[v.n - 1] == '\t'))
        v.n--;
    if (same(name, "connection"))
        return read_options(r, v);
    const struct {
        const char *name;
        struct text *to;
    } once[] = {{"host", &r->host},
                {"content-length", &r->length},
                {"transfer-encoding", &r->coding},
                {"expect", &r->expect},
                {"content-type", &r->type},
                {"content-encoding", &r->encoding},
                {"content-range", &r->content_range},
                {"range", &r->range},
                {"if-range", &r->if_range},
                {"if-match", &r->match},
                {"if-none-match", &r->none_match},
                {"if-modified-since", &r->modified},
                {"if-unmodified-since", &r->unmodified},
                {"accept", &r->accept}};
    for (size_t i = 0; i < sizeof once / sizeof *once; i++) {
        if (!same(name, once[i].name))
            continue;
        if (once[i].to->p != NULL)
            return false;
        *once[i].to = v;
    }
    return true;
}

/* INT64_MAX, as digits without zeros before. */
static bool too_large(struct text v)
{
    static const char most[] = "9223372036854775807";
    while (v.n > 1 && v.p[0] == '0') {
        v.p++;
        v.n--;
    }
    return v.n > 19 || (v.n == 19 && memcmp(v.p, most, 19) > 0);
}

static bool together(const struct reading *r)
{
    if (r->host.p != NULL ? !match(R_AUTHORITY, r->host, NULL, 0) : r->minor > 0)
        return false;
    if (r->length.p != NULL && (!match(R_LENGTH, r->length, NULL, 0) || too_large(r->length)))
        return false;
    if (r->coding.p != NULL && (!match(R_CODING, r->coding, NULL, 0) || r->minor == 0))
        return false;
    if (r->minor > 0 && r->expect.p != NULL && !same(r->expect, "100-continue"))
        return false;
    return r->length.p == NULL || r->coding.p == NULL;
}

/* 1: a head, of *size bytes. 0: its end isn't there. -1: there is an end, and it is none. */
static int model_read(const char *bytes, size_t n, struct reading *r, size_t *size)
{
    static char p[SP_HEAD_MAX + 1]; /* ended by a NUL, as ASan wants what regexec gets */
    struct text part[4];
    size_t room = n < SP_HEAD_MAX ? n : SP_HEAD_MAX;
    memcpy(p, bytes, room);
    p[room] = '\0';
    size_t start = n >= 2 && p[0] == '\r' && p[1] == '\n' ? 2 : 0;
    const char *end = room > start ? memmem(p + start, room - start, "\r\n\r\n", 4) : NULL;
    memset(r, 0, sizeof *r);
    if (end == NULL)
        return 0;
    *size = (size_t)(end - p) + 4;
    const char *at = p + start;
    for (unsigned lines = 0; at < end + 2; lines++) {
        const char *stop = memmem(at, (size_t)(end + 2 - at), "\r\n", 2);
        if (stop == NULL)
            return -1;
        struct text line = {at, (size_t)(stop - at)};
        at = stop + 2;
        if (lines > 0) {
            if (lines > SP_FIELDS_MAX || !read_field(r, line))
                return -1;
            continue;
        }
        if (line.n > SP_LINE_MAX || !match(R_LINE, line, part, 4) || part[2].p[0] != '1')
            return -1;
        r->method = part[0];
        r->minor = part[3].p[0] > '0';
        if (!read_target(r, part[1]))
            return -1;
    }
    return together(r) ? 1 : -1;
}

static bool is(struct sp_slice s, struct text t)
{
    return (s.p == NULL) == (t.p == NULL) && s.n == t.n && (t.n == 0 || memcmp(s.p, t.p, t.n) == 0);
}

/* Both took it: do they read the same? */
static bool model_agrees(const struct sp_head *h, const struct reading *r)
{
    static const char *const methods[] = {"GET", "HEAD", "PUT", "POST", "DELETE"};
    bool modern = r->minor > 0, has = r->length.p != NULL;
    for (int i = 0; i < 5; i++)
        if ((h->method == (enum sp_method)i) != (r->method.n == strlen(methods[i]) &&
                                                 memcmp(r->method.p, methods[i], r->method.n) == 0))
            return false;
    char digits[32] = "0";
    struct text v = r->length;
    while (v.n > 1 && v.p[0] == '0') {
        v.p++;
        v.n--;
    }
    if (has)
        (void)snprintf(digits, sizeof digits, "%.*s", (int)v.n, v.p);
    return h->minor == r->minor && h->secure == r->secure && is(h->path, r->path) &&
           h->has_query == r->has_query && (!r->has_query || is(h->query, r->query)) &&
           h->has_length == has && h->length == strtoull(digits, NULL, 10) &&
           h->chunked == (r->coding.p != NULL) &&
           h->keep_alive == (!r->close && (modern || r->keep)) &&
           h->expect_continue == (modern && r->expect.p != NULL) &&
           h->has_content_range == (r->content_range.p != NULL) && is(h->content_type, r->type) &&
           is(h->content_encoding, r->encoding) && is(h->range, r->range) &&
           is(h->if_range, r->if_range) && is(h->if_match, r->match) &&
           is(h->if_none_match, r->none_match) && is(h->if_modified_since, r->modified) &&
           is(h->if_unmodified_since, r->unmodified) && is(h->accept, r->accept);
}

#endif
