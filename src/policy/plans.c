/* plans.c - the section `identity.plan`: which plan a caller has.
 *
 * A plan is a number from 0; number 0 is the default one. Plans are known by being named: as the
 * default, for a key, or in the rates of a limit.
 *
 * Invariants:
 *   1. No message quotes a key of plan.keys: it is a secret of a caller.
 *   2. plan_count >= 1 after wr_read_plan. */
#include <string.h>

#include "policy/loader.h"

#define API_KEY "api_key"
#define PLAN_DEFAULT "default"

int wr_find_plan(const struct wr_policy *policy, struct weir_slice name)
{
    const struct wr_table_entry *entry = wr_table_find(&policy->values, WR_TAG_PLAN_NAME, name);
    return entry != NULL ? (int)entry->value : -1;
}

int wr_add_plan(struct wr_loader *ld, const struct wr_yaml *at, const char *name)
{
    struct wr_policy *policy = ld->policy;
    struct weir_slice slice = {name, strlen(name)};
    int known = wr_find_plan(policy, slice);
    bool added;

    if (known >= 0)
        return known;
    if (policy->plan_count == WR_POLICY_PLANS_MAX) {
        wr_error(ld, at, "expected at most %d plans, found more", WR_POLICY_PLANS_MAX);
        return -1;
    }
    slice.ptr = wr_region_text(ld->region, name, slice.len);
    if (slice.ptr == NULL || wr_table_add(&policy->values, ld->region, WR_TAG_PLAN_NAME, slice,
                                          (uint32_t)policy->plan_count, &added) == NULL)
        return -1;
    policy->plans[policy->plan_count] = slice.ptr;
    policy->upgrades[policy->plan_count] = -1;
    return (int)policy->plan_count++;
}

struct plan_reading {
    const struct wr_yaml *keys;
    const struct wr_yaml *default_plan;
};

static void read_plan_header(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    ld->policy->plan_field = wr_read_header(ld, value);
}

static void read_plan_default(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct plan_reading *)into)->default_plan = value;
}

static void read_plan_keys(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    if (value->kind == WR_YAML_MAP)
        ((struct plan_reading *)into)->keys = value;
    else
        wr_error(ld, value, "keys: expected a map from API keys to plans, found %s",
                 wr_found_kind(value));
}

/* plan.keys, once the identities are known. */
static void add_keys(struct wr_loader *ld, const struct wr_yaml *keys)
{
    struct wr_policy *policy = ld->policy;
    struct weir_slice api_key = {API_KEY, sizeof API_KEY - 1};
    bool added;

    policy->key_identity = wr_find_identity(policy, api_key);
    if (policy->key_identity < 0) {
        wr_error(ld, keys->key,
                 "keys: expected an identity api_key to look the keys up by, found "
                 "none in identity");
        return;
    }
    for (const struct wr_yaml *value = keys->first; value != NULL; value = value->next) {
        struct weir_slice key = wr_slice_of(value->key);
        int plan;
        if (key.len == 0) {
            wr_error(ld, value->key, "keys: expected an API key, found nothing");
            continue;
        }
        if (value->kind != WR_YAML_SCALAR || !wr_is_name(wr_slice_of(value))) {
            wr_error(ld, value, "keys: expected the name of a plan, found %s",
                     wr_found_kind(value)); /* who swaps the sides writes a key here */
            continue;
        }
        plan = wr_add_plan(ld, value, value->text);
        key.ptr = wr_keep(ld, value->key);
        if (plan >= 0 && key.ptr != NULL)
            (void)wr_table_add(&policy->values, ld->region, WR_TAG_PLAN_KEY, key, (uint32_t)plan,
                               &added);
    }
}

void wr_read_plan(struct wr_loader *ld, const struct wr_yaml *value)
{
    static const struct wr_key keys[] = {
        {"header", read_plan_header}, {"default", read_plan_default}, {"keys", read_plan_keys}};
    static const struct wr_map_spec spec = {"identity.plan", keys, sizeof keys / sizeof keys[0],
                                            true};
    struct plan_reading reading = {0};
    const char *name = PLAN_DEFAULT;

    if (value != NULL)
        (void)wr_read_map(ld, value, &spec, &reading);
    if (reading.default_plan != NULL)
        (void)wr_read_name(ld, reading.default_plan, "default", &name);
    ld->policy->default_plan = 0;
    (void)wr_add_plan(ld, value, name);
    if (reading.keys != NULL)
        add_keys(ld, reading.keys);
}

/* ---- plans named in limits --------------------------------------------------------------- */

/* The names in a map from plans to rates; anything else is read, and complained of, later. */
static void add_names(struct wr_loader *ld, const struct wr_yaml *rates)
{
    const char *name;

    _Static_assert(WR_POLICY_PLANS_MAX <= 64, "rated_plans is a word");
    if (rates->kind != WR_YAML_MAP)
        return;
    for (const struct wr_yaml *value = rates->first; value != NULL; value = value->next) {
        int plan = -1;
        if (wr_read_name(ld, value->key, "plan", &name))
            plan = wr_add_plan(ld, value->key, name);
        if (plan >= 0)
            ld->rated_plans |= UINT64_C(1) << plan;
    }
}

void wr_read_plans(struct wr_loader *ld)
{
    const struct wr_yaml *limits = ld->sections[WR_SECTION_LIMITS];

    if (limits == NULL || limits->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *limit = limits->first; limit != NULL; limit = limit->next) {
        if (limit->kind != WR_YAML_MAP)
            continue;
        for (const struct wr_yaml *value = limit->first; value != NULL; value = value->next)
            if (strcmp(value->key->text, "rate") == 0 ||
                strcmp(value->key->text, "concurrent") == 0)
                add_names(ld, value);
    }
}
