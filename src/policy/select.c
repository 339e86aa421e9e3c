/* select.c - which limits does a request meet, and by which keys?
 *
 * Problem. This runs for every request in the web server's worker: it must cost what the request
 * matches, not what the policy holds, and must not allocate.
 *
 * Idea. Four steps, each skipped where the policy does not ask for it: find the client; find the
 * plan; walk the path once through the tree of all patterns, collecting limits, costs and the
 * route; make the keys of the limits found. Identities are resolved when first needed.
 *
 * Invariants:
 *   1. selected[] is in the order of the file, each limit once, with the most specific of its
 *      patterns that matched.
 *   2. Key parts point to memory that outlives the call: the request, the policy, |out| itself.
 *   3. An empty value is a missing value; a value that the host program gives, empty or not, wins
 *      over a header.
 *   4. Every bound is the policy's or WEIR_LIMITS_MAX; nothing a caller sends lengthens a loop but
 *      the length of what it sent. */
#include <string.h>

#include "policy/compiled.h"
#include "policy/customers.h"
#include "policy/forwarded.h"
#include "policy/path.h"
#include "policy/values.h"

/* One limit that matches, before its key is made. */
struct found {
    uint16_t limit;
    const struct wr_pattern_end *by; /* the pattern that matched; NULL: the limit has no path */
};

struct selecting {
    const struct wr_policy *policy;
    const struct weir_request *request;
    struct wr_selection *out;
    uint64_t method;                    /* its bit */
    uint32_t resolved;                  /* bit: identities[] below is filled */
    uint32_t cost_rule;                 /* the first one that matches; cost_count: none */
    uint64_t included;                  /* plans that have the route, a bit each */
    const struct wr_pattern_end *route; /* the most specific pattern that matched; or NULL */
    uint32_t count;
    bool over_max;
    struct found found[WEIR_LIMITS_MAX];
    struct weir_slice identities[WR_IDENTITIES_MAX]; /* len 0: missing */
};

static struct weir_slice field(const struct selecting *s, int index)
{
    return wr_request_field(s->request, index);
}

/* ---- the client -------------------------------------------------------------------------- */

static void find_client(struct selecting *s)
{
    const struct wr_policy *policy = s->policy;
    struct wr_selection *out = s->out;
    struct wr_ip peer;

    out->client_is_host = !wr_ip_parse_hostport(s->request->peer, &peer);
    if (out->client_is_host) {
        out->client = (struct wr_ip){{0}};
        out->client_host = s->request->peer;
        return;
    }
    out->peer_trusted = wr_netset_holds(&policy->client.trusted, &peer);
    out->client = policy->client.from == WR_FROM_PEER
                      ? peer
                      : wr_client_find(&policy->client, &peer, field(s, policy->client.field));
    out->client_host = (struct weir_slice){NULL, 0};
    for (size_t i = 0; i < policy->prefix_count; i++)
        out->masked[i] = wr_ip_mask(out->client, policy->prefixes[i]);
}

/* ---- identities, plan, bans -------------------------------------------------------------- */

struct weir_slice wr_policy_believed(const struct wr_policy *policy,
                                     const struct weir_request *request,
                                     const struct wr_selection *selection, size_t index)
{
    return wr_identity_value(&policy->identities[index], request, selection->peer_trusted);
}

/* The value of an identity; len 0: missing. */
static struct weir_slice identity_value(struct selecting *s, unsigned index)
{
    if ((s->resolved >> index & 1) == 0) {
        s->identities[index] =
            wr_identity_value(&s->policy->identities[index], s->request, s->out->peer_trusted);
        s->resolved |= UINT32_C(1) << index;
    }
    return s->identities[index];
}

/* ---- the customer ------------------------------------------------------------------------ */

/* Say early what the first one probably is. */
static void expect_customer(struct selecting *s, const struct wr_customer_finder *finder)
{
    const struct wr_policy_customers *customers = s->policy->settings.customers;
    const struct wr_identity *identity;
    struct weir_slice value;

    if (customers == NULL || customers->by_count == 0)
        return;
    identity = &s->policy->identities[customers->identity[0]];
    value = wr_identity_value(identity, s->request, true);
    if (identity->trust_anyone) {
        s->identities[customers->identity[0]] = value;
        s->resolved |= UINT32_C(1) << customers->identity[0];
    }
    if (value.len > 0)
        finder->expect(finder->context, value);
}

