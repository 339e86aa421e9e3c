/* ballot.c - look at all, take from all, give back what was taken in vain, say what came of it.
 *
 * Looking first makes all-or-none cheap, as nearly every refusal is known before anything is
 * written (docs/decisions/0003). Leaky buckets are committed last: a departure that others have
 * queued behind cannot be given back. */
#include "engine/ballot.h"

#include "algo/sliding_log.h"
#include "base/arith.h"
#include "engine/ban.h"
#include "policy/quota.h"

static bool is_here(const struct wr_ballot *b, unsigned i)
{
    return (b->here >> i & 1) != 0;
}

static bool is_missing(const struct wr_ballot *b, unsigned i)
{
    return (b->missing >> i & 1) != 0;
}

static bool is_cell(const struct wr_ballot *b, unsigned i)
{
    return (b->cells >> i & 1) != 0;
}

/* ---- a slot or a cell ---------------------------------------------------------------------- */

/* Has the customer of |selection| a cell under |bound|? */
static bool has_cell(const struct wr_bound_limit *bound, const struct wr_selection *selection)
{
    return bound->usage != NULL && selection->customer_known &&
           selection->customer.number < wr_usage_room(bound->usage);
}

static void add_cell(const struct wr_engine *engine, const struct wr_bound_limit *bound,
                     struct wr_ballot *b, unsigned i, const struct wr_selection *selection)
{
    struct wr_cell *cell = &b->cell[i];

    b->cells |= UINT32_C(1) << i;
    b->charge[i].limit = &bound->policy->by[selection->plan];
    b->charge[i].cost = selection->cost;
    cell->usage = bound->usage;
    cell->rule = &bound->rules[selection->plan];
    cell->number = selection->customer.number;
    cell->anchor = bound->policy->quota->anchor_by_customer ? selection->customer.anchor : 0;
    cell->ahead_ns = wr_arena_wall_ahead_ns(engine->arena);
    wr_usage_prefetch(cell->usage, cell->number);
}

void wr_ballot_add(const struct wr_engine *engine, struct wr_ballot *b, unsigned i,
                   const struct wr_selection *selection)
{
    const struct wr_selected *selected = &selection->selected[i];
    const struct wr_bound_limit *bound = &engine->limits[selected->limit];
    uint64_t hash;

    b->limit[i] = selected->limit;
    b->missing |= (uint32_t)selected->deny_missing << i;
    if (has_cell(bound, selection)) {
        add_cell(engine, bound, b, i, selection);
        return;
    }
    hash = wr_bound_hash_parts(engine, selected);
    wr_bound_charge(engine, selected->limit, selection->plan, hash, selection->cost, &b->charge[i]);
    wr_slot_prefetch(engine->arena, hash);
}

static void evaluate(struct wr_engine *engine, struct wr_ballot *b, unsigned i, int64_t now)
{
    struct wr_charge *charge = &b->charge[i];

    if (!is_cell(b, i)) {
        wr_charge_evaluate(engine->arena, charge, now);
        return;
    }
    charge->busy = false;
    wr_cell_evaluate(&b->cell[i], charge->cost, now, &charge->take);
}

static void commit(struct wr_engine *engine, struct wr_ballot *b, unsigned i, int64_t now,
                   struct weir_receipt *receipt)
{
    if (is_cell(b, i))
        wr_cell_commit(&b->cell[i], b->charge[i].cost, now, &b->charge[i].take, receipt);
    else
        wr_charge_commit(engine->arena, &b->charge[i], now, receipt);
}

static void refund(struct wr_engine *engine, struct wr_ballot *b, unsigned i, int64_t now,
                   struct weir_receipt *receipt)
{
    int64_t cost = wr_receipt_cost(receipt);

    if (is_cell(b, i))
        wr_cell_refund(b->cell[i].usage, b->cell[i].rule, receipt, cost);
    else
        wr_charge_refund(engine->arena, b->charge[i].limit, receipt, cost, now);
}

static void force(struct wr_engine *engine, struct wr_ballot *b, unsigned i, int64_t now)
{
    if (is_cell(b, i))
        wr_cell_force(&b->cell[i], b->charge[i].cost, now);
    else
        wr_charge_force(engine->arena, &b->charge[i], now);
}

/* ---- all of them --------------------------------------------------------------------------- */

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
            evaluate(engine, b, i, now);
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
            refund(engine, b, i, now, receipt);
            evaluate(engine, b, i, now); /* for what remains */
        }
        wr_receipt_clear(receipt);
    }
}

