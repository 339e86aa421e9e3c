/* lease.c - a word of units that were granted elsewhere and are void after a moment.
 *
 *     63   62            41 40                 0
 *     +---+----------------+--------------------+
 *     | r |  units or cost |     deadline       |     in ticks of 2^22 ns (4.2 ms), rounded down
 *     +---+----------------+--------------------+
 *
 * r = 0: that many units may be spent before the deadline. r = 1: the store refused that cost, and
 * until the deadline whoever costs as much need not ask. 41 bits of ticks last until 2262.
 *
 * Bound. What is spent from a word is at most what was granted to it, each unit before the deadline
 * it came with: admitted <= granted. Rounding, merging and loss (an evicted word) only strand
 * units.
 *
 * Invariants.
 *   1. Units never get a later deadline than the one they were granted with.
 *   2. A deadline further ahead than any lease lasts, and ordering noise, is damage, or the clock
 * was set back: the word is as empty.
 *   3. A word whose units are all spent keeps its deadline, so that they can be given back.
 *
 *   4. What is over may still be taken out, by its deadline: not to be spent, but to be given back.
 *   5. A refusal never replaces units: who is refused would have taken what he did not get. While
 * there are units, a cost above them is asked for each time.
 *
 * Merging. Two threads ask for the same key at the same moment and both are granted: dropping one
 * grant would strand half. So units are added up under the earlier of the two deadlines, which are
 * then nearly the same. The rest of an old lease, which was too small for the cost that a new one
 * comes with, is not added: whoever has the store gives it back first.
 *
 * Rejected: a list of leases (a word can be swapped at once); milliseconds (a division, where a
 * shift does); refusals in a word of their own (a second look for each decision). */
#include "algo/lease.h"

#define TICK_BITS 22U
#define DEADLINE_BITS 41U
#define DEADLINE_MASK ((UINT64_C(1) << DEADLINE_BITS) - 1)
#define REFUSED (UINT64_C(1) << 63)
#define HALF_Q32 (UINT64_C(1) << 31)

static_assert((uint64_t)(WR_TIME_MAX_NS + WR_LEASE_TTL_MAX_NS) >> TICK_BITS <= DEADLINE_MASK, "");
static_assert(1 + 22 + DEADLINE_BITS == 64 && WR_LEASE_UNITS_MAX == (INT64_C(1) << 22) - 1, "");

struct view {
    bool refused;
    int64_t amount; /* units or cost; 0: the word is void */
    int64_t deadline_ns;
};

static struct view view_at(uint64_t state, int64_t moment_ns)
{
    struct view v = {(state & REFUSED) != 0, (int64_t)((state & ~REFUSED) >> DEADLINE_BITS),
                     (int64_t)((state & DEADLINE_MASK) << TICK_BITS)};

    if (v.deadline_ns <= moment_ns ||
        v.deadline_ns - moment_ns > WR_LEASE_TTL_MAX_NS + WR_CLOCK_NOISE_NS) {
        v.refused = false;
        v.amount = 0;
    }
    return v;
}

static uint64_t word(bool refused, int64_t amount, int64_t deadline_ns)
{
    return (refused ? REFUSED : 0) |
           (uint64_t)wr_min_i64(amount, WR_LEASE_UNITS_MAX) << DEADLINE_BITS |
           (uint64_t)deadline_ns >> TICK_BITS;
}

struct wr_limit wr_lease_limit(void)
{
    return (struct wr_limit){.algo = WR_LEASE, .units = 1, .window_ns = WR_LEASE_TTL_MAX_NS};
}

/* An eighth of a window; of a token bucket, the time in which an eighth of it comes back. So what
 * the store keeps back is at most an eighth of the bucket, and a unit. */
