/* plans.c - the section `identity.plan`: which plan a caller has.
 *
 * A plan is a number from 0; number 0 is the default one. Plans are known by being named: as the
 * default, for a key, or in the rates of a limit; or, where there is one, in the section `plans`
 * (plan_list.c), and then all those must be there.
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

/* Where there is a section `plans`, is |name| in it? */
static bool is_listed(struct wr_loader *ld, const struct wr_yaml *at, const char *name)
{
    const struct wr_yaml *list = ld->sections[WR_SECTION_PLANS];
    const char *names[WR_POLICY_PLANS_MAX], *near;
    size_t count = 0;

    if (list == NULL || list->kind != WR_YAML_MAP)
        return true;
    for (const struct wr_yaml *value = list->first; value != NULL; value = value->next) {
        if (strcmp(value->key->text, name) == 0)
            return true;
        if (count < WR_POLICY_PLANS_MAX)
            names[count++] = value->key->text;
    }
    near = wr_nearest(name, names, count, sizeof names[0]);
    if (near != NULL) /* near a name of a plan, so it is no key that stands on the wrong side */
        wr_error(ld, at, "expected one of plans, found \"%.40s\" (did you mean %s?)", name, near);
    else
        wr_error(ld, at, "expected one of plans, found another");
    return false;
}

static int add_plan(struct wr_loader *ld, const struct wr_yaml *at, const char *name)
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

int wr_add_plan(struct wr_loader *ld, const struct wr_yaml *at, const char *name)
{
    int known = wr_find_plan(ld->policy, (struct weir_slice){name, strlen(name)});

    if (known >= 0)
        return known;
    return is_listed(ld, at, name) ? add_plan(ld, at, name) : -1;
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
    if (reading.default_plan != NULL)
        (void)is_listed(ld, reading.default_plan, name);
    (void)add_plan(ld, value, name);
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

/* Those in the values of a quota that may differ by plan. */
static void add_quota_names(struct wr_loader *ld, const struct wr_yaml *quota)
{
    static const char *const by_plan[] = {"limit", "on_exceed", "grace", "ceiling"};

    for (const struct wr_yaml *value = quota->first; value != NULL; value = value->next)
        for (size_t i = 0; i < sizeof by_plan / sizeof by_plan[0]; i++)
            if (strcmp(value->key->text, by_plan[i]) == 0)
                add_names(ld, value);
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
            else if (strcmp(value->key->text, "quota") == 0 && value->kind == WR_YAML_MAP)
                add_quota_names(ld, value);
    }
}
