/* request.c - one request: what it takes from a node, and how it begins there.
 *
 * What must hold is checked where it could break (finish.c and counter.c, too):
 *   - what is spent from a lease was granted to this node and has not ended (ledger.h);
 *   - what passes by the store's word, leases too, is within the limit (sim.passed), and so is all
 *     that the store counts (sim.counted); what a node decides alone is within its part;
 *   - where refused requests count, nothing passes beyond as many attempts as there are units;
 *   - a limit in shadow mode counts what passes and what it would let pass, and refuses nobody;
 *   - a request that is refused leaves its leases as they were, its local limits too, and has the
 *     node give back all that the store took for it. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* ---- calls ------------------------------------------------------------------------------- */

struct call *call_new(struct sim *sim, unsigned node)
{
    struct call *call = sim->spare;

    if (call != NULL)
        sim->spare = call->next_spare;
    else if ((call = calloc(1, sizeof *call)) == NULL)
        abort();
    call->references = 1;
    call->node = node;
    call->life = sim->node[node].life;
    call->number = ++sim->calls;
    call->finished = call->reserves = call->peeks = call->paused = false;
    call->decided = call->passed = false;
    for (unsigned i = 0; i < LIMITS; i++)
        call->spent[i].count = 0;
    return call;
}

void call_drop(struct sim *sim, struct call *call)
{
    if (--call->references > 0)
        return;
    call->next_spare = sim->spare;
    sim->spare = call;
}

bool call_orphaned(const struct sim *sim, const struct call *call)
{
    return !sim->node[call->node].up || sim->node[call->node].life != call->life;
}

/* The limit that charge |k| is of. */
unsigned call_limit(const struct call *call, unsigned k)
{
    for (unsigned i = 0; i < call->pending.ballot.count; i++)
        if (call->pending.remote[i] == (int)k)
            return call->pending.ballot.limit[i];
    abort();
}

bool answer_admits(const struct weir_answer *answer)
{
    return answer->outcome != WEIR_DENY;
}

int64_t message_delay(struct sim *sim)
{
    int64_t most = sim->setup.delay_ns;

    if (!sim->recovering && rng_chance(&sim->rng, sim->setup.slow))
        most = 3 * sim->setup.deadline_ns;
    return rng_between(&sim->rng, 20 * WR_NS_PER_US, most);
}

bool message_lost(struct sim *sim)
{
    return !sim->recovering && rng_chance(&sim->rng, sim->setup.lost);
}

/* ---- what passes ------------------------------------------------------------------------- */

static void spend(struct sim *sim, struct call *call, unsigned limit)
{
    struct ledger *ledger = &sim->node[call->node].ledger[limit][call->key];
    struct spent *spent = &call->spent[limit];
    int64_t cost = call->pending.cost;

    spent->units = 0;
    if (!ledger_spend(ledger, cost, sim->now_ns, spent)) {
        fail(sim, "node %u spends %lld of %s/%u from a lease that has fewer, or has ended",
             call->node, (long long)cost, sim->limit[limit]->name, call->key);
        return;
    }
    for (unsigned i = 0; i < spent->count; i++)
        if (spent->piece[i].epoch == sim->epoch)
            spent->units += spent->piece[i].units;
    spent->epoch = sim->epoch;
    sim->totals.spent += (uint64_t)cost;
    if (!meter_pass(&sim->passed[limit][call->key], limit_of(sim, limit, call->key), sim->now_ns,
                    spent->units, 0, call->number))
        fail(sim, "%s/%u lets more through than it says, from leases", sim->limit[limit]->name,
             call->key);
}

void request_give_back(struct sim *sim, struct call *call, unsigned limit)
{
    struct spent *spent = &call->spent[limit];

    for (unsigned i = 0; i < spent->count; i++)
        ledger_add(&sim->node[call->node].ledger[limit][call->key], spent->piece[i], sim->now_ns);
    if (spent->count > 0 && spent->epoch == sim->epoch)
        meter_back(&sim->passed[limit][call->key], limit_of(sim, limit, call->key), spent->at_ns,
                   sim->now_ns, spent->units, call->number);
    spent->count = 0;
}

/* Limit |i| of the ballot was decided by the node alone. */
void request_pass_here(struct sim *sim, struct call *call, unsigned i)
{
    unsigned limit = call->pending.ballot.limit[i];
    bool part = (call->pending.asked >> i & 1) != 0;
    const struct wr_limit *of =
        part ? &sim->part[limit][plan_of(call->key)] : limit_of(sim, limit, call->key);

    if (limit == LEAKY || limit == PLACES || limit == COUNTED || limit == MIX_SHADOW)
        return;
    if (!meter_pass(&sim->node[call->node].meter[limit][call->key], of, node_now(sim, call->node),
                    call->pending.cost, 0, call->number))
        fail(sim, "node %u lets more of %s/%u through than its part", call->node,
             sim->limit[limit]->name, call->key);
}

