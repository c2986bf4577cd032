/* cond.c: entity tags and conditional requests (RFC 9110 8.8, 13). The header values are a
 * stranger's; a malformed list holds nothing. */
#include "sallyport/http.h"

#include "grammar.h"

#include <string.h>

/* One entity-tag at the start of *s; what follows is left in *s. */
static bool take_tag(struct sp_slice *s, struct sp_slice *tag, bool *weak)
{
    *weak = s->n >= 2 && s->p[0] == 'W' && s->p[1] == '/';
    size_t open = *weak ? 2 : 0;
    if (s->n <= open || s->p[open] != '"')
        return false;
    size_t i = open + 1;
    while (i < s->n && s->p[i] != '"' && s->p[i] != ' ' && s->p[i] != '\t')
        i++; /* etagc: the head parser let no control character through */
    if (i == s->n || s->p[i] != '"')
        return false;
    *tag = (struct sp_slice){s->p + open + 1, i - open - 1};
    s->p += i + 1;
    s->n -= i + 1;
    return true;
}

static bool same(struct sp_slice a, struct sp_slice b)
{
    return a.p && b.p && a.n == b.n && memcmp(a.p, b.p, a.n) == 0;
}

int sp_etag_next(struct sp_slice *list, struct sp_slice *tag, bool *weak)
{
    struct sp_slice s = sp_trim(*list);
    while (s.n && s.p[0] == ',') { /* empty elements are allowed */
        s.p++;
        s.n--;
        s = sp_trim(s);
    }
    int r = s.n == 0 ? 0 : take_tag(&s, tag, weak) ? 1 : -1;
    s = sp_trim(s);
    *list = s;
    return r == 1 && s.n && s.p[0] != ',' ? -1 : r;
}

bool sp_etag_any(struct sp_slice list)
{
    struct sp_slice s = sp_trim(list);
    return s.n == 1 && s.p[0] == '*';
}

bool sp_etag_listed(struct sp_slice list, struct sp_slice etag, bool weak)
{
    struct sp_slice tag;
    bool found = false, is_weak;
    int r;
    if (sp_etag_any(list))
        return true;
    while ((r = sp_etag_next(&list, &tag, &is_weak)) == 1)
        found |= (weak || !is_weak) && same(tag, etag);
    return r == 0 && found;
}

struct sp_slice sp_etag_single(struct sp_slice list)
{
    struct sp_slice s = sp_trim(list), tag;
    bool weak;
    if (s.n && take_tag(&s, &tag, &weak) && !weak && s.n == 0)
        return tag;
    return (struct sp_slice){NULL, 0};
}

/* A date counts only when it is exactly the file's: the client promises by sending one that the
 * file had been still for a second (13.1.5). */
static bool if_range(struct sp_slice v, struct sp_slice etag, int64_t mtime)
{
    int64_t date;
    return same(sp_etag_single(v), etag) || (sp_http_date_parse(v, &date) && date == mtime);
}

int sp_conditions(const struct sp_head *h, struct sp_slice etag, int64_t mtime, bool *use_range)
{
    int64_t date;
    *use_range = !h->if_range.p || if_range(h->if_range, etag, mtime);
    if (h->if_match.p) {
        if (!sp_etag_listed(h->if_match, etag, false))
            return 412;
    } else if (sp_http_date_parse(h->if_unmodified_since, &date) && mtime > date) {
        return 412;
    }
    if (h->if_none_match.p)
        return sp_etag_listed(h->if_none_match, etag, true) ? 304 : 0;
    if (sp_http_date_parse(h->if_modified_since, &date) && mtime <= date)
        return 304;
    return 0;
}
