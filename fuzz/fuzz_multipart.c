/* fuzz_multipart.c: the form parser. The input is a Content-Type up to the first line feed, then
 * the body. The same events at every split; and beside it a plain reader of the whole body, which
 * finds the same parts with the same bytes, or refuses what the parser refuses.
 * Covers: src/http/multipart.c src/http/parthead.c */
#include "sallyport/multipart.h"
#include "sallyport/utf8.h"

#include <stdlib.h>
#include <string.h>

#define PARTS 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What came out: every event as a byte and its text, data of a part joined. */
struct trace {
    enum sp_mp_error verdict;
    size_t n;
    uint32_t parts;
    size_t data_at[PARTS], data_n[PARTS]; /* of each part, in bytes */
    char bytes[1 << 17];
};

static void note(struct trace *t, const char *p, size_t n)
{
    if (n > sizeof t->bytes - t->n)
        abort(); /* more came out than went in */
    if (n > 0)
        memcpy(t->bytes + t->n, p, n);
    t->n += n;
}

static void note_part(struct trace *t, const struct sp_mp_part *p)
{
    if (p->name.n == 0 || p->name.n > SP_MP_NAME_MAX || !sp_utf8_valid(p->name.p, p->name.n) ||
        p->filename.n > SP_MP_FILENAME_MAX || !sp_utf8_valid(p->filename.p, p->filename.n) ||
        memchr(p->name.p, '\n', p->name.n) != NULL)
        abort();
    note(t, "P", 1);
    note(t, p->name.p, p->name.n);
    note(t, p->has_filename ? "F" : "f", 1);
    note(t, p->filename.p, p->filename.n);
    note(t, "T", 1);
    note(t, p->content_type.p, p->content_type.n);
    note(t, ":", 1);
    t->data_at[t->parts++] = t->n;
}

static void one_piece(struct sp_multipart *m, const char *p, size_t n, struct trace *t)
{
    for (size_t at = 0;;) {
        size_t used, dn;
        const char *d;
        enum sp_mp_event ev = sp_multipart_next(m, p + at, n - at, &used, &d, &dn);
        if (used > n - at || (ev == SP_MP_DATA) != (dn > 0))
            abort();
        at += used;
        switch (ev) {
        case SP_MP_MORE:
            if (at != n)
                abort();
            return;
        case SP_MP_PART:
            note_part(t, &m->part);
            break;
        case SP_MP_DATA:
            note(t, d, dn);
            break;
        case SP_MP_PART_END:
            t->data_n[t->parts - 1] = t->n - t->data_at[t->parts - 1];
            note(t, "E", 1);
            break;
        case SP_MP_END:
            note(t, "Z", 1);
            break;
        case SP_MP_ERROR:
            if (m->error == SP_MP_OK)
                abort();
            return;
        }
    }
}

static void parse(struct sp_slice type, const char *p, size_t n, size_t step, struct trace *t)
{
    static struct sp_multipart m;
    t->n = 0;
    t->parts = 0;
    t->verdict = sp_multipart_init(&m, type, PARTS);
    for (size_t at = 0; at < n && t->verdict == SP_MP_OK; at += step)
        one_piece(&m, p + at, n - at < step ? n - at : step, t);
    if (t->verdict == SP_MP_OK)
        t->verdict = sp_multipart_finish(&m);
    if (sp_mp_error_text(t->verdict)[0] == '\0')
        abort();
}

/* ---- the plain reader ---- */

struct part {
    const char *head, *data;
    size_t head_n, data_n;
};

