/* warn.c - what is legal but unwise.
 *
 * Every warning here has let somebody's callers through, or shut them out, without a word: a proxy
 * that nobody trusts makes all callers one; a key that a caller makes up is a fresh counter each
 * time; the seventeenth limit is never looked at. Warnings do not fail a policy, with one
 * exception: limits beyond WEIR_LIMITS_MAX for one request are an error, as they would silently not
 * hold. */
#include <stdio.h>
#include <string.h>

#include "policy/loader.h"
#include "policy/quota.h"

#define KEYS_FEW 4096U      /* live keys below which an arena is surely too small */
#define LISTS_FEW 100U      /* full lists of stamps below which it is */
#define STAMPS_MANY 1000    /* units of a sliding log that deserve a second thought */
#define STAMPS_PER_NODE 15U /* a list's node: 64 bytes */
#define NODE_BYTES 64U
#define SLOT_BYTES 16U
#define SAMPLES_MAX 100000U /* requests tried for meeting too many limits: under a second */

/* ---- looking back at the text ------------------------------------------------------------ */

/* The value of |name| in the map |node|, or |node| itself: a place for a message. */
static const struct wr_yaml *place(const struct wr_yaml *node, const char *name)
{
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next)
        if (value->key != NULL && strcmp(value->key->text, name) == 0)
            return value;
    return node;
}

/* The first plan to which limit |index| applies; plan_count: none. */
static size_t first_plan(const struct wr_policy *policy, size_t index)
{
    size_t plan = 0;

    while (plan < policy->plan_count && policy->limits[index].unlimited[plan])
        plan++;
    return plan;
}

/* ---- identity ---------------------------------------------------------------------------- */

static void warn_proxies(struct wr_loader *ld)
{
    static const char *const names[] = {"peer", "X-Forwarded-For", "Forwarded", NULL};
    const struct wr_policy *policy = ld->policy;
    const struct wr_client_rule *client = &policy->client;
    const struct wr_yaml *identity = ld->sections[WR_SECTION_IDENTITY];
    const char *name = names[client->from];

    if (identity == NULL)
        return;
    if (client->from != WR_FROM_PEER && client->trusted.count == 0 && client->hops == 0)
        wr_warning(ld, place(place(identity, "ip"), "from"),
                   "%s is never believed: identity.ip.trusted names no proxy, so behind one all "
                   "callers share its address",
                   name != NULL ? name : policy->fields[client->field]);
    if (client->hops > 0 && client->trusted.count == 0)
        wr_warning(ld, place(place(identity, "ip"), "hops"),
                   "hops without trusted believes every peer: whoever reaches this host past the "
                   "proxies chooses its address");
    if (policy->plan_field >= 0 && client->trusted.count == 0)
        wr_warning(ld, place(identity, "plan"),
                   "the plan's header is never believed: identity.ip.trusted names no proxy");
}

static void warn_identities(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;

    for (size_t i = 0; i < policy->identity_count; i++) {
        const struct wr_identity *identity = &policy->identities[i];
        if (identity->header < 0)
            continue;
        if (!identity->trust_anyone && policy->client.trusted.count == 0)
            wr_warning(ld, ld->identity_nodes[i],
                       "%s is never believed from its header: identity.ip.trusted names no proxy; "
                       "a value given by the host program is",
                       identity->name);
        if (identity->trust_anyone && strcmp(identity->name, "api_key") != 0)
            wr_warning(ld, place(ld->identity_nodes[i], "trust"),
                       "%s is believed from anyone: a caller can claim to be somebody else, or "
                       "somebody new each time",
                       identity->name);
    }
}

/* ---- single limits ----------------------------------------------------------------------- */

/* Whether the limit counts by address in any way; and an identity that callers can make up. */
static bool is_by_ip(const struct wr_rule *rule)
{
    for (size_t i = 0; i < rule->parts; i++)
        if (rule->part[i].source == WR_BY_IP)
            return true;
    return false;
}

static const char *made_up(const struct wr_policy *policy, const struct wr_rule *rule)
{
    for (size_t i = 0; i < rule->parts; i++) {
        const struct wr_identity *identity = &policy->identities[rule->part[i].identity];
        if (rule->part[i].source == WR_BY_IDENTITY && identity->header >= 0 &&
            identity->trust_anyone)
            return identity->name;
    }
    return NULL;
}

