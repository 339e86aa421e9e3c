/* quota.c - `quota:` of a limit: so much a day, week or month of the calendar.
 *
 * Problem. A quota is sold: what it says has to mean one thing for each plan, and what makes no
 * sense (a ceiling below the limit, an anchor in a day) would be found out by a bill.
 *
 * Idea. Values that plans may differ in (limit, on_exceed, grace, ceiling) are asked for plan by
 * plan, of the section `plans` first, then of the quota; what is asked is then checked as one.
 *
 * Invariants:
 *   1. quota->plan[], by[] and unlimited[] have an entry for every plan; by[].units is the plan's
 *      limit.
 *   2. limit <= most <= WR_QUOTA_COUNT_MAX, or most is WR_QUOTA_NO_CEILING.
 *   3. All that bills (overage, upgrade, grace, alert_at, count, the customer's anchor) is exact:
 *      by: [customer]. Other quotas are windows in the arena. */
#include "policy/quota.h"

#include <string.h>

#include "algo/quota.h"
#include "base/arith.h"
#include "base/zone.h"
#include "policy/customers.h"
#include "policy/limit_reading.h"
#include "policy/rate.h"
#include "policy/zone_names.h"

#define GRACE_PERCENT_MAX 100
#define ALERT_PERCENT_MAX 200

/* Values that may differ by plan. */
enum value { LIMIT, ON_EXCEED, GRACE, CEILING, VALUES };
static const char *const value_names[VALUES] = {"limit", "on_exceed", "grace", "ceiling"};

struct reading {
    struct wr_loader *ld;
    struct wr_limit_reading *limit;
    struct wr_policy_quota *quota;
    const struct wr_yaml *node; /* of quota, or the limit where it stands in `plans` alone */
    const struct wr_yaml *value[VALUES];
    const struct wr_yaml *per, *zone, *anchor, *alert_at, *count;
    int64_t anchor_day; /* 0: not given */
};

/* What holds for one plan, and where it stands. */
struct of_plan {
    const struct wr_yaml *value[VALUES];
    bool own[VALUES]; /* said of this very plan */
};

/* ---- keys -------------------------------------------------------------------------------- */

#define KEEPER(name, member)                                                        \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        (void)ld;                                                                   \
        ((struct reading *)into)->member = value;                                   \
    }
KEEPER(on_limit, value[LIMIT])
KEEPER(on_exceed, value[ON_EXCEED])
KEEPER(on_grace, value[GRACE])
KEEPER(on_ceiling, value[CEILING])

static void read_per(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"day", "week", "month"};
    struct reading *reading = into;
    size_t i;

    _Static_assert(WR_PER_DAY == 1 && WR_PER_WEEK == 2 && WR_PER_MONTH == 3, "choices[] + 1");
    reading->per = value;
    if (wr_read_choice(ld, value, "per", choices, 3, &i))
        reading->quota->civil.per = (uint8_t)(i + 1);
}

static void read_zone(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;
    const struct wr_zone *zone = NULL;
    char why[128] = "no such time zone", near[WR_ZONE_NAME_MAX + 1];

    reading->zone = value;
    if (wr_is_text(value))
        zone = wr_zone_find(value->text, why, sizeof why);
    if (zone == NULL) {
        bool found = wr_is_text(value) && wr_zone_nearest(value->text, near, sizeof near);
        wr_error(ld, value,
                 "zone: expected a name of the tz database such as Europe/Istanbul, found %s%s%s%s",
                 wr_found(value).text, found ? " (did you mean " : ": ", found ? near : why,
                 found ? "?)" : "");
        return;
    }
    reading->quota->civil.zone = wr_zone_id(zone);
    reading->quota->zone = wr_keep(ld, value);
}

static void read_anchor(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;
    size_t at;

    reading->anchor = value;
    if (wr_is_text(value) && strcmp(value->text, "customer") == 0) {
        reading->quota->anchor_by_customer = true;
        return;
    }
    if (!wr_is_text(value) ||
        wr_count_parse(wr_slice_of(value), 31, &reading->anchor_day, &at) != NULL ||
        reading->anchor_day < 1) {
        reading->anchor_day = 0;
        wr_error(ld, value,
                 "anchor: expected the day of the month that months begin on, 1 to 31, or "
                 "customer, found %s",
                 wr_found(value).text);
    }
}

