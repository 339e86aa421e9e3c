/* sliding_window.c - at most about N in any window of W, from two counts.
 *
 * Idea. Count per window on the clock, as the fixed window does, and remember the count of the one
 * before. A window of W that ends at now covers all of the current one and a part of the previous
 * one; take what was charged there as spread evenly. With e = now's time into its window,
 *
 *     est = current + previous * (W - e) / W
 *     pass iff est + c <= N;  current' = current + c
 *
 * Compared cross-multiplied in 128 bits: previous * (W - e) <= (N - c - current) * W. Nothing
 * rounds.
 *
 * Bound. Over any interval of length L: admitted <= N + N * L / W, no worse than a token bucket of
 * burst N; so over one W less than 2 N, and that only where the previous window's all came at its
 * end. Proof in docs/algorithms.md. Where requests come evenly it is N, less one.
 *
 * Retry. est falls by previous / W a ns; at the boundary current becomes previous. With
 * r = N - c - current: r >= 0 passes in this window, when W - e' <= r W / previous, at the boundary
 * at the latest; r < 0 passes in the next one, when W - e'' <= (N - c) W / current.
 *
 * Clock back: as in the fixed window; in a window that lies ahead time stands at its start.
 *
 * Invariants.
 *   1. The word is {index, previous, current} (window.h); counts are at most 2^count_bits - 1,
 * above N only by force, and at that bound "this many or more".
 *   2. A refusal changes nothing: the word rolls on to a new window with a charge only.
 *   3. counts < 2^25, W < 2^55: products fit 81 bits.
 *
 * Rejected: the estimate as a rounded number (drifts between the decision and the remaining count);
 * more than two sub-windows (no room in a word, and the bound is that of a bucket already).
 *
 * Source: "How we built rate limiting capable of scaling to millions of domains", Cloudflare 2017;
 * the bound is ours. */
#include "algo/limit.h"
#include "algo/window.h"

struct view {
    struct wr_window window;
    int64_t into_ns;   /* e, 0..W-1 */
    uint64_t previous; /* count of the window before */
    uint64_t current;
};

static unsigned index_bits(const struct wr_limit *limit)
{
    return 64U - 2U * limit->count_bits;
}

static uint64_t index_of(const struct wr_limit *limit, uint64_t state)
{
    return state >> (2U * limit->count_bits);
}

static struct view view_at(const struct wr_limit *limit, uint64_t state, int64_t moment_ns)
{
    uint64_t current = state & wr_count_max(limit);
    uint64_t previous = state >> limit->count_bits & wr_count_max(limit);
    struct view v = {.window = wr_window_at(limit, state, index_bits(limit), moment_ns)};

    v.into_ns = wr_max_i64(0, moment_ns - v.window.start_ns);
    if (v.window.age == 0) {
        v.previous = previous;
        v.current = current;
    } else if (v.window.age == 1) {
        v.previous = current;
    }
    return v;
}

/* Counts that a field cannot hold are stored as the most it can. */
static uint64_t word(const struct wr_limit *limit, const struct view *v)
{
    uint64_t previous = wr_min_u64(v->previous, wr_count_max(limit));
    uint64_t current = wr_min_u64(v->current, wr_count_max(limit));

    if (previous == 0 && current == 0)
        return 0;
    return (v->window.index << limit->count_bits | previous) << limit->count_bits | current;
}

static uint64_t unchanged(const struct wr_limit *limit, const struct view *v, uint64_t state)
{
    return v->window.set_back ? word(limit, v) : state;
}

/* What of the previous window still counts, rounded up. */
static uint64_t faded(const struct wr_limit *limit, const struct view *v)
{
    if (v->previous == 0)
        return 0;
    return wr_muldiv_ceil(v->previous, (uint64_t)(limit->window_ns - v->into_ns),
                          (uint64_t)limit->window_ns);
}

/* floor(N - est), not below 0. */
static int64_t left(const struct wr_limit *limit, const struct view *v)
{
    return (int64_t)wr_monus_u64((uint64_t)limit->units, v->current + faded(limit, v));
}

