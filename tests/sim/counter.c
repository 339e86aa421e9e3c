/* counter.c - what reaches the store. */
#include "sim.h"

static void break_question(struct sim *sim, struct call *call, int64_t ttl_ns[WEIR_LIMITS_MAX])
{
    for (unsigned k = 0; k < call->wire.count; k++) {
        struct wr_remote_charge *charge = &call->wire.charge[k];
        ttl_ns[k] = charge->ttl_ns;
        if (charge->limit->algo == WR_TOKEN_BUCKET &&
            (sim->broken == BROKEN_WHOLE || (sim->broken == BROKEN_RESERVED && call->reserves)))
            charge->ttl_ns = 0;
    }
}

/* Where the store is to be wrong itself. */
static void break_answer(struct sim *sim, struct call *call, const int64_t ttl_ns[WEIR_LIMITS_MAX])
{
    for (unsigned k = 0; k < call->wire.count; k++) {
        struct wr_remote_charge *charge = &call->wire.charge[k];
        charge->ttl_ns = ttl_ns[k];
        if (sim->broken == BROKEN_WHOLE && charge->granted > 0 &&
            charge->limit->algo == WR_TOKEN_BUCKET)
            charge->lease_ns = ttl_ns[k];
        if (sim->broken == BROKEN_LOST && charge->granted > 0)
            memory_store_refund(sim->store, charge, charge->granted, sim->now_ns);
    }
}

/* What is in the store now, under the limit as the store holds it. */
static void count_taken(struct sim *sim, const struct call *call, unsigned k)
{
    const struct wr_remote_charge *charge = &call->wire.charge[k];
    unsigned limit = call_limit(call, k);
    const struct wr_limit *whole = limit_of(sim, limit, call->key);
    struct wr_limit held = *whole;
    bool late = call->finished;

    if (held.algo == WR_TOKEN_BUCKET && charge->ttl_ns > 0 && sim->broken != BROKEN_WHOLE &&
        sim->broken != BROKEN_RESERVED)
        held.burst -= (int64_t)wr_muldiv_ceil((uint64_t)held.units, (uint64_t)charge->ttl_ns,
                                              (uint64_t)held.window_ns);
    if (!meter_pass(&sim->counted[limit][call->key], &held, sim->now_ns,
                    charge->cost + charge->granted, charge->delay_ns, call->number))
        fail(sim, "the store gives out more of %s/%u than there is", sim->limit[limit]->name,
             call->key);
    if (charge->granted > charge->extra || charge->granted < 0)
        fail(sim, "the store grants more than it was asked for");
    if (!late && !meter_pass(&sim->passed[limit][call->key], whole, sim->now_ns, charge->cost,
                             charge->delay_ns, call->number))
        fail(sim, "%s/%u lets more through than it says", sim->limit[limit]->name, call->key);
    sim->totals.granted += (uint64_t)charge->granted;
}

/* Attempts, whatever became of them. */
static void count_attempt(struct sim *sim, const struct call *call)
{
    const struct wr_remote_charge *charge = &call->wire.charge[0];
    const struct wr_limit *limit = limit_of(sim, COUNTED, call->key);
    struct meter *attempts = &sim->counted[COUNTED][call->key];

    if (!meter_pass(attempts, limit, sim->now_ns, charge->cost, 0, call->number) && charge->allowed)
        fail(sim, "counted/%u lets through what attempts have used up", call->key);
    if (charge->allowed && !call->finished &&
        !meter_pass(&sim->passed[COUNTED][call->key], limit, sim->now_ns, charge->cost, 0,
                    call->number))
        fail(sim, "counted/%u lets more through than it says", call->key);
}

void request_asked(struct sim *sim, struct call *call)
{
    int64_t ttl_ns[WEIR_LIMITS_MAX];

    if (!sim->store_up)
        return;
    break_question(sim, call, ttl_ns);
    for (unsigned k = 0; sim->broken == BROKEN_PLAN && k < call->wire.count; k++)
        call->wire.charge[k].limit = limit_of(sim, call_limit(call, k), call->key + 1);
    if (sim->broken == BROKEN_DENIED && call->path == COUNTED)
        call->wire.charge[0].limit = &sim->forgiving[plan_of(call->key)];
    if (sim->broken == BROKEN_SHADOW)
        call->wire.shadow = 0;
    memory_store_take(sim->store, &call->wire, sim->now_ns);
    break_answer(sim, call, ttl_ns);
    call->decided = call->passed = true;
    call->decided_ns = sim->now_ns;
    call->epoch = sim->epoch;
    for (unsigned k = 0; k < call->wire.count; k++)
        call->passed =
            call->passed && (call->wire.charge[k].allowed || (call->wire.shadow >> k & 1) != 0);
    if (call->path == COUNTED)
        count_attempt(sim, call);
    for (unsigned k = 0; call->passed && call->path != COUNTED && k < call->wire.count; k++)
        if (call->wire.charge[k].allowed)
            count_taken(sim, call, k);
    if (sim->node[call->node].deaf || message_lost(sim))
        return;
    events_add(&sim->events, sim->now_ns + message_delay(sim), ANSWERED, call->node, call);
    if (rng_chance(&sim->rng, 5))
        events_add(&sim->events, sim->now_ns + message_delay(sim), ANSWERED, call->node, call);
}

void adjust_send(struct sim *sim, unsigned node, const struct taken *taken, int64_t units)
{
    struct call *call;

    if (sim->node[node].mute || message_lost(sim))
        return;
    call = call_new(sim, node);
    call->taken = *taken;
    call->units = units;
    events_add(&sim->events, sim->now_ns + message_delay(sim), ADJUSTS, node, call);
    call_drop(sim, call);
}

void adjust_arrives(struct sim *sim, struct call *call)
{
    const struct taken *taken = &call->taken;
    int64_t units = -call->units;

    if (!sim->store_up)
        return;
    if (units < 0) {
        memory_store_force(sim->store, &taken->charge, -units, sim->now_ns);
        return;
    }
    for (int times = sim->broken == BROKEN_DOUBLE ? 2 : 1; times > 0; times--)
        memory_store_refund(sim->store, &taken->charge, units, sim->now_ns);
    meter_back(&sim->counted[taken->limit][taken->key], taken->charge.limit, taken->at_ns,
               sim->now_ns, units, taken->number);
    if (taken->epoch != sim->epoch) /* a store that was emptied gives back what it never took */
        meter_back(&sim->passed[taken->limit][taken->key], taken->charge.limit, taken->at_ns,
                   sim->now_ns, units, taken->number);
}
