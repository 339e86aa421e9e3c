/* hmac.c - HMAC over the SHA-256 that is here anyway.
 *
 *     H((K ^ opad) | H((K ^ ipad) | text)),   K: the secret, or its hash where it is longer
 *                                             than a block, and zeros up to a block
 *
 * Rejected: OpenSSL's, which the library does not link. */
#include "base/hmac.h"

#include <string.h>

#define BLOCK_BYTES 64

static void begin(struct wr_sha256 *sha, const unsigned char *key, unsigned char pad)
{
    unsigned char block[BLOCK_BYTES];

    for (size_t i = 0; i < sizeof block; i++)
        block[i] = key[i] ^ pad;
    wr_sha256_init(sha);
    wr_sha256_add(sha, block, sizeof block);
    explicit_bzero(block, sizeof block);
}

void wr_hmac_init(struct wr_hmac *hmac, const void *secret, size_t len)
{
    unsigned char key[BLOCK_BYTES] = {0};
    struct wr_sha256 sha;

    if (len > sizeof key) {
        wr_sha256_init(&sha);
        wr_sha256_add(&sha, secret, len);
        wr_sha256_finish(&sha, key);
    } else if (len > 0) {
        memcpy(key, secret, len);
    }
    begin(&hmac->inner, key, 0x36);
    begin(&hmac->outer, key, 0x5c);
    explicit_bzero(key, sizeof key);
}

void wr_hmac_add(struct wr_hmac *hmac, const void *bytes, size_t len)
{
    wr_sha256_add(&hmac->inner, bytes, len);
}

void wr_hmac_finish(struct wr_hmac *hmac, unsigned char out[WR_SHA256_BYTES])
{
    wr_sha256_finish(&hmac->inner, out);
    wr_sha256_add(&hmac->outer, out, WR_SHA256_BYTES);
    wr_sha256_finish(&hmac->outer, out);
}
