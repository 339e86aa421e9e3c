/* ring_counts.h - what this node and each other one have to do with each other, for /metrics: one
 * table for all loops of the process. */
#ifndef WR_REMOTE_RING_COUNTS_H
#define WR_REMOTE_RING_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/backend.h"

struct wr_ring_counts;
struct wr_ring_count; /* of one node */

enum wr_ring_counter {
    WR_RING_FORWARDED,   /* commands sent to it for keys that are its */
    WR_RING_ANSWERED,    /* of those, in time */
    WR_RING_LATE,        /* and after the deadline: what that took goes back */
    WR_RING_HANDED_OVER, /* keys that were ours and that it has now */
    WR_RING_COUNTERS
};

/* NULL: no memory. */
struct wr_ring_counts *wr_ring_counts_new(void);
void wr_ring_counts_free(struct wr_ring_counts *counts);

/* A loop has the node |id| from now on. NULL: there are too many, and this one is not counted;
 * everything below may be called with it. */
struct wr_ring_count *wr_ring_counts_join(struct wr_ring_counts *counts, const char *id);
/* It has it no more, having said that it is not up. */
void wr_ring_counts_leave(struct wr_ring_counts *counts, struct wr_ring_count *count);

void wr_ring_counts_add(struct wr_ring_count *count, enum wr_ring_counter what, uint64_t n);
/* A loop sees it come up, or go: each in turn. */
void wr_ring_counts_up(struct wr_ring_count *count, bool up);

/* A loop has heard of it; and when any did last, by uv_hrtime. 0: none has, as far as is known. */
void wr_ring_counts_heard(struct wr_ring_count *count, int64_t now_ns);
int64_t wr_ring_counts_heard_ns(const struct wr_ring_count *count);

/* The nodes that a loop has, at most |max| of them. Returns how many. */
size_t wr_ring_counts_read(struct wr_ring_counts *counts, struct wr_backend_peer *out, size_t max);

#endif
