/* sha256.c - SHA-256 by the text of FIPS 180-4, sections 4.1.2, 5 and 6.2.
 *
 * For the names of callers in shared stores: one or two blocks for each question to a store, so
 * this is plain rather than fast. Why not OpenSSL's: docs/decisions/0009. */
#include "base/sha256.h"

#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotr(uint32_t x, unsigned n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* The message schedule. */
static void expand(const unsigned char block[64], uint32_t w[64])
{
    for (unsigned t = 0; t < 16; t++)
        w[t] = load32(block + (size_t)t * 4);
    for (unsigned t = 16; t < 64; t++) {
        uint32_t s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
}

/* The working variables a..h are v[0..7]. */
static void compress(struct wr_sha256 *sha, const unsigned char block[64])
{
    uint32_t w[64], v[8];

    expand(block, w);
    memcpy(v, sha->h, sizeof v);
    for (unsigned t = 0; t < 64; t++) {
        uint32_t big1 = rotr(v[4], 6) ^ rotr(v[4], 11) ^ rotr(v[4], 25);
        uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + big1 + choose + k[t] + w[t];
        uint32_t big0 = rotr(v[0], 2) ^ rotr(v[0], 13) ^ rotr(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + big0 + majority;
    }
    for (unsigned i = 0; i < 8; i++)
        sha->h[i] += v[i];
}

void wr_sha256_init(struct wr_sha256 *sha)
{
    static const uint32_t h0[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

    memset(sha, 0, sizeof *sha);
    memcpy(sha->h, h0, sizeof h0);
}

void wr_sha256_add(struct wr_sha256 *sha, const void *bytes, size_t len)
{
    const unsigned char *p = (const unsigned char *)bytes;

    while (len > 0) {
        size_t used = sha->length_bytes % 64, room = 64 - used;
        size_t n = len < room ? len : room;
        memcpy(sha->block + used, p, n);
        sha->length_bytes += n;
        p += n;
        len -= n;
        if (n == room)
            compress(sha, sha->block);
    }
}

void wr_sha256_finish(struct wr_sha256 *sha, unsigned char out[WR_SHA256_BYTES])
{
    static const unsigned char padding[64] = {0x80};
    uint64_t bits = sha->length_bytes * 8;
    size_t used = sha->length_bytes % 64;
    unsigned char length[8];

    for (unsigned i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    wr_sha256_add(sha, padding, used < 56 ? 56 - used : 120 - used);
    wr_sha256_add(sha, length, sizeof length);
    for (unsigned i = 0; i < WR_SHA256_BYTES; i++)
        out[i] = (unsigned char)(sha->h[i / 4] >> (24 - 8 * (i % 4)));
}
