/* shared_finish.c - the answer to a request, of what its store said or did not say.
 *
 * Invariants:
 *   1. If a local limit refuses what the store has taken, the caller is told what to refund there.
 *   2. Durations of the store count from the moment it was asked, which is before it decided: a
 * lease ends early rather than late, and so does a remembered refusal.
 *   3. A refusal leaves what lies leased where it is, and a grant leaves none of it behind.
 *   4. With the store gone, charges of limits that fall back to local are charges like any other:
 * they are part of all-or-none. */
#include <string.h>

#include "algo/lease.h"
#include "algo/told.h"
#include "base/arith.h"
#include "engine/account.h"
#include "engine/part.h"
#include "engine/shared.h"
#include "engine/shared_parts.h"
#include "engine/word.h"

/* How a limit that was asked for came out, while the answer is made. */
struct finishing {
    struct wr_engine *engine;
    struct wr_pending *p;
    int64_t now;
    bool done;                              /* the store has answered */
    unsigned nodes;                         /* that share it */
    uint32_t part;                          /* bit i: limit i falls back to its part */
    uint32_t closed;                        /* bit i: limit i refuses, as the store is gone */
    struct wr_limit parts[WEIR_LIMITS_MAX]; /* that they are */
};

static const struct wr_remote_charge *charge_of(const struct finishing *f, unsigned i)
{
    return &f->p->call.charge[(unsigned)f->p->remote[i]];
}

static bool enforced(const struct finishing *f, unsigned i)
{
    return wr_ballot_enforced(f->engine, &f->p->ballot, i);
}

/* ---- the store has answered -------------------------------------------------------------- */

/* Of a look the store has said what remains, not whether the cost fits. */
static bool is_allowed(const struct finishing *f, unsigned i)
{
    const struct wr_remote_charge *charge = charge_of(f, i);
    int64_t cost = f->p->cost;

    if (!f->p->peek || !charge->allowed || charge->limit->algo == WR_LEAKY_BUCKET)
        return charge->allowed;
    if (charge->limit->algo == WR_CONCURRENCY)
        cost = wr_min_i64(cost, 1);
    return charge->remaining >= cost;
}

/* |lease_ns| of the store's, so short by ours that it is over here first, if our clock is slower by
 * less than 977 ppm: NTP slews by up to 500. */
static int64_t by_our_clock(int64_t lease_ns)
{
    lease_ns = wr_min_i64(lease_ns, WR_LEASE_TTL_MAX_NS);
    return lease_ns - lease_ns / 1024;
}

/* Keep the store's word for those who are answered by the lease meanwhile. */
static void remember(const struct finishing *f, unsigned i)
{
    const struct wr_remote_charge *charge = charge_of(f, i);
    uint64_t hash = f->p->ballot.charge[i].hash;
    int64_t capacity = wr_limit_capacity(charge->limit);
    int64_t next_ns = charge->allowed ? charge->next_ns : charge->retry_after_ns;

    wr_told_put(f->engine, hash, WR_TOLD_WHOLE,
                wr_told_word(capacity, charge->remaining, f->now + wr_max_i64(0, charge->reset_ns)),
                f->now);
    wr_told_put(f->engine, hash, WR_TOLD_NEXT,
                wr_told_word(capacity, 0, f->now + wr_max_i64(0, next_ns)), f->now);
}

/* The rest of a lease that could not pay for this request goes back to the store: it ends sooner
 * than what comes now. It is of the same window, as it has not ended when this is here. More than
 * the cost was granted to somebody else meanwhile, and stays. */
static int64_t make_way(const struct finishing *f, uint64_t key)
{
    if (wr_engine_lease_units(f->engine, key, f->now) >= f->p->cost)
        return 0;
    return wr_engine_lease_return(f->engine, key, f->now);
}

