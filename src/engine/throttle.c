/* throttle.c - redis-cell's arithmetic on a slot of the arena.
 *
 *     EI = period / count       the time one unit takes, ns, rounded down
 *     DVT = EI * limit          how far ahead of now the arrival time may be
 *     new = max(now, tat) + EI * quantity
 *     limited iff now < new - DVT; otherwise tat becomes new
 *
 * Every slot has a class that any process can judge it by when space runs out. A class for each set
 * of parameters would let callers fill the table of classes, so the class says only what judging
 * needs: how long the limit takes to recover (DVT), rounded up to one of a few hundred lengths. The
 * decision itself takes nothing from the class. So the number of classes is bounded by
 * construction, the parameters of a call are not.
 *
 * Invariants:
 *   1. A key's arrival time is at most its class's length ahead of the moment of the call that left
 *      it. One further ahead (and noise, and more than an hour) is damage, or the clock was set
 *      back: it is taken as that length, so no key waits for longer.
 *   2. No sum overflows: what is ahead of now, and a length, are at most WR_REFILL_MAX_NS each.
 *
 * Rejected: redis-cell's remaining, a quotient of whole microseconds in floating point, which says
 * 15 of 10 when a unit takes 1.5 us; here it is the exact quotient of ns. */
#include "engine/throttle.h"

#include <string.h>

#include "algo/limit.h"
#include "base/arith.h"

#define TAKE_TRIES 1000 /* as in word.c */
#define STEPS 8U        /* an octave */
#define FIRST_BIT 20U   /* 2^20 ns: lengths below 1.05 ms count as that */
#define WINDOW_BITS 54U /* longer lengths are written as several windows of up to 2^54 ns */

static_assert(WR_REFILL_MAX_NS < INT64_C(1) << (FIRST_BIT + WR_THROTTLE_CLASSES / STEPS - 1),
              "the last length is not below the longest limit");
static_assert(INT64_C(1) << WINDOW_BITS <= WR_WINDOW_MAX_NS, "a window fits a limit");
static_assert(INT64_C(1) << FIRST_BIT >= WR_WINDOW_MIN_NS, "a window fits a limit");

void wr_throttle_init(struct wr_throttle *throttle, struct wr_arena *arena)
{
    static const char name[] = "cl.throttle";

    memset(throttle, 0, sizeof *throttle);
    throttle->arena = arena;
    throttle->prefix = wr_sip_init(wr_arena_secret(arena));
    /* Limits of a policy begin with a part of kind 0. */
    wr_sip_part(&throttle->prefix, 0xff, name, sizeof name - 1);
}

uint64_t wr_throttle_hash(const struct wr_throttle *throttle, struct weir_slice key)
{
    struct wr_sip sip = throttle->prefix;

    wr_sip_part(&sip, 0, key.ptr, key.len);
    return wr_sip_finish(sip);
}

const char *wr_throttle_rate_make(struct wr_throttle_rate *out, int64_t max_burst, int64_t count,
                                  int64_t period_s, int64_t quantity)
{
    wr_u128 interval;

    *out = (struct wr_throttle_rate){0};
    if (max_burst < 0 || max_burst >= WR_BURST_MAX)
        return "max_burst must be 0 to 999999999999";
    if (count < 1)
        return "count per period must not be negative";
    if (period_s < 1)
        return "period must not be negative";
    if (quantity < 0)
        return "quantity must not be negative";
    interval = (wr_u128)period_s * WR_NS_PER_S / (uint64_t)count;
    if (interval == 0)
        return "count per period must be at most 1000000000 a second";
    if (interval * (uint64_t)(max_burst + 1) > (wr_u128)WR_REFILL_MAX_NS)
        return "period and max_burst: a burst must not last longer than 50 years";
    *out = (struct wr_throttle_rate){max_burst + 1, (int64_t)interval, quantity};
    return NULL;
}

/* ---- classes ----------------------------------------------------------------------------- */

/* The first of the lengths that is not below |length_ns|. */
static unsigned step_of(int64_t length_ns)
{
    uint64_t v = (uint64_t)wr_max_i64(length_ns, INT64_C(1) << FIRST_BIT) - 1;
    unsigned shift = wr_bit_length(v) - 4; /* leaves a leading one and three bits */

    return (shift + 3 - FIRST_BIT) * STEPS + (unsigned)(v >> shift) - STEPS + 1;
}

/* A length as a token bucket: one unit a window, that many windows. */
static void shape_of(unsigned step, int64_t *window_ns, int64_t *burst)
{
    uint64_t length = wr_min_u64((uint64_t)(STEPS + step % STEPS) << (step / STEPS + FIRST_BIT - 3),
                                 (uint64_t)WR_REFILL_MAX_NS);
    unsigned bits = wr_bit_length(length);
    unsigned shift = bits > WINDOW_BITS ? bits - WINDOW_BITS : 0;

    *window_ns = (int64_t)(length >> shift);
    *burst = INT64_C(1) << shift;
}

