/* ticks.h - buckets in ticks, for whoever counts time in microseconds and has 53 bits for a number:
 * the script in Redis.
 *
 * A unit is W/g ticks and a microsecond pays N/g of them back, g = gcd(N, W in us): both are whole,
 * so a debt is, and nothing is ever rounded. */
#ifndef WR_ALGO_TICKS_H
#define WR_ALGO_TICKS_H

#include "algo/limit.h"

#define WR_TICKS_MAX (INT64_C(1) << 53) /* whole numbers below are exact in a double */

struct wr_ticks {
    int64_t unit; /* ticks */
    int64_t rate; /* ticks that a microsecond pays back */
};

/* Of a bucket; {1, 1} for one of 0 units. False, and {1, 1}, where the window is not whole
 * microseconds or a debt of twice the capacity is not below WR_TICKS_MAX. */
bool wr_ticks_make(struct wr_ticks *out, const struct wr_limit *limit);

#endif
