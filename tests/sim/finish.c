/* finish.c - a request when the store has answered, or has not; and what comes after it. */
#include "sim.h"

/* What is wrong on purpose in what the node hears. */
static void break_lease(struct sim *sim, struct call *call)
{
    struct wr_remote_call *heard = &call->pending.call;

    if (sim->broken == BROKEN_ANSWERED)
        heard->now_ns = node_now(sim, call->node);
    for (unsigned k = 0; k < heard->count; k++) {
        if (sim->broken == BROKEN_LATE)
            heard->charge[k].lease_ns *= 2;
        if (sim->broken == BROKEN_WINDOW && heard->charge[k].granted > 0)
            heard->charge[k].lease_ns = heard->charge[k].ttl_ns;
    }
}

struct taken call_taken(const struct call *call, unsigned k)
{
    return (struct taken){.charge = call->wire.charge[k],
                          .limit = call_limit(call, k),
                          .key = call->key,
                          .epoch = call->epoch,
                          .at_ns = call->decided_ns,
                          .number = call->number};
}

/* No more may lie unspent at the nodes than is documented. */
static void check_unspent(struct sim *sim, unsigned limit, unsigned key)
{
    int64_t units = 0, most = wr_limit_capacity(limit_of(sim, limit, key)) / sim->setup.nodes / 8;

    for (unsigned i = 0; i < sim->setup.nodes; i++)
        units += ledger_units(&sim->node[i].ledger[limit][key], sim->now_ns);
    if (units > sim->setup.nodes * sim->setup.loops * 2 * (most + COST_MAX))
        fail(sim, "%lld units of %s/%u lie unspent, of at most %lld a lease", (long long)units,
             sim->limit[limit]->name, key, (long long)most);
}

/* What is wrong on purpose in what it keeps. */
static void break_kept(struct sim *sim, struct call *call, const uint64_t lease[WEIR_LIMITS_MAX])
{
    for (unsigned k = 0; k < call->wire.count; k++) {
        if (sim->broken == BROKEN_REST)
            call->pending.adjust[k] = 0;
        if (sim->broken == BROKEN_REFUSED && lease[k] != 0 && !call->wire.charge[k].allowed)
            (void)wr_engine_lease_return(sim->node[call->node].engine, lease[k],
                                         node_now(sim, call->node));
    }
}

/* The rest of an old lease, as the new one comes. */
static void give_rest_back(struct sim *sim, struct call *call, unsigned k)
{
    unsigned limit = call_limit(call, k);
    int64_t units = -call->pending.adjust[k];
    struct taken taken = call_taken(call, k);
    struct spent spent;

    if (units == 0)
        return;
    if (!ledger_spend(&sim->node[call->node].ledger[limit][call->key], units, sim->now_ns, &spent))
        fail(sim, "node %u gives back %lld of %s/%u that it has not", call->node, (long long)units,
             sim->limit[limit]->name, call->key);
    sim->totals.returned += (uint64_t)units;
    adjust_send(sim, call->node, &taken, -units);
}

static void learn(struct sim *sim, struct call *call, unsigned k)
{
    struct node *node = &sim->node[call->node];
    const struct wr_remote_charge *charge = &call->wire.charge[k];
    unsigned limit = call_limit(call, k);

    if (!call->passed || charge->granted <= 0)
        return;
    node->last[limit][call->key] = call_taken(call, k);
    node->ledger[limit][call->key].merged =
        ledger_units(&node->ledger[limit][call->key], sim->now_ns) > 0;
    ledger_add(&node->ledger[limit][call->key],
               (struct granted){charge->granted, call->decided_ns + charge->lease_ns, call->epoch,
                                call->number},
               sim->now_ns);
    check_unspent(sim, limit, call->key);
}

/* It has not passed by the store's word. */
static void unpass(struct sim *sim, struct call *call, unsigned k)
{
    unsigned limit = call_limit(call, k);

    if (call->passed && call->wire.charge[k].allowed && call->epoch == sim->epoch)
        meter_back(&sim->passed[limit][call->key], call->wire.charge[k].limit, call->decided_ns,
                   sim->now_ns, call->wire.charge[k].cost, call->number);
}

static void check_refund(struct sim *sim, const struct call *call, uint32_t refund, bool done)
{
    uint32_t expected = 0;

    for (unsigned k = 0; k < call->wire.count; k++)
        if (done && call->passed && call->wire.charge[k].allowed && !call->peeks &&
            !answer_admits(&call->answer) && call->wire.charge[k].cost > 0)
            expected |= UINT32_C(1) << k;
    if (refund != expected)
        fail(sim, "to be refunded: %x, not %x", expected, refund);
}

/* What a refused request held is back in its lease, if that surely lasts, is the only one, and
 * nothing else happened to it meanwhile. */
