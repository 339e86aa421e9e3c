/* lease.h - units of a shared limit that the store granted this host before, as a word of the
 * arena.
 *
 * Not a limit that a policy can name: what may be spent was decided by the store, and the word only
 * makes sure that it is spent once, in time. As struct wr_word_algo, with WR_LEASE, it is charged,
 * given back and evicted like any other word; what is peculiar:
 *
 *   allowed           spent from the lease
 *   refused           the store said no to this cost a moment ago: retry_after_ns
 *   refused, never    nothing here knows: the store is to be asked */
#ifndef WR_ALGO_LEASE_H
#define WR_ALGO_LEASE_H

#include "algo/limit.h"

#define WR_LEASE_TTL_MAX_NS WR_NS_PER_S             /* no lease and no refusal lasts longer */
#define WR_LEASE_UNITS_MAX ((INT64_C(1) << 22) - 1) /* of one word; more is stranded */
#define WR_LEASE_CAPACITY_MIN 16                    /* of a limit that leases at all */
#define WR_LEASE_TTL_MIN_NS (16 * WR_NS_PER_MS)     /* shorter, and rounding takes too much of it */

extern const struct wr_word_algo wr_lease;

/* The one limit of this algorithm: all leases are of one class. */
struct wr_limit wr_lease_limit(void);

/* How long leases of |limit| last, at most; 0: it is never leased. Of the limit alone: a store
 * keeps rate * ttl of a token bucket back for what is out, so whatever is taken there, strictly
 * too, must be taken with the same ttl. */
int64_t wr_lease_ttl_ns(const struct wr_limit *limit);

/* |state| with |units| (> 0) more, which may be spent before |deadline_ns|. */
uint64_t wr_lease_grant(uint64_t state, int64_t now_ns, int64_t units, int64_t deadline_ns);

/* |state| after the store refused |cost| until |deadline_ns|: not remembered while it holds units.
 */
uint64_t wr_lease_refuse(uint64_t state, int64_t now_ns, int64_t cost, int64_t deadline_ns);

/* What may still be spent. */
int64_t wr_lease_units(uint64_t state, int64_t now_ns);

/* What was not spent of units with a deadline in (since_ns, end_ns], whatever time it is, and in
 * |*rest| the state without them: for whoever gives them back, in time or after it. */
int64_t wr_lease_unspent(uint64_t state, int64_t since_ns, int64_t end_ns, uint64_t *rest);

#endif
