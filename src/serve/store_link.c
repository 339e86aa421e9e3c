/* store_link.c - a backend and what the loop thinks of it.
 *
 * Idea. A store that is lost is told of once, when it is lost, and once when it is back, and never
 * by a request: each request would say the same. Whether it is lost is the backend's to say (its
 * breaker knows one slow answer from none); here it is asked after each change of fortune (so who
 * has just been answered finds it up, weir_store_up too) and five times a second.
 *
 * A store that comes and goes is lost until it has stayed: whatever kills its connections or holds
 * up its commands again and again would be told of each time. weir_store_up says how it is now.
 *
 * Invariants:
 *   1. A link that was told lost is told back, or closed, exactly once.
 *   2. After close nothing reaches the backend. */
#include "serve/store_link.h"

#include <stdlib.h>
#include <string.h>

#include "lib/handle.h"
#include "remote/remote.h"
#include "serve/log.h"
#include "serve/store_state.h"

#define LOOKS_PATIENCE 5 /* without a first answer, until it is called lost: a second */
#define LOOKS_BACK 5     /* with one, until what was lost is called back: the same */

/* ---- the same store ---------------------------------------------------------------------------
 */

static bool same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

bool wr_store_same_address(const struct wr_policy_address *a, const struct wr_policy_address *b)
{
    return same_text(a->host, b->host) && same_text(a->path, b->path) && a->port == b->port;
}

bool wr_store_same(const struct wr_policy_store *a, const struct wr_policy_store *b)
{
    bool same =
        a->kind == b->kind && a->address_count == b->address_count &&
        a->deadline_ns == b->deadline_ns && a->database == b->database && a->nodes == b->nodes &&
        wr_store_same_address(&a->self, &b->self) && wr_store_same_address(&a->dns, &b->dns) &&
        same_text(a->user, b->user) && same_text(a->password, b->password) &&
        same_text(a->password_file, b->password_file) && same_text(a->master, b->master) &&
        same_text(a->sentinel_password, b->sentinel_password) && same_text(a->prefix, b->prefix);

    for (size_t i = 0; same && i < a->address_count; i++)
        same = wr_store_same_address(&a->addresses[i], &b->addresses[i]);
    return same;
}

static const struct wr_policy_store *store_of(const struct wr_handle *handle)
{
    return wr_policy_settings(handle->policy)->store;
}

bool wr_store_link_fits(const struct wr_store_link *link, const struct wr_handle *handle)
{
    return handle == link->handle ||
           (store_of(handle) != NULL && wr_store_same(store_of(link->handle), store_of(handle)));
}

/* A ring counts in our arena: through the engine of the policy that is followed. */
static void own(struct wr_store_link *link, const struct wr_handle *handle)
{
    if (link->ops->own != NULL)
        link->ops->own(link->backend, handle->weir->engine);
}

void wr_store_link_follow(struct wr_store_link *link, struct wr_handle *handle)
{
    own(link, handle);
    wr_handle_ref(handle);
    wr_handle_unref(link->handle);
    link->handle = handle;
}

/* ---- how it stands ----------------------------------------------------------------------------
 */

static void publish(struct wr_store_link *link, const struct wr_backend_state *state)
{
    struct wr_store_metrics *m = &link->loop->metrics.store;

    link->nodes = state->nodes > 0 ? state->nodes : 1;
    link->up = state->reachable;
    __atomic_store_n(&m->up, state->reachable, __ATOMIC_RELAXED);
    __atomic_store_n(&m->nodes, link->nodes, __ATOMIC_RELAXED);
    __atomic_store_n(&m->commands, m->commands + state->commands - link->commands,
                     __ATOMIC_RELAXED);
    link->commands = state->commands;
}

static void end_lost(struct wr_store_link *link, bool back)
{
    if (link->lost)
        wr_store_state_back(wr_server_store_state(link->loop->server), back, link->well_ns);
    link->lost = false;
}

/* |looks|: one, or none where it is the news that brings us here. */
static void see_well(struct wr_store_link *link, uint64_t losses, unsigned looks)
{
    if (link->well == 0 || losses != link->losses) {
        link->well = 0;
        link->well_ns = uv_hrtime();
    }
    link->losses = losses;
    link->well += looks;
    if (link->well >= LOOKS_BACK)
        end_lost(link, true);
}

static void see_lost(struct wr_store_link *link, const char *detail)
{
    link->well = 0;
    if (link->looks < LOOKS_PATIENCE) {
        link->looks++;
    } else if (!link->lost) {
        link->lost = true;
        wr_store_state_lost(wr_server_store_state(link->loop->server), link->ops->name, detail);
    }
}

