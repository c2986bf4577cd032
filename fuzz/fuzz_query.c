/* fuzz_query.c: the query parser beside a plain reading of its rules: same verdict, same names,
 * same values; and what was read, encoded anew, reads the same.
 * Covers: src/http/query.c */
#include "sallyport/query.h"
#include "sallyport/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct plain {
    size_t n;
    struct {
        char text[SP_LINE_MAX];
        size_t len;
    } name[SP_QUERY_MAX + 1], value[SP_QUERY_MAX + 1];
};

static int hex(uint8_t c)
{
    static const char digits[] = "0123456789abcdef0123456789ABCDEF";
    const char *at = c != 0 ? strchr(digits, c) : NULL;
    return at != NULL ? (int)((at - digits) % 16) : -1;
}

/* The oracle walks the bytes once, keeping whether it is in a name or a value. */
static bool read_plainly(const uint8_t *p, size_t n, struct plain *o)
{
    static const char raw[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                              "-._~!$'()*,;:@/?=+";
    bool in_value = false;
    o->n = 0;
    if (n > SP_LINE_MAX)
        return false;
    if (n == 0)
        return true;
    for (size_t i = 0; i <= n; i++) {
        size_t k = o->n;
        if (k > SP_QUERY_MAX)
            return false;
        if (i == 0 || p[i - 1] == '&') {
            o->name[k].len = o->value[k].len = 0;
            in_value = false;
        }
        if (i == n || p[i] == '&') {
            if (o->name[k].len == 0 || k >= SP_QUERY_MAX ||
                !sp_utf8_valid(o->name[k].text, o->name[k].len))
                return false;
            for (size_t j = 0; j < k; j++)
                if (o->name[j].len == o->name[k].len &&
                    memcmp(o->name[j].text, o->name[k].text, o->name[k].len) == 0)
                    return false;
            o->n++;
            continue;
        }
        if (p[i] == '=' && !in_value) {
            in_value = true;
            continue;
        }
        char c = (char)p[i];
        if (c == '%') {
            if (n - i < 3 || hex(p[i + 1]) < 0 || hex(p[i + 2]) < 0)
                return false;
            c = (char)(uint8_t)(hex(p[i + 1]) * 16 + hex(p[i + 2]));
            i += 2;
            if (c == 0)
                return false;
        } else if (c == 0 || strchr(raw, c) == NULL) {
            return false;
        } else if (c == '+') {
            c = ' ';
        }
        if (in_value)
            o->value[k].text[o->value[k].len++] = c;
        else
            o->name[k].text[o->name[k].len++] = c;
    }
    return true;
}

static void encoded_anew(const struct sp_query *q)
{
    static char text[4 * SP_LINE_MAX];
    static struct sp_query again;
    size_t n = 0;
    for (size_t i = 0; i < q->n; i++) {
        if (i > 0)
            text[n++] = '&';
        n += sp_pct_encode(q->param[i].name.p, q->param[i].name.n, text + n);
        if (q->param[i].has_value) {
            text[n++] = '=';
            n += sp_pct_encode(q->param[i].value.p, q->param[i].value.n, text + n);
        }
    }
    if (n > SP_LINE_MAX)
        return;
    if (sp_query_parse((struct sp_slice){text, n}, &again) != SP_QUERY_OK || again.n != q->n)
        abort();
    for (size_t i = 0; i < q->n; i++)
        if (again.param[i].name.n != q->param[i].name.n ||
            again.param[i].has_value != q->param[i].has_value ||
            again.param[i].value.n != q->param[i].value.n ||
            memcmp(again.param[i].value.p, q->param[i].value.p, q->param[i].value.n) != 0)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct sp_query q;
    static struct plain o;
    enum sp_query_error e = sp_query_parse((struct sp_slice){(const char *)data, size}, &q);
    bool ok = read_plainly(data, size, &o);
    if (ok != (e == SP_QUERY_OK) || sp_query_error_text(e)[0] == '\0' || (!ok && q.n != 0))
        abort();
    if (!ok)
        return 0;
    if (q.n != o.n)
        abort();
    for (size_t i = 0; i < q.n; i++)
        if (q.param[i].name.n != o.name[i].len || q.param[i].value.n != o.value[i].len ||
            memcmp(q.param[i].name.p, o.name[i].text, o.name[i].len) != 0 ||
            memcmp(q.param[i].value.p, o.value[i].text, o.value[i].len) != 0)
            abort();
    bool flag;
    uint64_t number;
    static const char *const names[] = {"recursive", "path", NULL};
    (void)sp_query_flag(&q, "recursive", &flag);
    if (sp_query_get(&q, "limit").p != NULL && sp_query_number(&q, "limit", 1, 99, &number) &&
        (number < 1 || number > 99))
        abort();
    struct sp_slice s = sp_query_stranger(&q, names);
    if ((s.p == NULL) != (q.n == (sp_query_get(&q, "recursive").p != NULL) +
                                     (size_t)(sp_query_get(&q, "path").p != NULL)))
        abort();
    encoded_anew(&q);
    return 0;
}
