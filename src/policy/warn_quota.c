/* warn_quota.c - what is legal but unwise in quotas and plans.
 *
 * As in warn.c: each of these has surprised somebody with a bill, or a customer without a way on.
 */
#include <string.h>

#include "policy/customers.h"
#include "policy/loader.h"
#include "policy/quota.h"

static const struct wr_yaml *place(const struct wr_yaml *node, const char *name)
{
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next)
        if (value->key != NULL && strcmp(value->key->text, name) == 0)
            return value;
    return node;
}

static const struct wr_yaml *in_quota(const struct wr_loader *ld, size_t limit, const char *name)
{
    return place(place(ld->limit_nodes[limit], "quota"), name);
}

/* ---- one quota ---------------------------------------------------------------------------- */

/* The first plan for which |test| is true; -1: none. */
static int first_plan(const struct wr_policy *policy, size_t limit,
                      bool (*test)(const struct wr_policy *policy, size_t limit, size_t plan))
{
    for (size_t plan = 0; plan < policy->plan_count; plan++)
        if (!policy->limits[limit].unlimited[plan] && test(policy, limit, plan))
            return (int)plan;
    return -1;
}

static bool is_zero(const struct wr_policy *policy, size_t limit, size_t plan)
{
    return policy->limits[limit].quota->plan[plan].most == 0;
}

/* The next plan does not allow more. */
static bool is_upgraded_in_vain(const struct wr_policy *policy, size_t limit, size_t plan)
{
    const struct wr_policy_limit *l = &policy->limits[limit];
    int to = l->quota->plan[plan].upgrade_to;

    return to >= 0 && !l->unlimited[to] && l->quota->plan[to].most <= l->quota->plan[plan].most;
}

/* The last alert lies beyond what any request is admitted to. */
static bool is_alert_reached(const struct wr_policy *policy, size_t limit, size_t plan)
{
    const struct wr_policy_quota *quota = policy->limits[limit].quota;
    const struct wr_policy_quota_plan *of = &quota->plan[plan];
    int64_t percent = quota->alert_percent[quota->alert_count - 1];

    return of->most == WR_QUOTA_NO_CEILING || percent <= 100 ||
           of->limit * percent / 100 <= of->most; /* limit: at most 40 bits */
}

static void warn_numbers(struct wr_loader *ld, size_t limit)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_policy_quota *quota = policy->limits[limit].quota;
    int plan = first_plan(policy, limit, is_zero);

    if (plan >= 0)
        wr_warning(ld, in_quota(ld, limit, "limit"),
                   "a quota of 0 refuses every request of plan %s", policy->plans[plan]);
    plan = first_plan(policy, limit, is_upgraded_in_vain);
    if (plan >= 0)
        wr_warning(ld, in_quota(ld, limit, "on_exceed"),
                   "the upgrade from %s to %s does not help: its quota is not larger",
                   policy->plans[plan], policy->plans[quota->plan[plan].upgrade_to]);
    if (quota->alert_count > 0 && first_plan(policy, limit, is_alert_reached) < 0)
        wr_warning(ld, in_quota(ld, limit, "alert_at"),
                   "%u%% is never reached: requests are refused before",
                   quota->alert_percent[quota->alert_count - 1]);
    if (quota->count_classes == WR_QUOTA_COUNT_ALL && in_quota(ld, limit, "count")->key != NULL &&
        strcmp(in_quota(ld, limit, "count")->key->text, "count") == 0)
        wr_warning(ld, in_quota(ld, limit, "count"),
                   "count has no effect: all classes count without it too");
}

static const struct wr_yaml *written(const struct wr_yaml *node, const char *name)
{
    const struct wr_yaml *value = place(node, name);

    return value != node ? value : NULL;
}

/* Does the limit count each request of somebody who is no customer? */
static bool counts_strangers(const struct wr_policy *policy, size_t limit)
{
    const struct wr_rule *rule = &policy->rules[limit];
    bool missing = false;

    for (size_t i = 0; i < rule->parts; i++)
        missing = missing || rule->part[i].source == WR_BY_CUSTOMER ||
                  rule->part[i].source == WR_BY_IDENTITY;
    return !policy->limits[limit].shadow && rule->methods == WR_METHODS_ALL &&
           (!missing || rule->when_missing != WR_MISSING_SKIP);
}

/* Whose key leads nowhere passes, as often as he likes. */
static void warn_strangers(struct wr_loader *ld, size_t limit)
{
    const struct wr_policy *policy = ld->policy;

    if (written(ld->limit_nodes[limit], "when_missing") != NULL)
        return;
    for (size_t i = 0; i < policy->pathless_count; i++)
        if (counts_strangers(policy, policy->pathless[i]))
            return;
    wr_warning(ld, place(ld->limit_nodes[limit], "quota")->key,
               "callers who are no customers are not counted by %s, nor by any other limit for all "
               "paths: when_missing: deny refuses them, a limit by: [ip] holds them back, "
               "when_missing: skip says that they may pass",
               policy->limits[limit].name);
}

