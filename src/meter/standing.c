/* standing.c - a policy's quotas beside the rows of the ledger. */
#include "meter/standing.h"

#include <string.h>

#include "base/arith.h"

unsigned wr_standing_plan(const struct wr_policy *policy, const struct wr_customer *customer,
                          int64_t now_ns)
{
    const char *name = wr_customer_plan_at(customer, now_ns);

    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        if (strcmp(wr_policy_plan(policy, i), name) == 0)
            return (unsigned)i;
    return wr_policy_default_plan(policy);
}

struct wr_civil wr_standing_civil(const struct wr_policy_quota *quota,
                                  const struct wr_customer *customer)
{
    struct wr_civil civil = quota->civil;

    if (quota->anchor_by_customer && customer->anchor != 0)
        civil.anchor = customer->anchor;
    return civil;
}

static bool add_up(void *context, const struct wr_report_line *line)
{
    struct wr_standing *standing = context;

    standing->used += line->used;
    standing->over += line->over;
    return true;
}

int wr_standing_of(struct wr_database *database, const struct wr_policy_limit *limit, unsigned plan,
                   const struct wr_customer *customer, int64_t now_ns, struct wr_standing *out)
{
    const struct wr_policy_quota *quota = limit->quota;
    const struct wr_civil civil = wr_standing_civil(quota, customer);
    const struct wr_civil_window window = wr_civil_at(&civil, wr_moment_ns(now_ns));
    struct wr_report_filter filter = {.customer = customer->id,
                                      .quota = limit->name,
                                      .per = civil.per,
                                      .first = window.day,
                                      .last = window.day,
                                      .by_start = true};
    int result;

    *out = (struct wr_standing){.quota = limit->name,
                                .zone = quota->zone,
                                .per = civil.per,
                                .shadow = limit->shadow,
                                .shared = limit->shared,
                                .limit = -1,
                                .most = WR_QUOTA_NO_CEILING,
                                .window = window.day,
                                .start_ns = window.start_ns,
                                .end_ns = window.end_ns};
    if (!limit->unlimited[plan]) {
        out->limit = quota->plan[plan].limit;
        out->most = quota->plan[plan].most;
        out->on_exceed = quota->plan[plan].on_exceed;
    }
    result = wr_report_windows(database, &filter, add_up, out);
    if (out->limit >= 0)
        out->remaining = wr_max_i64(0, out->limit - (int64_t)out->used);
    return result;
}

int wr_standing_each(struct wr_database *database, const struct wr_policy *policy,
                     const struct wr_customer *customer, int64_t now_ns,
                     bool (*each)(void *context, const struct wr_standing *standing), void *context)
{
    unsigned plan = wr_standing_plan(policy, customer, now_ns);

    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        struct wr_standing standing;
        int result;
        if (limit->quota == NULL || !limit->quota->exact)
            continue;
        result = wr_standing_of(database, limit, plan, customer, now_ns, &standing);
        if (result != 0)
            return result;
        if (!each(context, &standing))
            return 0;
    }
    return 0;
}
