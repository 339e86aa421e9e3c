/* shared.c - what a limit says about the store, and whether the store can hold it.
 *
 * A limit that a store cannot count exactly, or cannot lease without letting more through than it
 * says, must not look as if it could: it is refused here, or kept strict with a warning that says
 * why.
 *
 * Only algorithms that count in advance can be leased: units taken now and spent later. A leaky
 * bucket gives departures, a log stamps and concurrency places; those belong to a request, not to a
 * batch. Nor can a quota that bills or sells what is beyond its limit: which unit is the first one
 * beyond is known only of units that are counted when they are used. */
#include <string.h>

#include "algo/lease.h"
#include "algo/leasing.h"
#include "algo/ticks.h"
#include "policy/limit_reading.h"
#include "policy/quota.h"

const char *const wr_when_gone_names[] = {"local", "open", "closed"};
_Static_assert(WR_GONE_LOCAL == 0 && WR_GONE_OPEN == 1 && WR_GONE_CLOSED == 2,
               "indexes of wr_when_gone_names[]");

void wr_read_shared(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;

    reading->shared = value;
    (void)wr_read_bool(ld, value, "shared", &reading->limit->shared);
}

void wr_read_store_mode(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"strict", "leased"};
    struct wr_limit_reading *reading = into;
    size_t i;

    reading->store_mode = value;
    if (wr_read_choice(ld, value, "store_mode", choices, 2, &i))
        reading->limit->leased = i == 1;
}

void wr_read_when_store_gone(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;
    size_t i;

    reading->when_store_gone = value;
    if (wr_read_choice(ld, value, "when_store_gone", wr_when_gone_names, 3, &i))
        reading->limit->when_gone = (uint8_t)i;
}

static bool is_redis(enum wr_store_kind kind)
{
    return kind == WR_STORE_REDIS || kind == WR_STORE_SENTINEL || kind == WR_STORE_CLUSTER;
}

static bool is_bucket(const struct wr_limit *limit)
{
    return limit->algo == WR_TOKEN_BUCKET || limit->algo == WR_LEAKY_BUCKET;
}

/* Must |store| refuse what |limit| is under some plan? */
static void check_fits(struct wr_loader *ld, const struct wr_yaml *node,
                       const struct wr_limit_reading *reading, const struct wr_policy_store *store)
{
    const struct wr_yaml *at = reading->rate != NULL ? reading->rate : node;
    enum wr_algo algo = reading->algo;

    if (store->kind == WR_STORE_MEMCACHED && (algo == WR_SLIDING_LOG || algo == WR_CONCURRENCY)) {
        wr_error(ld, reading->algorithm != NULL ? reading->algorithm : node,
                 "memcached cannot hold %s: use redis or a ring", wr_algo_name(algo));
        return;
    }
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        const struct wr_limit *limit = &reading->limit->by[plan];
        struct wr_ticks ticks;
        if (reading->limit->unlimited[plan] || !is_bucket(limit) || !is_redis(store->kind) ||
            wr_ticks_make(&ticks, limit))
            continue;
        wr_error(ld, at,
                 "too fine for Redis to count exactly: use a smaller burst or queue, or numbers "
                 "with a common factor (1000/minute for 1001/minute), or sliding-window");
        return;
    }
}

static bool can_lease(enum wr_algo algo)
{
    return algo == WR_TOKEN_BUCKET || algo == WR_FIXED_WINDOW || algo == WR_SLIDING_WINDOW;
}

/* What some plan bills, or moves the customer by, at the end of the quota; NULL: nothing. */
static const char *what_is_sold(const struct wr_loader *ld, const struct wr_policy_limit *limit)
{
    if (limit->by == NULL || limit->quota == NULL || !limit->quota->exact)
        return NULL;
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        if (limit->unlimited[plan])
            continue;
        if (limit->quota->plan[plan].on_exceed == WR_EXCEED_OVERAGE)
            return "on_exceed: overage";
        if (limit->quota->plan[plan].on_exceed == WR_EXCEED_UPGRADE)
            return "on_exceed: upgrade";
    }
    return NULL;
}

