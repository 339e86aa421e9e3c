/* ticks.c - how finely a bucket is counted where microseconds and 53 bits are all there is. */
#include "algo/ticks.h"

bool wr_ticks_make(struct wr_ticks *out, const struct wr_limit *limit)
{
    uint64_t window_us = (uint64_t)(limit->window_ns / WR_NS_PER_US), gcd;
    struct wr_ticks ticks;

    *out = (struct wr_ticks){1, 1};
    if (limit->units == 0)
        return true;
    if (limit->window_ns % WR_NS_PER_US != 0 || window_us == 0)
        return false;
    gcd = wr_gcd_u64((uint64_t)limit->units, window_us);
    ticks = (struct wr_ticks){(int64_t)(window_us / gcd), limit->units / (int64_t)gcd};
    if ((wr_u128)2 * (uint64_t)wr_limit_capacity(limit) * (uint64_t)ticks.unit >= WR_TICKS_MAX)
        return false;
    *out = ticks;
    return true;
}
