/* ring_keys.c - a set-associative table of tags, each set a few cache lines.
 *
 * Idea. An entry is a tag and the number of a kind (a name and a limit), so a key costs 20 bytes;
 * all keys of a tag are in its one set. A full set forgets one of its entries, in turn.
 *
 * Invariants.
 *   1. All entries of a tag have the same place.
 *   2. A kind is never forgotten while the table lives: there are as many as the policies of the
 *      fleet have limits, and what comes when kinds are used up is not remembered.
 *
 * Rejected: walking the arena's slots (hashes under its secret say nothing to anybody else); a hash
 * under a secret of all nodes instead (whoever has it could find collisions in every arena). */
#include "remote/ring_keys.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "base/siphash.h"
#include "remote/ring_counts.h"
#include "remote/ring_names.h"
#include "remote/ring_news.h"

#define WAYS 16
#define SETS 65536
#define KINDS_MAX 2048
#define SYNCED_MAX 64

struct entry {
    unsigned char tag[WR_TAG_BYTES];
    uint16_t kind; /* + 1; 0: no entry */
    uint8_t place; /* enum wr_ring_place */
};

_Static_assert(sizeof(struct entry) == 20, "as said above, and in docs/distributed.md");

struct kind {
    struct wr_limit limit;
    char name[WR_RING_NAME_MAX + 1];
};

struct wr_ring_keys {
    struct wr_ring_keys *next;
    unsigned users;
    char id[WR_RING_ID_MAX + 1];
    pthread_mutex_t lock;
    struct wr_sip_key secret;
    struct entry *entries; /* SETS * WAYS */
    struct kind *kinds;
    unsigned kind_count;
    unsigned turn; /* whom a full set forgets */
    uint64_t lost;
    enum wr_ring_status status;
    uint64_t incarnation;
    int64_t since_ns;
    uint64_t synced[SYNCED_MAX];
    unsigned synced_count;
    const void *mover;
    struct wr_ring_news *news;
    struct wr_ring_counts *counts;
    struct wr_ring_names *names;
};

static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct wr_ring_keys *all;

/* ---- life ------------------------------------------------------------------------------------ */

static void free_keys(struct wr_ring_keys *keys)
{
    free(keys->entries);
    free(keys->kinds);
    wr_ring_news_free(keys->news);
    wr_ring_counts_free(keys->counts);
    wr_ring_names_free(keys->names);
    free(keys);
}

static struct wr_ring_keys *make(const char *id)
{
    struct wr_ring_keys *keys = calloc(1, sizeof *keys);

    if (keys == NULL)
        return NULL;
    keys->entries = calloc((size_t)SETS * WAYS, sizeof *keys->entries);
    keys->kinds = calloc(KINDS_MAX, sizeof *keys->kinds);
    keys->news = wr_ring_news_new();
    keys->counts = wr_ring_counts_new();
    keys->names = wr_ring_names_new();
    if (keys->entries == NULL || keys->kinds == NULL || keys->news == NULL ||
        keys->counts == NULL || keys->names == NULL ||
        getrandom(&keys->secret, sizeof keys->secret, 0) != (ssize_t)sizeof keys->secret) {
        free_keys(keys);
        return NULL;
    }
    memcpy(keys->id, id, strnlen(id, WR_RING_ID_MAX));
    (void)pthread_mutex_init(&keys->lock, NULL);
    keys->incarnation = keys->secret.k[0] ^ keys->secret.k[1] << 1;
    keys->since_ns = (int64_t)uv_hrtime();
    keys->next = all;
    all = keys;
    return keys;
}

struct wr_ring_keys *wr_ring_keys_get(const char *id)
{
    struct wr_ring_keys *keys;

    (void)pthread_mutex_lock(&all_lock);
    for (keys = all; keys != NULL && strcmp(keys->id, id) != 0; keys = keys->next)
        ;
    if (keys == NULL)
        keys = make(id);
    if (keys != NULL)
        keys->users++;
    (void)pthread_mutex_unlock(&all_lock);
    return keys;
}

