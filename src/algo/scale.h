/* scale.h - converting between nanoseconds and quanta of a limit (struct wr_scale). */
#ifndef WR_ALGO_SCALE_H
#define WR_ALGO_SCALE_H

#include "algo/limit.h"
#include "base/arith.h"
#include "base/units.h"

/* Choose the scale for N units per W ns with up to |burst| units beyond now. All > 0 and within the
 * bounds of limit.h. False when the burst is too large for any scale. */
bool wr_scale_make(struct wr_scale *out, int64_t units, int64_t window_ns, int64_t burst);

/* A moment in quanta, rounded down; moments outside [0, WR_TIME_MAX_NS] count as the nearest end.
 */
static inline uint64_t wr_scale_quanta(const struct wr_scale *scale, int64_t t_ns)
{
    uint64_t t = (uint64_t)wr_max_i64(0, wr_min_i64(t_ns, WR_TIME_MAX_NS));
    return scale->den == 1 ? t * scale->num : wr_muldiv_floor(t, scale->num, scale->den);
}

/* The first nanosecond whose quanta are at least |quanta|. */
static inline int64_t wr_scale_ns(const struct wr_scale *scale, uint64_t quanta)
{
    uint64_t t = scale->num == 1 && scale->den == 1
                     ? quanta
                     : wr_muldiv_ceil(quanta, scale->den, scale->num);
    return (int64_t)wr_min_u64(t, (uint64_t)INT64_MAX);
}

#endif