/* What a lease is to remember of the store's answer. */
static void learn(struct finishing *f, unsigned i, bool pass)
{
    const struct wr_remote_charge *charge = charge_of(f, i);
    struct wr_charge lease = f->p->ballot.charge[i];
    int64_t asked = f->p->call.now_ns;

    if (pass && charge->allowed && charge->granted > 0) {
        lease.cost = charge->granted;
        f->p->adjust[(unsigned)f->p->remote[i]] = -make_way(f, lease.hash);
        wr_word_change(f->engine->arena, lease, f->now, wr_lease_grant,
                       asked + by_our_clock(charge->lease_ns));
        remember(f, i);
    } else if (!charge->allowed && !charge->never &&
               wr_engine_lease_units(f->engine, lease.hash, f->now) == 0) {
        wr_word_change(f->engine->arena, lease, f->now, wr_lease_refuse,
                       asked + wr_min_i64(charge->retry_after_ns, WR_LEASE_TTL_MAX_NS));
        remember(f, i);
    }
}

/* Returns true when every enforced limit at the store allows. */
static bool heed_store(struct finishing *f)
{
    const struct wr_pending *p = f->p;
    bool pass = true;

    for (unsigned i = 0; i < p->ballot.count; i++)
        if (wr_bit(p->asked, i) && enforced(f, i) && !is_allowed(f, i))
            pass = false;
    for (unsigned i = 0; i < p->ballot.count && !p->peek; i++)
        if (wr_bit(p->asked & p->leased, i))
            learn(f, i, pass);
    return pass;
}

/* What lies here as a lease is not gone for who asks here. What is admitted beyond the limit was
 * never told. */
static void store_verdict(const struct finishing *f, unsigned i, bool pass,
                          struct weir_verdict *out)
{
    const struct wr_remote_charge *charge = charge_of(f, i);
    int64_t here = pass && wr_bit(f->p->leased, i) ? charge->granted : 0;

    wr_pending_blank(f->engine, f->p, i, out);
    here -= wr_beyond_limit(f->engine->limits[out->limit].policy, out->plan);
    out->remaining_units = wr_max_i64(0, wr_min_i64(charge->remaining + here, out->capacity_units));
    out->priv[0] = (uint64_t)(f->now + wr_max_i64(0, charge->next_ns));
    out->priv[1] = (uint64_t)(f->now + wr_max_i64(0, charge->reset_ns));
    if (is_allowed(f, i)) {
        out->delay_ns = charge->delay_ns;
        out->outcome = charge->delay_ns > 0 ? WEIR_DELAY : WEIR_ALLOW;
        return;
    }
    out->outcome = WEIR_DENY;
    out->reason = charge->never
                      ? (out->capacity_units == 0 ? WEIR_REASON_ZERO : WEIR_REASON_CAPACITY)
                      : WEIR_REASON_LIMIT;
    /* A look that does not fit: when one unit more is there is the least it takes. */
    out->retry_after_ns = charge->never     ? WEIR_NEVER
                          : charge->allowed ? wr_max_i64(1, charge->next_ns)
                                            : wr_max_i64(1, charge->retry_after_ns);
}

/* How long the same request must wait for limits of the store that let it pass and are charged for
 * the others' refusal, as count_denied says. Until all is back, where one unit is not enough. */
static int64_t store_wait_ns(const struct finishing *f)
{
    int64_t wait_ns = 0;

    for (unsigned i = 0; i < f->p->ballot.count; i++) {
        const struct wr_remote_charge *charge;
        if (!f->done || !wr_bit(f->p->asked, i) || !enforced(f, i))
            continue;
        charge = charge_of(f, i);
        if (charge->limit->count_denied && charge->limit->algo != WR_CONCURRENCY &&
            charge->allowed && charge->remaining < charge->cost)
            wait_ns = wr_max_i64(wait_ns, charge->cost == 1 ? charge->next_ns : charge->reset_ns);
    }
    return wait_ns;
}

/* The charges that were taken at the store and must go back, as the request is refused after all.
 */
static uint32_t to_refund(const struct finishing *f)
{
    uint32_t bits = 0;

    for (unsigned k = 0; k < f->p->call.count; k++) {
        const struct wr_remote_charge *charge = &f->p->call.charge[k];
        if (charge->allowed && charge->cost > 0 && charge->limit->count_denied == 0)
            bits |= UINT32_C(1) << k;
    }
    return bits;
}

/* ---- the store is gone ------------------------------------------------------------------- */