void wr_ring_keys_put(struct wr_ring_keys *keys)
{
    struct wr_ring_keys **at = &all;

    if (keys == NULL)
        return;
    (void)pthread_mutex_lock(&all_lock);
    if (--keys->users == 0) {
        while (*at != keys)
            at = &(*at)->next;
        *at = keys->next;
        (void)pthread_mutex_destroy(&keys->lock);
        free_keys(keys);
    }
    (void)pthread_mutex_unlock(&all_lock);
}

void wr_ring_keys_lock(struct wr_ring_keys *keys)
{
    (void)pthread_mutex_lock(&keys->lock);
}

void wr_ring_keys_unlock(struct wr_ring_keys *keys)
{
    (void)pthread_mutex_unlock(&keys->lock);
}

/* ---- entries --------------------------------------------------------------------------------- */

static size_t set_of(const struct wr_ring_keys *keys, const unsigned char *tag)
{
    struct wr_sip sip = wr_sip_init(keys->secret);

    wr_sip_part(&sip, 0, tag, WR_TAG_BYTES);
    return (size_t)(wr_sip_finish(sip) % SETS) * WAYS;
}

static bool has_tag(const struct entry *entry, const unsigned char *tag)
{
    return entry->kind != 0 && memcmp(entry->tag, tag, WR_TAG_BYTES) == 0;
}

enum wr_ring_place wr_ring_keys_place(const struct wr_ring_keys *keys,
                                      const unsigned char tag[WR_TAG_BYTES])
{
    const struct entry *set = &keys->entries[set_of(keys, tag)];

    for (unsigned i = 0; i < WAYS; i++)
        if (has_tag(&set[i], tag))
            return (enum wr_ring_place)set[i].place;
    return WR_RING_UNKNOWN;
}

/* The number of the kind that |charge| is, from 1; 0: there are too many. */
static uint16_t kind_of(struct wr_ring_keys *keys, const struct wr_remote_charge *charge)
{
    struct kind *kind = keys->kinds;
    size_t len = strnlen(charge->name, WR_RING_NAME_MAX + 1);

    for (unsigned i = 0; i < keys->kind_count; i++, kind++)
        if (strcmp(kind->name, charge->name) == 0 &&
            memcmp(&kind->limit, charge->limit, sizeof kind->limit) == 0)
            return (uint16_t)(i + 1);
    if (keys->kind_count == KINDS_MAX || len > WR_RING_NAME_MAX)
        return 0;
    memcpy(kind->name, charge->name, len);
    kind->limit = *charge->limit;
    return (uint16_t)++keys->kind_count;
}

static bool is_same_name(const struct wr_ring_keys *keys, const struct entry *entry,
                         const char *name)
{
    return strcmp(keys->kinds[entry->kind - 1].name, name) == 0;
}

static bool is_same_limit(const struct wr_ring_keys *keys, const struct entry *entry,
                          const struct wr_limit *limit)
{
    return memcmp(&keys->kinds[entry->kind - 1].limit, limit, sizeof *limit) == 0;
}

void wr_ring_keys_note(struct wr_ring_keys *keys, const struct wr_remote_charge *charge)
{
    struct entry *set = &keys->entries[set_of(keys, charge->tag)], *vacant = NULL;
    uint16_t kind;

    for (unsigned i = 0; i < WAYS; i++) {
        if (set[i].kind == 0)
            vacant = vacant == NULL ? &set[i] : vacant;
        else if (has_tag(&set[i], charge->tag) && is_same_name(keys, &set[i], charge->name)) {
            if (is_same_limit(keys, &set[i], charge->limit))
                return;
            vacant = &set[i]; /* its limit has changed */
            break;
        }
    }
    kind = kind_of(keys, charge);
    if (vacant == NULL) {
        vacant = &set[keys->turn++ % WAYS];
        if (vacant->place == WR_RING_MOVING)
            return;
        keys->lost++;
    }
    *vacant = (struct entry){.kind = kind, .place = WR_RING_HERE};
    memcpy(vacant->tag, charge->tag, WR_TAG_BYTES);
}

void wr_ring_keys_find(struct wr_ring_keys *keys, const unsigned char tag[WR_TAG_BYTES],
                       struct wr_ring_found *out)
{
    const struct entry *set = &keys->entries[set_of(keys, tag)];

