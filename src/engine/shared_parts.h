/* shared_parts.h - what shared.c and shared_finish.c have in common. */
#ifndef WR_ENGINE_SHARED_PARTS_H
#define WR_ENGINE_SHARED_PARTS_H

#include "engine/shared.h"

static inline bool wr_bit(uint32_t bits, unsigned i)
{
    return (bits >> i & 1) != 0;
}

/* What the store decides limit |i| of |p| by, under the request's plan. */
static inline const struct wr_limit *wr_pending_limit(const struct wr_engine *engine,
                                                      const struct wr_pending *p, unsigned i)
{
    return wr_policy_at_store(engine->limits[p->ballot.limit[i]].policy, p->ballot.plan);
}

/* How much a store admits beyond what callers are told of |policy|: a quota's grace, or overage. */
static inline int64_t wr_beyond_limit(const struct wr_policy_limit *policy, unsigned plan)
{
    return wr_policy_at_store(policy, plan)->units - policy->by[plan].units;
}

/* |p| is refused: by the limits of |refusing|, of which those of |quotas| are quotas that have
 * spoken themselves. If all are quotas that say on_exceed: upgrade, the customer wants to be
 * upgraded (but of a peek), and where that holds at once, the next plan; otherwise -1. */
int wr_pending_upgrade(struct wr_engine *engine, const struct wr_pending *p, uint32_t refusing,
                       uint32_t quotas, int64_t now);

/* Those of the ballot that refuse and decide, and the quotas among them. */
uint32_t wr_pending_refusing(const struct wr_engine *engine, const struct wr_pending *p,
                             uint32_t *quotas);

/* One limit and one key, as if a request under the default plan had met them. */
void wr_shared_select_plain(const struct wr_engine *engine, unsigned limit, struct weir_slice key,
                            int64_t cost, struct wr_selection *out);

/* The same of a quota of customers: |key| is the value of an identity that leads to one, whose plan
 * holds. False: to nobody, or to whom it is unlimited. */
bool wr_shared_select(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                      int64_t now, struct wr_selection *out);

/* Give the units that are held back to their leases. */
void wr_pending_let_go(struct wr_engine *engine, struct wr_pending *p, int64_t now);

/* The verdict of limit |i| by its lease. */
void wr_pending_verdict(const struct wr_engine *engine, const struct wr_pending *p, unsigned i,
                        int64_t now, struct weir_verdict *out);

/* A verdict that says nothing yet, of limit |i|. */
void wr_pending_blank(const struct wr_engine *engine, const struct wr_pending *p, unsigned i,
                      struct weir_verdict *out);

/* After limit and plan's rate: leases of what is judged by different numbers never mix. */
static inline struct wr_sip wr_lease_prefix(const struct wr_engine *engine, unsigned limit,
                                            unsigned plan)
{
    return engine->leases[limit * engine->plan_count + plan];
}

/* Where in the arena the lease of a key under |plan| is. */
static inline uint64_t wr_lease_hash(const struct wr_engine *engine,
                                     const struct wr_selected *selected, unsigned plan)
{
    struct wr_sip sip = wr_lease_prefix(engine, selected->limit, plan);

    for (unsigned i = 0; i < selected->parts; i++)
        wr_sip_part(&sip, selected->part[i].kind, selected->part[i].bytes.ptr,
                    selected->part[i].bytes.len);
    return wr_sip_finish(sip);
}

/* Where what the store said of a lease is: in its bucket, which is in the cache when it is looked
 * at. Bits 12 and 13 are of the fingerprint, and the last to choose the bucket. */
#define WR_TOLD_WHOLE                                                                           \
    (UINT64_C(1) << 12)                  /* units left there, and when the limit is whole again \
                                          */
#define WR_TOLD_NEXT (UINT64_C(1) << 13) /* when the refused cost passes; else, one unit more */

/* Remember |units| and |moment_ns| of the lease at |hash|, as |which|. */
void wr_told_put(struct wr_engine *engine, uint64_t hash, uint64_t which, uint64_t word,
                 int64_t now);

/* Write the receipts of what is held. */
void wr_pending_receipts(const struct wr_pending *p, struct weir_answer *answer);

#endif
