/* memcached.c - the backend on memcached: servers, and the vtable.
 *
 * Which server has a caller's counters is told by rendezvous hashing over the servers as they are
 * in the policy, dead or alive: a dead one's callers are decided as the policy says for a store
 * that is gone, and find their counters again when it is back.
 *
 * Rejected: remapping a dead server's callers to others (their counts would begin anew twice). */
#include "remote/memcached.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arith.h"
#include "remote/address.h"
#include "remote/memcached_store.h"

#define SWEEP_MS 2U /* how late a deadline may be noticed */

static void close_handles(struct wr_mc_store *store);

/* ---- deadlines ----------------------------------------------------------------------------- */

static bool is_idle(const struct wr_mc_store *store)
{
    bool idle = store->job_count == 0;

    for (size_t i = 0; i < store->server_count; i++)
        idle = idle && wr_mc_link_is_idle(store->link[i]);
    return idle;
}

static void on_sweep(uv_timer_t *timer)
{
    struct wr_mc_store *store = timer->data;
    int64_t now_ns = (int64_t)uv_hrtime();

    wr_mc_jobs_expire(store, now_ns);
    if (store->end_ns != 0 && (is_idle(store) || now_ns >= store->end_ns))
        close_handles(store);
    else if (store->first != NULL || store->end_ns != 0)
        (void)uv_timer_start(timer, on_sweep, SWEEP_MS, 0);
}

/* Callers with a deadline make the sweep necessary. */
static void see_to_deadlines(struct wr_mc_store *store)
{
    if (!uv_is_active((uv_handle_t *)&store->sweep))
        (void)uv_timer_start(&store->sweep, on_sweep, SWEEP_MS, 0);
}

/* ---- the vtable ---------------------------------------------------------------------------- */

/* Highest random weight (Thaler and Ravishankar 1998): a server that comes or goes moves its own
 * keys only. */
static struct wr_mc_link *link_of(const struct wr_mc_store *store, const unsigned char *tag)
{
    uint64_t best = 0;
    size_t chosen = 0;

    for (size_t i = 0; i < store->server_count; i++) {
        struct wr_sip sip = store->server[i];
        uint64_t weight;
        wr_sip_part(&sip, 0, (const char *)tag, WR_TAG_BYTES);
        weight = wr_sip_finish(sip);
        if (i == 0 || weight > best) {
            best = weight;
            chosen = i;
        }
    }
    return store->link[chosen];
}

static void gone_at_once(struct wr_mc_store *store, struct wr_remote_call *call,
                         enum wr_remote_trouble trouble, int64_t retry_ns)
{
    call->trouble = trouble;
    call->retry_ns = retry_ns;
    store->state.gone[trouble]++;
    call->done(call, WR_REMOTE_GONE);
}

static void take(void *backend, struct wr_remote_call *call)
{
    struct wr_mc_store *store = backend;
    struct wr_mc_job *job;

    store->state.calls++;
    for (unsigned i = 0; i < call->count; i++) {
        const struct wr_mc_link *link = link_of(store, call->charge[i].tag);
        if (wr_mc_link_trouble(link) == WR_TROUBLE_BREAKER) {
            gone_at_once(store, call, WR_TROUBLE_BREAKER, wr_mc_link_retry_ns(link));
            return;
        }
    }
    job = wr_mc_job_new(store, call->count, WR_MC_JOB_TAKE);
    if (job == NULL) {
        gone_at_once(store, call, WR_TROUBLE_BUSY, 0);
        return;
    }
    job->call = call;
    job->now_ns = call->now_ns;
    job->shadow = call->shadow;
    for (unsigned i = 0; i < call->count; i++)
        wr_mc_job_set(job, i, &call->charge[i], link_of(store, call->charge[i].tag));
    see_to_deadlines(store);
    wr_mc_job_start(job);
}

static void change(struct wr_mc_store *store, enum wr_mc_op op,
                   const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    wr_mc_job_change(store, op, link_of(store, charge->tag), charge, units, now_ns);
    see_to_deadlines(store);
}

static void refund(void *backend, const struct wr_remote_charge *charge, int64_t units,
                   int64_t now_ns)
{
    change(backend, WR_MC_JOB_REFUND, charge, units, now_ns);
}