/* The local limit counts what was admitted, and nothing else. */
void request_check_local(struct sim *sim, const struct call *call)
{
    struct node *node = &sim->node[call->node];
    const struct wr_limit *limit = &sim->limit[MIX_LOCAL]->by[0];
    const char *key = key_name(call->key);
    int64_t now = node_now(sim, call->node);
    struct weir_verdict verdict;

    if (call->path != MIX)
        return;
    wr_engine_check(node->engine, MIX_LOCAL, (struct weir_slice){key, strlen(key)}, 0, now,
                    &verdict);
    if (limit->units - verdict.remaining_units !=
        meter_count(&node->meter[MIX_LOCAL][call->key], limit, now))
        fail(sim, "node %u counts %lld of a local limit, admitted %lld", call->node,
             (long long)(limit->units - verdict.remaining_units),
             (long long)meter_count(&node->meter[MIX_LOCAL][call->key], limit, now));
}

void request_count(struct sim *sim, const struct call *call, const struct weir_answer *answer)
{
    if (!answer_admits(answer)) {
        sim->totals.refused++;
        return;
    }
    sim->totals.admitted++;
    if (sim->recovering && sim->now_ns >= sim->from_ns && sim->now_ns < sim->until_ns)
        sim->admitted += call->pending.cost;
}

/* ---- begin ------------------------------------------------------------------------------- */

void request_lease_units(struct sim *sim, const struct call *call, int64_t units[LIMITS])
{
    struct node *node = &sim->node[call->node];

    for (unsigned i = 0; i < LIMITS; i++) {
        uint64_t lease = node->ledger[i][call->key].lease;
        units[i] =
            lease == 0 ? 0 : wr_engine_lease_units(node->engine, lease, node_now(sim, call->node));
    }
}

static void decided_here(struct sim *sim, struct call *call, const int64_t before[LIMITS])
{
    const struct wr_pending *p = &call->pending;
    int64_t after[LIMITS];

    request_count(sim, call, &call->answer);
    if (call->peeks || !answer_admits(&call->answer)) {
        request_lease_units(sim, call, after);
        if (memcmp(before, after, sizeof after) != 0 || p->held != 0)
            fail(sim, "a refusal or a look has spent from a lease");
    } else {
        for (unsigned i = 0; i < p->ballot.count; i++) {
            if ((p->held >> i & 1) != 0)
                spend(sim, call, p->ballot.limit[i]);
            else if ((p->ballot.here >> i & 1) != 0)
                request_pass_here(sim, call, i);
            else if (p->ballot.limit[i] != MIX_SHADOW) /* which may be known to refuse */
                fail(sim, "admitted without asking for %s", sim->limit[p->ballot.limit[i]]->name);
        }
    }
    request_check_local(sim, call);
}

static bool take_off(struct node *node, unsigned loop, uint64_t key)
{
    uint64_t *slot = NULL;

    for (unsigned i = 0; i < FLIGHTS; i++) {
        if (node->flights[loop][i] == key)
            return false;
        if (node->flights[loop][i] == 0)
            slot = &node->flights[loop][i];
    }
    if (slot != NULL)
        *slot = key;
    return slot != NULL;
}

void flight_land(struct node *node, unsigned loop, uint64_t key)
{
    for (unsigned i = 0; i < FLIGHTS; i++)
        if (node->flights[loop][i] == key)
            node->flights[loop][i] = 0;
}

/* How much is asked for besides. */
static void size(struct sim *sim, struct call *call, unsigned k)
{
    struct node *node = &sim->node[call->node];
    struct wr_remote_charge *charge = &call->pending.call.charge[k];
    struct wr_lease_want want = {.key = wr_engine_lease_key(&call->pending, k),
                                 .limit = charge->limit,
                                 .cost = charge->cost,
                                 .nodes = sim->setup.nodes,
                                 .now_ns = call->pending.call.now_ns};
    int64_t ttl_ns, said = charge->ttl_ns;

    if (want.key == 0)
        return;
    node->ledger[call_limit(call, k)][call->key].lease = want.key;
    wr_lease_size(node->sizes[call->loop], &want, &charge->extra, &ttl_ns);
    if (ttl_ns != said)
        fail(sim, "two times to live of one limit: %lld and %lld", (long long)said,
             (long long)ttl_ns);
    if (charge->extra > 0 && !take_off(node, call->loop, want.key))
        charge->extra = 0;
}

void call_copy(struct wr_remote_call *to, const struct wr_remote_call *from)
{
    to->count = from->count;
    to->shadow = from->shadow;
    to->now_ns = from->now_ns;
    memcpy(to->charge, from->charge, from->count * sizeof *from->charge);
}

