/* redis_cluster_map.c - which node has which slot.
 *
 * Idea. A map from slots to nodes, from CLUSTER SLOTS of whoever answers: at the start, when a key
 * is found to have MOVED, when a connection is lost, and every second while something is amiss. The
 * map is a hint: who is asked wrongly says where to go.
 *
 * Slots that nobody has: who asks for one hears so at once, by a map that is hardly older than the
 * gap between two; if none is, by the next one.
 *
 * Invariants.
 *   1. map[s] is an index of nodes[] or WR_CLUSTER_NOBODY. A node of the map is not closed.
 *   2. One CLUSTER SLOTS is under way, and there are REFRESH_GAP_NS between two. Whoever leaves it
 *      without an answer for WR_CLUSTER_ANSWER_NS is lost.
 *   3. Before the first map, a node that cannot say one is lost, so its breaker opens.
 *
 * Rejected: reading from replicas; CLUSTER SHARDS (7.0 and newer only). */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_cluster.h"
#include "remote/redis_slots.h"

#define REFRESH_GAP_NS (100 * WR_NS_PER_MS)
#define FRESH_NS (2 * WR_NS_PER_S)
#define UNUSED_NS (10 * WR_NS_PER_S) /* after which a node without slots is let go */

/* ---- nodes ---------------------------------------------------------------------------------- */

bool wr_cluster_is_up(const struct wr_redis_node *node)
{
    return node != NULL && node->link != NULL && wr_redis_link_is_up(node->link);
}

uint8_t wr_cluster_find_or_open(struct wr_cluster *cluster, const struct wr_redis_address *address)
{
    uint8_t vacant = WR_CLUSTER_NOBODY;

    for (uint8_t i = 0; i < WR_REDIS_NODES_MAX; i++) {
        const struct wr_redis_node *node = cluster->nodes[i];
        if (node == NULL)
            vacant = vacant == WR_CLUSTER_NOBODY ? i : vacant;
        else if (address->host != NULL && node->address.host != NULL &&
                 node->address.port == address->port &&
                 strcmp(node->address.host, address->host) == 0)
            return i;
    }
    if (vacant == WR_CLUSTER_NOBODY)
        return WR_CLUSTER_NOBODY;
    cluster->nodes[vacant] = wr_redis_node_open(cluster->store, address);
    if (cluster->nodes[vacant] == NULL)
        return WR_CLUSTER_NOBODY;
    cluster->nodes[vacant]->used_ns = wr_redis_now_ns();
    return vacant;
}

void wr_cluster_open_seeds(struct wr_cluster *cluster)
{
    const struct wr_redis_store *store = cluster->store;

    for (size_t i = 0; i < store->address_count; i++) {
        const struct wr_redis_address address = wr_redis_address_of(&store->addresses[i]);
        (void)wr_cluster_find_or_open(cluster, &address);
    }
}

void wr_cluster_close_unused(struct wr_cluster *cluster, int64_t now_ns)
{
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        struct wr_redis_node *node = cluster->nodes[i];
        if (node == NULL || node->mapped || now_ns - node->used_ns < UNUSED_NS)
            continue;
        cluster->nodes[i] = NULL;
        if (cluster->asked == node)
            cluster->asked = NULL;
        wr_redis_node_close(node);
        wr_redis_reroute(cluster->store, node);
    }
}

/* ---- the map -------------------------------------------------------------------------------- */

/* |node| does not say where the slots are. Without any map nobody could be asked, so it counts as
 * lost: it is asked anew when its breaker lets it, and where there is no other nobody waits. With
 * one, somebody else is asked. */
static void cannot_say(struct wr_cluster *cluster, struct wr_redis_node *node,
                       enum wr_remote_trouble trouble, const char *why)
{
    char copy[WR_REDIS_WHY_MAX];

    (void)snprintf(copy, sizeof copy, "CLUSTER SLOTS: %s", why);
    cluster->refresh = true;
    if (!cluster->known)
        wr_redis_node_drop(node, trouble, copy);
}

