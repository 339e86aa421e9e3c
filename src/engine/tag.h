/* tag.h - who is counted, as all nodes of a fleet name him: WR_TAG_BYTES of a hash. */
#ifndef WR_ENGINE_TAG_H
#define WR_ENGINE_TAG_H

#include "base/sha256.h"
#include "engine/backend.h"
#include "policy/policy.h"

/* What every tag starts from: the state of the hash, and a number that no other base has had. */
struct wr_tag_base {
    struct wr_sha256 sha;
    uint64_t generation;
};

void wr_tag_base(struct wr_tag_base *base, const void *secret, size_t len);

void wr_tag_of(const struct wr_tag_base *base, const struct wr_selected *selected,
               unsigned char tag[WR_TAG_BYTES]);

/* The same; |hash| is what the arena names the parts by under their limit. Keys that a thread asks
 * for over and over cost it no SHA-256. */
void wr_tag_again(const struct wr_tag_base *base, const struct wr_selected *selected, uint64_t hash,
                  unsigned char tag[WR_TAG_BYTES]);

#endif
