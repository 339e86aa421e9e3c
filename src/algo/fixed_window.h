/* fixed_window.h - what of the fixed window is looked at beside its verdicts. */
#ifndef WR_ALGO_FIXED_WINDOW_H
#define WR_ALGO_FIXED_WINDOW_H

#include "algo/limit.h"

/* How much has been counted in now's window, above the limit too; |*end_ns| is when that window
 * ends. */
uint64_t wr_fixed_window_count(const struct wr_limit *limit, uint64_t state, int64_t now_ns,
                               int64_t *end_ns);

#endif
