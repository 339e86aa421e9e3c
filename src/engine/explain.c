/* explain.c - what would happen to a request and why.
 *
 * The idea. The decision is the ordinary one, as a look; the selection it was made by is made once
 * more, as a decision does not keep it, and the policy says why.
 *
 * Invariant: nothing is written to the arena, but by wr_engine_forget. */
#include "engine/explain.h"

#include <string.h>

#include "engine/bound.h"

void wr_engine_explain(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                       struct wr_explanation *out)
{
    struct weir_request look = *request;

    look.peek = true;
    wr_known_select(engine, &look, now, NULL, &out->selection);
    wr_policy_explain(engine->policy, &look, &out->selection, out->reason);
    wr_engine_decide(engine, &look, now, &out->answer);
    out->selection.banned = out->answer.reason == WEIR_REASON_BANNED; /* in the arena as well */
}

bool wr_engine_peek(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                    int64_t now, struct weir_verdict *out)
{
    struct wr_charge charge;

    memset(out, 0, sizeof *out);
    if (engine->limits[key->limit].policy->unlimited[plan])
        return false;
    if (engine->limits[key->limit].usage != NULL)
        return wr_customer_peek(engine, key, plan, now, out);
    wr_bound_charge(engine, key->limit, plan, wr_bound_hash_parts(engine, key), 0, &charge);
    wr_charge_evaluate(engine->arena, &charge, now);
    wr_bound_verdict(engine, &charge, key->limit, plan, out);
    return true;
}

int wr_engine_forget(struct wr_engine *engine, const struct wr_selected *key)
{
    return wr_slot_drop(engine->arena, wr_bound_hash_parts(engine, key));
}
