/* shared.c - a request that meets shared limits, as far as this host can decide it.
 *
 *   sort      local limits are charged as ever; leased ones have their lease for a charge; strict
 * ones are asked for look      at all that lies in the arena. An enforced limit that refuses here
 * ends it: the store is not asked spend     the leases that last. One that has gone since it was
 * looked at is asked for ask       what is left, in one call; nothing local is taken before the
 * store has answered
 *
 * Invariants:
 *   1. A refused request has consumed nothing when it is answered: what was spent from leases goes
 * back to them (or is stranded, where their time is over), but for count_denied.
 *   2. No unit passes that the store has not granted, but with the store gone.
 *   3. A strict limit's refusal is the store's, never remembered here. A leased limit's refusal is
 *      remembered in its lease, where that is empty, for up to a second: a key that hammers does
 * not reach the store.
 *   4. Plans whose rates differ have leases of their own: what the store granted or refused was
 * judged by one plan's number.
 *
 * Rejected: looking at leases only when the store has answered (another request may have spent them
 * meanwhile: a refusal out of nothing, or a second question); asking for every shared limit as soon
 * as one lacks its lease (leases beside a strict limit would never be spent, and half of what is
 * left would always be stranded). */
#include "engine/shared.h"

#include <string.h>
#include <sys/random.h>

#include "algo/lease.h"
#include "base/arith.h"
#include "engine/account.h"
#include "engine/shared_parts.h"
#include "engine/tag.h"
#include "engine/word.h"

enum depth {
    LOOK,  /* only whether the store must be asked */
    ALONE, /* as far as finishing without a store */
    ASK,   /* the whole question */
};

struct beginning {
    struct wr_engine *engine;
    const struct wr_selection *selection;
    struct wr_pending *p;
    int64_t now;
    enum depth depth;
    bool strict; /* no leases */
};

/* ---- sort -------------------------------------------------------------------------------- */

static void sort_shared(struct beginning *b, unsigned i, const struct wr_selected *selected)
{
    struct wr_pending *p = b->p;
    uint32_t bit = UINT32_C(1) << i;

    p->hash[i] = wr_bound_hash_parts(b->engine, selected);
    if (b->engine->limits[selected->limit].policy->leased && !b->strict) {
        p->leased |= bit;
        p->ballot.charge[i].limit = &b->engine->lease;
        p->ballot.charge[i].class_id = b->engine->lease_class;
        p->ballot.charge[i].hash = wr_lease_hash(b->engine, selected, p->ballot.plan);
        p->ballot.charge[i].cost = p->cost;
        wr_slot_prefetch(b->engine->arena, p->ballot.charge[i].hash);
    } else {
        p->asked |= bit;
    }
}

static void clear(struct wr_pending *p)
{
    p->call.count = 0;
    p->call.shadow = 0;
    p->call.trouble = WR_TROUBLE_NONE;
    p->call.retry_ns = 0;
    p->force = 0;
    p->asked = 0;
    p->leased = 0;
    p->held = 0;
    p->upgrade_to = -1;
    p->ballot.count = 0;
    p->ballot.missing = 0;
    p->ballot.here = 0;
    p->ballot.cells = 0;
    memset(p->remote, -1, sizeof p->remote);
}

static void sort(struct beginning *b, bool peek)
{
    const struct wr_selection *selection = b->selection;
    struct wr_pending *p = b->p;

    clear(p);
    p->cost = selection->cost;
    p->peek = peek;
    p->customer = selection->customer_known ? selection->customer.number + 1 : 0;
    p->customer_anchor = selection->customer_known ? selection->customer.anchor : 0;
    p->is_his_plan = selection->customer_known && selection->plan_from == WR_PLAN_CUSTOMER;
    if (p->is_his_plan)
        p->seen = selection->customer;
    p->ballot.plan = selection->plan;
    p->ballot.count = selection->count;
    for (unsigned i = 0; i < selection->count; i++) {
        const struct wr_selected *selected = &selection->selected[i];
        if (b->engine->limits[selected->limit].policy->shared && !selected->deny_missing) {
            p->ballot.limit[i] = selected->limit;
            sort_shared(b, i, selected);
            continue;
        }
        p->ballot.here |= UINT32_C(1) << i;
        wr_ballot_add(b->engine, &p->ballot, i, selection);
    }
}

/* ---- look and spend ---------------------------------------------------------------------- */

/* What the lease of limit |i| says: it lasts, it refuses, or it is to be asked for. False: an
 * enforced refusal. */
