/* bound_envoy.c - classes for envoyproxy/ratelimit's rules, and for limits that come with
 * questions.
 *
 * The second kind is found in a small table that only grows: a key is claimed by one swap, its
 * class is stored when it is known. Whoever meets a claimed key without a class asks the arena as
 * well, which gives both the same number. */
#include "engine/bound_envoy.h"

#include <stdlib.h>

#include "engine/envoy.h"

static int class_of(struct wr_engine *engine, const struct wr_limit *limit, uint16_t *class_id)
{
    struct wr_class spec;

    memset(&spec, 0, sizeof spec);
    memcpy(spec.params, limit, sizeof *limit);
    return wr_class_set_take(&engine->classes, &spec, class_id);
}

int wr_envoy_bind(struct wr_engine *engine)
{
    const struct wr_envoy *envoy = wr_policy_envoy(engine->policy);
    size_t rules = envoy != NULL ? wr_envoy_rule_count(envoy) : 0;

    if (envoy == NULL)
        return 0;
    engine->envoy_stride = (rules * WR_ENVOY_STATS + 7) / 8 * 8;
    engine->envoy_classes = calloc(rules + 1, sizeof *engine->envoy_classes);
    engine->overrides = calloc(WR_OVERRIDES_MAX, sizeof *engine->overrides);
    engine->envoy_stats = calloc(engine->envoy_stride * WR_ENVOY_LANES + 1, sizeof(uint64_t));
    if (engine->envoy_classes == NULL || engine->overrides == NULL || engine->envoy_stats == NULL)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < rules; i++) {
        const struct wr_envoy_rule *rule = wr_envoy_rule(envoy, i);
        int result;
        if (rule->unlimited)
            continue;
        result = class_of(engine, &rule->limit, &engine->envoy_classes[i]);
        if (result != 0)
            return result;
    }
    return 0;
}

void wr_envoy_unbind(struct wr_engine *engine)
{
    free(engine->envoy_stats);
    free(engine->overrides);
    free(engine->envoy_classes);
}

/* The entry of |key|, claimed if it is new; NULL: the table is full. */
static struct wr_override *find(struct wr_override *table, uint64_t key)
{
    size_t at = (size_t)(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) % WR_OVERRIDES_MAX;

    for (size_t i = 0; i < WR_OVERRIDES_MAX; i++) {
        struct wr_override *entry = &table[(at + i) % WR_OVERRIDES_MAX];
        uint64_t have = __atomic_load_n(&entry->key, __ATOMIC_ACQUIRE);
        if (have == 0 && __atomic_compare_exchange_n(&entry->key, &have, key, false,
                                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
            have = key;
        if (have == key)
            return entry;
    }
    return NULL;
}

int wr_overrides_class(struct wr_engine *engine, uint32_t units, uint8_t unit,
                       const struct wr_limit *limit, uint16_t *class_id)
{
    struct wr_override *entry = find(engine->overrides, (uint64_t)unit << 32 | units);
    int result;

    *class_id = 0;
    if (entry == NULL)
        return WEIR_EFULL;
    *class_id = __atomic_load_n(&entry->class_id, __ATOMIC_ACQUIRE);
    if (*class_id != 0)
        return 0;
    result = class_of(engine, limit, class_id);
    if (result == 0)
        __atomic_store_n(&entry->class_id, *class_id, __ATOMIC_RELEASE);
    return result;
}
