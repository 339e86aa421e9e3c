/* scale.h - converting between nanoseconds and quanta of a limit (struct wr_scale). */
#ifndef WR_ALGO_SCALE_H
#define WR_ALGO_SCALE_H

#include "algo/limit.h"
#include "base/arith.h"
#include "base/units.h"

/* The scale of |units| per |window_ns|, both > 0 and within the bounds of limit.h, or {1, 1, 1} for
 * 0 units. */
struct wr_scale wr_scale_make(int64_t units, int64_t window_ns);

/* A moment or a length of time in quanta, rounded down; |t_ns| >= 0. */
static inline uint64_t wr_scale_quanta(const struct wr_scale *scale, int64_t t_ns)
{
    return scale->den == 1 ? (uint64_t)t_ns
                           : wr_muldiv_floor((uint64_t)t_ns, scale->num, scale->den);
}

/* The first nanosecond whose quanta are at least |quanta|; saturated. */
static inline int64_t wr_scale_ns(const struct wr_scale *scale, uint64_t quanta)
{
    uint64_t t = scale->den == 1 ? quanta : wr_muldiv_ceil(quanta, scale->den, scale->num);
    return (int64_t)wr_min_u64(t, (uint64_t)INT64_MAX);
}

#endif
