/* ring.c - the nodes as their own store.
 *
 * Idea. To the flow of calls (redis_flow.c) a ring is a cluster whose servers are the other nodes,
 * and one of which is this process: a charge whose owner is this node is decided at the end of the
 * turn, another goes to its owner, batched by the turn, under the same deadlines and breakers. A
 * call whose limits have several owners asks one after the other: this node first (it costs
 * nothing), then whoever has most of them; what was taken goes back when a later one refuses.
 *
 * Invariants.
 *   1. An owner that cannot be reached leaves its keys to nobody until it is dead: the charge is
 *      gone, and the limit's when_store_gone decides.
 *   2. While keys are on their way, charges are grouped by tag: a question names one place.
 *   3. Beyond loopback there is a password.
 *
 * Rejected: a protocol and a flow of its own (twice the states to be wrong in); asking the owners
 * at once (a refusal by one would cost refunds at all others). */
#include "remote/ring.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/redis.h"
#include "remote/ring_store.h"

#define OURS_FIRST (WEIR_LIMITS_MAX * WEIR_LIMITS_MAX) /* in weight; see wr_redis_ticket_weight */

/* ---- where to -------------------------------------------------------------------------------- */

static const unsigned char *tag_of(const struct wr_redis_ticket *ticket, unsigned i)
{
    return wr_redis_ticket_charge(ticket, i)->tag;
}

/* Those of |left| that lie where the |i|-th does. */
static uint32_t beside(struct wr_ring *ring, const struct wr_redis_ticket *ticket, unsigned i,
                       uint32_t left, bool by_tag)
{
    const struct wr_ring_peer *owner = by_tag ? NULL : wr_ring_route(ring, tag_of(ticket, i));
    uint32_t out = 0;

    for (unsigned j = i; j < WEIR_LIMITS_MAX && left >> j != 0; j++) {
        if ((left >> j & 1) == 0)
            continue;
        if (memcmp(tag_of(ticket, j), tag_of(ticket, i), WR_TAG_BYTES) == 0 ||
            (!by_tag && wr_ring_route(ring, tag_of(ticket, j)) == owner))
            out |= UINT32_C(1) << j;
    }
    return out;
}

/* This node's first, but for what cannot be given back. */
static uint32_t group(struct wr_redis_store *store, const struct wr_redis_ticket *ticket,
                      uint32_t left)
{
    struct wr_ring *ring = wr_ring_of(store);
    uint32_t best = 0;
    int best_weight = INT_MIN;
    bool by_tag;

    if ((left & (left - 1)) == 0)
        return left;
    by_tag = wr_ring_unsettled(ring);
    for (uint32_t rest = left; rest != 0;) {
        unsigned first = (unsigned)__builtin_ctz(rest);
        uint32_t these =
            ticket->singly ? rest & (~rest + 1) : beside(ring, ticket, first, rest, by_tag);
        bool ours = wr_ring_route(ring, tag_of(ticket, first)) == wr_ring_self(ring);
        int weight = wr_redis_ticket_weight(ticket, these) + (ours ? OURS_FIRST : 0);
        if (weight > best_weight) {
            best = these;
            best_weight = weight;
        }
        rest &= ~these;
    }
    return best;
}

/* NULL: this node, or nobody is left but this one. */
static struct wr_redis_node *route(struct wr_redis_store *store, struct wr_redis_ticket *ticket)
{
    struct wr_ring_peer *owner =
        wr_ring_route(wr_ring_of(store), tag_of(ticket, (unsigned)__builtin_ctz(ticket->asked)));

    ticket->asking = false;
    return owner == NULL ? NULL : owner->node;
}

/* ---- life ------------------------------------------------------------------------------------ */

void wr_ring_on_closed(uv_handle_t *handle)
{
    struct wr_ring *ring = handle->data;

    wr_redis_store_release(ring->store);
}

static void open_handles(struct wr_ring *ring)
{
    uv_loop_t *loop = ring->store->loop;

    (void)uv_idle_init(loop, &ring->idle);
    (void)uv_check_init(loop, &ring->check);
    (void)uv_timer_init(loop, &ring->retry);
    (void)uv_timer_init(loop, &ring->mover);
    ring->idle.data = ring->check.data = ring->retry.data = ring->mover.data = ring;
    ring->store->handles += 4;
}

static bool start(struct wr_redis_store *store)
{
    struct wr_ring *ring = calloc(1, sizeof *ring);
    const char *why;

    if (ring == NULL)
        return false;
    ring->store = store;
    store->routing = ring;
    open_handles(ring);
    ring->scratch = malloc(WR_RESP_INLINE_MAX);
    if (ring->scratch == NULL || !wr_ring_peers_start(ring))
        return false;
    why = wr_ring_listen(ring);
    if (why != NULL)
        wr_redis_say(store, NULL, why);
    wr_ring_view(ring);
    ring->changed_ns = wr_redis_now_ns();
    return true;
}

/* A node's answer says nothing of the others: wr_ring_tell does. */
static void well(struct wr_redis_store *store, struct wr_redis_node *node, bool decided)
{
    (void)store;
    (void)node;
    (void)decided;
}