/* The first identity of customers.by that leads to one. */
static void find_customer(struct selecting *s, const struct wr_customer_finder *finder)
{
    const struct wr_policy_customers *customers = s->policy->settings.customers;

    if (customers == NULL || finder == NULL)
        return;
    for (unsigned i = 0; i < customers->by_count && !s->out->customer_known; i++) {
        struct weir_slice value = identity_value(s, customers->identity[i]);
        s->out->customer_known =
            value.len > 0 && finder->find(finder->context, i, value, &s->out->customer);
    }
}

/* The customer's plan; -1: it has none that the policy knows. */
static int customer_plan(const struct selecting *s, const struct wr_customer_finder *finder)
{
    const struct wr_policy *policy = s->policy;
    const struct wr_customer_seen *customer = &s->out->customer;
    int plan;

    if (finder == NULL || !s->out->customer_known)
        return -1;
    plan = finder->plan(finder->context, customer->file_plan);
    if (plan < 0 || (size_t)plan >= policy->plan_count)
        return -1;
    if ((customer->flags & WR_CUSTOMER_WANTS_UPGRADE) != 0 && policy->upgrades[plan] >= 0 &&
        policy->settings.customers->confirm_upgrade.url == NULL)
        return policy->upgrades[plan];
    return plan;
}

/* ---- the plan ---------------------------------------------------------------------------- */

static unsigned find_plan(struct selecting *s, const struct wr_customer_finder *finder)
{
    const struct wr_policy *policy = s->policy;
    const struct wr_table_entry *entry = NULL;
    int plan;

    if (s->request->plan >= 0 && (size_t)s->request->plan < policy->plan_count) {
        s->out->plan_from = WR_PLAN_GIVEN;
        return (unsigned)s->request->plan;
    }
    plan = customer_plan(s, finder);
    if (plan >= 0) {
        s->out->plan_from = WR_PLAN_CUSTOMER;
        return (unsigned)plan;
    }
    if (policy->key_identity >= 0) {
        struct weir_slice key = identity_value(s, (unsigned)policy->key_identity);
        if (key.len > 0)
            entry = wr_table_find(&policy->values, WR_TAG_PLAN_KEY, key);
        if (entry != NULL)
            s->out->plan_from = WR_PLAN_KEY;
    }
    if (entry == NULL && policy->plan_field >= 0 && s->out->peer_trusted) {
        struct weir_slice name = wr_trimmed(field(s, policy->plan_field));
        if (name.len > 0)
            entry = wr_table_find(&policy->values, WR_TAG_PLAN_NAME, name);
        if (entry != NULL)
            s->out->plan_from = WR_PLAN_HEADER;
    }
    return entry != NULL ? entry->value : policy->default_plan;
}

static bool is_banned(struct selecting *s)
{
    const struct wr_policy *policy = s->policy;

    if (s->out->customer_known && (s->out->customer.flags & WR_CUSTOMER_SUSPENDED) != 0)
        return true;
    if (!s->out->client_is_host && wr_netset_holds(&policy->banned, &s->out->client))
        return true;
    for (uint32_t rest = policy->banned_identities; rest != 0; rest &= rest - 1) {
        unsigned index = (unsigned)__builtin_ctz(rest);
        struct weir_slice value = identity_value(s, index);
        if (value.len > 0 && wr_table_find(&policy->values, WR_TAG_BANNED + index, value) != NULL)
            return true;
    }
    return false;
}

/* ---- matching ---------------------------------------------------------------------------- */

uint64_t wr_method_bit(const struct wr_policy *policy, struct weir_slice method)
{
    for (size_t i = 0; i < policy->method_count; i++)
        if (policy->methods[i].len == method.len &&
            memcmp(policy->methods[i].ptr, method.ptr, method.len) == 0)
            return UINT64_C(1) << i;
    return WR_METHOD_OTHER;
}