static int make_class(struct wr_arena *arena, unsigned step, uint16_t *number)
{
    int64_t window_ns, burst;
    struct wr_class spec;
    struct wr_limit limit;

    *number = 0;
    shape_of(step, &window_ns, &burst);
    if (wr_limit_make(&limit, WR_TOKEN_BUCKET, 1, window_ns, burst, false) != NULL)
        return WEIR_EINVAL;
    memset(&spec, 0, sizeof spec);
    memcpy(spec.params, &limit, sizeof limit);
    return wr_arena_class(arena, &spec, number);
}

/* The class of limits that last |length_ns|; asked for once. */
static int class_of(struct wr_throttle *throttle, int64_t length_ns, uint16_t *number)
{
    unsigned step = step_of(length_ns);
    int result;

    *number = __atomic_load_n(&throttle->class_id[step], __ATOMIC_RELAXED);
    if (*number != 0)
        return 0;
    result = make_class(throttle->arena, step, number);
    if (result == 0)
        __atomic_store_n(&throttle->class_id[step], *number, __ATOMIC_RELAXED);
    return result == 0 ? 0 : WEIR_EFULL;
}

/* How far ahead a state of class |number| can be; 0: nothing of ours. */
static uint64_t reach_of(const struct wr_arena *arena, uint16_t number)
{
    struct wr_class spec;
    struct wr_limit limit;

    if (!wr_arena_class_get(arena, number, &spec))
        return 0;
    memcpy(&limit, spec.params, sizeof limit);
    return wr_limit_valid(&limit) && limit.algo == WR_TOKEN_BUCKET && limit.units == 1
               ? (uint64_t)(limit.window_ns * limit.burst)
               : 0;
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* One try: a slot as it was read, and how far ahead of now its arrival time is, was and will be. */
struct attempt {
    struct wr_slot_view view;
    int64_t ahead_ns;
    int64_t wanted_ns; /* to be stored */
};

static void load(const struct wr_arena *arena, uint64_t hash, int64_t now_ns,
                 struct attempt *attempt)
{
    uint64_t ahead;

    wr_slot_find(arena, hash, &attempt->view);
    attempt->ahead_ns = 0;
    ahead = wr_monus_u64(attempt->view.state, (uint64_t)now_ns);
    if (attempt->view.slot == NULL || ahead == 0)
        return;
    if (ahead > WR_NS_PER_HOUR) { /* worth a look at the class */
        uint64_t reach = reach_of(arena, attempt->view.class_id);
        if (ahead > reach + WR_CLOCK_NOISE_NS)
            ahead = reach;
    }
    attempt->ahead_ns = (int64_t)ahead;
}

static void evaluate(const struct wr_throttle_rate *rate, struct attempt *attempt,
                     struct wr_throttle_reply *out)
{
    int64_t length = rate->interval_ns * rate->limit;

    out->limit = rate->limit;
    out->limited = true;
    out->retry_after_ns = -1;
    attempt->wanted_ns = attempt->ahead_ns;
    if (rate->quantity <= rate->limit) {
        int64_t wanted = attempt->ahead_ns + rate->interval_ns * rate->quantity;
        out->limited = wanted > length;
        if (out->limited)
            out->retry_after_ns = wanted - length;
        else
            attempt->wanted_ns = wanted;
    }
    out->remaining = wr_max_i64(0, length - attempt->wanted_ns) / rate->interval_ns;
    out->reset_after_ns = attempt->wanted_ns;
}

static int store(struct wr_throttle *throttle, uint64_t hash, const struct attempt *attempt,
                 int64_t length_ns, uint16_t class_id, int64_t now_ns)
{
    struct wr_worth worth = {0, 0};
    int64_t burst;

    if (attempt->view.slot == NULL) {
        shape_of(step_of(length_ns), &worth.window_ns, &burst);
        worth.used_q32 = wr_muldiv_ceil((uint64_t)attempt->wanted_ns, UINT64_C(1) << 32,
                                        (uint64_t)wr_max_i64(length_ns, 1));
    }
    return wr_slot_put(throttle->arena, hash, &attempt->view, class_id,
                       (uint64_t)(now_ns + attempt->wanted_ns), &worth, now_ns);
}

int wr_throttle_take(struct wr_throttle *throttle, uint64_t hash,
                     const struct wr_throttle_rate *rate, int64_t now_ns,
                     struct wr_throttle_reply *out)
{
    int64_t length = rate->interval_ns * rate->limit;
    struct attempt attempt;
    uint16_t class_id;

    *out = (struct wr_throttle_reply){0};
    now_ns = wr_moment_ns(now_ns);
    if (class_of(throttle, length, &class_id) != 0)
        return WEIR_EFULL;
    for (int tries = 0; tries < TAKE_TRIES; tries++) {
        load(throttle->arena, hash, now_ns, &attempt);
        evaluate(rate, &attempt, out);
        /* A key that is not stored because all its neighbours are worth more is decided as new. */
        if (out->limited || rate->quantity == 0 ||
            store(throttle, hash, &attempt, length, class_id, now_ns) != WEIR_EAGAIN)
            return 0;
    }
    out->limited = true; /* for a moment; never a pass */
    out->retry_after_ns = WR_NS_PER_MS;
    return 0;
}
