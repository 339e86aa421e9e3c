/* leases.c - what is left of leases, given back as they end: the product's book of them, looked at
 * as often as requests come, and sometimes late.
 *
 * What must hold: a node gives back no more than it was granted and has not spent, whether that is
 * over or not; and what the store then grants anew is within the limit (counter.c, request.c). */
#include "sim.h"

#include <string.h>

struct giver {
    struct sim *sim;
    unsigned node, loop;
};

/* As it was written down. */
static struct taken *find(struct node *node, unsigned loop, const struct wr_remote_charge *charge,
                          unsigned *limit, unsigned *key)
{
    for (*limit = 0; *limit < LIMITS; ++*limit)
        for (*key = 0; *key < KEYS; ++*key) {
            struct taken *taken = &node->booked[loop][*limit][*key];
            if (taken->charge.limit == charge->limit && taken->charge.name == charge->name &&
                memcmp(taken->charge.tag, charge->tag, sizeof charge->tag) == 0)
                return taken;
        }
    return NULL;
}

static void give_once(struct giver *giver, const struct wr_remote_charge *charge, int64_t units)
{
    struct sim *sim = giver->sim;
    struct node *node = &sim->node[giver->node];
    unsigned limit, key;
    struct taken *taken = find(node, giver->loop, charge, &limit, &key);

    if (taken == NULL) {
        fail(sim, "node %u gives back what it was never granted", giver->node);
        return;
    }
    if (!ledger_return(&node->ledger[limit][key], units, sim->now_ns))
        fail(sim, "node %u gives back %lld of %s/%u that it has not", giver->node, (long long)units,
             sim->limit[limit]->name, key);
    sim->totals.returned += (uint64_t)units;
    sim->totals.ended += (uint64_t)units;
    adjust_send(sim, giver->node, taken, -units);
}

/* Wrong on purpose: a book that still has what it has given back. */
static void give(void *context, const struct wr_remote_charge *charge, int64_t units)
{
    struct giver *giver = context;

    give_once(giver, charge, units);
    if (giver->sim->broken == BROKEN_BOOK)
        give_once(giver, charge, units);
}

void lease_book(struct sim *sim, const struct call *call, unsigned k, uint64_t key)
{
    struct node *node = &sim->node[call->node];
    struct giver giver = {sim, call->node, call->loop};
    const struct wr_lease_giving to = {node->engine, node_now(sim, call->node), give, &giver};

    wr_lease_book_add(node->book[call->loop], key, &call->pending.call.charge[k],
                      call->pending.call.now_ns, &to);
    node->booked[call->loop][call_limit(call, k)][call->key] = call_taken(call, k);
}

void leases_due(struct sim *sim, unsigned number)
{
    struct node *node = &sim->node[number];
    int64_t now = node_now(sim, number);

    for (unsigned loop = 0; loop < sim->setup.loops; loop++) {
        struct giver giver = {sim, number, loop};
        const struct wr_lease_giving to = {node->engine, now, give, &giver};
        int64_t due_ns = node->book[loop]->first_ns;
        if (due_ns != 0 && due_ns <= now && !rng_chance(&sim->rng, 200))
            wr_lease_book_due(node->book[loop], &to);
    }
}
