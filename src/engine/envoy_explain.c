/* envoy_explain.c - a question of descriptors as it would be answered, and why; and forgetting what
 * its counters have.
 *
 * Invariant: looking writes nothing to the arena and counts in no statistics. */
#include "engine/envoy_parts.h"

#include "engine/bound.h"

static enum wr_rate_why why_of(const struct wr_envoy_item *item)
{
    if (item->asked->has_limit && item->counted)
        return WR_RATE_OVERRIDDEN;
    if (item->replaced != NULL)
        return WR_RATE_REPLACED;
    return item->rule != NULL ? WR_RATE_MEETS : WR_RATE_MEETS_NONE;
}

int wr_engine_rate_explain(struct wr_engine *engine, const struct wr_rate_request *request,
                           int64_t now, struct wr_rate_response *answer,
                           struct wr_rate_reason reasons[WR_DESCRIPTORS_MAX])
{
    struct wr_envoy_question q;
    int result = wr_envoy_match(&q, engine, request, now);

    if (result != 0)
        return result;
    wr_envoy_evaluate(&q);
    wr_envoy_describe(&q, !wr_envoy_is_over(&q), answer);
    for (size_t i = 0; i < request->count; i++) {
        const struct wr_envoy_item *item = &q.items[i];
        reasons[i] = (struct wr_rate_reason){
            .why = why_of(item),
            .rule = item->replaced != NULL ? item->replaced : item->rule,
            .hits = item->hits,
            .used = item->before,
            .counted = item->counted,
            .over = item->over,
        };
    }
    return 0;
}

int wr_engine_rate_forget(struct wr_engine *engine, const struct wr_rate_request *request,
                          size_t *found)
{
    struct wr_envoy_question q;
    int result = wr_envoy_match(&q, engine, request, 0);

    *found = 0;
    for (size_t i = 0; result == 0 && i < request->count; i++) {
        int dropped =
            q.items[i].counted ? wr_slot_drop(engine->arena, q.items[i].charge.hash) : WEIR_ENOENT;
        *found += dropped == 0;
        result = dropped == WEIR_ENOENT ? 0 : dropped;
    }
    return result;
}
