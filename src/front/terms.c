/* terms.c: the conditions of a PUT, a POST of a file or a DELETE (RFC 9110 13.1), read from a
 * stranger's head for the cell, which alone knows what they are to be compared with. */
#include "front.h"

#include <string.h>

/* Hexadecimal numbers with dashes between, as the cell makes them: no other tag can match. */
static bool could_be_ours(struct sp_slice tag)
{
    if (tag.n == 0 || tag.n >= SP_ETAG_MAX)
        return false;
    for (size_t i = 0; i < tag.n; i++)
        if (tag.p[i] != '-' && (tag.p[i] < '0' || tag.p[i] > '9') &&
            (tag.p[i] < 'a' || tag.p[i] > 'f'))
            return false;
    return true;
}

struct tags {
    char text[SP_TAGS_MAX];
    size_t n;
};

/* Those of the list that could match, with commas between. */
static enum sp_err gather(struct sp_slice list, bool weak, struct tags *t, bool *good)
{
    struct sp_slice tag;
    bool is_weak;
    int r;
    t->n = 0;
    if (sp_etag_any(list)) {
        t->text[t->n++] = '*';
        *good = true;
        return SP_OK;
    }
    while ((r = sp_etag_next(&list, &tag, &is_weak)) == 1) {
        if ((is_weak && !weak) || !could_be_ours(tag))
            continue;
        if (t->n + 1 + tag.n > sizeof t->text)
            return SP_E_BAD_REQUEST; /* rather than to leave some out */
        if (t->n > 0)
            t->text[t->n++] = ',';
        memcpy(t->text + t->n, tag.p, tag.n);
        t->n += tag.n;
    }
    *good = r == 0;
    return SP_OK;
}

bool terms_there(const struct sp_head *h)
{
    return h->if_match.p != NULL || h->if_none_match.p != NULL || h->if_unmodified_since.p != NULL;
}

enum sp_err terms_read(const struct sp_head *h, struct sp_msg *m)
{
    static struct tags match, none; /* of the message that is sent next */
    bool good = true;
    int64_t date;
    if (h->if_match.p != NULL) {
        enum sp_err e = gather(h->if_match, false, &match, &good);
        if (e != SP_OK)
            return e;
        m->flags |= SP_IF_MATCH;
        m->etag = (struct sp_slice){match.text, good ? match.n : 0}; /* malformed: nothing fits */
    } else if (sp_http_date_parse(h->if_unmodified_since, &date)) {
        m->flags |= SP_IF_UNMODIFIED;
        if (__builtin_mul_overflow(date, (int64_t)1000000000, &m->mtime_ns) ||
            __builtin_add_overflow(m->mtime_ns, (int64_t)999999999, &m->mtime_ns))
            m->mtime_ns = INT64_MAX; /* which is where the cell ends, too */
    }
    if (h->if_none_match.p != NULL) {
        enum sp_err e = gather(h->if_none_match, true, &none, &good);
        if (e != SP_OK || !good) /* it would hold for everything */
            return SP_E_BAD_REQUEST;
        m->flags |= SP_IF_NONE_MATCH;
        m->none = (struct sp_slice){none.text, none.n};
    }
    return SP_OK;
}
