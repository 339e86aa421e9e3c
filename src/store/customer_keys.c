/* customer_keys.c - which customer a key leads to, by the key's digest.
 *
 * Problem. Keys are secrets: the database and this file have their digests only. The one writer
 * adds and revokes them, may be killed anywhere, and a revoked key must lead nowhere from then on,
 * in every process, also where it was found a moment ago.
 *
 * Idea. Open addressing with linear probing over cells {digest, hash, meta}. A cell is taken over
 * in three steps: meta says WRITING, the digest is written, meta says LIVE; each of meta's changes
 * is one compare-and-swap that raises its generation. A reader compares digests between two looks
 * at meta. What processes have remembered (customer_find.c) is void once the epoch of the key's
 * hash has gone up, which the writer does after the change.
 *
 * Invariants.
 *   1. A digest changes only while meta says WRITING; who reads the same meta, LIVE, before and
 *      after has read its digest.
 *   2. At most one cell is LIVE with a digest: the writer is alone, and looks through the whole run
 *      first.
 *   3. Cells never become FREE again, so a run is never cut; those that are GONE, or that a killed
 *      writer left WRITING, are taken for new keys.
 *   4. The hash in a cell is of its digest's key, or 0: it is put by a compare-and-swap that fails
 *      when meta has changed since the digests were compared. */
#include <string.h>

#include "store/crash_point.h"
#include "store/customers_file.h"

static void words_of(const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint64_t words[2])
{
    memcpy(words, digest, WR_CUSTOMER_DIGEST_BYTES);
}

static bool same_digest(const struct wr_key_cell *cell, const uint64_t digest[2])
{
    return WR_LOAD(&cell->digest[0]) == digest[0] && WR_LOAD(&cell->digest[1]) == digest[1];
}

struct wr_key_cell *wr_customers_key_cell(const struct wr_customers *map, const uint64_t digest[2],
                                          uint64_t *meta)
{
    for (uint32_t i = 0; i < WR_KEY_PROBES && i < map->key_count; i++) {
        struct wr_key_cell *cell = wr_key_probe(map, digest, i);

        *meta = WR_LOAD(&cell->pair.state);
        if (wr_key_state_of(*meta) == WR_KEY_FREE)
            break;
        if (wr_key_state_of(*meta) == WR_KEY_LIVE && same_digest(cell, digest) &&
            WR_LOAD(&cell->pair.state) == *meta && wr_key_customer(*meta) < map->room)
            return cell;
    }
    *meta = 0;
    return NULL;
}

/* The cell for a new key; NULL: its run is full. */
static struct wr_key_cell *vacancy(const struct wr_customers *map, const uint64_t digest[2])
{
    for (uint32_t i = 0; i < WR_KEY_PROBES && i < map->key_count; i++) {
        struct wr_key_cell *cell = wr_key_probe(map, digest, i);
        if (wr_key_state_of(WR_LOAD(&cell->pair.state)) != WR_KEY_LIVE)
            return cell;
    }
    return NULL;
}

/* Change meta, whatever hash is put meanwhile; |forget| it. What the cell was known by is void. */
static void change(struct wr_customers *map, struct wr_key_cell *cell, enum wr_key_state state,
                   uint32_t number, bool forget)
{
    uint64_t hash, meta, wanted;

    do {
        hash = WR_LOAD(&cell->pair.word);
        meta = WR_LOAD(&cell->pair.state);
        wanted = (meta & ~(WR_KEY_GENERATION - 1)) + WR_KEY_GENERATION;
        wanted |= (uint64_t)state << WR_KEY_STATE_SHIFT | number;
    } while (!wr_cas16(&cell->pair, hash, meta, forget ? 0 : hash, wanted));
    WR_CRASH_POINT("key: changed");
    if (hash != 0)
        wr_customers_void(map, hash);
    WR_CRASH_POINT("key: cache void");
}

int wr_customers_key_set(struct wr_customers *map,
                         const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t number)
{
    struct wr_key_cell *cell;
    uint64_t words[2], meta;

    words_of(digest, words);
    if (!map->writer || number >= map->room)
        return WEIR_EINVAL;
    cell = wr_customers_key_cell(map, words, &meta);
    if (cell != NULL) {
        if (wr_key_customer(meta) != number)
            change(map, cell, WR_KEY_LIVE, number, false);
        return 0;
    }
    cell = vacancy(map, words);
    if (cell == NULL)
        return WEIR_EFULL;
    change(map, cell, WR_KEY_WRITING, 0, true);
    WR_STORE(&cell->digest[0], words[0]);
    WR_CRASH_POINT("key: half a digest");
    WR_STORE(&cell->digest[1], words[1]);
    WR_CRASH_POINT("key: digest written");
    change(map, cell, WR_KEY_LIVE, number, true);
    return 0;
}

bool wr_customers_key_fits(const struct wr_customers *map,
                           const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES])
{
    uint64_t words[2], meta;

    words_of(digest, words);
    return wr_customers_key_cell(map, words, &meta) != NULL || vacancy(map, words) != NULL;
}

uint32_t wr_customers_key_room(const struct wr_customers *map)
{
    return map->key_count;
}

int wr_customers_key_drop(struct wr_customers *map,
                          const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES])
{
    struct wr_key_cell *cell;
    uint64_t words[2], meta;

    words_of(digest, words);
    if (!map->writer)
        return WEIR_EINVAL;
    cell = wr_customers_key_cell(map, words, &meta);
    if (cell == NULL)
        return WEIR_ENOENT;
    change(map, cell, WR_KEY_GONE, 0, true);
    return 0;
}

bool wr_customers_key_get(const struct wr_customers *map,
                          const unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t *number)
{
    uint64_t words[2], meta;
    bool found;

    words_of(digest, words);
    found = wr_customers_key_cell(map, words, &meta) != NULL;
    *number = wr_key_customer(meta);
    return found;
}

bool wr_customers_key_next(const struct wr_customers *map, uint32_t *at,
                           unsigned char digest[WR_CUSTOMER_DIGEST_BYTES], uint32_t *number)
{
    while (*at < map->key_count) {
        const struct wr_key_cell *cell = &map->keys[(*at)++];
        uint64_t meta = WR_LOAD(&cell->pair.state);
        uint64_t words[2] = {WR_LOAD(&cell->digest[0]), WR_LOAD(&cell->digest[1])};

        if (wr_key_state_of(meta) != WR_KEY_LIVE || WR_LOAD(&cell->pair.state) != meta ||
            wr_key_customer(meta) >= map->room) /* damaged */
            continue;
        memcpy(digest, words, sizeof words);
        *number = wr_key_customer(meta);
        return true;
    }
    memset(digest, 0, WR_CUSTOMER_DIGEST_BYTES);
    *number = 0;
    return false;
}
