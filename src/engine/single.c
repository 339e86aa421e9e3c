/* single.c - one limit and one key, for callers who come back to it: to settle, to release, to
 * reset. */
#include <string.h>

#include "engine/ballot.h"
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

/* ---- a customer's quota -------------------------------------------------------------------- */

/* As if a request of |customer| under |plan| had met |limit| alone. */
static void ask_customer(struct wr_engine *engine, unsigned limit, unsigned plan,
                         const struct wr_customer_seen *customer, int64_t cost,
                         struct wr_selection *selection, struct wr_ballot *b)
{
    struct wr_selected *selected = &selection->selected[0];

    selection->plan = plan;
    selection->plan_from = WR_PLAN_CUSTOMER;
    selection->cost = cost;
    selection->customer_known = true;
    selection->customer = *customer;
    selection->count = 1;
    selected->limit = (uint16_t)limit;
    selected->deny_missing = false;
    selected->parts = 1;
    selected->part[0] = (struct wr_key_part){
        {(const char *)&selection->customer.id, sizeof selection->customer.id}, WR_PART_CUSTOMER};
    *b = (struct wr_ballot){.plan = plan, .count = 1, .here = UINT32_MAX};
    wr_ballot_add(engine, b, 0, selection);
}

static void take_customer(struct wr_engine *engine, unsigned limit, unsigned plan,
                          const struct wr_customer_seen *customer, int64_t cost, int64_t now,
                          struct weir_answer *answer)
{
    struct wr_selection selection;
    struct weir_request again = {.plan = -1};
    struct wr_ballot b;
    bool pass;

    ask_customer(engine, limit, plan, customer, cost, &selection, &b);
    pass = wr_ballot_evaluate(engine, &b, now);
    if (!pass && wr_known_upgrade(engine, &b, &selection, now, &again)) {
        ask_customer(engine, limit, (unsigned)again.plan, customer, cost, &selection, &b);
        pass = wr_ballot_evaluate(engine, &b, now);
    }
    if (pass)
        pass = wr_ballot_commit(engine, &b, now, answer->receipts);
    wr_ballot_verdict(engine, &b, 0, &answer->verdicts[0]);
    if (!pass)
        wr_ballot_refused(engine, &b, now);
}

void wr_customer_check(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                       int64_t cost, int64_t now, struct weir_answer *answer)
{
    const struct wr_policy_limit *policy = engine->limits[limit].policy;
    struct wr_customer_seen customer;
    unsigned plan = engine->default_plan;
    bool known = wr_known_find(engine, key, now, &customer);
    int his = known ? wr_known_plan(engine, &customer) : -1;

    if (his >= 0)
        plan = (unsigned)his;
    wr_receipt_clear(&answer->receipts[0]);
    if (known && !policy->unlimited[plan])
        take_customer(engine, limit, plan, &customer, cost, now, answer);
    else
        wr_bound_unlimited(limit, plan, &answer->verdicts[0]);
}

bool wr_customer_peek(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                      int64_t now, struct weir_verdict *out)
{
    struct wr_selection selection;
    struct wr_customer_seen customer;
    struct wr_ballot b;

    if (!wr_known_find(engine, key->part[0].bytes, now, &customer))
        return false;
    ask_customer(engine, key->limit, plan, &customer, 0, &selection, &b);
    (void)wr_ballot_evaluate(engine, &b, now);
    wr_ballot_verdict(engine, &b, 0, out);
    return true;
}

/* ---- any limit ----------------------------------------------------------------------------- */

static void describe(struct weir_answer *answer, int64_t cost, int64_t now)
{
    const struct weir_verdict *verdict = &answer->verdicts[0];

    answer->outcome = verdict->shadow == 0            ? verdict->outcome
                      : verdict->outcome == WEIR_DENY ? WEIR_SHADOW
                                                      : WEIR_ALLOW; /* nobody waits for it */
    answer->reason = verdict->reason;
    answer->plan = verdict->plan;
    answer->count = 1;
    answer->cost_units = cost;
    answer->delay_ns = verdict->shadow != 0 ? 0 : verdict->delay_ns;
    answer->retry_after_ns = verdict->retry_after_ns;
    answer->decided_ns = now;
}

void wr_engine_check_one(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                         int64_t cost, int64_t now, struct weir_answer *answer)
{
    const struct wr_bound_limit *bound = &engine->limits[limit];
    struct wr_charge charge;

    memset(answer, 0, sizeof *answer);
    if (engine->shares && bound->policy->shared &&
        !bound->policy->unlimited[engine->default_plan]) {
        wr_shared_check(engine, limit, key, cost, false, now, answer);
        return;
    }
    if (bound->usage != NULL) {
        wr_customer_check(engine, limit, key, cost, now, answer);
    } else if (bound->policy->unlimited[engine->default_plan]) {
        wr_engine_check(engine, limit, key, cost, now, &answer->verdicts[0]);
    } else {
        wr_bound_charge(engine, limit, engine->default_plan, wr_bound_hash(engine, limit, key),
                        cost, &charge);
        take(engine, limit, &charge, now, answer);
    }
    describe(answer, cost, now);
}

int wr_engine_reset(struct wr_engine *engine, unsigned limit, struct weir_slice key)
{
    return wr_slot_drop(engine->arena, wr_bound_hash(engine, limit, key));
}