static bool heed(struct beginning *b, unsigned i)
{
    const struct wr_take *take = &b->p->ballot.charge[i].take;

    if (!take->allowed && take->never)
        b->p->asked |= UINT32_C(1) << i;
    return take->allowed || take->never || !wr_ballot_enforced(b->engine, &b->p->ballot, i);
}

static bool look(struct beginning *b)
{
    struct wr_pending *p = b->p;
    bool pass = wr_ballot_evaluate(b->engine, &p->ballot, b->now);

    for (unsigned i = 0; i < p->ballot.count; i++) {
        if (!wr_bit(p->leased, i))
            continue;
        wr_word_evaluate(b->engine->arena, &p->ballot.charge[i], b->now);
        pass = heed(b, i) && pass;
    }
    return pass;
}

/* Spend from every lease that lasts. False: an enforced one refuses now. */
static bool spend(struct beginning *b)
{
    struct wr_pending *p = b->p;

    for (unsigned i = 0; i < p->ballot.count; i++) {
        if (!wr_bit(p->leased & ~p->asked, i) || !p->ballot.charge[i].take.allowed)
            continue;
        if (wr_word_commit(b->engine->arena, &p->ballot.charge[i], b->now))
            p->held |= UINT32_C(1) << i;
        else if (!heed(b, i))
            return false;
    }
    return true;
}

void wr_pending_let_go(struct wr_engine *engine, struct wr_pending *p, int64_t now)
{
    for (unsigned i = 0; i < p->ballot.count; i++) {
        struct wr_charge *charge = &p->ballot.charge[i];
        if (!wr_bit(p->held, i))
            continue;
        wr_word_refund(engine->arena, *charge, charge->take.state, now);
        charge->take.remaining += charge->cost;
    }
    p->held = 0;
}

void wr_pending_receipts(const struct wr_pending *p, struct weir_answer *answer)
{
    for (unsigned i = 0; i < p->ballot.count; i++)
        if (wr_bit(p->held, i))
            wr_charge_receipt(&p->ballot.charge[i], p->ballot.charge[i].take.state,
                              &answer->receipts[i]);
}

/* ---- verdicts ---------------------------------------------------------------------------- */

/* Verdicts of all that was decided here. Limits that nobody asked about are left out: of them
 * nothing is known, and a refusal needs them not. */
static void describe_here(struct beginning *b, struct weir_answer *answer, bool pass)
{
    const struct wr_pending *p = b->p;
    uint16_t count = 0;

    for (unsigned i = 0; i < p->ballot.count; i++) {
        if (wr_bit(p->asked, i))
            continue;
        if (wr_bit(p->ballot.here, i))
            wr_ballot_verdict(b->engine, &p->ballot, i, &answer->verdicts[count]);
        else
            wr_pending_verdict(b->engine, p, i, b->now, &answer->verdicts[count]);
        count++;
    }
    answer->count = count;
    wr_answer_describe(answer, pass);
    if (!pass)
        wr_answer_denied(b->engine, &p->ballot, b->now, answer);
}

/* ---- ask --------------------------------------------------------------------------------- */

static uint64_t random_place(const struct wr_pending *p, int64_t now)
{
    uint64_t place = 0;

    if (getrandom(&place, sizeof place, GRND_NONBLOCK) != (ssize_t)sizeof place)
        place = (uint64_t)now ^ (uint64_t)(uintptr_t)p; /* early boot: two may share a place */
    return place;
}

/* Add limit |i| to the question. */
static void ask_for(struct beginning *b, unsigned i)
{
    struct wr_pending *p = b->p;
    unsigned index = p->call.count++;
    struct wr_remote_charge *charge = &p->call.charge[index];
    const struct wr_policy_limit *policy = b->engine->limits[p->ballot.limit[i]].policy;

    p->remote[i] = (int8_t)index;
    p->adjust[index] = 0;
    if (!wr_ballot_enforced(b->engine, &p->ballot, i))
        p->call.shadow |= UINT32_C(1) << index;
    memset(charge, 0, sizeof *charge);
    charge->limit = wr_pending_limit(b->engine, p, i);
    charge->name = policy->name;
    charge->ttl_ns = policy->leased ? wr_lease_ttl_ns(charge->limit) : 0;
    charge->cost = p->peek ? 0 : p->cost;
    if (charge->limit->algo == WR_CONCURRENCY) {
        charge->cost = wr_min_i64(charge->cost, 1);
        charge->place = random_place(p, b->now);
    }
    if (b->depth == ASK)
        wr_tag_again(&b->engine->tag_base, &b->selection->selected[i], p->hash[i], charge->tag);
}