/* Returns true when no enforced limit is closed. */
static bool fall_back(struct finishing *f)
{
    struct wr_pending *p = f->p;
    bool pass = true;

    for (unsigned i = 0; i < p->ballot.count; i++) {
        const struct wr_policy_limit *policy = f->engine->limits[p->ballot.limit[i]].policy;
        uint32_t bit = UINT32_C(1) << i;

        if (!wr_bit(p->asked, i) || policy->when_gone == WR_GONE_OPEN)
            continue;
        if (policy->when_gone == WR_GONE_LOCAL &&
            wr_part_charge(f->engine, p->ballot.limit[i], p->ballot.plan, f->nodes, p->hash[i],
                           p->cost, &f->parts[i], &p->ballot.charge[i])) {
            f->part |= bit;
            p->ballot.here |= bit;
            continue;
        }
        f->closed |= bit;
        pass = pass && !enforced(f, i);
    }
    return pass;
}

static void gone_verdict(const struct finishing *f, unsigned i, struct weir_verdict *out)
{
    wr_pending_blank(f->engine, f->p, i, out);
    out->remaining_units = wr_max_i64(0, out->capacity_units - f->p->cost);
    out->priv[0] = (uint64_t)f->now;
    out->priv[1] = (uint64_t)f->now;
    if (!wr_bit(f->closed, i))
        return;
    out->outcome = WEIR_DENY;
    out->reason = WEIR_REASON_STORE;
    out->remaining_units = 0;
    out->retry_after_ns = f->p->call.retry_ns > 0 ? f->p->call.retry_ns : WR_GONE_RETRY_NS;
}

/* The part of what callers are told of, where more is admitted. */
static void tell_limit(const struct finishing *f, unsigned i, struct weir_verdict *out)
{
    const struct wr_policy_limit *policy = f->engine->limits[out->limit].policy;
    struct wr_limit told;

    if (policy->at_store == NULL ||
        !wr_limit_divide(&told, &policy->by[out->plan], wr_part_nodes(f->nodes)))
        return;
    out->remaining_units = wr_max_i64(0, out->remaining_units - (f->parts[i].units - told.units));
    out->capacity_units = wr_limit_capacity(&told);
}

/* As moments: who asks for them later knows the whole limit, not the part. */
static void part_verdict(const struct finishing *f, unsigned i, struct weir_verdict *out)
{
    int64_t next_ns, reset_ns;

    wr_ballot_verdict(f->engine, &f->p->ballot, i, out);
    tell_limit(f, i, out);
    wr_bound_times(&f->parts[i], out->priv, f->now, &next_ns, &reset_ns);
    out->flags = WR_VERDICT_MOMENTS;
    out->priv[0] = (uint64_t)(f->now + next_ns);
    out->priv[1] = (uint64_t)(f->now + reset_ns);
}

/* ---- the answer -------------------------------------------------------------------------- */

static void fill_verdict(const struct finishing *f, unsigned i, bool pass, struct weir_verdict *out)
{
    const struct wr_pending *p = f->p;

    if (wr_bit(f->part, i))
        part_verdict(f, i, out);
    else if (wr_bit(p->ballot.here, i))
        wr_ballot_verdict(f->engine, &p->ballot, i, out);
    else if (!wr_bit(p->asked, i))
        wr_pending_verdict(f->engine, p, i, f->now, out);
    else if (f->done)
        store_verdict(f, i, pass, out);
    else
        gone_verdict(f, i, out);
}

/* What was taken of limit |i| at the store. Of a quota also behind how many others: how far beyond
 * its limit that is. */
static void store_receipt(const struct finishing *f, unsigned i, struct weir_receipt *receipt)
{
    const struct wr_remote_charge *charge = charge_of(f, i);
    int64_t after = charge->limit->units - charge->remaining - charge->granted;

    wr_receipt_write_remote(receipt, charge);
    if (f->engine->limits[f->p->ballot.limit[i]].policy->at_store != NULL)
        wr_receipt_set_before(receipt, wr_max_i64(0, after - charge->cost));
}

/* What the request has taken, so that it can be given back. */
static void fill_receipts(const struct finishing *f, struct weir_answer *answer)
{
    const struct wr_pending *p = f->p;

    wr_pending_receipts(p, answer);
    for (unsigned i = 0; i < p->ballot.count; i++) {
        if (wr_bit(f->part, i) && wr_receipt_taken(&answer->receipts[i]))
            wr_receipt_mark_part(&answer->receipts[i]);
        if (f->done && wr_bit(p->asked, i) && charge_of(f, i)->allowed && charge_of(f, i)->cost > 0)
            store_receipt(f, i, &answer->receipts[i]);
    }
}