/* Leased where it can be; a wish that cannot be granted is answered. */
static void settle_mode(struct wr_loader *ld, const struct wr_yaml *node,
                        struct wr_limit_reading *reading, const struct wr_policy_store *store)
{
    static const char *const why[WR_ALGO_MAX + 1] = {
        [WR_LEAKY_BUCKET] = "its delays are by the order of all requests",
        [WR_SLIDING_LOG] = "it keeps the moment of each request",
        [WR_CONCURRENCY] = "a place belongs to one request",
    };
    struct wr_policy_limit *limit = reading->limit;
    const char *sold = what_is_sold(ld, limit);

    if (reading->store_mode == NULL)
        limit->leased = store->leased;
    if (!limit->leased || reading->algo == 0 ||
        (can_lease(reading->algo) && !reading->count_denied && sold == NULL))
        return;
    limit->leased = false;
    wr_warning(ld, reading->store_mode != NULL ? reading->store_mode : node,
               "%s cannot be leased, %s: it stays strict, a round trip for each decision; "
               "store_mode: strict says so",
               sold != NULL               ? sold
               : can_lease(reading->algo) ? "count_denied"
                                          : wr_algo_name(reading->algo),
               sold != NULL               ? "as units that lie unspent would pass for used"
               : can_lease(reading->algo) ? "as each refusal is charged"
                                          : why[reading->algo]);
}

const char *wr_why_strict(const struct wr_limit *limit, unsigned nodes)
{
    int64_t capacity = wr_limit_capacity(limit);

    if (capacity < WR_LEASE_CAPACITY_MIN ||
        capacity / (nodes == 0 ? 1 : nodes) < WR_LEASE_PER_NODE_MIN)
        return "too small to be leased, less than 16 units or than 8 for each node";
    if (wr_lease_ttl_ns(limit) == 0)
        return limit->algo == WR_TOKEN_BUCKET
                   ? "too quick to be leased, its burst comes back in less than 128 ms"
                   : "too quick to be leased, its window is shorter than 128 ms";
    return NULL;
}

/* What leasing means for the numbers of |reading|: the first plan that it concerns. */
static void warn_leased(struct wr_loader *ld, const struct wr_yaml *node,
                        const struct wr_limit_reading *reading, unsigned nodes)
{
    const struct wr_yaml *at = reading->rate != NULL ? reading->rate : node;

    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        const struct wr_limit *limit = &reading->limit->by[plan];
        const char *why;
        int64_t reserve;
        if (reading->limit->unlimited[plan] || limit->units == 0)
            continue;
        why = wr_why_strict(wr_policy_at_store(reading->limit, plan), nodes);
        reserve = wr_leasing_reserve(limit, wr_lease_ttl_ns(limit));
        if (why != NULL)
            wr_warning(ld, at,
                       "%s: it stays strict, a round trip for each decision; store_mode: strict "
                       "says so",
                       why);
        else if (reserve > 0)
            wr_warning(ld, at,
                       "leased, a burst of %lld is one of %lld at the store: a cost above that "
                       "never passes",
                       (long long)limit->burst, (long long)(limit->burst - reserve));
        else
            continue;
        return;
    }
}

/* What a customer has bought, and may not get. */
static void warn_stranded(struct wr_loader *ld, const struct wr_yaml *node,
                          const struct wr_limit_reading *reading, unsigned nodes)
{
    const struct wr_policy_limit *limit = reading->limit;

    if (limit->quota == NULL || !limit->quota->exact)
        return;
    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        const struct wr_limit *held = wr_policy_at_store(limit, plan);
        if (limit->unlimited[plan] || held->units == 0 || wr_why_strict(held, nodes) != NULL)
            continue;
        wr_warning(ld, reading->store_mode != NULL ? reading->store_mode : node,
                   "leased, up to %lld of %lld units of each customer are lost until the window "
                   "ends, for each thread of a process that is killed; store_mode: strict loses "
                   "none",
                   (long long)wr_leasing_most(held, nodes), (long long)held->units);
        return;
    }
}

