/* leasing.h - how much of a limit whoever counts it may hand out to be spent elsewhere; the same
 * arithmetic for every store.
 *
 * Units granted at g may be spent until g + ttl, while the bucket they came from refills: so a
 * token bucket that leases holds back what comes in during ttl, and over any interval t admitted <=
 * B + rate * t holds still. Windows need nothing: their units are void at their end. */
#ifndef WR_ALGO_LEASING_H
#define WR_ALGO_LEASING_H

#include "algo/limit.h"
#include "base/arith.h"

/* Units of a limit for each node that shares it, or it stays strict. */
#define WR_LEASE_PER_NODE_MIN 8

/* Of a limit's units, the part that may lie leased, for each loop over all nodes; of a quota, whose
 * window is a day or a month, less: so long are those missing that die with a node. */
#define WR_LEASING_PART 8
#define WR_LEASING_QUOTA_PART 64

static inline bool wr_can_lease(const struct wr_limit *limit)
{
    return limit->algo == WR_TOKEN_BUCKET || limit->algo == WR_FIXED_WINDOW ||
           limit->algo == WR_SLIDING_WINDOW;
}

/* Units of |limit| that are held back where leases last |ttl_ns|, 0..capacity. */
static inline int64_t wr_leasing_reserve(const struct wr_limit *limit, int64_t ttl_ns)
{
    uint64_t out;

    if (limit->algo != WR_TOKEN_BUCKET || ttl_ns <= 0 || limit->units == 0)
        return 0;
    out = wr_muldiv_ceil((uint64_t)limit->units, (uint64_t)ttl_ns, (uint64_t)limit->window_ns);
    return (int64_t)wr_min_u64(out, (uint64_t)limit->burst);
}

/* How many units of |limit| a lease of one loop has at most; 0: too few for |nodes|. */
static inline int64_t wr_leasing_most(const struct wr_limit *limit, unsigned nodes)
{
    int64_t share = wr_limit_capacity(limit) / (nodes == 0 ? 1 : (int64_t)nodes);

    if (share < WR_LEASE_PER_NODE_MIN)
        return 0;
    if (limit->calendar != WR_CALENDAR_NONE)
        return wr_max_i64(1, share / WR_LEASING_QUOTA_PART);
    return share / WR_LEASING_PART;
}

/* Of |left| units, how many of the |extra| that were asked for: at most half over the nodes. */
static inline int64_t wr_leasing_grant(int64_t left, int64_t extra, unsigned nodes)
{
    return wr_max_i64(0, wr_min_i64(extra, left / (2 * (int64_t)(nodes == 0 ? 1 : nodes))));
}

#endif
