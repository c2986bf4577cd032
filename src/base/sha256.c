/* sha256.c: SHA-256 as FIPS 180-4 writes it down. Checked against the standard's own examples in
 * tests/unit/test_sha256.c. Input is anybody's. */
#include "sallyport/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t ror(uint32_t v, unsigned n)
{
    return v >> n | v << (32u - n);
}

static void block(uint32_t h[8], const uint8_t *p)
{
    uint32_t w[64], v[8];
    for (size_t i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 |
               (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (size_t i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + (ror(a, 7) ^ ror(a, 18) ^ a >> 3) + w[i - 7] +
               (ror(b, 17) ^ ror(b, 19) ^ b >> 10);
    }
    memcpy(v, h, sizeof v);
    for (size_t i = 0; i < 64; i++) {
        uint32_t t1 = v[7] + (ror(v[4], 6) ^ ror(v[4], 11) ^ ror(v[4], 25)) +
                      ((v[4] & v[5]) ^ (~v[4] & v[6])) + k[i] + w[i];
        uint32_t t2 = (ror(v[0], 2) ^ ror(v[0], 13) ^ ror(v[0], 22)) +
                      ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + t2;
    }
    for (size_t i = 0; i < 8; i++)
        h[i] += v[i];
}

void sp_sha256_init(struct sp_sha256 *s)
{
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memset(s, 0, sizeof *s);
    memcpy(s->h, first, sizeof first);
}

void sp_sha256_add(struct sp_sha256 *s, const void *p, size_t n)
{
    const uint8_t *in = p;
    s->total += n;
    while (n > 0) {
        size_t take = sizeof s->block - s->used;
        if (take > n)
            take = n;
        memcpy(s->block + s->used, in, take);
        s->used += take;
        in += take;
        n -= take;
        if (s->used == sizeof s->block) {
            block(s->h, s->block);
            s->used = 0;
        }
    }
}

void sp_sha256_end(struct sp_sha256 *s, uint8_t out[SP_SHA256_LEN])
{
    static const uint8_t pad[64] = {0x80};
    uint64_t bits = s->total * 8u;
    uint8_t len[8];
    for (size_t i = 0; i < 8; i++)
        len[i] = (uint8_t)(bits >> (56u - 8u * i));
    sp_sha256_add(s, pad, (s->used < 56 ? 56u : 120u) - s->used);
    sp_sha256_add(s, len, sizeof len);
    for (size_t i = 0; i < SP_SHA256_LEN; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24u - 8u * (i % 4)));
    explicit_bzero(s, sizeof *s);
}

bool sp_same_digest(const uint8_t a[SP_SHA256_LEN], const uint8_t b[SP_SHA256_LEN])
{
    volatile uint8_t differ = 0;
    for (size_t i = 0; i < SP_SHA256_LEN; i++)
        differ = (uint8_t)(differ | (a[i] ^ b[i]));
    return differ == 0;
}

void sp_hex(const uint8_t *p, size_t n, char *out)
{
    static const char digit[] = "0123456789abcdef";
    for (size_t i = 0; i < n; i++) {
        out[2 * i] = digit[p[i] >> 4];
        out[2 * i + 1] = digit[p[i] & 15];
    }
    out[2 * n] = '\0';
}
