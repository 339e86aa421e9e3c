/* keeper_config.h - what the keeper takes from a policy. Internal to src/meter. */
#ifndef WR_METER_KEEPER_CONFIG_H
#define WR_METER_KEEPER_CONFIG_H

#include "meter/flush.h"
#include "meter/roster.h"
#include "meter/webhook.h"
#include "policy/policy.h"

struct wr_keeper_config {
    char directory[4096];
    uint32_t room;
    int64_t flush_ns;
    int64_t keep_ns;       /* 0: for ever */
    char roster_name[256]; /* of the customers' file, for the audit log; "": there is none */
    struct wr_roster *roster;
    bool confirm;                 /* upgrades wait for somebody to say yes */
    bool hooked;                  /* alerts are sent */
    struct wr_webhook_ends *ends; /* where to; NULL: the thread that sends has it */
    unsigned default_plan;
    size_t plan_count;
    char plan[WR_POLICY_PLANS_MAX][WR_NAME_MAX + 1];
    int16_t upgrade_to[WR_POLICY_PLANS_MAX]; /* -1: nowhere */
    size_t quota_count;
    struct wr_kept quota[WR_LEDGER_QUOTAS_MAX]; /* not opened */
};

/* Errors of the customers' file go to |diag|. 0, WEIR_EPOLICY, WEIR_EIO (the file cannot be read),
 * WEIR_ENOMEM. */
int wr_keeper_config_new(struct wr_keeper_config **out, const struct wr_policy *policy,
                         struct wr_diag *diag);
void wr_keeper_config_free(struct wr_keeper_config *config);

/* The plan that |plan| is upgraded to; NULL: none. */
const char *wr_keeper_config_upgrade(const struct wr_keeper_config *config, const char *plan);

#endif
