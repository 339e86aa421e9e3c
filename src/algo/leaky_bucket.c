/* leaky_bucket.c - a queue of Q that departs at N per W: smooth output, delays instead of refusals.
 *
 * Idea. Keep one number, the moment of the next free departure, in quanta (struct wr_scale). At
 * now,
 *
 *     delay = max(0, D - now)
 *     pass iff delay <= Q * W/N, at now + delay;  D' = max(D, now) + c * W/N
 *
 * A cost does not decide whether its own request passes, only how much later the next one departs.
 * So "remaining" is how many more of cost 1 would pass at this moment, at most Q + 1.
 *
 * Bound. Departures of cost 1 are W/N apart, exactly: D is a sum of costs from one rounded start,
 * and each departure is the first nanosecond at or after D. At most Q wait.
 *
 * Clock back. As in the token bucket the delay only grows. Where every cost is at most N, a delay
 * of more than Q * W/N + W and as much again cannot come from charging. A greater cost may well
 * lead further ahead; the word says so in its highest bit, FAR, and only then is so much believed.
 * Moved to the present, a queue is full.
 *
 * Invariants.
 *   1. A charge leaves D <= now + Q * W/N + spacing(c), spacing(c) = min(c * W/N, 366 days).
 *   2. That is below 2^63 (WR_TIME_MAX_NS + WR_REFILL_MAX_NS + WR_WINDOW_MAX_NS is, in ns), so bit
 * 63 is free for FAR.
 *   3. FAR is set exactly where a charge left D > now + Q * W/N + W.
 *
 * Rejected: FAR for all (a clock set back by an hour would lock every key out for that hour); no
 * costs above N (an export that counts as a hundred is what queues are for).
 *
 * Source: Turner, "New directions in communications", IEEE Communications 24 (10), 1986; the leaky
 * bucket as a queue. */
#include "algo/bucket.h"
#include "algo/limit.h"
#include "algo/scale.h"

#define FAR (UINT64_C(1) << 63)

static_assert(WR_TIME_MAX_NS < INT64_MAX - WR_REFILL_MAX_NS - WR_WINDOW_MAX_NS - WR_CLOCK_NOISE_NS,
              "invariant 2");

static uint64_t queue_quanta(const struct wr_limit *limit)
{
    return (uint64_t)limit->burst * limit->scale.unit;
}

static uint64_t window_quanta(const struct wr_limit *limit)
{
    return (uint64_t)limit->units * limit->scale.unit;
}

/* How far a charge of |cost| puts the next departure off. */
static uint64_t spacing_quanta(const struct wr_limit *limit, int64_t cost)
{
    uint64_t most;

    if (cost <= limit->units)
        return (uint64_t)cost * limit->scale.unit;
    most = wr_scale_quanta(&limit->scale, WR_WINDOW_MAX_NS);
    return wr_min_u64(most, wr_muldiv_floor((uint64_t)cost, limit->scale.unit, 1));
}

static uint64_t repaired_slow(const struct wr_limit *limit, uint64_t state, uint64_t now)
{
    const struct wr_scale *scale = &limit->scale;
    uint64_t noise = wr_scale_quanta(scale, WR_CLOCK_NOISE_NS);
    uint64_t most = queue_quanta(limit);

    if ((state & FAR) != 0)
        most += wr_scale_quanta(scale, WR_WINDOW_MAX_NS) + noise;
    else
        most += window_quanta(limit) + wr_max_u64(window_quanta(limit), noise);
    return (state & ~FAR) - now <= most ? state : now + queue_quanta(limit) + scale->unit;
}

/* The state as of |now|: not further ahead than charging can leave it and ordering noise. */
static uint64_t repaired(const struct wr_limit *limit, uint64_t state, uint64_t now)
{
    uint64_t ahead = wr_monus_u64(state & ~FAR, now);

    return ahead <= queue_quanta(limit) + window_quanta(limit) ? state
                                                               : repaired_slow(limit, state, now);
}

/* The word for next free departure |departure|. */
static uint64_t word(const struct wr_limit *limit, uint64_t departure, uint64_t now)
{
    bool far = wr_monus_u64(departure, now) > queue_quanta(limit) + window_quanta(limit);
    return far ? departure | FAR : departure;
}

