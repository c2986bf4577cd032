/* sha256.h: SHA-256 (FIPS 180-4), for names and for comparing keys. In base, so that every role can
 * have it without a library that opens files at its first call. Trusts nobody. */
#ifndef SALLYPORT_SHA256_H
#define SALLYPORT_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_SHA256_LEN 32u

struct sp_sha256 {
    uint32_t h[8];
    uint64_t total;
    uint8_t block[64];
    size_t used;
};

void sp_sha256_init(struct sp_sha256 *s);
void sp_sha256_add(struct sp_sha256 *s, const void *p, size_t n);
void sp_sha256_end(struct sp_sha256 *s, uint8_t out[SP_SHA256_LEN]);
/* Takes the same time wherever a and b differ. */
bool sp_same_digest(const uint8_t a[SP_SHA256_LEN], const uint8_t b[SP_SHA256_LEN]);
/* 2 * n digits and a NUL. */
void sp_hex(const uint8_t *p, size_t n, char *out);

#endif
