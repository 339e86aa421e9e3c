/* told.h - what the store last said of a key that this host has a lease of, or a remembered
 * refusal: as a word of the arena.
 *
 * A lease and a refusal live for a second at most, and say nothing of what lies behind them: when
 * the cost would pass, when the limit is whole again, what is left there. Callers are told the
 * store's word, not how long this host remembers it. */
#ifndef WR_ALGO_TOLD_H
#define WR_ALGO_TOLD_H

#include "algo/limit.h"

extern const struct wr_word_algo wr_told;

/* The one limit of this algorithm. */
struct wr_limit wr_told_limit(void);

/* |units| (0..|capacity|), rounded down where the capacity is above 2^22, and |moment_ns|, rounded
 * up to 4.2 ms. */
uint64_t wr_told_word(int64_t capacity, int64_t units, int64_t moment_ns);

int64_t wr_told_units(int64_t capacity, uint64_t state);
int64_t wr_told_moment_ns(uint64_t state);

#endif
