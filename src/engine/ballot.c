/* ballot.c - look at all, take from all, give back what was taken in vain, say what came of it.
 *
 * Looking first makes all-or-none cheap, as nearly every refusal is known before anything is
 * written (docs/decisions/0003). Leaky buckets are committed last: a departure that others have
 * queued behind cannot be given back. */
#include "engine/ballot.h"

#include "base/arith.h"
#include "engine/ban.h"

static bool is_here(const struct wr_ballot *b, unsigned i)
{
    return (b->here >> i & 1) != 0;
}

static bool is_missing(const struct wr_ballot *b, unsigned i)
{
    return (b->missing >> i & 1) != 0;
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

bool wr_ballot_evaluate(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    bool pass = true;

    for (unsigned i = 0; i < b->count; i++) {
        if (!is_here(b, i))
            continue;
        if (is_missing(b, i))
            refuse_missing(&b->charge[i]);
        else
            wr_charge_evaluate(engine->arena, &b->charge[i], now);
        if (!b->charge[i].take.allowed && wr_ballot_enforced(engine, b, i))
            pass = false;
    }
    return pass;
}

static void give_back(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                      struct weir_receipt *receipts)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct weir_receipt *receipt = &receipts[i];
        if (!is_here(b, i))
            continue;
        if (wr_receipt_taken(receipt)) {
            wr_charge_refund(engine->arena, b->charge[i].limit, receipt, wr_receipt_cost(receipt),
                             now);
            wr_charge_evaluate(engine->arena, &b->charge[i], now); /* for what remains */
        }
        wr_receipt_clear(receipt);
    }
}

/* Take from the limits for which |shadow| and |leaky| hold. False as soon as an enforced one
 * refuses. */
static bool commit_some(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                        struct weir_receipt *receipts, bool shadow, bool leaky)
{
    for (unsigned i = 0; i < b->count; i++) {
        struct wr_charge *charge = &b->charge[i];
        if (!is_here(b, i) || wr_ballot_enforced(engine, b, i) == shadow ||
            (charge->limit->algo == WR_LEAKY_BUCKET) != leaky)
            continue;
        wr_charge_commit(engine->arena, charge, now, &receipts[i]);
        if (!charge->take.allowed && !shadow)
            return false;
    }
    return true;
}

bool wr_ballot_commit(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                      struct weir_receipt *receipts)
{
    if (!commit_some(engine, b, now, receipts, false, false) ||
        !commit_some(engine, b, now, receipts, false, true)) {
        give_back(engine, b, now, receipts);
        return false;
    }
    (void)commit_some(engine, b, now, receipts, true, false);
    (void)commit_some(engine, b, now, receipts, true, true);
    return true;
}

/* Limits that punish trying are charged although the request was refused. */
static void charge_denied(struct wr_engine *engine, const struct wr_ballot *b, int64_t now)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (is_here(b, i) && b->charge[i].limit->count_denied && !is_missing(b, i))
            wr_charge_force(engine->arena, &b->charge[i], now);
    }
}

/* A refusal writes nothing, but where the clock was set back the state must be moved to the
 * present, or it would be moved anew at every try and never recover. */
static void store_repairs(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (is_here(b, i) && !b->charge[i].take.allowed && !is_missing(b, i))
            wr_charge_commit(engine->arena, &b->charge[i], now, NULL);
    }
}

void wr_ballot_refused(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    store_repairs(engine, b, now);
    charge_denied(engine, b, now);
}

void wr_ballot_verdict(const struct wr_engine *engine, const struct wr_ballot *b, unsigned i,
                       struct weir_verdict *out)
{
    wr_bound_verdict(engine, &b->charge[i], b->limit[i], b->plan, out);
    if (is_missing(b, i))
        out->reason = WEIR_REASON_MISSING;
}

/* ---- the answer as a whole ----------------------------------------------------------------- */

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

void wr_answer_describe(struct weir_answer *answer, bool pass)
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

void wr_answer_begin(const struct wr_selection *selection, int64_t now, struct weir_answer *answer)
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

void wr_answer_banned(struct weir_answer *answer, int64_t banned_ns)
{
    answer->outcome = WEIR_DENY;
    answer->reason = WEIR_REASON_BANNED;
    answer->count = 0;
    answer->decisive = -1;
    answer->delay_ns = 0;
    answer->retry_after_ns = banned_ns;
}

int64_t wr_answer_ban(struct wr_engine *engine, const struct weir_request *request,
                      const struct wr_selection *selection, int64_t now)
{
    if (selection->banned)
        return WEIR_NEVER;
    return wr_ban_any(engine->arena) ? wr_ban_left(engine, request, selection, now) : 0;
}
