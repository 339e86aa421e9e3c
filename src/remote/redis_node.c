/* redis_node.c - one server: kept connected, left alone while its breaker is open.
 *
 * Idea. Probing is connecting: a breaker that opens takes the connection away, and the probe is a
 * new one with its greeting, to which a trial belongs of what decisions need. So no caller ever
 * waits for a probe, and what a stalled connection has swallowed is not asked again.
 *
 *   lost after a good while     connect at once: a server was restarted, a proxy closed
 *   cannot be connected to,     the breaker trips: what waits is told so, the next attempt comes
 *   or lost soon                after its pause
 *   answers nothing in time     the breaker opens; the connection is retired (redis_retired.c)
 *
 * Invariant: at most one link that is not retired; none while the breaker is open. */
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/redis_store.h"

#define PROVEN_NS WR_NS_PER_S /* a connection that held so long is replaced at once */

int64_t wr_redis_now_ns(void)
{
    return (int64_t)uv_hrtime();
}

static void connect_now(struct wr_redis_node *node);

static void on_pause_over(uv_timer_t *timer)
{
    struct wr_redis_node *node = timer->data;

    if (node->link != NULL)
        return;
    if (wr_breaker_closed(&node->breaker) || wr_breaker_probe(&node->breaker, wr_redis_now_ns()))
        connect_now(node);
    else /* libuv's clock is in whole milliseconds */
        (void)uv_timer_start(&node->pause, on_pause_over, 1, 0);
}

int64_t wr_redis_retry_ns(const struct wr_redis_node *node)
{
    return node == NULL ? 0 : wr_breaker_wait_ns(&node->breaker, wr_redis_now_ns());
}

static void wait_for_breaker(struct wr_redis_node *node, int64_t now_ns)
{
    int64_t wait_ns = wr_breaker_wait_ns(&node->breaker, now_ns);

    (void)uv_timer_start(&node->pause, on_pause_over,
                         (uint64_t)((wait_ns + WR_NS_PER_MS - 1) / WR_NS_PER_MS), 0);
}

/* ---- the link -------------------------------------------------------------------------------- */

static void on_up(void *owner, struct wr_redis_link *link)
{
    struct wr_redis_node *node = owner;

    node->up_ns = wr_redis_now_ns();
    node->loaded_as = wr_redis_link_sent(link);
    if (wr_redis_link_trial(link) != NULL)
        wr_redis_refused(node->store, node, wr_redis_link_trial(link));
    else
        wr_redis_well(node->store, node, false);
    if (!wr_breaker_closed(&node->breaker))
        wr_breaker_succeeded(&node->breaker, node->up_ns);
    if (node->store->router->up != NULL)
        node->store->router->up(node->store, node);
    wr_redis_resume(node->store, node);
}

/* The link is out of the way; |held|: how long it was up, 0: never. */
static void replace(struct wr_redis_node *node, int64_t held_ns, enum wr_remote_trouble trouble,
                    const char *why)
{
    struct wr_redis_store *store = node->store;
    int64_t now_ns = wr_redis_now_ns();

    wr_redis_note(store, node, why);
    if (held_ns >= PROVEN_NS)
        wr_breaker_failed(&node->breaker, now_ns);
    else
        wr_breaker_trip(&node->breaker, now_ns);
    wait_for_breaker(node, now_ns);
    if (store->router->lost != NULL)
        store->router->lost(store, node);
    if (!wr_breaker_closed(&node->breaker))
        wr_redis_abandon(store, node, trouble);
}

static void on_lost(void *owner, struct wr_redis_link *link, enum wr_remote_trouble trouble,
                    const char *why)
{
    struct wr_redis_node *node = owner;
    int64_t held_ns = node->up_ns == 0 ? 0 : wr_redis_now_ns() - node->up_ns;
    (void)link;

    node->link = NULL;
    node->up_ns = 0;
    replace(node, held_ns, trouble, why);
}

static const struct wr_redis_link_events events = {.up = on_up, .lost = on_lost};

static void connect_now(struct wr_redis_node *node)
{
    struct wr_redis_store *store = node->store;
    const struct wr_redis_link_spec spec = {
        .events = &events,
        .owner = node,
        .address = node->address,
        .login = &store->login,
        .greeting = store->greeting,
        .greeting_count = store->greeting_count,
        .stage_ns = store->deadline_ns,
    };

    node->up_ns = 0;
    node->link = wr_redis_link_open(store->loop, &spec);
    if (node->link == NULL)
        replace(node, 0, WR_TROUBLE_CONNECT, "out of memory");
}

void wr_redis_node_drop(struct wr_redis_node *node, enum wr_remote_trouble trouble, const char *why)
{
    struct wr_redis_link *link = node->link;
    int64_t held_ns = node->up_ns == 0 ? 0 : wr_redis_now_ns() - node->up_ns;

    if (link == NULL)
        return;
    node->link = NULL;
    node->up_ns = 0;
    wr_redis_link_close(link);
    replace(node, held_ns, trouble, why);
}

void wr_redis_node_failed(struct wr_redis_node *node, int64_t now_ns)
{
    if (!wr_breaker_closed(&node->breaker))
        return;
    wr_breaker_failed(&node->breaker, now_ns);
    if (wr_breaker_closed(&node->breaker))
        return;
    if (node->link != NULL)
        wr_redis_retire(node, node->link, now_ns);
    node->link = NULL;
    node->up_ns = 0;
    wr_redis_note(node->store, node, "no answer within the deadline");
    wait_for_breaker(node, now_ns);
    if (node->store->router->lost != NULL)
        node->store->router->lost(node->store, node);
    wr_redis_abandon(node->store, node, WR_TROUBLE_BREAKER);
}

/* ---- opening and closing --------------------------------------------------------------------- */

static void set_address(struct wr_redis_node *node, const struct wr_redis_address *address)
{
    node->address = *address;
    if (address->host == NULL)
        return;
    memset(node->host, 0, sizeof node->host);
    memcpy(node->host, address->host, strnlen(address->host, sizeof node->host - 1));
    node->address.host = node->host;
}

static void on_pause_closed(uv_handle_t *handle)
{
    struct wr_redis_node *node = handle->data;
    struct wr_redis_store *store = node->store;

    free(node);
    wr_redis_store_release(store);
}

struct wr_redis_node *wr_redis_node_open(struct wr_redis_store *store,
                                         const struct wr_redis_address *address)
{
    struct wr_redis_node *node = calloc(1, sizeof *node);

    if (node == NULL)
        return NULL;
    node->store = store;
    set_address(node, address);
    store->random = store->random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    wr_breaker_init(&node->breaker, store->random);
    (void)uv_timer_init(store->loop, &node->pause);
    node->pause.data = node;
    store->handles++;
    (void)uv_timer_start(&node->pause, on_pause_over, 0, 0);
    return node;
}

void wr_redis_node_move(struct wr_redis_node *node, const struct wr_redis_address *address)
{
    struct wr_redis_link *link = node->link;

    set_address(node, address);
    wr_redis_retired_close(node); /* what the old server still took is nothing to the new one */
    node->link = NULL;
    node->up_ns = 0;
    if (link != NULL)
        wr_redis_link_close(link);
    wr_breaker_init(&node->breaker, node->breaker.random);
    (void)uv_timer_start(&node->pause, on_pause_over, 0, 0);
}

void wr_redis_node_close(struct wr_redis_node *node)
{
    struct wr_redis_link *link = node->link;

    node->link = NULL;
    wr_redis_retired_close(node);
    if (link != NULL)
        wr_redis_link_part(link);
    uv_close((uv_handle_t *)&node->pause, on_pause_closed);
}
