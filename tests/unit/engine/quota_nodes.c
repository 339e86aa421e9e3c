/* Quotas of customers over nodes that share a store in memory: ../../quota_nodes.h. */
#include "../../quota_nodes.h"
#include "../../store_in_memory.h"
#include "base/units.h"

static struct memory_store *memory;

static void take(struct wr_remote_call *call, int64_t now_ns)
{
    memory_store_take(memory, call, now_ns);
}

static void refund(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    memory_store_refund(memory, charge, units, now_ns);
}

static void force(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    memory_store_force(memory, charge, units, now_ns);
}

int main(void)
{
    static const struct quota_store store = {take, refund, force};
    int failed;

    memory = memory_store_new(1);
    failed = quota_nodes_run(&store, INT64_C(1767225600) * WR_NS_PER_S);
    memory_store_free(memory);
    return failed;
}
