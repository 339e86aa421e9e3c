/* quota.h - what a policy says of a quota.
 *
 * A quota is a limit like any other (struct wr_policy_limit: by[] are fixed windows of the civil
 * calendar, by[plan].units is the plan's limit) that also has what stands here. */
#ifndef WR_POLICY_QUOTA_H
#define WR_POLICY_QUOTA_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/civil.h"
#include "policy/policy.h"

#define WR_QUOTA_ALERTS_MAX 8
#define WR_QUOTA_COUNT_ALL 0x3e /* 1xx .. 5xx */
#define WR_QUOTA_NO_CEILING INT64_MAX

/* What happens to a request that a quota has no room for. */
enum wr_on_exceed {
    WR_EXCEED_DENY,    /* refused until the window ends */
    WR_EXCEED_OVERAGE, /* admitted and metered apart, up to a ceiling */
    WR_EXCEED_UPGRADE, /* the customer moves to the plan's upgrade_to */
};

struct wr_policy_quota_plan {
    int64_t limit;      /* = by[plan].units */
    int64_t most;       /* admitted at most, >= limit: with the grace, or the ceiling; or
                           WR_QUOTA_NO_CEILING */
    uint8_t on_exceed;  /* enum wr_on_exceed */
    int16_t upgrade_to; /* with WR_EXCEED_UPGRADE the next plan; otherwise -1 */
};

struct wr_policy_quota {
    struct wr_civil civil;
    bool anchor_by_customer; /* months begin on the customer's own day, or civil.anchor if it has
                                none */
    bool exact; /* by: [customer]: a cell of the ledger; otherwise a slot of the arena */
    uint8_t alert_percent[WR_QUOTA_ALERTS_MAX]; /* of limit, 1..200, ascending */
    uint8_t alert_count;
    uint8_t count_classes;                   /* bit k: answers with a status of k00..k99 count */
    const char *zone;                        /* as written: "Europe/Istanbul" */
    const struct wr_policy_quota_plan *plan; /* one for each plan; not read where unlimited */
};

#endif