/* Cuts p[0..n) at the delimiters, knowing nothing of heads. The number of parts, or -1. */
static int cut(const char *p, size_t n, const char *b, size_t bn, struct part *out)
{
    char d[4 + SP_MP_BOUNDARY_MAX];
    int parts = 0;
    memcpy(d, "\r\n--", 4);
    memcpy(d + 4, b, bn);
    size_t dn = bn + 4;
    if (n < dn - 2 || memcmp(p, d + 2, dn - 2) != 0)
        return -1;
    for (size_t at = dn - 2;;) {
        if (n - at >= 2 && memcmp(p + at, "--", 2) == 0) {
            at += 2;
            bool end = at == n || (n - at == 2 && memcmp(p + at, "\r\n", 2) == 0);
            return end && parts > 0 ? parts : -1;
        }
        if (n - at < 2 || memcmp(p + at, "\r\n", 2) != 0 || parts == (int)PARTS)
            return -1;
        at += 2;
        const char *blank = memmem(p + at, n - at, "\r\n\r\n", 4);
        if (blank == NULL || (n - at >= 2 && memcmp(p + at, "\r\n", 2) == 0))
            return -1;
        struct part *o = &out[parts++];
        *o = (struct part){.head = p + at, .head_n = (size_t)(blank - p) + 4 - at};
        at += o->head_n;
        o->data = p + at;
        if (o->head_n > SP_MP_HEAD_MAX || (n - at >= dn - 2 && memcmp(p + at, d + 2, dn - 2) == 0))
            return -1;
        const char *next = memmem(p + at, n - at, d, dn);
        if (next == NULL)
            return -1;
        o->data_n = (size_t)(next - o->data);
        at = (size_t)(next - p) + dn;
    }
}

/* The trace must hold the cut's data, in order; where heads are the parser's own matter, a refusal
 * for one is fine. */
static void compare(const struct trace *t, int parts, const struct part *cuts)
{
    bool head_fault = t->verdict == SP_MP_E_HEAD || t->verdict == SP_MP_E_DISPOSITION ||
                      t->verdict == SP_MP_E_EXTENDED || t->verdict == SP_MP_E_NAME ||
                      t->verdict == SP_MP_E_ENCODING;
    if (head_fault)
        return; /* it may stop before the fault that the plain reader saw */
    if ((t->verdict == SP_MP_OK) != (parts >= 0))
        abort();
    if (parts < 0)
        return;
    if (t->parts != (uint32_t)parts)
        abort();
    for (int i = 0; i < parts; i++)
        if (t->data_n[i] != cuts[i].data_n ||
            memcmp(t->bytes + t->data_at[i], cuts[i].data, cuts[i].data_n) != 0)
            abort();
    if (t->bytes[t->n - 1] != 'Z')
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct trace whole, pieces;
    static struct part cuts[PARTS];
    const char *in = (const char *)data, *lf = size > 0 ? memchr(in, '\n', size) : NULL;
    if (lf == NULL || size > sizeof whole.bytes / 4)
        return 0;
    struct sp_slice type = {in, (size_t)(lf - in)};
    const char *body = lf + 1;
    size_t n = size - type.n - 1;
    parse(type, body, n, SIZE_MAX / 2, &whole);
    for (size_t step = 1; step <= 16; step = step * 2 + 1) {
        parse(type, body, n, step, &pieces);
        if (pieces.verdict != whole.verdict || pieces.n != whole.n ||
            memcmp(pieces.bytes, whole.bytes, whole.n) != 0)
            abort();
    }
    /* A boundary in the plainest form is enough for the plain reader. */
    static const char plain[] = "multipart/form-data;boundary=";
    if (type.n < sizeof plain || memcmp(type.p, plain, sizeof plain - 1) != 0 ||
        whole.verdict == SP_MP_E_BOUNDARY || whole.verdict == SP_MP_E_TYPE)
        return 0;
    const char *b = type.p + sizeof plain - 1;
    size_t bn = type.n - (sizeof plain - 1);
    if (memchr(b, '"', bn) != NULL || memchr(b, ';', bn) != NULL || memchr(b, ' ', bn) != NULL ||
        memchr(b, '\t', bn) != NULL)
        return 0;
    compare(&whole, cut(body, n, b, bn, cuts), cuts);
    return 0;
}
