/* lease_size.h - how many units of a shared limit a node asks for in advance.
 *
 * Pure: time and demand are passed in; a fixed table remembers which keys are hot. A key that is
 * asked for once in a while leases nothing. One that comes back soon leases about as much as it
 * uses in WR_LEASE_SPAN_NS.
 *
 * A table belongs to one event loop. Where several loops or processes share an arena, each sizes by
 * the questions that it asks itself, and what they are granted adds up in the arena: a key that
 * comes by all of them has as many leases at a time as there are loops, each as large as one
 * loop's demand, so together about the host's. */
#ifndef WR_REMOTE_LEASE_SIZE_H
#define WR_REMOTE_LEASE_SIZE_H

#include "algo/leasing.h"

#define WR_LEASE_ROWS 4096U                   /* a power of two */
#define WR_LEASE_SPAN_NS (100 * WR_NS_PER_MS) /* a lease is meant to last so long */

struct wr_lease_row {
    uint64_t key;
    int64_t asked_ns;
    int64_t cost, extra, granted; /* of that question */
    bool brief;                   /* what was granted was void nearly at once */
};

/* One key a row. All zeros at first. */
struct wr_lease_table {
    struct wr_lease_row row[WR_LEASE_ROWS];
};

struct wr_lease_want {
    uint64_t key; /* of the limit and the caller; not 0 */
    const struct wr_limit *limit;
    int64_t cost;   /* of the request that asks; 0: a look, which leases nothing */
    unsigned nodes; /* that share the store */
    int64_t now_ns;
};

/* How much a question is to ask for besides its cost. |*ttl_ns| is wr_lease_ttl_ns(limit), whatever
 * the key, as the store keeps rate * ttl back from a token bucket; |*extra| is 0 where the key is
 * cold, or the limit too small to be handed out in advance. */
void wr_lease_size(struct wr_lease_table *table, const struct wr_lease_want *want, int64_t *extra,
                   int64_t *ttl_ns);

/* The question brought |granted| units besides, to be spent within |lease_ns|: fewer than were
 * asked for last less long, and at the end of a window they may not last at all. 0, 0: the store
 * did not answer. */
void wr_lease_answered(struct wr_lease_table *table, uint64_t key, int64_t granted,
                       int64_t lease_ns);

#endif
