/* engine.c - binding a policy to an arena, and the decision by one limit and one key. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "algo/concurrency.h"
#include "algo/lease.h"
#include "algo/sliding_log.h"
#include "algo/told.h"
#include "base/arith.h"
#include "engine/bound_envoy.h"
#include "engine/shared.h"
#include "engine/tag.h"
#include "engine/word.h"

#define BATCH                                                                          \
    16 /* keys whose cache misses overlap: 33 ns a decision instead of 174 on 1 M keys \
        */

bool wr_engine_judge(const unsigned char params[WR_CLASS_PARAMS], uint64_t value, int64_t now_ns,
                     struct wr_worth *out)
{
    struct wr_limit limit;

    _Static_assert(sizeof limit == WR_CLASS_PARAMS, "a class holds a limit");
    memcpy(&limit, params, sizeof limit);
    *out = (struct wr_worth){0, 0};
    if (!wr_limit_valid(&limit))
        return false;
    out->window_ns = limit.window_ns;
    if (wr_limit_is_word(&limit)) {
        out->used_q32 = wr_word_algo((enum wr_algo)limit.algo)->used_q32(&limit, value, now_ns);
    } else if (limit.units > 0) {
        uint64_t stamps = wr_min_u64(value, (uint64_t)limit.units);
        out->used_q32 = wr_muldiv_ceil(stamps, UINT64_C(1) << 32, (uint64_t)limit.units);
    }
    return true;
}

void wr_bound_class(const struct wr_limit *limit, struct wr_class *out)
{
    memset(out, 0, sizeof *out);
    memcpy(out->params, limit, sizeof *limit);
    if (!wr_limit_is_word(limit)) {
        out->log_window_ns = limit->window_ns;
        out->log_tick_ns = limit->tick_ns;
    }
}

static int bind_limit(struct wr_engine *engine, size_t index, size_t plans)
{
    struct wr_bound_limit *bound = &engine->limits[index];
    uint16_t *ids = engine->class_ids + index * plans;

    bound->policy = wr_policy_limit(engine->policy, index);
    bound->class_ids = ids;
    bound->prefix = wr_sip_init(wr_arena_secret(engine->arena));
    wr_sip_part(&bound->prefix, 0, bound->policy->name, strlen(bound->policy->name));
    for (size_t plan = 0; plan < plans; plan++) {
        struct wr_class spec;
        int result;

        ids[plan] = plan > 0 ? ids[0] : 0;
        if (bound->policy->unlimited[plan] || (plan > 0 && !bound->policy->by_plan))
            continue;
        wr_bound_class(&bound->policy->by[plan], &spec);
        result = wr_class_set_take(&engine->classes, &spec, &ids[plan]);
        if (result != 0)
            return result;
    }
    return 0;
}

/* By the numbers of the limit, not the plan's: plans that are alike share, and a plan whose rate is
 * changed by a reload begins anew. */
static struct wr_sip lease_prefix(const struct wr_engine *engine,
                                  const struct wr_policy_limit *limit, size_t plan)
{
    static const char lease[] = "lease";
    struct wr_sip sip = wr_sip_init(wr_arena_secret(engine->arena));
    struct wr_class spec;

    wr_bound_class(wr_policy_at_store(limit, plan), &spec);
    wr_sip_part(&sip, 0xff, lease, sizeof lease - 1);
    wr_sip_part(&sip, 0, limit->name, strlen(limit->name));
    wr_sip_part(&sip, 0, spec.params, sizeof spec.params);
    return sip;
}

static bool any_shared(const struct wr_engine *engine)
{
    for (size_t i = 0; i < engine->limit_count; i++)
        if (engine->limits[i].policy->shared)
            return true;
    return false;
}

/* What shared limits need besides. */
static int bind_shared(struct wr_engine *engine, size_t plans)
{
    const struct wr_policy_store *store = wr_policy_settings(engine->policy)->store;
    struct wr_class spec;
    int rc;

    engine->shares = any_shared(engine);
    if (!engine->shares)
        return 0;
    engine->parts = calloc(engine->limit_count * plans, sizeof *engine->parts);
    engine->leases = calloc(engine->limit_count * plans, sizeof *engine->leases);
    if (engine->parts == NULL || engine->leases == NULL)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < engine->limit_count * plans; i++)
        engine->leases[i] = lease_prefix(engine, engine->limits[i / plans].policy, i % plans);
    wr_tag_base(&engine->tag_base, store->secret,
                store->secret != NULL ? strlen(store->secret) : 0);
    engine->lease = wr_lease_limit();
    wr_bound_class(&engine->lease, &spec);
    rc = wr_class_set_take(&engine->classes, &spec, &engine->lease_class);
    if (rc != 0)
        return rc;
    engine->told = wr_told_limit();
    wr_bound_class(&engine->told, &spec);
    return wr_class_set_take(&engine->classes, &spec, &engine->told_class);
}