static int64_t remaining(const struct wr_limit *limit, uint64_t ahead)
{
    const uint64_t unit = limit->scale.unit;
    return (int64_t)(wr_monus_u64(queue_quanta(limit) + unit, ahead) / unit);
}

/* One cost may lead as far as it leads by itself; many small ones (count_denied) no further than a
 * full queue and one window. */
static uint64_t forced(const struct wr_limit *limit, uint64_t old, uint64_t now, int64_t cost)
{
    uint64_t spacing = spacing_quanta(limit, cost);
    uint64_t most = now + queue_quanta(limit) + wr_max_u64(spacing, window_quanta(limit));
    uint64_t departure = wr_min_u64(wr_max_u64(old & ~FAR, now) + spacing, most);

    return departure <= (old & ~FAR) ? old : word(limit, departure, now);
}

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    const struct wr_scale *scale = &limit->scale;
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t now = wr_scale_quanta(scale, moment_ns);
    uint64_t departure, delay, spacing;

    *out = (struct wr_take){.state = state, .told = state, .allowed = cost == 0, .never = cost > 0};
    if (limit->units == 0)
        return;
    out->state = out->told = repaired(limit, state, now);
    out->never = false;
    departure = out->state & ~FAR;
    delay = wr_monus_u64(departure, now);
    out->allowed = delay <= queue_quanta(limit);
    if (!out->allowed) {
        if (limit->count_denied)
            out->told = forced(limit, out->state, now, cost);
        departure = out->told & ~FAR;
        out->retry_after_ns = wr_bucket_wait_ns(scale, departure - queue_quanta(limit), moment_ns);
        return;
    }
    spacing = spacing_quanta(limit, cost);
    out->remaining = remaining(limit, delay + spacing);
    if (delay > 0)
        out->delay_ns = wr_bucket_wait_ns(scale, departure, moment_ns);
    if (cost > 0)
        out->state = out->told = word(limit, now + delay + spacing, now);
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));

    if (limit->units == 0 || cost == 0)
        return state;
    return forced(limit, repaired(limit, state, now), now, cost);
}

/* Only what departs behind everybody can be taken back: where another departure has been promised
 * since, the gap stays. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));

    if (limit->units == 0 || state != receipt || repaired(limit, state, now) != state)
        return state;
    return word(limit, wr_monus_u64(state & ~FAR, spacing_quanta(limit, cost)), now);
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));

    if (limit->units == 0)
        return 0;
    return wr_bucket_used_q32(wr_monus_u64(state & ~FAR, now),
                              queue_quanta(limit) + limit->scale.unit);
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t full = repaired(limit, state, wr_scale_quanta(&limit->scale, moment_ns)) & ~FAR;
    uint64_t capacity = limit->units == 0 ? 0 : queue_quanta(limit) + limit->scale.unit;

    wr_bucket_times(&limit->scale, full, capacity, moment_ns, next_ns, reset_ns);
}

/* At the same rate the next departure stays where it is: others have been promised up to there. At
 * another one as many units wait as before, at most a full queue. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    const struct wr_scale *scale = &limit->scale;
    uint64_t now = wr_scale_quanta(scale, moment_ns);
    uint64_t full = queue_quanta(limit) + scale->unit;
    uint64_t debt;

    if (limit->units == 0 || old->units == 0)
        return 0;
    if (old->algo == WR_LEAKY_BUCKET) {
        uint64_t old_now = wr_scale_quanta(&old->scale, moment_ns);
        debt = wr_monus_u64(repaired(old, state, old_now) & ~FAR, old_now);
        if (scale->num == old->scale.num && scale->den == old->scale.den &&
            scale->unit == old->scale.unit)
            return debt == 0 ? 0 : word(limit, now + debt, now);
        debt = wr_min_u64(full, wr_bucket_rescale(scale, &old->scale, debt));
    } else {
        debt = wr_bucket_debt_of(wr_word_used_q32(old, state, moment_ns), full);
    }
    return debt == 0 ? 0 : word(limit, now + debt, now);
}

const struct wr_word_algo wr_leaky_bucket = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
