/* quota_plan.c - what a quota is for each plan.
 *
 * Values that plans may differ in (limit, on_exceed, grace, ceiling) are asked for plan by plan, of
 * the section `plans` first, then of the quota; what is asked is then checked as one. */
#include <string.h>

#include "algo/quota.h"
#include "base/arith.h"
#include "policy/quota_reading.h"
#include "policy/rate.h"

#define GRACE_PERCENT_MAX 100

static const char *const value_names[WR_QUOTA_VALUES] = {"limit", "on_exceed", "grace", "ceiling"};

/* ---- what holds for a plan ----------------------------------------------------------------- */

static const struct wr_yaml *entry(const struct wr_yaml *map, const char *name)
{
    for (const struct wr_yaml *value = map->first; value != NULL; value = value->next)
        if (strcmp(value->key->text, name) == 0)
            return value;
    return NULL;
}

/* Said of |plan| itself: in `plans`, where a scalar is a limit, or in the quota's map. */
static const struct wr_yaml *own_value(const struct wr_quota_reading *r, size_t plan,
                                       enum wr_quota_value which)
{
    const struct wr_yaml *said = wr_plan_says(r->ld, plan, r->limit->limit->name, true);
    const struct wr_yaml *node = r->value[which];

    if (said != NULL && said->kind == WR_YAML_MAP)
        said = entry(said, value_names[which]);
    else if (which != WR_QUOTA_LIMIT)
        said = NULL;
    if (said != NULL || node == NULL || node->kind != WR_YAML_MAP)
        return said;
    return entry(node, r->ld->policy->plans[plan]);
}

/* What the default plan lends to |plan|: its limit, and what the quota's own maps say of it. How it
 * exceeds, where that stands in `plans`, is its own affair, but for plans that leave the quota to
 * it altogether: else a plan that names a number would be billed as another one is. */
static const struct wr_yaml *of_default(const struct wr_quota_reading *r, size_t plan,
                                        enum wr_quota_value which)
{
    const struct wr_policy *policy = r->ld->policy;
    const struct wr_yaml *node = r->value[which];

    if (which == WR_QUOTA_LIMIT || wr_plan_says(r->ld, plan, r->limit->limit->name, true) == NULL)
        return own_value(r, policy->default_plan, which);
    return node != NULL ? entry(node, policy->plans[policy->default_plan]) : NULL;
}

void wr_quota_look_up(const struct wr_quota_reading *r, size_t plan, struct wr_quota_of_plan *out)
{
    for (int which = 0; which < WR_QUOTA_VALUES; which++) {
        const struct wr_yaml *node = r->value[which];
        out->value[which] = own_value(r, plan, (enum wr_quota_value)which);
        out->own[which] = out->value[which] != NULL;
        if (out->value[which] == NULL)
            out->value[which] = node != NULL && node->kind != WR_YAML_MAP
                                    ? node
                                    : of_default(r, plan, (enum wr_quota_value)which);
    }
}

/* ---- values ------------------------------------------------------------------------------ */

/* The value of |node|; -1 after an error. */
static int64_t read_units(struct wr_loader *ld, const struct wr_yaml *node, const char *what)
{
    int64_t units;

    return wr_read_int(ld, node, what, 0, WR_QUOTA_UNITS_MAX, &units) ? units : -1;
}

static bool is_unlimited(const struct wr_yaml *node)
{
    return node->kind == WR_YAML_SCALAR && strcmp(node->text, "unlimited") == 0;
}

int64_t wr_quota_percent(const struct wr_yaml *node, int64_t max)
{
    struct weir_slice text;
    int64_t percent;
    size_t at;

    if (!wr_is_text(node) || node->text[node->len - 1] != '%')
        return 0;
    text = (struct weir_slice){node->text, node->len - 1};
    return wr_count_parse(text, max, &percent, &at) == NULL ? percent : 0;
}

