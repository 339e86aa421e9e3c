/* reserve.c - what comes after a decision: the true cost of a reservation, the end of a request.
 *
 * A reservation is an answer in the caller's memory, not a record in the arena: its receipts say
 * what was taken from whom. So there is nothing to time out: left alone, the estimate simply stands
 * as the cost, which can never over-admit, whatever dies. */
#include "base/arith.h"
#include "engine/bound.h"
#include "engine/engine.h"

#define SETTLED 0x01

static const struct wr_limit *limit_of(const struct wr_engine *engine,
                                       const struct weir_verdict *verdict)
{
    if (verdict->limit >= engine->limit_count ||
        verdict->plan >= wr_policy_plan_count(engine->policy))
        return NULL;
    return &engine->limits[verdict->limit].policy->by[verdict->plan];
}

static void settle_one(struct wr_engine *engine, const struct weir_verdict *verdict,
                       const struct weir_receipt *receipt, int64_t cost, int64_t now)
{
    const struct wr_limit *limit = limit_of(engine, verdict);
    int64_t taken = wr_receipt_cost(receipt);
    struct wr_charge charge;

    if (limit == NULL || limit->algo == WR_CONCURRENCY || !wr_receipt_taken(receipt))
        return;
    if (cost < taken) {
        wr_charge_refund(engine->arena, limit, receipt, taken - cost, now);
    } else if (cost > taken) {
        wr_bound_charge(engine, verdict->limit, verdict->plan, wr_receipt_hash(receipt),
                        cost - taken, &charge);
        wr_charge_force(engine->arena, &charge, now);
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
    return 0;
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
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        struct weir_receipt *receipt = &answer->receipts[i];

        if (!holds_place(engine, answer, i))
            continue;
        wr_charge_refund(engine->arena, limit_of(engine, &answer->verdicts[i]), receipt,
                         wr_receipt_cost(receipt), now);
        wr_receipt_clear(receipt);
    }
}
