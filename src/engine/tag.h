/* tag.h - who is counted, as all nodes of a fleet name him: WR_TAG_BYTES of a hash. */
#ifndef WR_ENGINE_TAG_H
#define WR_ENGINE_TAG_H

#include "base/sha256.h"
#include "engine/backend.h"
#include "policy/policy.h"

/* The state that every tag starts from. */
void wr_tag_base(struct wr_sha256 *base, const void *secret, size_t len);

void wr_tag_of(const struct wr_sha256 *base, const struct wr_selected *selected,
               unsigned char tag[WR_TAG_BYTES]);

#endif
