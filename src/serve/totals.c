/* totals.c - counters that stay monotonic over reloads.
 *
 * The problem. A loop counts by the index that a limit has in the policy it decides by: an array,
 * no lock, no look-up. A reload gives the same index to another limit. And the counters of
 * envoy_ratelimit's rules live in the engine, which goes with its policy.
 *
 * The idea. A table of names outlives policies. A policy that becomes known is given, for each of
 * its limits and rules, the entry of its name. When a loop takes up the next policy it adds its
 * counts to the old one's entries and starts again from zero; when a policy is closed its engine's
 * counts are added. A reader adds the entries and what has not been added to them yet. Swap, close
 * and read exclude each other by a mutex, which no decision ever takes.
 *
 * Invariants:
 *   1. What a name counts never falls while a policy in force has it: each count is either in its
 *      entry or in a counter that is still read, and moves under the mutex.
 *   2. loop->handle changes under the mutex, so a reader sees a loop's counts with the policy that
 *      they were counted by.
 *   3. Memory is bounded: the names of known policies and WR_TOTALS_KEPT_MAX more. A limit that is
 *      removed and comes back goes on where it was, unless more than that were removed.
 *
 * Rejected: series numbers kept by the server, looked up at each decision (a cache line more for
 * every one); sending loops a message and waiting for all answers (a stalled loop stalls the
 * scrape). */
#include "serve/totals.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((entry)->lost = true)
#include <uthash.h>

#include "lib/handle.h"

#define COUNTERS WR_LIMIT_COUNTERS
_Static_assert((int)COUNTERS >= (int)WR_ENVOY_STATS, "an entry has room for both kinds");

struct entry {
    char *name;
    uint64_t kept[COUNTERS];    /* of policies that are gone */
    uint64_t running[COUNTERS]; /* scratch of a reader */
    uint64_t told;              /* the reading it was last told in */
    unsigned users;             /* known policies that have the name */
    bool lost;                  /* no memory to put it into the table */
    UT_hash_handle hh;
};

/* Entries of one kind, and the reader's copy of them. */
struct table {
    struct entry *entries;
    size_t unused;
    struct wr_total *totals;
    size_t room;
};

/* A policy: for each of its limits and rules the entry of its name. */
struct wr_known {
    struct wr_totals *totals;
    struct wr_known *next, **link;
    const struct wr_handle *handle;
    size_t limit_count, rule_count;
    struct entry **limits, **rules;
};

struct wr_totals {
    pthread_mutex_t mutex;
    struct table limits, rules;
    struct wr_known *known;
    struct wr_loop *loops[WR_TOTALS_LOOPS_MAX];
    size_t loop_count;
    uint64_t readings;
};

/* ---- names --------------------------------------------------------------------------------- */

static void drop(struct table *table, struct entry *entry)
{
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): it thinks that the table is still the entry's */
    HASH_DEL(table->entries, entry);
    free(entry->name);
    free(entry);
}

static struct entry *add(struct table *table, const char *name)
{
    struct entry *entry = calloc(1, sizeof *entry);

    if (entry == NULL)
        return NULL;
    entry->name = strdup(name);
    if (entry->name != NULL)
        HASH_ADD_KEYPTR(hh, table->entries, entry->name, strlen(entry->name), entry);
    if (entry->name == NULL || entry->lost) {
        free(entry->name);
        free(entry);
        return NULL;
    }
    table->unused++;
    return entry;
}

static bool use(struct table *table, const char *name, struct entry **out)
{
    struct entry *entry;

    HASH_FIND(hh, table->entries, name, strlen(name), entry);
    if (entry == NULL)
        entry = add(table, name);
    *out = entry;
    if (entry == NULL)
        return false;
    table->unused -= entry->users == 0;
    entry->users++;
    return true;
}

static void leave(struct table *table, struct entry *entry)
{
    if (entry != NULL && --entry->users == 0)
        table->unused++;
}

static void sweep(struct table *table)
{
    struct entry *entry, *next;

    if (table->unused <= WR_TOTALS_KEPT_MAX)
        return;
    HASH_ITER(hh, table->entries, entry, next)
    {
        if (entry->users == 0)
            drop(table, entry);
    }
    table->unused = 0;
}

static void clear(struct table *table)
{
    struct entry *entry = table->entries;

    HASH_CLEAR(hh, table->entries); /* the table only; the entries stay a list */
    while (entry != NULL) {
        struct entry *next = entry->hh.next;
        free(entry->name);
        free(entry);
        entry = next;
    }
    free(table->totals);
}

/* ---- policies ------------------------------------------------------------------------------ */

static void dispose(struct wr_known *known)
{
    for (size_t i = 0; known->limits != NULL && i < known->limit_count; i++)
        leave(&known->totals->limits, known->limits[i]);
    for (size_t i = 0; known->rules != NULL && i < known->rule_count; i++)
        leave(&known->totals->rules, known->rules[i]);
    free(known->limits);
    free(known->rules);
    free(known);
}

