/* quota.h - the exact count of one customer under one quota: what it means, and what taking does.
 *
 * A quota is a fixed window of civil time (civil.h) whose count is billed on: it is never forgotten
 * within its window, what a plan includes may be exceeded at a price, and all of it can be given
 * back to the window that it was taken from. Pure functions, as limit.h has them; the state is two
 * words that change together. */
#ifndef WR_ALGO_QUOTA_H
#define WR_ALGO_QUOTA_H

#include "algo/civil.h"
#include "algo/limit.h"

#define WR_QUOTA_UNITS_BITS 44
#define WR_QUOTA_UNITS_MAX ((INT64_C(1) << 40) - 1) /* that a plan may include */
#define WR_QUOTA_COUNT_MAX ((UINT64_C(1) << WR_QUOTA_UNITS_BITS) - 1)

/* What a plan includes, in the windows of |civil|. */
struct wr_quota_rule {
    struct wr_civil civil;
    int64_t limit; /* 0..WR_QUOTA_UNITS_MAX: included; what remaining speaks of */
    int64_t most;  /* >= limit: admitted in all: grace, a ceiling, or INT64_MAX */
    bool overage;  /* what is beyond limit is metered as overage */
};

/* All zero: nothing used. */
struct wr_quota_state {
    uint64_t used; /* day of the window, modulo 2^20, << 44 | units */
    uint64_t over; /* units among them that were beyond the limit when they were taken */
};

struct wr_quota_take {
    struct wr_take take;         /* its state is not used */
    struct wr_quota_state state; /* to be stored where it differs */
    int32_t day;                 /* of the window that was counted in */
    int64_t over_units;          /* of the cost: beyond the limit */
    bool rolled;                 /* the given state was of an earlier window, now over: keep it */
};

/* Take |cost| at |now_ns|. As struct wr_word_algo has it: passes iff used + cost <= most; cost 0 is
 * a look. */
void wr_quota_take(const struct wr_quota_rule *rule, struct wr_quota_state state, int64_t now_ns,
                   int64_t cost, struct wr_quota_take *out);

/* The same in |window|, which |moment_ns| lies in and |state| is of: for those who keep windows
 * apart. */
void wr_quota_take_in(const struct wr_quota_rule *rule, const struct wr_civil_window *window,
                      struct wr_quota_state state, int64_t moment_ns, int64_t cost,
                      struct wr_quota_take *out);

/* wr_quota_take, whether it fits or not. take.allowed is true. */
void wr_quota_force(const struct wr_quota_rule *rule, struct wr_quota_state state, int64_t now_ns,
                    int64_t cost, struct wr_quota_take *out);

/* Give back |units|, |over_units| of them overage, that were taken under |rule| in the window that
 * |state| is of. What others took beyond the limit moves within it as far as there is room again:
 * while a limit stays what it is, over is what of the units left lies beyond it, whatever was given
 * back in whatever order. Overage of earlier in the window, under a plan with another limit, stays.
 */
struct wr_quota_state wr_quota_refund(const struct wr_quota_rule *rule, struct wr_quota_state state,
                                      int64_t units, int64_t over_units);

/* Of |cost| units that were counted behind |before| others, how many lie beyond |limit|. */
static inline int64_t wr_quota_over(int64_t limit, int64_t before, int64_t cost)
{
    return wr_max_i64(0, wr_min_i64(cost, before + cost - limit));
}

/* What |state| says, and of which window; |day| is the nearest to |near_day| that it can mean. */
int64_t wr_quota_units(struct wr_quota_state state);
int32_t wr_quota_day(struct wr_quota_state state, int32_t near_day);

/* The state that |units|, |over_units| of them, of the window of |day| make; for reading them back
 * from where they are kept. */
struct wr_quota_state wr_quota_state(int32_t day, int64_t units, int64_t over_units);

#endif