/* From |moment_ns| until |cost| passes, 0 <= cost <= N, when it does not now. */
static int64_t wait_ns(const struct wr_limit *limit, const struct view *v, int64_t moment_ns,
                       int64_t cost)
{
    uint64_t window = (uint64_t)limit->window_ns;
    uint64_t room = (uint64_t)(limit->units - cost);
    uint64_t passes; /* ns from the start of v's window */

    if (v->current <= room)
        passes = window - wr_muldiv_floor(room - v->current, window, v->previous);
    else
        passes = window + (window - wr_muldiv_floor(room, window, v->current));
    return v->window.start_ns + (int64_t)passes - moment_ns;
}

/* As word() stores it. */
static void force_view(const struct wr_limit *limit, struct view *v, int64_t cost)
{
    v->current = wr_min_u64(wr_add_sat_u64(v->current, (uint64_t)cost), wr_count_max(limit));
}

/* left() is a whole number, so cost <= left iff est + cost <= N, without a rounding between. */
static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(limit, state, moment_ns);
    int64_t available = left(limit, &v);

    *out = (struct wr_take){.state = unchanged(limit, &v, state), .remaining = available};
    out->told = out->state;
    if (cost <= available) {
        out->allowed = true;
        out->remaining = available - cost;
        if (cost > 0) {
            v.current += (uint64_t)cost;
            out->state = out->told = word(limit, &v);
        }
        return;
    }
    if (limit->count_denied && limit->units > 0) {
        force_view(limit, &v, cost);
        out->told = word(limit, &v);
        out->remaining = left(limit, &v);
    }
    out->never = cost > limit->units;
    if (!out->never)
        out->retry_after_ns = wait_ns(limit, &v, moment_ns, cost);
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    struct view v = view_at(limit, state, wr_moment_ns(now_ns));

    if (cost == 0 || limit->units == 0)
        return unchanged(limit, &v, state);
    force_view(limit, &v, cost);
    return word(limit, &v);
}

/* The charge is counted in the receipt's window, which by now is the word's current or previous
 * one, or gone. Of a count at its bound nobody knows how much is above it. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    uint64_t most = wr_count_max(limit);
    uint64_t index = index_of(limit, state);
    uint64_t taken = index_of(limit, receipt);
    struct view v = {.window.index = index,
                     .previous = state >> limit->count_bits & most,
                     .current = state & most};

    (void)now_ns;
    if (index == taken && v.current < most)
        v.current = wr_monus_u64(v.current, (uint64_t)cost);
    else if (index == ((taken + 1) & (UINT64_MAX >> (2U * limit->count_bits))) && v.previous < most)
        v.previous = wr_monus_u64(v.previous, (uint64_t)cost);
    else
        return state;
    return word(limit, &v);
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    struct view v = view_at(limit, state, wr_moment_ns(now_ns));
    uint64_t window = (uint64_t)limit->window_ns;
    wr_u128 used =
        (wr_u128)v.current * window + (wr_u128)v.previous * (window - (uint64_t)v.into_ns);
    wr_u128 all = (wr_u128)(uint64_t)limit->units * window;

    if (used == 0)
        return 0;
    return used >= all ? UINT64_C(1) << 32 : (uint64_t)(((used << 32) + (all - 1)) / all);
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(limit, state, moment_ns);
    int64_t available = left(limit, &v);

    *next_ns = 0;
    *reset_ns = 0;
    if (available == limit->units)
        return;
    *next_ns = wait_ns(limit, &v, moment_ns, available + 1);
    *reset_ns = wait_ns(limit, &v, moment_ns, limit->units);
}

/* Windows of the same length are the same windows: their counts go on. Otherwise as many units are
 * used in now's window as the estimate was, rounded up, at most all. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t units = (uint64_t)limit->units;
    struct view here = {.window.index = (uint64_t)moment_ns / (uint64_t)limit->window_ns};

    if (old->algo == WR_SLIDING_WINDOW) {
        struct view v = view_at(old, state, moment_ns);
        if (old->window_ns == limit->window_ns)
            return word(limit, &v);
        here.current = wr_min_u64(units, v.current + faded(old, &v));
    } else {
        here.current = wr_count_of(wr_word_used_q32(old, state, moment_ns), units);
    }
    return word(limit, &here);
}

const struct wr_word_algo wr_sliding_window = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
