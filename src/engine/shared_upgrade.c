/* shared_upgrade.c - a customer who has come to the end of a quota that all nodes share, and moves
 * to the next plan.
 *
 * As on one machine (ballot.c): he moves when quotas that say on_exceed: upgrade are all that
 * refuses, under a plan that is his own, one step at a time. What differs is where the refusal
 * comes from: a cell of this host, or the store, after the request was asked for. The store's word
 * comes late, so the request is begun anew by who has it: with the next plan everything may be
 * another (cost, limits, routes).
 *
 * A lease that refuses is never a quota's of this kind: those are not leased. Each node moves him
 * in its own files when he first meets the end there; nodes tell each other nothing. */
#include "engine/shared_parts.h"
#include "policy/quota.h"

uint32_t wr_pending_refusing(const struct wr_engine *engine, const struct wr_pending *p,
                             uint32_t *quotas)
{
    const struct wr_ballot *b = &p->ballot;
    uint32_t refusing = 0;

    *quotas = 0;
    for (unsigned i = 0; i < b->count; i++) {
        bool lease = wr_bit(p->leased & ~p->asked, i);
        uint32_t bit = UINT32_C(1) << i;

        if ((!wr_bit(b->here, i) && !lease) || b->charge[i].take.allowed ||
            !wr_ballot_enforced(engine, b, i))
            continue;
        refusing |= bit;
        if (wr_bit(b->cells & b->here, i) && !b->charge[i].busy)
            *quotas |= bit;
    }
    return refusing;
}

/* Where the quota that is limit |i| moves its customer to; -1: it does not, or is none. */
static int next_plan(const struct wr_engine *engine, const struct wr_pending *p, unsigned i)
{
    const struct wr_policy_quota *quota = engine->limits[p->ballot.limit[i]].policy->quota;

    if (quota == NULL || !quota->exact ||
        quota->plan[p->ballot.plan].on_exceed != WR_EXCEED_UPGRADE)
        return -1;
    return quota->plan[p->ballot.plan].upgrade_to;
}

int wr_pending_upgrade(struct wr_engine *engine, const struct wr_pending *p, uint32_t refusing,
                       uint32_t quotas, int64_t now)
{
    int plan = -1;

    if (!p->is_his_plan || (refusing & ~quotas) != 0)
        return -1;
    for (; refusing != 0; refusing &= refusing - 1) {
        plan = next_plan(engine, p, (unsigned)__builtin_ctz(refusing));
        if (plan < 0)
            return -1;
    }
    return plan >= 0 && wr_known_want(engine, &p->seen, p->peek, now) ? plan : -1;
}

/* ---- one limit and one key ----------------------------------------------------------------- */

void wr_shared_select_plain(const struct wr_engine *engine, unsigned limit, struct weir_slice key,
                            int64_t cost, struct wr_selection *out)
{
    struct wr_selected *selected = &out->selected[0];

    out->plan = engine->default_plan;
    out->cost = cost;
    out->banned = false;
    out->over_max = false;
    out->customer_known = false;
    out->count = 1;
    selected->limit = (uint16_t)limit;
    selected->deny_missing = false;
    selected->parts = 1;
    selected->part[0] = (struct wr_key_part){key, WR_PART_VALUE};
}

/* The plan of |customer|, the next one where he is to have that already; -1: none that there is. */
static int plan_of(struct wr_engine *engine, const struct wr_customer_seen *customer)
{
    int plan = wr_known_plan(engine, customer), next = -1;

    if (plan >= 0 && (customer->flags & WR_CUSTOMER_WANTS_UPGRADE) != 0 && !engine->known->confirm)
        next = wr_policy_upgrade(engine->policy, (size_t)plan);
    return next >= 0 ? next : plan;
}

bool wr_shared_select(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                      int64_t now, struct wr_selection *out)
{
    int plan;

    wr_shared_select_plain(engine, limit, key, cost, out);
    if (!wr_known_find(engine, key, now, &out->customer))
        return false;
    plan = plan_of(engine, &out->customer);
    out->customer_known = true;
    out->plan_from = plan >= 0 ? WR_PLAN_CUSTOMER : WR_PLAN_DEFAULT;
    if (plan >= 0)
        out->plan = (unsigned)plan;
    out->selected[0].part[0] = (struct wr_key_part){
        {(const char *)&out->customer.id, sizeof out->customer.id}, WR_PART_CUSTOMER};
    return !engine->limits[limit].policy->unlimited[out->plan];
}
