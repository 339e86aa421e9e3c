/* broker.c - a loop's backend: opened, kept or changed by the policy, closed; and the loop's turn,
 * in which doors go on.
 *
 * Invariants:
 *   1. Doors go on from the loop's check, never from within a backend's callback: they may ask
 *      again, close connections, and the backend need not be ready for that.
 *   2. A link stays open as long as a question points to it: what is to be given back goes where it
 *      was taken. */
#include <stdlib.h>

#include "base/arith.h"
#include "base/units.h"
#include "lib/handle.h"
#include "serve/broker_parts.h"

#define BEAT_MS 200
#define DUE_MIN_MS 5 /* leases that end soon after each other are looked at together */
#define DUE_MAX_MS 1000

/* ---- this turn --------------------------------------------------------------------------------
 */

static void on_idle(uv_idle_t *idle)
{
    (void)idle; /* the loop does not sleep */
}

void wr_broker_wake(struct wr_broker *d)
{
    if (!d->closing)
        (void)uv_idle_start(&d->idle, on_idle);
}

void wr_broker_ready(struct wr_broker *d, struct wr_asks *asks)
{
    asks->ready = true;
    asks->previous_ready = NULL;
    asks->next_ready = d->ready;
    if (d->ready != NULL)
        d->ready->previous_ready = asks;
    d->ready = asks;
    wr_broker_wake(d);
}

void wr_broker_unready(struct wr_broker *d, struct wr_asks *asks)
{
    asks->ready = false;
    if (asks->previous_ready != NULL)
        asks->previous_ready->next_ready = asks->next_ready;
    else
        d->ready = asks->next_ready;
    if (asks->next_ready != NULL)
        asks->next_ready->previous_ready = asks->previous_ready;
}

/* Close what nobody points to any more. */
static void reap(struct wr_broker *d)
{
    struct wr_store_link **at = &d->old;

    while (*at != NULL) {
        struct wr_store_link *link = *at;
        if (wr_store_link_used(link)) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        wr_store_link_close(link);
    }
}

static void on_check(uv_check_t *check)
{
    struct wr_broker *d = check->data;

    if (!uv_is_active((uv_handle_t *)&d->idle))
        return;
    (void)uv_idle_stop(&d->idle);
    while (d->ready != NULL) {
        struct wr_asks *asks = d->ready;
        wr_broker_unready(d, asks);
        asks->resume(asks->context);
    }
    reap(d);
}

/* ---- leases -----------------------------------------------------------------------------------
 */

static void return_units(void *context, const struct wr_remote_charge *charge, int64_t units)
{
    struct wr_broker *d = context;

    if (d->link == NULL)
        return;
    wr_broker_count(&d->loop->metrics.store.lease_returned, (uint64_t)units);
    wr_store_link_refund(d->link, charge, units, wr_loop_now(d->loop));
}

struct wr_lease_giving wr_broker_giving(struct wr_broker *d)
{
    return (struct wr_lease_giving){d->loop->handle->weir->engine, wr_loop_now(d->loop),
                                    return_units, d};
}

/* Not while the store is lost: they wait in the arena, where nobody can spend them, until it is
 * back. */
static void on_due(uv_timer_t *timer)
{
    struct wr_broker *d = timer->data;
    struct wr_lease_giving to = wr_broker_giving(d);

    if (d->link != NULL && d->link->up)
        wr_leases_due(d->leases, &to);
    wr_broker_watch_leases(d);
}

void wr_broker_watch_leases(struct wr_broker *d)
{
    int64_t due_ns = wr_leases_due_ns(d->leases), wait_ms;

    if (due_ns == 0 || d->closing || (uv_is_active((uv_handle_t *)&d->due) && d->due_ns <= due_ns))
        return;
    wait_ms = (due_ns - wr_loop_now(d->loop)) / WR_NS_PER_MS + 1;
    wait_ms = wr_max_i64(DUE_MIN_MS, wr_min_i64(wait_ms, DUE_MAX_MS));
    d->due_ns = due_ns;
    (void)uv_timer_start(&d->due, on_due, (uint64_t)wait_ms, 0);
}