static void up(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct wr_ring_peer *peer = wr_ring_peer_of(wr_ring_of(store), node);

    if (peer != NULL)
        wr_ring_greet(peer);
}

/* Why was noted just before. */
static void lost(struct wr_redis_store *store, struct wr_redis_node *node)
{
    struct wr_ring_peer *peer = wr_ring_peer_of(wr_ring_of(store), node);

    if (store->closing || peer == NULL)
        return;
    /* WRONGPASS, NOAUTH, and a Redis that has none: ERR AUTH ... */
    if (strstr(store->state.detail, "WRONGPASS") != NULL ||
        strstr(store->state.detail, "AUTH") != NULL) {
        peer->denied = true;
        wr_ring_news_say(wr_ring_keys_news(peer->ring->keys), peer->id,
                         "refuses us: another password, or no node of weir", true);
    }
    wr_ring_tell(wr_ring_of(store));
}

static void beat(struct wr_redis_store *store, int64_t now_ns)
{
    struct wr_ring *ring = wr_ring_of(store);

    wr_ring_serve_beat(ring, now_ns);
    wr_ring_members_beat(ring, now_ns);
    wr_ring_peers_beat(ring, now_ns);
    wr_ring_move(ring);
    wr_ring_check_left(ring);
}

static void stop(struct wr_redis_store *store)
{
    struct wr_ring *ring = store->routing;

    if (ring == NULL)
        return;
    wr_ring_serve_stop(ring);
    wr_ring_peers_stop(ring);
    if (ring->keys != NULL)
        wr_ring_keys_release(ring->keys, ring);
    uv_close((uv_handle_t *)&ring->idle, wr_ring_on_closed);
    uv_close((uv_handle_t *)&ring->check, wr_ring_on_closed);
    uv_close((uv_handle_t *)&ring->retry, wr_ring_on_closed);
    uv_close((uv_handle_t *)&ring->mover, wr_ring_on_closed);
    if (ring->left != NULL) {
        void (*left)(void *context) = ring->left;
        ring->left = NULL;
        left(ring->left_context);
    }
}

static void dispose(struct wr_redis_store *store)
{
    struct wr_ring *ring = store->routing;

    if (ring == NULL)
        return;
    wr_ring_keys_put(ring->keys);
    wr_owner_free(ring->owner);
    free(ring->here);
    free(ring->scratch);
    free(ring);
}

const struct wr_redis_router wr_ring_router = {
    .name = "ring",
    .start = start,
    .group = group,
    .route = route,
    .redirected = wr_ring_redirected,
    .well = well,
    .up = up,
    .lost = lost,
    .beat = beat,
    .stop = stop,
    .dispose = dispose,
    .encode = wr_ring_encode,
    .decode = wr_ring_decode,
    .here = wr_ring_here,
};

/* ---- as a backend ---------------------------------------------------------------------------- */

static bool is_loopback(const char *host)
{
    return strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0 ||
           strcmp(host, "localhost") == 0;
}

int wr_ring_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store)
{
    *out = (struct wr_backend){0};
    if (store->self.host == NULL ||
        (store->password == NULL && store->password_file == NULL && !is_loopback(store->self.host)))
        return WEIR_EINVAL;
    return wr_redis_open(out, loop, store);
}

void wr_ring_own(void *backend, const struct wr_engine *engine)
{
    struct wr_ring *ring = wr_ring_of(backend);
    struct wr_owner *owner;

    wr_owner_free(ring->owner);
    (void)wr_owner_new(&owner, engine); /* NULL: it refuses until there is memory again */
    ring->owner = owner;
}

bool wr_ring_news(void *backend, struct wr_backend_news *out)
{
    return wr_ring_news_next(wr_ring_keys_news(wr_ring_of(backend)->keys), out);
}

size_t wr_ring_peers(const void *backend, struct wr_backend_peer out[WR_BACKEND_PEERS_MAX])
{
    const struct wr_redis_store *store = backend;

    return wr_ring_counts_read(wr_ring_keys_counts(wr_ring_of(store)->keys), out,
                               WR_BACKEND_PEERS_MAX);
}

void wr_ring_clock(void *backend, int64_t (*now_ns)(void *context), void *context)
{
    struct wr_ring *ring = wr_ring_of(backend);

    ring->clock = now_ns;
    ring->clock_context = context;
}

bool wr_ring_is_settled(const void *backend)
{
    const struct wr_redis_store *store = backend;
    const struct wr_ring *ring = wr_ring_of(store);

    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL && ring->peers[i].routed != ring->peers[i].targeted)
            return false;
    return wr_ring_keys_status(ring->keys) == WR_RING_READY && !ring->moving &&
           ring->moved == ring->generation;
}

void wr_ring_owner_of(const void *backend, const unsigned char tag[WR_TAG_BYTES], char *out,
                      size_t size)
{
    const struct wr_redis_store *store = backend;
    const struct wr_ring_peer *owner = wr_ring_route(wr_ring_of(store), tag);

    (void)snprintf(out, size, "%s", owner == NULL ? "" : owner->id);
}
