/* store_in_memory.c - see store_in_memory.h.
 *
 * A key is a tag and a limit's name; its state a word, or stamps oldest first. Keys are in a table
 * of open addresses that doubles. Nothing ever expires but by its algorithm: that is what a store
 * with correct times to live looks like. */
#include "store_in_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/concurrency.h"
#include "algo/fixed_window.h"
#include "algo/sliding_log.h"
#include "base/units.h"

#define NAME_BYTES 72

struct stamp {
    int64_t at_ns;
    uint64_t place;
};

struct entry {
    bool used;
    unsigned char tag[WR_TAG_BYTES];
    char name[NAME_BYTES];
    uint64_t state;
    struct stamp *stamps;
    uint32_t count, size;
};

struct memory_store {
    struct entry *entries;
    size_t size, used; /* size: a power of two */
    unsigned nodes;
    uint64_t calls;
};

static void *must(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "store_in_memory: out of memory\n");
        exit(1);
    }
    return memory;
}

/* ---- keys -------------------------------------------------------------------------------- */

static size_t start_of(const struct memory_store *store, const unsigned char tag[WR_TAG_BYTES],
                       const char *name)
{
    uint64_t hash;

    memcpy(&hash, tag, sizeof hash);
    for (; *name != '\0'; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return (size_t)(hash ^ hash >> 32) & (store->size - 1);
}

static struct entry *slot_for(struct memory_store *store, const unsigned char tag[WR_TAG_BYTES],
                              const char *name)
{
    size_t i = start_of(store, tag, name);

    while (store->entries[i].used && (memcmp(store->entries[i].tag, tag, WR_TAG_BYTES) != 0 ||
                                      strcmp(store->entries[i].name, name) != 0))
        i = (i + 1) & (store->size - 1);
    return &store->entries[i];
}

static void grow(struct memory_store *store)
{
    struct entry *old = store->entries;
    size_t size = store->size;

    store->size *= 2;
    store->entries = must(calloc(store->size, sizeof *store->entries));
    for (size_t i = 0; i < size; i++)
        if (old[i].used)
            *slot_for(store, old[i].tag, old[i].name) = old[i];
    free(old);
}

static struct entry *entry_of(struct memory_store *store, const struct wr_remote_charge *charge)
{
    struct entry *entry = slot_for(store, charge->tag, charge->name);

    if (entry->used)
        return entry;
    if (2 * ++store->used > store->size) {
        grow(store);
        entry = slot_for(store, charge->tag, charge->name);
    }
    entry->used = true;
    memcpy(entry->tag, charge->tag, WR_TAG_BYTES);
    (void)snprintf(entry->name, sizeof entry->name, "%s", charge->name);
    return entry;
}

/* ---- life -------------------------------------------------------------------------------- */

struct memory_store *memory_store_new(unsigned nodes)
{
    struct memory_store *store = must(calloc(1, sizeof *store));

    store->nodes = nodes;
    store->size = 64;
    store->entries = must(calloc(store->size, sizeof *store->entries));
    return store;
}

void memory_store_clear(struct memory_store *store)
{
    for (size_t i = 0; i < store->size; i++)
        free(store->entries[i].stamps);
    memset(store->entries, 0, store->size * sizeof *store->entries);
    store->used = 0;
}

void memory_store_free(struct memory_store *store)
{
    memory_store_clear(store);
    free(store->entries);
    free(store);
}

uint64_t memory_store_calls(const struct memory_store *store)
{
    return store->calls;
}

/* ---- stamps ------------------------------------------------------------------------------ */

static void expire(struct entry *entry, const struct wr_limit *limit, int64_t now_ns)
{
    uint32_t old = 0;

    while (old < entry->count && entry->stamps[old].at_ns <= now_ns - limit->window_ns)
        old++;
    entry->count -= old;
    if (old > 0)
        memmove(entry->stamps, entry->stamps + old, entry->count * sizeof *entry->stamps);
}

static void append(struct entry *entry, int64_t units, int64_t now_ns, uint64_t place)
{
    for (; units > 0; units--) {
        if (entry->count == entry->size) {
            entry->size = entry->size == 0 ? 16 : 2 * entry->size;
            entry->stamps = must(realloc(entry->stamps, entry->size * sizeof *entry->stamps));
        }
        entry->stamps[entry->count++] = (struct stamp){now_ns, place};
    }
}

static void take_stamps(struct entry *entry, const struct wr_remote_charge *charge, int64_t now_ns,
                        struct wr_take *take)
{
    const struct wr_limit *limit = charge->limit;
    uint32_t must_age;

    expire(entry, limit, now_ns);
    if (limit->algo == WR_CONCURRENCY)
        wr_concurrency_take(limit, entry->count, charge->cost == 0, take, &must_age);
    else
        wr_sliding_log_take(limit, entry->count, charge->cost, take, &must_age);
    if (must_age > 0)
        take->retry_after_ns = wr_sliding_log_retry(
            limit, must_age <= entry->count ? entry->stamps[must_age - 1].at_ns : now_ns, now_ns);
}

static void times_of_stamps(const struct entry *entry, struct wr_remote_charge *charge,
                            int64_t now_ns)
{
    charge->next_ns = 0;
    charge->reset_ns = 0;
    if (entry->count == 0)
        return;
    charge->next_ns = wr_sliding_log_retry(charge->limit, entry->stamps[0].at_ns, now_ns);
    charge->reset_ns =
        wr_sliding_log_retry(charge->limit, entry->stamps[entry->count - 1].at_ns, now_ns);
}

/* ---- words ------------------------------------------------------------------------------- */

/* The limit as the store holds it: of a leased token bucket less what can be out as leases for ttl.
 */
static struct wr_limit held(const struct wr_remote_charge *charge)
{
    const struct wr_limit *whole = charge->limit;
    struct wr_limit limit;
    wr_u128 out;

    if (whole->algo != WR_TOKEN_BUCKET || charge->ttl_ns == 0 || whole->units == 0)
        return *whole;
    out = ((wr_u128)whole->units * (uint64_t)charge->ttl_ns + (uint64_t)whole->window_ns - 1) /
          (uint64_t)whole->window_ns;
    if ((int64_t)out >= whole->burst ||
        wr_limit_make(&limit, WR_TOKEN_BUCKET, whole->units, whole->window_ns,
                      whole->burst - (int64_t)out, whole->count_denied != 0) != NULL)
        return *whole;
    return limit;
}

static const struct wr_word_algo *algo_of(const struct wr_limit *limit)
{
    return wr_word_algo((enum wr_algo)limit->algo);
}

/* Until the window of |now_ns| ends; a bucket has none. */
static int64_t window_left(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    int64_t end_ns;

    if (limit->algo == WR_SLIDING_WINDOW)
        return limit->window_ns - now_ns % limit->window_ns;
    if (limit->algo != WR_FIXED_WINDOW)
        return INT64_MAX;
    (void)wr_fixed_window_count(limit, state, now_ns, &end_ns);
    return end_ns - now_ns;
}

/* Of what is left after the cost, up to half, divided by the nodes. */
static void lease(const struct memory_store *store, struct entry *entry,
                  const struct wr_limit *limit, struct wr_remote_charge *charge, int64_t now_ns)
{
    struct wr_take take;

    charge->granted = wr_min_i64(charge->extra, charge->remaining / 2 / (int64_t)store->nodes);
    if (charge->granted <= 0) {
        charge->granted = 0;
        return;
    }
    algo_of(limit)->take(limit, entry->state, now_ns, charge->granted, &take);
    entry->state = take.state;
    charge->remaining = take.remaining;
    charge->lease_ns = wr_min_i64(charge->ttl_ns, window_left(limit, entry->state, now_ns));
}

/* ---- deciding ---------------------------------------------------------------------------- */

static void look(struct entry *entry, struct wr_remote_charge *charge, int64_t now_ns,
                 struct wr_take *take)
{
    struct wr_limit limit = held(charge);

    if (wr_limit_is_word(&limit))
        algo_of(&limit)->take(&limit, entry->state, now_ns, charge->cost, take);
    else
        take_stamps(entry, charge, now_ns, take);
    charge->allowed = take->allowed;
    charge->never = take->never;
    charge->remaining = take->remaining;
    charge->retry_after_ns = take->retry_after_ns;
    charge->delay_ns = take->delay_ns;
    charge->granted = 0;
    charge->lease_ns = 0;
}

static void commit(const struct memory_store *store, struct entry *entry,
                   struct wr_remote_charge *charge, int64_t now_ns, const struct wr_take *take)
{
    struct wr_limit limit = held(charge);

    if (wr_limit_is_word(&limit)) {
        entry->state = take->state;
        charge->receipt[0] = take->state;
        if (charge->extra > 0)
            lease(store, entry, &limit, charge, now_ns);
    } else {
        append(entry, charge->cost, now_ns, charge->place);
        charge->receipt[0] = (uint64_t)now_ns;
    }
}

static void times(struct entry *entry, struct wr_remote_charge *charge, int64_t now_ns)
{
    struct wr_limit limit = held(charge);

    if (wr_limit_is_word(&limit))
        algo_of(&limit)->times(&limit, entry->state, now_ns, &charge->next_ns, &charge->reset_ns);
    else
        times_of_stamps(entry, charge, now_ns);
}

void memory_store_take(struct memory_store *store, struct wr_remote_call *call, int64_t now_ns)
{
    struct wr_take take[WEIR_LIMITS_MAX];
    bool pass = true;

    store->calls++;
    for (unsigned i = 0; i < call->count; i++) {
        look(entry_of(store, &call->charge[i]), &call->charge[i], now_ns, &take[i]);
        pass = pass && (take[i].allowed || (call->shadow >> i & 1) != 0);
    }
    for (unsigned i = 0; i < call->count; i++) {
        struct wr_remote_charge *charge = &call->charge[i];
        if (pass && charge->allowed)
            commit(store, entry_of(store, charge), charge, now_ns, &take[i]);
        else if (!pass && charge->limit->count_denied)
            memory_store_force(store, charge, charge->cost, now_ns);
        times(entry_of(store, charge), charge, now_ns);
    }
}

void memory_store_force(struct memory_store *store, const struct wr_remote_charge *charge,
                        int64_t units, int64_t now_ns)
{
    struct entry *entry = entry_of(store, charge);
    struct wr_limit limit = held(charge);

    if (wr_limit_is_word(&limit)) {
        entry->state = algo_of(&limit)->force(&limit, entry->state, now_ns, units);
        return;
    }
    if (limit.algo == WR_CONCURRENCY || limit.units == 0)
        return;
    expire(entry, &limit, now_ns);
    /* As in the arena: at most twice the limit. */
    append(entry, wr_min_i64(units, 2 * limit.units - (int64_t)entry->count), now_ns, 0);
}

void memory_store_refund(struct memory_store *store, const struct wr_remote_charge *charge,
                         int64_t units, int64_t now_ns)
{
    struct entry *entry = entry_of(store, charge);
    struct wr_limit limit = held(charge);

    if (wr_limit_is_word(&limit)) {
        entry->state =
            algo_of(&limit)->refund(&limit, entry->state, charge->receipt[0], now_ns, units);
        return;
    }
    for (uint32_t i = 0; i < entry->count && units > 0;) {
        if (entry->stamps[i].at_ns != (int64_t)charge->receipt[0] ||
            entry->stamps[i].place != charge->place) {
            i++;
            continue;
        }
        entry->count--;
        units--;
        memmove(entry->stamps + i, entry->stamps + i + 1,
                (entry->count - i) * sizeof *entry->stamps);
    }
}

void memory_store_drop(struct memory_store *store, const struct wr_remote_charge *charge)
{
    struct entry *entry = entry_of(store, charge);

    entry->state = 0;
    entry->count = 0;
}
