/* redis_state.c - how the store stands, for /readyz, metrics and the log.
 *
 * One server is the store: what it last said, or that it is gone, is how the store stands. Where
 * there are several the router has its own rules (redis_cluster_health.c, wr_ring_tell). */
#include <stdio.h>

#include "remote/redis_store.h"

void wr_redis_say(struct wr_redis_store *store, const struct wr_redis_node *node,
                  const char *detail)
{
    struct wr_backend_state *state = &store->state;

    if (state->reachable && detail != NULL)
        state->losses++;
    state->reachable = detail == NULL;
    if (detail == NULL)
        state->detail[0] = '\0';
    else if (node == NULL)
        (void)snprintf(state->detail, sizeof state->detail, "%s", detail);
    else if (node->address.host == NULL)
        (void)snprintf(state->detail, sizeof state->detail, "unix:%s: %s", node->address.path,
                       detail);
    else
        (void)snprintf(state->detail, sizeof state->detail, "%s:%u: %s", node->address.host,
                       (unsigned)node->address.port, detail);
}

void wr_redis_note(struct wr_redis_store *store, struct wr_redis_node *node, const char *detail)
{
    if (store->router->note != NULL)
        store->router->note(store, node, detail);
    else
        wr_redis_say(store, node, detail);
}

void wr_redis_refused(struct wr_redis_store *store, struct wr_redis_node *node, const char *error)
{
    store->said_ns = wr_redis_now_ns();
    wr_redis_note(store, node, error);
}

void wr_redis_well(struct wr_redis_store *store, struct wr_redis_node *node, bool decided)
{
    if (store->router->well != NULL)
        store->router->well(store, node, decided);
    else
        wr_redis_say(store, NULL, NULL);
}