static void check_returned(struct sim *sim, struct call *call, const int64_t before[LIMITS])
{
    const struct wr_pending *p = &call->pending;
    int64_t after[LIMITS], surely_ns = sim->now_ns + 4 * sim->setup.deadline_ns;

    request_lease_units(sim, call, after);
    for (unsigned i = 0; i < p->ballot.count; i++) {
        unsigned limit = p->ballot.limit[i];
        const struct spent *spent = &call->spent[limit];
        const struct ledger *ledger = &sim->node[call->node].ledger[limit][call->key];
        if (spent->count != 1 || spent->turn != ledger->turns ||
            spent->piece[0].end_ns < surely_ns || ledger->count > 1 || ledger->merged ||
            (ledger->count == 1 && ledger->row[0].number != spent->piece[0].number))
            continue;
        if (after[limit] != before[limit] + p->cost)
            fail(sim, "a refused request took %lld of %s/%u and gave %lld back", (long long)p->cost,
                 sim->limit[limit]->name, call->key, (long long)(after[limit] - before[limit]));
    }
}

/* Units are neither made nor lost: what the leases hold after it, what goes back to the store, and
 * what they held before it, what was granted with it and what comes back as it is refused. */
static void check_kept(struct sim *sim, struct call *call, const int64_t before[LIMITS], bool done)
{
    const struct wr_pending *p = &call->pending;
    int64_t after[LIMITS], now = node_now(sim, call->node);

    request_lease_units(sim, call, after);
    for (unsigned i = 0; done && i < p->ballot.count; i++) {
        unsigned limit = p->ballot.limit[i];
        unsigned k = p->remote[i] >= 0 ? (unsigned)p->remote[i] : 0;
        const struct wr_remote_charge *charge = &p->call.charge[k];
        int64_t granted = call->passed ? charge->granted : 0;
        if ((p->asked & p->leased & UINT32_C(1) << i) == 0)
            continue;
        if (p->call.now_ns + charge->lease_ns < now + 4 * sim->setup.deadline_ns)
            granted = 0; /* it may be over when it is here */
        if (after[limit] - p->adjust[k] < before[limit] + granted)
            fail(sim, "of %lld units of %s/%u here and %lld new, %lld are here and %lld go back",
                 (long long)before[limit], sim->limit[limit]->name, call->key, (long long)granted,
                 (long long)after[limit], (long long)-p->adjust[k]);
    }
}

static void check_gone(struct sim *sim, const struct call *call)
{
    const struct wr_pending *p = &call->pending;

    for (unsigned i = 0; i < p->ballot.count; i++)
        if ((p->asked >> i & 1) != 0 && p->ballot.limit[i] != MIX_SHADOW &&
            answer_admits(&call->answer) &&
            sim->limit[p->ballot.limit[i]]->when_gone == WR_GONE_CLOSED)
            fail(sim, "admitted although %s is closed", sim->limit[p->ballot.limit[i]]->name);
}

/* A limit in shadow mode refuses nobody, and the store agrees. */
static void check_shadow(struct sim *sim, const struct call *call, bool done)
{
    const struct weir_answer *a = &call->answer;

    if (a->outcome == WEIR_DENY && a->decisive >= 0 && a->verdicts[a->decisive].limit == MIX_SHADOW)
        fail(sim, "a limit in shadow mode refuses");
    if (done && answer_admits(a) && !call->peeks && !call->passed)
        fail(sim, "admitted, and the store took nothing");
}

static void settle_books(struct sim *sim, struct call *call, bool done)
{
    const struct wr_pending *p = &call->pending;
    bool passes = answer_admits(&call->answer) && !call->peeks;

    for (unsigned i = 0; i < p->ballot.count; i++) {
        if (!passes)
            request_give_back(sim, call, p->ballot.limit[i]);
        else if ((p->ballot.here >> i & 1) != 0)
            request_pass_here(sim, call, i);
    }
    for (unsigned k = 0; k < p->call.count; k++)
        if (!passes || !done)
            unpass(sim, call, k);
}

static void plan_end(struct sim *sim, struct call *call)
{
    int64_t hold_ns = sim->limit[PLACES]->by[0].window_ns;

    if (!answer_admits(&call->answer) || call->peeks || (call->path != PLACES && !call->reserves))
        return;
    if (call->reserves)
        call->answer.expires_ns = node_now(sim, call->node) + S;
    events_add(&sim->events, sim->now_ns + rng_between(&sim->rng, 0, hold_ns * 5 / 4), ENDS,
               call->node, call);
}