static void tell_news(struct wr_store_link *link)
{
    struct wr_backend_news news;

    while (link->ops->news != NULL && link->ops->news(link->backend, &news))
        wr_log(news.grave ? WR_LOG_WARNING : WR_LOG_INFO, link->ops->name,
               wr_log_text("node", news.node), wr_log_text("change", news.what));
}

static void look(struct wr_store_link *link, unsigned looks)
{
    struct wr_backend_state state;

    tell_news(link);
    link->ops->state(link->backend, &state);
    publish(link, &state);
    if (!state.reachable) {
        see_lost(link, state.detail);
        return;
    }
    link->looks = LOOKS_PATIENCE;
    if (link->lost)
        see_well(link, state.losses, looks);
}

void wr_store_link_look(struct wr_store_link *link)
{
    look(link, 1);
}

void wr_store_link_heard(struct wr_store_link *link, enum wr_remote_result result)
{
    bool news = result == WR_REMOTE_GONE ? !link->lost : !link->up;

    if (link->retired || link->closed || !news)
        return;
    if (result == WR_REMOTE_GONE)
        link->looks = LOOKS_PATIENCE;
    look(link, 0);
}

size_t wr_store_link_peers(const struct wr_store_link *link,
                           struct wr_backend_peer out[WR_BACKEND_PEERS_MAX])
{
    return link->ops->peers != NULL ? link->ops->peers(link->backend, out) : 0;
}

unsigned wr_store_link_nodes(const struct wr_store_link *link)
{
    return link->nodes;
}

/* ---- what it is for ---------------------------------------------------------------------------
 */

void wr_store_link_take(struct wr_store_link *link, struct wr_remote_call *call)
{
    link->ops->take(link->backend, call);
}

void wr_store_link_refund(struct wr_store_link *link, const struct wr_remote_charge *charge,
                          int64_t units, int64_t now_ns)
{
    if (!link->closed)
        link->ops->refund(link->backend, charge, units, now_ns);
}

void wr_store_link_force(struct wr_store_link *link, const struct wr_remote_charge *charge,
                         int64_t units, int64_t now_ns)
{
    if (!link->closed)
        link->ops->force(link->backend, charge, units, now_ns);
}

void wr_store_link_drop(struct wr_store_link *link, const struct wr_remote_charge *charge)
{
    if (!link->closed)
        link->ops->drop(link->backend, charge);
}

/* ---- its life ---------------------------------------------------------------------------------
 */

struct wr_store_link *wr_store_link_open(struct wr_loop *loop, struct wr_handle *handle)
{
    struct wr_store_link *link = calloc(1, sizeof *link);
    struct wr_backend backend = {0};
    int result = link != NULL ? wr_remote_open(&backend, &loop->uv, store_of(handle)) : WEIR_ENOMEM;

    if (result != 0) {
        wr_log(WR_LOG_ERROR, "the store cannot be opened",
               wr_log_text("reason", result == WEIR_EINVAL ? "this build has no such backend"
                                                           : weir_strerror(result)));
        free(link);
        return NULL;
    }
    link->ops = backend.ops;
    link->backend = backend.context;
    link->loop = loop;
    link->handle = handle;
    link->nodes = store_of(handle)->nodes > 0 ? store_of(handle)->nodes : 1;
    wr_handle_ref(handle);
    own(link, handle);
    return link;
}

static void on_left(void *context)
{
    ((struct wr_store_link *)context)->drained = true;
}

void wr_store_link_drain(struct wr_store_link *link)
{
    if (link->ops->leave != NULL)
        link->ops->leave(link->backend, on_left, link);
    else
        link->drained = true;
}

bool wr_store_link_drained(const struct wr_store_link *link)
{
    return link->drained;
}

static void free_unused(struct wr_store_link *link)
{
    if (!link->closed || link->users > 0)
        return;
    wr_handle_unref(link->handle);
    free(link);
}

void wr_store_link_join(struct wr_store_link *link)
{
    link->users++;
}

bool wr_store_link_leave(struct wr_store_link *link)
{
    bool retired = link->retired && !link->closed;

    link->users--;
    retired = retired && link->users == 0;
    free_unused(link);
    return retired;
}

bool wr_store_link_used(const struct wr_store_link *link)
{
    return link->users > 0;
}

void wr_store_link_retire(struct wr_store_link *link)
{
    link->retired = true;
    end_lost(link, false);
    __atomic_store_n(&link->loop->metrics.store.up, 0, __ATOMIC_RELAXED);
}

void wr_store_link_close(struct wr_store_link *link)
{
    wr_store_link_retire(link);
    link->closed = true;
    link->users++; /* what ends now may be the last that points here */
    link->ops->close(link->backend);
    link->users--;
    free_unused(link);
}
