/* quota_reading.h - a quota while it is read: what quota.c (its keys) and quota_plan.c (what it is
 * for each plan) share. Internal to src/policy. */
#ifndef WR_POLICY_QUOTA_READING_H
#define WR_POLICY_QUOTA_READING_H

#include "policy/limit_reading.h"
#include "policy/quota.h"

/* Values that may differ by plan. */
enum wr_quota_value {
    WR_QUOTA_LIMIT,
    WR_QUOTA_ON_EXCEED,
    WR_QUOTA_GRACE,
    WR_QUOTA_CEILING,
    WR_QUOTA_VALUES
};

struct wr_quota_reading {
    struct wr_loader *ld;
    struct wr_limit_reading *limit;
    struct wr_policy_quota *quota;
    const struct wr_yaml *node; /* of quota, or the limit where it stands in `plans` alone */
    const struct wr_yaml *value[WR_QUOTA_VALUES];
    const struct wr_yaml *per, *zone, *anchor, *alert_at, *count;
    int64_t anchor_day; /* 0: not given */
};

/* What holds for one plan, and where it stands. */
struct wr_quota_of_plan {
    const struct wr_yaml *value[WR_QUOTA_VALUES];
    bool own[WR_QUOTA_VALUES]; /* said of this very plan */
};

/* What is said for |plan|: of itself, of all, or of the default plan. */
void wr_quota_look_up(const struct wr_quota_reading *r, size_t plan, struct wr_quota_of_plan *out);

/* Is on_exceed, which |node| says (NULL: nothing does), |what|? */
bool wr_quota_exceed_is(const struct wr_yaml *node, const char *what);

/* "80%". 0: it is none, or above |max|. */
int64_t wr_quota_percent(const struct wr_yaml *node, int64_t max);

/* Fill plan[], by[] and unlimited[]. */
void wr_quota_settle_plans(struct wr_quota_reading *r);

#endif
