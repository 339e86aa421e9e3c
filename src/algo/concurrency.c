/* concurrency.c - at most N in flight.
 *
 * Idea. A place is a lease: taken at a stamp, given back by its release, and lost when the longest
 * hold has passed, so that a request that never ends (a crash, a missed release) frees it.
 *
 *     pass iff live + 1 <= N
 *
 * Bound. At most N leases live at any moment. A request that outlives its hold is no longer
 * counted: the hold is to be longer than any honest request.
 *
 * The list of stamps is the store's, as for the exact log, with the hold as its window. retry_after
 * is when enough leases will have expired by themselves: the latest moment, most end sooner.
 *
 * Rejected: a counter with increments and decrements (one missed decrement blocks a place for
 * ever); cost as a number of places (a request is in flight once, whatever it costs). */
#include "algo/concurrency.h"

#include "algo/sliding_log.h"

void wr_concurrency_take(const struct wr_limit *limit, uint32_t live, bool look,
                         struct wr_take *out, uint32_t *must_age)
{
    wr_sliding_log_take(limit, live, look ? 0 : 1, out, must_age);
}
