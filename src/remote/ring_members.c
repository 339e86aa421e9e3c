/* ring_members.c - who is in the ring, and whose a key is.
 *
 * Idea. Rendezvous hashing: a key's owner is the node for which a hash of node and tag is greatest.
 * A node that comes or goes moves only its own keys. Two sets of nodes are kept apart:
 *
 *   routed    those that keys are asked at: ready, or leaving (they still have most of theirs)
 *   targeted  those that keys belong to: ready, or joining; not leaving
 *
 * Who is asked for a key that he does not have, and that belongs to another, says so (MOVED). So
 * while keys move from the owners of before to those of after, each key has one node that counts
 * it: the old one until it is handed over, the new one from then on.
 *
 *   unheard   a node not heard of since this one started: as joining, until it is dead
 *   alive     as it says it is
 *   dead      WR_RING_MISSES_MAX beats of silence: its keys belong to the next
 *
 * Bounds. Views may differ for as long as a death takes to be noticed (MISSES_MAX + 1 beats) and
 * news to travel (one beat). A key may then be counted in two places, so admits at most one more
 * limit for each death; when views agree again both counts are added up.
 *
 * Invariants.
 *   1. This node is in its own sets by its status alone.
 *   2. A dead node is not asked, but greeted at each connection: that is how it returns.
 *
 * Rejected: a ring of virtual nodes (needs memory and balances worse: Thaler and Ravishankar, "A
 * name-based mapping scheme for rendezvous", 1998); gossip and quorums (a limit is worth a bound,
 * not a consensus). */
#include <stdio.h>
#include <string.h>

#include "remote/ring_store.h"

#define NAMELESS_NS WR_NS_PER_S /* how long a name is waited for before a node counts alone */
#define UNSETTLED_NS (10 * WR_NS_PER_S)
/* A loop that finds a node dead is two beats behind its last word to any of them, at least. */
#define SILENCE_NS (3 * WR_NS_PER_S / 2)

/* ---- sets ------------------------------------------------------------------------------------ */

static enum wr_ring_status status_of(const struct wr_ring_peer *peer)
{
    return peer->node == NULL ? wr_ring_keys_status(peer->ring->keys) : peer->status;
}

static bool targets(const struct wr_ring_peer *peer)
{
    enum wr_ring_status status = status_of(peer);

    return peer->standing != WR_RING_DEAD && (status == WR_RING_JOINING || status == WR_RING_READY);
}

static bool routes(const struct wr_ring_peer *peer)
{
    enum wr_ring_status status = status_of(peer);

    return peer->standing == WR_RING_ALIVE &&
           (status == WR_RING_READY || status == WR_RING_LEAVING);
}

/* Before anybody is ready, all that may be there are asked. */
static void set_routes(struct wr_ring *ring)
{
    bool any = false;

    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        peer->routed = peer->ring != NULL && routes(peer);
        any = any || peer->routed;
    }
    for (unsigned i = 0; i < WR_RING_PEERS_MAX && !any; i++)
        ring->peers[i].routed = ring->peers[i].targeted;
}

static void list(struct wr_ring *ring)
{
    ring->routed_count = ring->targeted_count = 0;
    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++) {
        if (ring->peers[i].routed)
            ring->routed[ring->routed_count++] = &ring->peers[i];
        if (ring->peers[i].targeted)
            ring->targeted[ring->targeted_count++] = &ring->peers[i];
    }
}

void wr_ring_view(struct wr_ring *ring)
{
    unsigned nodes = 0;
    bool changed = false;

    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        bool targeted = peer->ring != NULL && targets(peer);
        changed = changed || targeted != peer->targeted;
        peer->targeted = targeted;
        nodes += targeted;
    }
    set_routes(ring);
    list(ring);
    ring->store->state.nodes = nodes > 0 ? nodes : 1;
    if (changed) {
        ring->generation++;
        ring->changed_ns = wr_redis_now_ns();
    }
    wr_ring_tell(ring);
    for (unsigned i = 1; changed && i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL && !ring->peers[i].routed)
            wr_redis_reroute(ring->store, ring->peers[i].node);
}

bool wr_ring_unsettled(const struct wr_ring *ring)
{
    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++) {
        const struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && peer->routed != peer->targeted)
            return true;
    }
    return wr_redis_now_ns() - ring->changed_ns < UNSETTLED_NS;
}

/* Who cannot be reached ends it: his breaker opens when connecting or greeting takes too long. */
bool wr_ring_is_meeting(const struct wr_ring *ring)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        const struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && peer->standing == WR_RING_UNHEARD &&
            wr_breaker_closed(&peer->node->breaker))
            return true;
    }
    if (ring->store->ring[1].host == NULL || ring->names_version != 0)
        return false;
    return wr_ring_names_is_new(wr_ring_keys_names(ring->keys), ring->store->ring[1].host, 0) ||
           (ring->resolving && wr_redis_now_ns() - wr_ring_keys_since_ns(ring->keys) < NAMELESS_NS);
}

bool wr_ring_is_leaving(const struct wr_ring *ring)
{
    enum wr_ring_status status = wr_ring_keys_status(ring->keys);

    return status == WR_RING_LEAVING || status == WR_RING_LEFT;
}

/* ---- owners ---------------------------------------------------------------------------------- */

static uint64_t weight(const struct wr_ring_peer *peer, const unsigned char *tag)
{
    struct wr_sip sip = peer->sip;

    wr_sip_part(&sip, 0, tag, WR_TAG_BYTES);
    return wr_sip_finish(sip);
}

