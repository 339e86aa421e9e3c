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