void wr_engine_store_secret(struct wr_engine *engine, const void *secret, size_t len)
{
    wr_tag_base(&engine->tag_base, secret, len);
}

void wr_engine_keep_local(struct wr_engine *engine)
{
    engine->shares = false;
}

/* Each limit gets its class, in one visit to the table of classes. */
static int bind(struct wr_engine *engine, size_t plans)
{
    int result = wr_class_set_begin(&engine->classes);

    if (result != 0)
        return result;
    for (size_t i = 0; i < engine->limit_count && result == 0; i++)
        result = bind_limit(engine, i, plans);
    if (result == 0)
        result = bind_shared(engine, plans);
    if (result == 0)
        result = wr_envoy_bind(engine);
    wr_class_set_end(&engine->classes);
    return result;
}

int wr_engine_new(struct wr_engine **out, const struct wr_policy *policy, struct wr_arena *arena)
{
    size_t limits = wr_policy_limit_count(policy);
    size_t plans = wr_policy_plan_count(policy);
    struct wr_engine *engine = calloc(1, sizeof *engine);
    int result = WEIR_ENOMEM;

    *out = NULL;
    if (engine == NULL)
        return WEIR_ENOMEM;
    engine->policy = policy;
    engine->arena = arena;
    wr_class_set_init(&engine->classes, arena);
    engine->default_plan = wr_policy_default_plan(policy);
    engine->limit_count = limits;
    engine->plan_count = plans;
    engine->limits = calloc(limits + 1, sizeof *engine->limits);
    engine->class_ids = calloc(limits * plans + 1, sizeof *engine->class_ids);
    if (engine->limits != NULL && engine->class_ids != NULL)
        result = bind(engine, plans);
    if (result != 0)
        wr_engine_free(engine);
    else
        *out = engine;
    return result;
}

void wr_engine_free(struct wr_engine *engine)
{
    if (engine == NULL)
        return;
    wr_class_set_leave(&engine->classes);
    wr_envoy_unbind(engine);
    wr_known_close(engine);
    free(engine->parts);
    free(engine->leases);
    free(engine->class_ids);
    free(engine->limits);
    free(engine);
}

static uint8_t reason_of(const struct wr_charge *charge)
{
    if (charge->take.allowed)
        return WEIR_REASON_NONE;
    if (charge->busy)
        return WEIR_REASON_BUSY;
    if (!charge->take.never)
        return WEIR_REASON_LIMIT;
    return wr_limit_capacity(charge->limit) == 0 ? WEIR_REASON_ZERO : WEIR_REASON_CAPACITY;
}

void wr_bound_verdict(const struct wr_engine *engine, const struct wr_charge *charge,
                      unsigned limit, unsigned plan, struct weir_verdict *out)
{
    const struct wr_take *take = &charge->take;
    bool word = wr_limit_is_word(charge->limit);

    out->outcome = take->allowed ? (take->delay_ns > 0 ? WEIR_DELAY : WEIR_ALLOW) : WEIR_DENY;
    out->reason = reason_of(charge);
    out->shadow = engine->limits[limit].policy->shadow;
    out->plan = (uint8_t)plan;
    out->limit = (uint16_t)limit;
    out->flags = 0;
    out->capacity_units = wr_limit_capacity(charge->limit);
    out->remaining_units = take->remaining;
    out->retry_after_ns = take->never ? WEIR_NEVER : take->retry_after_ns;
    out->delay_ns = take->delay_ns;
    out->priv[0] = word ? take->told : (uint64_t)charge->oldest_ns;
    out->priv[1] = word ? 0 : (uint64_t)charge->newest_ns;
}

void wr_bound_unlimited(unsigned limit, unsigned plan, struct weir_verdict *out)
{
    *out = (struct weir_verdict){.outcome = WEIR_ALLOW,
                                 .plan = (uint8_t)plan,
                                 .limit = (uint16_t)limit,
                                 .capacity_units = INT64_MAX,
                                 .remaining_units = INT64_MAX};
}

static void check_hashed(struct wr_engine *engine, unsigned limit, uint64_t hash, int64_t cost,
                         int64_t now, struct weir_verdict *out)
{
    struct wr_charge charge;
    unsigned plan = engine->default_plan;

    if (engine->limits[limit].policy->unlimited[plan]) {
        wr_bound_unlimited(limit, plan, out);
        return;
    }
    wr_bound_charge(engine, limit, plan, hash, cost, &charge);
    if (wr_limit_is_word(charge.limit)) {
        wr_word_take(engine->arena, &charge, now);
    } else {
        wr_charge_evaluate(engine->arena, &charge, now);
        wr_charge_commit(engine->arena, &charge, now, NULL);
    }
    if (!charge.take.allowed && charge.limit->count_denied)
        wr_charge_force(engine->arena, &charge, now);
    wr_bound_verdict(engine, &charge, limit, plan, out);
}

