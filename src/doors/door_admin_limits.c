/* door_admin_limits.c - /v1/limits: what is in force. */
#include <stdlib.h>

#include "doors/door_admin.h"
#include "lib/handle.h"
#include "policy/envoy.h"

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
        admin_put_ms(page, "window_ms", limit->by[plan].window_ns);
        admin_put_int(page, "capacity", wr_limit_capacity(&limit->by[plan]));
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
        any = any || identity;
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
    const struct wr_envoy *envoy = wr_policy_envoy(handle->policy);
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
        admin_put_int(page, "envoy_rules", envoy != NULL ? (int64_t)wr_envoy_rule_count(envoy) : 0);
        wr_page_close(page, '}');
        admin_page(door, response, 200, "application/json");
    } else {
        http_problem(service, response, 503, "out of memory", nothing);
    }
    free(patterns.pattern);
    free(patterns.start);
}