static bool fill(struct wr_totals *totals, struct wr_known *known)
{
    const struct wr_policy *policy = known->handle->policy;
    const struct wr_envoy *envoy = wr_policy_envoy(policy);
    bool good;

    known->limit_count = wr_policy_limit_count(policy);
    known->rule_count = envoy != NULL ? wr_envoy_rule_count(envoy) : 0;
    known->limits = calloc(known->limit_count + 1, sizeof(struct entry *));
    known->rules = calloc(known->rule_count + 1, sizeof(struct entry *));
    good = known->limits != NULL && known->rules != NULL;
    for (size_t i = 0; good && i < known->limit_count; i++)
        good = use(&totals->limits, wr_policy_limit(policy, i)->name, &known->limits[i]);
    for (size_t i = 0; good && i < known->rule_count; i++)
        good = use(&totals->rules, wr_envoy_rule(envoy, i)->path, &known->rules[i]);
    return good;
}

int wr_totals_learn(struct wr_totals *totals, struct wr_handle *handle)
{
    struct wr_known *known = calloc(1, sizeof *known);
    bool good;

    if (known == NULL)
        return WEIR_ENOMEM;
    known->totals = totals;
    known->handle = handle;
    (void)pthread_mutex_lock(&totals->mutex);
    good = fill(totals, known);
    if (good) {
        known->next = totals->known;
        known->link = &totals->known;
        if (known->next != NULL)
            known->next->link = &known->next;
        totals->known = known;
        handle->known = known;
    } else {
        dispose(known);
    }
    (void)pthread_mutex_unlock(&totals->mutex);
    return good ? 0 : WEIR_ENOMEM;
}

/* Add what the engine of |known| has counted, to what is kept or to what is running. */
static void add_rules(const struct wr_known *known, bool keep)
{
    for (size_t i = 0; i < known->rule_count; i++) {
        uint64_t *to = keep ? known->rules[i]->kept : known->rules[i]->running;
        for (unsigned c = 0; c < WR_ENVOY_STATS; c++)
            to[c] += wr_engine_envoy_stat(known->handle->weir->engine, i, (enum wr_envoy_stat)c);
    }
}

void wr_totals_forget(struct wr_handle *handle)
{
    struct wr_known *known = handle->known;
    struct wr_totals *totals;

    if (known == NULL)
        return;
    totals = known->totals;
    (void)pthread_mutex_lock(&totals->mutex);
    add_rules(known, true);
    *known->link = known->next;
    if (known->next != NULL)
        known->next->link = known->link;
    dispose(known);
    sweep(&totals->limits);
    sweep(&totals->rules);
    (void)pthread_mutex_unlock(&totals->mutex);
    handle->known = NULL;
}

/* ---- loops --------------------------------------------------------------------------------- */

/* Add what |loop| has counted by the limits of its policy. */
static void add_limits(struct wr_loop *loop, bool keep)
{
    const struct wr_known *known = loop->handle->known;

    for (size_t i = 0; known != NULL && i < known->limit_count; i++) {
        uint64_t *to = keep ? known->limits[i]->kept : known->limits[i]->running;
        for (unsigned c = 0; c < WR_LIMIT_COUNTERS; c++) {
            uint64_t *counter = &loop->metrics.limit[i][c];
            to[c] += __atomic_load_n(counter, __ATOMIC_RELAXED);
            if (keep)
                __atomic_store_n(counter, 0, __ATOMIC_RELAXED);
        }
    }
}

static bool is_there(const struct wr_totals *totals, const struct wr_loop *loop)
{
    for (size_t i = 0; i < totals->loop_count; i++)
        if (totals->loops[i] == loop)
            return true;
    return false;
}

void wr_totals_swap(struct wr_totals *totals, struct wr_loop *loop, struct wr_handle *next)
{
    (void)pthread_mutex_lock(&totals->mutex);
    if (loop->handle != NULL)
        add_limits(loop, true);
    loop->handle = next;
    if (next != NULL && !is_there(totals, loop) && totals->loop_count < WR_TOTALS_LOOPS_MAX)
        totals->loops[totals->loop_count++] = loop;
    for (size_t i = 0; next == NULL && i < totals->loop_count; i++)
        if (totals->loops[i] == loop)
            totals->loops[i] = totals->loops[--totals->loop_count];
    (void)pthread_mutex_unlock(&totals->mutex);
}

/* ---- reading ------------------------------------------------------------------------------- */