/* Is there an enforced limit by address that every request meets? */
static bool has_floor(const struct wr_policy *policy)
{
    for (size_t i = 0; i < policy->pathless_count; i++) {
        size_t limit = policy->pathless[i];
        if (is_by_ip(&policy->rules[limit]) && made_up(policy, &policy->rules[limit]) == NULL &&
            policy->rules[limit].methods == WR_METHODS_ALL && !policy->limits[limit].shadow)
            return true;
    }
    return false;
}

static void warn_rate(struct wr_loader *ld, const struct wr_yaml *node,
                      const struct wr_limit *limit)
{
    const struct wr_yaml *rate = place(node, "rate");

    if (limit->units == 0)
        wr_warning(ld, limit->algo == WR_CONCURRENCY ? place(node, "concurrent") : rate,
                   "a limit of 0 refuses every request");
    else if (limit->algo == WR_FIXED_WINDOW)
        wr_warning(ld, place(node, "algorithm"),
                   "fixed-window lets twice its rate pass around the boundary of two windows; "
                   "sliding-window does not");
    else if (limit->algo == WR_LEAKY_BUCKET && limit->burst == 0)
        wr_warning(ld, rate,
                   "leaky-bucket without a queue refuses every request that comes sooner after "
                   "another than the rate's spacing; queue N lets N wait");
    else if (limit->algo == WR_SLIDING_LOG && limit->units >= STAMPS_MANY)
        wr_warning(
            ld, rate,
            "a sliding-log of %lld keeps up to %lld KiB a key; sliding-window keeps 16 bytes",
            (long long)limit->units,
            (long long)(limit->units / STAMPS_PER_NODE * NODE_BYTES / 1024));
}

/* What a quota by customer says beside its numbers is for warn_quota.c to compare. */
static bool is_billed(const struct wr_policy_limit *limit)
{
    return limit->quota != NULL && limit->quota->exact;
}

static bool is_same(const struct wr_policy *policy, size_t a, size_t b)
{
    const struct wr_rule *x = &policy->rules[a], *y = &policy->rules[b];

    return !is_billed(&policy->limits[a]) && !is_billed(&policy->limits[b]) &&
           x->parts == y->parts && x->methods == y->methods && x->prefix == y->prefix &&
           x->when_missing == y->when_missing &&
           policy->limits[a].shadow == policy->limits[b].shadow &&
           memcmp(x->part, y->part, sizeof x->part) == 0 &&
           memcmp(policy->limits[a].by, policy->limits[b].by,
                  policy->plan_count * sizeof policy->limits[a].by[0]) == 0;
}

/* Two limits without a path that say the same. (With a path they count apart, by pattern or not.)
 */
static void warn_same(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;

    for (size_t i = 1; i < policy->pathless_count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!is_same(policy, policy->pathless[i], policy->pathless[j]))
                continue;
            wr_warning(ld, ld->limit_nodes[policy->pathless[i]],
                       "%s says the same as %s and is never the one that refuses",
                       policy->limits[policy->pathless[i]].name,
                       policy->limits[policy->pathless[j]].name);
            break;
        }
    }
}

static void warn_limits(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    bool floor = has_floor(policy);

    for (size_t i = 0; i < policy->limit_count; i++) {
        size_t plan = first_plan(policy, i);
        const char *free_choice = made_up(policy, &policy->rules[i]);
        if (plan == policy->plan_count) {
            wr_warning(ld, ld->limit_nodes[i], "%s never limits: it is unlimited for every plan",
                       policy->limits[i].name);
            continue;
        }
        if (policy->limits[i].quota == NULL &&
            !(policy->limits[i].shadow && policy->limits[i].by[plan].units == 0))
            warn_rate(ld, ld->limit_nodes[i], &policy->limits[i].by[plan]);
        if (free_choice != NULL && !is_by_ip(&policy->rules[i]) && !floor)
            wr_warning(ld, place(ld->limit_nodes[i], "by"),
                       "a caller can make up a new %s for each request and get a fresh counter: "
                       "put a limit by ip for all requests beside it",
                       free_choice);
    }
    warn_same(ld);
}

