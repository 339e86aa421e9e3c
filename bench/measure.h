/* measure.h - what the benches in C have in common: clocks, draws, and a line of JSON a case.
 *
 * A case is measured in rounds in which the sides take turns; its ratio is the median of the
 * rounds' ratios, because these figures move with the neighbours while the ratio does not. */
#ifndef WR_BENCH_MEASURE_H
#define WR_BENCH_MEASURE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The finisher of splitmix64: numbers that are far apart, of numbers that are not. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

/* |values| are sorted. */
double median(double *values, unsigned n);

struct measured {
    const char *bench, *name, *unit;
    double ours, peer, ratio, target;
    bool at_most; /* met when ratio <= target; otherwise when >= */
};

void report(const struct measured *measured);

/* |what| of |n| rounds: |ours|, |peer| and |ratios|, which are sorted. */
void report_rounds(struct measured what, double *ours, double *peer, double *ratios, unsigned n);

#endif
