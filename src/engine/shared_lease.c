/* shared_lease.c - what a lease says of a request, and decisions that need no more than that.
 *
 * Problem. A hot key's decision is a hash and a compare-and-swap, some 40 ns. What is prepared for
 * a question to the store is 6 KiB, and 64 of those, for the commands of one read, are more than a
 * core's first caches hold: most of what a leased decision cost beside a local one.
 *
 * Idea. One limit, one key and its lease: taken from the word at once, as a local limit is. What
 * that cannot decide is begun anew as any other request (shared.c), and finds the word untouched.
 *
 * Invariant. The verdict and what is taken are those of wr_engine_begin_check. (The store need not
 * hear of a refusal: limits that punish trying have no leases.) */
#include "algo/lease.h"
#include "algo/told.h"
#include "base/arith.h"
#include "engine/shared.h"
#include "engine/shared_parts.h"
#include "engine/word.h"

static void blank(const struct wr_policy_limit *policy, unsigned limit, unsigned plan,
                  struct weir_verdict *out)
{
    *out = (struct weir_verdict){
        .outcome = WEIR_ALLOW,
        .shadow = policy->shadow,
        .plan = (uint8_t)plan,
        .limit = (uint16_t)limit,
        .flags = WR_VERDICT_MOMENTS,
        .capacity_units = wr_limit_capacity(&policy->by[plan]),
    };
}

/* ---- what the store said ----------------------------------------------------------------- */

void wr_told_put(struct wr_engine *engine, uint64_t hash, uint64_t which, uint64_t word,
                 int64_t now)
{
    struct wr_charge charge = {
        .limit = &engine->told, .class_id = engine->told_class, .hash = hash ^ which};

    /* Lost where somebody else is first: he was told as lately. */
    wr_slot_find(engine->arena, charge.hash, &charge.view);
    (void)wr_word_store(engine->arena, &charge, word, now);
}

/* 0: not known. */
static uint64_t told(const struct wr_engine *engine, uint64_t hash, uint64_t which)
{
    struct wr_slot_view view;

    wr_slot_find(engine->arena, hash ^ which, &view);
    return view.slot != NULL && view.class_id == engine->told_class ? view.state : 0;
}

/* Not before the lease ends: it would not be asked before that. */
static int64_t told_later(const struct wr_engine *engine, const struct wr_charge *charge,
                          int64_t lease_end_ns)
{
    return wr_max_i64(lease_end_ns, wr_told_moment_ns(told(engine, charge->hash, WR_TOLD_NEXT)));
}

/* Whoever was told nothing, or has forgotten it, says the time of the lease. */
static void write_verdict(const struct wr_engine *engine, const struct wr_charge *charge,
                          int64_t now, struct weir_verdict *out)
{
    const struct wr_policy_limit *policy = engine->limits[out->limit].policy;
    int64_t capacity = wr_limit_capacity(wr_policy_at_store(policy, out->plan));
    uint64_t whole = told(engine, charge->hash, WR_TOLD_WHOLE);
    int64_t next_ns, reset_ns, left = charge->take.remaining;

    wr_lease.times(charge->limit, charge->take.state, now, &next_ns, &reset_ns);
    next_ns += now;
    left += wr_told_units(capacity, whole);
    out->retry_after_ns = charge->take.retry_after_ns;
    if (!charge->take.allowed) {
        out->outcome = WEIR_DENY;
        out->reason = charge->busy ? WEIR_REASON_BUSY : WEIR_REASON_LIMIT;
        left = wr_min_i64(left, wr_max_i64(0, charge->cost - 1));
    }
    if (left == 0 || !charge->take.allowed)
        next_ns = told_later(engine, charge, next_ns);
    if (!charge->take.allowed && !charge->busy)
        out->retry_after_ns = next_ns - now;
    left = wr_max_i64(0, left - wr_beyond_limit(policy, out->plan));
    out->remaining_units = wr_min_i64(left, out->capacity_units);
    out->priv[0] = (uint64_t)next_ns;
    out->priv[1] = (uint64_t)wr_max_i64(next_ns, wr_told_moment_ns(whole));
}