/* ---- costs, plans, arena ----------------------------------------------------------------- */

/* A rule for all requests hides those behind it. */
static void warn_costs(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_yaml *node = ld->sections[WR_SECTION_COSTS];

    for (size_t i = 0; i < policy->pathless_cost_count; i++) {
        uint32_t rule = policy->pathless_costs[i];
        const struct wr_yaml *item = node->first;
        if (policy->costs[rule].methods != WR_METHODS_ALL || rule + 1 >= policy->common_cost_count)
            continue;
        for (uint32_t skip = 0; skip <= rule; skip++)
            item = item->next;
        wr_warning(ld, item,
                   "this cost is never used: the one before it is for all requests, and "
                   "the first that matches counts");
        return;
    }
}

/* Plans that stand beside keys but have no rate anywhere: a slip, most likely. They are not quoted:
 * who swaps the two sides writes a key there. */
static void warn_plans(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_yaml *keys;

    if (policy->key_identity < 0)
        return;
    keys = place(place(ld->sections[WR_SECTION_IDENTITY], "plan"), "keys");
    for (const struct wr_yaml *value = keys->first; value != NULL; value = value->next) {
        int plan = wr_find_plan(policy, wr_slice_of(value));
        if (plan < 0 || plan == (int)policy->default_plan || (ld->rated_plans >> plan & 1) != 0)
            continue;
        wr_warning(ld, value,
                   "no limit has a rate for this plan: the default plan's rates count for the key");
    }
}

static void warn_arena(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    const struct wr_yaml *arena = ld->sections[WR_SECTION_ARENA];
    uint64_t lists = policy->settings.arena_bytes * policy->settings.arena_log_percent / 100;
    uint64_t keys = (policy->settings.arena_bytes - lists) / SLOT_BYTES / 4;

    if (arena != NULL && keys < KEYS_FEW)
        wr_warning(ld, place(arena, "size"),
                   "the arena is meant for about %llu live keys; under more, callers who used "
                   "little are forgotten first",
                   (unsigned long long)keys);
    for (size_t i = 0; i < policy->limit_count; i++) {
        for (size_t plan = 0; plan < policy->plan_count; plan++) {
            const struct wr_limit *limit = &policy->limits[i].by[plan];
            uint64_t full = ((uint64_t)limit->units / STAMPS_PER_NODE + 1) * NODE_BYTES;
            if (limit->algo != WR_SLIDING_LOG || lists / full >= LISTS_FEW)
                continue;
            wr_warning(ld, place(ld->limit_nodes[i], "rate"),
                       "the arena has room for only %llu full lists of this limit: make "
                       "arena.size larger, or use sliding-window",
                       (unsigned long long)(lists / full));
            break;
        }
    }
}

static bool is_queue(const struct wr_policy *policy, size_t i)
{
    const struct wr_policy_limit *limit = &policy->limits[i];
    size_t plan = first_plan(policy, i);

    return limit->shared && !limit->shadow && plan < policy->plan_count &&
           limit->by[plan].algo == WR_LEAKY_BUCKET;
}

static bool same_parts(const struct wr_rule *a, const struct wr_rule *b)
{
    return a->parts == b->parts && a->prefix == b->prefix &&
           memcmp(a->part, b->part, a->parts * sizeof a->part[0]) == 0;
}

/* What a leaky bucket gave cannot be given back when others have queued behind it. Of a request's
 * limits in several places those are asked last, so it takes two of them. */
static void warn_queues(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    enum wr_store_kind kind = policy->settings.store->kind;

    if (kind != WR_STORE_CLUSTER && kind != WR_STORE_RING)
        return;
    for (size_t i = 0; i < policy->limit_count; i++)
        for (size_t j = i + 1; j < policy->limit_count; j++) {
            if (!is_queue(policy, i) || !is_queue(policy, j) ||
                same_parts(&policy->rules[i], &policy->rules[j]))
                continue;
            wr_warning(ld, ld->limit_nodes[j],
                       "a request of this leaky bucket and of %s, which counts by other parts, "
                       "may be refused by one and keep its place in the other: %s asks them one "
                       "after the other; count both by the same parts",
                       policy->limits[i].name, kind == WR_STORE_RING ? "a ring" : "a cluster");
            return;
        }
}