    memcpy(out->tag, tag, WR_TAG_BYTES);
    out->count = 0;
    for (unsigned i = 0; i < WAYS; i++) {
        const struct kind *kind;
        struct wr_remote_charge *charge;
        if (!has_tag(&set[i], tag))
            continue;
        kind = &keys->kinds[set[i].kind - 1];
        charge = &out->charge[out->count++];
        *charge = (struct wr_remote_charge){.limit = &kind->limit, .name = kind->name};
        memcpy(charge->tag, tag, WR_TAG_BYTES);
    }
}

bool wr_ring_keys_next(struct wr_ring_keys *keys, size_t *cursor, size_t until,
                       struct wr_ring_found *out)
{
    for (; *cursor < until; (*cursor)++) {
        const struct entry *entry = &keys->entries[*cursor];
        if (entry->kind == 0 || entry->place != WR_RING_HERE)
            continue;
        wr_ring_keys_find(keys, entry->tag, out);
        (*cursor)++;
        return true;
    }
    return false;
}

size_t wr_ring_keys_size(const struct wr_ring_keys *keys)
{
    (void)keys;
    return (size_t)SETS * WAYS;
}

void wr_ring_keys_mark(struct wr_ring_keys *keys, const unsigned char tag[WR_TAG_BYTES],
                       enum wr_ring_place place)
{
    struct entry *set = &keys->entries[set_of(keys, tag)];

    for (unsigned i = 0; i < WAYS; i++) {
        if (!has_tag(&set[i], tag))
            continue;
        set[i].place = (uint8_t)place;
        if (place == WR_RING_UNKNOWN)
            set[i].kind = 0;
    }
}

/* ---- the process as a member ----------------------------------------------------------------- */

struct wr_ring_news *wr_ring_keys_news(const struct wr_ring_keys *keys)
{
    return keys->news;
}

struct wr_ring_counts *wr_ring_keys_counts(const struct wr_ring_keys *keys)
{
    return keys->counts;
}

struct wr_ring_names *wr_ring_keys_names(const struct wr_ring_keys *keys)
{
    return keys->names;
}

enum wr_ring_status wr_ring_keys_status(struct wr_ring_keys *keys)
{
    return __atomic_load_n(&keys->status, __ATOMIC_ACQUIRE);
}

void wr_ring_keys_set_status(struct wr_ring_keys *keys, enum wr_ring_status status)
{
    __atomic_store_n(&keys->status, status, __ATOMIC_RELEASE);
}

uint64_t wr_ring_keys_incarnation(const struct wr_ring_keys *keys)
{
    return keys->incarnation;
}

int64_t wr_ring_keys_since_ns(const struct wr_ring_keys *keys)
{
    return keys->since_ns;
}

static uint64_t hash_of(const struct wr_ring_keys *keys, const char *id)
{
    struct wr_sip sip = wr_sip_init(keys->secret);

    wr_sip_part(&sip, 1, id, strlen(id));
    return wr_sip_finish(sip);
}

static bool is_synced(const struct wr_ring_keys *keys, uint64_t hash)
{
    for (unsigned i = 0; i < keys->synced_count; i++)
        if (keys->synced[i] == hash)
            return true;
    return false;
}

void wr_ring_keys_synced(struct wr_ring_keys *keys, const char *id)
{
    uint64_t hash = hash_of(keys, id);

    wr_ring_keys_lock(keys);
    if (!is_synced(keys, hash) && keys->synced_count < SYNCED_MAX)
        keys->synced[keys->synced_count++] = hash;
    wr_ring_keys_unlock(keys);
}

bool wr_ring_keys_is_synced(struct wr_ring_keys *keys, const char *id)
{
    bool synced;

    wr_ring_keys_lock(keys);
    synced = is_synced(keys, hash_of(keys, id));
    wr_ring_keys_unlock(keys);
    return synced;
}

bool wr_ring_keys_claim(struct wr_ring_keys *keys, const void *loop)
{
    bool ours;

    wr_ring_keys_lock(keys);
    if (keys->mover == NULL)
        keys->mover = loop;
    ours = keys->mover == loop;
    wr_ring_keys_unlock(keys);
    return ours;
}

void wr_ring_keys_release(struct wr_ring_keys *keys, const void *loop)
{
    wr_ring_keys_lock(keys);
    if (keys->mover == loop)
        keys->mover = NULL;
    wr_ring_keys_unlock(keys);
}
