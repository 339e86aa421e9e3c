/* plan_list.c - the section `plans`: what each plan has of its own.
 *
 * Problem. A person who sells plans thinks of one plan at a time; decisions are made one limit at a
 * time. Both ways of writing must come to the same, and a plan that is named nowhere else must not
 * slip in by a mistake of spelling.
 *
 * Idea. Before the limits are read, each plan's values are filed by the name of the limit that they
 * are for; limits ask for them as for the entries of their own maps. What was never asked for names
 * no limit.
 *
 * Invariants:
 *   1. With the section, there are no plans but those in it, and `default` where identity.plan
 *      names no other.
 *   2. upgrades[] is without cycles, whatever the file says. */
#include <string.h>

#include "policy/loader.h"

#define UNUSED_REPORTED_MAX 20U /* of values that are for no limit */

/* ---- one plan ---------------------------------------------------------------------------- */

#define BODY_READER(name, member)                                                   \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        (void)ld;                                                                   \
        ((struct wr_plan_body *)into)->member = value;                              \
    }
BODY_READER(on_limits, limits)
BODY_READER(on_quotas, quotas)
BODY_READER(on_costs, costs)
BODY_READER(on_routes, routes)
BODY_READER(on_upgrade_to, upgrade_to)

static bool is_nothing(const struct wr_yaml *node)
{
    return node->kind == WR_YAML_SCALAR && node->len == 0;
}

/* The plan's index; -1 after an error. */
static int read_body(struct wr_loader *ld, const struct wr_yaml *value)
{
    static const struct wr_key keys[] = {{"limits", on_limits},
                                         {"quotas", on_quotas},
                                         {"costs", on_costs},
                                         {"routes", on_routes},
                                         {"upgrade_to", on_upgrade_to}};
    static const struct wr_map_spec spec = {"a plan", keys, sizeof keys / sizeof keys[0], false};
    const char *name;
    int plan;

    if (!wr_read_name(ld, value->key, "plan", &name))
        return -1;
    plan = wr_add_plan(ld, value->key, name);
    if (plan < 0)
        return -1;
    ld->rated_plans |= UINT64_C(1) << plan;
    if (!is_nothing(value))
        (void)wr_read_map(ld, value, &spec, &ld->plan_bodies[plan]);
    return plan;
}

/* ---- values for limits ------------------------------------------------------------------- */

static uint32_t count_values(const struct wr_loader *ld)
{
    uint32_t count = 0;

    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        const struct wr_plan_body *body = &ld->plan_bodies[plan];
        count += body->limits != NULL ? body->limits->count : 0;
        count += body->quotas != NULL ? body->quotas->count : 0;
    }
    return count;
}

static void file_values(struct wr_loader *ld, size_t plan, const struct wr_yaml *map, bool quota)
{
    const char *section = quota ? "quotas" : "limits";

    if (map == NULL || is_nothing(map))
        return;
    if (map->kind != WR_YAML_MAP) {
        wr_error(ld, map, "%s: expected a map from names of limits to values, found %s", section,
                 wr_found(map).text);
        return;
    }
    for (const struct wr_yaml *value = map->first; value != NULL; value = value->next) {
        bool added;
        if (wr_table_add(&ld->names, ld->scratch, WR_NAME_PLAN_VALUE + (uint32_t)plan,
                         wr_slice_of(value->key), ld->plan_value_count, &added) == NULL)
            return;
        if (added)
            ld->plan_values[ld->plan_value_count++] = (struct wr_plan_value){value, quota, false};
        else
            wr_error(ld, value->key, "%s: expected %s once in a plan, found it again", section,
                     wr_found(value->key).text);
    }
}

const struct wr_yaml *wr_plan_says(struct wr_loader *ld, size_t plan, const char *name, bool quota)
{
    const struct wr_table_entry *entry;
    struct wr_plan_value *value;

    if (ld->plan_value_count == 0 || name == NULL)
        return NULL;
    entry = wr_table_find(&ld->names, WR_NAME_PLAN_VALUE + (uint32_t)plan,
                          (struct weir_slice){name, strlen(name)});
    if (entry == NULL)
        return NULL;
    value = &ld->plan_values[entry->value];
    if (value->quota != quota)
        return NULL;
    value->used = true;
    return value->value;
}

/* |value| is for no limit of its kind. */
static void say_unused(struct wr_loader *ld, const struct wr_plan_value *value)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_yaml *key = value->value->key;
    const char *section = value->quota ? "quotas" : "limits", *near;

    for (size_t i = 0; i < policy->limit_count; i++) {
        if (policy->limits[i].name == NULL || strcmp(policy->limits[i].name, key->text) != 0)
            continue;
        if ((policy->limits[i].quota != NULL) == value->quota)
            return; /* not asked for, as something else is wrong with it */
        wr_error(ld, key, "%s: %s is %s: expected it under %s", section, policy->limits[i].name,
                 value->quota ? "a limit without quota" : "a quota",
                 value->quota ? "limits" : "quotas");
        return;
    }
    near = policy->limit_count > 0 ? wr_nearest(key->text, &policy->limits[0].name,
                                                policy->limit_count, sizeof policy->limits[0])
                                   : NULL;
    wr_error(ld, key, "%s: expected the name of a limit, found %s%s%s%s", section,
             wr_found(key).text, near != NULL ? " (did you mean " : "", near != NULL ? near : "",
             near != NULL ? "?)" : "");
}