static void take_range(struct wr_cluster *cluster, const struct wr_redis_range *range,
                       const char *asked, uint8_t map[WR_REDIS_SLOTS])
{
    const struct wr_redis_address address = {range->host == NULL ? asked : range->host, range->port,
                                             NULL};
    uint8_t node = wr_cluster_find_or_open(cluster, &address);

    if (node == WR_CLUSTER_NOBODY)
        return;
    cluster->nodes[node]->mapped = true;
    cluster->nodes[node]->used_ns = wr_redis_now_ns();
    memset(map + range->first, node, (size_t)(range->last - range->first) + 1);
}

/* False: there is none in |reply|. */
static bool read_map(struct wr_cluster *cluster, const struct redisReply *reply, const char *asked)
{
    uint8_t map[WR_REDIS_SLOTS];
    struct wr_redis_range range;
    uint64_t index = 0;

    if (!wr_redis_slots_next(reply, &index, &range))
        return false;
    index = 0;
    memset(map, WR_CLUSTER_NOBODY, sizeof map);
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++)
        if (cluster->nodes[i] != NULL)
            cluster->nodes[i]->mapped = false;
    while (wr_redis_slots_next(reply, &index, &range))
        take_range(cluster, &range, asked, map);
    memcpy(cluster->map, map, sizeof map);
    cluster->holes = 0;
    for (unsigned i = 0; i < WR_REDIS_SLOTS; i++)
        cluster->holes += map[i] == WR_CLUSTER_NOBODY;
    cluster->known = true;
    cluster->read_ns = wr_redis_now_ns();
    return true;
}

bool wr_cluster_is_nobodys(const struct wr_cluster *cluster, uint16_t slot, int64_t now_ns)
{
    return cluster->known && cluster->map[slot] == WR_CLUSTER_NOBODY &&
           now_ns - cluster->read_ns < FRESH_NS;
}

static void on_slots(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct wr_cluster *cluster = context;
    struct wr_redis_store *store = cluster->store;
    struct wr_redis_node *asked = cluster->asked;
    (void)link;

    cluster->refreshing = false;
    cluster->asked = NULL;
    if (store->closing || reply == NULL || asked == NULL)
        return;
    if (reply->type == REDIS_REPLY_ERROR) {
        cannot_say(cluster, asked, wr_redis_trouble_of(wr_redis_error_of(reply->str, reply->len)),
                   reply->str);
        return;
    }
    if (!read_map(cluster, reply, asked->address.host)) {
        cannot_say(cluster, asked, WR_TROUBLE_PROTOCOL, "an answer without slots");
        return;
    }
    store->unroutable = false;
    wr_cluster_tell(cluster);
    wr_cluster_check(cluster, wr_redis_now_ns());
    wr_redis_resume(store, NULL);
    wr_redis_abandon(store, NULL, WR_TROUBLE_BUSY); /* whose slots are nobody's */
}

void wr_cluster_refresh(struct wr_cluster *cluster)
{
    static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    int64_t now_ns = wr_redis_now_ns();

    cluster->refresh = true;
    if (cluster->refreshing)
        return;
    if (now_ns - cluster->refreshed_ns < REFRESH_GAP_NS) {
        wr_cluster_wake(cluster, REFRESH_GAP_NS / WR_NS_PER_MS);
        return;
    }
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        struct wr_redis_node *node = cluster->nodes[cluster->turn++ % WR_REDIS_NODES_MAX];
        if (!wr_cluster_is_up(node) ||
            !wr_redis_link_send(node->link, slots, sizeof slots - 1, on_slots, cluster))
            continue;
        cluster->refreshed_ns = now_ns;
        cluster->refreshing = true;
        cluster->refresh = false;
        cluster->asked = node;
        return;
    }
}

/* A link that was replaced since answers by itself. */
void wr_cluster_drop_silent(struct wr_cluster *cluster, int64_t now_ns)
{
    struct wr_redis_node *asked = cluster->refreshing ? cluster->asked : NULL;

    if (wr_cluster_is_up(asked) && asked->up_ns <= cluster->refreshed_ns &&
        now_ns - cluster->refreshed_ns >=
            wr_max_i64(WR_CLUSTER_ANSWER_NS, cluster->store->deadline_ns))
        wr_redis_node_drop(asked, WR_TROUBLE_TIMEOUT, "CLUSTER SLOTS: no answer");
}
