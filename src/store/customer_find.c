/* customer_find.c - from the value of an identity to the number of a customer, on the path of a
 * decision.
 *
 * Problem. The file has SHA-256 digests of keys and nothing else that they could be found by. A
 * SHA-256 is 0.4 us, more than all the rest of a decision.
 *
 * Idea. The file has a secret, as the arena has, and a cache by the key's SipHash under it: lines
 * of four entries {hash, customer and epoch}. The hash is a PRF of 64 bits, so an entry with it is
 * the key's (of a million keys, two share one with a probability of 3e-8). An entry holds while its
 * epoch is the one that its hash has now, which the writer raises after it has changed a key. So it
 * must know the hash: whoever finds a key by its digest puts the hash into the key's cell before
 * the cache may have it.
 *
 * Why a revoked key is never found again. Who fills the cache reads the epoch E first, then finds
 * the key LIVE and has its hash in the cell by a compare-and-swap (or finds it there), under the
 * same meta; only then the entry, with E, is put. The writer changes meta, by a compare-and-swap
 * that sees whatever hash is there, and then raises that hash's epoch. If the filler's swap was
 * first, the writer saw the hash and the entry's E is over; if the writer's was, the filler's fails
 * or finds another meta. A filler that is killed in between leaves an entry that is as good as any.
 *
 * Memory. For a million customers the line, the record and the cells are a miss each, and only the
 * line says where the others are. So there are hints besides, four bytes a key, small enough for
 * the last level of the cache: a guess at the number, by which the others are fetched together with
 * the line. Nothing is believed of them.
 *
 * Rejected: the daemon computing the hashes (it does not have the keys); an entry that names the
 * key's cell, to be compared there (one more miss for every decision); remembering who is nobody's
 * (a new key would not be found; strangers cost a SHA-256 each, as they would without a cache). */
#include <string.h>

#include "store/customers_file.h"

/* ---- hashes -------------------------------------------------------------------------------- */

static void begin_digest(struct wr_sha256 *sha, struct weir_slice identity)
{
    const unsigned char len[4] = {(unsigned char)identity.len, (unsigned char)(identity.len >> 8),
                                  (unsigned char)(identity.len >> 16),
                                  (unsigned char)(identity.len >> 24)};

    wr_sha256_init(sha);
    wr_sha256_add(sha, len, sizeof len);
    wr_sha256_add(sha, identity.ptr, identity.len);
}

void wr_customer_digest(struct weir_slice identity, struct weir_slice value,
                        unsigned char out[WR_SHA256_BYTES])
{
    struct wr_sha256 sha;

    begin_digest(&sha, identity);
    wr_sha256_add(&sha, value.ptr, value.len);
    wr_sha256_finish(&sha, out);
}

void wr_customers_identity(const struct wr_customers *map, struct weir_slice name,
                           struct wr_customers_identity *out)
{
    out->sip = wr_sip_init((struct wr_sip_key){{map->secret[0], map->secret[1]}});
    wr_sip_part(&out->sip, 0, name.ptr, name.len);
    begin_digest(&out->sha, name);
}

uint64_t wr_customers_hash(const struct wr_customers_identity *identity, struct weir_slice value)
{
    struct wr_sip sip = identity->sip;

    wr_sip_part(&sip, 1, value.ptr, value.len);
    return wr_sip_finish(sip) | 1; /* 0 is a hash not known */
}

/* ---- the cache ----------------------------------------------------------------------------- */

static struct wr_cache_line *line_of(const struct wr_customers *map, uint64_t hash)
{
    return &map->cache[wr_mapped_index(hash, map->room)];
}

static uint32_t *hint_of(const struct wr_customers *map, uint64_t hash)
{
    return &map->hints[wr_mapped_index(hash, (uint64_t)map->room * WR_HINTS_PER_ROOM)];
}

/* Never 0. The high bits say which hint it is, so others tell keys apart. */
static uint32_t hint_tag(uint64_t hash)
{
    return (uint32_t)(hash >> 2 & 0xff) << 24 | 0x1000000;
}

void wr_customers_prefetch(const struct wr_customers *map, uint64_t hash)
{
    __builtin_prefetch(hint_of(map, hash));
    __builtin_prefetch(line_of(map, hash));
}

uint32_t wr_customers_guess(const struct wr_customers *map, uint64_t hash)
{
    uint32_t hint = __atomic_load_n(hint_of(map, hash), __ATOMIC_RELAXED);
    uint32_t number = hint & WR_KEY_CUSTOMER_MASK;

    if ((hint & 0xff000000) != hint_tag(hash) || number >= map->room)
        return UINT32_MAX;
    __builtin_prefetch(&map->records[number]);
    return number;
}