static void ask(struct sim *sim, struct call *call)
{
    const struct wr_pending *p = &call->pending;

    sim->totals.asked++;
    for (unsigned i = 0; i < p->ballot.count; i++)
        if ((p->held >> i & 1) != 0)
            spend(sim, call, p->ballot.limit[i]);
    for (unsigned k = 0; k < p->call.count; k++)
        size(sim, call, k);
    call_copy(&call->wire, &call->pending.call);
    if (!sim->node[call->node].mute && !message_lost(sim))
        events_add(&sim->events, sim->now_ns + message_delay(sim), ASKED, call->node, call);
    events_add(&sim->events, sim->now_ns + sim->setup.deadline_ns, TIMED_OUT, call->node, call);
}

static unsigned draw_key(struct rng *rng)
{
    if (rng_chance(rng, 400))
        return 0;
    return rng_chance(rng, 300) ? 1 : (unsigned)rng_between(rng, 2, KEYS - 1);
}

static void draw_pulse(struct sim *sim, struct call *call)
{
    struct pulse *pulse = &sim->pulse;
    struct rng *rng = &sim->rng;

    if (sim->now_ns >= pulse->turns_ns) {
        pulse->on = !pulse->on;
        if (pulse->on && rng_chance(rng, 300)) {
            static const unsigned paths[] = {FIXED, SLIDING, BUCKET, BUCKET, BUCKET, MIX};
            pulse->path = paths[rng_next(rng) % 6];
            pulse->key = (unsigned)rng_between(rng, 0, 3);
        }
        pulse->turns_ns = sim->now_ns + rng_between(rng, 5, pulse->on ? 150 : 1200) * MS;
    }
    if (pulse->on && rng_chance(rng, 900)) {
        call->path = pulse->path;
        call->key = pulse->key;
    } else if (!pulse->on && call->path == pulse->path && call->key == pulse->key) {
        call->key = KEYS - 1;
    }
}

static void draw(struct sim *sim, struct call *call, struct weir_request *request)
{
    struct rng *rng = &sim->rng;

    call->loop = (unsigned)rng_between(rng, 0, sim->setup.loops - 1);
    call->path = sim->recovering ? sim->path : (unsigned)rng_between(rng, FIXED, MIX);
    call->key = sim->recovering ? 0 : draw_key(rng);
    request->cost_units = 1;
    if (sim->recovering)
        return;
    draw_pulse(sim, call);
    if (call->path != PLACES && rng_chance(rng, 150))
        request->cost_units = rng_between(rng, 1, COST_MAX);
    if (call->path <= BUCKET && rng_chance(rng, 20))
        request->cost_units =
            rng_between(rng, 1, wr_limit_capacity(&sim->limit[call->path]->by[0]));
    call->reserves = call->path != MIX && call->path != LEAKY && call->path != PLACES &&
                     call->path != COUNTED && rng_chance(rng, 100);
    call->peeks = !call->reserves && rng_chance(rng, 20);
    request->peek = call->peeks;
}

static void ask_ideal(struct sim *sim)
{
    static struct wr_remote_call call;

    call.count = 1;
    call.charge[0] = (struct wr_remote_charge){
        .limit = &sim->limit[sim->path]->by[0], .name = sim->limit[sim->path]->name, .cost = 1};
    memory_store_take(sim->ideal, &call, sim->now_ns);
    if (call.charge[0].allowed && sim->now_ns >= sim->from_ns && sim->now_ns < sim->until_ns)
        sim->ideally++;
}

void request_arrives(struct sim *sim)
{
    static const char *const paths[] = {"/fixed", "/sliding", "/bucket",  "/leaky",
                                        "/log",   "/places",  "/counted", "/mix"};
    unsigned at = (unsigned)rng_between(&sim->rng, 0, sim->setup.nodes - 1);
    struct node *node = &sim->node[at];
    struct weir_slice field;
    struct weir_request request = {.method = {"GET", 3},
                                   .peer = {"192.0.2.1", 9},
                                   .fields = &field,
                                   .field_count = 1,
                                   .plan = -1};
    int64_t before[LIMITS];
    struct call *call;
    bool complete;

    sim->totals.decisions++;
    if (sim->recovering)
        ask_ideal(sim);
    if (!node->up)
        return;
    leases_due(sim, at);
    call = call_new(sim, at);
    draw(sim, call, &request);
    request.path = (struct weir_slice){paths[call->path], strlen(paths[call->path])};
    field = (struct weir_slice){key_name(call->key), strlen(key_name(call->key))};
    request_lease_units(sim, call, before);
    complete = (call->reserves ? wr_engine_begin_reserve : wr_engine_begin)(
        node->engine, &request, node_now(sim, at), &call->answer, &call->pending);
    if (complete)
        decided_here(sim, call, before);
    else
        ask(sim, call);
    call_drop(sim, call);
}
