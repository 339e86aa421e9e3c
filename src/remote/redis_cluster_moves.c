/* redis_cluster_moves.c - answers that say where to ask instead.
 *
 *   MOVED     the map is corrected for that slot at once, asked there, and the map is read anew
 *   ASK       asked there this once, behind ASKING
 *   TRYAGAIN  some of the keys are on either side of a migration: again after a moment; twice, and
 *             the charges are asked one by one, which is never refused so, with give-back
 *
 * Invariant: at most WR_REDIS_REDIRECTIONS_MAX of a command. */
#include "base/arith.h"
#include "remote/redis_cluster.h"

#define SINGLY_AFTER 2 /* TRYAGAINs */
#define PAUSE_MAX_MS 16

static bool again(struct wr_redis_ticket *ticket)
{
    enum wr_remote_trouble trouble = wr_redis_dispatch(ticket);

    if (trouble != WR_TROUBLE_NONE)
        wr_redis_finish(ticket, WR_REMOTE_GONE, trouble);
    return true;
}

static bool follow(struct wr_cluster *cluster, struct wr_redis_ticket *ticket, bool for_good,
                   const struct redisReply *reply)
{
    char host[WR_REDIS_HOST_MAX];
    struct wr_redis_address address = {.host = host};
    uint16_t slot;
    uint8_t node;

    if (ticket->redirections++ >= WR_REDIS_REDIRECTIONS_MAX ||
        !wr_redis_redirection(reply->str, reply->len, &slot, host, &address.port))
        return false;
    if (host[0] == '\0')
        address.host = ticket->node->address.host;
    node = wr_cluster_find_or_open(cluster, &address);
    if (node == WR_CLUSTER_NOBODY)
        return false;
    cluster->nodes[node]->used_ns = wr_redis_now_ns();
    if (for_good) {
        cluster->map[slot] = node;
        cluster->nodes[node]->mapped = true;
        wr_cluster_refresh(cluster);
    }
    ticket->node = cluster->nodes[node];
    ticket->asking = !for_good;
    return again(ticket);
}

static bool pause_for(struct wr_cluster *cluster, struct wr_redis_ticket *ticket)
{
    if (ticket->pauses >= SINGLY_AFTER && !ticket->singly &&
        __builtin_popcount(ticket->asked) > 1) {
        ticket->left |= ticket->asked;
        ticket->singly = true;
        if (wr_redis_advance(ticket) != WR_TROUBLE_NONE)
            wr_redis_finish(ticket, WR_REMOTE_GONE, WR_TROUBLE_BUSY);
        return true;
    }
    ticket->paused = true;
    wr_cluster_wake(cluster,
                    wr_min_u64(UINT64_C(1) << wr_min_u64(ticket->pauses, 4), PAUSE_MAX_MS));
    if (ticket->pauses < UINT8_MAX)
        ticket->pauses++;
    return true;
}

bool wr_cluster_redirected(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                           enum wr_redis_error error, const struct redisReply *reply)
{
    struct wr_cluster *cluster = wr_cluster_of(store);

    switch (error) {
    case WR_REDIS_MOVED:
        return follow(cluster, ticket, true, reply);
    case WR_REDIS_ASK:
        return follow(cluster, ticket, false, reply);
    case WR_REDIS_TRYAGAIN:
        return pause_for(cluster, ticket);
    case WR_REDIS_CLUSTERDOWN:
    case WR_REDIS_READONLY:
        wr_cluster_refresh(cluster);
        return false;
    case WR_REDIS_OTHER:
    case WR_REDIS_NOSCRIPT:
    case WR_REDIS_BUSY:
    case WR_REDIS_DENIED:
        return false;
    }
    return false;
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer)
{
    struct wr_cluster *cluster = timer->data;

    wr_redis_send_paused(&cluster->store->queue);
    wr_redis_send_paused(&cluster->store->orders);
    if (cluster->refresh)
        wr_cluster_refresh(cluster);
}

void wr_cluster_wake(struct wr_cluster *cluster, uint64_t ms)
{
    if (!uv_is_active((uv_handle_t *)&cluster->timer))
        (void)uv_timer_start(&cluster->timer, on_timer, ms, 0);
}