static void hint_at(const struct wr_customers *map, uint64_t hash, uint32_t number)
{
    __atomic_store_n(hint_of(map, hash), hint_tag(hash) | number, __ATOMIC_RELAXED);
}

/* Of an entry of |epoch|, but for its version. */
static uint64_t entry_word(uint32_t number, uint32_t epoch)
{
    return WR_CACHE_USED | (uint64_t)(epoch & 0xffffff) << WR_CACHE_EPOCH_SHIFT | number;
}

static bool is_of_epoch(uint64_t word, uint32_t epoch)
{
    return (word & ~WR_KEY_CUSTOMER_MASK & ~WR_CACHE_VERSION_MASK) == entry_word(0, epoch);
}

static bool remembered(const struct wr_customers *map, uint64_t hash, uint32_t epoch,
                       uint32_t *number)
{
    const struct wr_cache_line *line = line_of(map, hash);

    for (unsigned i = 0; i < WR_CACHE_ENTRIES; i++) {
        const struct wr_slot *entry = &line->entry[i];
        uint64_t word = WR_LOAD(&entry->state);

        if (WR_LOAD(&entry->word) != hash || WR_LOAD(&entry->state) != word ||
            !is_of_epoch(word, epoch))
            continue;
        *number = wr_key_customer(word);
        return *number < map->room;
    }
    return false;
}

/* Which entry of a line gives way? One of this key, an empty or void one, or any. */
static unsigned victim_of(const struct wr_customers *map, const struct wr_slot seen[],
                          uint64_t hash)
{
    unsigned victim = (unsigned)(hash >> 12) % WR_CACHE_ENTRIES;

    for (unsigned i = 0; i < WR_CACHE_ENTRIES; i++)
        if (!is_of_epoch(seen[i].state, WR_LOAD(wr_customers_epoch(map, seen[i].word))))
            victim = i;
    for (unsigned i = 0; i < WR_CACHE_ENTRIES; i++)
        if (seen[i].word == hash)
            victim = i;
    return victim;
}

/* Losing to somebody else is harmless: the key is found by its digest once more. */
static void remember(struct wr_customers *map, uint64_t hash, uint32_t number, uint32_t epoch)
{
    struct wr_cache_line *line = line_of(map, hash);
    struct wr_slot seen[WR_CACHE_ENTRIES];
    uint64_t version;
    unsigned victim;

    for (unsigned i = 0; i < WR_CACHE_ENTRIES; i++)
        seen[i] = (struct wr_slot){WR_LOAD(&line->entry[i].word), WR_LOAD(&line->entry[i].state)};
    hint_at(map, hash, number);
    victim = victim_of(map, seen, hash);
    version = (seen[victim].state + WR_CACHE_VERSION) & WR_CACHE_VERSION_MASK;
    (void)wr_cas16(&line->entry[victim], seen[victim].word, seen[victim].state, hash,
                   entry_word(number, epoch) | version);
}

/* ---- finding ------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool find_by_digest(struct wr_customers *map,
                                                     const struct wr_customers_identity *identity,
                                                     struct weir_slice value, uint64_t hash,
                                                     uint32_t *number)
{
    uint32_t epoch = WR_LOAD(wr_customers_epoch(map, hash));
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_sha256 sha = identity->sha;
    struct wr_key_cell *cell;
    uint64_t words[2], meta, known;

    wr_sha256_add(&sha, value.ptr, value.len);
    wr_sha256_finish(&sha, digest);
    memcpy(words, digest, sizeof words);
    cell = wr_customers_key_cell(map, words, &meta);
    *number = wr_key_customer(meta);
    if (cell == NULL)
        return false;
    known = WR_LOAD(&cell->pair.word);
    /* Also where it is there already: that it is this key's, only the swap proves. */
    if (wr_cas16(&cell->pair, known, meta, hash, meta))
        remember(map, hash, *number, epoch);
    return true;
}

bool wr_customers_find(struct wr_customers *map, const struct wr_customers_identity *identity,
                       struct weir_slice value, uint64_t hash, uint32_t *number)
{
    uint32_t epoch = WR_LOAD(wr_customers_epoch(map, hash));

    if (!remembered(map, hash, epoch, number) &&
        !find_by_digest(map, identity, value, hash, number)) {
        *number = 0;
        return false;
    }
    __builtin_prefetch(&map->records[*number]);
    return true;
}