static __attribute__((noinline)) void check_shared(struct wr_engine *engine, unsigned limit,
                                                   struct weir_slice key, int64_t cost, int64_t now,
                                                   struct weir_verdict *out)
{
    struct weir_answer answer;

    if (now == WEIR_NOW)
        now = wr_arena_now(engine->arena);
    wr_shared_check(engine, limit, key, cost, true, now, &answer);
    *out = answer.verdicts[0];
}

static __attribute__((noinline)) void check_customer(struct wr_engine *engine, unsigned limit,
                                                     struct weir_slice key, int64_t cost,
                                                     int64_t now, struct weir_verdict *out)
{
    struct weir_answer answer;

    if (now == WEIR_NOW)
        now = wr_arena_now(engine->arena);
    wr_customer_check(engine, limit, key, cost, now, &answer);
    *out = answer.verdicts[0];
}

void wr_engine_check(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                     int64_t now, struct weir_verdict *out)
{
    uint64_t hash;

    if (engine->shares && engine->limits[limit].policy->shared &&
        !engine->limits[limit].policy->unlimited[engine->default_plan]) {
        check_shared(engine, limit, key, cost, now, out);
        return;
    }
    if (engine->limits[limit].usage != NULL) {
        check_customer(engine, limit, key, cost, now, out);
        return;
    }
    hash = wr_bound_hash(engine, limit, key);
    if (now == WEIR_NOW) {
        wr_slot_prefetch(engine->arena, hash);
        now = wr_arena_now(engine->arena);
    }
    check_hashed(engine, limit, hash, cost, now, out);
}

void wr_engine_check_batch(struct wr_engine *engine, const struct weir_charge *charges, size_t n,
                           int64_t now, struct weir_verdict *out)
{
    uint64_t hashes[BATCH];

    for (size_t i = 0; i < n && engine->shares; i++)
        wr_engine_check(engine, charges[i].limit, charges[i].key, charges[i].cost_units, now,
                        &out[i]);
    if (engine->shares)
        return;
    for (size_t start = 0; start < n; start += BATCH) {
        size_t count = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < count; i++) {
            const struct weir_charge *charge = &charges[start + i];
            hashes[i] = wr_bound_hash(engine, charge->limit, charge->key);
            wr_slot_prefetch(engine->arena, hashes[i]);
        }
        if (now == WEIR_NOW)
            now = wr_arena_now(engine->arena);
        for (size_t i = 0; i < count; i++) {
            const struct weir_charge *charge = &charges[start + i];
            if (engine->limits[charge->limit].usage != NULL)
                check_customer(engine, charge->limit, charge->key, charge->cost_units, now,
                               &out[start + i]);
            else
                check_hashed(engine, charge->limit, hashes[i], charge->cost_units, now,
                             &out[start + i]);
        }
    }
}

void wr_bound_times(const struct wr_limit *limit, const uint64_t priv[2], int64_t now,
                    int64_t *next_ns, int64_t *reset_ns)
{
    *next_ns = 0;
    *reset_ns = 0;
    if (wr_limit_is_word(limit)) {
        wr_word_algo((enum wr_algo)limit->algo)->times(limit, priv[0], now, next_ns, reset_ns);
    } else if (priv[0] != 0) {
        *next_ns = wr_sliding_log_left(limit, (int64_t)priv[0], now);
        *reset_ns = wr_sliding_log_left(limit, (int64_t)priv[1], now);
    }
}

void wr_engine_times(const struct wr_engine *engine, const struct weir_verdict *verdict,
                     int64_t now, int64_t *next_ns, int64_t *reset_ns)
{
    const struct wr_policy_limit *policy;

    *next_ns = 0;
    *reset_ns = 0;
    if ((verdict->flags & WR_VERDICT_MOMENTS) != 0) {
        *next_ns = wr_max_i64(0, (int64_t)verdict->priv[0] - now);
        *reset_ns = wr_max_i64(0, (int64_t)verdict->priv[1] - now);
        return;
    }
    if (verdict->limit >= engine->limit_count ||
        verdict->plan >= wr_policy_plan_count(engine->policy))
        return;
    policy = engine->limits[verdict->limit].policy;
    if (policy->unlimited[verdict->plan])
        return;
    wr_bound_times(&policy->by[verdict->plan], verdict->priv, now, next_ns, reset_ns);
}
