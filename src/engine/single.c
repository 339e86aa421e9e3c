/* single.c - one limit and one key, for callers who come back to it: to settle, to release, to
 * reset. */
#include <string.h>

#include "engine/bound.h"
#include "engine/engine.h"
#include "engine/shared.h"

static void take(struct wr_engine *engine, unsigned limit, struct wr_charge *charge, int64_t now,
                 struct weir_answer *answer)
{
    wr_charge_evaluate(engine->arena, charge, now);
    wr_charge_commit(engine->arena, charge, now, &answer->receipts[0]);
    if (!charge->take.allowed && charge->limit->count_denied)
        wr_charge_force(engine->arena, charge, now);
    wr_bound_verdict(engine, charge, limit, engine->default_plan, &answer->verdicts[0]);
}

void wr_engine_check_one(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                         int64_t cost, int64_t now, struct weir_answer *answer)
{
    const struct weir_verdict *verdict = &answer->verdicts[0];
    struct wr_charge charge;

    memset(answer, 0, sizeof *answer);
    if (engine->shares && engine->limits[limit].policy->shared &&
        !engine->limits[limit].policy->unlimited[engine->default_plan]) {
        wr_shared_check(engine, limit, key, cost, false, now, answer);
        return;
    }
    if (engine->limits[limit].policy->unlimited[engine->default_plan]) {
        wr_engine_check(engine, limit, key, cost, now, &answer->verdicts[0]);
    } else {
        wr_bound_charge(engine, limit, engine->default_plan, wr_bound_hash(engine, limit, key),
                        cost, &charge);
        take(engine, limit, &charge, now, answer);
    }
    answer->outcome =
        verdict->outcome == WEIR_DENY && verdict->shadow != 0 ? WEIR_SHADOW : verdict->outcome;
    answer->reason = verdict->reason;
    answer->plan = verdict->plan;
    answer->count = 1;
    answer->cost_units = cost;
    answer->delay_ns = verdict->delay_ns;
    answer->retry_after_ns = verdict->retry_after_ns;
    answer->decided_ns = now;
}

int wr_engine_reset(struct wr_engine *engine, unsigned limit, struct weir_slice key)
{
    return wr_slot_drop(engine->arena, wr_bound_hash(engine, limit, key));
}
