/* redis_single.c - one server, which has everything. */
#include "remote/redis_store.h"

static bool start(struct wr_redis_store *store)
{
    const struct wr_redis_address address = wr_redis_address_of(&store->addresses[0]);

    store->routing = wr_redis_node_open(store, &address);
    return store->routing != NULL;
}

static struct wr_redis_node *route(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    (void)ticket;
    return store->routing;
}

static void beat(struct wr_redis_store *store, int64_t now_ns)
{
    wr_redis_retired_beat(store->routing, now_ns);
}

static void stop(struct wr_redis_store *store)
{
    struct wr_redis_node *node = store->routing;

    if (node != NULL)
        wr_redis_node_close(node);
}

const struct wr_redis_router wr_redis_single = {
    .name = "redis",
    .start = start,
    .route = route,
    .beat = beat,
    .stop = stop,
};
