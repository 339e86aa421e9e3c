/* redis_cluster.c - a charge goes to the primary that has its key's slot.
 *
 * Idea. A map from slots to nodes, from CLUSTER SLOTS of whoever answers: at the start, when a key
 * is found to have MOVED, when a connection is lost, and every second while something is amiss. The
 * map is a hint: who is asked wrongly says where to go.
 *
 *   MOVED     the map is corrected for that slot at once, asked there, and the map is read anew
 *   ASK       asked there this once, behind ASKING
 *   TRYAGAIN  some of the keys are on either side of a migration: again after a moment; twice, and
 *             the charges are asked one by one, which is never refused so, with give-back
 *
 * Charges of one tag are in one slot, so a call whose limits count by the same parts is one
 * command.
 *
 * Invariants.
 *   1. map[s] is an index of nodes[] or NOBODY. A node of the map is not closed.
 *   2. At most WR_REDIS_REDIRECTIONS_MAX of a command.
 *   3. One CLUSTER SLOTS is under way, and there are REFRESH_GAP_NS between two. Whoever leaves it
 *      without an answer for ANSWER_NS is lost.
 *   4. Before the first map, a node that cannot say one is lost, so its breaker opens.
 *
 * Rejected: reading from replicas; CLUSTER SHARDS (7.0 and newer only). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_slot.h"
#include "remote/redis_slots.h"
#include "remote/redis_store.h"

#define NOBODY UINT8_MAX
#define REFRESH_GAP_NS (100 * WR_NS_PER_MS)
#define ANSWER_NS WR_NS_PER_S
#define UNUSED_NS (10 * WR_NS_PER_S) /* after which a node without slots is let go */
#define SINGLY_AFTER 2               /* TRYAGAINs */
#define PAUSE_MAX_MS 16

_Static_assert(WR_REDIS_NODES_MAX < NOBODY, "an index of nodes[] fits a byte of the map");

struct cluster {
    struct wr_redis_store *store;
    struct wr_redis_node *nodes[WR_REDIS_NODES_MAX];
    uint8_t map[WR_REDIS_SLOTS];
    bool known;      /* a map was read */
    bool refreshing; /* a question is under way, to: */
    struct wr_redis_node *asked;
    bool refresh; /* wanted, when the gap is over */
    int64_t refreshed_ns;
    unsigned turn;    /* whom to ask next */
    uv_timer_t timer; /* the gap, and pauses */
};

/* ---- nodes ---------------------------------------------------------------------------------- */

static bool is_up(const struct wr_redis_node *node)
{
    return node != NULL && node->link != NULL && wr_redis_link_is_up(node->link);
}

/* The node at |host|, opened if there is none; NOBODY: there are too many, or no memory. */
static uint8_t find_or_open(struct cluster *cluster, const struct wr_redis_address *address)
{
    uint8_t vacant = NOBODY;

    for (uint8_t i = 0; i < WR_REDIS_NODES_MAX; i++) {
        const struct wr_redis_node *node = cluster->nodes[i];
        if (node == NULL)
            vacant = vacant == NOBODY ? i : vacant;
        else if (address->host != NULL && node->address.host != NULL &&
                 node->address.port == address->port &&
                 strcmp(node->address.host, address->host) == 0)
            return i;
    }
    if (vacant == NOBODY)
        return NOBODY;
    cluster->nodes[vacant] = wr_redis_node_open(cluster->store, address);
    if (cluster->nodes[vacant] == NULL)
        return NOBODY;
    cluster->nodes[vacant]->used_ns = wr_redis_now_ns();
    return vacant;
}

static void open_seeds(struct cluster *cluster)
{
    const struct wr_redis_store *store = cluster->store;

    for (size_t i = 0; i < store->address_count; i++) {
        const struct wr_policy_address *address = &store->addresses[i];
        (void)find_or_open(cluster,
                           &(struct wr_redis_address){address->host, address->port, address->path});
    }
}

/* Nodes that have no slots, and that nothing was sent to for a while. */
static void close_unused(struct cluster *cluster, int64_t now_ns)
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

/* Is there anybody who could be asked, now or soon? */
static bool has_hope(const struct cluster *cluster)
{
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++)
        if (cluster->nodes[i] != NULL && wr_breaker_closed(&cluster->nodes[i]->breaker))
            return true;
    return false;
}

/* ---- the map -------------------------------------------------------------------------------- */

static void refresh(struct cluster *cluster);

/* |node| does not say where the slots are. Without any map nobody could be asked, so it counts as
 * lost: it is asked anew when its breaker lets it, and where there is no other nobody waits. */