/* |of| a limit: "5%", rounded down, or "50". -1 after an error. */
static int64_t read_grace(struct wr_loader *ld, const struct wr_yaml *node, int64_t of)
{
    int64_t percent = wr_quota_percent(node, GRACE_PERCENT_MAX), units;
    size_t at;

    if (percent > 0)
        return of / 100 * percent + of % 100 * percent / 100;
    if (wr_is_text(node) && wr_count_parse(wr_slice_of(node), of, &units, &at) == NULL)
        return units;
    wr_error(ld, node,
             "grace: expected a share such as 5%%, at most %d%%, or units, at most the limit of "
             "%lld, found %s",
             GRACE_PERCENT_MAX, (long long)of, wr_found(node).text);
    return -1;
}

bool wr_quota_exceed_is(const struct wr_yaml *node, const char *what)
{
    return node != NULL ? wr_is_text(node) && strcmp(node->text, what) == 0
                        : strcmp(what, "deny") == 0;
}

/* Does any plan have on_exceed |what|? */
static bool any_exceed(const struct wr_quota_reading *r, const char *what)
{
    for (size_t plan = 0; plan < r->ld->policy->plan_count; plan++) {
        struct wr_quota_of_plan of;
        wr_quota_look_up(r, plan, &of);
        if (wr_quota_exceed_is(of.value[WR_QUOTA_ON_EXCEED], what) &&
            (of.value[WR_QUOTA_LIMIT] == NULL || !is_unlimited(of.value[WR_QUOTA_LIMIT])))
            return true;
    }
    return false;
}

/* |which| stands beside something it has no meaning for: of this very plan, or of all. */
static void refuse_beside(const struct wr_quota_reading *r, const struct wr_quota_of_plan *of,
                          enum wr_quota_value which, const char *needs)
{
    const struct wr_yaml *node = of->value[which];

    if (node != NULL && (of->own[which] || !any_exceed(r, needs)))
        wr_error(r->ld, node, "%s: expected only with on_exceed: %s", value_names[which], needs);
}

static void settle_overage(const struct wr_quota_reading *r, const struct wr_quota_of_plan *of,
                           size_t plan, struct wr_policy_quota_plan *out)
{
    const struct wr_yaml *node = of->value[WR_QUOTA_CEILING];

    out->most = WR_QUOTA_NO_CEILING;
    refuse_beside(r, of, WR_QUOTA_GRACE, "deny");
    if (node == NULL)
        return;
    out->most = read_units(r->ld, node, "ceiling");
    if (out->most >= 0 && out->most < out->limit)
        wr_error(r->ld, node, "ceiling: expected at least the limit of %lld of plan %s, found %lld",
                 (long long)out->limit, r->ld->policy->plans[plan], (long long)out->most);
    out->most = wr_max_i64(out->most, out->limit);
}

static void settle_deny(const struct wr_quota_reading *r, const struct wr_quota_of_plan *of,
                        size_t plan, struct wr_policy_quota_plan *out)
{
    const struct wr_yaml *node = of->value[WR_QUOTA_GRACE];
    int64_t grace = 0;

    refuse_beside(r, of, WR_QUOTA_CEILING, "overage");
    if (node != NULL)
        grace = read_grace(r->ld, node, out->limit);
    if (grace == 0 && node != NULL && out->limit > 0 &&
        wr_quota_percent(node, GRACE_PERCENT_MAX) > 0)
        wr_warning(r->ld, node,
                   "grace: %s of plan %s's limit of %lld is less than one unit: there is none",
                   node->text, r->ld->policy->plans[plan], (long long)out->limit);
    out->most = out->limit + wr_max_i64(0, grace);
}

