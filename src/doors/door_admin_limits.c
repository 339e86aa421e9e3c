/* door_admin_limits.c - /v1/limits: what is in force. */
#include <stdlib.h>
#include <string.h>

#include "doors/door_admin.h"
#include "lib/handle.h"
#include "policy/quota.h"

#define RATE_BYTES 128U

static const struct weir_slice nothing = {NULL, 0};

/* All patterns of all limits: of limit i, those from start[i] on, up to start[i + 1]. */
struct patterns {
    const char **pattern;
    uint32_t *start;
};

static bool find_patterns(const struct wr_policy *policy, struct patterns *out)
{
    out->pattern = calloc(wr_policy_pattern_count(policy) + 1, sizeof *out->pattern);
    out->start = calloc(wr_policy_limit_count(policy) + 1, sizeof *out->start);
    if (out->pattern == NULL || out->start == NULL)
        return false;
    wr_policy_patterns(policy, out->pattern, out->start);
    return true;
}

/* What happens beyond a quota's units. */
static void put_exceed(struct wr_page *page, const struct wr_policy *policy,
                       const struct wr_policy_quota_plan *plan)
{
    static const char *const words[] = {[WR_EXCEED_DENY] = "deny",
                                        [WR_EXCEED_OVERAGE] = "overage",
                                        [WR_EXCEED_UPGRADE] = "upgrade"};

    admin_put_name(page, "on_exceed", words[plan->on_exceed]);
    wr_page_key(page, "admitted_at_most");
    if (plan->most == WR_QUOTA_NO_CEILING)
        wr_page_null(page);
    else
        wr_page_int(page, plan->most);
    if (plan->upgrade_to >= 0)
        admin_put_name(page, "upgrade_to", wr_policy_plan(policy, (size_t)plan->upgrade_to));
}

static void put_classes(struct wr_page *page, unsigned classes)
{
    static const char *const names[] = {"1xx", "2xx", "3xx", "4xx", "5xx"};

    wr_page_key(page, "count");
    wr_page_open(page, '[');
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((classes >> (i + 1) & 1) != 0)
            wr_page_name(page, names[i]);
    wr_page_close(page, ']');
}

/* The calendar of a quota, and what is made of its count. */
static void put_quota(struct wr_page *page, const struct wr_policy_quota *quota)
{
    static const char *const pers[] = {
        [WR_PER_DAY] = "day", [WR_PER_WEEK] = "week", [WR_PER_MONTH] = "month"};

    wr_page_key(page, "quota");
    wr_page_open(page, '{');
    admin_put_name(page, "per", pers[quota->civil.per]);
    admin_put_name(page, "zone", quota->zone);
    admin_put_int(page, "anchor", quota->civil.anchor);
    admin_put_bool(page, "anchor_by_customer", quota->anchor_by_customer);
    admin_put_bool(page, "billed", quota->exact);
    wr_page_key(page, "alert_at");
    wr_page_open(page, '[');
    for (unsigned i = 0; i < quota->alert_count; i++)
        wr_page_int(page, quota->alert_percent[i]);
    wr_page_close(page, ']');
    put_classes(page, quota->count_classes);
    wr_page_close(page, '}');
}

static void put_rate(struct wr_page *page, const struct wr_policy *policy, size_t index,
                     size_t plan, bool named)
{
    const struct wr_policy_limit *limit = wr_policy_limit(policy, index);
    char rate[RATE_BYTES];

    wr_policy_describe_rate(policy, index, plan, rate, sizeof rate);
    wr_page_open(page, '{');
    admin_put_name(page, "plan", named ? wr_policy_plan(policy, plan) : NULL);
    admin_put_name(page, "rate", rate);
    if (!limit->unlimited[plan]) {
        admin_put_int(page, "units", limit->by[plan].units);
        if (limit->quota == NULL)
            admin_put_ms(page, "window_ms", limit->by[plan].window_ns);
        admin_put_int(page, "capacity", wr_limit_capacity(&limit->by[plan]));
        if (limit->quota != NULL)
            put_exceed(page, policy, &limit->quota->plan[plan]);
    }
    wr_page_close(page, '}');
}

/* One for each plan, or one for all. The algorithm is the same in all that are limited. */
static void put_rates(struct wr_page *page, const struct wr_policy *policy, size_t index)
{
    const struct wr_policy_limit *limit = wr_policy_limit(policy, index);
    size_t plans = limit->by_plan ? wr_policy_plan_count(policy) : 1;
    size_t limited = 0;

    while (limited + 1 < plans && limit->unlimited[limited])
        limited++;
    admin_put_name(page, "algorithm",
                   limit->unlimited[limited] ? NULL
                                             : wr_algo_name((enum wr_algo)limit->by[limited].algo));
    admin_put_bool(page, "count_denied", limit->by[limited].count_denied != 0);
    wr_page_key(page, "rates");
    wr_page_open(page, '[');
    for (size_t plan = 0; plan < plans; plan++)
        put_rate(page, policy, index, plan, limit->by_plan);
    wr_page_close(page, ']');
}

