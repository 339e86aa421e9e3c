/* envoy_stats.c - what is counted for each rule, in hits, as the reference counts it. Each loop has
 * counters of its own, so that they share no cache line. */
#include "base/arith.h"
#include "engine/bound_envoy.h"
#include "engine/envoy_parts.h"

static void count(struct wr_engine *engine, unsigned lane, const struct wr_envoy_item *item,
                  enum wr_envoy_stat stat, uint64_t hits)
{
    uint64_t *counters = &engine->envoy_stats[lane % WR_ENVOY_LANES * engine->envoy_stride];

    if (hits > 0)
        (void)__atomic_fetch_add(&counters[item->counts->index * WR_ENVOY_STATS + stat], hits,
                                 __ATOMIC_RELAXED);
}

/* Hits above four fifths of the limit are near it, those beyond it over. */
void wr_envoy_count(struct wr_engine *engine, unsigned lane, const struct wr_envoy_item *item)
{
    uint64_t units = item->units, near = units - (units + 4) / 5;
    uint64_t after = item->before + item->hits;

    if (item->asked->negative) {
        count(engine, lane, item, WR_ENVOY_RETURNED, item->hits);
        return;
    }
    count(engine, lane, item, WR_ENVOY_TOTAL, item->hits);
    if (!item->over)
        count(engine, lane, item, WR_ENVOY_WITHIN, item->hits);
    if (!item->counted)
        return;
    count(engine, lane, item, WR_ENVOY_NEAR,
          wr_monus_u64(wr_min_u64(after, units), wr_max_u64(near, item->before)));
    if (item->over) {
        count(engine, lane, item, WR_ENVOY_OVER,
              wr_min_u64(item->hits, wr_monus_u64(after, units)));
        if (item->shadow)
            count(engine, lane, item, WR_ENVOY_SHADOW, item->hits);
    }
}

uint64_t wr_engine_envoy_stat(const struct wr_engine *engine, size_t rule, enum wr_envoy_stat stat)
{
    uint64_t sum = 0;

    if (engine->envoy_stats == NULL || rule >= wr_envoy_rule_count(wr_policy_envoy(engine->policy)))
        return 0;
    for (size_t lane = 0; lane < WR_ENVOY_LANES; lane++)
        sum += __atomic_load_n(
            &engine->envoy_stats[lane * engine->envoy_stride + rule * WR_ENVOY_STATS + stat],
            __ATOMIC_RELAXED);
    return sum;
}
