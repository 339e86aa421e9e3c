/* leases.c - who asks for leases, and where they are.
 *
 * Problem. When a hot key's lease is spent, every request of that moment would ask the store for
 * another one, and each would get it: a herd, and units for nobody.
 *
 * Idea. The first asks, for more than itself; the others wait for its answer and are then decided
 * anew, from what it brought. So a key costs a command a lease, whatever its rate.
 *
 * Invariants:
 *   1. A question waits for one flight, and a flight ends with its question, however that ends: so
 *      nobody waits for longer than the store's deadline at a time, and nobody twice (MAY_WAIT_NS).
 *   2. Who waits holds nothing.
 *   3. What is remembered was granted under the loop's policy and store, and goes back when they
 * go. */
#include "serve/leases.h"

#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "lib/handle.h"

#define CHAINS 1024U

struct wr_leases {
    struct wr_lease_table sizes;
    struct wr_flight flight[WR_FLIGHTS_MAX];
    struct wr_flight *spare;
    struct wr_flight *chain[CHAINS];
    struct wr_lease_book book;
};

struct wr_leases *wr_leases_new(void)
{
    struct wr_leases *leases = calloc(1, sizeof *leases);

    for (unsigned i = 0; leases != NULL && i < WR_FLIGHTS_MAX; i++) {
        leases->flight[i].next = leases->spare;
        leases->spare = &leases->flight[i];
    }
    return leases;
}

void wr_leases_free(struct wr_leases *leases)
{
    free(leases);
}

/* ---- flights ----------------------------------------------------------------------------------
 */

static struct wr_flight *find(const struct wr_leases *leases, uint64_t key)
{
    struct wr_flight *flight = leases->chain[key % CHAINS];

    while (flight != NULL && flight->key != key)
        flight = flight->next;
    return flight;
}

static void take_off(struct wr_leases *leases, struct wr_question *question, uint64_t key)
{
    struct wr_flight *flight = leases->spare;

    if (flight == NULL) /* then others ask for it as well */
        return;
    leases->spare = flight->next;
    flight->key = key;
    flight->waiting = NULL;
    flight->next = leases->chain[key % CHAINS];
    leases->chain[key % CHAINS] = flight;
    flight->next_owned = question->flight;
    question->flight = flight;
}

static void land(struct wr_leases *leases, struct wr_flight *flight, bool gone,
                 const struct wr_remote_call *of)
{
    struct wr_flight **at = &leases->chain[flight->key % CHAINS];
    struct wr_question *waiting = flight->waiting;

    while (*at != flight)
        at = &(*at)->next;
    *at = flight->next;
    flight->next = leases->spare;
    leases->spare = flight;
    while (waiting != NULL) {
        struct wr_question *next = waiting->next_waiting;
        waiting->flight = NULL;
        wr_question_landed(waiting, gone, of);
        waiting = next;
    }
}

void wr_leases_leave(struct wr_question *question)
{
    struct wr_question **at = &question->flight->waiting;

    while (*at != question)
        at = &(*at)->next_waiting;
    *at = question->next_waiting;
    question->flight = NULL;
}

/* ---- asking -----------------------------------------------------------------------------------
 */

/* Who has waited for half the deadline asks himself. */
static bool may_wait(const struct wr_question *question)
{
    int64_t deadline_ns = wr_policy_settings(question->handle->policy)->store->deadline_ns;

    return question->since_ns == 0 || (int64_t)(uv_hrtime() - question->since_ns) < deadline_ns / 2;
}

static struct wr_flight *to_wait_for(const struct wr_leases *leases,
                                     const struct wr_question *question)
{
    const struct wr_pending *p = &question->pending;

    for (unsigned i = 0; i < p->call.count; i++) {
        uint64_t key = wr_engine_lease_key(p, i);
        struct wr_flight *flight = key != 0 ? find(leases, key) : NULL;
        if (flight != NULL)
            return flight;
    }
    return NULL;
}

static void size(struct wr_leases *leases, struct wr_question *question, unsigned i, unsigned nodes)
{
    struct wr_remote_charge *charge = &question->pending.call.charge[i];
    uint64_t key = wr_engine_lease_key(&question->pending, i);
    const struct wr_lease_want want = {.key = key,
                                       .limit = charge->limit,
                                       .cost = charge->cost,
                                       .nodes = nodes,
                                       .now_ns = question->pending.call.now_ns};

    if (key == 0)
        return;
    wr_lease_size(&leases->sizes, &want, &charge->extra, &charge->ttl_ns);
    if (question->loop->draining || find(leases, key) != NULL)
        charge->extra = 0; /* one lease of a key at a time */
    if (charge->extra > 0)
        take_off(leases, question, key);
}

bool wr_leases_prepare(struct wr_leases *leases, struct wr_question *question, unsigned nodes)
{
    struct wr_flight *flight = to_wait_for(leases, question);

    if (flight != NULL && may_wait(question)) {
        wr_engine_cancel(question->handle->weir->engine, &question->pending,
                         question->pending.call.now_ns);
        question->flight = flight;
        question->next_waiting = flight->waiting;
        flight->waiting = question;
        return false;
    }
    for (unsigned i = 0; i < question->pending.call.count; i++)
        size(leases, question, i, nodes);
    return true;
}

/* ---- granted ----------------------------------------------------------------------------------
 */

bool wr_leases_keep(const struct wr_question *question)
{
    return question->handle == question->loop->handle && !question->loop->draining;
}

static int64_t remember(struct wr_leases *leases, const struct wr_question *question, unsigned i,
                        bool gone, const struct wr_lease_giving *to)
{
    const struct wr_remote_call *call = &question->pending.call;
    const struct wr_remote_charge *charge = &call->charge[i];
    uint64_t key = charge->extra > 0 ? wr_engine_lease_key(&question->pending, i) : 0;

    if (key == 0)
        return 0;
    wr_lease_answered(&leases->sizes, key, gone ? 0 : charge->granted, charge->lease_ns);
    if (gone || charge->granted == 0)
        return 0;
    if (wr_leases_keep(question))
        wr_lease_book_add(&leases->book, key, charge, call->now_ns, to);
    return charge->granted;
}

void wr_leases_landed(struct wr_leases *leases, struct wr_question *question, bool gone,
                      const struct wr_lease_giving *to)
{
    struct wr_loop *loop = question->loop;
    struct wr_flight *flight = question->flight;
    int64_t granted = 0;

    for (unsigned i = 0; i < question->pending.call.count; i++)
        granted += remember(leases, question, i, gone, to);
    if (granted > 0) {
        uint64_t *counter = &loop->metrics.store.lease_granted;
        __atomic_store_n(counter, *counter + (uint64_t)granted, __ATOMIC_RELAXED);
    }
    question->flight = NULL;
    while (flight != NULL) {
        struct wr_flight *next = flight->next_owned;
        land(leases, flight, gone, &question->pending.call);
        flight = next;
    }
}

/* ---- given back -------------------------------------------------------------------------------
 */

int64_t wr_leases_due_ns(const struct wr_leases *leases)
{
    return leases->book.first_ns;
}

void wr_leases_due(struct wr_leases *leases, const struct wr_lease_giving *to)
{
    wr_lease_book_due(&leases->book, to);
}

void wr_leases_return(struct wr_leases *leases, const struct wr_lease_giving *to)
{
    wr_lease_book_return(&leases->book, to);
}
