/* redis.c - the backend's functions, its opening and its end.
 *
 * What the policy says is copied: a reload frees the policy while calls of the old backend are
 * still under way. The store's memory goes when libuv has closed its last handle; until then
 * callbacks may come, and find |closing|. */
#include "remote/redis.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "remote/address.h"
#include "remote/redis_store.h"
#include "remote/ring.h"

#define BEAT_MS 1000

/* ---- deciding ------------------------------------------------------------------------------- */

static void refuse(struct wr_redis_store *store, struct wr_remote_call *call,
                   enum wr_remote_trouble trouble, const struct wr_redis_node *node)
{
    store->state.gone[trouble]++;
    call->trouble = trouble;
    call->retry_ns = wr_redis_retry_ns(node);
    call->done(call, WR_REMOTE_GONE);
}

static void take(void *backend, struct wr_remote_call *call)
{
    struct wr_redis_store *store = backend;
    struct wr_redis_ticket *ticket =
        store->closing ? NULL : wr_redis_ticket_new(store, WR_REDIS_TAKE);
    enum wr_remote_trouble trouble;
    const struct wr_redis_node *node;

    assert(call->count > 0 && call->count <= WEIR_LIMITS_MAX);
    store->state.calls++;
    if (ticket == NULL) {
        refuse(store, call, WR_TROUBLE_BUSY, NULL);
        return;
    }
    ticket->call = call;
    ticket->left = (UINT32_C(1) << call->count) - 1;
    wr_redis_wait(ticket);
    trouble = wr_redis_advance(ticket);
    if (trouble == WR_TROUBLE_NONE)
        return;
    node = ticket->node;
    wr_redis_queue_leave(ticket);
    wr_redis_ticket_free(ticket);
    refuse(store, call, trouble, node);
}

static void order(struct wr_redis_store *store, enum wr_redis_op op,
                  const struct wr_remote_charge *charge, int64_t units)
{
    struct wr_redis_ticket *ticket = store->closing ? NULL : wr_redis_ticket_new(store, op);

    if (ticket == NULL)
        return;
    if (!wr_redis_ticket_keep(ticket, charge, 1, 0)) {
        wr_redis_ticket_free(ticket);
        return;
    }
    ticket->kept[0].charge.cost = units;
    ticket->asked = 1;
    wr_redis_order(ticket);
}

static void refund(void *backend, const struct wr_remote_charge *charge, int64_t units,
                   int64_t now_ns)
{
    (void)now_ns;
    order(backend, WR_REDIS_REFUND, charge, units);
}

static void force(void *backend, const struct wr_remote_charge *charge, int64_t units,
                  int64_t now_ns)
{
    (void)now_ns;
    order(backend, WR_REDIS_FORCE, charge, units);
}

static void drop(void *backend, const struct wr_remote_charge *charge)
{
    order(backend, WR_REDIS_DROP, charge, 0);
}

static void state(const void *backend, struct wr_backend_state *out)
{
    *out = ((const struct wr_redis_store *)backend)->state;
}

/* ---- the end -------------------------------------------------------------------------------- */

static void free_text(char *text)
{
    if (text != NULL)
        explicit_bzero(text, strlen(text));
    free(text);
}

static void free_store(struct wr_redis_store *store)
{
    if (store->router != NULL && store->router->dispose != NULL)
        store->router->dispose(store);
    wr_redis_tickets_free(store);
    wr_addresses_free(store->addresses, store->address_count);
    wr_addresses_free(store->ring, 2);
    free(store->prefix);
    free(store->master);
    free(store->user);
    free_text(store->password);
    free(store->password_file);
    free_text(store->sentinel_password);
    for (size_t i = 0; i < 2; i++)
        if (store->greeting[i].bytes != NULL)
            redisFreeCommand((char *)(uintptr_t)store->greeting[i].bytes);
    free(store->scratch);
    free(store);
}

void wr_redis_store_release(struct wr_redis_store *store)
{
    if (--store->handles == 0)
        free_store(store);
}

static void on_closed(uv_handle_t *handle)
{
    wr_redis_store_release(handle->data);
}

static void close_handles(struct wr_redis_store *store)
{
    uv_close((uv_handle_t *)&store->timer, on_closed);
    uv_close((uv_handle_t *)&store->beat, on_closed);
    uv_close((uv_handle_t *)&store->idle, on_closed);
    uv_close((uv_handle_t *)&store->check, on_closed);
}

