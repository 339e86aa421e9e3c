/* window.h - what the counting windows share: a word that holds a window's index and one or two
 * counts, and what a stored index means at now.
 *
 *     63            n*b            b             0      b = count_bits, n = 1 (fixed) or 2
 * (sliding)
 *     +-------------+--------------+-------------+
 *     | index mod 2^k | [previous]  |   count     |      k = 64 - n*b
 *     +-------------+--------------+-------------+
 *
 * Windows start at multiples of W since the Unix epoch; index i covers [i W, (i + 1) W). Counts of
 * 0 make the word 0, whatever the index: "never seen". So no word with a charge is 0, index 0 or
 * not.
 *
 * The index is kept modulo 2^k and compared by the nearest distance. For a fixed window k >= 28 and
 * 2^k W >= 18 years; for a sliding one see docs/algorithms.md. A key that comes back after more
 * than half of that may find its old counts taken for those of a window close by: they deny for two
 * windows at most, and never let more through. */
#ifndef WR_ALGO_WINDOW_H
#define WR_ALGO_WINDOW_H

#include "algo/limit.h"

struct wr_window {
    int64_t
        start_ns;   /* of the window that counts: now's, or a later one that time stands still in */
    int64_t end_ns; /* of that window */
    uint64_t index; /* of that window, not reduced */
    int64_t age;    /* windows from the stored one to it: 0 the same, 1 the one before, .. */
    bool set_back;  /* the stored one is too far ahead; counts are to be moved here (age is 0) */
};

static inline uint64_t wr_count_max(const struct wr_limit *limit)
{
    return (UINT64_C(1) << limit->count_bits) - 1;
}

/* |count| as a part of |units|, 0 .. 2^32, rounded up. */
static inline uint64_t wr_count_used_q32(uint64_t count, uint64_t units)
{
    if (count == 0)
        return 0;
    return count >= units ? UINT64_C(1) << 32 : ((count << 32) + (units - 1)) / units;
}

/* The part |used_q32| of |units|, rounded up. */
static inline uint64_t wr_count_of(uint64_t used_q32, uint64_t units)
{
    return wr_muldiv_ceil(used_q32, units, UINT64_C(1) << 32);
}

/* Windows from the one in |state|, whose index is its highest |index_bits| bits, to |index|. State
 * 0 has none: it must not pass for a window that lies ahead by a little. */
static inline int64_t wr_window_age(uint64_t index, uint64_t state, unsigned index_bits)
{
    unsigned spare = 64 - index_bits;
    uint64_t stored = state == 0 ? index : state >> spare;

    /* The shift up drops what is beyond index_bits, the one down extends the sign. */
    return (int64_t)((index - stored) << spare) >> spare;
}

/* Which window do we count in at |moment_ns| (wr_moment_ns)? */
static inline struct wr_window wr_window_at(const struct wr_limit *limit, uint64_t state,
                                            unsigned index_bits, int64_t moment_ns)
{
    uint64_t index = (uint64_t)moment_ns / (uint64_t)limit->window_ns;
    struct wr_window window = {(int64_t)index * limit->window_ns, 0, index, 0, false};

    window.age = wr_window_age(index, state, index_bits);
    if (window.age < 0) {
        if (-window.age <= WR_CLOCK_NOISE_NS / limit->window_ns + 1) {
            window.index += (uint64_t)-window.age;
            window.start_ns += -window.age * limit->window_ns;
        } else {
            window.set_back = true;
        }
        window.age = 0;
    }
    window.end_ns = window.start_ns + limit->window_ns;
    return window;
}

/* The word that holds these counts in the window numbered |index|: for counts that are kept
 * elsewhere, so that the algorithms can judge them. |previous| is 0 for a fixed window. Counts
 * beyond their fields are stored as the most they can hold. */
static inline uint64_t wr_window_word(const struct wr_limit *limit, uint64_t index,
                                      uint64_t previous, uint64_t current)
{
    uint64_t most = wr_count_max(limit);

    if (previous == 0 && current == 0)
        return 0;
    if (limit->algo == WR_SLIDING_WINDOW)
        index = index << limit->count_bits | wr_min_u64(previous, most);
    return index << limit->count_bits | wr_min_u64(current, most);
}

#endif