/* Keep |limit| among the first WEIR_LIMITS_MAX of the file that match. */
static void keep_limit(struct selecting *s, uint16_t limit, const struct wr_pattern_end *by)
{
    uint32_t at = s->count;

    if ((s->policy->rules[limit].methods & s->method) == 0 ||
        s->policy->rules[limit].unlimited[s->out->plan])
        return;
    while (at > 0 && s->found[at - 1].limit > limit)
        at--;
    if (at > 0 && s->found[at - 1].limit == limit) { /* by another of its patterns */
        if (by != NULL && by->rank < s->found[at - 1].by->rank)
            s->found[at - 1].by = by;
        return;
    }
    if (s->count == WEIR_LIMITS_MAX) {
        s->over_max = true;
        if (at == WEIR_LIMITS_MAX)
            return;
        s->count--;
    }
    if (at < s->count)
        memmove(&s->found[at + 1], &s->found[at], (s->count - at) * sizeof s->found[0]);
    s->found[at] = (struct found){limit, by};
    s->count++;
}

/* A plan's own costs come before those of all. */
static uint32_t cost_order(const struct wr_policy *policy, uint32_t rule)
{
    uint32_t common = (uint32_t)policy->common_cost_count;

    return rule >= common ? rule - common : rule + ((uint32_t)policy->cost_count - common);
}

static void keep_cost(struct selecting *s, uint32_t rule)
{
    const struct wr_policy *policy = s->policy;
    const struct wr_cost_rule *cost = &policy->costs[rule];

    if ((cost->methods & s->method) == 0 || (cost->plans >> s->out->plan & 1) == 0)
        return;
    if (s->cost_rule == policy->cost_count ||
        cost_order(policy, rule) < cost_order(policy, s->cost_rule))
        s->cost_rule = rule;
}

static void walk_path(struct selecting *s, const struct wr_path *path)
{
    uint64_t allowed = ~s->policy->listing_plans, denied = 0;
    struct wr_walk walk;
    const struct wr_tree_node *node;

    wr_walk_start(&walk, &s->policy->tree, path);
    while ((node = wr_walk_next(&walk)) != NULL) {
        for (const struct wr_pattern_end *end = node->ends; end != NULL; end = end->next) {
            if (s->route == NULL || end->rank < s->route->rank)
                s->route = end;
            if (end->use == WR_USE_LIMIT)
                keep_limit(s, (uint16_t)end->index, end);
            else if (end->use == WR_USE_COST)
                keep_cost(s, end->index);
            else if (end->use == WR_USE_PLAN_DENY)
                denied |= UINT64_C(1) << end->index;
            else if (end->use == WR_USE_PLAN_ALLOW)
                allowed |= UINT64_C(1) << end->index;
        }
    }
    if (((denied | ~allowed) >> s->out->plan & 1) != 0)
        s->out->plan_excludes = true;
    s->included &= allowed & ~denied;
}

/* Apart, so that policies without paths do not pay for the stack that a path takes. Where a path
 * has encoded slashes, what matches in either reading counts. */
static __attribute__((noinline)) void match_path(struct selecting *s)
{
    struct wr_path path;

    wr_path_split(s->request->path, WR_SLASH_IN_SEGMENT, &path);
    walk_path(s, &path);
    if (path.encoded_slash) {
        wr_path_split(s->request->path, WR_SLASH_SEPARATES, &path);
        walk_path(s, &path);
    }
}

/* The next plan on the way up that has the route; -1: none has. */
static int16_t plan_with(const struct selecting *s)
{
    int plan = (int)s->policy->upgrades[s->out->plan];

    while (plan >= 0 && (s->included >> plan & 1) == 0)
        plan = (int)s->policy->upgrades[plan];
    return (int16_t)plan;
}

static void match(struct selecting *s)
{
    const struct wr_policy *policy = s->policy;

    for (size_t i = 0; i < policy->pathless_count; i++)
        keep_limit(s, policy->pathless[i], NULL);
    for (size_t i = 0; i < policy->pathless_cost_count; i++)
        keep_cost(s, policy->pathless_costs[i]);
    if (policy->tree.root != NULL)
        match_path(s);
}

/* ---- keys -------------------------------------------------------------------------------- */

/* The client as a key part: |address| or |host| is its kind. */
static struct wr_key_part client_part(const struct selecting *s, unsigned prefix, uint8_t address,
                                      uint8_t host)
{
    struct wr_selection *out = s->out;

    if (out->client_is_host)
        return (struct wr_key_part){out->client_host, host};
    return (struct wr_key_part){
        {(const char *)out->masked[prefix].bytes, sizeof out->masked[prefix].bytes}, address};
}

