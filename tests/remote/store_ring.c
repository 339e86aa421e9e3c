/* store_ring.c - store.h where the store is a ring of three nodes in this process: what is asked of
 * the script by other tests is asked of one node after the other. */
#include <string.h>

#include "nodes.h"
#include "store.h"

static struct nodes nodes;
static unsigned turn;

void store_open(struct store *store)
{
    memset(store, 0, sizeof *store);
    nodes_open(&nodes, 3, NULL);
}

void store_close(struct store *store)
{
    (void)store;
    nodes_close(&nodes);
}

bool store_take(struct store *store, struct wr_remote_charge *charge, unsigned count,
                uint32_t shadow, int64_t now_ns)
{
    struct wr_remote_call call = {.count = count, .shadow = shadow};
    bool passed = true;
    (void)store;

    nodes.now_ns = now_ns;
    memcpy(call.charge, charge, count * sizeof *charge);
    assert_true(nodes_take(&nodes, turn++ % 3, &call));
    memcpy(charge, call.charge, count * sizeof *charge);
    for (unsigned i = 0; i < count; i++)
        passed = passed && (charge[i].allowed || (shadow >> i & 1) != 0);
    return passed;
}

/* Orders are not answered: a look at the same node, behind it, is. */
static void wait_for(struct wr_remote_charge charge, unsigned node)
{
    struct wr_remote_call call = {.count = 1};

    charge.cost = 0;
    charge.name = "behind";
    call.charge[0] = charge;
    assert_true(nodes_take(&nodes, node, &call));
}

void store_do(struct store *store, enum wr_script_op op, struct wr_remote_charge *charge,
              unsigned count, int64_t now_ns)
{
    unsigned node = turn++ % 3;
    const struct wr_backend *backend = &nodes.node[node].backend;
    (void)store;

    nodes.now_ns = now_ns;
    for (unsigned i = 0; i < count; i++) {
        if (op == WR_SCRIPT_REFUND)
            backend->ops->refund(backend->context, &charge[i], charge[i].cost, now_ns);
        else if (op == WR_SCRIPT_FORCE)
            backend->ops->force(backend->context, &charge[i], charge[i].cost, now_ns);
        else
            backend->ops->drop(backend->context, &charge[i]);
        wait_for(charge[i], node);
    }
}

struct wr_remote_charge store_charge(const struct wr_limit *limit, const char *name, uint64_t who,
                                     int64_t cost)
{
    struct wr_remote_charge charge = {.limit = limit, .name = name, .cost = cost};

    memcpy(charge.tag, &who, sizeof who);
    return charge;
}