static void cannot_say(struct cluster *cluster, struct wr_redis_node *node,
                       enum wr_remote_trouble trouble, const char *why)
{
    char copy[WR_REDIS_WHY_MAX];

    (void)snprintf(copy, sizeof copy, "CLUSTER SLOTS: %s", why);
    cluster->refresh = true;
    if (cluster->known)
        wr_redis_note(cluster->store, node, copy);
    else
        wr_redis_node_drop(node, trouble, copy);
}

/* False: there is none in |reply|. */
static bool read_map(struct cluster *cluster, const struct redisReply *reply, const char *asked)
{
    uint8_t map[WR_REDIS_SLOTS];
    struct wr_redis_range range;
    uint64_t index = 0;

    if (!wr_redis_slots_next(reply, &index, &range))
        return false;
    index = 0;
    memset(map, NOBODY, sizeof map);
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++)
        if (cluster->nodes[i] != NULL)
            cluster->nodes[i]->mapped = false;
    while (wr_redis_slots_next(reply, &index, &range)) {
        const struct wr_redis_address address = {range.host == NULL ? asked : range.host,
                                                 range.port, NULL};
        uint8_t node = find_or_open(cluster, &address);
        if (node == NOBODY)
            continue;
        cluster->nodes[node]->mapped = true;
        cluster->nodes[node]->used_ns = wr_redis_now_ns();
        memset(map + range.first, node, (size_t)(range.last - range.first) + 1);
    }
    memcpy(cluster->map, map, sizeof map);
    cluster->known = true;
    return true;
}

static void on_slots(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct cluster *cluster = context;
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
    wr_redis_note(store, asked, NULL);
    wr_redis_resume(store, NULL);
}

static void on_timer(uv_timer_t *timer);

static void refresh(struct cluster *cluster)
{
    static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
    int64_t now_ns = wr_redis_now_ns();

    cluster->refresh = true;
    if (cluster->refreshing)
        return;
    if (now_ns - cluster->refreshed_ns < REFRESH_GAP_NS) {
        if (!uv_is_active((uv_handle_t *)&cluster->timer))
            (void)uv_timer_start(&cluster->timer, on_timer, REFRESH_GAP_NS / WR_NS_PER_MS, 0);
        return;
    }
    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        struct wr_redis_node *node = cluster->nodes[cluster->turn++ % WR_REDIS_NODES_MAX];
        if (!is_up(node) ||
            !wr_redis_link_send(node->link, slots, sizeof slots - 1, on_slots, cluster))
            continue;
        cluster->refreshed_ns = now_ns;
        cluster->refreshing = true;
        cluster->refresh = false;
        cluster->asked = node;
        return;
    }
}

/* ---- charges -------------------------------------------------------------------------------- */

static uint32_t shadow_of(const struct wr_redis_ticket *ticket)
{
    return ticket->call != NULL ? ticket->call->shadow : ticket->shadow;
}

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

/* The largest group first: what refuses most likely, and what would cost most to ask in vain.
 * Groups that cannot refuse come last. */
static uint32_t group(struct wr_redis_store *store, const struct wr_redis_ticket *ticket,
                      uint32_t left)
{
    uint32_t best = 0, rest = left, shadow = shadow_of(ticket);
    int best_weight = -1;
    (void)store;

    if (ticket->singly)
        return left & (~left + 1);
    while (rest != 0) {
        uint32_t these = of_tag(ticket, (unsigned)__builtin_ctz(rest), rest);
        int weight = __builtin_popcount(these & ~shadow) * WEIR_LIMITS_MAX +
                     __builtin_popcount(these & shadow);
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
    struct cluster *cluster = store->routing;
    uint16_t slot =
        ticket->op == WR_REDIS_MEMBERS
            ? wr_redis_members_slot(store)
            : wr_redis_charge_slot(
                  store, wr_redis_ticket_charge(ticket, (unsigned)__builtin_ctz(ticket->asked)));
    uint8_t node = cluster->map[slot];

    if (node != NOBODY && cluster->nodes[node] != NULL)
        return cluster->nodes[node];
    refresh(cluster);
    return NULL;
}

/* ---- redirections --------------------------------------------------------------------------- */

static bool again(struct wr_redis_ticket *ticket)
{
    enum wr_remote_trouble trouble = wr_redis_dispatch(ticket);

    if (trouble != WR_TROUBLE_NONE)
        wr_redis_finish(ticket, WR_REMOTE_GONE, trouble);
    return true;
}

static bool follow(struct cluster *cluster, struct wr_redis_ticket *ticket, bool for_good,
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
    node = find_or_open(cluster, &address);
    if (node == NOBODY)
        return false;
    cluster->nodes[node]->used_ns = wr_redis_now_ns();
    if (for_good) {
        cluster->map[slot] = node;
        cluster->nodes[node]->mapped = true;
        refresh(cluster);
    }
    ticket->node = cluster->nodes[node];
    ticket->asking = !for_good;
    return again(ticket);
}

static bool pause_for(struct cluster *cluster, struct wr_redis_ticket *ticket)
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
    if (!uv_is_active((uv_handle_t *)&cluster->timer))
        (void)uv_timer_start(&cluster->timer, on_timer,
                             wr_min_u64(UINT64_C(1) << wr_min_u64(ticket->pauses, 4), PAUSE_MAX_MS),
                             0);
    if (ticket->pauses < UINT8_MAX)
        ticket->pauses++;
    return true;
}

