/* customers_file.h - the bytes of a customers.map file, and a process's handle on it. All integers
 * little-endian; docs/formats/customers.md says the same for readers without a C compiler.
 *
 *        0  header        4096 bytes
 *     4096  plans           64 x  64   names, padded with zeros
 *     8192  epochs        4096 x   4
 *    24576  wants         room / 8     a bit a customer, in whole pages
 *        .  records       room x  64   in whole pages
 *        .  keys      3 x room x  32   in whole pages; open addressing by digest
 *        .  cache     room / 2 x  64   lines of four entries, in whole pages
 *        .  hints     room / 2 x  16   groups of four: whose record is worth fetching
 *
 * Zero is the empty value of everything. Bytes of the file are input: each number in them is
 * checked where it is used. */
#ifndef WR_STORE_CUSTOMERS_FILE_H
#define WR_STORE_CUSTOMERS_FILE_H

#include "store/customers.h"
#include "store/mapped.h"

#define WR_CUSTOMERS_MAGIC "\x89weirc\x1a\n"
#define WR_CUSTOMERS_VERSION UINT32_C(2)
#define WR_CUSTOMER_EPOCHS 4096
#define WR_KEYS_PER_ROOM 3  /* full at two keys a customer, when runs get long */
#define WR_KEY_PROBES 1024  /* cells of a run at most: at two thirds full, 211 are expected */
#define WR_CACHE_ENTRIES 4  /* of a line */
#define WR_RECORD_ENTRIES 2 /* in a customer's record: most have no more keys in use */
#define WR_ROOM_PER_LINE 2
#define WR_HINTS 4 /* of a group */
#define WR_ROOM_PER_HINTS 2

struct wr_customers_header {
    struct wr_mapped_header mapped;
    uint64_t secret[2];  /* of the hash that finds keys without SHA-256 */
    uint64_t mark;       /* the writer's */
    uint64_t plan_count; /* names there are, 0..64; goes up after one is written */
};

/* customer
 *   0  id
 *   8  reserved
 *  16  word       plan 0..7, plan after 8..15, anchor 16..23, flags 24..31, sequence 32..63
 *  24  until_ns
 *  32  entry[2]   of the cache, for keys of this customer
 * Word and until_ns change by one compare-and-swap; the sequence goes up each time. |id| is written
 * while the flags have no ACTIVE. */
struct wr_customer_cell {
    _Alignas(64) int64_t id;
    uint64_t reserved;
    struct wr_slot pair;
    struct wr_slot entry[WR_RECORD_ENTRIES];
};

/* key
 *   0  digest[2]
 *  16  hash       SipHash of the same under the file's secret; 0: not seen yet
 *  24  meta       customer 0..23, state 24..25, generation 26..63
 * The second half changes by one compare-and-swap; the generation goes up whenever the key or whom
 * it leads to changes. The digest is written in state WRITING. */
struct wr_key_cell {
    _Alignas(16) uint64_t digest[2];
    struct wr_slot pair;
};
enum wr_key_state { WR_KEY_FREE = 0, WR_KEY_LIVE = 1, WR_KEY_GONE = 2, WR_KEY_WRITING = 3 };
#define WR_KEY_CUSTOMER_MASK UINT64_C(0xffffff)
#define WR_KEY_STATE_SHIFT 24
#define WR_KEY_GENERATION (UINT64_C(1) << 26) /* one of them */

/* entry of the cache, in a line or in a record
 *   0  hash
 *   8  word       customer 0..23, version 24..38, epoch 39..62, 1 in bit 63
 * Changes by one compare-and-swap; the version goes up each time, so that who reads the same word
 * before and after the hash has read one entry. It holds as long as the epoch of its hash
 * (epochs[hash / 2 mod 4096]) is the one in it, modulo 2^24. */
#define WR_CACHE_VERSION (UINT64_C(1) << 24) /* one of them */
#define WR_CACHE_VERSION_MASK (UINT64_C(0x7fff) << 24)
#define WR_CACHE_EPOCH_SHIFT 39
#define WR_CACHE_USED (UINT64_C(1) << 63)

struct wr_cache_line {
    _Alignas(64) struct wr_slot entry[WR_CACHE_ENTRIES];
};

/* hint       customer in the low bits, as many as room - 1 has; above a tag of the hash, whose
 *            lowest bit is 1; 0: none
 * Four of them, where any key of the group's may have one. */
struct wr_hints {
    _Alignas(16) uint32_t hint[WR_HINTS];
};

static_assert(sizeof(struct wr_customers_header) == 96, "");
static_assert(sizeof(struct wr_customer_cell) == 64, "one cache line");
static_assert(sizeof(struct wr_key_cell) == 32, "");
static_assert(sizeof(struct wr_cache_line) == 64, "one cache line");
static_assert(sizeof(struct wr_hints) == 16, "within a cache line");
static_assert(WR_CUSTOMERS_ROOM_LIMIT == WR_KEY_CUSTOMER_MASK + 1, "");

struct wr_customers {
    struct wr_mapped mapped;
    struct wr_customers_header *header;
    char (*plans)[WR_CUSTOMER_PLAN_BYTES];
    uint32_t *epochs;
    uint64_t *wants;
    struct wr_customer_cell *records;
    struct wr_key_cell *keys;
    struct wr_cache_line *cache;
    struct wr_hints *hints;
    uint32_t room;
    uint32_t key_count;
    uint32_t line_count;
    uint32_t hints_count;
    unsigned hint_shift; /* bits of a hint that are a customer */
    uint64_t secret[2];
    bool writer;
};

/* Look the key with |digest| up by its digest; NULL: nobody's. |*meta| is as it was read. */
struct wr_key_cell *wr_customers_key_cell(const struct wr_customers *map, const uint64_t digest[2],
                                          uint64_t *meta);

static inline unsigned wr_key_state_of(uint64_t meta)
{
    return (unsigned)(meta >> WR_KEY_STATE_SHIFT & 3);
}

static inline uint32_t wr_key_customer(uint64_t meta)
{
    return (uint32_t)(meta & WR_KEY_CUSTOMER_MASK);
}

static inline struct wr_key_cell *wr_key_probe(const struct wr_customers *map,
                                               const uint64_t digest[2], uint32_t i)
{
    uint64_t at = wr_mapped_index(digest[0], map->key_count) + i;

    return &map->keys[at < map->key_count ? at : at - map->key_count];
}

static inline uint32_t *wr_customers_epoch(const struct wr_customers *map, uint64_t hash)
{
    return &map->epochs[hash / 2 % WR_CUSTOMER_EPOCHS];
}

/* All that the cache says of keys whose hash is |hash| is void. */
static inline void wr_customers_void(struct wr_customers *map, uint64_t hash)
{
    (void)__atomic_add_fetch(wr_customers_epoch(map, hash), 1, __ATOMIC_SEQ_CST);
}

#endif