/* "80%". 0 after an error. */
static int64_t percent_of(const struct wr_yaml *node, int64_t max)
{
    struct weir_slice text;
    int64_t percent;
    size_t at;

    if (!wr_is_text(node) || node->text[node->len - 1] != '%')
        return 0;
    text = (struct weir_slice){node->text, node->len - 1};
    return wr_count_parse(text, max, &percent, &at) == NULL ? percent : 0;
}

static void read_alert_at(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct reading *reading = into;
    struct wr_policy_quota *quota = reading->quota;

    reading->alert_at = value;
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item)) {
        int64_t percent = percent_of(item, ALERT_PERCENT_MAX);
        if (percent == 0) {
            wr_error(ld, item, "alert_at: expected shares of the limit, 1%% to %d%%, found %s",
                     ALERT_PERCENT_MAX, wr_found(item).text);
        } else if (quota->alert_count > 0 &&
                   quota->alert_percent[quota->alert_count - 1] >= percent) {
            wr_error(ld, item, "alert_at: expected a larger share after the one before, found %s",
                     wr_found(item).text);
        } else if (quota->alert_count == WR_QUOTA_ALERTS_MAX) {
            wr_error(ld, item, "alert_at: expected at most %d shares, found more",
                     WR_QUOTA_ALERTS_MAX);
            return;
        } else {
            quota->alert_percent[quota->alert_count++] = (uint8_t)percent;
        }
    }
}

static void read_status(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};
    struct wr_policy_quota *quota = ((struct reading *)into)->quota;
    size_t i;

    quota->count_classes = 0;
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item))
        if (wr_read_choice(ld, item, "status", choices, 5, &i))
            quota->count_classes |= (uint8_t)(1U << (i + 1));
    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "status: expected at least one class such as 2xx, found an empty list");
}

static void read_count(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct wr_key keys[] = {{"status", read_status}};
    static const struct wr_map_spec spec = {"count", keys, 1, false};

    ((struct reading *)into)->count = value;
    (void)wr_read_map(ld, value, &spec, into);
}

/* ---- what holds for a plan ----------------------------------------------------------------- */

static const struct wr_yaml *entry(const struct wr_yaml *map, const char *name)
{
    for (const struct wr_yaml *value = map->first; value != NULL; value = value->next)
        if (strcmp(value->key->text, name) == 0)
            return value;
    return NULL;
}

/* Said of |plan| itself: in `plans`, where a scalar is a limit, or in the quota's map. */
static const struct wr_yaml *own_value(const struct reading *r, size_t plan, enum value which)
{
    const struct wr_yaml *said = wr_plan_says(r->ld, plan, r->limit->limit->name, true);
    const struct wr_yaml *node = r->value[which];

    if (said != NULL && said->kind == WR_YAML_MAP)
        said = entry(said, value_names[which]);
    else if (which != LIMIT)
        said = NULL;
    if (said != NULL || node == NULL || node->kind != WR_YAML_MAP)
        return said;
    return entry(node, r->ld->policy->plans[plan]);
}

