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
 * rounded, down, to a quantum (below 2 ns), and the rounding does not accumulate: TAT is a sum of
 * costs from one rounded start.
 *
 * Invariants.
 *   1. A charge leaves debt <= B; force leaves debt <= 2 B (two refills of waiting).
 *   2. now + 2 B + noise fits 64 bits: WR_TIME_MAX_NS + 2 WR_REFILL_MAX_NS + WR_CLOCK_NOISE_NS does
 * in ns, and quanta are no more than ns.
 *   3. Where nothing is set back, TAT never decreases but by refunds.
 *
 * Clock back. now < what it was makes the debt larger: time seems to stand still, never to the
 * caller's gain. A debt above 2 B and the noise cannot come from charging: TAT is moved to now + B,
 * an empty bucket.
 *
 * Rejected: tokens and a stamp in two halves of the word (32 bits hold neither 1 000 000/s nor a
 * month); tokens as floating point (drifts; 0.1 s of refill is not 0.1).
 *
 * Source: ITU-T I.371 (2004) annex A, GCRA in its virtual scheduling form; equivalence with the
 * leaky bucket as a meter shown there. */
#include "algo/bucket.h"
#include "algo/limit.h"
#include "algo/scale.h"

static_assert(2 * (uint64_t)WR_REFILL_MAX_NS + WR_CLOCK_NOISE_NS <= UINT64_MAX - WR_TIME_MAX_NS,
              "invariant 2");

static uint64_t capacity_quanta(const struct wr_limit *limit)
{
    return (uint64_t)limit->burst * limit->scale.unit;
}

/* The state as of |now|: not more in debt than charging can leave it and ordering noise. */
static uint64_t repaired(const struct wr_limit *limit, uint64_t tat, uint64_t now,
                         uint64_t capacity)
{
    uint64_t debt = wr_monus_u64(tat, now);

    if (debt <= 2 * capacity ||
        debt <= 2 * capacity + wr_scale_quanta(&limit->scale, WR_CLOCK_NOISE_NS))
        return tat;
    return now + capacity;
}

/* Debt is what later charges wait for; two refills of it are as much as the word may say, or a key
 * that is charged for refusals would never be let in again. */
static uint64_t forced(const struct wr_limit *limit, uint64_t tat, uint64_t now, int64_t cost)
{
    uint64_t wanted = (uint64_t)wr_min_i64(cost, 2 * limit->burst) * limit->scale.unit;

    if (wanted == 0)
        return tat;
    return wr_max_u64(tat,
                      wr_min_u64(wr_max_u64(tat, now) + wanted, now + 2 * capacity_quanta(limit)));
}

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    const struct wr_scale *scale = &limit->scale;
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t now = wr_scale_quanta(scale, moment_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t tat = repaired(limit, state, now, capacity);
    uint64_t tokens = wr_monus_u64(capacity, wr_monus_u64(tat, now));
    bool never = cost > limit->burst;
    uint64_t wanted = never ? 0 : (uint64_t)cost * scale->unit;

    *out = (struct wr_take){.state = tat, .told = tat};
    if (!never && tokens >= wanted) {
        out->allowed = true;
        out->remaining = (int64_t)((tokens - wanted) / scale->unit);
        if (cost > 0)
            out->state = out->told = wr_max_u64(tat, now) + wanted;
        return;
    }
    if (limit->count_denied)
        out->told = forced(limit, tat, now, cost);
    out->remaining = (int64_t)(wr_monus_u64(capacity, wr_monus_u64(out->told, now)) / scale->unit);
    out->never = never;
    if (!never)
        out->retry_after_ns = wr_bucket_wait_ns(scale, out->told - (capacity - wanted), moment_ns);
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));

    return forced(limit, repaired(limit, state, now, capacity_quanta(limit)), now, cost);
}

/* d = how much later the bucket is full than it would be without the charge. It starts as |cost|
 * and shrinks only when the bucket without the charge would have stood full, which cannot have left
 * less than receipt - now. So min(cost, receipt - now) is never too much, and exactly cost as long
 * as the bucket would have been in debt all along. A receipt further ahead than charging can leave
 * it is from before the clock was set back; what it stands for is gone. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));
    uint64_t wanted = (uint64_t)wr_min_i64(cost, limit->burst) * limit->scale.unit;

    if (repaired(limit, receipt, now, capacity_quanta(limit)) != receipt)
        return state;
    return wr_monus_u64(state, wr_min_u64(wanted, wr_monus_u64(receipt, now)));
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    uint64_t now = wr_scale_quanta(&limit->scale, wr_moment_ns(now_ns));

    return wr_bucket_used_q32(wr_monus_u64(state, now), capacity_quanta(limit));
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t tat = repaired(limit, state, wr_scale_quanta(&limit->scale, moment_ns), capacity);

    wr_bucket_times(&limit->scale, tat, capacity, moment_ns, next_ns, reset_ns);
}

/* What was used stays used, in units: a bucket that has 3 tokens fewer than full has 3 fewer than
 * full under the new capacity, or none. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    uint64_t now = wr_scale_quanta(&limit->scale, moment_ns);
    uint64_t capacity = capacity_quanta(limit);
    uint64_t debt;

    if (old->algo == WR_TOKEN_BUCKET) {
        uint64_t old_now = wr_scale_quanta(&old->scale, moment_ns);
        uint64_t tat = repaired(old, state, old_now, capacity_quanta(old));
        debt = wr_bucket_rescale(&limit->scale, &old->scale, wr_monus_u64(tat, old_now));
    } else {
        debt = wr_bucket_debt_of(wr_word_used_q32(old, state, moment_ns), capacity);
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
