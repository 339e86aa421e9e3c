/* customer_find.c - from the value of an identity to the number of a customer, on the path of a
 * decision.
 *
 * Problem. The file has SHA-256 digests of keys and nothing else that they could be found by. A
 * SHA-256 is 0.4 us, more than all the rest of a decision.
 *
 * Idea. The file has a secret, as the arena has, and a cache by the key's SipHash under it: entries
 * {hash, customer and epoch}. The hash is a PRF of 64 bits, so an entry with it is the key's (of a
 * million keys, two share one with a probability of 3e-8). An entry holds while its epoch is the
 * one that its hash has now, which the writer raises after it has changed a key. So it must know
 * the hash: whoever finds a key by its digest puts the hash into the key's cell before the cache
 * may have it.
 *
 * Why a revoked key is never found again. Who fills the cache reads the epoch E first, then finds
 * the key LIVE and has its hash in the cell by a compare-and-swap (or finds it there), under the
 * same meta; only then the entry, with E, is put. The writer changes meta, by a compare-and-swap
 * that sees whatever hash is there, and then raises that hash's epoch. If the filler's swap was
 * first, the writer saw the hash and the entry's E is over; if the writer's was, the filler's fails
 * or finds another meta. A filler that is killed in between leaves an entry that is as good as any.
 *
 * Memory. With a million customers each thing that is looked at is a miss, of the cache and of the
 * TLB, and only what says whose key it is says where the record and the cells are: two misses, one
 * after the other, are the least. So entries are in the records themselves, which are needed
 * anyway, and what leads there are hints of four bytes a key: a guess at the number, by which
 * record and cells are fetched together. Nothing is believed of a hint; the record's entry proves
 * it. Lines of four entries by hash hold all keys besides: for those whose hint was overwritten,
 * and for customers who use more keys than their record has entries.
 *
 * Rejected: the daemon computing the hashes (it does not have the keys); an entry that names the
 * key's cell, to be compared there (one more miss for every decision); hints of a process's own in
 * huge pages (a tenth less time, and each process has them in the cache for itself); remembering
 * who is nobody's (a new key would not be found; strangers cost a SHA-256 each, as they would
 * without a cache). */
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

/* ---- hints --------------------------------------------------------------------------------- */

static struct wr_hints *hints_of(const struct wr_customers *map, uint64_t hash)
{
    return &map->hints[wr_mapped_index(hash, map->hints_count)];
}

/* Never 0, and no customer's bits. The high bits of the hash say which group it is, so others tell
 * keys apart. */
static uint32_t hint_tag(const struct wr_customers *map, uint64_t hash)
{
    return ((uint32_t)hash | 1) << map->hint_shift;
}

static uint32_t hint_mask(const struct wr_customers *map)
{
    return (UINT32_C(1) << map->hint_shift) - 1;
}

void wr_customers_prefetch(const struct wr_customers *map, uint64_t hash)
{
    __builtin_prefetch(hints_of(map, hash));
}

/* Without a branch for each hint: which one it is, nothing could predict. */
uint32_t wr_customers_guess(const struct wr_customers *map, uint64_t hash)
{
    const struct wr_hints *hints = hints_of(map, hash);
    uint32_t tag = hint_tag(map, hash), mask = hint_mask(map), number = UINT32_MAX;

    for (unsigned i = 0; i < WR_HINTS; i++) {
        uint32_t hint = __atomic_load_n(&hints->hint[i], __ATOMIC_RELAXED);
        number = (hint & ~mask) == tag ? hint & mask : number;
    }
    if (number >= map->room)
        return UINT32_MAX;
    __builtin_prefetch(&map->records[number]);
    return number;
}

/* Instead of one with the same tag, of none, or of any. */
static void hint_at(const struct wr_customers *map, uint64_t hash, uint32_t number)
{
    struct wr_hints *hints = hints_of(map, hash);
    uint32_t tag = hint_tag(map, hash), mask = hint_mask(map);
    unsigned victim = number % WR_HINTS;

    for (unsigned i = 0; i < WR_HINTS; i++)
        if (__atomic_load_n(&hints->hint[i], __ATOMIC_RELAXED) == 0)
            victim = i;
    for (unsigned i = 0; i < WR_HINTS; i++)
        if ((__atomic_load_n(&hints->hint[i], __ATOMIC_RELAXED) & ~mask) == tag)
            victim = i;
    __atomic_store_n(&hints->hint[victim], tag | number, __ATOMIC_RELAXED);
}

