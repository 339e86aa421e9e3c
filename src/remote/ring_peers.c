/* ring_peers.c - the other nodes: opened from a list or from what a name stands for, greeted as
 * soon as they are connected and at every beat, heard of by their answers.
 *
 * Idea. HELLO says who we are and how we stand, and is answered by the same: it is greeting, health
 * check and news in one. A change of our own standing is told to all at once.
 *
 * Invariants.
 *   1. peers[0] is this node. A peer's place is not reused while its node is open.
 *   2. A node counts as heard of by its answers only: that it can reach us does not say that we
 *      reach it.
 *   3. A name that is not found, or not for the moment, removes nobody. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote/ring_store.h"

/* ---- who ------------------------------------------------------------------------------------- */

struct wr_ring_peer *wr_ring_peer_at(struct wr_ring *ring, const char *host, uint16_t port)
{
    for (unsigned i = 0; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && peer->port == port && strcmp(peer->host, host) == 0)
            return peer;
    }
    return NULL;
}

struct wr_ring_peer *wr_ring_peer_of(struct wr_ring *ring, const struct wr_redis_node *node)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL && ring->peers[i].node == node)
            return &ring->peers[i];
    return NULL;
}

struct wr_ring_peer *wr_ring_peer_named(struct wr_ring *ring, struct weir_slice id)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring != NULL && strlen(peer->id) == id.len &&
            memcmp(peer->id, id.ptr, id.len) == 0)
            return peer;
    }
    return NULL;
}

/* The same spelling for the same address. */
static void spell(char out[WR_REDIS_HOST_MAX], const char *host)
{
    unsigned char bytes[16];

    (void)snprintf(out, WR_REDIS_HOST_MAX, "%s", host);
    if (uv_inet_pton(AF_INET, host, bytes) == 0)
        (void)uv_inet_ntop(AF_INET, bytes, out, WR_REDIS_HOST_MAX);
    else if (uv_inet_pton(AF_INET6, host, bytes) == 0)
        (void)uv_inet_ntop(AF_INET6, bytes, out, WR_REDIS_HOST_MAX);
}

static bool fill(struct wr_ring *ring, struct wr_ring_peer *peer, const char *host, uint16_t port)
{
    *peer = (struct wr_ring_peer){.ring = ring, .port = port};
    spell(peer->host, host);
    if ((size_t)snprintf(peer->id, sizeof peer->id, "%.*s:%u", WR_RING_ID_MAX - 6, peer->host,
                         (unsigned)port) >= sizeof peer->id)
        return false;
    /* Not secret: tags are. */
    peer->sip = wr_sip_init((struct wr_sip_key){{1, 2}});
    wr_sip_part(&peer->sip, 1, peer->id, strlen(peer->id));
    return true;
}

static bool open_peer(struct wr_ring *ring, const char *host, uint16_t port)
{
    struct wr_ring_peer *peer = NULL;
    struct wr_redis_address address = {.port = port};
    char spelled[WR_REDIS_HOST_MAX];

    spell(spelled, host);
    peer = wr_ring_peer_at(ring, spelled, port);
    if (peer != NULL) {
        peer->named = true;
        return true;
    }
    for (unsigned i = 1; i < WR_RING_PEERS_MAX && peer == NULL; i++)
        if (ring->peers[i].ring == NULL)
            peer = &ring->peers[i];
    if (peer == NULL || !fill(ring, peer, host, port))
        return false;
    address.host = peer->host;
    peer->named = true;
    peer->node = wr_redis_node_open(ring->store, &address);
    if (peer->node == NULL)
        peer->ring = NULL;
    else
        peer->count = wr_ring_counts_join(wr_ring_keys_counts(ring->keys), peer->id);
    return peer->node != NULL;
}

static void close_peer(struct wr_ring_peer *peer)
{
    struct wr_redis_node *node = peer->node;
    struct wr_ring *ring = peer->ring;

    if (peer->up)
        wr_ring_counts_up(peer->count, false);
    wr_ring_counts_leave(wr_ring_keys_counts(ring->keys), peer->count);
    *peer = (struct wr_ring_peer){0};
    wr_redis_node_close(node);
    if (ring->store->closing)
        return;
    wr_ring_view(ring);
    wr_redis_reroute(ring->store, node);
}

/* ---- greeting -------------------------------------------------------------------------------- */

size_t wr_ring_hello(const struct wr_ring *ring, char *out, size_t size)
{
    const struct wr_ring_peer *self = &ring->peers[0];
    const struct wr_ring_hello hello = {.status = wr_ring_keys_status(ring->keys),
                                        .incarnation = wr_ring_keys_incarnation(ring->keys),
                                        .id = {self->id, strlen(self->id)}};

    return wr_ring_hello_write(out, size, &hello);
}

size_t wr_ring_command(char *out, size_t size, const char *name, const char *bytes, size_t len)
{
    struct wr_resp_out resp = {.bytes = out, .size = size};

    wr_resp_array(&resp, 2);
    wr_resp_text(&resp, name);
    wr_resp_bulk(&resp, (struct weir_slice){bytes, len});
    return resp.full ? 0 : resp.len;
}