int64_t wr_lease_ttl_ns(const struct wr_limit *limit)
{
    uint64_t eighth_ns;

    if (wr_limit_capacity(limit) < WR_LEASE_CAPACITY_MIN || limit->units == 0)
        return 0;
    if (limit->algo == WR_TOKEN_BUCKET)
        eighth_ns = wr_muldiv_floor((uint64_t)limit->burst, (uint64_t)limit->window_ns,
                                    8 * (uint64_t)limit->units);
    else if (limit->algo == WR_FIXED_WINDOW || limit->algo == WR_SLIDING_WINDOW)
        eighth_ns = (uint64_t)limit->window_ns / 8;
    else
        return 0;
    if (eighth_ns < WR_LEASE_TTL_MIN_NS)
        return 0;
    return (int64_t)wr_min_u64(eighth_ns, WR_LEASE_TTL_MAX_NS);
}

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(state, moment_ns);

    (void)limit;
    *out = (struct wr_take){.state = state, .told = state, .never = true};
    if (v.amount == 0)
        return;
    if (v.refused) {
        out->never = cost < v.amount;
        out->retry_after_ns = out->never ? 0 : v.deadline_ns - moment_ns;
    } else if (cost <= v.amount) {
        out->allowed = true;
        out->never = false;
        out->remaining = v.amount - cost;
        if (cost > 0)
            out->state = word(false, v.amount - cost, v.deadline_ns);
    }
}

/* As much as there is; what the lease lacks was never granted, so is nobody's loss here. */
static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    struct view v = view_at(state, wr_moment_ns(now_ns));

    (void)limit;
    if (v.refused || v.amount == 0)
        return state;
    return word(false, v.amount - wr_min_i64(cost, v.amount), v.deadline_ns);
}

/* |state| with |units| more until |deadline_ns|. */
static uint64_t add(uint64_t state, int64_t moment_ns, int64_t units, int64_t deadline_ns)
{
    struct view v = view_at(state, moment_ns);

    if (v.refused || v.amount == 0)
        return word(false, units, deadline_ns);
    return word(false, v.amount + units, wr_min_i64(v.deadline_ns, deadline_ns));
}

/* Units go back with the deadline that they had. */
static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    int64_t deadline_ns = (int64_t)((receipt & DEADLINE_MASK) << TICK_BITS);
    struct view v = view_at(state, moment_ns);

    (void)limit;
    if (cost == 0 || deadline_ns <= moment_ns ||
        deadline_ns - moment_ns > WR_LEASE_TTL_MAX_NS + WR_CLOCK_NOISE_NS)
        return state;
    if (!v.refused && v.amount > 0 && v.deadline_ns > deadline_ns)
        return state; /* a newer lease is not to be shortened for these */
    return add(state, moment_ns, cost, deadline_ns);
}

uint64_t wr_lease_grant(uint64_t state, int64_t now_ns, int64_t units, int64_t deadline_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);

    /* In whole ticks: what is over by then must not end what lies here. */
    deadline_ns = wr_min_i64(deadline_ns, moment_ns + WR_LEASE_TTL_MAX_NS) >> TICK_BITS
                                                                                  << TICK_BITS;
    if (units <= 0 || deadline_ns <= moment_ns)
        return state;
    return add(state, moment_ns, units, deadline_ns);
}

uint64_t wr_lease_refuse(uint64_t state, int64_t now_ns, int64_t cost, int64_t deadline_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(state, moment_ns);

    deadline_ns = wr_min_i64(deadline_ns, moment_ns + WR_LEASE_TTL_MAX_NS);
    if (cost <= 0 || cost > WR_LEASE_UNITS_MAX || deadline_ns <= moment_ns)
        return state;
    if (!v.refused && v.amount > 0)
        return state;
    return word(true, cost, deadline_ns);
}

int64_t wr_lease_units(uint64_t state, int64_t now_ns)
{
    struct view v = view_at(state, wr_moment_ns(now_ns));

    return v.refused ? 0 : v.amount;
}

int64_t wr_lease_unspent(uint64_t state, int64_t since_ns, int64_t end_ns, uint64_t *rest)
{
    int64_t deadline_ns = (int64_t)((state & DEADLINE_MASK) << TICK_BITS);

    *rest = state;
    if ((state & REFUSED) != 0 || deadline_ns <= since_ns || deadline_ns > end_ns)
        return 0;
    *rest = state & DEADLINE_MASK;
    return (int64_t)(state >> DEADLINE_BITS);
}

/* Half of everything: a lease goes before a key at its limit, and after one that hardly used any.
 */
static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    (void)limit;
    return view_at(state, wr_moment_ns(now_ns)).amount > 0 ? HALF_Q32 : 0;
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(state, moment_ns);

    (void)limit;
    *next_ns = v.amount > 0 ? v.deadline_ns - moment_ns : 0;
    *reset_ns = *next_ns;
}

/* No count of another kind is a grant. */
static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    (void)limit;
    (void)now_ns;
    return old->algo == WR_LEASE ? state : 0;
}

const struct wr_word_algo wr_lease = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
