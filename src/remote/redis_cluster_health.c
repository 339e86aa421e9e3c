/* redis_cluster_health.c - is the whole cluster there?
 *
 * Problem. After a failover the nodes do not agree for a second or so: the replica decides already,
 * a primary that was never touched still answers CLUSTERDOWN. Whoever believes each single answer
 * says that the store is lost, back, lost and back again.
 *
 * Idea. Each node has its own trouble, and what ends it depends on what it was:
 *
 *   lost          connected and greeted
 *   CLUSTERDOWN   a decision, or CLUSTER INFO that says cluster_state:ok, DOWN_NS after it was said
 *                 last: as long as somebody asks there, decisions tell
 *   other errors  a decision; or nobody has heard one for SAID_NS: it may be that nobody asks there
 *
 * and the cluster, once in trouble, is well again when every node that has slots has shown so since
 * then, by a decision or by CLUSTER INFO, and no slot is nobody's.
 *
 * Invariants.
 *   1. state.reachable: no node of the map is in trouble, and every slot is somebody's.
 *   2. It becomes true only when all nodes of the map are |checked|; it becomes false at once.
 *   3. A node is asked by one CLUSTER INFO at a time. Whoever leaves it without an answer is lost.
 *
 * A user who may not call CLUSTER INFO is told an error, which is an answer: such a node counts as
 * checked, and its CLUSTERDOWN ends by decisions or by SAID_NS.
 *
 * Rejected: asking by a key (a key of each node's slots would have to be found, and
 * cluster-allow-reads-when-down answers reads). */
#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_cluster.h"

#define DOWN_NS WR_NS_PER_S
#define SAID_NS (10 * WR_NS_PER_S)

/* ---- the whole ------------------------------------------------------------------------------- */

static void tell_holes(const struct wr_cluster *cluster)
{
    char text[WR_REDIS_WHY_MAX];

    (void)snprintf(text, sizeof text, "CLUSTER SLOTS: nobody has %u of the slots", cluster->holes);
    wr_redis_say(cluster->store, NULL, text);
}

/* The first node that counts and is in trouble; |*checked|: all that count are known to be well. */
static const struct wr_redis_node *find_trouble(const struct wr_cluster *cluster, bool *checked)
{
    const struct wr_redis_node *troubled = NULL;

    *checked = true;
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        const struct wr_redis_node *node = cluster->nodes[i];
        if (node == NULL || (cluster->known && !node->mapped))
            continue;
        *checked = *checked && node->checked && wr_cluster_is_up(node);
        if (troubled == NULL && node->ill != WR_REDIS_WELL)
            troubled = node;
    }
    return troubled;
}

static void begin_anew(struct wr_cluster *cluster)
{
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++)
        if (cluster->nodes[i] != NULL)
            cluster->nodes[i]->checked = false;
}

void wr_cluster_tell(struct wr_cluster *cluster)
{
    struct wr_redis_store *store = cluster->store;
    bool was_well = store->state.reachable, checked;
    const struct wr_redis_node *troubled = find_trouble(cluster, &checked);

    if (troubled != NULL)
        wr_redis_say(store, troubled, troubled->trouble);
    else if (cluster->known && cluster->holes > 0)
        tell_holes(cluster);
    else if (cluster->known && checked)
        wr_redis_say(store, NULL, NULL);
    if (was_well && !store->state.reachable)
        begin_anew(cluster);
}

/* ---- one node -------------------------------------------------------------------------------- */

void wr_cluster_note(struct wr_redis_store *store, struct wr_redis_node *node, const char *detail)
{
    if (!wr_cluster_is_up(node)) {
        node->ill = WR_REDIS_LOST;
        node->info_ns = 0; /* asked on a connection that is gone */
    } else if (wr_redis_error_of(detail, strlen(detail)) == WR_REDIS_CLUSTERDOWN)
        node->ill = WR_REDIS_DOWN;
    else
        node->ill = WR_REDIS_SAID;
    node->ill_ns = wr_redis_now_ns();
    node->checked = false;
    (void)snprintf(node->trouble, sizeof node->trouble, "%s", detail);
    wr_cluster_tell(wr_cluster_of(store));
}

void wr_cluster_well(struct wr_redis_store *store, struct wr_redis_node *node, bool decided)
{
    if (decided)
        node->checked = true;
    if (decided || node->ill == WR_REDIS_LOST)
        node->ill = WR_REDIS_WELL;
    wr_cluster_tell(wr_cluster_of(store));
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool says(const struct redisReply *reply, const char *what)
{
    return reply->type == REDIS_REPLY_STRING && strstr(reply->str, what) != NULL;
}

static void on_state(struct wr_redis_node *node, const struct redisReply *reply)
{
    int64_t since_ns = wr_redis_now_ns() - node->ill_ns;

    if (says(reply, "cluster_state:fail")) {
        wr_cluster_note(node->store, node, "CLUSTERDOWN cluster_state:fail");
        return;
    }
    if (since_ns >= SAID_NS ||
        (node->ill == WR_REDIS_DOWN && since_ns >= DOWN_NS && says(reply, "cluster_state:ok")))
        node->ill = WR_REDIS_WELL;
    node->checked = node->ill == WR_REDIS_WELL;
    wr_cluster_tell(wr_cluster_of(node->store));
}

static void on_info(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct wr_redis_node *node = context;

    if (reply == NULL || node->link != link || node->store->closing)
        return;
    node->info_ns = 0;
    on_state(node, reply);
}

void wr_cluster_check(struct wr_cluster *cluster, int64_t now_ns)
{
    static const char info[] = "*2\r\n$7\r\nCLUSTER\r\n$4\r\nINFO\r\n";

    for (unsigned i = 0; i < WR_REDIS_NODES_MAX && !cluster->store->state.reachable; i++) {
        struct wr_redis_node *node = cluster->nodes[i];
        if (node == NULL || !node->mapped || node->checked || !wr_cluster_is_up(node))
            continue;
        if (node->info_ns == 0) {
            if (wr_redis_link_send(node->link, info, sizeof info - 1, on_info, node))
                node->info_ns = now_ns;
        } else if (now_ns - node->info_ns >=
                   wr_max_i64(WR_CLUSTER_ANSWER_NS, cluster->store->deadline_ns)) {
            wr_redis_node_drop(node, WR_TROUBLE_TIMEOUT, "CLUSTER INFO: no answer");
        }
    }
}