/* ---- the cache ----------------------------------------------------------------------------- */

static struct wr_cache_line *line_of(const struct wr_customers *map, uint64_t hash)
{
    return &map->cache[wr_mapped_index(hash, map->line_count)];
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

/* Is one of |count| entries that of |hash|, and still true? */
static inline bool remembered(const struct wr_customers *map, const struct wr_slot entries[],
                              unsigned count, uint64_t hash, uint32_t *number)
{
    uint32_t epoch = WR_LOAD(wr_customers_epoch(map, hash));

    for (unsigned i = 0; i < count; i++) {
        const struct wr_slot *entry = &entries[i];
        uint64_t word = WR_LOAD(&entry->state);

        if (WR_LOAD(&entry->word) != hash || WR_LOAD(&entry->state) != word ||
            !is_of_epoch(word, epoch))
            continue;
        *number = wr_key_customer(word);
        return *number < map->room;
    }
    return false;
}

/* Remember in one of |count| entries whose key it is: in one of this key, or one that is empty or
 * void, or else in number |otherwise|, if there is such. Losing to somebody else is harmless: the
 * key is found by its digest once more. */
static void put(const struct wr_customers *map, struct wr_slot entries[], unsigned count,
                unsigned otherwise, uint64_t hash, uint64_t entry)
{
    unsigned victim = otherwise;
    struct wr_slot seen[WR_CACHE_ENTRIES];

    for (unsigned i = 0; i < count; i++) {
        seen[i] = (struct wr_slot){WR_LOAD(&entries[i].word), WR_LOAD(&entries[i].state)};
        if (!is_of_epoch(seen[i].state, WR_LOAD(wr_customers_epoch(map, seen[i].word))))
            victim = i;
    }
    for (unsigned i = 0; i < count; i++)
        if (seen[i].word == hash)
            victim = i;
    if (victim < count)
        (void)wr_cas16(&entries[victim], seen[victim].word, seen[victim].state, hash,
                       entry | ((seen[victim].state + WR_CACHE_VERSION) & WR_CACHE_VERSION_MASK));
}

static void remember(struct wr_customers *map, uint64_t hash, uint32_t number, uint32_t epoch)
{
    uint64_t entry = entry_word(number, epoch);

    put(map, map->records[number].entry, WR_RECORD_ENTRIES, WR_RECORD_ENTRIES, hash, entry);
    put(map, line_of(map, hash)->entry, WR_CACHE_ENTRIES, (unsigned)(hash >> 12) % WR_CACHE_ENTRIES,
        hash, entry);
    hint_at(map, hash, number);
}

/* ---- finding ------------------------------------------------------------------------------- */

static __attribute__((noinline)) bool find_by_digest(struct wr_customers *map,
                                                     const struct wr_customers_identity *identity,
                                                     struct weir_slice value, uint64_t hash,
                                                     uint32_t *number)
{
    uint32_t epoch = WR_LOAD(wr_customers_epoch(map, hash)); /* first: see above */
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

/* His record is elsewhere than was guessed, or has no room for this key. */
static __attribute__((noinline)) bool find_by_line(struct wr_customers *map,
                                                   const struct wr_customers_identity *identity,
                                                   struct weir_slice value, uint64_t hash,
                                                   uint32_t guess, uint32_t *number)
{
    if (remembered(map, line_of(map, hash)->entry, WR_CACHE_ENTRIES, hash, number)) {
        if (*number != guess)
            hint_at(map, hash, *number);
    } else if (!find_by_digest(map, identity, value, hash, number)) {
        *number = 0;
        return false;
    }
    __builtin_prefetch(&map->records[*number]);
    return true;
}

bool wr_customers_find(struct wr_customers *map, const struct wr_customers_identity *identity,
                       struct weir_slice value, uint64_t hash, uint32_t guess, uint32_t *number)
{
    if (guess < map->room &&
        remembered(map, map->records[guess].entry, WR_RECORD_ENTRIES, hash, number))
        return true;
    return find_by_line(map, identity, value, hash, guess, number);
}
