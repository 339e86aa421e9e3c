/* hmac.h - HMAC-SHA256, RFC 2104: who knows the secret wrote this. */
#ifndef WR_BASE_HMAC_H
#define WR_BASE_HMAC_H

#include "base/sha256.h"

struct wr_hmac {
    struct wr_sha256 inner, outer;
};

void wr_hmac_init(struct wr_hmac *hmac, const void *secret, size_t len);
void wr_hmac_add(struct wr_hmac *hmac, const void *bytes, size_t len);
void wr_hmac_finish(struct wr_hmac *hmac, unsigned char out[WR_SHA256_BYTES]);

#endif