static bool redirected(struct wr_redis_store *store, struct wr_redis_ticket *ticket,
                       enum wr_redis_error error, const struct redisReply *reply)
{
    struct cluster *cluster = store->routing;

    switch (error) {
    case WR_REDIS_MOVED:
        return follow(cluster, ticket, true, reply);
    case WR_REDIS_ASK:
        return follow(cluster, ticket, false, reply);
    case WR_REDIS_TRYAGAIN:
        return pause_for(cluster, ticket);
    case WR_REDIS_CLUSTERDOWN:
    case WR_REDIS_READONLY:
        refresh(cluster);
        return false;
    case WR_REDIS_OTHER:
    case WR_REDIS_NOSCRIPT:
    case WR_REDIS_BUSY:
    case WR_REDIS_DENIED:
        return false;
    }
    return false;
}

static void send_paused(struct wr_redis_queue *queue)
{
    struct wr_redis_ticket *next;

    for (struct wr_redis_ticket *ticket = queue->first; ticket != NULL; ticket = next) {
        next = ticket->next;
        if (ticket->paused && !ticket->sent)
            (void)wr_redis_dispatch(ticket); /* if that fails, its deadline ends it */
    }
}

static void on_timer(uv_timer_t *timer)
{
    struct cluster *cluster = timer->data;

    send_paused(&cluster->store->queue);
    send_paused(&cluster->store->orders);
    if (cluster->refresh)
        refresh(cluster);
}

/* ---- as a router ---------------------------------------------------------------------------- */

static void on_timer_closed(uv_handle_t *handle)
{
    struct cluster *cluster = handle->data;

    wr_redis_store_release(cluster->store);
}

static bool start(struct wr_redis_store *store)
{
    struct cluster *cluster = calloc(1, sizeof *cluster);

    if (cluster == NULL)
        return false;
    cluster->store = store;
    memset(cluster->map, NOBODY, sizeof cluster->map);
    store->routing = cluster;
    (void)uv_timer_init(store->loop, &cluster->timer);
    cluster->timer.data = cluster;
    store->handles++;
    open_seeds(cluster);
    return has_hope(cluster);
}

static void up(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct cluster *cluster = store->routing;
    (void)node;

    if (!cluster->known || cluster->refresh)
        refresh(cluster);
}

static void lost(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct cluster *cluster = store->routing;
    (void)node;

    refresh(cluster);
    if (!has_hope(cluster)) {
        store->unroutable = true;
        wr_redis_abandon(store, NULL, WR_TROUBLE_CONNECT);
    }
}

/* Who was asked and does not answer; a link that was replaced since answers by itself. */
static void drop_silent(struct cluster *cluster, int64_t now_ns)
{
    struct wr_redis_node *asked = cluster->refreshing ? cluster->asked : NULL;

    if (is_up(asked) && asked->up_ns <= cluster->refreshed_ns &&
        now_ns - cluster->refreshed_ns >= wr_max_i64(ANSWER_NS, cluster->store->deadline_ns))
        wr_redis_node_drop(asked, WR_TROUBLE_TIMEOUT, "CLUSTER SLOTS: no answer");
}

static void beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct cluster *cluster = store->routing;
    bool well = cluster->known;

    for (unsigned i = 0; i < WR_REDIS_NODES_MAX; i++) {
        if (cluster->nodes[i] == NULL)
            continue;
        wr_redis_retired_beat(cluster->nodes[i], now_ns);
        well = well && (is_up(cluster->nodes[i]) || !cluster->nodes[i]->mapped);
    }
    drop_silent(cluster, now_ns);
    if (!well || cluster->refresh)
        refresh(cluster);
    if (cluster->known)
        close_unused(cluster, now_ns);
    if (!has_hope(cluster))
        open_seeds(cluster);
}

static void stop(struct wr_redis_store *store)
{
    struct cluster *cluster = store->routing;

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
    .redirected = redirected,
    .up = up,
    .lost = lost,
    .beat = beat,
    .stop = stop,
    .dispose = dispose,
};
