/* reserve.c - what comes after a decision: the true cost of a reservation, the end of a request.
 *
 * A reservation is an answer in the caller's memory, not a record in the arena: its receipts say
 * what was taken from whom. So there is nothing to time out: left alone, the estimate simply stands
 * as the cost, which can never over-admit, whatever dies.
 *
 * What was taken at a store is given back there, by who can reach it: what is to be done is handed
 * out (struct wr_pending), or, where nobody would do it, left alone as above. */
#include <string.h>

#include "algo/lease.h"
#include "base/arith.h"
#include "engine/account.h"
#include "engine/bound.h"
#include "engine/cell.h"
#include "engine/engine.h"
#include "engine/shared.h"
#include "policy/quota.h"

#define SETTLED 0x01

static const struct wr_limit *limit_of(const struct wr_engine *engine,
                                       const struct weir_verdict *verdict)
{
    if (verdict->limit >= engine->limit_count ||
        verdict->plan >= wr_policy_plan_count(engine->policy))
        return NULL;
    return &engine->limits[verdict->limit].policy->by[verdict->plan];
}

/* The limit that |receipt| was taken from: the verdict's, or the part of it that its class is.
 * NULL: there is none, or it was taken elsewhere. */
static const struct wr_limit *taken_from(const struct wr_engine *engine,
                                         const struct weir_verdict *verdict,
                                         const struct weir_receipt *receipt, struct wr_limit *part)
{
    const struct wr_limit *limit = limit_of(engine, verdict);
    struct wr_class spec;

    if (limit == NULL || !wr_receipt_taken(receipt) || wr_receipt_is_remote(receipt) ||
        wr_receipt_is_cell(receipt))
        return NULL;
    if (wr_receipt_class(receipt) == engine->lease_class && engine->lease_class != 0)
        return &engine->lease;
    if (!wr_receipt_is_part(receipt))
        return limit;
    if (!wr_arena_class_get(engine->arena, wr_receipt_class(receipt), &spec))
        return NULL;
    memcpy(part, spec.params, sizeof *part);
    return wr_limit_valid(part) && part->algo == limit->algo ? part : NULL;
}

/* The cells that |receipt| was taken from; NULL: from none that there are. */
static struct wr_usage *cells_of(const struct wr_engine *engine, const struct weir_verdict *verdict,
                                 const struct weir_receipt *receipt)
{
    if (!wr_receipt_taken(receipt) || !wr_receipt_is_cell(receipt) ||
        limit_of(engine, verdict) == NULL)
        return NULL;
    return engine->limits[verdict->limit].usage;
}

static const struct wr_quota_rule *rule_of(const struct wr_engine *engine,
                                           const struct weir_verdict *verdict)
{
    return &engine->limits[verdict->limit].rules[verdict->plan];
}

static void settle_one(struct wr_engine *engine, const struct weir_verdict *verdict,
                       struct weir_receipt *receipt, int64_t cost, int64_t now)
{
    struct wr_limit part;
    const struct wr_limit *limit = taken_from(engine, verdict, receipt, &part);
    int64_t taken = wr_receipt_cost(receipt);
    struct wr_charge charge;

    if (wr_receipt_is_cell(receipt)) {
        struct wr_usage *usage = cells_of(engine, verdict, receipt);
        if (usage != NULL)
            wr_cell_settle(usage, rule_of(engine, verdict), receipt, cost);
        return;
    }
    if (limit == NULL || limit->algo == WR_CONCURRENCY)
        return;
    if (cost < taken) {
        wr_charge_refund(engine->arena, limit, receipt, taken - cost, now);
        wr_receipt_set_cost(receipt, cost);
    } else if (cost > taken) {
        charge.limit = limit;
        charge.class_id = wr_receipt_class(receipt);
        charge.hash = wr_receipt_hash(receipt);
        charge.cost = cost - taken;
        wr_charge_force(engine->arena, &charge, now);
        wr_receipt_set_cost(receipt, cost);
    }
}

int wr_engine_settle(struct wr_engine *engine, struct weir_answer *answer, int64_t cost,
                     int64_t now)
{
    if (answer->expires_ns == 0 || (answer->flags & SETTLED) != 0 || now >= answer->expires_ns ||
        answer->outcome == WEIR_DENY)
        return WEIR_EEXPIRED;
    answer->flags |= SETTLED;
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++)
        settle_one(engine, &answer->verdicts[i], &answer->receipts[i], cost, now);
    wr_account_settle(engine, answer, cost);
    answer->cost_units = cost;
    return 0;
}

/* Add to |out| what receipt |i| says was taken at the store, to be changed by |units|. */
static void add_remote(const struct wr_engine *engine, const struct weir_answer *answer, unsigned i,
                       struct wr_pending *out, struct wr_remote_charge **charge)
{
    const struct weir_verdict *verdict = &answer->verdicts[i];
    const struct wr_policy_limit *policy = engine->limits[verdict->limit].policy;

    *charge = &out->call.charge[out->call.count];
    memset(*charge, 0, sizeof **charge);
    (*charge)->limit = wr_policy_at_store(policy, verdict->plan);
    (*charge)->name = policy->name;
    (*charge)->ttl_ns = policy->leased ? wr_lease_ttl_ns((*charge)->limit) : 0;
    wr_receipt_read_remote(&answer->receipts[i], *charge);
    (*charge)->allowed = true;
}

