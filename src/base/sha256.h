/* sha256.h - SHA-256, FIPS 180-4: for names that must not be turned back into what they name. */
#ifndef WR_BASE_SHA256_H
#define WR_BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define WR_SHA256_BYTES 32

/* In the caller's memory; may be copied in the middle. */
struct wr_sha256 {
    uint32_t h[8];
    uint64_t length_bytes;
    unsigned char block[64]; /* length_bytes mod 64 of it */
};

void wr_sha256_init(struct wr_sha256 *sha);
void wr_sha256_add(struct wr_sha256 *sha, const void *bytes, size_t len);
void wr_sha256_finish(struct wr_sha256 *sha, unsigned char out[WR_SHA256_BYTES]);

#endif
