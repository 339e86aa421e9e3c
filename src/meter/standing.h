/* standing.h - how a customer stands: each quota of its plan, what is used of it, when it begins
 * anew. From the database, so at most customers.flush old; over nodes whose rows are in it. */
#ifndef WR_METER_STANDING_H
#define WR_METER_STANDING_H

#include "meter/report.h"
#include "policy/quota.h"

struct wr_standing {
    const char *quota;   /* its name in the policy; borrowed from it */
    const char *zone;    /* likewise */
    uint8_t per;         /* enum wr_per */
    bool shadow;         /* it refuses nobody */
    bool shared;         /* over nodes: used is what those with rows here let through, */
    bool all;            /* or, as the store has said, all; over never is */
    int64_t limit;       /* units included; -1: the plan has no such limit */
    int64_t most;        /* admitted at most; WR_QUOTA_NO_CEILING */
    uint8_t on_exceed;   /* enum wr_on_exceed */
    uint64_t used, over; /* units in this window */
    int64_t remaining;   /* of what is included; 0 with limit -1; unknown if shared and not all */
    int32_t window;      /* the window's first civil day */
    int64_t start_ns, end_ns; /* when it began, and the next one begins */
};

/* The plan of |customer| at |now_ns|, as an index of |policy|; the default plan where the policy
 * has no plan of that name. */
unsigned wr_standing_plan(const struct wr_policy *policy, const struct wr_customer *customer,
                          int64_t now_ns);

/* The windows of |quota| for |customer|: its own anchor where the quota takes it. */
struct wr_civil wr_standing_civil(const struct wr_policy_quota *quota,
                                  const struct wr_customer *customer);

/* One quota that is counted by customer, under |plan|. 0 or an error of the database. */
int wr_standing_of(struct wr_database *database, const struct wr_policy_limit *limit, unsigned plan,
                   const struct wr_customer *customer, int64_t now_ns, struct wr_standing *out);

/* Each quota that is counted by customer. Calls |each| until it returns false. 0 or an error of the
 * database. */
int wr_standing_each(struct wr_database *database, const struct wr_policy *policy,
                     const struct wr_customer *customer, int64_t now_ns,
                     bool (*each)(void *context, const struct wr_standing *standing),
                     void *context);

#endif
