/* sliding_log.c - exactly N in any window of W.
 *
 * Idea. Keep the stamp of every unit admitted; those within (now - W, now] count, older ones are
 * gone.
 *
 *     pass iff live + c <= N;  c stamps of now are appended
 *
 * Bound. N over any interval of length W, exactly: a stamp W old does not count, one a tick younger
 * does. Stamps and now are rounded down to a tick that divides W and is at most W / 2^30, so this
 * holds on the grid of ticks, and for time stamps that lie on it (all in whole ms where W is at
 * most 12 days) without rounding.
 *
 * The list is the store's (store/log.h); what is here sees only how many stamps live, and says
 * which of them must age out. Memory is N stamps a key, hence WR_LOG_UNITS_MAX.
 *
 * Rejected: refused requests in the list, unless count_denied says so (who retries steadily would
 * never be let in); a stamp with a cost beside it (a weight of 32 bits doubles what is stored for
 * the common cost 1).
 *
 * Source: folklore; as a sorted set of Redis since 2012 (Peter Hayes, "Better rate limiting with
 * Redis sorted sets"). */
#include "algo/sliding_log.h"

#include "base/arith.h"
#include "base/units.h"

void wr_sliding_log_take(const struct wr_limit *limit, uint32_t live, int64_t cost,
                         struct wr_take *out, uint32_t *must_age)
{
    int64_t left = wr_max_i64(0, limit->units - (int64_t)live);

    *must_age = 0;
    *out = (struct wr_take){.remaining = left};
    if (cost <= left) {
        out->allowed = true;
        out->remaining = left - cost;
        return;
    }
    if (limit->count_denied && limit->algo == WR_SLIDING_LOG) {
        live += (uint32_t)wr_sliding_log_forced(limit, live, cost);
        out->remaining = wr_max_i64(0, limit->units - (int64_t)live);
    }
    if (cost > limit->units)
        out->never = true;
    else
        *must_age = (uint32_t)((int64_t)live + cost - limit->units);
}

int64_t wr_sliding_log_forced(const struct wr_limit *limit, uint32_t live, int64_t cost)
{
    return wr_min_i64(cost, wr_max_i64(0, 2 * limit->units - (int64_t)live));
}

int64_t wr_sliding_log_retry(const struct wr_limit *limit, int64_t stamp_ns, int64_t now_ns)
{
    /* A stamp ahead of now is noise, or the store would have moved it: two windows at most. */
    int64_t longest = limit->window_ns + wr_max_i64(limit->window_ns, WR_CLOCK_NOISE_NS);
    int64_t moment_ns = wr_moment_ns(now_ns);
    int64_t wait = wr_moment_ns(stamp_ns) - moment_ns + limit->window_ns;

    return wr_max_i64(1, wr_min_i64(wait, longest));
}

int64_t wr_sliding_log_left(const struct wr_limit *limit, int64_t stamp_ns, int64_t now_ns)
{
    int64_t wait = wr_sliding_log_retry(limit, stamp_ns, now_ns);
    int64_t more = wait - limit->window_ns;

    return more > 0 && more < limit->tick_ns ? limit->window_ns : wait;
}