static void warn_unshared(struct wr_loader *ld, struct wr_limit_reading *reading)
{
    const struct wr_yaml *idle =
        reading->store_mode != NULL ? reading->store_mode : reading->when_store_gone;

    reading->limit->leased = false;
    reading->limit->when_gone = WR_GONE_LOCAL;
    if (idle != NULL)
        wr_warning(ld, idle->key, "%s has no effect: the limit is not shared", idle->key->text);
}

/* ---- quotas of customers ------------------------------------------------------------------- */

/* What a store is to decide by: all that is admitted, as far as a count goes. */
static void make_at_store(struct wr_loader *ld, const struct wr_yaml *node,
                          struct wr_policy_limit *limit)
{
    size_t count = ld->policy->plan_count;
    struct wr_limit *at_store = wr_region_take(ld->region, count, sizeof *at_store);

    for (size_t plan = 0; at_store != NULL && plan < count; plan++) {
        int64_t most = limit->unlimited[plan] ? 0 : limit->quota->plan[plan].most;
        const char *wrong = wr_limit_make_civil(&at_store[plan], &limit->quota->civil,
                                                wr_min_i64(most, WR_CIVIL_UNITS_MAX), false);
        if (wrong != NULL)
            wr_error(ld, node, "%s", wrong);
    }
    limit->at_store = at_store;
}

/* Of what is admitted without the store nobody can tell what lies beyond the limit. */
static void warn_gone(struct wr_loader *ld, const struct wr_yaml *node,
                      const struct wr_limit_reading *reading)
{
    const struct wr_policy_limit *limit = reading->limit;

    for (size_t plan = 0; plan < ld->policy->plan_count; plan++) {
        if (limit->when_gone == WR_GONE_CLOSED || limit->unlimited[plan] ||
            limit->quota->plan[plan].on_exceed != WR_EXCEED_OVERAGE)
            continue;
        wr_warning(ld, reading->when_store_gone != NULL ? reading->when_store_gone : node,
                   "what is let through under plan %s while the store is gone is counted, but "
                   "never as overage; with when_store_gone: closed nothing is",
                   ld->policy->plans[plan]);
        return;
    }
}

static void settle_quota(struct wr_loader *ld, const struct wr_yaml *node,
                         const struct wr_limit_reading *reading)
{
    struct wr_policy_limit *limit = reading->limit;

    if (limit->quota == NULL || !limit->quota->exact)
        return;
    if (limit->quota->anchor_by_customer)
        wr_error(ld, node,
                 "a shared quota has the same windows for all: expected anchor: DAY, "
                 "found anchor: customer");
    make_at_store(ld, node, limit);
    warn_gone(ld, node, reading);
}

void wr_settle_shared(struct wr_loader *ld, const struct wr_yaml *node,
                      struct wr_limit_reading *reading)
{
    const struct wr_policy_store *store = ld->policy->settings.store;
    struct wr_policy_limit *limit = reading->limit;

    if (reading->shared == NULL)
        limit->shared = ld->share_all;
    if (!limit->shared) {
        warn_unshared(ld, reading);
        return;
    }
    if (store == NULL) {
        wr_error(ld, reading->shared, "shared: expected a store in the policy, found none");
        return;
    }
    if (reading->when_store_gone == NULL)
        limit->when_gone = (uint8_t)store->when_gone;
    settle_mode(ld, node, reading, store);
    if (limit->by == NULL)
        return;
    check_fits(ld, node, reading, store);
    settle_quota(ld, node, reading);
    if (!limit->leased)
        return;
    warn_leased(ld, node, reading, store->nodes);
    warn_stranded(ld, node, reading, store->nodes);
}
