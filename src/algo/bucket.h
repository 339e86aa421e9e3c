/* bucket.h - what the token bucket and the leaky bucket share: a moment in quanta, ahead of now by
 * the debt. Debt 0 is a full bucket (an empty queue), debt = capacity an empty bucket (a full
 * queue). */
#ifndef WR_ALGO_BUCKET_H
#define WR_ALGO_BUCKET_H

#include "algo/limit.h"

/* From |now_ns| until its quanta reach |quanta|, at least 1. */
int64_t wr_bucket_wait_ns(const struct wr_scale *scale, uint64_t quanta, int64_t now_ns);

/* |debt| as a part of |capacity|, 0 .. 2^32, rounded up. A capacity of 0 with debt is used up. */
uint64_t wr_bucket_used_q32(uint64_t debt, uint64_t capacity);

/* As wr_word_algo.times for a bucket that is full at |full|, a moment in quanta. */
void wr_bucket_times(const struct wr_scale *scale, uint64_t full, uint64_t capacity, int64_t now_ns,
                     int64_t *next_ns, int64_t *reset_ns);

/* |debt| under |old| as the same number of units under |scale|, rounded up. */
uint64_t wr_bucket_rescale(const struct wr_scale *scale, const struct wr_scale *old, uint64_t debt);

/* The part |used_q32| of |capacity|, rounded up. */
uint64_t wr_bucket_debt_of(uint64_t used_q32, uint64_t capacity);

#endif
