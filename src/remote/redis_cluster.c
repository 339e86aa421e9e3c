/* redis_cluster.c - a charge goes to the primary that has its key's slot.
 *
 * Charges of one tag are in one slot, so a call whose limits count by the same parts is one
 * command; the others are asked one after the other (redis_flow.c). */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "remote/redis_cluster.h"

/* ---- charges -------------------------------------------------------------------------------- */

/* Those of |left| under the tag of the |i|-th. */
static uint32_t of_tag(const struct wr_redis_ticket *ticket, unsigned i, uint32_t left)
{
    const unsigned char *tag = wr_redis_ticket_charge(ticket, i)->tag;
    uint32_t out = 0;

    for (unsigned j = i; j < WEIR_LIMITS_MAX && left >> j != 0; j++)
        if ((left >> j & 1) != 0 &&
            memcmp(wr_redis_ticket_charge(ticket, j)->tag, tag, WR_TAG_BYTES) == 0)
            out |= UINT32_C(1) << j;
    return out;
}

static uint32_t group(struct wr_redis_store *store, const struct wr_redis_ticket *ticket,
                      uint32_t left)
{
    uint32_t best = 0, rest = left;
    int best_weight = INT_MIN;
    (void)store;

    while (rest != 0) {
        uint32_t these = ticket->singly ? rest & (~rest + 1)
                                        : of_tag(ticket, (unsigned)__builtin_ctz(rest), rest);
        int weight = wr_redis_ticket_weight(ticket, these);
        if (weight > best_weight) {
            best = these;
            best_weight = weight;
        }
        rest &= ~these;
    }
    return best;
}

static struct wr_redis_node *route(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    struct wr_cluster *cluster = wr_cluster_of(store);
    uint16_t slot =
        ticket->op == WR_REDIS_MEMBERS
            ? wr_redis_members_slot(store)
            : wr_redis_charge_slot(
                  store, wr_redis_ticket_charge(ticket, (unsigned)__builtin_ctz(ticket->asked)));
    uint8_t node = cluster->map[slot];

    if (node != WR_CLUSTER_NOBODY && cluster->nodes[node] != NULL)
        return cluster->nodes[node];
    ticket->nowhere = wr_cluster_is_nobodys(cluster, slot, wr_redis_now_ns());
    wr_cluster_refresh(cluster);
    return NULL;
}

/* ---- as a router ---------------------------------------------------------------------------- */

/* Is there anybody who could be asked, now or soon? */
static bool has_hope(const struct wr_cluster *cluster)
{
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++)
        if (cluster->nodes[i] != NULL && wr_breaker_closed(&cluster->nodes[i]->breaker))
            return true;
    return false;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct wr_cluster *cluster = handle->data;

    wr_redis_store_release(cluster->store);
}

static bool start(struct wr_redis_store *store)
{
    struct wr_cluster *cluster = calloc(1, sizeof *cluster);

    if (cluster == NULL)
        return false;
    cluster->store = store;
    memset(cluster->map, WR_CLUSTER_NOBODY, sizeof cluster->map);
    store->routing = cluster;
    (void)uv_timer_init(store->loop, &cluster->timer);
    cluster->timer.data = cluster;
    store->handles++;
    wr_cluster_open_seeds(cluster);
    return has_hope(cluster);
}

static void up(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct wr_cluster *cluster = wr_cluster_of(store);
    (void)node;

    if (!cluster->known || cluster->refresh)
        wr_cluster_refresh(cluster);
    wr_cluster_check(cluster, wr_redis_now_ns());
}

static void lost(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct wr_cluster *cluster = wr_cluster_of(store);
    (void)node;

    wr_cluster_refresh(cluster);
    if (!has_hope(cluster)) {
        store->unroutable = true;
        wr_redis_abandon(store, NULL, WR_TROUBLE_CONNECT);
    }
}

static void beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct wr_cluster *cluster = wr_cluster_of(store);
    bool well = cluster->known && store->state.reachable;

    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        if (cluster->nodes[i] == NULL)
            continue;
        wr_redis_retired_beat(cluster->nodes[i], now_ns);
        well = well && (wr_cluster_is_up(cluster->nodes[i]) || !cluster->nodes[i]->mapped);
    }
    wr_cluster_drop_silent(cluster, now_ns);
    wr_cluster_check(cluster, now_ns);
    if (!well || cluster->refresh)
        wr_cluster_refresh(cluster);
    if (cluster->known)
        wr_cluster_close_unused(cluster, now_ns);
    if (!has_hope(cluster))
        wr_cluster_open_seeds(cluster);
}

static void stop(struct wr_redis_store *store)
{
    struct wr_cluster *cluster = wr_cluster_of(store);

    if (cluster == NULL)
        return;
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        struct wr_redis_node *node = cluster->nodes[i];
        cluster->nodes[i] = NULL;
        if (node != NULL)
            wr_redis_node_close(node);
    }
    uv_close((uv_handle_t *)&cluster->timer, on_timer_closed);
}

static void dispose(struct wr_redis_store *store)
{
    free(store->routing);
}

const struct wr_redis_router wr_redis_cluster = {
    .name = "cluster",
    .start = start,
    .group = group,
    .route = route,
    .redirected = wr_cluster_redirected,
    .note = wr_cluster_note,
    .well = wr_cluster_well,
    .up = up,
    .lost = lost,
    .beat = beat,
    .stop = stop,
    .dispose = dispose,
};
