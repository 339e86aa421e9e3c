/* quota.c - `quota:` of a limit: so much a day, week or month of the calendar.
 *
 * Problem. A quota is sold: what it says has to mean one thing for each plan, and what makes no
 * sense (a ceiling below the limit, an anchor in a day) would be found out by a bill.
 *
 * Idea. The keys are read first, then what they mean together; what plans may differ in is asked
 * for plan by plan in quota_plan.c.
 *
 * Invariants:
 *   1. quota->plan[], by[] and unlimited[] have an entry for every plan; by[].units is the plan's
 *      limit.
 *   2. limit <= most <= WR_QUOTA_COUNT_MAX, or most is WR_QUOTA_NO_CEILING.
 *   3. All that bills (overage, upgrade, grace, alert_at, count, the customer's anchor) is exact:
 *      by: [customer]. Other quotas are windows in the arena. */
#include "policy/quota_reading.h"

#include <string.h>

#include "base/zone.h"
#include "policy/customers.h"
#include "policy/rate.h"
#include "policy/zone_names.h"

#define ALERT_PERCENT_MAX 200

/* ---- keys -------------------------------------------------------------------------------- */

#define KEEPER(name, member)                                                        \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        (void)ld;                                                                   \
        ((struct wr_quota_reading *)into)->member = value;                          \
    }
KEEPER(on_limit, value[WR_QUOTA_LIMIT])
KEEPER(on_exceed, value[WR_QUOTA_ON_EXCEED])
KEEPER(on_grace, value[WR_QUOTA_GRACE])
KEEPER(on_ceiling, value[WR_QUOTA_CEILING])

static void read_per(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"day", "week", "month"};
    struct wr_quota_reading *reading = into;
    size_t i;

    _Static_assert(WR_PER_DAY == 1 && WR_PER_WEEK == 2 && WR_PER_MONTH == 3, "choices[] + 1");
    reading->per = value;
    if (wr_read_choice(ld, value, "per", choices, 3, &i))
        reading->quota->civil.per = (uint8_t)(i + 1);
}

static void read_zone(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_quota_reading *reading = into;
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
    struct wr_quota_reading *reading = into;
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

static void read_alert_at(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_quota_reading *reading = into;
    struct wr_policy_quota *quota = reading->quota;

    reading->alert_at = value;
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item)) {
        int64_t percent = wr_quota_percent(item, ALERT_PERCENT_MAX);
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
    struct wr_policy_quota *quota = ((struct wr_quota_reading *)into)->quota;
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

    ((struct wr_quota_reading *)into)->count = value;
    (void)wr_read_map(ld, value, &spec, into);
}

/* ---- rules between keys ------------------------------------------------------------------ */

/* What only a quota that is billed may say. */
static void refuse_inexact(const struct wr_quota_reading *r)
{
    const struct wr_yaml *said[] = {r->alert_at, r->count, r->value[WR_QUOTA_GRACE],
                                    r->value[WR_QUOTA_CEILING]};
    struct wr_loader *ld = r->ld;
    static const char why[] = "by: [customer], as other counts are not billed";

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++)
        if (said[i] != NULL)
            wr_error(ld, said[i], "%s: expected only with %s", said[i]->key->text, why);
    if (r->quota->anchor_by_customer)
        wr_error(ld, r->anchor, "anchor: customer: expected only with %s", why);
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        struct wr_quota_of_plan of;
        wr_quota_look_up(r, plan, &of);
        if (wr_quota_exceed_is(of.value[WR_QUOTA_ON_EXCEED], "deny"))
            continue;
        wr_error(ld, of.value[WR_QUOTA_ON_EXCEED], "on_exceed: %s: expected only with %s",
                 wr_found(of.value[WR_QUOTA_ON_EXCEED]).text, why);
        return;
    }
}

static void refuse_exact(const struct wr_quota_reading *r)
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

static void refuse_others(const struct wr_quota_reading *r)
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

static void settle_anchor(struct wr_quota_reading *r)
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
    struct wr_quota_reading r = {.ld = ld, .limit = reading, .node = reading->quota};

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
        wr_quota_settle_plans(&r);
}