/* Take from the limits in |which|. False as soon as one refuses, where they are |enforced|. */
static bool commit_some(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                        struct weir_receipt *receipts, uint32_t which, bool enforced)
{
    for (; which != 0; which &= which - 1) {
        unsigned i = (unsigned)__builtin_ctz(which);
        commit(engine, b, i, now, &receipts[i]);
        if (!b->charge[i].take.allowed && enforced)
            return false;
    }
    return true;
}

bool wr_ballot_commit(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                      struct weir_receipt *receipts)
{
    uint32_t shadow = 0, leaky = 0, here = b->here & ((UINT32_C(1) << b->count) - 1);

    for (unsigned i = 0; i < b->count; i++) {
        if (!is_here(b, i))
            continue;
        shadow |= (uint32_t)!wr_ballot_enforced(engine, b, i) << i;
        leaky |= (uint32_t)(b->charge[i].limit->algo == WR_LEAKY_BUCKET) << i;
    }
    if (!commit_some(engine, b, now, receipts, here & ~shadow & ~leaky, true) ||
        !commit_some(engine, b, now, receipts, here & ~shadow & leaky, true)) {
        give_back(engine, b, now, receipts);
        return false;
    }
    (void)commit_some(engine, b, now, receipts, shadow & ~leaky, false);
    (void)commit_some(engine, b, now, receipts, shadow & leaky, false);
    return true;
}

/* Limits that punish trying are charged although the request was refused. */
static void charge_denied(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (is_here(b, i) && b->charge[i].limit->count_denied && !is_missing(b, i))
            force(engine, b, i, now);
    }
}

/* A refusal writes nothing, but where the clock was set back the state must be moved to the
 * present, or it would be moved anew at every try and never recover. */
static void store_repairs(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    for (unsigned i = 0; i < b->count; i++) {
        if (is_here(b, i) && !b->charge[i].take.allowed && !is_missing(b, i) && !is_cell(b, i))
            wr_charge_commit(engine->arena, &b->charge[i], now, NULL);
    }
}

/* How long the same request must wait for charge |i|, which let it pass and is charged for the
 * others' refusal: 0 where it would pass at once. Of a list the least that is certainly enough. */
static int64_t wait_of(const struct wr_charge *charge, int64_t now)
{
    const struct wr_limit *limit = charge->limit;
    struct wr_take again;

    if (wr_limit_is_word(limit)) {
        struct wr_limit once = *limit;
        once.count_denied = 0; /* it is charged already */
        wr_word_algo((enum wr_algo)limit->algo)
            ->take(&once, charge->take.state, now, charge->cost, &again);
        return again.retry_after_ns;
    }
    if (limit->algo == WR_CONCURRENCY || charge->take.remaining >= charge->cost)
        return 0;
    return wr_sliding_log_retry(limit, now, now);
}

static int64_t longest_wait(const struct wr_engine *engine, const struct wr_ballot *b, int64_t now)
{
    int64_t wait_ns = 0;

    for (unsigned i = 0; i < b->count; i++) {
        const struct wr_charge *charge = &b->charge[i];
        if (is_here(b, i) && charge->limit->count_denied && charge->take.allowed &&
            wr_ballot_enforced(engine, b, i) && !is_cell(b, i))
            wait_ns = wr_max_i64(wait_ns, wait_of(charge, now));
    }
    return wait_ns;
}

void wr_ballot_refused(struct wr_engine *engine, struct wr_ballot *b, int64_t now)
{
    store_repairs(engine, b, now);
    charge_denied(engine, b, now);
}

void wr_answer_denied(const struct wr_engine *engine, const struct wr_ballot *b, int64_t now,
                      struct weir_answer *answer)
{
    if (answer->outcome == WEIR_DENY && answer->retry_after_ns != WEIR_NEVER)
        answer->retry_after_ns = wr_max_i64(answer->retry_after_ns, longest_wait(engine, b, now));
}

void wr_ballot_verdict(const struct wr_engine *engine, const struct wr_ballot *b, unsigned i,
                       struct weir_verdict *out)
{
    wr_bound_verdict(engine, &b->charge[i], b->limit[i], b->plan, out);
    if (is_missing(b, i))
        out->reason = WEIR_REASON_MISSING;
    else if (is_cell(b, i))
        wr_cell_verdict(&b->cell[i], &b->charge[i].take, out);
}

/* Is the plan the customer's own, to be changed? One that is supposed has what the request has. */
static bool is_customers_plan(const struct wr_engine *engine, const struct wr_selection *selection)
{
    return selection->plan_from == WR_PLAN_CUSTOMER ||
           (engine->known->supposed && selection->plan_from != WR_PLAN_GIVEN);
}

