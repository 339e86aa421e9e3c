/* decide.c - one request, every limit that matches it: all are charged, or none.
 *
 *   select    which limits, whose key, what cost (policy); is the caller banned?
 *   evaluate  look every key up and compute what taking would do; nothing is written
 *   commit    if all enforced limits allow: take from each; if another process was first and one
 * now refuses, give back what was taken describe  the answer speaks of the limit that refuses
 * longest, or of the one nearest exhaustion
 *
 * Invariants:
 *   1. A refused request has consumed nothing when this returns, but from limits that say
 * count_denied.
 *   2. Between commit and give-back other requests may see the units as taken: they can only be
 * refused too often, never admitted too often.
 *   3. A limit in shadow mode never decides. It is charged when the request passes and it would
 * have let it pass itself, so that its counts are what they would be if it were enforced.
 *
 * Leaky buckets are committed last: a departure that others have queued behind cannot be given
 * back. */
#include "base/arith.h"
#include "engine/ban.h"
#include "engine/bound.h"
#include "engine/engine.h"

#define BATCH 8 /* requests whose cache misses overlap; a selection is 3 KiB of stack */

struct decision {
    struct wr_selection selection;
    int64_t banned_ns; /* for how long yet, or WEIR_NEVER (ends); 0: not */
    struct wr_charge charges[WEIR_LIMITS_MAX];
};

/* Select, hash, and start fetching the slots. */
static void prepare(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                    struct decision *d)
{
    struct wr_selection *selection = &d->selection;

    wr_policy_select(engine->policy, request, selection);
    d->banned_ns = selection->banned           ? WEIR_NEVER
                   : wr_ban_any(engine->arena) ? wr_ban_left(engine, request, selection, now)
                                               : 0;
    for (unsigned i = 0; i < selection->count; i++) {
        const struct wr_selected *selected = &selection->selected[i];
        uint64_t hash = wr_bound_hash_parts(engine, selected);

        wr_bound_charge(engine, selected->limit, selection->plan, hash, selection->cost,
                        &d->charges[i]);
        wr_slot_prefetch(engine->arena, hash);
    }
}

static bool enforced(const struct wr_engine *engine, const struct wr_selected *selected)
{
    return !engine->limits[selected->limit].policy->shadow;
}

/* A key that the limit insists on is missing: refused, whatever the count. */
static void refuse_missing(struct wr_charge *charge)
{
    charge->busy = false;
    charge->base = 0;
    charge->oldest_ns = 0;
    charge->newest_ns = 0;
    charge->take = (struct wr_take){.never = true};
}

/* Returns true when every enforced limit would let the request pass. */
static bool evaluate(struct wr_engine *engine, struct decision *d, int64_t now)
{
    bool pass = true;

    for (unsigned i = 0; i < d->selection.count; i++) {
        const struct wr_selected *selected = &d->selection.selected[i];
        if (selected->deny_missing)
            refuse_missing(&d->charges[i]);
        else
            wr_charge_evaluate(engine->arena, &d->charges[i], now);
        if (!d->charges[i].take.allowed && enforced(engine, selected))
            pass = false;
    }
    return pass;
}

static void give_back(struct wr_engine *engine, struct decision *d, struct weir_answer *answer,
                      int64_t now)
{
    for (unsigned i = 0; i < d->selection.count; i++) {
        struct weir_receipt *receipt = &answer->receipts[i];
        if (wr_receipt_taken(receipt)) {
            wr_charge_refund(engine->arena, d->charges[i].limit, receipt, wr_receipt_cost(receipt),
                             now);
            wr_charge_evaluate(engine->arena, &d->charges[i], now); /* for what remains */
        }
        wr_receipt_clear(receipt);
    }
}

/* Take from the limits for which |shadow| and |leaky| hold. False as soon as an enforced one
 * refuses. */
static bool commit_some(struct wr_engine *engine, struct decision *d, struct weir_answer *answer,
                        int64_t now, bool shadow, bool leaky)
{
    for (unsigned i = 0; i < d->selection.count; i++) {
        struct wr_charge *charge = &d->charges[i];
        if (enforced(engine, &d->selection.selected[i]) == shadow ||
            (charge->limit->algo == WR_LEAKY_BUCKET) != leaky)
            continue;
        wr_charge_commit(engine->arena, charge, now, &answer->receipts[i]);
        if (!charge->take.allowed && !shadow)
            return false;
    }
    return true;
}

static bool commit(struct wr_engine *engine, struct decision *d, struct weir_answer *answer,
                   int64_t now)
{
    if (!commit_some(engine, d, answer, now, false, false) ||
        !commit_some(engine, d, answer, now, false, true)) {
        give_back(engine, d, answer, now);
        return false;
    }
    (void)commit_some(engine, d, answer, now, true, false);
    (void)commit_some(engine, d, answer, now, true, true);
    return true;
}

/* Limits that punish trying are charged although the request was refused. */
static void charge_denied(struct wr_engine *engine, const struct decision *d, int64_t now)
{
    for (unsigned i = 0; i < d->selection.count; i++) {
        if (d->charges[i].limit->count_denied && !d->selection.selected[i].deny_missing)
            wr_charge_force(engine->arena, &d->charges[i], now);
    }
}

