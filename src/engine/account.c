/* account.c - counting here what the store decides.
 *
 * An answer has the customer's number, so nothing else is remembered: which limits counted it say
 * its verdicts, how much its cost, and in which window the moment it was decided at.
 *
 * Overage. Only all hosts together know when a shared quota is at its limit; but who takes units at
 * the store is told how many were counted before (the receipt has it), and so which of his lie
 * beyond. Requests that are decided there one after the other take up the count without a gap, so
 * what all hosts book adds up to what the count is beyond the limit. Units that another decided
 * (the store was gone, and each host for itself) are never overage. */
#include "engine/account.h"

#include "engine/bound.h"
#include "engine/cell.h"
#include "engine/receipt.h"
#include "policy/quota.h"

/* The limit of verdict |i|, if it is counted here for this customer; else NULL. */
static const struct wr_bound_limit *counted(const struct wr_engine *engine,
                                            const struct weir_answer *answer, unsigned i)
{
    const struct weir_verdict *verdict = &answer->verdicts[i];

    if (verdict->outcome == WEIR_DENY || verdict->limit >= engine->limit_count ||
        verdict->plan >= wr_policy_plan_count(engine->policy))
        return NULL;
    return engine->limits[verdict->limit].account != NULL ? &engine->limits[verdict->limit] : NULL;
}

/* How much of it is overage if the request of |answer| costs |units|. */
static int64_t overage(const struct wr_bound_limit *bound, const struct weir_answer *answer,
                       unsigned i, int64_t units)
{
    const struct wr_quota_rule *rule = &bound->rules[answer->verdicts[i].plan];
    const struct weir_receipt *receipt = &answer->receipts[i];

    if (!rule->overage || !wr_receipt_taken(receipt) || !wr_receipt_is_remote(receipt))
        return 0;
    return wr_quota_over(rule->limit, wr_receipt_before(receipt), units);
}

/* Of a cost that becomes |to| after |from|, what becomes overage; < 0: what is none after all.
 * Units that are given back are this host's overage first, as on one machine: whatever place they
 * had, as many of those behind move within the limit. Never more than is booked here
 * (wr_quota_state). */
static int64_t overage_change(const struct wr_bound_limit *bound, const struct weir_answer *answer,
                              unsigned i, int64_t from, int64_t to)
{
    const struct weir_receipt *receipt = &answer->receipts[i];
    bool billed = bound->rules[answer->verdicts[i].plan].overage && wr_receipt_taken(receipt) &&
                  wr_receipt_is_remote(receipt);

    if (to >= from)
        return overage(bound, answer, i, to) - overage(bound, answer, i, from);
    return billed ? to - from : 0;
}

/* The cost of |answer| was counted as |from| and is |to|, in the window that it was decided in. */
static void change(const struct wr_bound_limit *bound, const struct weir_answer *answer, unsigned i,
                   int64_t from, int64_t to)
{
    bool own = bound->policy->quota->anchor_by_customer;
    struct wr_cell cell = {.usage = bound->account,
                           .rule = &bound->rules[answer->verdicts[i].plan],
                           .number = answer->customer - 1,
                           .anchor = own ? answer->customer_anchor : 0};

    wr_cell_add(&cell, to - from, overage_change(bound, answer, i, from, to), answer->decided_ns);
}

static void change_all(const struct wr_engine *engine, const struct weir_answer *answer,
                       int64_t from, int64_t to)
{
    for (unsigned i = 0; i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct wr_bound_limit *bound = counted(engine, answer, i);
        if (bound != NULL && from != to)
            change(bound, answer, i, from, to);
    }
}

void wr_account_pass(const struct wr_engine *engine, const struct weir_answer *answer)
{
    if (answer->customer != 0)
        change_all(engine, answer, 0, answer->cost_units);
}

void wr_account_settle(const struct wr_engine *engine, const struct weir_answer *answer,
                       int64_t cost)
{
    if (answer->customer != 0)
        change_all(engine, answer, answer->cost_units, cost);
}

bool wr_account_awaits(const struct wr_engine *engine, const struct weir_answer *answer)
{
    for (unsigned i = 0; answer->customer != 0 && i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct wr_bound_limit *bound = counted(engine, answer, i);
        if (bound != NULL && bound->policy->quota->count_classes != WR_QUOTA_COUNT_ALL)
            return true;
    }
    return false;
}

void wr_account_ended(const struct wr_engine *engine, struct weir_answer *answer, int status)
{
    for (unsigned i = 0; answer->customer != 0 && i < answer->count && i < WEIR_LIMITS_MAX; i++) {
        const struct wr_bound_limit *bound = counted(engine, answer, i);
        if (bound != NULL && (bound->policy->quota->count_classes >> (status / 100) & 1) == 0)
            change(bound, answer, i, answer->cost_units, 0);
    }
    answer->customer = 0; /* once */
}