int wr_ballot_upgrade(const struct wr_engine *engine, const struct wr_ballot *b,
                      const struct wr_selection *selection)
{
    int plan = -1;

    if (b->cells == 0 || !is_customers_plan(engine, selection))
        return -1;
    for (unsigned i = 0; i < b->count; i++) {
        const struct wr_policy_quota_plan *quota;
        if (!is_here(b, i) || b->charge[i].take.allowed || !wr_ballot_enforced(engine, b, i))
            continue;
        if (!is_cell(b, i) || b->charge[i].busy)
            return -1;
        quota = &engine->limits[b->limit[i]].policy->quota->plan[b->plan];
        if (quota->on_exceed != WR_EXCEED_UPGRADE || quota->upgrade_to < 0)
            return -1;
        plan = quota->upgrade_to;
    }
    return plan;
}

/* ---- the answer as a whole ----------------------------------------------------------------- */

/* Does a refusal by |a| last longer than one by |b|? Never is longest. */
static bool longer(const struct weir_verdict *a, const struct weir_verdict *b)
{
    if (a->retry_after_ns == WEIR_NEVER || b->retry_after_ns == WEIR_NEVER)
        return a->retry_after_ns == WEIR_NEVER && b->retry_after_ns != WEIR_NEVER;
    return a->retry_after_ns > b->retry_after_ns;
}

/* Is |v| rather to be spoken of than |best|? Denied: who refuses longer; else who has less left.
 * Ties go to the first in the file. */
static bool rather(const struct weir_verdict *v, const struct weir_verdict *best, bool denied)
{
    return denied ? longer(v, best) : v->remaining_units < best->remaining_units;
}

void wr_answer_describe(struct weir_answer *answer, bool pass)
{
    const struct weir_verdict *verdicts = answer->verdicts;
    int best = -1, shadow = -1;
    int64_t delay_ns = 0;

    for (int i = 0; i < answer->count; i++) {
        const struct weir_verdict *v = &verdicts[i];
        bool denied = v->outcome == WEIR_DENY;
        if (v->shadow != 0) {
            if (denied && (shadow < 0 || longer(v, &verdicts[shadow])))
                shadow = i;
            continue;
        }
        delay_ns = wr_max_i64(delay_ns, v->delay_ns);
        if ((pass || denied) && (best < 0 || rather(v, &verdicts[best], !pass)))
            best = i;
    }
    answer->outcome = !pass ? WEIR_DENY : delay_ns > 0 ? WEIR_DELAY : WEIR_ALLOW;
    answer->delay_ns = pass ? delay_ns : 0;
    if (pass && shadow >= 0) {
        answer->outcome = WEIR_SHADOW;
        best = shadow;
    }
    answer->decisive = (int16_t)best;
    answer->reason = WEIR_REASON_NONE;
    answer->retry_after_ns = 0;
    if (answer->outcome == WEIR_DENY || answer->outcome == WEIR_SHADOW) {
        answer->reason = verdicts[best].reason;
        answer->retry_after_ns = verdicts[best].retry_after_ns;
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
    answer->upgrade_to = -1;
    answer->customer = selection->customer_known ? selection->customer.number + 1 : 0;
    answer->customer_anchor = selection->customer_known ? selection->customer.anchor : 0;
    for (unsigned i = 0; i < selection->count; i++)
        wr_receipt_clear(&answer->receipts[i]);
}

struct wr_bar wr_answer_bar(struct wr_engine *engine, const struct weir_request *request,
                            const struct wr_selection *selection, int64_t now)
{
    struct wr_bar bar = {WEIR_REASON_NONE, -1, 0};

    if (selection->banned)
        bar.left_ns = WEIR_NEVER;
    else if (wr_ban_any(engine->arena))
        bar.left_ns = wr_ban_left(engine, request, selection, now);
    if (bar.left_ns != 0)
        bar.reason = WEIR_REASON_BANNED;
    else if (selection->plan_excludes)
        bar = (struct wr_bar){WEIR_REASON_PLAN, selection->plan_wanted, WEIR_NEVER};
    return bar;
}

void wr_answer_barred(struct weir_answer *answer, const struct wr_bar *bar)
{
    answer->outcome = WEIR_DENY;
    answer->reason = bar->reason;
    answer->upgrade_to = bar->upgrade_to;
    answer->count = 0;
    answer->decisive = -1;
    answer->delay_ns = 0;
    answer->retry_after_ns = bar->left_ns;
}
