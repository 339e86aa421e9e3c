/* keeper_config.c - a policy's customers, quotas and plans, copied for the keeper's thread: the
 * policy itself goes when the last loop has left it. */
#include "meter/keeper_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meter/keeper.h"
#include "policy/customers.h"
#include "policy/quota.h"
#include "store/usage.h"

static void copy_plans(struct wr_keeper_config *config, const struct wr_policy *policy)
{
    config->plan_count = wr_policy_plan_count(policy);
    config->default_plan = wr_policy_default_plan(policy);
    for (size_t i = 0; i < config->plan_count; i++) {
        (void)snprintf(config->plan[i], sizeof config->plan[i], "%s", wr_policy_plan(policy, i));
        config->upgrade_to[i] = (int16_t)wr_policy_upgrade(policy, i);
    }
}

static void copy_alerts(struct wr_alert_rule *rule, const struct wr_policy *policy,
                        const struct wr_policy_limit *limit)
{
    rule->count = limit->quota->alert_count;
    memcpy(rule->percent, limit->quota->alert_percent, sizeof rule->percent);
    rule->shared = limit->shared;
    for (size_t i = 0; i < wr_policy_plan_count(policy); i++)
        rule->limit[i] = limit->unlimited[i] ? -1 : limit->quota->plan[i].limit;
}

/* Quotas of customers; more of them than there is room for were refused with the policy. */
static int copy_quotas(struct wr_keeper_config *config, const struct wr_policy *policy,
                       struct wr_diag *diag)
{
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        struct wr_kept *kept = &config->quota[config->quota_count];
        if (limit->quota == NULL || !limit->quota->exact)
            continue;
        if (config->quota_count == WR_LEDGER_QUOTAS_MAX) {
            wr_diag_add(diag, WR_ERROR, 0, 0, "expected at most %u quotas by customer, found more",
                        WR_LEDGER_QUOTAS_MAX);
            return WEIR_EPOLICY;
        }
        (void)snprintf(kept->name, sizeof kept->name, "%s", limit->name);
        (void)snprintf(kept->zone, sizeof kept->zone, "%s", limit->quota->zone);
        kept->civil = limit->quota->civil;
        kept->anchor_by_customer = limit->quota->anchor_by_customer;
        copy_alerts(&kept->alert, policy, limit);
        config->quota_count++;
    }
    return 0;
}

static int load_roster(struct wr_keeper_config *config, const struct wr_policy *policy,
                       struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;
    const char *plans[WR_POLICY_PLANS_MAX];
    struct wr_roster_names names = {plans, config->plan_count, customers->by, customers->by_count};

    if (customers->file == NULL)
        return 0;
    for (size_t i = 0; i < config->plan_count; i++)
        plans[i] = config->plan[i];
    (void)snprintf(config->roster_name, sizeof config->roster_name, "%s", customers->file);
    return wr_roster_load(&config->roster, customers->file, &names, diag);
}

int wr_keeper_config_new(struct wr_keeper_config **out, const struct wr_policy *policy,
                         struct wr_diag *diag)
{
    const struct wr_policy_customers *customers = wr_policy_settings(policy)->customers;
    struct wr_keeper_config *config = calloc(1, sizeof *config);
    int result;

    *out = NULL;
    if (config == NULL)
        return WEIR_ENOMEM;
    (void)snprintf(config->directory, sizeof config->directory, "%s", customers->directory);
    config->room = customers->room;
    config->flush_ns = customers->flush_ns;
    config->keep_ns = customers->keep_ns;
    config->confirm = customers->confirm_upgrade.url != NULL;
    config->hooked = customers->webhook.url != NULL;
    copy_plans(config, policy);
    result = copy_quotas(config, policy, diag);
    if (result == 0)
        result = wr_webhook_ends_new(&config->ends, customers, diag);
    if (result == 0)
        result = load_roster(config, policy, diag);
    if (result == 0)
        *out = config;
    else
        wr_keeper_config_free(config);
    return result;
}

/* A file of usage of other windows. What cannot be read is the daemon's to say. */
static void check_usage(const struct wr_keeper_config *config, const struct wr_kept *kept,
                        struct wr_diag *diag)
{
    char path[sizeof config->directory + sizeof kept->name + 8];
    const struct wr_usage_options options = {
        .path = path, .name = kept->name, .per = kept->civil.per, .must_exist = true};
    struct wr_usage *usage;
    struct wr_diag quiet;
    int result;

    (void)snprintf(path, sizeof path, "%s/%s.usage", config->directory, kept->name);
    wr_diag_init(&quiet, NULL);
    result = wr_usage_open(&usage, &options, &quiet);
    if (result == WEIR_EFORMAT)
        wr_diag_add(diag, WR_ERROR, 0, 0, "quota %s: %s", kept->name,
                    quiet.kept > 0 ? quiet.items[0].text : weir_strerror(result));
    if (result == 0)
        wr_usage_close(usage);
}

/* Keys of the customers' file, beside a database that is there. It is only read. */
static void check_roster(const struct wr_keeper_config *config, struct wr_diag *diag)
{
    char path[sizeof config->directory + sizeof WR_DATABASE_NAME + 1];
    const struct wr_database_options options = {.path = path, .read_only = true};
    struct wr_database *database;
    struct wr_fault fault;

    (void)snprintf(path, sizeof path, "%s/%s", config->directory, WR_DATABASE_NAME);
    if (config->roster == NULL || wr_database_open(&database, &options, &fault) != 0)
        return;
    (void)wr_roster_check(config->roster, database, diag);
    wr_database_close(database);
}

void wr_keeper_check(const struct wr_policy *policy, struct wr_diag *diag)
{
    struct wr_keeper_config *config;

    if (wr_keeper_config_new(&config, policy, diag) != 0)
        return;
    for (size_t i = 0; i < config->quota_count; i++)
        check_usage(config, &config->quota[i], diag);
    check_roster(config, diag);
    wr_keeper_config_free(config);
}

void wr_keeper_config_free(struct wr_keeper_config *config)
{
    if (config == NULL)
        return;
    for (size_t i = 0; i < config->quota_count; i++)
        wr_kept_close(&config->quota[i]);
    wr_roster_free(config->roster);
    wr_webhook_ends_free(config->ends);
    free(config);
}

const char *wr_keeper_config_upgrade(const struct wr_keeper_config *config, const char *plan)
{
    for (size_t i = 0; i < config->plan_count; i++)
        if (strcmp(config->plan[i], plan) == 0)
            return config->upgrade_to[i] >= 0 ? config->plan[config->upgrade_to[i]] : NULL;
    return NULL;
}