/* Was it taken at the store, under a limit that there is? */
static bool is_remote(const struct wr_engine *engine, const struct weir_answer *answer, unsigned i)
{
    return wr_receipt_taken(&answer->receipts[i]) && wr_receipt_is_remote(&answer->receipts[i]) &&
           limit_of(engine, &answer->verdicts[i]) != NULL;
}

static void clear(struct wr_pending *out, int64_t now)
{
    out->call.count = 0;
    out->call.shadow = 0;
    out->call.now_ns = now;
    out->force = 0;
}

int wr_engine_settle_shared(struct wr_engine *engine, struct weir_answer *answer, int64_t cost,
                            int64_t now, struct wr_pending *out)
{
    int result = wr_engine_settle(engine, answer, cost, now);

    clear(out, now);
    for (unsigned i = 0; result == 0 && i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        struct wr_remote_charge *charge;
        if (!is_remote(engine, answer, i))
            continue;
        add_remote(engine, answer, i, out, &charge);
        if (charge->limit->algo == WR_CONCURRENCY || charge->cost == cost)
            continue;
        out->adjust[out->call.count++] = cost - charge->cost;
        wr_receipt_set_remote_cost(&answer->receipts[i], cost);
    }
    return result;
}

/* Does receipt |i| of |answer| hold a place? */
static bool holds_place(const struct wr_engine *engine, const struct weir_answer *answer,
                        unsigned i)
{
    const struct wr_limit *limit = limit_of(engine, &answer->verdicts[i]);
    return limit != NULL && limit->algo == WR_CONCURRENCY && wr_receipt_taken(&answer->receipts[i]);
}

bool wr_engine_holds(const struct wr_engine *engine, const struct weir_answer *answer)
{
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        if (holds_place(engine, answer, i))
            return true;
    }
    return false;
}

void wr_engine_release(struct wr_engine *engine, struct weir_answer *answer, int64_t now)
{
    struct wr_limit part;

    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        struct weir_receipt *receipt = &answer->receipts[i];
        const struct wr_limit *limit;

        if (!holds_place(engine, answer, i) || wr_receipt_is_remote(receipt))
            continue;
        limit = taken_from(engine, &answer->verdicts[i], receipt, &part);
        if (limit != NULL)
            wr_charge_refund(engine->arena, limit, receipt, wr_receipt_cost(receipt), now);
        wr_receipt_clear(receipt);
    }
}

void wr_engine_release_shared(struct wr_engine *engine, struct weir_answer *answer, int64_t now,
                              struct wr_pending *out)
{
    wr_engine_release(engine, answer, now);
    clear(out, now);
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        struct wr_remote_charge *charge;
        if (!is_remote(engine, answer, i) || !holds_place(engine, answer, i))
            continue;
        add_remote(engine, answer, i, out, &charge);
        out->adjust[out->call.count++] = -charge->cost;
        wr_receipt_clear(&answer->receipts[i]);
    }
}

/* ---- the status of the answer -------------------------------------------------------------- */

/* The quota that receipt |i| was taken from, if it counts some statuses only. */
static const struct wr_policy_quota *quota_of(const struct wr_engine *engine,
                                              const struct weir_answer *answer, unsigned i)
{
    const struct weir_verdict *verdict = &answer->verdicts[i];
    const struct wr_policy_quota *quota;

    if (!wr_receipt_taken(&answer->receipts[i]) || limit_of(engine, verdict) == NULL)
        return NULL;
    quota = engine->limits[verdict->limit].policy->quota;
    return quota != NULL && quota->count_classes != WR_QUOTA_COUNT_ALL ? quota : NULL;
}

bool wr_engine_awaits_status(const struct wr_engine *engine, const struct weir_answer *answer)
{
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++)
        if (quota_of(engine, answer, i) != NULL)
            return true;
    return wr_account_awaits(engine, answer);
}

static bool counts(const struct wr_policy_quota *quota, int status)
{
    return (quota->count_classes >> (status / 100) & 1) != 0;
}

static void give_back(struct wr_engine *engine, const struct weir_verdict *verdict,
                      struct weir_receipt *receipt, int64_t now)
{
    struct wr_usage *usage = cells_of(engine, verdict, receipt);
    struct wr_limit part;
    const struct wr_limit *limit = taken_from(engine, verdict, receipt, &part);

    if (usage != NULL)
        wr_cell_refund(usage, rule_of(engine, verdict), receipt, wr_receipt_cost(receipt));
    else if (limit != NULL)
        wr_charge_refund(engine->arena, limit, receipt, wr_receipt_cost(receipt), now);
    wr_receipt_clear(receipt);
}

void wr_engine_ended(struct wr_engine *engine, struct weir_answer *answer, int status, int64_t now)
{
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct wr_policy_quota *quota = quota_of(engine, answer, i);
        if (quota != NULL && !counts(quota, status) && !wr_receipt_is_remote(&answer->receipts[i]))
            give_back(engine, &answer->verdicts[i], &answer->receipts[i], now);
    }
    wr_account_ended(engine, answer, status);
}

void wr_engine_ended_shared(struct wr_engine *engine, struct weir_answer *answer, int status,
                            int64_t now, struct wr_pending *out)
{
    wr_engine_ended(engine, answer, status, now);
    clear(out, now);
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct wr_policy_quota *quota = quota_of(engine, answer, i);
        struct wr_remote_charge *charge;
        if (quota == NULL || counts(quota, status) || !is_remote(engine, answer, i))
            continue;
        add_remote(engine, answer, i, out, &charge);
        out->adjust[out->call.count++] = -charge->cost;
        wr_receipt_clear(&answer->receipts[i]);
    }
}
