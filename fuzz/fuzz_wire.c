/* fuzz_wire.c: the cursors beside a plain array. A writer of any capacity writes what fits and
 * nothing after that; a reader gets back what was written; and over any bytes it gives the values
 * that stand there up to the first overrun, and nothing behind it.
 * Covers: src/base/wire.c */
#include "input.h"
#include "sallyport/wire.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 64
#define ROOM 1024u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { U8, U16, U32, U64, BYTES, STR, KINDS };

struct step {
    int kind;
    uint64_t v;
    const char *p;
    size_t n, max;
};

static const size_t width[] = {1, 2, 4, 8, 4, 4};

static int script(struct input *in, struct step *s)
{
    int n = 0;
    for (; n < STEPS && in->left > 0; n++) {
        s[n] = (struct step){.kind = take8(in) % KINDS};
        s[n].v = take32(in) | (uint64_t)take32(in) << 32;
        s[n].n = s[n].v % (in->left + 1);
        s[n].p = (const char *)in->p;
        s[n].max = s[n].n + 2 - (s[n].v >> 40) % 4; /* sometimes too small */
        if (s[n].kind == BYTES || s[n].kind == STR) {
            in->p += s[n].n;
            in->left -= s[n].n;
        } else if (width[s[n].kind] < 8) {
            s[n].v &= (1ull << (8 * width[s[n].kind])) - 1;
        }
    }
    return n;
}

static void write_one(struct sp_wr *w, const struct step *s)
{
    switch (s->kind) {
    case U8:
        sp_wr_u8(w, (uint8_t)s->v);
        break;
    case U16:
        sp_wr_u16(w, (uint16_t)s->v);
        break;
    case U32:
        sp_wr_u32(w, (uint32_t)s->v);
        break;
    case U64:
        sp_wr_u64(w, s->v);
        break;
    default:
        sp_wr_bytes(w, s->p, s->n);
    }
}

/* The model's writer: a step is written as far as it fits, field by field, or not at all. */
struct plain {
    uint8_t b[ROOM];
    size_t n, cap;
    bool bad;
};

static void put(struct plain *o, const void *p, size_t n)
{
    o->bad |= n > o->cap - o->n;
    if (o->bad || n == 0)
        return;
    memcpy(o->b + o->n, p, n);
    o->n += n;
}

static void write_plainly(struct plain *o, const struct step *s)
{
    uint64_t v = s->kind >= BYTES ? s->n : s->v;
    uint8_t le[8];
    for (int i = 0; i < 8; i++)
        le[i] = (uint8_t)(v >> (8 * i));
    put(o, le, width[s->kind]);
    if (s->kind >= BYTES)
        put(o, s->p, s->n);
}

/* One read of r, and the same from all[*at..n): any difference ends it. */
static void read_one(struct sp_rd *r, const struct step *s, const uint8_t *all, size_t n,
                     size_t *at, bool *bad)
{
    uint64_t got = 0, want = 0;
    struct sp_slice slice = {"", 0};
    if (s->kind == U8)
        got = sp_rd_u8(r);
    else if (s->kind == U16)
        got = sp_rd_u16(r);
    else if (s->kind == U32)
        got = sp_rd_u32(r);
    else if (s->kind == U64)
        got = sp_rd_u64(r);
    else
        slice = s->kind == BYTES ? sp_rd_bytes(r, s->max) : sp_rd_str(r, s->max);
    bool fits = !*bad && n - *at >= width[s->kind];
    for (size_t i = 0; fits && i < width[s->kind]; i++)
        want |= (uint64_t)all[*at + i] << (8 * i);
    if (s->kind < BYTES) {
        *bad |= !fits;
        if (got != (fits ? want : 0))
            abort();
        *at += fits ? width[s->kind] : 0;
    } else {
        const uint8_t *p = all + *at + 4;
        fits = fits && want <= s->max && want <= n - *at - 4 &&
               (s->kind == BYTES || want == 0 || memchr(p, 0, want) == NULL);
        *bad |= !fits;
        if (slice.n != (fits ? want : 0) || slice.p == NULL ||
            (slice.n > 0 && (const uint8_t *)slice.p != p))
            abort();
        *at += fits ? 4 + want : 0;
    }
    if (r->bad != *bad || sp_rd_done(r) != (!*bad && *at == n))
        abort();
}

static void read_all(const uint8_t *p, size_t n, const struct step *s, int steps)
{
    struct sp_rd r;
    size_t at = 0;
    bool bad = false;
    sp_rd_init(&r, p, n);
    for (int i = 0; i < steps; i++)
        read_one(&r, &s[i], p, n, &at, &bad);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct step s[STEPS];
    struct plain o = {.cap = 0};
    struct input in = {data, size};
    o.cap = take32(&in) % (ROOM + 1);
    int steps = script(&in, s);
    uint8_t *buf = malloc(o.cap + 1); /* not a byte more, for ASan */
    if (buf == NULL)
        return 0;
    buf[o.cap] = 0xa5;
    struct sp_wr w;
    sp_wr_init(&w, buf, o.cap);
    for (int i = 0; i < steps; i++) {
        write_one(&w, &s[i]);
        write_plainly(&o, &s[i]);
        if (w.bad != o.bad || w.len != o.n || memcmp(buf, o.b, o.n) != 0 || buf[o.cap] != 0xa5)
            abort();
    }
    uint8_t *exact = malloc(w.len > 0 ? w.len : 1);
    if (exact != NULL) {
        memcpy(exact, buf, w.len);
        read_all(exact, w.len, s, steps);
    }
    read_all(data, size, s, steps);
    free(exact);
    free(buf);
    return 0;
}
