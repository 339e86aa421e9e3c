/* bound.h - a policy bound to an arena: what the files of the engine share. */
#ifndef WR_ENGINE_BOUND_H
#define WR_ENGINE_BOUND_H

#include "base/siphash.h"
#include "engine/charge.h"
#include "engine/customer.h"
#include "engine/engine.h"
#include "engine/tag.h"

/* One limit of the policy, bound. */
struct wr_bound_limit {
    struct wr_sip prefix; /* after the limit's name: keys of limits never collide */
    const struct wr_policy_limit *policy;
    const uint16_t *class_ids;   /* one for each plan */
    struct wr_usage *usage;      /* a quota whose counts are billed on: its cells; else NULL */
    struct wr_usage *account;    /* a quota that is shared: what this host let through */
    struct wr_quota_rule *rules; /* with them: one for each plan */
};

struct wr_engine {
    const struct wr_policy *policy;
    struct wr_arena *arena;
    struct wr_class_set classes; /* that this policy uses, as long as it lives */
    unsigned default_plan;
    size_t limit_count, plan_count;
    struct wr_bound_limit *limits;
    uint16_t *class_ids; /* limit_count rows of one for each plan */

    /* Where limits are shared. shared.h. */
    bool shares;           /* some limit is, and counts as such */
    struct wr_sip *leases; /* limit_count rows of one for each plan: as prefix, for their leases */
    struct wr_limit lease; /* the limit of all leases, and its class */
    struct wr_limit told;  /* likewise, of what the store said of them */
    uint16_t lease_class, told_class;
    struct wr_tag_base tag_base;
    uint64_t
        *parts; /* limit_count rows of one for each plan, atomic: nodes << 16 | class. part.h */

    struct wr_known *known; /* who the customers are; NULL: nobody is known. customer.h */

    /* Of envoyproxy/ratelimit's configuration; NULL where the policy has none. bound_envoy.h. */
    uint16_t *envoy_classes; /* one for each rule */
    struct wr_override *overrides;
    uint64_t *envoy_stats; /* WR_ENVOY_LANES rows */
    size_t envoy_stride;   /* counters of one row */
};

/* Prepare a charge of |cost| against |limit| under |plan| for the key with |hash|. */
static inline void wr_bound_charge(const struct wr_engine *engine, unsigned limit, unsigned plan,
                                   uint64_t hash, int64_t cost, struct wr_charge *out)
{
    const struct wr_bound_limit *bound = &engine->limits[limit];

    out->limit = &bound->policy->by[plan];
    out->class_id = bound->class_ids[plan];
    out->hash = hash;
    out->cost = cost;
}

/* The hash of a key of one value. */
static inline uint64_t wr_bound_hash(const struct wr_engine *engine, unsigned limit,
                                     struct weir_slice key)
{
    struct wr_sip sip = engine->limits[limit].prefix;

    wr_sip_part(&sip, WR_PART_VALUE, key.ptr, key.len);
    return wr_sip_finish(sip);
}

/* The hash of a key of the parts that were selected. */
static inline uint64_t wr_bound_hash_parts(const struct wr_engine *engine,
                                           const struct wr_selected *selected)
{
    struct wr_sip sip = engine->limits[selected->limit].prefix;

    for (unsigned i = 0; i < selected->parts; i++)
        wr_sip_part(&sip, selected->part[i].kind, selected->part[i].bytes.ptr,
                    selected->part[i].bytes.len);
    return wr_sip_finish(sip);
}

/* As wr_engine_times, of the priv of a verdict under |limit|. */
void wr_bound_times(const struct wr_limit *limit, const uint64_t priv[2], int64_t now,
                    int64_t *next_ns, int64_t *reset_ns);

/* The class of |limit| in an arena. */
void wr_bound_class(const struct wr_limit *limit, struct wr_class *out);

/* The verdict of a limit that does not apply to |plan|: passes, and says so. */
void wr_bound_unlimited(unsigned limit, unsigned plan, struct weir_verdict *out);

/* Write what |charge| came to into a verdict. */
void wr_bound_verdict(const struct wr_engine *engine, const struct wr_charge *charge,
                      unsigned limit, unsigned plan, struct weir_verdict *out);

#endif
