/* describe.c - a policy in words, for summaries. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "policy/compiled.h"
#include "policy/customers.h"
#include "policy/limit_reading.h"
#include "policy/quota.h"
#include "policy/rate.h"

#define SLOT_BYTES 16U

/* A text that grows in |out| and is cut at |size|. */
struct words {
    char *out;
    size_t size;
    size_t at;
};

static void add(struct words *w, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(struct words *w, const char *format, ...)
{
    va_list args;
    int n;

    if (w->at >= w->size)
        return;
    va_start(args, format);
    n = vsnprintf(w->out + w->at, w->size - w->at, format, args);
    va_end(args);
    if (n > 0)
        w->at += (size_t)n;
}

static struct words words_in(char *out, size_t size)
{
    if (size > 0)
        out[0] = '\0';
    return (struct words){out, size, 0};
}

void wr_policy_describe_keys(const struct wr_policy *policy, size_t index, char *out, size_t size)
{
    static const char *const sources[] = {"ip", "route", "method"};
    static const char *const missing[] = {" (or ip)", " (or skipped)", " (or denied)"};
    struct words w = words_in(out, size);
    const struct wr_rule *rule;

    if (index >= policy->limit_count)
        return;
    rule = &policy->rules[index];
    if (rule->parts == 0)
        add(&w, "all together");
    for (size_t i = 0; i < rule->parts; i++) {
        const struct wr_part_rule *part = &rule->part[i];
        add(&w, "%s", i > 0 ? ", " : "");
        if (part->source == WR_BY_IDENTITY)
            add(&w, "%s%s", policy->identities[part->identity].name, missing[rule->when_missing]);
        else if (part->source == WR_BY_CUSTOMER)
            add(&w, "customer%s", missing[rule->when_missing]);
        else
            add(&w, "%s", sources[part->source]);
        if (part->source == WR_BY_IP && rule->prefix != 0)
            add(&w, "/%u", policy->prefixes[rule->prefix]);
    }
}

static void add_duration(struct words *w, int64_t ns)
{
    if (ns % WR_NS_PER_S == 0)
        add(w, "%llds", (long long)(ns / WR_NS_PER_S));
    else
        add(w, "%lldms", (long long)(ns / WR_NS_PER_MS));
}

static void add_days(struct words *w, int64_t ns)
{
    if (ns % WR_NS_PER_DAY == 0)
        add(w, "%lldd", (long long)(ns / WR_NS_PER_DAY));
    else
        add_duration(w, ns);
}

/* "1000 a day, Europe/Istanbul, then overage to 20000". */
static void add_quota(struct words *w, const struct wr_policy *policy,
                      const struct wr_policy_quota *quota, size_t plan)
{
    static const char *const pers[] = {
        [WR_PER_DAY] = "day", [WR_PER_WEEK] = "week", [WR_PER_MONTH] = "month"};
    const struct wr_policy_quota_plan *of = &quota->plan[plan];

    add(w, "%lld a %s", (long long)of->limit, pers[quota->civil.per]);
    if (quota->anchor_by_customer)
        add(w, " from the customer's day");
    else if (quota->civil.anchor > 1)
        add(w, " from day %u", quota->civil.anchor);
    add(w, ", %s", quota->zone);
    if (of->on_exceed == WR_EXCEED_UPGRADE)
        add(w, ", then upgrade to %s", policy->plans[of->upgrade_to]);
    else if (of->on_exceed == WR_EXCEED_OVERAGE && of->most == WR_QUOTA_NO_CEILING)
        add(w, ", then overage");
    else if (of->on_exceed == WR_EXCEED_OVERAGE)
        add(w, ", then overage to %lld", (long long)of->most);
    else if (of->most > of->limit)
        add(w, ", then a grace of %lld", (long long)(of->most - of->limit));
}

void wr_policy_describe_rate(const struct wr_policy *policy, size_t index, size_t plan, char *out,
                             size_t size)
{
    struct words w = words_in(out, size);
    const struct wr_limit *limit;
    char rate[64];

    if (index >= policy->limit_count || plan >= policy->plan_count)
        return;
    if (policy->limits[index].unlimited[plan]) {
        add(&w, "unlimited");
        return;
    }
    if (policy->limits[index].quota != NULL) {
        add_quota(&w, policy, policy->limits[index].quota, plan);
        return;
    }
    limit = &policy->limits[index].by[plan];
    if (limit->algo == WR_CONCURRENCY) {
        add(&w, "%lld at once, held ", (long long)limit->units);
        add_duration(&w, limit->window_ns);
        add(&w, " at most");
        return;
    }
    wr_rate_words(limit->units, limit->window_ns, rate, sizeof rate);
    add(&w, "%s", rate);
    if (limit->algo == WR_TOKEN_BUCKET && limit->burst != limit->units)
        add(&w, ", burst %lld", (long long)limit->burst);
    if (limit->algo == WR_LEAKY_BUCKET)
        add(&w, ", queue %lld", (long long)limit->burst);
}

/* Where the numbers of a plan are too small or too quick, it stays strict under it. */
static const char *mode_of(const struct wr_policy *policy, const struct wr_policy_limit *limit,
                           unsigned nodes)
{
    bool some = false, all = true;

    for (size_t plan = 0; plan < policy->plan_count; plan++) {
        bool leases =
            limit->leased && wr_why_strict(wr_policy_at_store(limit, plan), nodes) == NULL;
        if (limit->unlimited[plan] || limit->by[plan].units == 0)
            continue;
        some = some || leases;
        all = all && leases;
    }
    return !some ? "strict" : all ? "leased" : "leased under some plans";
}

void wr_policy_describe_shared(const struct wr_policy *policy, size_t index, char *out, size_t size)
{
    const struct wr_policy_store *store = policy->settings.store;
    struct words w = words_in(out, size);
    const struct wr_policy_limit *limit;

    if (index >= policy->limit_count || !policy->limits[index].shared || store == NULL)
        return;
    limit = &policy->limits[index];
    add(&w, "shared, %s; store gone: ", mode_of(policy, limit, store->nodes));
    if (limit->when_gone == WR_GONE_LOCAL && store->nodes > 1)
        add(&w, "1/%u of it here", store->nodes);
    else if (limit->when_gone == WR_GONE_LOCAL)
        add(&w, "its part here");
    else
        add(&w, "%s", limit->when_gone == WR_GONE_OPEN ? "open" : "closed");
}

void wr_policy_describe_customers(const struct wr_policy *policy, char *out, size_t size)
{
    const struct wr_policy_customers *customers = policy->settings.customers;
    struct words w = words_in(out, size);

    if (customers == NULL)
        return;
    add(&w, "by ");
    for (unsigned i = 0; i < customers->by_count; i++)
        add(&w, "%s%s", i > 0 ? ", " : "", customers->by[i]);
    add(&w, "; room for %u in %s; the ledger at most ", customers->room, customers->directory);
    add_duration(&w, customers->flush_ns);
    add(&w, " behind");
    if (customers->keep_ns > 0) {
        add(&w, ", windows kept for ");
        add_days(&w, customers->keep_ns);
    }
}

void wr_policy_describe_plan(const struct wr_policy *policy, size_t plan, char *out, size_t size)
{
    struct words w = words_in(out, size);

    if (plan >= policy->plan_count)
        return;
    add(&w, "%s", policy->plans[plan]);
    if (plan == policy->default_plan)
        add(&w, " (default)");
    if (policy->upgrades[plan] >= 0)
        add(&w, " -> %s", policy->plans[policy->upgrades[plan]]);
}

void wr_policy_describe_store(const struct wr_policy *policy, char *out, size_t size)
{
    static const char *const kinds[] = {"redis", "redis by sentinels", "redis cluster", "memcached",
                                        "ring"};
    const struct wr_policy_store *store = policy->settings.store;
    struct words w = words_in(out, size);

    if (store == NULL)
        return;
    add(&w, "%s", kinds[store->kind]);
    if (store->dns.text != NULL)
        add(&w, " %s", store->dns.text);
    for (size_t i = 0; i < store->address_count && i < 3; i++)
        add(&w, "%s %s", i > 0 ? "," : "", store->addresses[i].text);
    if (store->address_count > 3)
        add(&w, " and %zu more", store->address_count - 3);
    add(&w, "; deadline ");
    add_duration(&w, store->deadline_ns);
}

uint64_t wr_policy_slots(const struct wr_policy *policy)
{
    const struct wr_policy_settings *settings = &policy->settings;
    return settings->arena_bytes * (100 - settings->arena_log_percent) / 100 / SLOT_BYTES;
}
