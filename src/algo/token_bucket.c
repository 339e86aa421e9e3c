/* token_bucket.c - a bucket of B tokens that refills N per W: bursts pass, the average holds.
 *
 * Idea. Keep one number, the moment at which the bucket will be full again (GCRA calls it the
 * theoretical arrival time, TAT), measured in quanta of units (struct wr_scale). Then, at now,
 *
 *     debt   = max(0, TAT - now)                quanta missing from a full bucket
 *     tokens = B - debt
 *     pass iff tokens >= c;  TAT' = max(TAT, now) + c
 *
 * Bound. Over any interval t: admitted <= B + N/W * t. Costs add exactly to TAT; only now is
 * rounded, down, to a quantum (1 to 2 ns), and the rounding does not accumulate: TAT is a sum of
 * costs from one rounded start.
 *
 * Clock back. now < what it was makes debt larger: time seems to stand still or a little worse,
 * never to the caller's gain. Debt above B plus the noise allowance cannot come from charging: TAT
 * is moved to now + B, an empty bucket.
 *
 * Rejected: tokens and a stamp in two halves of the word (32 bits hold neither 1 000 000/s nor a
 * month); tokens as floating point (drifts; 0.1 s of refill is not 0.1).
 *
 * Source: ITU-T I.371 (2004) annex A, GCRA in its virtual scheduling form; equivalence with the
 * leaky bucket as a meter shown there. */
#include "algo/limit.h"
#include "algo/scale.h"

/* Debt that charging alone can never leave: the state comes from before the clock was set back. */
static uint64_t debt_max(const struct wr_limit *limit, uint64_t capacity)
{
    uint64_t noise = wr_max_u64(capacity, wr_scale_quanta(&limit->scale, WR_CLOCK_NOISE_NS));
    return wr_add_sat_u64(capacity, noise);
}

/* The state as of now: never more in debt than a repaired clock allows. */
static uint64_t repaired(const struct wr_limit *limit, uint64_t state, uint64_t now,
                         uint64_t capacity)
{
    return wr_monus_u64(state, now) > debt_max(limit, capacity) ? now + capacity : state;
}

static uint64_t capacity_quanta(const struct wr_limit *limit)
{
    return (uint64_t)limit->burst * limit->scale.unit;
}

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    const struct wr_scale *scale = &limit->scale;
    uint64_t now = wr_scale_quanta(scale, now_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t tat = repaired(limit, state, now, capacity);
    uint64_t tokens = wr_monus_u64(capacity, wr_monus_u64(tat, now));
    uint64_t wanted;

    *out = (struct wr_take){.state = tat};
    if (cost > limit->burst || limit->units == 0) {
        out->allowed = cost == 0;
        out->never = cost > 0;
        out->remaining = (int64_t)(tokens / scale->unit);
        return;
    }
    wanted = (uint64_t)cost * scale->unit;
    if (tokens >= wanted) {
        out->allowed = true;
        out->remaining = (int64_t)((tokens - wanted) / scale->unit);
        if (cost > 0)
            out->state = wr_max_u64(tat, now) + wanted;
        return;
    }
    out->remaining = (int64_t)(tokens / scale->unit);
    out->retry_after_ns =
        wr_max_i64(1, wr_scale_ns(scale, tat - (capacity - wanted)) - wr_max_i64(0, now_ns));
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, now_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t tat = wr_max_u64(repaired(limit, state, now, capacity), now);
    uint64_t wanted = (uint64_t)wr_min_i64(cost, limit->burst) * limit->scale.unit;

    /* At most one more refill of debt: the caller waits for two windows, not for ever. */
    return wr_min_u64(wr_add_sat_u64(tat, wanted),
                      wr_add_sat_u64(now, wr_add_sat_u64(capacity, capacity)));
}

/* d = how much later the bucket is full than it would be without the charge. It starts as |cost|
 * and shrinks only when the bucket without the charge would have stood full, which cannot have left
 * less than receipt - now. So min(cost, receipt - now) is never too much, and exactly cost as long
 * as the bucket would have been in debt all along. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, now_ns);
    uint64_t wanted = (uint64_t)wr_min_i64(cost, limit->burst) * limit->scale.unit;
    uint64_t back = wr_min_u64(wanted, wr_monus_u64(receipt, now));

    return wr_monus_u64(state, back);
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    uint64_t debt = wr_monus_u64(state, wr_scale_quanta(&limit->scale, now_ns));
    uint64_t capacity = capacity_quanta(limit);

    if (debt == 0)
        return 0;
    return debt >= capacity ? UINT64_C(1) << 32 : wr_muldiv_ceil(debt, UINT64_C(1) << 32, capacity);
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    const struct wr_scale *scale = &limit->scale;
    uint64_t debt = wr_monus_u64(state, wr_scale_quanta(scale, now_ns));
    uint64_t whole; /* quanta of debt after the next unit has come */

    *next_ns = 0;
    *reset_ns = 0;
    if (debt == 0 || limit->units == 0)
        return;
    whole = (debt - 1) / scale->unit * scale->unit;
    *next_ns = wr_max_i64(1, wr_scale_ns(scale, state - whole) - wr_max_i64(0, now_ns));
    *reset_ns = wr_max_i64(1, wr_scale_ns(scale, state) - wr_max_i64(0, now_ns));
}

/* What was used stays used, in units: a bucket that has 3 tokens fewer than full has 3 fewer than
 * full under the new capacity, or none. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    uint64_t now = wr_scale_quanta(&limit->scale, now_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t debt;

    if (old->algo == WR_TOKEN_BUCKET) {
        uint64_t old_debt = wr_monus_u64(state, wr_scale_quanta(&old->scale, now_ns));
        debt = wr_muldiv_ceil(old_debt, limit->scale.unit, old->scale.unit);
    } else {
        uint64_t used = wr_word_algo((enum wr_algo)old->algo)->used_q32(old, state, now_ns);
        debt = wr_muldiv_ceil(used, capacity, UINT64_C(1) << 32);
    }
    return debt == 0 ? 0 : now + wr_min_u64(debt, capacity);
}

const struct wr_word_algo wr_token_bucket = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
