/* concurrency.h - at most N at once. A place is a lease: taken at a stamp, freed by its release or
 * when its longest hold (window_ns) has passed, whichever is first. So the state is a list of
 * stamps with the hold as its window, and a request takes one place whatever it costs. */
#ifndef WR_ALGO_CONCURRENCY_H
#define WR_ALGO_CONCURRENCY_H

#include "algo/limit.h"

/* Decide one more place (|look|: none) with |live| places taken. As wr_sliding_log_take. */
void wr_concurrency_take(const struct wr_limit *limit, uint32_t live, bool look,
                         struct wr_take *out, uint32_t *must_age);

#endif
