/* quotas.c - quotas of customers over nodes that share a real Redis, or a ring: ../quota_nodes.h.
 */
#include "../quota_nodes.h"

#include <string.h>

#include "store.h"

static struct store real;

static void take(struct wr_remote_call *call, int64_t now_ns)
{
    (void)store_take(&real, call->charge, call->count, call->shadow, now_ns);
}

static void order(enum wr_script_op op, const struct wr_remote_charge *charge, int64_t units,
                  int64_t now_ns)
{
    struct wr_remote_charge copy = *charge;

    copy.cost = units;
    store_do(&real, op, &copy, 1, now_ns);
}

static void refund(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    order(WR_SCRIPT_REFUND, charge, units, now_ns);
}

static void force(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    order(WR_SCRIPT_FORCE, charge, units, now_ns);
}

int main(void)
{
    static const struct quota_store store = {take, refund, force};
    int failed;

    store_open(&real);
    failed = quota_nodes_run(&store, INT64_C(1767225600) * WR_NS_PER_S);
    store_close(&real);
    return failed;
}