static void put_by(struct wr_page *page, const struct wr_policy *policy, size_t index)
{
    static const char *const words[] = {
        [WR_MISSING_IP] = "ip", [WR_MISSING_SKIP] = "skip", [WR_MISSING_DENY] = "deny"};
    bool identity, any = false;
    const char *name;

    wr_page_key(page, "by");
    wr_page_open(page, '[');
    for (unsigned i = 0; (name = wr_policy_part(policy, index, i, &identity)) != NULL; i++) {
        wr_page_name(page, name);
        any = any || identity || strcmp(name, "customer") == 0;
    }
    wr_page_close(page, ']');
    admin_put_name(page, "when_missing", any ? words[wr_policy_when_missing(policy, index)] : NULL);
}

static void put_match(struct wr_page *page, const struct wr_policy *policy, size_t index,
                      const struct patterns *patterns)
{
    struct weir_slice method;

    wr_page_key(page, "match");
    wr_page_open(page, '{');
    wr_page_key(page, "method");
    wr_page_open(page, '[');
    for (size_t n = 0; (method.ptr = wr_policy_method(policy, index, n, &method.len)) != NULL; n++)
        wr_page_string(page, method);
    wr_page_close(page, ']');
    wr_page_key(page, "path");
    wr_page_open(page, '[');
    for (uint32_t i = patterns->start[index]; i < patterns->start[index + 1]; i++)
        wr_page_name(page, patterns->pattern[i]);
    wr_page_close(page, ']');
    wr_page_close(page, '}');
}

static void put_limits(struct wr_page *page, const struct wr_policy *policy,
                       const struct patterns *patterns)
{
    wr_page_key(page, "limits");
    wr_page_open(page, '[');
    for (size_t i = 0; i < wr_policy_limit_count(policy); i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        wr_page_open(page, '{');
        admin_put_name(page, "name", limit->name);
        admin_put_name(page, "mode", limit->shadow ? "shadow" : "enforce");
        put_by(page, policy, i);
        put_match(page, policy, i, patterns);
        if (limit->quota != NULL)
            put_quota(page, limit->quota);
        put_rates(page, policy, i);
        wr_page_close(page, '}');
    }
    wr_page_close(page, ']');
}

static void put_plans(struct wr_page *page, const struct wr_policy *policy)
{
    wr_page_key(page, "plans");
    wr_page_open(page, '[');
    for (size_t i = 0; wr_policy_plan_count(policy) > 1 && i < wr_policy_plan_count(policy); i++)
        wr_page_name(page, wr_policy_plan(policy, i));
    wr_page_close(page, ']');
    admin_put_name(page, "default_plan",
                   wr_policy_plan_count(policy) > 1
                       ? wr_policy_plan(policy, wr_policy_default_plan(policy))
                       : NULL);
}

static void put_doors(struct wr_page *page, const struct wr_server *server)
{
    const struct wr_listener *listener;

    wr_page_key(page, "doors");
    wr_page_open(page, '[');
    for (size_t i = 0; (listener = wr_server_listener(server, i)) != NULL; i++) {
        wr_page_open(page, '{');
        admin_put_name(page, "door", listener->door);
        admin_put_name(page, "address", listener->address);
        admin_put_bool(page, "tls", listener->tls != NULL);
        wr_page_close(page, '}');
    }
    wr_page_close(page, ']');
}

static void put_arena(struct wr_page *page, const struct weir *w)
{
    const char *path = wr_policy_settings(w->policy)->arena_path;

    wr_page_key(page, "arena");
    wr_page_open(page, '{');
    admin_put_name(page, "path", path != NULL && path[0] != '\0' ? path : NULL);
    admin_put_int(page, "bytes", (int64_t)wr_arena_bytes(w->arena));
    admin_put_int(page, "slots", (int64_t)wr_arena_slots(w->arena));
    wr_page_close(page, '}');
}

void admin_limits(struct http_service *service, struct weir_slice peer,
                  const struct wr_http_request *request, struct http_response *response)
{
    struct admin_door *door = admin_door_of(service);
    const struct wr_handle *handle = service->loop->handle;
    struct wr_page *page = &door->page;
    struct patterns patterns;

    (void)peer;
    (void)request;
    if (find_patterns(handle->policy, &patterns)) {
        wr_page_open(page, '{');
        admin_put_int(page, "generation", (int64_t)handle->generation);
        put_doors(page, service->loop->server);
        put_arena(page, handle->weir);
        put_plans(page, handle->policy);
        put_limits(page, handle->policy, &patterns);
        admin_put_envoy(page, handle->policy);
        wr_page_close(page, '}');
        admin_page(door, response, 200, "application/json");
    } else {
        http_problem(service, response, 503, "out of memory", nothing);
    }
    free(patterns.pattern);
    free(patterns.start);
}
