/* wire.h: bounds-checked cursors over a message's bytes, little-endian.
 * The reader trusts nothing: after the first overrun `bad` stays set and every
 * get returns 0 or an empty string, so that a decoder checks once, at its end. */
#ifndef SALLYPORT_WIRE_H
#define SALLYPORT_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_wr {
    uint8_t *buf;
    size_t len, cap;
    bool bad; /* set when something didn't fit */
};

void sp_wr_init(struct sp_wr *w, void *buf, size_t cap);
void sp_wr_u8(struct sp_wr *w, uint8_t v);
void sp_wr_u16(struct sp_wr *w, uint16_t v);
void sp_wr_u32(struct sp_wr *w, uint32_t v);
void sp_wr_u64(struct sp_wr *w, uint64_t v);
/* u32 length, then the bytes. */
void sp_wr_bytes(struct sp_wr *w, const void *p, size_t n);

/* A borrowed run of bytes inside a received frame. Not NUL-terminated. */
struct sp_slice {
    const char *p;
    size_t n;
};

struct sp_rd {
    const uint8_t *p;
    size_t left;
    bool bad;
};

void sp_rd_init(struct sp_rd *r, const void *buf, size_t len);
uint8_t sp_rd_u8(struct sp_rd *r);
uint16_t sp_rd_u16(struct sp_rd *r);
uint32_t sp_rd_u32(struct sp_rd *r);
uint64_t sp_rd_u64(struct sp_rd *r);
/* A slice of at most max bytes; longer sets bad. */
struct sp_slice sp_rd_bytes(struct sp_rd *r, size_t max);
/* As sp_rd_bytes, but a NUL inside sets bad. */
struct sp_slice sp_rd_str(struct sp_rd *r, size_t max);
/* True if all went well and nothing is left over. */
bool sp_rd_done(const struct sp_rd *r);

#endif