static void begin_answer(const struct finishing *f, struct weir_answer *answer)
{
    const struct wr_pending *p = f->p;

    answer->plan = (uint8_t)p->ballot.plan;
    answer->flags = 0;
    answer->count = p->ballot.count;
    answer->cost_units = p->cost;
    answer->decided_ns = f->now;
    answer->expires_ns = 0;
    answer->upgrade_to = -1;
    answer->customer = p->customer;
    answer->customer_anchor = p->customer_anchor;
    for (unsigned i = 0; i < p->ballot.count; i++)
        wr_receipt_clear(&answer->receipts[i]);
}

/* Where a quota's customer moves to, as the request is refused. With the store gone nobody knows
 * what he has used: he stays. */
static int upgrade(const struct finishing *f)
{
    uint32_t quotas, refusing = wr_pending_refusing(f->engine, f->p, &quotas);

    if (!f->done)
        return -1;
    for (unsigned i = 0; i < f->p->ballot.count; i++)
        if (wr_bit(f->p->asked, i) && enforced(f, i) && !is_allowed(f, i)) {
            refusing |= UINT32_C(1) << i;
            quotas |= UINT32_C(1) << i;
        }
    return wr_pending_upgrade(f->engine, f->p, refusing, quotas, f->now);
}

uint32_t wr_engine_finish(struct wr_engine *engine, struct wr_pending *p,
                          enum wr_remote_result result, unsigned nodes, int64_t now,
                          struct weir_answer *answer)
{
    struct finishing f = {
        .engine = engine, .p = p, .now = now, .done = result == WR_REMOTE_DONE, .nodes = nodes};
    bool store = f.done ? heed_store(&f) : fall_back(&f), pass;
    uint32_t refund = 0;

    begin_answer(&f, answer);
    pass = wr_ballot_evaluate(engine, &p->ballot, now) && store;
    if (pass && !p->peek)
        pass = wr_ballot_commit(engine, &p->ballot, now, answer->receipts);
    if (!pass)
        wr_pending_let_go(engine, p, now);
    if (!pass && store && f.done && !p->peek)
        refund = to_refund(&f);
    if (!pass)
        p->upgrade_to = (int16_t)upgrade(&f);
    for (unsigned i = 0; i < p->ballot.count; i++)
        fill_verdict(&f, i, pass, &answer->verdicts[i]);
    if (pass)
        fill_receipts(&f, answer);
    else if (!p->peek && p->upgrade_to < 0)
        wr_ballot_refused(engine, &p->ballot, now);
    wr_answer_describe(answer, pass);
    if (!pass)
        wr_answer_denied(engine, &p->ballot, now, answer);
    if (!pass && answer->retry_after_ns != WEIR_NEVER)
        answer->retry_after_ns = wr_max_i64(answer->retry_after_ns, store_wait_ns(&f));
    if (pass && !p->peek)
        wr_account_pass(engine, answer);
    return refund;
}

/* ---- leases ------------------------------------------------------------------------------ */

uint64_t wr_engine_lease_key(const struct wr_pending *pending, unsigned index)
{
    for (unsigned i = 0; i < pending->ballot.count; i++)
        if (pending->remote[i] == (int)index && wr_bit(pending->leased, i))
            return pending->ballot.charge[i].hash;
    return 0;
}

int64_t wr_engine_lease_units(struct wr_engine *engine, uint64_t key, int64_t now)
{
    struct wr_slot_view view;

    wr_slot_find(engine->arena, key, &view);
    return view.slot != NULL && view.class_id == engine->lease_class
               ? wr_lease_units(view.state, now)
               : 0;
}

int64_t wr_engine_lease_return(struct wr_engine *engine, uint64_t key, int64_t now)
{
    struct wr_charge charge = {
        .limit = &engine->lease, .class_id = engine->lease_class, .hash = key};

    for (;;) {
        charge.cost = wr_engine_lease_units(engine, key, now);
        if (charge.cost == 0)
            return 0;
        /* Others who spend meanwhile leave less: looked up again, it gets less each time. */
        wr_word_take(engine->arena, &charge, now);
        if (charge.take.allowed)
            return charge.cost;
    }
}