/* Make one part of the key of |rule|. False: it is missing, and the limit skips or denies. */
static bool make_part(struct selecting *s, const struct wr_rule *rule, unsigned index,
                      const struct wr_pattern_end *by, struct wr_key_part *part)
{
    switch (rule->part[index].source) {
    case WR_BY_IP:
        *part = client_part(s, rule->prefix, WR_PART_IP, WR_PART_HOST);
        return true;
    case WR_BY_ROUTE:
        if (by == NULL)
            by = s->route;
        *part = (struct wr_key_part){
            {by != NULL ? by->pattern : "", by != NULL ? by->pattern_len : 0}, WR_PART_VALUE};
        return true;
    case WR_BY_METHOD:
        *part = (struct wr_key_part){s->request->method, WR_PART_VALUE};
        return true;
    case WR_BY_CUSTOMER:
        if (s->out->customer_known) {
            *part = (struct wr_key_part){
                {(const char *)&s->out->customer.id, sizeof s->out->customer.id}, WR_PART_CUSTOMER};
            return true;
        }
        if (rule->when_missing != WR_MISSING_IP)
            return false;
        *part = client_part(s, rule->prefix, WR_PART_FALLBACK, WR_PART_FALLBACK_HOST);
        return true;
    case WR_BY_IDENTITY:
    default:
        *part = (struct wr_key_part){identity_value(s, rule->part[index].identity), WR_PART_VALUE};
        if (part->bytes.len > 0)
            return true;
        if (rule->when_missing != WR_MISSING_IP)
            return false;
        *part = client_part(s, rule->prefix, WR_PART_FALLBACK, WR_PART_FALLBACK_HOST);
        return true;
    }
}

static void make_keys(struct selecting *s)
{
    struct wr_selection *out = s->out;

    for (uint32_t i = 0; i < s->count; i++) {
        const struct wr_rule *rule = &s->policy->rules[s->found[i].limit];
        struct wr_selected *selected = &out->selected[out->count];
        unsigned parts = 0;
        while (parts < rule->parts &&
               make_part(s, rule, parts, s->found[i].by, &selected->part[parts]))
            parts++;
        if (parts < rule->parts && rule->when_missing == WR_MISSING_SKIP)
            continue;
        selected->limit = s->found[i].limit;
        selected->deny_missing = parts < rule->parts;
        selected->parts = (uint8_t)parts;
        out->count++;
    }
}

void wr_policy_select_with(const struct wr_policy *policy, const struct weir_request *request,
                           const struct wr_customer_finder *finder, struct wr_selection *out)
{
    struct selecting s;

    s.policy = policy;
    s.request = request;
    s.out = out;
    s.method = policy->method_count > 0 ? wr_method_bit(policy, request->method) : WR_METHOD_OTHER;
    s.resolved = 0;
    s.cost_rule = (uint32_t)policy->cost_count;
    s.included = UINT64_MAX;
    s.route = NULL;
    s.count = 0;
    s.over_max = false;
    out->count = 0;
    out->peer_trusted = false;
    out->plan_excludes = false;
    out->customer_known = false;
    out->customer = (struct wr_customer_seen){0};
    if (finder != NULL && finder->expect != NULL)
        expect_customer(&s, finder);
    find_client(&s);
    find_customer(&s, finder);
    out->plan_from = WR_PLAN_DEFAULT;
    out->plan = policy->plan_count > 1 ? find_plan(&s, finder) : 0;
    out->banned = is_banned(&s);
    match(&s);
    out->plan_wanted = -1;
    if (out->plan_excludes)
        out->plan_wanted = plan_with(&s);
    out->route = s.route != NULL ? s.route->pattern : "";
    out->over_max = s.over_max;
    out->cost_rule = s.cost_rule < policy->cost_count ? (int32_t)s.cost_rule : -1;
    out->cost = request->cost_units >= 0           ? request->cost_units
                : s.cost_rule < policy->cost_count ? policy->costs[s.cost_rule].cost
                                                   : 1;
    make_keys(&s);
}

void wr_policy_select(const struct wr_policy *policy, const struct weir_request *request,
                      struct wr_selection *out)
{
    wr_policy_select_with(policy, request, NULL, out);
}

bool wr_policy_trusts(const struct wr_policy *policy, struct weir_slice peer)
{
    struct wr_ip ip;

    return wr_ip_parse_hostport(peer, &ip) && wr_netset_holds(&policy->client.trusted, &ip);
}