static void add_all(uint64_t *to, const uint64_t *from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

static void add_store(struct wr_store_metrics *to, const struct wr_store_metrics *from)
{
    uint64_t nodes = __atomic_load_n(&from->nodes, __ATOMIC_RELAXED);

    to->nodes = nodes > to->nodes ? nodes : to->nodes;
    add_all(&to->configured, &from->configured, 1);
    add_all(&to->up, &from->up, 1);
    add_all(&to->calls, &from->calls, 1);
    add_all(&to->commands, &from->commands, 1);
    add_all(to->gone, from->gone, WR_TROUBLES);
    add_all(to->latency, from->latency, WR_LATENCY_BUCKETS + 1);
    add_all(&to->latency_sum_ns, &from->latency_sum_ns, 1);
    add_all(&to->lease_granted, &from->lease_granted, 1);
    add_all(&to->lease_spent, &from->lease_spent, 1);
    add_all(&to->lease_returned, &from->lease_returned, 1);
}

static void add_loop(struct wr_counted *out, const struct wr_metrics *metrics)
{
    for (unsigned d = 0; d < WR_DOORS; d++) {
        struct wr_door_metrics *to = &out->door[d];
        const struct wr_door_metrics *from = &metrics->door[d];
        add_all(&to->requests, &from->requests, 1);
        add_all(&to->bad_requests, &from->bad_requests, 1);
        /* In this order: a connection that comes and goes meanwhile is never closed twice. */
        add_all(&to->connections_closed, &from->connections_closed, 1);
        add_all(&to->connections_opened, &from->connections_opened, 1);
        add_all(&to->deadline_closed, &from->deadline_closed, 1);
        add_all(to->latency, from->latency, WR_LATENCY_BUCKETS + 1);
        add_all(&to->latency_sum_ns, &from->latency_sum_ns, 1);
    }
    add_all(out->outcome, metrics->outcome, 4);
    add_all(&out->refused_unlogged, &metrics->refused_unlogged, 1);
    add_store(&out->store, &metrics->store);
}

static void add_running(struct wr_totals *totals)
{
    struct entry *entry, *next;

    HASH_ITER(hh, totals->limits.entries, entry, next)
    {
        memset(entry->running, 0, sizeof entry->running);
    }
    HASH_ITER(hh, totals->rules.entries, entry, next)
    {
        memset(entry->running, 0, sizeof entry->running);
    }
    for (size_t i = 0; i < totals->loop_count; i++)
        if (totals->loops[i]->handle != NULL)
            add_limits(totals->loops[i], false);
    for (const struct wr_known *known = totals->known; known != NULL; known = known->next)
        add_rules(known, false);
}

static bool reserve(struct table *table, size_t count)
{
    struct wr_total *larger;

    if (count <= table->room)
        return true;
    larger = realloc(table->totals, count * sizeof *larger);
    if (larger == NULL)
        return false;
    table->totals = larger;
    table->room = count;
    return true;
}

static struct wr_total total_of(const char *name, const struct entry *entry)
{
    struct wr_total total = {.name = name};

    for (unsigned c = 0; c < COUNTERS; c++)
        total.count.by_limit[c] = entry->kept[c] + entry->running[c];
    return total;
}

static void tell(struct wr_totals *totals, const struct wr_known *known, struct wr_counted *out)
{
    const struct wr_policy *policy = known->handle->policy;

    for (size_t i = 0; i < known->limit_count; i++) {
        struct wr_total *total = &totals->limits.totals[out->limit_count++];
        *total = total_of(wr_policy_limit(policy, i)->name, known->limits[i]);
        total->shared = wr_policy_limit(policy, i)->shared;
    }
    for (size_t i = 0; i < known->rule_count; i++) {
        if (known->rules[i]->told == totals->readings)
            continue;
        known->rules[i]->told = totals->readings;
        totals->rules.totals[out->rule_count++] =
            total_of(wr_envoy_rule(wr_policy_envoy(policy), i)->path, known->rules[i]);
    }
    out->limits = totals->limits.totals;
    out->rules = totals->rules.totals;
}

int wr_totals_read(struct wr_totals *totals, const struct wr_handle *handle, struct wr_counted *out)
{
    const struct wr_known *known = handle->known;
    bool good;

    memset(out, 0, sizeof *out);
    (void)pthread_mutex_lock(&totals->mutex);
    good = known != NULL && reserve(&totals->limits, known->limit_count) &&
           reserve(&totals->rules, known->rule_count);
    totals->readings++;
    for (size_t i = 0; good && i < totals->loop_count; i++)
        add_loop(out, &totals->loops[i]->metrics);
    if (good) {
        add_running(totals);
        tell(totals, known, out);
    }
    (void)pthread_mutex_unlock(&totals->mutex);
    return good ? 0 : WEIR_ENOMEM;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct wr_totals *wr_totals_new(void)
{
    struct wr_totals *totals = calloc(1, sizeof *totals);

    if (totals != NULL)
        (void)pthread_mutex_init(&totals->mutex, NULL);
    return totals;
}

void wr_totals_free(struct wr_totals *totals)
{
    if (totals == NULL)
        return;
    clear(&totals->limits);
    clear(&totals->rules);
    (void)pthread_mutex_destroy(&totals->mutex);
    free(totals);
}