static void warn_kind(struct wr_loader *ld, size_t limit)
{
    const struct wr_policy *policy = ld->policy;

    if (policy->limits[limit].quota->exact)
        return;
    wr_warning(ld, place(ld->limit_nodes[limit], "quota"),
               "%s is counted in the arena, where a count can be forgotten when it is full, and is "
               "not billed; a quota by: [customer] is kept",
               policy->limits[limit].name);
}

/* Under every plan they do nothing but refuse: no overage is metered, nobody moves. */
static bool only_refuse(const struct wr_policy *policy, const struct wr_policy_quota *a,
                        const struct wr_policy_quota *b)
{
    for (size_t plan = 0; plan < policy->plan_count; plan++)
        if (a->plan[plan].on_exceed != WR_EXCEED_DENY || b->plan[plan].on_exceed != WR_EXCEED_DENY)
            return false;
    return true;
}

/* Two quotas of the same customers over the same windows and requests: the smaller one decides. */
static void warn_same(struct wr_loader *ld, size_t limit)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_policy_limit *a = &policy->limits[limit];

    for (size_t i = 0; i < policy->pathless_count && policy->pathless[i] < limit; i++) {
        const struct wr_policy_limit *b = &policy->limits[policy->pathless[i]];
        if (b->quota == NULL || !b->quota->exact || b->shadow != a->shadow ||
            b->quota->anchor_by_customer != a->quota->anchor_by_customer ||
            b->quota->count_classes != a->quota->count_classes ||
            !only_refuse(policy, a->quota, b->quota) ||
            memcmp(&b->quota->civil, &a->quota->civil, sizeof a->quota->civil) != 0 ||
            policy->rules[policy->pathless[i]].methods != policy->rules[limit].methods)
            continue;
        wr_warning(ld, ld->limit_nodes[limit],
                   "%s counts the same requests over the same windows as %s: the smaller one "
                   "decides",
                   a->name, b->name);
        return;
    }
}

static bool is_pathless(const struct wr_policy *policy, size_t limit)
{
    for (size_t i = 0; i < policy->pathless_count; i++)
        if (policy->pathless[i] == limit)
            return true;
    return false;
}

/* ---- plans and customers ------------------------------------------------------------------ */

/* A plan that excludes something and tells nobody of a way to get it. */
static void warn_dead_ends(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;

    for (size_t plan = 0; plan < policy->plan_count; plan++) {
        const struct wr_yaml *routes = ld->plan_bodies[plan].routes;
        if (routes == NULL || policy->upgrades[plan] >= 0 || policy->settings.upgrade_url != NULL)
            continue;
        wr_warning(ld, routes->key,
                   "callers of plan %s are refused without a way on: upgrade_to of the plan, or "
                   "answers.upgrade_url, would name one",
                   policy->plans[plan]);
    }
}

/* "default" is what the default plan is called that nobody has named; beside another it misleads.
 */
static void warn_default_name(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_yaml *section = ld->sections[WR_SECTION_PLANS] != NULL
                                        ? ld->sections[WR_SECTION_PLANS]
                                        : ld->sections[WR_SECTION_IDENTITY];

    for (size_t plan = 0; section != NULL && plan < policy->plan_count; plan++)
        if (plan != policy->default_plan && strcmp(policy->plans[plan], "default") == 0)
            wr_warning(ld, place(section, "default")->key,
                       "the plan called default is not the default one, which is %s: callers of "
                       "whom nothing is known do not have it",
                       policy->plans[policy->default_plan]);
}

/* A hook that no quota has anything for. */
static void warn_silent_hooks(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_policy_customers *customers = policy->settings.customers;
    const struct wr_yaml *node = ld->sections[WR_SECTION_CUSTOMERS];
    bool alerts = false, upgrades = false;

    if (customers == NULL)
        return;
    for (size_t i = 0; i < policy->limit_count; i++) {
        const struct wr_policy_quota *quota = policy->limits[i].quota;
        alerts = alerts || (quota != NULL && quota->alert_count > 0);
        for (size_t plan = 0; quota != NULL && plan < policy->plan_count; plan++)
            upgrades = upgrades || (!policy->limits[i].unlimited[plan] &&
                                    quota->plan[plan].on_exceed == WR_EXCEED_UPGRADE);
    }
    if (customers->webhook.url != NULL && !alerts)
        wr_warning(ld, place(node, "webhook"), "webhook is told nothing: no quota says alert_at");
    if (customers->confirm_upgrade.url != NULL && !upgrades)
        wr_warning(ld, place(node, "confirm_upgrade"),
                   "confirm_upgrade is asked nothing: no quota says on_exceed: upgrade");
}

void wr_warn_quotas(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;

    for (size_t i = 0; i < policy->limit_count; i++) {
        if (policy->limits[i].quota == NULL)
            continue;
        warn_numbers(ld, i);
        warn_kind(ld, i);
        if (policy->limits[i].quota->exact)
            warn_strangers(ld, i);
        if (policy->limits[i].quota->exact && is_pathless(policy, i))
            warn_same(ld, i);
    }
    warn_dead_ends(ld);
    warn_default_name(ld);
    warn_silent_hooks(ld);
}
