/* known.c - see known.h. What a policy has no more counts as well: its rows are still there to be
 * asked for. */
#include "meter/known.h"

#include <string.h>

#include "meter/customers.h"
#include "meter/report.h"
#include "policy/quota.h"

struct search {
    const char *name;
    bool found;
};

static bool is_quota(void *context, const struct wr_report_quota *quota)
{
    struct search *search = context;

    search->found = strcmp(search->name, quota->name) == 0;
    return !search->found;
}

static bool is_anybody(void *context, const struct wr_customer *customer)
{
    (void)customer;
    ((struct search *)context)->found = true;
    return false;
}

int wr_there_is_quota(struct wr_database *database, const struct wr_policy *policy,
                      const char *name)
{
    struct search search = {name, false};
    int result;

    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        if (limit->quota != NULL && limit->quota->exact && strcmp(limit->name, name) == 0)
            return 1;
    }
    result = wr_report_quotas(database, is_quota, &search);
    return result == 0 ? search.found : result;
}

static int has(struct wr_database *database, const struct wr_customer_filter *filter)
{
    struct search anybody = {NULL, false};
    int result = wr_customers_each(database, filter, is_anybody, &anybody);

    return result == 0 ? anybody.found : result;
}

int wr_there_is_plan(struct wr_database *database, const struct wr_policy *policy, const char *name)
{
    const struct wr_customer_filter of_plan = {.plan = name, .with_ended = true, .most = 1};

    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        if (strcmp(wr_policy_plan(policy, i), name) == 0)
            return 1;
    return has(database, &of_plan);
}

int wr_there_is_tenant(struct wr_database *database, const char *name)
{
    const struct wr_customer_filter of_tenant = {.tenant = name, .with_ended = true, .most = 1};

    return has(database, &of_tenant);
}
