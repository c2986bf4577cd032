/* wire.c: bounds-checked little-endian cursors over a message's bytes. The reader trusts
 * nobody; the writer trusts its caller but not that the buffer is large enough. */
#include "sallyport/wire.h"

#include <string.h>

void sp_wr_init(struct sp_wr *w, void *buf, size_t cap)
{
    *w = (struct sp_wr){.buf = buf, .cap = cap};
}

/* Room for n more bytes, or NULL and bad. After bad nothing is written any more, so that a message
 * never has a hole in its middle. */
static uint8_t *take(struct sp_wr *w, size_t n)
{
    if (w->bad || n > w->cap - w->len) {
        w->bad = true;
        return NULL;
    }
    uint8_t *p = w->buf + w->len;
    w->len += n;
    return p;
}

static void put(struct sp_wr *w, uint64_t v, size_t n)
{
    uint8_t *p = take(w, n);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (uint8_t)(v >> (8 * i) & 0xff);
}

void sp_wr_u8(struct sp_wr *w, uint8_t v)
{
    put(w, v, 1);
}

void sp_wr_u16(struct sp_wr *w, uint16_t v)
{
    put(w, v, 2);
}

void sp_wr_u32(struct sp_wr *w, uint32_t v)
{
    put(w, v, 4);
}

void sp_wr_u64(struct sp_wr *w, uint64_t v)
{
    put(w, v, 8);
}

void sp_wr_bytes(struct sp_wr *w, const void *p, size_t n)
{
    if (n > UINT32_MAX) {
        w->bad = true;
        return;
    }
    put(w, n, 4);
    uint8_t *to = take(w, n);
    if (to && n)
        memcpy(to, p, n);
}

void sp_rd_init(struct sp_rd *r, const void *buf, size_t len)
{
    *r = (struct sp_rd){.p = buf, .left = len};
}

static const uint8_t *eat(struct sp_rd *r, size_t n)
{
    if (r->bad || n > r->left) {
        r->bad = true;
        return NULL;
    }
    const uint8_t *p = r->p;
    r->p += n;
    r->left -= n;
    return p;
}

static uint64_t get(struct sp_rd *r, size_t n)
{
    const uint8_t *p = eat(r, n);
    uint64_t v = 0;
    for (size_t i = 0; p && i < n; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

uint8_t sp_rd_u8(struct sp_rd *r)
{
    return (uint8_t)get(r, 1);
}

uint16_t sp_rd_u16(struct sp_rd *r)
{
    return (uint16_t)get(r, 2);
}

uint32_t sp_rd_u32(struct sp_rd *r)
{
    return (uint32_t)get(r, 4);
}

uint64_t sp_rd_u64(struct sp_rd *r)
{
    return get(r, 8);
}

/* An empty string has a pointer that may be read nowhere but compares as a string. */
static struct sp_slice fail(struct sp_rd *r)
{
    r->bad = true;
    return (struct sp_slice){"", 0};
}

struct sp_slice sp_rd_bytes(struct sp_rd *r, size_t max)
{
    size_t n = sp_rd_u32(r);
    if (r->bad || n > max)
        return fail(r);
    const uint8_t *p = eat(r, n);
    return p ? (struct sp_slice){(const char *)p, n} : fail(r);
}

struct sp_slice sp_rd_str(struct sp_rd *r, size_t max)
{
    struct sp_slice s = sp_rd_bytes(r, max);
    if (s.n && memchr(s.p, 0, s.n))
        return fail(r);
    return s;
}

bool sp_rd_done(const struct sp_rd *r)
{
    return !r->bad && r->left == 0;
}
