/* schedule.h - generated schedules for the model tests: a seeded generator, rates worth trying,
 * steps of time and costs that find edges. A failure prints the seed; WEIR_SEED=N runs it again. */
#ifndef TESTS_MODEL_SCHEDULE_H
#define TESTS_MODEL_SCHEDULE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "algo/limit.h"
#include "base/arith.h"
#include "base/units.h"

__extension__ typedef __int128 i128;

struct schedule {
    uint64_t seed;
    unsigned round, step; /* where we are, to be printed */
    uint64_t random;      /* the generator's state */
};

#define CHECK(schedule, condition)                                                                \
    do {                                                                                          \
        if (!(condition))                                                                         \
            fail_msg("WEIR_SEED=%llu round %u step %u: %s", (unsigned long long)(schedule)->seed, \
                     (schedule)->round, (schedule)->step, #condition);                            \
    } while (0)

static inline struct schedule schedule_start(void)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 10) : 20231115;

    return (struct schedule){.seed = seed, .random = seed * 2 + 1};
}

/* splitmix64 (Steele, Lea, Flood 2014). */
static inline uint64_t schedule_next(struct schedule *s)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* 0 .. bound - 1. */
static inline int64_t schedule_below(struct schedule *s, int64_t bound)
{
    return (int64_t)(schedule_next(s) % (uint64_t)bound);
}

static inline bool schedule_one_in(struct schedule *s, int64_t n)
{
    return schedule_below(s, n) == 0;
}

/* A rate: half of them simple, half of them odd. |units_max| bounds N. */
static inline void schedule_rate(struct schedule *s, int64_t units_max, int64_t *units,
                                 int64_t *window_ns)
{
    static const int64_t windows[] = {WR_NS_PER_MS,  250 * WR_NS_PER_MS, WR_NS_PER_S,
                                      WR_NS_PER_S,   WR_NS_PER_MINUTE,   WR_NS_PER_HOUR,
                                      WR_NS_PER_DAY, 30 * WR_NS_PER_DAY, 366 * WR_NS_PER_DAY};
    static const int64_t simple[] = {1, 2, 3, 5, 7, 10, 60, 100, 600, 1000, 1000000, 999999937};

    *window_ns = windows[schedule_below(s, sizeof windows / sizeof windows[0])];
    if (schedule_one_in(s, 3))
        *window_ns = WR_NS_PER_MS + schedule_below(s, 10 * WR_NS_PER_S);
    *units = schedule_one_in(s, 3) ? 1 + schedule_below(s, 1000)
                                   : simple[schedule_below(s, sizeof simple / sizeof simple[0])];
    *units = wr_min_i64(*units, wr_min_i64(units_max, *window_ns));
}

/* How far time goes on: not at all, by a nanosecond or two, to just before or at a |moment_ns| of
 * interest, by a part of the window, now and then by years. */
static inline int64_t schedule_step_ns(struct schedule *s, int64_t window_ns, int64_t unit_ns,
                                       int64_t moment_ns)
{
    switch (schedule_below(s, 9)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return schedule_below(s, 4);
    case 3:
        return wr_max_i64(0, moment_ns + schedule_below(s, 5) - 2);
    case 4:
        return moment_ns;
    case 5:
        return schedule_below(s, 2 * unit_ns + 2);
    case 6:
        return schedule_below(s, window_ns);
    case 7:
        return window_ns - 1 + schedule_below(s, 3);
    default:
        return schedule_one_in(s, 20) ? schedule_below(s, 3 * WR_WINDOW_MAX_NS)
                                      : schedule_below(s, 3 * window_ns);
    }
}

/* 0, 1, a few, up to the capacity, just it, and above it. */
static inline int64_t schedule_cost(struct schedule *s, int64_t capacity)
{
    switch (schedule_below(s, 8)) {
    case 0:
        return 0;
    case 1:
        return 1 + schedule_below(s, wr_max_i64(1, capacity));
    case 2:
        return capacity + schedule_below(s, 3) - 1 >= 0 ? capacity + schedule_below(s, 3) - 1 : 0;
    case 3:
        return 1 + schedule_below(s, wr_max_i64(1, capacity / 4));
    default:
        return 1;
    }
}

static inline int64_t schedule_start_ns(struct schedule *s)
{
    return INT64_C(1500000000) * WR_NS_PER_S + schedule_below(s, 10 * WR_WINDOW_MAX_NS);
}

#endif
