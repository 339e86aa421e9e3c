/* told.c - a word of a count and a moment that the store said.
 *
 *     63   62            41 40                 0
 *     +---+----------------+--------------------+
 *     | 0 |     units      |      moment        |     in ticks of 2^22 ns (4.2 ms), rounded up
 *     +---+----------------+--------------------+
 *
 * Units of a limit of 2^22 and more are kept without their low bits, as many as its capacity has
 * above 22.
 *
 * Nothing is decided by it: who is let through is the lease's business. So it is worth the least of
 * all that an arena holds, and where it has been evicted callers are told the time of the lease.
 *
 * Rejected: more bits in the lease (units, deadline and refusal leave none); asking the store for
 * it (that is what a lease saves). */
#include "algo/told.h"

#define TICK_BITS 22U
#define MOMENT_BITS 41U
#define MOMENT_MASK ((UINT64_C(1) << MOMENT_BITS) - 1)
#define UNIT_BITS 22U

static_assert((uint64_t)WR_TIME_MAX_NS >> TICK_BITS < MOMENT_MASK, "");
static_assert(UNIT_BITS + MOMENT_BITS < 64, "");

struct wr_limit wr_told_limit(void)
{
    return (struct wr_limit){.algo = WR_TOLD, .units = 1, .window_ns = WR_NS_PER_S};
}

/* Low bits of a count that are not kept. */
static unsigned dropped(int64_t capacity)
{
    unsigned bits = capacity <= 0 ? 0 : 64U - (unsigned)__builtin_clzll((uint64_t)capacity);

    return bits > UNIT_BITS ? bits - UNIT_BITS : 0;
}

uint64_t wr_told_word(int64_t capacity, int64_t units, int64_t moment_ns)
{
    uint64_t kept = (uint64_t)wr_max_i64(0, wr_min_i64(units, capacity)) >> dropped(capacity);
    uint64_t ticks =
        ((uint64_t)wr_moment_ns(moment_ns) + (UINT64_C(1) << TICK_BITS) - 1) >> TICK_BITS;

    return kept << MOMENT_BITS | ticks;
}

int64_t wr_told_units(int64_t capacity, uint64_t state)
{
    uint64_t kept = state >> MOMENT_BITS & ((UINT64_C(1) << UNIT_BITS) - 1);

    return wr_min_i64(capacity, (int64_t)(kept << dropped(capacity)));
}

int64_t wr_told_moment_ns(uint64_t state)
{
    return wr_moment_ns((int64_t)((state & MOMENT_MASK) << TICK_BITS));
}

/* ---- as a word of the arena: nothing can be charged to it -------------------------------- */

static void take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out)
{
    (void)limit;
    (void)now_ns;
    (void)cost;
    *out = (struct wr_take){.state = state, .told = state, .never = true};
}

static uint64_t force(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    (void)limit;
    (void)now_ns;
    (void)cost;
    return state;
}

static uint64_t refund(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost)
{
    (void)receipt;
    return force(limit, state, now_ns, cost);
}

static uint64_t used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    (void)limit;
    return wr_told_moment_ns(state) > wr_moment_ns(now_ns) ? 1 : 0;
}

static void times(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns)
{
    (void)limit;
    *next_ns = wr_max_i64(0, wr_told_moment_ns(state) - wr_moment_ns(now_ns));
    *reset_ns = *next_ns;
}

static uint64_t carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns)
{
    (void)limit;
    (void)now_ns;
    return old->algo == WR_TOLD ? state : 0;
}

const struct wr_word_algo wr_told = {
    .take = take,
    .force = force,
    .refund = refund,
    .used_q32 = used_q32,
    .times = times,
    .carry = carry,
};
