/* bucket.c - the parts of the bucket algorithms that are not on the hot path. */
#include "algo/bucket.h"

#include "algo/scale.h"

#define ONE_Q32 (UINT64_C(1) << 32)

int64_t wr_bucket_wait_ns(const struct wr_scale *scale, uint64_t quanta, int64_t now_ns)
{
    return wr_max_i64(1, wr_scale_ns(scale, quanta) - now_ns);
}

uint64_t wr_bucket_used_q32(uint64_t debt, uint64_t capacity)
{
    if (debt == 0)
        return 0;
    return debt >= capacity ? ONE_Q32 : wr_muldiv_ceil(debt, ONE_Q32, capacity);
}

/* Of a debt of k units and a part, k remain when the next unit has come; of a debt above the
 * capacity (forced), all but one of the capacity. */
void wr_bucket_times(const struct wr_scale *scale, uint64_t full, uint64_t capacity, int64_t now_ns,
                     int64_t *next_ns, int64_t *reset_ns)
{
    uint64_t debt = wr_monus_u64(full, wr_scale_quanta(scale, now_ns));
    uint64_t then;

    *next_ns = 0;
    *reset_ns = 0;
    if (debt == 0 || capacity == 0)
        return;
    then = wr_min_u64((debt - 1) / scale->unit * scale->unit, capacity - scale->unit);
    *next_ns = wr_bucket_wait_ns(scale, full - then, now_ns);
    *reset_ns = wr_bucket_wait_ns(scale, full, now_ns);
}

uint64_t wr_bucket_rescale(const struct wr_scale *scale, const struct wr_scale *old, uint64_t debt)
{
    return wr_muldiv_ceil(debt, scale->unit, old->unit);
}

uint64_t wr_bucket_debt_of(uint64_t used_q32, uint64_t capacity)
{
    return wr_muldiv_ceil(used_q32, capacity, ONE_Q32);
}