static void close_backend(void *backend)
{
    struct wr_redis_store *store = backend;

    store->closing = true;
    wr_redis_abandon_all(store);
    store->router->stop(store);
    close_handles(store);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool copy_text(char **out, const char *text)
{
    *out = text == NULL ? NULL : strdup(text);
    return text == NULL || *out != NULL;
}

static bool copy_policy(struct wr_redis_store *out, const struct wr_policy_store *store)
{
    const struct wr_policy_address ring[2] = {store->self, store->dns};

    out->ring = wr_addresses_copy(ring, 2);
    out->addresses = wr_addresses_copy(store->addresses, store->address_count);
    if (out->ring == NULL || out->addresses == NULL)
        return false;
    out->address_count = store->address_count;
    out->deadline_ns = store->deadline_ns;
    out->nodes_said = store->nodes == 0 ? 1 : store->nodes;
    out->state.nodes = out->nodes_said;
    if (!copy_text(&out->prefix, store->prefix) || !copy_text(&out->master, store->master) ||
        !copy_text(&out->sentinel_password, store->sentinel_password) ||
        !copy_text(&out->user, store->user) || !copy_text(&out->password, store->password) ||
        !copy_text(&out->password_file, store->password_file))
        return false;
    out->login =
        (struct wr_redis_login){out->user, out->password, out->password_file, store->database};
    out->sentinel_login = (struct wr_redis_login){.password = out->sentinel_password};
    return true;
}

static void on_beat(uv_timer_t *timer)
{
    struct wr_redis_store *store = timer->data;
    int64_t now_ns = wr_redis_now_ns();

    store->router->beat(store, now_ns);
    wr_redis_orders_beat(store, now_ns);
    if (store->router->encode == NULL)
        wr_redis_members_beat(store, now_ns);
}

static void open_handles(struct wr_redis_store *store)
{
    (void)uv_timer_init(store->loop, &store->timer);
    (void)uv_timer_init(store->loop, &store->beat);
    (void)uv_idle_init(store->loop, &store->idle);
    (void)uv_check_init(store->loop, &store->check);
    store->timer.data = store->beat.data = store->idle.data = store->check.data = store;
    store->handles = 4;
    /* The first one comes soon, at a moment of its own. */
    (void)uv_timer_start(&store->beat, on_beat, store->random % BEAT_MS / 10, BEAT_MS);
}

static void leave(void *backend, void (*left)(void *context), void *context)
{
    wr_redis_members_leave(backend, left, context);
}

static const struct wr_backend_ops ops[] = {
    [WR_STORE_REDIS] = {"redis", take, refund, force, drop, state, close_backend, NULL, leave},
    [WR_STORE_SENTINEL] = {"sentinel", take, refund, force, drop, state, close_backend, NULL,
                           leave},
    [WR_STORE_CLUSTER] = {"cluster", take, refund, force, drop, state, close_backend, NULL, leave},
    [WR_STORE_RING] = {"ring", take, refund, force, drop, state, close_backend, wr_ring_own,
                       wr_ring_leave, wr_ring_news, wr_ring_peers},
};

static const struct wr_redis_router *const routers[] = {
    [WR_STORE_REDIS] = &wr_redis_single,
    [WR_STORE_SENTINEL] = &wr_redis_sentinel,
    [WR_STORE_CLUSTER] = &wr_redis_cluster,
    [WR_STORE_RING] = &wr_ring_router,
};

static bool make_greeting(struct wr_redis_store *store, enum wr_store_kind kind)
{
    if (kind == WR_STORE_RING)
        return true;
    store->greeting_count = 2;
    return wr_redis_load_command(&store->greeting[0]) &&
           wr_redis_trial_command(store, kind == WR_STORE_CLUSTER, &store->greeting[1]);
}

int wr_redis_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *policy)
{
    struct wr_redis_store *store = calloc(1, sizeof *store);

    *out = (struct wr_backend){0};
    if (store == NULL)
        return WEIR_ENOMEM;
    /* The policy holds that. */
    assert(policy->address_count > 0 || policy->kind == WR_STORE_RING);
    if (!wr_redis_tickets_init(store) || !copy_policy(store, policy) ||
        !make_greeting(store, policy->kind)) {
        free_store(store);
        return WEIR_ENOMEM;
    }
    store->loop = loop;
    store->router = routers[policy->kind];
    wr_remote_member(store->member);
    store->random = store->member[0] ^ (uint64_t)(uintptr_t)store ^ (uint64_t)wr_redis_now_ns();
    open_handles(store);
    wr_redis_say(store, NULL, "not connected yet");
    if (!store->router->start(store)) {
        store->closing = true;
        store->router->stop(store);
        close_handles(store);
        return WEIR_ENOMEM;
    }
    *out = (struct wr_backend){&ops[policy->kind], store};
    return 0;
}
