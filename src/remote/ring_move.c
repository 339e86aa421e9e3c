/* ring_move.c - handing over what is not ours any more.
 *
 * Idea. When the nodes that keys belong to change (one joins, one leaves, one that was thought dead
 * is back), the table of keys counted here is walked, a pass for each node: keys that are his are
 * marked as on their way, their states are put to him, and when he has them they are forgotten
 * here. Until then they are counted here; meanwhile whoever asks is told to ask again.
 *
 *   joining   a node is ready when all others have said that they are through (SYNCED)
 *   leaving   a node has left when it is through itself
 *
 * Invariants.
 *   1. At most one PUT of a process is under way.
 *   2. A key is dropped here only after the other node has said that it has it. Where the answer is
 *      lost both have it, which refuses too often, never admits too often.
 *   3. A step looks at no more than STEP entries: decisions wait behind nothing longer.
 *
 * Rejected: fetching by the new owner at a key's first request (a round trip for each, and what is
 * not asked for before the old owner ends is lost: a daily quota of somebody who sleeps). */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/ring_store.h"

#define STEP 65536
/* Between steps: libuv runs a timer of 0 again before it reads anything. */
#define STEP_MS 1
#define BYTES_MAX (384U << 10)
#define LEAVE_MS 20 /* how often it is looked whether another loop is through */
/* A node that has left stays for a beat, and a bit: each loop of the others hears of it by its own
 * greeting, and who asks meanwhile is told where to go. */
#define LINGER_NS (1250 * WR_NS_PER_MS)
#define PUT "WEIR.RING.PUT"
#define HEAD_BYTES 64

static void arm(struct wr_ring *ring, uint64_t ms)
{
    (void)uv_timer_start(&ring->mover, wr_ring_on_move, ms, 0);
}

/* ---- one PUT --------------------------------------------------------------------------------- */

static void settle(struct wr_ring *ring, bool there)
{
    struct wr_ring_found found;

    wr_ring_keys_lock(ring->keys);
    for (unsigned i = 0; i < ring->tag_count; i++) {
        wr_ring_keys_find(ring->keys, ring->tags[i], &found);
        for (unsigned j = 0; there && ring->owner != NULL && j < found.count; j++)
            wr_owner_drop(ring->owner, &found.charge[j]);
        wr_ring_keys_mark(ring->keys, ring->tags[i], there ? WR_RING_UNKNOWN : WR_RING_HERE);
    }
    wr_ring_keys_unlock(ring->keys);
    ring->tag_count = ring->key_count = 0;
}

static void next_target(struct wr_ring *ring)
{
    ring->target++;
    ring->cursor = 0;
}

static void on_put(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct wr_ring *ring = context;
    bool there = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    (void)link;

    ring->putting = false;
    if (there)
        wr_ring_counts_add(ring->peers[ring->target].count, WR_RING_HANDED_OVER, ring->key_count);
    settle(ring, there);
    if (!there) {
        ring->incomplete = true;
        next_target(ring);
    }
    if (!ring->store->closing)
        arm(ring, STEP_MS);
}

/* The states of all keys of |found| behind |len| bytes. Returns the new length. */
static size_t add_items(struct wr_ring *ring, const struct wr_ring_found *found, char *bytes,
                        size_t len)
{
    struct wr_owner_state state;
    struct wr_ring_item item;
    int64_t now = wr_ring_now(ring);

    _Static_assert(WR_OWNER_STAMPS_MAX == WR_RING_STAMPS_MAX, "lists travel whole");
    for (unsigned i = 0; i < found->count; i++) {
        const struct wr_remote_charge *charge = &found->charge[i];
        if (!wr_owner_export(ring->owner, charge, now, &state))
            continue;
        item.key.name = (struct weir_slice){charge->name, strlen(charge->name)};
        memcpy(item.key.tag, charge->tag, sizeof item.key.tag);
        memcpy(item.key.limit, charge->limit, sizeof item.key.limit);
        item.now_ns = wr_max_i64(0, state.now_ns);
        item.word = state.word;
        item.stamps = state.stamps;
        memcpy(item.stamp, state.stamp, state.stamps * sizeof item.stamp[0]);
        ring->key_count++;
        len += wr_ring_item_write(bytes + len, BYTES_MAX - len, &item);
    }
    return len;
}

/* Take the next keys of |peer|'s out of the table, as far as one step goes. Returns the length of
 * their states. */
static size_t collect(struct wr_ring *ring, const struct wr_ring_peer *peer, char *bytes)
{
    size_t size = wr_ring_keys_size(ring->keys);
    size_t until = wr_min_u64(size, ring->cursor + STEP), len = 0;
    struct wr_ring_found found;

    wr_ring_keys_lock(ring->keys);
    while (ring->tag_count < WR_RING_ITEMS_MAX &&
           BYTES_MAX - len >= (size_t)WEIR_LIMITS_MAX * WR_RING_ITEM_BYTES &&
           wr_ring_keys_next(ring->keys, &ring->cursor, until, &found)) {
        if (wr_ring_target(ring, found.tag) != peer)
            continue;
        wr_ring_keys_mark(ring->keys, found.tag, WR_RING_MOVING);
        memcpy(ring->tags[ring->tag_count++], found.tag, WR_TAG_BYTES);
        len = add_items(ring, &found, bytes, len);
    }
    wr_ring_keys_unlock(ring->keys);
    return len;
}

static bool is_up(const struct wr_ring_peer *peer)
{
    return peer->node->link != NULL && wr_redis_link_is_up(peer->node->link);
}

