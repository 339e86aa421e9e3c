/* faults.c - what goes wrong, and what is restored. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

static void fill(struct node *node, unsigned loops)
{
    for (unsigned i = 0; i < loops; i++) {
        free(node->sizes[i]);
        free(node->flights[i]);
        free(node->book[i]);
        node->sizes[i] = calloc(1, sizeof *node->sizes[i]);
        node->flights[i] = calloc(FLIGHTS, sizeof *node->flights[i]);
        node->book[i] = calloc(1, sizeof *node->book[i]);
        if (node->sizes[i] == NULL || node->flights[i] == NULL || node->book[i] == NULL)
            abort();
    }
}

void node_start(struct sim *sim, unsigned number, bool new_arena)
{
    const struct wr_arena_options options = {
        .size_bytes = WR_ARENA_BYTES_MIN, .node_share = 20, .judge = wr_engine_judge};
    struct node *node = &sim->node[number];

    if (node->up)
        return;
    if (new_arena || node->arena == NULL) {
        wr_arena_close(node->arena);
        if (wr_arena_open(&node->arena, &options, NULL) != 0)
            abort();
        memset(node->ledger, 0, sizeof node->ledger);
        for (unsigned i = 0; i < LIMITS; i++)
            for (unsigned k = 0; k < KEYS; k++)
                meter_reset(&node->meter[i][k]);
    }
    if (wr_engine_new(&node->engine, sim->policy, node->arena) != 0)
        abort();
    fill(node, sim->setup.loops);
    memset(node->last, 0, sizeof node->last);
    node->up = true;
    node->life++;
}

/* What it was about to decide is lost, and so is what it had spent on that; the arena stays. */
void node_stop(struct sim *sim, unsigned number)
{
    struct node *node = &sim->node[number];

    if (!node->up)
        return;
    wr_engine_free(node->engine);
    node->engine = NULL;
    node->up = false;
}

static void give_leases_back(struct sim *sim, unsigned number)
{
    struct node *node = &sim->node[number];
    int64_t now = node_now(sim, number);

    for (unsigned i = 0; node->up && i < LIMITS; i++)
        for (unsigned k = 0; k < KEYS; k++) {
            struct ledger *ledger = &node->ledger[i][k];
            struct spent spent;
            int64_t units;
            if (ledger->lease == 0 || node->last[i][k].charge.limit == NULL)
                continue;
            units = sim->broken == BROKEN_KEPT
                        ? wr_engine_lease_units(node->engine, ledger->lease, now)
                        : wr_engine_lease_return(node->engine, ledger->lease, now);
            if (units == 0)
                continue;
            if (!ledger_spend(ledger, units, sim->now_ns, &spent))
                fail(sim, "node %u gives back %lld of %s/%u that it has not", number,
                     (long long)units, sim->limit[i]->name, k);
            sim->totals.returned += (uint64_t)units;
            adjust_send(sim, number, &node->last[i][k], -units);
        }
}

/* Leases that an arena short of room throws out. */
static void evict(struct sim *sim, unsigned number)
{
    struct node *node = &sim->node[number];

    for (unsigned i = 0; node->up && i < LIMITS; i++)
        for (unsigned k = 0; k < 2; k++)
            if (node->ledger[i][k].lease != 0) {
                (void)wr_slot_drop(node->arena, node->ledger[i][k].lease);
                node->ledger[i][k].count = 0;
                node->ledger[i][k].merged = true;
                node->ledger[i][k].turns++;
            }
}

/* Empty, or as it was. */
void store_start(struct sim *sim)
{
    if (sim->store_up)
        return;
    sim->store_up = true;
    if (rng_chance(&sim->rng, 500))
        return;
    memory_store_clear(sim->store);
    sim->epoch++;
    for (unsigned i = 0; i < LIMITS; i++)
        for (unsigned k = 0; k < KEYS; k++) {
            meter_reset(&sim->passed[i][k]);
            meter_reset(&sim->counted[i][k]);
        }
}

void fault_happens(struct sim *sim)
{
    struct rng *rng = &sim->rng;
    unsigned number = (unsigned)rng_between(rng, 0, sim->setup.nodes - 1);
    struct node *node = &sim->node[number];
    int64_t until_ns = sim->now_ns + rng_between(rng, MS, 2 * S);

    sim->totals.faults++;
    switch (rng_next(rng) % 8) {
    case 0:
    case 1:
        node_stop(sim, number);
        events_add(&sim->events, until_ns, STARTS, number, NULL);
        break;
    case 2:
        sim->store_up = false;
        events_add(&sim->events, until_ns, STORE_STARTS, 0, NULL);
        break;
    case 3:
        node->deaf = true;
        events_add(&sim->events, until_ns, HEALS, number, NULL);
        break;
    case 4:
        node->mute = true;
        node->deaf = rng_chance(rng, 500);
        events_add(&sim->events, until_ns, HEALS, number, NULL);
        break;
    case 5:
        evict(sim, number);
        break;
    default:
        give_leases_back(sim, number);
        break;
    }
}

void faults_end(struct sim *sim)
{
    sim->recovering = true;
    store_start(sim);
    for (unsigned i = 0; i < sim->setup.nodes; i++) {
        sim->node[i].deaf = sim->node[i].mute = false;
        node_start(sim, i, false);
    }
}