/* How a node says it stands. A new incarnation knows nothing of what we handed to the last. */
static void stands(struct wr_ring_peer *peer, const struct wr_ring_hello *hello)
{
    if (hello->status == WR_RING_LEFT)
        wr_ring_news_say(wr_ring_keys_news(peer->ring->keys), peer->id, "has left", false);
    else if (peer->status == WR_RING_LEFT) /* it is there again before it was silent for long */
        wr_ring_news_say(wr_ring_keys_news(peer->ring->keys), peer->id, "has joined", false);
    peer->status = hello->status;
    peer->incarnation = hello->incarnation;
    if (peer->synced != hello->incarnation)
        peer->synced = 0;
}

void wr_ring_wake(struct wr_ring_peer *peer)
{
    const struct wr_redis_address address = {.host = peer->host, .port = peer->port};
    int64_t now_ns = wr_redis_now_ns();

    if (peer->node == NULL || peer->node->link != NULL || wr_breaker_closed(&peer->node->breaker) ||
        now_ns - peer->woken_ns < WR_NS_PER_S)
        return;
    peer->woken_ns = now_ns;
    wr_redis_node_move(peer->node, &address);
}

/* ---- what is not as it was written ----------------------------------------------------------- */

static void trouble(struct wr_ring *ring, const char *node, const char *what, int64_t grace_ns)
{
    wr_ring_news_trouble(wr_ring_keys_news(ring->keys), node, what, wr_redis_now_ns(), grace_ns);
}

static bool is_named(const struct wr_ring_hello *hello, const char *id)
{
    return hello->id.len == strlen(id) && memcmp(hello->id.ptr, id, hello->id.len) == 0;
}

/* A hello came from no node of our list. An address that is new in dns may reach others first. */
static void judge_stranger(struct wr_ring *ring, const struct wr_ring_hello *hello)
{
    char id[WR_RING_ID_MAX + 1];
    int64_t grace_ns = ring->store->ring[1].host == NULL ? 0 : 3 * WR_RING_DNS_NS;

    (void)snprintf(id, sizeof id, "%.*s", (int)hello->id.len, hello->id.ptr);
    if (!is_named(hello, wr_ring_self(ring)->id))
        trouble(ring, id, "says hello and is not in our list", grace_ns);
    else if (hello->incarnation != wr_ring_keys_incarnation(ring->keys))
        trouble(ring, id, "is the name of another node too", 0);
}

/* Whom we greeted as |peer| is called otherwise. */
static void judge_name(const struct wr_ring_peer *peer, const struct wr_ring_hello *hello)
{
    struct wr_ring *ring = peer->ring;
    char what[96 + WR_RING_ID_MAX];

    if (is_named(hello, peer->id))
        return;
    if (is_named(hello, wr_ring_self(ring)->id) &&
        hello->incarnation == wr_ring_keys_incarnation(ring->keys))
        (void)snprintf(what, sizeof what, "is this node itself, whose self is %s",
                       wr_ring_self(ring)->id);
    else
        (void)snprintf(what, sizeof what, "calls itself %.*s: each node has one name",
                       (int)hello->id.len, hello->id.ptr);
    trouble(ring, peer->id, what, 0);
}

void wr_ring_heard(struct wr_ring *ring, const struct wr_ring_hello *hello)
{
    struct wr_ring_peer *peer = wr_ring_peer_named(ring, hello->id);

    if (peer == NULL)
        judge_stranger(ring, hello);
    if (peer != NULL)
        wr_ring_wake(peer);
    if (peer == NULL || peer->standing != WR_RING_ALIVE ||
        (peer->status == hello->status && peer->incarnation == hello->incarnation))
        return;
    stands(peer, hello);
    wr_ring_view(ring);
    wr_ring_move(ring);
}

static void on_hello(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    struct wr_ring_peer *peer = context;
    struct wr_ring_hello hello;
    (void)link;

    peer->asked = false;
    if (reply == NULL || peer->ring == NULL || peer->ring->store->closing)
        return;
    if (reply->type != REDIS_REPLY_STRING ||
        !wr_ring_hello_read((struct weir_slice){reply->str, reply->len}, &hello)) {
        trouble(peer->ring, peer->id, "answers, but not as a node of this version", 0);
        wr_ring_tell(peer->ring);
        return;
    }
    judge_name(peer, &hello);
    peer->heard = true;
    wr_ring_counts_heard(peer->count, wr_redis_now_ns());
    peer->denied = peer->missing = false;
    peer->misses = 0;
    if (peer->standing != WR_RING_ALIVE)
        wr_ring_news_say(wr_ring_keys_news(peer->ring->keys), peer->id, "has joined", false);
    peer->standing = WR_RING_ALIVE;
    stands(peer, &hello);
    wr_ring_view(peer->ring);
    wr_ring_move(peer->ring);
}