/* False: it could not be sent. */
static bool put(struct wr_ring *ring, struct wr_ring_peer *peer, const char *bytes, size_t len)
{
    char *command = malloc(len + HEAD_BYTES);
    size_t size = command != NULL ? wr_ring_command(command, len + HEAD_BYTES, PUT, bytes, len) : 0;
    bool sent = size > 0 && wr_redis_link_send(peer->node->link, command, size, on_put, ring);

    free(command);
    ring->putting = sent;
    return sent;
}

static void hand_over(struct wr_ring *ring, struct wr_ring_peer *peer)
{
    char *bytes = malloc(BYTES_MAX);
    size_t len = bytes != NULL ? collect(ring, peer, bytes) : 0;

    if (bytes == NULL || (len > 0 && !put(ring, peer, bytes, len))) {
        settle(ring, false);
        ring->incomplete = true;
        next_target(ring);
    } else if (len == 0) {
        settle(ring, true); /* nothing of them is used */
    }
    free(bytes);
}

/* ---- the walk -------------------------------------------------------------------------------- */

static void on_synced(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    (void)context; /* if it is lost, the node waits a little longer until it is ready */
    (void)link;
    (void)reply;
}

static void say_synced(struct wr_ring *ring)
{
    char bytes[512];
    const char *id = wr_ring_self(ring)->id;
    size_t len = wr_ring_command(bytes, sizeof bytes, "WEIR.RING.SYNCED", id, strlen(id));

    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring == NULL || peer->standing != WR_RING_ALIVE ||
            peer->status != WR_RING_JOINING || peer->synced == peer->incarnation || !is_up(peer))
            continue;
        if (wr_redis_link_send(peer->node->link, bytes, len, on_synced, NULL))
            peer->synced = peer->incarnation;
    }
}

static bool has_others(const struct wr_ring *ring)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL && ring->peers[i].targeted)
            return true;
    return false;
}

static void end_walk(struct wr_ring *ring)
{
    ring->moving = false;
    wr_ring_keys_release(ring->keys, ring);
    if (!ring->incomplete) {
        ring->moved = ring->pass;
        say_synced(ring);
    }
    if (wr_ring_keys_status(ring->keys) == WR_RING_LEAVING &&
        (!ring->incomplete || !has_others(ring)))
        wr_ring_keys_set_status(ring->keys, WR_RING_LEFT);
    wr_ring_check_left(ring);
}

static void begin_walk(struct wr_ring *ring)
{
    ring->pass = ring->generation;
    ring->cursor = 0;
    ring->target = 1;
    ring->incomplete = false;
}

static void step(struct wr_ring *ring)
{
    if (ring->pass != ring->generation)
        begin_walk(ring);
    while (ring->target < WR_RING_PEERS_MAX) {
        struct wr_ring_peer *peer = &ring->peers[ring->target];
        bool wanted = peer->ring != NULL && peer->targeted;
        bool reached = wanted && is_up(peer) && ring->owner != NULL;
        if (reached && ring->cursor < wr_ring_keys_size(ring->keys)) {
            hand_over(ring, peer);
            if (!ring->putting)
                arm(ring, STEP_MS);
            return;
        }
        if (wanted && !reached)
            ring->incomplete = true;
        next_target(ring);
    }
    end_walk(ring);
}

void wr_ring_on_move(uv_timer_t *timer)
{
    struct wr_ring *ring = timer->data;

    if (!ring->moving && ring->left != NULL)
        wr_ring_move(ring);
    else if (ring->moving && !ring->putting)
        step(ring);
    if (ring->moving)
        return;
    wr_ring_check_left(ring);
    if (ring->left != NULL)
        arm(ring, LEAVE_MS);
}

static bool somebody_waits(struct wr_ring *ring)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        const struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && peer->standing == WR_RING_ALIVE &&
            peer->status == WR_RING_JOINING && peer->synced != peer->incarnation)
            return true;
    }
    return wr_ring_keys_status(ring->keys) == WR_RING_LEAVING;
}

void wr_ring_move(struct wr_ring *ring)
{
    if (ring->moving || ring->store->closing ||
        (ring->moved == ring->generation && !somebody_waits(ring)) ||
        !wr_ring_keys_claim(ring->keys, ring))
        return;
    ring->moving = true;
    begin_walk(ring);
    arm(ring, STEP_MS);
}

void wr_ring_check_left(struct wr_ring *ring)
{
    void (*left)(void *context) = ring->left;

    if (left == NULL || wr_ring_keys_status(ring->keys) != WR_RING_LEFT)
        return;
    if (ring->left_ns == 0) {
        ring->left_ns = wr_redis_now_ns();
        wr_ring_view(ring);
        wr_ring_announce(ring);
    }
    if (wr_redis_now_ns() - ring->left_ns < LINGER_NS)
        return;
    ring->left = NULL;
    left(ring->left_context);
}

void wr_ring_leave(void *backend, void (*left)(void *context), void *context)
{
    struct wr_redis_store *store = backend;
    struct wr_ring *ring = wr_ring_of(store);

    ring->left = left;
    ring->left_context = context;
    if (wr_ring_keys_status(ring->keys) != WR_RING_LEFT)
        wr_ring_keys_set_status(ring->keys, WR_RING_LEAVING);
    wr_ring_view(ring);
    wr_ring_announce(ring);
    wr_ring_move(ring);
    if (!ring->moving)
        arm(ring, LEAVE_MS);
}