void wr_check_plan_values(struct wr_loader *ld)
{
    unsigned unused = 0;

    for (size_t i = 0; i < ld->policy->limit_count; i++)
        if (ld->policy->limits[i].name == NULL)
            ld->policy->limits[i].name = "";
    for (uint32_t i = 0; i < ld->plan_value_count && unused < UNUSED_REPORTED_MAX; i++) {
        if (ld->plan_values[i].used)
            continue;
        say_unused(ld, &ld->plan_values[i]);
        unused++;
    }
}

/* ---- upgrades ---------------------------------------------------------------------------- */

static void read_upgrade(struct wr_loader *ld, size_t plan)
{
    struct wr_policy *policy = ld->policy;
    const struct wr_yaml *node = ld->plan_bodies[plan].upgrade_to;
    const char *near = NULL;
    int to = -1;

    if (node == NULL)
        return;
    if (wr_is_text(node)) {
        to = wr_find_plan(policy, wr_slice_of(node));
        near = wr_nearest(node->text, policy->plans, policy->plan_count, sizeof policy->plans[0]);
    }
    if (to < 0)
        wr_error(ld, node, "upgrade_to: expected one of plans, found %s%s%s%s", wr_found(node).text,
                 near != NULL ? " (did you mean " : "", near != NULL ? near : "",
                 near != NULL ? "?)" : "");
    else if (to == (int)plan)
        wr_error(ld, node, "upgrade_to: expected another plan, found %s itself",
                 policy->plans[plan]);
    else
        policy->upgrades[plan] = (int8_t)to;
}

/* Each plan begins at most one step, so a walk of more steps than plans goes round. */
static void cut_cycles(struct wr_loader *ld)
{
    struct wr_policy *policy = ld->policy;

    for (size_t plan = 0; plan < policy->plan_count; plan++) {
        int at = (int)policy->upgrades[plan];
        size_t steps = 0;
        while (at >= 0 && at != (int)plan && steps++ < policy->plan_count)
            at = (int)policy->upgrades[at];
        if (at != (int)plan)
            continue;
        wr_error(ld, ld->plan_bodies[plan].upgrade_to,
                 "upgrade_to: from %s, upgrades come back to %s", policy->plans[plan],
                 policy->plans[plan]);
        policy->upgrades[plan] = -1;
    }
}

/* ---- routes ------------------------------------------------------------------------------ */

struct routes_reading {
    uint32_t plan;
};

static void read_patterns(struct wr_loader *ld, const struct wr_yaml *value,
                          enum wr_pattern_use use, uint32_t plan)
{
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item))
        wr_read_pattern(ld, item, use, plan);
}

static void read_deny(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_patterns(ld, value, WR_USE_PLAN_DENY, ((struct routes_reading *)into)->plan);
}

static void read_allow(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    uint32_t plan = ((struct routes_reading *)into)->plan;

    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "allow: expected at least one path pattern, found an empty list");
    ld->policy->listing_plans |= UINT64_C(1) << plan;
    read_patterns(ld, value, WR_USE_PLAN_ALLOW, plan);
}

void wr_read_plan_routes(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {{"deny", read_deny}, {"allow", read_allow}};
    static const struct wr_map_spec spec = {"routes", keys, sizeof keys / sizeof keys[0], false};

    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        struct routes_reading reading = {(uint32_t)plan};
        if (ld->plan_bodies[plan].routes != NULL)
            (void)wr_read_map(ld, ld->plan_bodies[plan].routes, &spec, &reading);
    }
}

/* ---- the section ------------------------------------------------------------------------- */

void wr_read_plan_list(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_PLANS];

    if (node == NULL)
        return;
    if (node->kind != WR_YAML_MAP) {
        wr_error(ld, node, "plans: expected a map from names of plans to what they have, found %s",
                 wr_found(node).text);
        return;
    }
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next)
        (void)read_body(ld, value);
    ld->plan_values = wr_region_take(ld->scratch, count_values(ld), sizeof *ld->plan_values);
    if (ld->plan_values == NULL)
        return;
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        file_values(ld, plan, ld->plan_bodies[plan].limits, false);
        file_values(ld, plan, ld->plan_bodies[plan].quotas, true);
        read_upgrade(ld, plan);
    }
    cut_cycles(ld);
}