/* A refusal writes nothing, but where the clock was set back the state must be moved to the
 * present, or it would be moved anew at every try and never recover. */
static void store_repairs(struct wr_engine *engine, struct decision *d, int64_t now)
{
    for (unsigned i = 0; i < d->selection.count; i++) {
        if (!d->charges[i].take.allowed && !d->selection.selected[i].deny_missing)
            wr_charge_commit(engine->arena, &d->charges[i], now, NULL);
    }
}

/* Does a refusal by |a| last longer than one by |b|? Never is longest. */
static bool longer(const struct weir_verdict *a, const struct weir_verdict *b)
{
    if (a->retry_after_ns == WEIR_NEVER || b->retry_after_ns == WEIR_NEVER)
        return a->retry_after_ns == WEIR_NEVER && b->retry_after_ns != WEIR_NEVER;
    return a->retry_after_ns > b->retry_after_ns;
}

/* The verdict to speak of among those that are |shadow| or not: denied, the one that refuses
 * longest; else the one with least remaining; ties go to the first in the file. -1: none. */
static int16_t find_decisive(const struct weir_answer *answer, bool shadow, bool denied)
{
    int16_t best = -1;

    for (int16_t i = 0; i < (int16_t)answer->count; i++) {
        const struct weir_verdict *v = &answer->verdicts[i];
        if ((v->shadow != 0) != shadow || (denied && v->outcome != WEIR_DENY))
            continue;
        if (best < 0 || (denied ? longer(v, &answer->verdicts[best])
                                : v->remaining_units < answer->verdicts[best].remaining_units))
            best = i;
    }
    return best;
}

static void describe(struct weir_answer *answer, bool pass)
{
    int16_t shadow = find_decisive(answer, true, true);

    answer->decisive = find_decisive(answer, false, !pass);
    answer->delay_ns = 0;
    answer->retry_after_ns = 0;
    answer->reason = WEIR_REASON_NONE;
    if (!pass) {
        answer->outcome = WEIR_DENY;
        answer->reason = answer->verdicts[answer->decisive].reason;
        answer->retry_after_ns = answer->verdicts[answer->decisive].retry_after_ns;
        return;
    }
    for (unsigned i = 0; i < answer->count; i++) {
        if (answer->verdicts[i].shadow == 0)
            answer->delay_ns = wr_max_i64(answer->delay_ns, answer->verdicts[i].delay_ns);
    }
    answer->outcome = answer->delay_ns > 0 ? WEIR_DELAY : WEIR_ALLOW;
    if (shadow >= 0) {
        answer->outcome = WEIR_SHADOW;
        answer->decisive = shadow;
        answer->reason = answer->verdicts[shadow].reason;
        answer->retry_after_ns = answer->verdicts[shadow].retry_after_ns;
    }
}

static void fill_verdicts(const struct wr_engine *engine, const struct decision *d,
                          struct weir_answer *answer)
{
    for (unsigned i = 0; i < d->selection.count; i++) {
        const struct wr_selected *selected = &d->selection.selected[i];
        wr_bound_verdict(engine, &d->charges[i], selected->limit, d->selection.plan,
                         &answer->verdicts[i]);
        if (selected->deny_missing)
            answer->verdicts[i].reason = WEIR_REASON_MISSING;
    }
}

static void begin_answer(const struct wr_selection *selection, int64_t now,
                         struct weir_answer *answer)
{
    answer->plan = (uint8_t)selection->plan;
    answer->flags = 0;
    answer->count = selection->count;
    answer->cost_units = selection->cost;
    answer->decided_ns = now;
    answer->expires_ns = 0;
    for (unsigned i = 0; i < selection->count; i++)
        wr_receipt_clear(&answer->receipts[i]);
}

static void answer_banned(struct weir_answer *answer, int64_t banned_ns)
{
    answer->outcome = WEIR_DENY;
    answer->reason = WEIR_REASON_BANNED;
    answer->count = 0;
    answer->decisive = -1;
    answer->delay_ns = 0;
    answer->retry_after_ns = banned_ns;
}

static void decide_prepared(struct wr_engine *engine, struct decision *d, bool peek, int64_t now,
                            struct weir_answer *answer)
{
    bool pass;

    begin_answer(&d->selection, now, answer);
    if (d->banned_ns != 0) {
        answer_banned(answer, d->banned_ns);
        return;
    }
    pass = evaluate(engine, d, now);
    if (pass && !peek)
        pass = commit(engine, d, answer, now);
    fill_verdicts(engine, d, answer);
    if (!pass && !peek) {
        store_repairs(engine, d, now);
        charge_denied(engine, d, now);
    }
    describe(answer, pass);
}

void wr_engine_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer)
{
    struct decision d;

    prepare(engine, request, now, &d);
    decide_prepared(engine, &d, request->peek, now, answer);
}

void wr_engine_decide_batch(struct wr_engine *engine, const struct weir_request *requests, size_t n,
                            int64_t now, struct weir_answer *answers)
{
    struct decision d[BATCH];

    for (size_t start = 0; start < n; start += BATCH) {
        size_t count = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < count; i++)
            prepare(engine, &requests[start + i], now, &d[i]);
        for (size_t i = 0; i < count; i++)
            decide_prepared(engine, &d[i], requests[start + i].peek, now, &answers[start + i]);
    }
}
