/* arith.h - integer arithmetic that cannot overflow silently. No floating point anywhere in a
 * verdict. */
#ifndef WR_BASE_ARITH_H
#define WR_BASE_ARITH_H

#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 wr_u128;

static inline int64_t wr_min_i64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t wr_max_i64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline uint64_t wr_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t wr_max_u64(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* a - b, or 0 where that is negative. */
static inline uint64_t wr_monus_u64(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* a + b, or the nearest end of the range. */
static inline int64_t wr_add_sat_i64(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}

static inline uint64_t wr_add_sat_u64(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/* False, and |*out| untouched, when a * b does not fit. */
static inline bool wr_mul_i64(int64_t a, int64_t b, int64_t *out)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return false;
    *out = product;
    return true;
}

static inline uint64_t wr_u128_to_u64_sat(wr_u128 v)
{
    return v > UINT64_MAX ? UINT64_MAX : (uint64_t)v;
}

/* floor(a * b / d), saturated at UINT64_MAX; d > 0. The product is exact in 128 bits. */
static inline uint64_t wr_muldiv_floor(uint64_t a, uint64_t b, uint64_t d)
{
    return wr_u128_to_u64_sat((wr_u128)a * b / d);
}

/* ceil(a * b / d), saturated at UINT64_MAX; d > 0. */
static inline uint64_t wr_muldiv_ceil(uint64_t a, uint64_t b, uint64_t d)
{
    return wr_u128_to_u64_sat(((wr_u128)a * b + (d - 1)) / d);
}

/* Bits needed to write v: 0 for 0, 64 for UINT64_MAX. */
static inline unsigned wr_bit_length(uint64_t v)
{
    return v == 0 ? 0 : 64U - (unsigned)__builtin_clzll(v);
}

/* Greatest common divisor by Euclid; at most 92 steps for 64-bit arguments (Lamé). */
static inline uint64_t wr_gcd_u64(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
