/* metrics.c - counting, in the loop that decides: plain relaxed stores, as nobody else writes. */
#include "serve/metrics.h"

#include "base/units.h"

/* In ns; the last bucket is what is slower. */
static const int64_t bounds[WR_LATENCY_BUCKETS] = {
    10 * WR_NS_PER_US,  25 * WR_NS_PER_US, 50 * WR_NS_PER_US,   100 * WR_NS_PER_US,
    250 * WR_NS_PER_US, 1 * WR_NS_PER_MS,  2500 * WR_NS_PER_US, 5 * WR_NS_PER_MS,
    10 * WR_NS_PER_MS,  50 * WR_NS_PER_MS, 250 * WR_NS_PER_MS,  1 * WR_NS_PER_S};

static void add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

void wr_metrics_bad_request(struct wr_metrics *metrics, enum wr_door_id door)
{
    add(&metrics->door[door].bad_requests, 1);
}

int64_t wr_metrics_latency_bound(unsigned bucket)
{
    return bucket < WR_LATENCY_BUCKETS ? bounds[bucket] : -1;
}

void wr_metrics_outcome(struct wr_metrics *metrics, enum weir_outcome outcome)
{
    add(&metrics->outcome[(unsigned)outcome & 3], 1);
}

void wr_metrics_answer(struct wr_metrics *metrics, const struct weir_answer *answer)
{
    add(&metrics->outcome[answer->outcome & 3], 1);
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct weir_verdict *v = &answer->verdicts[i];
        enum wr_limit_counter counter = v->outcome == WEIR_DELAY  ? WR_LIMIT_DELAYED
                                        : v->outcome != WEIR_DENY ? WR_LIMIT_ALLOWED
                                        : v->shadow != 0          ? WR_LIMIT_SHADOW_DENIED
                                                                  : WR_LIMIT_DENIED;
        if (v->limit < WR_POLICY_LIMITS_MAX)
            add(&metrics->limit[v->limit][counter], 1);
    }
}

static unsigned bucket_of(int64_t elapsed_ns)
{
    unsigned bucket = 0;

    while (bucket < WR_LATENCY_BUCKETS && elapsed_ns > bounds[bucket])
        bucket++;
    return bucket;
}

void wr_metrics_request(struct wr_metrics *metrics, enum wr_door_id door, int64_t elapsed_ns)
{
    struct wr_door_metrics *m = &metrics->door[door];

    add(&m->requests, 1);
    add(&m->latency[bucket_of(elapsed_ns)], 1);
    add(&m->latency_sum_ns, elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0);
}

void wr_metrics_store(struct wr_store_metrics *m, int64_t elapsed_ns)
{
    add(&m->latency[bucket_of(elapsed_ns)], 1);
    add(&m->latency_sum_ns, elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0);
}
