/* fixed_window.c - at most N in each window of W on the clock.
 *
 * Idea. Count what was charged in the window that now lies in; a new window starts from 0.
 *
 *     pass iff count + c <= N;  count' = count + c
 *
 * Bound. N in every window [i W, (i + 1) W). Over other intervals as short as one likes 2 N: N at
 * the end of one window and N at the start of the next. Who minds takes the sliding window.
 *
 * Clock back. A stored window that lies ahead of now's by one, or by the noise, counts on: a thread
 * that read the clock first and charges last must not clear the count of the new window. Further
 * ahead, the clock was set back: the count moves to now's window.
 *
 * Invariants.
 *   1. The word is {index, count} (window.h); count <= 2^count_bits - 1, above N only by force, and
 *      at that bound "this many or more".
 *   2. A window's count only grows but by refunds of what was counted in that same window.
 *
 * Windows of the calendar (a month) are told by their number instead of by division; nothing else
 * differs.
 *
 * Rejected: windows from a key's first request (another stamp to keep, and resets that nobody can
 * predict); clearing on any other index (see above: over-admission by a race).
 *
 * Source: folklore; the boundary is described in "How we built rate limiting capable of scaling to
 * millions of domains", Cloudflare 2017. */
#include "algo/fixed_window.h"
#include "algo/period.h"
#include "algo/window.h"

struct view {
    struct wr_window window;
    uint64_t count; /* in it */
};

/* As wr_window_at, for periods of different lengths. */
static struct wr_window period_at(const struct wr_limit *limit, uint64_t state, int64_t moment_ns)
{
    struct wr_period period = wr_limit_period_at(limit, moment_ns);
    struct wr_window window = {.age = wr_window_age(period.index, state, 64U - limit->count_bits)};

    if (window.age == -1)
        period = wr_limit_period(limit, period.index + 1);
    window.set_back = window.age < -1;
    window.age = wr_max_i64(0, window.age);
    window.index = period.index;
    window.start_ns = period.start_ns;
    window.end_ns = period.end_ns;
    return window;
}

static struct view view_at(const struct wr_limit *limit, uint64_t state, int64_t moment_ns)
{
    struct view v;

    v.window = limit->calendar != WR_CALENDAR_NONE
                   ? period_at(limit, state, moment_ns)
                   : wr_window_at(limit, state, 64U - limit->count_bits, moment_ns);
    v.count = v.window.age == 0 ? state & wr_count_max(limit) : 0;
    return v;
}

/* Counts that the field cannot hold are stored as the most it can. */
static uint64_t word(const struct wr_limit *limit, uint64_t index, uint64_t count)
{
    return count == 0 ? 0 : index << limit->count_bits | wr_min_u64(count, wr_count_max(limit));
}

static uint64_t unchanged(const struct wr_limit *limit, const struct view *v, uint64_t state)
{
    return v->window.set_back ? word(limit, v->window.index, v->count) : state;
}

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(limit, state, moment_ns);
    int64_t left = wr_max_i64(0, limit->units - (int64_t)v.count);

    *out = (struct wr_take){.state = unchanged(limit, &v, state), .remaining = left};
    out->told = out->state;
    if (cost <= left) {
        out->allowed = true;
        out->remaining = left - cost;
        if (cost > 0)
            out->state = out->told = word(limit, v.window.index, v.count + (uint64_t)cost);
        return;
    }
    if (limit->count_denied && limit->units > 0) { /* the window ends no later for that */
        out->told = word(limit, v.window.index, wr_add_sat_u64(v.count, (uint64_t)cost));
        out->remaining = wr_max_i64(0, left - cost);
    }
    out->never = cost > limit->units;
    if (!out->never)
        out->retry_after_ns = v.window.end_ns - moment_ns;
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    struct view v = view_at(limit, state, wr_moment_ns(now_ns));

    if (cost == 0 || limit->units == 0)
        return unchanged(limit, &v, state);
    return word(limit, v.window.index, wr_add_sat_u64(v.count, (uint64_t)cost));
}

/* What was counted in a window that is over has been recovered. Of a count at its bound nobody
 * knows how much is above it. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    uint64_t index = state >> limit->count_bits;
    uint64_t count = state & wr_count_max(limit);

    (void)now_ns;
    if (index != receipt >> limit->count_bits || count == wr_count_max(limit))
        return state;
    return word(limit, index, wr_monus_u64(count, (uint64_t)cost));
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    struct view v = view_at(limit, state, wr_moment_ns(now_ns));

    return wr_count_used_q32(v.count, (uint64_t)limit->units);
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(limit, state, moment_ns);
    bool used = v.count > 0 && limit->units > 0;

    *next_ns = used ? v.window.end_ns - moment_ns : 0;
    *reset_ns = *next_ns;
}

/* Windows of the same length are the same windows: their count goes on. Otherwise as many units are
 * used in now's window as were in the old one, at most all. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t here = view_at(limit, 0, moment_ns).window.index;
    uint64_t units = (uint64_t)limit->units;

    if (old->algo == WR_FIXED_WINDOW) {
        struct view v = view_at(old, state, moment_ns);
        if (wr_limit_same_windows(old, limit))
            return word(limit, v.window.index, v.count);
        return word(limit, here, wr_min_u64(v.count, units));
    }
    return word(limit, here, wr_count_of(wr_word_used_q32(old, state, moment_ns), units));
}

uint64_t wr_fixed_window_count(const struct wr_limit *limit, uint64_t state, int64_t now_ns,
                               int64_t *end_ns)
{
    struct view v = view_at(limit, state, wr_moment_ns(now_ns));

    *end_ns = v.window.end_ns;
    return v.count;
}

const struct wr_word_algo wr_fixed_window = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