void request_finish(struct sim *sim, struct call *call, enum wr_remote_result result)
{
    struct node *node = &sim->node[call->node];
    bool done = result == WR_REMOTE_DONE;
    uint64_t lease[WEIR_LIMITS_MAX];
    int64_t before[LIMITS];
    uint32_t refund;

    for (unsigned k = 0; k < call->wire.count; k++)
        lease[k] = wr_engine_lease_key(&call->pending, k);
    if (done) {
        call_copy(&call->pending.call, &call->wire);
        break_lease(sim, call);
    }
    call->finished = true;
    call->heard = done;
    request_lease_units(sim, call, before);
    if (sim->broken == BROKEN_HELD)
        call->pending.held = 0;
    refund = wr_engine_finish(node->engine, &call->pending, result, sim->setup.nodes,
                              node_now(sim, call->node), &call->answer);
    if (done) {
        break_kept(sim, call, lease);
        for (unsigned k = 0; k < call->wire.count; k++) {
            give_rest_back(sim, call, k);
            learn(sim, call, k);
        }
    } else {
        sim->totals.gone++;
        check_gone(sim, call);
    }
    for (unsigned k = 0; k < call->wire.count; k++) {
        if (lease[k] == 0 || call->wire.charge[k].extra == 0)
            continue;
        flight_land(node, call->loop, lease[k]);
        wr_lease_answered(node->sizes[call->loop], lease[k],
                          done ? call->wire.charge[k].granted : 0, call->wire.charge[k].lease_ns);
        if (done && call->passed && call->wire.charge[k].granted > 0)
            lease_book(sim, call, k, lease[k]);
    }
    check_refund(sim, call, refund, done);
    check_shadow(sim, call, done);
    check_kept(sim, call, before, done);
    if (!answer_admits(&call->answer))
        check_returned(sim, call, before);
    settle_books(sim, call, done);
    request_count(sim, call, &call->answer);
    request_check_local(sim, call);
    for (unsigned k = 0; k < call->wire.count; k++) {
        struct taken taken = call_taken(call, k);
        if ((refund >> k & 1) != 0)
            adjust_send(sim, call->node, &taken, -taken.charge.cost);
    }
    if (done)
        plan_end(sim, call);
}

/* Whoever asked has gone before the answer came: nothing passes, and what the store took stays. */
static void request_cancel(struct sim *sim, struct call *call)
{
    struct node *node = &sim->node[call->node];

    call->finished = true;
    for (unsigned k = 0; k < call->wire.count; k++) {
        flight_land(node, call->loop, wr_engine_lease_key(&call->pending, k));
        unpass(sim, call, k);
    }
    for (unsigned i = 0; i < LIMITS; i++)
        request_give_back(sim, call, i);
    wr_engine_cancel(node->engine, &call->pending, node_now(sim, call->node));
}

/* The store had taken it all the same. */
static void give_back_late(struct sim *sim, struct call *call)
{
    call->heard = true; /* once */
    for (unsigned k = 0; k < call->wire.count; k++) {
        struct taken taken = call_taken(call, k);
        if (taken.charge.allowed)
            adjust_send(sim, call->node, &taken, -(taken.charge.cost + taken.charge.granted));
    }
}

void request_answered(struct sim *sim, struct call *call)
{
    if (call_orphaned(sim, call) || call->paused)
        return;
    if (call->finished) {
        if (!call->heard && call->passed)
            give_back_late(sim, call);
        else if (sim->broken == BROKEN_TWICE && call->heard)
            (void)wr_engine_finish(sim->node[call->node].engine, &call->pending, WR_REMOTE_DONE,
                                   sim->setup.nodes, node_now(sim, call->node), &call->answer);
        return;
    }
    if (!sim->recovering && rng_chance(&sim->rng, sim->setup.paused)) {
        call->paused = true;
        events_add(&sim->events, sim->now_ns + rng_between(&sim->rng, MS, 2 * S), RESUMES,
                   call->node, call);
        return;
    }
    if (!sim->recovering && rng_chance(&sim->rng, 5))
        request_cancel(sim, call);
    else
        request_finish(sim, call, WR_REMOTE_DONE);
}

void request_timed_out(struct sim *sim, struct call *call)
{
    if (!call_orphaned(sim, call) && !call->finished && !call->paused)
        request_finish(sim, call, WR_REMOTE_GONE);
}

/* ---- afterwards -------------------------------------------------------------------------- */

void request_ends(struct sim *sim, struct call *call)
{
    struct node *node = &sim->node[call->node];
    int64_t now = node_now(sim, call->node), cost = rng_between(&sim->rng, 0, 2 * COST_MAX);
    struct taken taken;
    struct wr_pending out;

    if (call_orphaned(sim, call))
        return;
    if (call->path == PLACES)
        wr_engine_release_shared(node->engine, &call->answer, now, &out);
    else if (wr_engine_settle_shared(node->engine, &call->answer, cost, now, &out) != 0)
        return;
    taken = call_taken(call, 0);
    for (unsigned k = 0; k < out.call.count; k++) {
        taken.charge = out.call.charge[k];
        if (out.adjust[k] < 0 && call->epoch == sim->epoch)
            meter_back(&sim->passed[taken.limit][call->key], taken.charge.limit, call->decided_ns,
                       sim->now_ns, -out.adjust[k], call->number);
        adjust_send(sim, call->node, &taken, out.adjust[k]);
    }
}
