/* tag.c - who is counted, as all nodes of a fleet name him.
 *
 *     SHA-256( len64 secret | kind8 len64 part | kind8 len64 part ... ), the first 128 bits
 *
 * Lengths are little-endian on every machine: nodes that differ must agree. A prefix of length and
 * kind keeps ("a", "bc") and ("ab", "c") apart, and an address from the same bytes as a name. The
 * secret, if there is one, keeps whoever reads the store from trying addresses. It stands in front
 * under its length, which with a hash cut to half its bits leaves nothing to extend.
 *
 * A hash costs half a microsecond, a third of what a daemon does for a strict decision, and a hot
 * key is asked for thousands of times a second: so each thread remembers the last ones, by the
 * arena's hash of the key. Two keys that share it share their counter in every arena as well.
 *
 * Rejected: the arena's SipHash (64 bits, and a secret of its own on each host). */
#include "engine/tag.h"

#include <string.h>

#define MEMO 256U /* 8 KiB a thread */

struct memo {
    uint64_t generation, hash; /* generation 0: none */
    unsigned char tag[WR_TAG_BYTES];
};

static _Thread_local struct memo memos[MEMO];

static void add_length(struct wr_sha256 *sha, uint64_t len)
{
    unsigned char bytes[8];

    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(len >> (8 * i));
    wr_sha256_add(sha, bytes, sizeof bytes);
}

void wr_tag_base(struct wr_tag_base *base, const void *secret, size_t len)
{
    static uint64_t generations;

    wr_sha256_init(&base->sha);
    add_length(&base->sha, len);
    wr_sha256_add(&base->sha, secret, len);
    base->generation = __atomic_add_fetch(&generations, 1, __ATOMIC_RELAXED);
}

void wr_tag_of(const struct wr_tag_base *base, const struct wr_selected *selected,
               unsigned char tag[WR_TAG_BYTES])
{
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_sha256 sha = base->sha;

    for (unsigned i = 0; i < selected->parts; i++) {
        const struct wr_key_part *part = &selected->part[i];
        wr_sha256_add(&sha, &part->kind, 1);
        add_length(&sha, part->bytes.len);
        wr_sha256_add(&sha, part->bytes.ptr, part->bytes.len);
    }
    wr_sha256_finish(&sha, digest);
    for (unsigned i = 0; i < WR_TAG_BYTES; i++)
        tag[i] = digest[i];
}

void wr_tag_again(const struct wr_tag_base *base, const struct wr_selected *selected, uint64_t hash,
                  unsigned char tag[WR_TAG_BYTES])
{
    struct memo *memo = &memos[hash % MEMO];

    if (memo->generation != base->generation || memo->hash != hash) {
        wr_tag_of(base, selected, memo->tag);
        memo->generation = base->generation;
        memo->hash = hash;
    }
    memcpy(tag, memo->tag, WR_TAG_BYTES);
}