/* Where a plan has no next one, an upgrade for all plans ends there: it refuses. */
static void settle_upgrade(const struct wr_quota_reading *r, const struct wr_quota_of_plan *of,
                           size_t plan, struct wr_policy_quota_plan *out)
{
    const struct wr_policy *policy = r->ld->policy;
    bool any = false;

    for (size_t i = 0; i < policy->plan_count; i++)
        any = any || policy->upgrades[i] >= 0;
    out->upgrade_to = (int16_t)wr_policy_upgrade(policy, plan);
    refuse_beside(r, of, WR_QUOTA_CEILING, "overage");
    refuse_beside(r, of, WR_QUOTA_GRACE, "deny");
    if (out->upgrade_to < 0 && (of->own[WR_QUOTA_ON_EXCEED] || !any))
        wr_error(r->ld, of->value[WR_QUOTA_ON_EXCEED],
                 "on_exceed: upgrade: expected plan %s to have upgrade_to in plans, found none",
                 policy->plans[plan]);
    if (out->upgrade_to < 0)
        out->on_exceed = WR_EXCEED_DENY;
}

/* All of one plan. False after an error. */
static bool settle_plan(struct wr_quota_reading *r, size_t plan, struct wr_limit *by,
                        bool *unlimited, struct wr_policy_quota_plan *out)
{
    static const char *const choices[] = {"deny", "overage", "upgrade"};
    struct wr_loader *ld = r->ld;
    struct wr_quota_of_plan of;
    const char *wrong;
    size_t i = WR_EXCEED_DENY;

    _Static_assert(WR_EXCEED_DENY == 0 && WR_EXCEED_OVERAGE == 1 && WR_EXCEED_UPGRADE == 2,
                   "indexes of choices[]");
    wr_quota_look_up(r, plan, &of);
    out->upgrade_to = -1;
    if (of.value[WR_QUOTA_LIMIT] == NULL) {
        wr_error(ld, r->node,
                 "quota: expected limit: N for plan \"%s\", or one for the default plan, \"%s\", "
                 "found neither",
                 ld->policy->plans[plan], ld->policy->plans[ld->policy->default_plan]);
        return false;
    }
    *unlimited = is_unlimited(of.value[WR_QUOTA_LIMIT]);
    if (*unlimited)
        return true;
    out->limit = read_units(ld, of.value[WR_QUOTA_LIMIT], "limit");
    if (out->limit < 0 ||
        (of.value[WR_QUOTA_ON_EXCEED] != NULL &&
         !wr_read_choice(ld, of.value[WR_QUOTA_ON_EXCEED], "on_exceed", choices, 3, &i)))
        return false;
    out->on_exceed = (uint8_t)i;
    out->most = out->limit;
    if (i == WR_EXCEED_OVERAGE)
        settle_overage(r, &of, plan, out);
    else if (i == WR_EXCEED_UPGRADE)
        settle_upgrade(r, &of, plan, out);
    else
        settle_deny(r, &of, plan, out);
    wrong = wr_limit_make_civil(by, &r->quota->civil, out->limit, r->limit->count_denied);
    if (wrong != NULL)
        wr_error(ld, of.value[WR_QUOTA_LIMIT], "limit %s: %s",
                 wr_found(of.value[WR_QUOTA_LIMIT]).text, wrong);
    return wrong == NULL;
}

void wr_quota_settle_plans(struct wr_quota_reading *r)
{
    size_t count = r->ld->policy->plan_count;
    struct wr_limit *by = wr_region_take(r->ld->region, count, sizeof *by);
    bool *unlimited = wr_region_take(r->ld->region, count, sizeof *unlimited);
    struct wr_policy_quota_plan *plans = wr_region_take(r->ld->region, count, sizeof *plans);
    bool ok = by != NULL && unlimited != NULL && plans != NULL;

    for (size_t plan = 0; ok && plan < count; plan++) {
        ok = settle_plan(r, plan, &by[plan], &unlimited[plan], &plans[plan]);
        if (ok && (plans[plan].limit != plans[0].limit || plans[plan].most != plans[0].most ||
                   plans[plan].on_exceed != plans[0].on_exceed || unlimited[plan] != unlimited[0]))
            r->limit->limit->by_plan = true;
    }
    if (!ok)
        return;
    r->quota->plan = plans;
    r->limit->limit->by = by;
    r->limit->limit->unlimited = unlimited;
    r->limit->rule->unlimited = unlimited;
}