static void look_up(const struct reading *r, size_t plan, struct of_plan *out)
{
    for (int which = 0; which < VALUES; which++) {
        const struct wr_yaml *node = r->value[which];
        out->value[which] = own_value(r, plan, (enum value)which);
        out->own[which] = out->value[which] != NULL;
        if (out->value[which] == NULL)
            out->value[which] = node != NULL && node->kind != WR_YAML_MAP
                                    ? node
                                    : own_value(r, r->ld->policy->default_plan, (enum value)which);
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

/* |of| a limit: "5%", rounded down, or "50". -1 after an error. */
static int64_t read_grace(struct wr_loader *ld, const struct wr_yaml *node, int64_t of)
{
    int64_t percent = percent_of(node, GRACE_PERCENT_MAX), units;
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

static bool is_exceed(const struct wr_yaml *node, const char *what)
{
    return node != NULL ? wr_is_text(node) && strcmp(node->text, what) == 0
                        : strcmp(what, "deny") == 0;
}

/* Does any plan have on_exceed |what|? */
static bool any_exceed(const struct reading *r, const char *what)
{
    for (size_t plan = 0; plan < r->ld->policy->plan_count; plan++) {
        struct of_plan of;
        look_up(r, plan, &of);
        if (is_exceed(of.value[ON_EXCEED], what) &&
            (of.value[LIMIT] == NULL || !is_unlimited(of.value[LIMIT])))
            return true;
    }
    return false;
}

/* |which| stands beside something it has no meaning for: of this very plan, or of all. */
static void refuse_beside(const struct reading *r, const struct of_plan *of, enum value which,
                          const char *needs)
{
    const struct wr_yaml *node = of->value[which];

    if (node != NULL && (of->own[which] || !any_exceed(r, needs)))
        wr_error(r->ld, node, "%s: expected only with on_exceed: %s", value_names[which], needs);
}

static void settle_overage(const struct reading *r, const struct of_plan *of, size_t plan,
                           struct wr_policy_quota_plan *out)
{
    const struct wr_yaml *node = of->value[CEILING];

    out->most = WR_QUOTA_NO_CEILING;
    refuse_beside(r, of, GRACE, "deny");
    if (node == NULL)
        return;
    out->most = read_units(r->ld, node, "ceiling");
    if (out->most >= 0 && out->most < out->limit)
        wr_error(r->ld, node, "ceiling: expected at least the limit of %lld of plan %s, found %lld",
                 (long long)out->limit, r->ld->policy->plans[plan], (long long)out->most);
    out->most = wr_max_i64(out->most, out->limit);
}

static void settle_deny(const struct reading *r, const struct of_plan *of,
                        struct wr_policy_quota_plan *out)
{
    int64_t grace = 0;

    refuse_beside(r, of, CEILING, "overage");
    if (of->value[GRACE] != NULL)
        grace = read_grace(r->ld, of->value[GRACE], out->limit);
    out->most = out->limit + wr_max_i64(0, grace);
}

/* Where a plan has no next one, an upgrade for all plans ends there: it refuses. */
static void settle_upgrade(const struct reading *r, const struct of_plan *of, size_t plan,
                           struct wr_policy_quota_plan *out)
{
    const struct wr_policy *policy = r->ld->policy;
    bool any = false;

    for (size_t i = 0; i < policy->plan_count; i++)
        any = any || policy->upgrades[i] >= 0;
    out->upgrade_to = policy->upgrades[plan];
    refuse_beside(r, of, CEILING, "overage");
    refuse_beside(r, of, GRACE, "deny");
    if (out->upgrade_to < 0 && (of->own[ON_EXCEED] || !any))
        wr_error(r->ld, of->value[ON_EXCEED],
                 "on_exceed: upgrade: expected plan %s to have upgrade_to in plans, found none",
                 policy->plans[plan]);
    if (out->upgrade_to < 0)
        out->on_exceed = WR_EXCEED_DENY;
}

/* All of one plan. False after an error. */
static bool settle_plan(struct reading *r, size_t plan, struct wr_limit *by, bool *unlimited,
                        struct wr_policy_quota_plan *out)
{
    static const char *const choices[] = {"deny", "overage", "upgrade"};
    struct wr_loader *ld = r->ld;
    struct of_plan of;
    const char *wrong;
    size_t i = WR_EXCEED_DENY;

    _Static_assert(WR_EXCEED_DENY == 0 && WR_EXCEED_OVERAGE == 1 && WR_EXCEED_UPGRADE == 2,
                   "indexes of choices[]");
    look_up(r, plan, &of);
    out->upgrade_to = -1;
    if (of.value[LIMIT] == NULL) {
        wr_error(ld, r->node,
                 "quota: expected limit: N for plan \"%s\", or one for the default plan, \"%s\", "
                 "found neither",
                 ld->policy->plans[plan], ld->policy->plans[ld->policy->default_plan]);
        return false;
    }
    *unlimited = is_unlimited(of.value[LIMIT]);
    if (*unlimited)
        return true;
    out->limit = read_units(ld, of.value[LIMIT], "limit");
    if (out->limit < 0 || (of.value[ON_EXCEED] != NULL &&
                           !wr_read_choice(ld, of.value[ON_EXCEED], "on_exceed", choices, 3, &i)))
        return false;
    out->on_exceed = (uint8_t)i;
    out->most = out->limit;
    if (i == WR_EXCEED_OVERAGE)
        settle_overage(r, &of, plan, out);
    else if (i == WR_EXCEED_UPGRADE)
        settle_upgrade(r, &of, plan, out);
    else
        settle_deny(r, &of, out);
    wrong = wr_limit_make_civil(by, &r->quota->civil, out->limit, r->limit->count_denied);
    if (wrong != NULL)
        wr_error(ld, of.value[LIMIT], "limit %s: %s", wr_found(of.value[LIMIT]).text, wrong);
    return wrong == NULL;
}

static void settle_plans(struct reading *r)
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

/* ---- rules between keys ------------------------------------------------------------------ */

/* What only a quota that is billed may say. */
static void refuse_inexact(const struct reading *r)
{
    const struct wr_yaml *said[] = {r->alert_at, r->count, r->value[GRACE], r->value[CEILING]};
    struct wr_loader *ld = r->ld;
    static const char why[] = "by: [customer], as other counts are not billed";

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (said[i] != NULL)
            wr_error(ld, said[i], "%s: expected only with %s", said[i]->key->text, why);
    if (r->quota->anchor_by_customer)
        wr_error(ld, r->anchor, "anchor: customer: expected only with %s", why);
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        struct of_plan of;
        look_up(r, plan, &of);
        if (is_exceed(of.value[ON_EXCEED], "deny"))
            continue;
        wr_error(ld, of.value[ON_EXCEED], "on_exceed: %s: expected only with %s",
                 wr_found(of.value[ON_EXCEED]).text, why);
        return;
    }
}

static void refuse_exact(const struct reading *r)
{
    const struct wr_limit_reading *limit = r->limit;

    if (limit->count_denied)
        wr_error(r->ld, limit->count_denied_at,
                 "count_denied: expected false with a quota by customer: what was refused is not "
                 "billed");
    if (limit->when_missing != NULL && limit->rule->when_missing == WR_MISSING_IP)
        wr_error(r->ld, limit->when_missing,
                 "when_missing: expected skip or deny with a quota by customer: an address is no "
                 "customer");
}

static void refuse_others(const struct reading *r)
{
    const struct wr_limit_reading *limit = r->limit;
    const struct wr_yaml *other = limit->rate != NULL         ? limit->rate
                                  : limit->concurrent != NULL ? limit->concurrent
                                                              : NULL;

    if (other != NULL && limit->quota != NULL)
        wr_error(r->ld, limit->quota->key,
                 "quota: expected one of rate, concurrent and quota, found it beside %s: write two "
                 "limits",
                 limit->rate != NULL ? "rate" : "concurrent");
    if (limit->algorithm != NULL)
        wr_error(r->ld, limit->algorithm, "algorithm: expected none beside quota, found %s",
                 wr_found(limit->algorithm).text);
    if (limit->hold != NULL)
        wr_error(r->ld, limit->hold->key, "hold: expected only with concurrent");
}

static void settle_anchor(struct reading *r)
{
    struct wr_civil *civil = &r->quota->civil;

    civil->anchor = 1;
    if (r->anchor != NULL && r->per != NULL && civil->per != WR_PER_MONTH && civil->per != 0)
        wr_error(r->ld, r->anchor->key, "anchor: expected only with per: month, found per: %s",
                 r->per->text);
    else if (r->anchor_day > 0)
        civil->anchor = (uint8_t)r->anchor_day;
}

void wr_settle_quota(struct wr_loader *ld, const struct wr_yaml *node,
                     struct wr_limit_reading *reading)
{
    static const struct wr_key keys[] = {
        {"limit", on_limit},     {"per", read_per},           {"zone", read_zone},
        {"anchor", read_anchor}, {"on_exceed", on_exceed},    {"grace", on_grace},
        {"ceiling", on_ceiling}, {"alert_at", read_alert_at}, {"count", read_count}};
    static const struct wr_map_spec spec = {"quota", keys, sizeof keys / sizeof keys[0], false};
    struct reading r = {.ld = ld, .limit = reading, .node = reading->quota};

    (void)node;
    reading->algo = WR_FIXED_WINDOW;
    r.quota = wr_region_take(ld->region, 1, sizeof *r.quota);
    if (r.quota == NULL)
        return;
    r.quota->zone = "UTC";
    r.quota->civil.zone = WR_ZONE_UTC;
    r.quota->count_classes = WR_QUOTA_COUNT_ALL;
    r.quota->exact = wr_is_by_customer(reading->rule);
    reading->limit->quota = r.quota;
    if (reading->when_missing == NULL)
        reading->rule->when_missing = WR_MISSING_SKIP;
    refuse_others(&r);
    if (!wr_read_map(ld, reading->quota, &spec, &r))
        return;
    settle_anchor(&r);
    if (r.quota->exact)
        refuse_exact(&r);
    else
        refuse_inexact(&r);
    if (r.per == NULL)
        wr_error(ld, reading->quota, "quota: expected per: day, week or month, found none");
    if (r.quota->civil.per != 0)
        settle_plans(&r);
}