/* The store is to be asked for |which| limits. */
static void ask(struct beginning *b, uint32_t which)
{
    b->p->call.now_ns = b->now;
    for (unsigned i = 0; i < b->p->ballot.count; i++)
        if (wr_bit(which, i))
            ask_for(b, i);
}

static const struct wr_bar no_bar = {WEIR_REASON_NONE, -1, 0};

static void answer_ask(struct weir_answer *answer)
{
    answer->outcome = WEIR_ASK;
    answer->reason = WEIR_REASON_NONE;
    answer->count = 0;
    answer->decisive = -1;
    answer->delay_ns = 0;
    answer->retry_after_ns = 0;
}

/* ---- the whole --------------------------------------------------------------------------- */

/* Refused without asking. Shared limits that punish trying hear of it all the same. */
static void refuse(struct beginning *b, struct weir_answer *answer)
{
    struct wr_pending *p = b->p;
    uint32_t punish = 0;

    wr_pending_let_go(b->engine, p, b->now);
    describe_here(b, answer, false);
    if (p->peek)
        return;
    wr_ballot_refused(b->engine, &p->ballot, b->now);
    for (unsigned i = 0; i < p->ballot.count && b->depth == ASK; i++)
        if (!wr_bit(p->ballot.here, i) && wr_pending_limit(b->engine, p, i)->count_denied != 0)
            punish |= UINT32_C(1) << i;
    ask(b, punish);
    p->force = (UINT32_C(1) << p->call.count) - 1;
}

static bool begin(struct beginning *b, bool peek, const struct wr_bar *bar,
                  struct weir_answer *answer)
{
    struct wr_pending *p = b->p;
    bool pass;

    sort(b, peek);
    wr_answer_begin(b->selection, b->now, answer);
    if (bar->reason != WEIR_REASON_NONE) {
        wr_answer_barred(answer, bar);
        return true;
    }
    pass = look(b);
    if (pass && !peek && (p->asked == 0 || b->depth != LOOK))
        pass = spend(b);
    if (pass && p->asked == 0 && !peek)
        pass = wr_ballot_commit(b->engine, &p->ballot, b->now, answer->receipts);
    if (!pass) {
        refuse(b, answer);
        return true;
    }
    if (p->asked != 0) {
        if (b->depth == LOOK)
            wr_pending_let_go(b->engine, p, b->now);
        else
            ask(b, p->asked);
        answer_ask(answer);
        return false;
    }
    wr_pending_receipts(p, answer);
    describe_here(b, answer, true);
    if (!peek)
        wr_account_pass(b->engine, answer);
    return true;
}

static bool begin_request(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                          enum depth depth, bool strict, struct weir_answer *answer,
                          struct wr_pending *pending)
{
    struct wr_selection selection;
    struct beginning b = {engine, &selection, pending, now, depth, strict};
    struct weir_request again = *request;
    struct wr_bar bar;
    uint32_t refusing, quotas;
    bool complete;

    wr_known_select(engine, request, now, NULL, &selection);
    bar = wr_answer_bar(engine, request, &selection, now);
    complete = begin(&b, request->peek, &bar, answer);
    if (!complete || answer->outcome != WEIR_DENY || bar.reason != WEIR_REASON_NONE)
        return complete;
    refusing = wr_pending_refusing(engine, pending, &quotas);
    again.plan = wr_pending_upgrade(engine, pending, refusing, quotas, now);
    if (again.plan < 0)
        return true;
    wr_known_select(engine, &again, now, NULL, &selection);
    bar = wr_answer_bar(engine, &again, &selection, now);
    return begin(&b, request->peek, &bar, answer);
}

bool wr_engine_begin(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                     struct weir_answer *answer, struct wr_pending *pending)
{
    if (engine->shares)
        return begin_request(engine, request, now, ASK, false, answer, pending);
    clear(pending);
    wr_engine_decide(engine, request, now, answer);
    return true;
}

bool wr_engine_begin_reserve(struct wr_engine *engine, const struct weir_request *request,
                             int64_t now, struct weir_answer *answer, struct wr_pending *pending)
{
    if (engine->shares)
        return begin_request(engine, request, now, ASK, true, answer, pending);
    return wr_engine_begin(engine, request, now, answer, pending);
}