void wr_pending_blank(const struct wr_engine *engine, const struct wr_pending *p, unsigned i,
                      struct weir_verdict *out)
{
    blank(engine->limits[p->ballot.limit[i]].policy, p->ballot.limit[i], p->ballot.plan, out);
}

void wr_pending_verdict(const struct wr_engine *engine, const struct wr_pending *p, unsigned i,
                        int64_t now, struct weir_verdict *out)
{
    wr_pending_blank(engine, p, i, out);
    write_verdict(engine, &p->ballot.charge[i], now, out);
}

/* ---- one limit and one key --------------------------------------------------------------- */

uint64_t wr_engine_lease_of(struct wr_engine *engine, unsigned limit, struct weir_slice key)
{
    const struct wr_bound_limit *bound = &engine->limits[limit];
    struct wr_sip sip;
    uint64_t hash;

    if (!engine->shares || !bound->policy->shared || !bound->policy->leased ||
        bound->account != NULL || /* whose it is, is to be found first */
        bound->policy->unlimited[engine->default_plan])
        return 0;
    sip = wr_lease_prefix(engine, limit, engine->default_plan);
    wr_sip_part(&sip, WR_PART_VALUE, key.ptr, key.len);
    hash = wr_sip_finish(sip);
    wr_slot_prefetch(engine->arena, hash);
    return hash;
}

bool wr_engine_lease_check(struct wr_engine *engine, unsigned limit, uint64_t key, int64_t cost,
                           int64_t now, struct weir_verdict *verdict, struct weir_receipt *receipt)
{
    const struct wr_policy_limit *policy = engine->limits[limit].policy;
    struct wr_charge charge; /* what is not set here, wr_word_evaluate does */

    charge.limit = &engine->lease;
    charge.hash = key;
    charge.cost = cost;
    charge.class_id = engine->lease_class;
    wr_receipt_clear(receipt);
    wr_word_evaluate(engine->arena, &charge, now);
    if (charge.take.allowed && wr_word_commit(engine->arena, &charge, now))
        wr_charge_receipt(&charge, charge.take.state, receipt);
    if (!charge.take.allowed && charge.take.never)
        return false; /* nothing here knows */
    blank(policy, limit, engine->default_plan, verdict);
    write_verdict(engine, &charge, now, verdict);
    return true;
}

int64_t wr_engine_lease_taken(const struct weir_receipt *receipt)
{
    return wr_receipt_taken(receipt) ? wr_receipt_cost(receipt) : 0;
}

void wr_engine_lease_answer(const struct weir_verdict *verdict, const struct weir_receipt *receipt,
                            int64_t cost, int64_t now, struct weir_answer *answer)
{
    answer->plan = verdict->plan;
    answer->flags = 0;
    answer->count = 1;
    answer->cost_units = cost;
    answer->decided_ns = now;
    answer->expires_ns = 0;
    answer->upgrade_to = -1;
    answer->customer_anchor = 0;
    answer->customer = 0; /* limits that count customers are not for a lease alone */
    answer->verdicts[0] = *verdict;
    answer->receipts[0] = *receipt;
    wr_answer_describe(answer, verdict->outcome != WEIR_DENY || verdict->shadow != 0);
}

int wr_engine_forget_lease(struct wr_engine *engine, const struct wr_selected *key)
{
    int rc = 0;

    for (unsigned plan = 0; engine->leases != NULL && plan < engine->plan_count; plan++) {
        uint64_t hash = wr_lease_hash(engine, key, plan);
        int result = wr_slot_drop(engine->arena, hash);
        (void)wr_slot_drop(engine->arena, hash ^ WR_TOLD_WHOLE);
        (void)wr_slot_drop(engine->arena, hash ^ WR_TOLD_NEXT);
        rc = result != 0 ? result : rc;
    }
    return rc;
}