static struct wr_ring_peer *best(struct wr_ring_peer *const *peers, unsigned count,
                                 const unsigned char *tag)
{
    struct wr_ring_peer *found = NULL;
    uint64_t most = 0;

    for (unsigned i = 0; i < count; i++) {
        uint64_t w = weight(peers[i], tag);
        /* Equal weights, once in 2^64: the greater name. */
        if (found == NULL || w > most || (w == most && strcmp(peers[i]->id, found->id) > 0)) {
            found = peers[i];
            most = w;
        }
    }
    return found;
}

struct wr_ring_peer *wr_ring_route(struct wr_ring *ring, const unsigned char tag[WR_TAG_BYTES])
{
    return best(ring->routed, ring->routed_count, tag);
}

struct wr_ring_peer *wr_ring_target(struct wr_ring *ring, const unsigned char tag[WR_TAG_BYTES])
{
    return best(ring->targeted, ring->targeted_count, tag);
}

/* ---- how it stands --------------------------------------------------------------------------- */

/* A node that is stopped is connected to by its kernel: an answer ends it, no connection. */
static bool is_missing(struct wr_ring_peer *peer)
{
    if (peer->ring == NULL || peer->standing != WR_RING_ALIVE || !peer->routed)
        return false;
    if (peer->node->link == NULL || !wr_breaker_closed(&peer->node->breaker))
        peer->missing = true;
    return peer->missing;
}

/* Whether keys that are its can be asked for there. */
static void count_up(struct wr_ring_peer *peer)
{
    bool up = peer->ring != NULL && peer->standing == WR_RING_ALIVE && !peer->missing &&
              peer->node->link != NULL && wr_redis_link_is_up(peer->node->link);

    if (up != peer->up)
        wr_ring_counts_up(peer->count, up);
    peer->up = up;
}

static void say_nameless(struct wr_ring *ring)
{
    char text[80];

    (void)snprintf(text, sizeof text, "its dns %s: this node counts alone", ring->nameless);
    wr_redis_say(ring->store, NULL, text);
}

void wr_ring_tell(struct wr_ring *ring)
{
    const struct wr_ring_peer *missing = NULL, *denied = NULL;
    bool alone = true; /* then it is we who have another password, not they */
    char wrong[sizeof ring->store->state.detail];

    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (is_missing(peer))
            missing = peer;
        count_up(peer);
        if (peer->ring != NULL && peer->denied)
            denied = peer;
        alone = alone && (peer->ring == NULL || peer->standing != WR_RING_ALIVE);
    }
    if (!ring->listening)
        return; /* the reason is there already */
    if (denied != NULL && alone)
        wr_redis_say(ring->store, denied->node, "it refuses us: WRONGPASS");
    else if (missing != NULL)
        wr_redis_say(ring->store, missing->node,
                     "no answer; its keys are not counted until it is "
                     "dead");
    else if (ring->nameless != NULL)
        say_nameless(ring);
    else if (ring->keys != NULL && wr_ring_news_stands(wr_ring_keys_news(ring->keys),
                                                       wr_redis_now_ns(), wrong, sizeof wrong))
        wr_redis_say(ring->store, NULL, wrong);
    else
        wr_redis_say(ring->store, NULL, NULL);
}

/* ---- beats ----------------------------------------------------------------------------------- */

/* Once for all loops, which count their beats each for itself: the node may have come back to
 * another one in between. */
static void say_dead(const struct wr_ring_peer *peer, int64_t now_ns)
{
    if (peer->status != WR_RING_LEFT && now_ns - wr_ring_counts_heard_ns(peer->count) >= SILENCE_NS)
        wr_ring_news_say(wr_ring_keys_news(peer->ring->keys), peer->id, "is dead", true);
}

static void beat_peer(struct wr_ring_peer *peer, int64_t now_ns)
{
    if (peer->heard) {
        peer->misses = 0;
    } else if (peer->standing != WR_RING_DEAD && ++peer->misses >= WR_RING_MISSES_MAX) {
        peer->standing = WR_RING_DEAD;
        say_dead(peer, now_ns);
        peer->synced = 0;
        if (peer->node->link != NULL && wr_redis_link_is_up(peer->node->link))
            wr_redis_node_drop(peer->node, WR_TROUBLE_TIMEOUT, "silent, taken for dead");
    }
    peer->heard = false;
}

/* Have all that may have keys of ours handed them over? */
static bool has_joined(struct wr_ring *ring, int64_t now_ns)
{
    bool named = ring->store->ring[1].host != NULL;

    if (now_ns - wr_ring_keys_since_ns(ring->keys) >=
        (named ? WR_RING_JOIN_NAMED_NS : WR_RING_JOIN_NS))
        return true;
    if (named && ring->names_version == 0) /* it does not know yet who they are */
        return false;
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && peer->standing != WR_RING_DEAD && peer->status != WR_RING_LEFT &&
            !wr_ring_keys_is_synced(ring->keys, peer->id))
            return false;
    }
    return true;
}

void wr_ring_members_beat(struct wr_ring *ring, int64_t now_ns)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL)
            beat_peer(&ring->peers[i], now_ns);
    if (wr_ring_keys_status(ring->keys) == WR_RING_JOINING && has_joined(ring, now_ns)) {
        wr_ring_keys_set_status(ring->keys, WR_RING_READY);
        wr_ring_announce(ring);
    }
    wr_ring_view(ring);
}
