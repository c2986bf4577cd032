/* accept.c: whether an Accept field asks for server-sent events (RFC 9110 12.5.1). The value is a
 * stranger's; an element that is malformed asks for nothing. */
#include "sallyport/http.h"

#include "grammar.h"

#include <string.h>

/* qvalue as thousandths, or -1: "0", "1", "0.5", at most three digits. */
static int weight(struct sp_slice v)
{
    if (v.n < 1 || v.n > 5 || (v.p[0] != '0' && v.p[0] != '1') || (v.n > 1 && v.p[1] != '.'))
        return -1;
    int q = (v.p[0] - '0') * 1000, unit = 100;
    for (size_t i = 2; i < v.n; i++, unit /= 10) {
        if (v.p[i] < '0' || v.p[i] > '9')
            return -1;
        q += (v.p[i] - '0') * unit;
    }
    return q > 1000 ? -1 : q;
}

/* What stands before sep; *s goes on behind it, and is over (p NULL) where there is none. */
static struct sp_slice before(struct sp_slice *s, char sep)
{
    const char *at = s->n > 0 ? memchr(s->p, sep, s->n) : NULL;
    struct sp_slice one = {s->p, at != NULL ? (size_t)(at - s->p) : s->n};
    *s = at != NULL ? (struct sp_slice){at + 1, s->n - one.n - 1} : (struct sp_slice){NULL, 0};
    return sp_trim(one);
}

/* The weight of one element, its type in *type; -1 where it is malformed. */
static int element(struct sp_slice s, struct sp_slice *type)
{
    int q = 1000;
    *type = before(&s, ';');
    while (s.p != NULL) {
        struct sp_slice param = before(&s, ';');
        struct sp_slice name = before(&param, '=');
        if (sp_slice_is(name, "q"))
            q = param.p != NULL ? weight(sp_trim(param)) : -1;
    }
    return q;
}

bool sp_accept_events(struct sp_slice accept)
{
    int events = 0, json = 0;
    while (accept.p != NULL) {
        struct sp_slice type;
        int q = element(before(&accept, ','), &type);
        if (sp_slice_is(type, "text/event-stream"))
            events = q > events ? q : events;
        else if (sp_slice_is(type, "application/json"))
            json = q > json ? q : json;
    }
    return events > 0 && events >= json;
}
