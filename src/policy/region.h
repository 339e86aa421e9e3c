/* region.h - memory that is taken piece by piece and freed all at once: a policy is one region, the
 * tree of the YAML it was read from another. Pieces are never given back alone. */
#ifndef WR_POLICY_REGION_H
#define WR_POLICY_REGION_H

#include <stdbool.h>
#include <stddef.h>

struct wr_region_block;

/* All zeros is an empty region. Not safe for two threads at once. */
struct wr_region {
    struct wr_region_block *blocks; /* newest first */
    char *next;                     /* first free byte of the newest block */
    size_t left;                    /* free bytes there */
    bool failed;                    /* an allocation has failed: sticky, checked once at the end */
};

/* |count| * |size| zeroed bytes, aligned for any type. NULL when out of memory, and then |failed|
 * is set. */
void *wr_region_take(struct wr_region *region, size_t count, size_t size);

/* The |len| bytes at |text|, terminated. NULL as above. */
char *wr_region_text(struct wr_region *region, const char *text, size_t len);

void wr_region_fini(struct wr_region *region);

#endif