static void warn_store(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;

    if (policy->settings.store != NULL)
        warn_queues(ld);
    for (size_t i = 0; i < policy->limit_count; i++)
        if (policy->limits[i].shared)
            return;
    if (policy->settings.store != NULL)
        wr_warning(ld, ld->sections[WR_SECTION_STORE]->key,
                   "store has no effect: no limit is shared");
}

/* ---- answers ----------------------------------------------------------------------------- */

/* A status that proxies take for a failure of the daemon, upon which many let the request pass. */
static void warn_status(struct wr_loader *ld, const char *name, int status)
{
    const struct wr_policy_settings *settings = &ld->policy->settings;

    for (size_t i = 0; status >= 500 && i < settings->listener_count; i++) {
        if (strcmp(settings->listeners[i].door, "http") != 0)
            continue;
        wr_warning(ld, place(ld->sections[WR_SECTION_ANSWERS], name),
                   "%s: proxies take 5xx for a failure, and may let the request pass: /v1/auth "
                   "answers 429 in place of %d, unless it is asked with deny=%d",
                   name, status, status);
        return;
    }
}

/* ---- too many at once -------------------------------------------------------------------- */

/* A path that |pattern| matches: wildcards become a segment that is no literal of any pattern. */
static size_t sample_path(const char *pattern, char *out, size_t size)
{
    size_t at = 0;

    for (const char *p = pattern; *p != '\0' && at + 2 < size; p++) {
        bool starts = p > pattern && p[-1] == '/';
        if (starts && (*p == '*' || *p == '{')) {
            out[at++] = '\x01';
            while (p[1] != '\0' && p[1] != '/')
                p++;
        } else {
            out[at++] = *p;
        }
    }
    return at;
}

struct crowding {
    const struct wr_policy *policy;
    unsigned samples;
    const char *pattern; /* found too many: for this one */
    struct weir_slice method;
};

/* Does a request of |method| for |pattern| meet too many limits under some plan? */
static bool is_crowded(struct crowding *c, const char *pattern)
{
    char path[WR_PATTERN_BYTES_MAX + 1];
    struct weir_request request = {.method = c->method, .cost_units = -1};
    struct wr_selection selection;

    request.path = (struct weir_slice){path, sample_path(pattern, path, sizeof path)};
    for (size_t plan = 0; plan < c->policy->plan_count && c->samples < SAMPLES_MAX; plan++) {
        c->samples++;
        request.plan = (int)plan;
        wr_policy_select(c->policy, &request, &selection);
        c->pattern = pattern;
        if (selection.over_max)
            return true;
    }
    return false;
}

/* Try "/" and a path for each pattern of a limit, by c->method. */
static bool find_crowded(struct crowding *c)
{
    if (is_crowded(c, "/"))
        return true;
    for (const struct wr_pattern_end *end = c->policy->tree.newest; end != NULL; end = end->older)
        if (end->use == WR_USE_LIMIT && is_crowded(c, end->pattern))
            return true;
    return false;
}

/* By each method that is named, and one that is not. */
static void check_crowding(struct wr_loader *ld)
{
    const struct wr_policy *policy = ld->policy;
    struct crowding c = {.policy = policy};

    if (policy->limit_count <= WEIR_LIMITS_MAX)
        return;
    for (size_t m = 0; m <= policy->method_count; m++) {
        c.method = m < policy->method_count ? policy->methods[m] : (struct weir_slice){"-", 1};
        if (!find_crowded(&c))
            continue;
        wr_error(ld, ld->sections[WR_SECTION_LIMITS]->key,
                 "expected at most %d limits for one request, found more for %.40s %.200s: those "
                 "behind would not hold",
                 WEIR_LIMITS_MAX, m < policy->method_count ? c.method.ptr : "any method",
                 c.pattern);
        return;
    }
}

void wr_warn(struct wr_loader *ld)
{
    warn_proxies(ld);
    warn_identities(ld);
    warn_limits(ld);
    warn_costs(ld);
    warn_plans(ld);
    wr_warn_quotas(ld);
    warn_arena(ld);
    warn_store(ld);
    warn_status(ld, "status", ld->policy->settings.status);
    warn_status(ld, "ban_status", ld->policy->settings.ban_status);
    check_crowding(ld);
}