static void force(void *backend, const struct wr_remote_charge *charge, int64_t units,
                  int64_t now_ns)
{
    change(backend, WR_MC_JOB_FORCE, charge, units, now_ns);
}

static void drop(void *backend, const struct wr_remote_charge *charge)
{
    change(backend, WR_MC_JOB_DROP, charge, 0, 0);
}

static void state(const void *backend, struct wr_backend_state *out)
{
    const struct wr_mc_store *store = backend;

    *out = store->state;
    out->reachable = true;
    out->nodes = store->nodes;
    out->detail[0] = '\0';
    for (size_t i = 0; i < store->server_count && out->reachable; i++) {
        const char *detail = wr_mc_link_detail(store->link[i]);
        out->reachable = detail[0] == '\0';
        (void)snprintf(out->detail, sizeof out->detail, "%s", detail);
    }
}

/* ---- opening and closing ------------------------------------------------------------------- */

static void store_release(struct wr_mc_store *store)
{
    if (--store->open_handles > 0)
        return;
    wr_addresses_free(store->addresses, store->address_count);
    free(store->prefix);
    free(store);
}

static void on_link_changed(void *owner)
{
    struct wr_mc_store *store = owner;

    store->wake = true;
    wr_mc_jobs_resume(store);
}

static void on_link_closed(void *owner)
{
    store_release(owner);
}

static void on_timer_closed(uv_handle_t *handle)
{
    store_release(handle->data);
}

static void close_handles(struct wr_mc_store *store)
{
    wr_mc_jobs_close(store, true);
    for (size_t i = 0; i < store->server_count; i++)
        wr_mc_link_close(store->link[i]);
    uv_close((uv_handle_t *)&store->sweep, on_timer_closed);
}

/* What is given back in the last turn takes another round trip, or some: a word is read first. */
static void close_store(void *backend)
{
    struct wr_mc_store *store = backend;

    store->end_ns = (int64_t)uv_hrtime() + store->deadline_ns;
    wr_mc_jobs_close(store, false);
    if (is_idle(store))
        close_handles(store);
    else
        see_to_deadlines(store);
}

/* All nodes choose alike: by the names in the policy, under the same key. */
static void hash_server(struct wr_mc_store *store, size_t i)
{
    static const struct wr_sip_key everybody = {{0, 0}};
    const struct wr_policy_address *address = &store->addresses[i];
    const char *name = address->host != NULL ? address->host : address->path;

    store->server[i] = wr_sip_init(everybody);
    wr_sip_part(&store->server[i], 0, name, strlen(name));
    wr_sip_part(&store->server[i], 0, &address->port, sizeof address->port);
}

static bool open_links(struct wr_mc_store *store)
{
    for (size_t i = 0; i < store->address_count; i++) {
        struct wr_mc_link_options options = {.loop = store->loop,
                                             .address = &store->addresses[i],
                                             .deadline_ns = store->deadline_ns,
                                             .reply = wr_mc_job_reply,
                                             .changed = on_link_changed,
                                             .closed = on_link_closed,
                                             .owner = store};
        hash_server(store, i);
        store->link[i] = wr_mc_link_open(&options);
        if (store->link[i] == NULL)
            return false;
        store->server_count++;
        store->open_handles++;
    }
    return true;
}

static const struct wr_backend_ops ops = {
    .name = "memcached",
    .take = take,
    .refund = refund,
    .force = force,
    .drop = drop,
    .state = state,
    .close = close_store,
};

int wr_memcached_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *policy)
{
    struct wr_mc_store *store = calloc(1, sizeof *store);

    *out = (struct wr_backend){0};
    if (store == NULL)
        return WEIR_ENOMEM;
    store->loop = loop;
    store->deadline_ns = policy->deadline_ns;
    store->nodes = policy->nodes > 0 ? policy->nodes : 1;
    store->address_count = wr_min_u64(policy->address_count, WR_MC_SERVERS_MAX);
    store->prefix = strdup(policy->prefix);
    store->addresses = wr_addresses_copy(policy->addresses, store->address_count);
    (void)uv_timer_init(loop, &store->sweep);
    store->sweep.data = store;
    store->open_handles = 1;
    if (store->prefix == NULL || store->addresses == NULL || !open_links(store)) {
        close_store(store);
        return WEIR_ENOMEM;
    }
    *out = (struct wr_backend){&ops, store};
    return 0;
}