/* A quota of nobody, or of a plan that has none. */
static void pass_unlimited(struct wr_selection *selection, unsigned limit, int64_t now,
                           struct weir_answer *answer, struct wr_pending *pending)
{
    clear(pending);
    selection->count = 0;
    wr_answer_begin(selection, now, answer);
    wr_bound_unlimited(limit, selection->plan, &answer->verdicts[0]);
    wr_answer_describe(answer, true);
    answer->count = 1;
}

bool wr_engine_begin_check(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                           int64_t cost, bool reserve, int64_t now, struct weir_answer *answer,
                           struct wr_pending *pending)
{
    const struct wr_policy_limit *policy = engine->limits[limit].policy;
    struct wr_selection selection;
    struct beginning b = {engine, &selection, pending, now, ASK, reserve};

    if (engine->shares && engine->limits[limit].account != NULL) {
        if (wr_shared_select(engine, limit, key, cost, now, &selection))
            return begin(&b, false, &no_bar, answer);
        pass_unlimited(&selection, limit, now, answer, pending);
        return true;
    }
    if (!engine->shares || !policy->shared || policy->unlimited[engine->default_plan]) {
        clear(pending);
        wr_engine_check_one(engine, limit, key, cost, now, answer);
        return true;
    }
    wr_shared_select_plain(engine, limit, key, cost, &selection);
    return begin(&b, false, &no_bar, answer);
}

bool wr_engine_begin_one(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                         int64_t cost, int64_t now, struct weir_answer *answer,
                         struct wr_pending *pending)
{
    struct wr_selection selection;
    struct beginning b = {engine, &selection, pending, now, ASK, true};

    selection.plan = plan;
    selection.cost = cost;
    selection.banned = selection.over_max = selection.customer_known = false;
    selection.count = 1;
    selection.selected[0] = *key;
    selection.selected[0].deny_missing = false;
    if (!engine->limits[key->limit].policy->unlimited[plan])
        return begin(&b, false, &no_bar, answer);
    pass_unlimited(&selection, key->limit, now, answer, pending);
    return true;
}

bool wr_engine_shares(const struct wr_engine *engine)
{
    return engine->shares;
}

void wr_engine_cancel(struct wr_engine *engine, struct wr_pending *pending, int64_t now)
{
    wr_pending_let_go(engine, pending, now);
}

bool wr_engine_store_key(const struct wr_engine *engine, const struct wr_selected *key,
                         struct wr_remote_charge *out)
{
    const struct wr_policy_limit *policy = engine->limits[key->limit].policy;

    memset(out, 0, sizeof *out);
    if (!engine->shares || !policy->shared)
        return false;
    out->limit = wr_policy_at_store(policy, engine->default_plan);
    out->name = policy->name;
    wr_tag_of(&engine->tag_base, key, out->tag);
    return true;
}

void wr_shared_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer)
{
    struct wr_pending pending;

    (void)begin_request(engine, request, now, LOOK, false, answer, &pending);
}

void wr_shared_check(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                     bool lease, int64_t now, struct weir_answer *answer)
{
    struct wr_selection selection;
    struct wr_pending pending;
    struct beginning b = {engine, &selection, &pending, now, LOOK, !lease};

    if (engine->limits[limit].account == NULL) {
        wr_shared_select_plain(engine, limit, key, cost, &selection);
    } else if (!wr_shared_select(engine, limit, key, cost, now, &selection)) {
        pass_unlimited(&selection, limit, now, answer, &pending);
        return;
    }
    if (!begin(&b, false, &no_bar, answer)) {
        wr_pending_blank(engine, &pending, 0, &answer->verdicts[0]);
        answer->verdicts[0].outcome = WEIR_ASK;
    }
}

void wr_engine_decide_reserve(struct wr_engine *engine, const struct weir_request *request,
                              int64_t now, struct weir_answer *answer)
{
    struct wr_pending pending;

    if (engine->shares)
        (void)begin_request(engine, request, now, LOOK, true, answer, &pending);
    else
        wr_engine_decide(engine, request, now, answer);
}

void wr_engine_decide_alone(struct wr_engine *engine, const struct weir_request *request,
                            int64_t now, struct weir_answer *answer)
{
    const struct wr_policy_store *store = wr_policy_settings(engine->policy)->store;
    struct wr_pending pending;

    if (!engine->shares)
        wr_engine_decide(engine, request, now, answer);
    else if (!begin_request(engine, request, now, ALONE, false, answer, &pending))
        (void)wr_engine_finish(engine, &pending, WR_REMOTE_GONE, store->nodes, now, answer);
}
