/* region.c - a bump allocator over a list of blocks.
 *
 * Problem. A policy is thousands of small pieces that live and die together, and it must not leak
 * when the n-th allocation fails.
 *
 * Idea. Blocks of at least 16 KiB, cut from the front; what does not fit gets a block of its own.
 * Freeing is one walk over the blocks, and every path of an error frees everything.
 *
 * Invariants:
 *   1. Pieces are zeroed and aligned to 16 bytes.
 *   2. failed is set by every allocation that returns NULL and never cleared: readers may go on to
 *      collect errors, and the loader asks once at the end.
 *
 * Rejected: malloc and free for each piece (every error path would have to know what exists). */
#include "policy/region.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES 16384U /* few blocks for a small policy, little waste for a large one */
#define ALIGN_BYTES 16U

struct wr_region_block {
    struct wr_region_block *older;
    uint64_t pad; /* the bytes after it start at a multiple of ALIGN_BYTES */
};

_Static_assert(sizeof(struct wr_region_block) % ALIGN_BYTES == 0, "invariant 1");

static bool grow(struct wr_region *region, size_t bytes)
{
    size_t room = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
    struct wr_region_block *block = calloc(1, sizeof *block + room);

    if (block == NULL) {
        region->failed = true;
        return false;
    }
    block->older = region->blocks;
    region->blocks = block;
    region->next = (char *)(block + 1);
    region->left = room;
    return true;
}

void *wr_region_take(struct wr_region *region, size_t count, size_t size)
{
    size_t bytes;
    char *piece;

    if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX / 4) {
        region->failed = true;
        return NULL;
    }
    bytes = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    if (bytes == 0)
        bytes = ALIGN_BYTES; /* distinct pieces have distinct addresses */
    if (bytes > region->left && !grow(region, bytes))
        return NULL;
    piece = region->next;
    region->next += bytes;
    region->left -= bytes;
    return piece;
}

char *wr_region_text(struct wr_region *region, const char *text, size_t len)
{
    char *copy = wr_region_take(region, len + 1, 1);

    if (copy != NULL && len > 0)
        memcpy(copy, text, len);
    return copy;
}

void wr_region_fini(struct wr_region *region)
{
    while (region->blocks != NULL) {
        struct wr_region_block *older = region->blocks->older;
        free(region->blocks);
        region->blocks = older;
    }
    *region = (struct wr_region){0};
}