void wr_ring_greet(struct wr_ring_peer *peer)
{
    char hello[WR_RING_HELLO_BYTES], command[WR_RING_HELLO_BYTES + 64];
    struct wr_redis_node *node = peer->node;
    size_t len = wr_ring_hello(peer->ring, hello, sizeof hello);

    len = wr_ring_command(command, sizeof command, "WEIR.RING.HELLO", hello, len);
    if (len == 0 || node->link == NULL || !wr_redis_link_is_up(node->link))
        return;
    peer->asked = wr_redis_link_send(node->link, command, len, on_hello, peer);
}

void wr_ring_announce(struct wr_ring *ring)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL)
            wr_ring_greet(&ring->peers[i]);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void read_addresses(struct wr_ring *ring)
{
    const struct sockaddr *address;
    struct wr_ring_name_list list = {0};

    while (list.count < WR_RING_NAMES_MAX && (address = wr_resolve_next(&ring->resolve)) != NULL) {
        char host[WR_REDIS_HOST_MAX];
        if (getnameinfo(address,
                        address->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                      : sizeof(struct sockaddr_in6),
                        host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
            spell(list.host[list.count++], host);
    }
    if (list.count > 0) /* none at all removes nobody */
        wr_ring_names_set(wr_ring_keys_names(ring->keys), ring->store->ring[1].host, &list);
}

void wr_ring_learn(struct wr_ring *ring)
{
    const struct wr_policy_address *dns = &ring->store->ring[1];
    struct wr_ring_name_list list;

    if (dns->host == NULL ||
        !wr_ring_names_read(wr_ring_keys_names(ring->keys), dns->host, &ring->names_version, &list))
        return;
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        ring->peers[i].named = false;
    for (unsigned i = 0; i < list.count; i++)
        (void)open_peer(ring, list.host[i], dns->port);
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL && !ring->peers[i].named)
            close_peer(&ring->peers[i]);
    ring->nameless = NULL;
    wr_ring_view(ring);
}

/* Who is known stays, so it is a trouble only to who knows nobody. */
static void say_resolved(struct wr_ring *ring, const char *error)
{
    char what[96];
    bool alone = true;

    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        alone = alone && ring->peers[i].ring == NULL;
    ring->nameless = error == NULL || !alone ? NULL : "does not resolve";
    if (error != NULL)
        (void)snprintf(what, sizeof what, "does not resolve: %s", error);
    wr_ring_news_say(wr_ring_keys_news(ring->keys), ring->store->ring[1].host,
                     error != NULL ? what : "resolves", error != NULL);
    wr_ring_tell(ring);
}

static void on_resolved(void *context, const char *error)
{
    struct wr_ring *ring = context;

    ring->resolving = false;
    if (!ring->store->closing) {
        if (error == NULL)
            read_addresses(ring);
        wr_ring_learn(ring);
        say_resolved(ring, error);
    }
    wr_resolve_free(&ring->resolve);
    wr_redis_store_release(ring->store);
}

static void look_up(struct wr_ring *ring, int64_t now_ns)
{
    const struct wr_policy_address *dns = &ring->store->ring[1];

    if (dns->host == NULL || ring->resolving ||
        (ring->resolved_ns != 0 && now_ns - ring->resolved_ns < WR_RING_DNS_NS))
        return;
    ring->resolved_ns = now_ns;
    ring->store->handles++;
    ring->resolving = true;
    if (wr_resolve_literal(&ring->resolve, dns->host, dns->port)) {
        on_resolved(ring, NULL);
    } else if (!wr_resolve_start(&ring->resolve, ring->store->loop, dns->host, dns->port,
                                 on_resolved, ring)) {
        ring->resolving = false;
        wr_redis_store_release(ring->store);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

bool wr_ring_peers_start(struct wr_ring *ring)
{
    const struct wr_redis_store *store = ring->store;
    struct wr_ring_peer *self = wr_ring_self(ring);

    if (!fill(ring, self, store->ring[0].host, store->ring[0].port))
        return false;
    self->standing = WR_RING_ALIVE;
    ring->keys = wr_ring_keys_get(self->id);
    if (ring->keys == NULL)
        return false;
    for (size_t i = 0; i < store->address_count; i++)
        if (!open_peer(ring, store->addresses[i].host, store->addresses[i].port))
            return false;
    if (store->ring[1].host != NULL)
        ring->nameless = "has not been answered yet";
    wr_ring_learn(ring);
    look_up(ring, wr_redis_now_ns());
    return true;
}

void wr_ring_peers_beat(struct wr_ring *ring, int64_t now_ns)
{
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++) {
        struct wr_ring_peer *peer = &ring->peers[i];
        if (peer->ring == NULL)
            continue;
        wr_redis_retired_beat(peer->node, now_ns);
        if (!peer->asked)
            wr_ring_greet(peer);
    }
    wr_ring_learn(ring);
    look_up(ring, now_ns);
}

void wr_ring_peers_stop(struct wr_ring *ring)
{
    wr_resolve_cancel(&ring->resolve);
    for (unsigned i = 1; i < WR_RING_PEERS_MAX; i++)
        if (ring->peers[i].ring != NULL)
            close_peer(&ring->peers[i]);
}