/* Under the policy that they were granted under, which |d->link| still holds. */
static void return_leases(struct wr_broker *d)
{
    struct wr_lease_giving to = wr_broker_giving(d);

    if (d->link != NULL)
        to.engine = d->link->handle->weir->engine;
    wr_leases_return(d->leases, &to);
}

/* ---- the store --------------------------------------------------------------------------------
 */

static void on_beat(uv_timer_t *timer)
{
    struct wr_broker *d = timer->data;

    if (d->link != NULL)
        wr_store_link_look(d->link);
}

static void retire(struct wr_broker *d)
{
    struct wr_store_link *link = d->link;

    d->link = NULL;
    if (link == NULL)
        return;
    wr_store_link_retire(link);
    link->next = d->old;
    d->old = link;
    reap(d);
}

void wr_broker_follow(struct wr_broker *d)
{
    struct wr_handle *handle = d->loop->handle;
    bool wanted = wr_policy_settings(handle->policy)->store != NULL;

    return_leases(d);
    if (d->link != NULL && wr_store_link_fits(d->link, handle)) {
        wr_store_link_follow(d->link, handle);
        return;
    }
    retire(d);
    __atomic_store_n(&d->loop->metrics.store.configured, wanted, __ATOMIC_RELAXED);
    if (!wanted || d->closing)
        return;
    d->link = wr_store_link_open(d->loop, handle);
    if (!uv_is_active((uv_handle_t *)&d->beat))
        (void)uv_timer_start(&d->beat, on_beat, BEAT_MS, BEAT_MS);
}

unsigned wr_broker_abandoned(const struct wr_broker *d)
{
    return d->abandoned;
}

size_t wr_broker_peers(const struct wr_broker *d, struct wr_backend_peer out[WR_BACKEND_PEERS_MAX])
{
    return d->link != NULL ? wr_store_link_peers(d->link, out) : 0;
}

bool wr_broker_take(struct wr_broker *d, struct wr_remote_call *call)
{
    if (d->link == NULL || d->closing)
        return false;
    wr_store_link_take(d->link, call);
    return true;
}

/* ---- the end ----------------------------------------------------------------------------------
 */

void wr_broker_drain(struct wr_broker *d)
{
    d->draining = true;
    return_leases(d);
    d->drained_ns = uv_hrtime();
    if (d->link != NULL)
        wr_store_link_drain(d->link);
}

bool wr_broker_busy(struct wr_broker *d)
{
    /* What is given back has left this process a turn later. */
    return d->asking > 0 || (d->link != NULL && (uv_hrtime() - d->drained_ns < 50000000 ||
                                                 !wr_store_link_drained(d->link)));
}

static void close_link(struct wr_store_link *link)
{
    if (link != NULL)
        wr_store_link_close(link);
}

void wr_broker_close(struct wr_broker *d)
{
    d->closing = true;
    (void)uv_idle_stop(&d->idle);
    while (d->old != NULL) {
        struct wr_store_link *link = d->old;
        d->old = link->next;
        close_link(link);
    }
    close_link(d->link);
    d->link = NULL;
    uv_close((uv_handle_t *)&d->idle, NULL);
    uv_close((uv_handle_t *)&d->check, NULL);
    uv_close((uv_handle_t *)&d->beat, NULL);
    uv_close((uv_handle_t *)&d->due, NULL);
}

struct wr_broker *wr_broker_new(struct wr_loop *loop)
{
    struct wr_broker *d = calloc(1, sizeof *d);

    if (d == NULL)
        return NULL;
    d->leases = wr_leases_new();
    if (d->leases == NULL) {
        free(d);
        return NULL;
    }
    d->loop = loop;
    (void)uv_idle_init(&loop->uv, &d->idle);
    (void)uv_check_init(&loop->uv, &d->check);
    (void)uv_timer_init(&loop->uv, &d->beat);
    (void)uv_timer_init(&loop->uv, &d->due);
    d->idle.data = d->check.data = d->beat.data = d->due.data = d;
    (void)uv_check_start(&d->check, on_check);
    return d;
}

void wr_broker_free(struct wr_broker *d)
{
    if (d == NULL)
        return;
    while (d->spare != NULL) {
        struct wr_question *next = d->spare->next;
        free(d->spare);
        d->spare = next;
    }
    wr_leases_free(d->leases);
    free(d);
}
