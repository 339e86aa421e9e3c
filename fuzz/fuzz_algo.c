/* fuzz_algo.c - the contract of algo/limit.h for any limit, any state, any moment, any cost: what
 * an arena file may hold. tests/model/contract.c feeds it plausible limits by the million.
 *
 * Input: algorithm 1 byte, flags 1, units 8, window 8, burst 8, state 8, receipt 8, now 8, cost 8,
 * and the same limit fields again for the one that the state is carried to. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/limit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)                                                           \
    do {                                                                          \
        if (!(condition)) {                                                       \
            (void)fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                              \
        }                                                                         \
    } while (0)

#define ONE_Q32 (UINT64_C(1) << 32)

struct input {
    const uint8_t *data;
    size_t left;
};

/* Missing bytes are 0. */
static uint64_t next_bytes(struct input *in, size_t count)
{
    uint64_t value = 0;
    size_t take = count < in->left ? count : in->left;

    memcpy(&value, in->data, take);
    in->data += take;
    in->left -= take;
    return value;
}

/* A limit as it could lie in a class of the arena: made by the rules, or any bytes that pass for
 * it. */
static bool next_limit(struct input *in, struct wr_limit *limit)
{
    enum wr_algo algo = (enum wr_algo)next_bytes(in, 1);
    unsigned flags = (unsigned)next_bytes(in, 1);
    int64_t units = (int64_t)next_bytes(in, 8);
    int64_t window_ns = (int64_t)next_bytes(in, 8);
    int64_t burst = (int64_t)next_bytes(in, 8);
    const char *problem = wr_limit_make(limit, algo, units, window_ns, burst, (flags & 1) != 0);

    MUST((problem == NULL) == wr_limit_valid(limit));
    if (problem == NULL &&
        (flags & 2) != 0) { /* a damaged one is not valid, or is one all the same */
        uint8_t *bytes = (uint8_t *)limit;
        bytes[flags >> 2] ^= 1;
        return wr_limit_valid(limit) && wr_limit_is_word(limit);
    }
    return problem == NULL && wr_limit_is_word(limit);
}

/* The longest that a key may wait for a cost within the capacity: see contract 7 of limit.h. */
static int64_t longest_wait(const struct wr_limit *limit)
{
    wr_u128 refill = (wr_u128)wr_limit_capacity(limit) * (uint64_t)limit->window_ns;
    int64_t window_ns = limit->window_ns;

    if (limit->algo == WR_TOKEN_BUCKET)
        window_ns = (int64_t)(refill / (uint64_t)limit->units) + 2;
    if (limit->algo == WR_LEAKY_BUCKET)
        return WR_WINDOW_MAX_NS + WR_CLOCK_NOISE_NS + window_ns + 2;
    return 3 * window_ns + WR_CLOCK_NOISE_NS;
}

static void check_take(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    int64_t capacity = wr_limit_capacity(limit);
    struct wr_take out, again, then;

    memset(&out, 0xa5, sizeof out);
    algo->take(limit, state, now_ns, cost, &out);
    MUST(out.remaining >= 0 && out.remaining <= capacity);
    MUST(out.delay_ns >= 0 && out.retry_after_ns >= 0);
    MUST(!(out.allowed && out.never));
    if (out.allowed) {
        MUST(out.retry_after_ns == 0);
        MUST(cost == 0 || out.state != state);
        MUST(cost == 0 || out.state != 0);
        return;
    }
    MUST(out.delay_ns == 0);
    MUST(cost > 0 || limit->algo == WR_LEAKY_BUCKET);
    if (out.never) {
        MUST(out.retry_after_ns == 0 && (cost > capacity || capacity == 0));
        return;
    }
    MUST(out.retry_after_ns > 0 && out.retry_after_ns <= longest_wait(limit));
    /* What was moved to the present stays: a refusal at the same moment changes nothing any more.
     */
    algo->take(limit, out.state, now_ns, cost, &again);
    MUST(!again.allowed && again.state == out.state);
    MUST(again.retry_after_ns == out.retry_after_ns);
    if (now_ns < 0 || now_ns > WR_TIME_MAX_NS - out.retry_after_ns)
        return;
    MUST(out.told ==
         (limit->count_denied ? algo->force(limit, out.state, now_ns, cost) : out.state));
    algo->take(limit, out.told, now_ns + out.retry_after_ns, cost, &then);
    MUST(then.allowed);
    algo->take(limit, out.told, now_ns + out.retry_after_ns - 1, cost, &then);
    MUST(!then.allowed);
}

/* The state after a look: moved to the present if it lay too far ahead. */
static uint64_t looked_at(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    struct wr_take out;

    wr_word_algo((enum wr_algo)limit->algo)->take(limit, state, now_ns, 0, &out);
    return out.state;
}

static int64_t remaining(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    struct wr_take out;

    wr_word_algo((enum wr_algo)limit->algo)->take(limit, state, now_ns, 0, &out);
    return out.remaining;
}

static void check_others(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                         int64_t now_ns, int64_t cost)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    uint64_t used = algo->used_q32(limit, state, now_ns);
    uint64_t forced = algo->force(limit, state, now_ns, cost);
    uint64_t refunded = algo->refund(limit, state, receipt, now_ns, cost);
    int64_t left = remaining(limit, state, now_ns);
    int64_t next_ns = -1, reset_ns = -1;

    MUST(used <= ONE_Q32);
    MUST(remaining(limit, forced, now_ns) <= left);
    MUST(remaining(limit, refunded, now_ns) >= left);
    algo->times(limit, state, now_ns, &next_ns, &reset_ns);
    MUST(next_ns >= 0 && next_ns <= reset_ns);
    if (limit->units == 0)
        return;
    MUST((reset_ns == 0) == (left == wr_limit_capacity(limit)));
    MUST(used > 0 || left == wr_limit_capacity(limit));
    state = looked_at(limit, state, now_ns);
    if (reset_ns == 0 || now_ns < 0 || now_ns > WR_TIME_MAX_NS - reset_ns)
        return;
    MUST(remaining(limit, state, now_ns + reset_ns) == wr_limit_capacity(limit));
    MUST(remaining(limit, state, now_ns + next_ns) > left);
}

/* What is carried has no less used than a part of a unit, and no more than all. */
static void check_carry(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                        int64_t now_ns)
{
    uint64_t carried = wr_word_algo((enum wr_algo)limit->algo)->carry(limit, old, state, now_ns);
    uint64_t used = wr_word_used_q32(limit, carried, now_ns);

    MUST(used <= ONE_Q32);
    if (wr_word_used_q32(old, state, now_ns) == 0)
        MUST(used == 0);
    else if (limit->units > 0 && old->units > 0)
        MUST(used > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct wr_limit limit, other;
    bool usable = next_limit(&in, &limit);
    uint64_t state = next_bytes(&in, 8);
    uint64_t receipt = next_bytes(&in, 8);
    int64_t now_ns = (int64_t)next_bytes(&in, 8);
    int64_t cost = (int64_t)(next_bytes(&in, 8) & INT64_MAX);

    if (!usable)
        return 0;
    check_take(&limit, state, now_ns, cost);
    check_take(&limit, 0, now_ns, cost);
    check_others(&limit, state, receipt, now_ns, cost);
    if (next_limit(&in, &other))
        check_carry(&other, &limit, state, now_ns);
    return 0;
}
