/* layout.h - the bytes of an arena file. All integers little-endian; docs/formats/arena.md says the
 * same for readers without a C compiler.
 *
 *        0  header       2048 bytes
 *     2048  claims        256 x   8
 *     4096  classes     class x 128
 *        .  cells      2 x ban x  16   of bans
 *        .  records        ban x 256   of bans
 *        .  buckets    bucket x 128   eight slots of 16 bytes, two adjacent cache lines
 *        .  heads        head x  64   of lists of stamps
 *        .  nodes        node x  64   of lists of stamps
 *
 * The counts follow from the file's size and the share of lists (wr_geometry_of), so a header whose
 * counts disagree with its size is damaged. Zero is the empty value of everything: an arena is made
 * by writing its header into a file of zeros.
 *
 * A reference to a head or a node is its index + 1; 0 refers to nothing. Every reference is checked
 * where it is used: the bytes of the file are input, and nothing in them is believed. */
#ifndef WR_STORE_LAYOUT_H
#define WR_STORE_LAYOUT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arith.h"

#define WR_ARENA_MAGIC                                                         \
    "\x89weir\n\x1a\n" /* no text file begins so; CR-LF and 7-bit damage shows \
                        */
#define WR_ARENA_VERSION UINT32_C(2)
#define WR_BYTE_ORDER_MARK UINT32_C(0x0a0b0c0d)
#define WR_CAS_PAIR UINT32_C(1) /* slots change by one 16-byte compare-and-swap */

#define WR_HEADER_BYTES 2048
#define WR_CLAIMS 256 /* processes that may have an arena open at once */
#define WR_CLASSES_OFFSET 4096
#define WR_BUCKET_SLOTS 8 /* two-choice and 4-way fill up sooner; 8-way costs 0-4 % over 4-way */
#define WR_NODE_TICKS 15
#define WR_LIST_MAX 65535 /* stamps of one list: its count has 16 bits */
#define WR_BOOT_ID_BYTES 40
#define WR_BANS_MAX 4096      /* records: a cell names one by twelve bits */
#define WR_BYTES_PER_BAN 8192 /* of an arena: so many bans as fit in a 28th of it */
#define WR_BAN_CELLS 2        /* for each record, so that runs of cells stay short */
#define WR_BAN_NAME_MAX 64    /* bytes of the name of an identity */
#define WR_BAN_REASON_MAX 120 /* bytes of a reason */
#define WR_BAN_TEXT_WORDS 30  /* of a record */

/* ---- slots -------------------------------------------------------------------------------------
 *
 *   0  word    fingerprint, bits 12..63: the high 52 bits of the key's hash
 *              class,       bits  0..11: 1..4095; a word of 0 is an empty slot, its state is 0 too
 *   8  state   of the algorithm; for classes with lists, the reference of the head, 1..2^32-1
 *
 * Both change together, by one 16-byte compare-and-swap, so a kill leaves the old or the new. */
struct wr_slot {
    _Alignas(16) uint64_t word;
    uint64_t state;
};

struct wr_bucket {
    struct wr_slot slot[WR_BUCKET_SLOTS];
};

#define WR_CLASS_MASK UINT64_C(0xfff)

/* ---- classes -----------------------------------------------------------------------------------
 *
 *   0  params          64 bytes: a struct wr_limit, opaque here
 *  64  log_window_ns   0: slots of this class hold a word
 *  72  log_tick_ns
 *  80  sequence        odd: valid; even: free or being written; goes up with each change
 *  88  reserved        0
 *  96  users[4]        bit c: the process with claim c may write slots of this class
 *
 * Written under the gate (claim.h); read by anybody as a seqlock. */
struct wr_class_entry {
    uint64_t params[8];
    int64_t log_window_ns;
    int64_t log_tick_ns;
    uint64_t sequence;
    uint64_t reserved;
    uint64_t users[WR_CLAIMS / 64];
};

/* ---- bans --------------------------------------------------------------------------------------
 *
 * cell, a struct wr_slot, changed as one
 *   0  word            bits 12..63: high 52 bits of the caller's hash; bits 0..11: its record, from
 *                      1 on; 0: never used, and nothing lies behind it
 *   8  state           moment at which the ban ends, ns; 2^63-1: never; 0: lifted
 *
 * record
 *   0  sequence        odd: valid; even: being written
 *   8  hash            of the caller, in full
 *  16  text            a struct wr_ban_text
 *
 * A record that no cell names is free. Both are written inside the gate; see ban.c. */
struct wr_ban_record {
    uint64_t sequence;
    uint64_t hash;
    uint64_t text[WR_BAN_TEXT_WORDS];
};

struct wr_ban_text {
    int64_t since_ns;
    uint8_t ip[16];
    uint8_t kind;   /* enum wr_ban_kind */
    uint8_t prefix; /* of a network, in IPv6 terms */
    uint8_t name_len;
    uint8_t reason_len;
    char name[WR_BAN_NAME_MAX]; /* of the identity; not terminated */
    char reason[WR_BAN_REASON_MAX];
    char reserved[28];
};

/* What bans there may be: never less than there are, so that most look-ups need no more. */
struct wr_ban_summary {
    _Alignas(128) uint64_t count; /* 0: no ban at all */
    uint64_t prefixes[3];         /* bit p: a network of p bits, 0..128 */
    uint64_t values;              /* 1: a value of a named identity */
};

/* ---- lists of stamps ---------------------------------------------------------------------------
 *
 * head
 *   0  owner           who holds the lock: claim + 1 in bits 0..8, its generation above; 0: nobody
 *   4  selector        its lowest bit says which copy is valid; goes up with each commit
 *   8  word            of the slot that this list belongs to; 0: the head is free
 *  16  slot            index of that slot
 *  24  last_ns[2]      moment of the newest stamp, a multiple of the class's tick
 *  40  copy[2]         12 bytes each:
 *        0  first      node of the oldest stamp          in a free head, copy[0].first refers to
 * the 4  last       node of the newest stamp          next free one 8  count      stamps, 0..65535
 *       10  offset     of the oldest stamp in its node, 0..14
 *       11  reserved   0
 *
 * node
 *   0  ticks[15]       ascending modulo 2^32; the distance to the newest one is what counts
 *  60  next            node of the following stamps; in a free node, the next free one
 */
struct wr_list_copy {
    uint32_t first;
    uint32_t last;
    uint16_t count;
    uint8_t offset;
    uint8_t reserved;
};

struct wr_log_head {
    _Alignas(64) uint32_t owner;
    uint32_t selector;
    uint64_t word;
    uint64_t slot;
    int64_t last_ns[2];
    struct wr_list_copy copy[2];
};

struct wr_node {
    _Alignas(64) uint32_t ticks[WR_NODE_TICKS];
    uint32_t next;
};

/* ---- claims ------------------------------------------------------------------------------------
 *
 *   0  generation      goes up whenever a process takes this claim: an owner word with another
 *                      generation belongs to a process that is gone
 *   4  pid             for people only
 *
 * That a claim is held is no byte of the file but a lock on its first byte, which the kernel drops
 * when the process dies. */
struct wr_claim {
    uint32_t generation;
    uint32_t pid;
};

/* A free list of heads or nodes, and those never used yet.
 *   0  free            tag in bits 32..63 (goes up with each change), reference in bits 0..31
 *   8  fresh           how many have ever been given out, in order of index */
struct wr_pool {
    _Alignas(128) uint64_t free;
    uint64_t fresh;
};

struct wr_header {
    /*   0: identity, written once */
    unsigned char magic[8];
    uint32_t byte_order;
    uint32_t version;
    uint64_t layout; /* sizes of the structures: wr_layout_word */
    uint32_t cas;    /* how slots change: WR_CAS_PAIR */
    uint32_t node_share;
    uint64_t size_bytes;
    uint64_t class_count;
    uint64_t bucket_count;
    uint64_t head_count;
    /*  64 */
    uint64_t node_count;
    int64_t created_ns;
    uint64_t secret[2];
    uint64_t ban_count;
    uint64_t reserved_identity[3];
    /* 128: time base, written by the first opener of a boot; recorded_ns about once a second */
    char boot_id[WR_BOOT_ID_BYTES]; /* text of the kernel's boot_id, padded with zeros */
    int64_t offset_ns;              /* CLOCK_BOOTTIME + offset = time on the arena's clock */
    int64_t recorded_ns;            /* the arena's clock never starts before this */
    int64_t wall_ahead_ns;          /* of the machine's clock, before the arena's; 0: together */
    /* 192: counters, enum wr_arena_counter */
    uint64_t counters[8];
    /* 256: claims taken, and claims given back in order: unequal, somebody was killed */
    uint64_t opens;
    uint64_t closes;
    uint64_t sweep; /* next head that wr_list_reclaim looks at */
    uint64_t reserved_attach[13];
    /* 384 */
    struct wr_pool nodes;
    /* 512 */
    struct wr_pool heads;
    /* 640 */
    struct wr_ban_summary bans;
};

static_assert(sizeof(struct wr_slot) == 16, "a slot is what one compare-and-swap covers");
static_assert(offsetof(struct wr_slot, state) == 8, "word first");
static_assert(sizeof(struct wr_bucket) == 128, "two adjacent cache lines");
static_assert(sizeof(struct wr_class_entry) == 128, "");
static_assert(offsetof(struct wr_class_entry, sequence) == 80, "");
static_assert(offsetof(struct wr_class_entry, users) == 96, "");
static_assert(sizeof(struct wr_list_copy) == 12, "");
static_assert(sizeof(struct wr_log_head) == 64, "one cache line");
static_assert(offsetof(struct wr_log_head, last_ns) == 24, "");
static_assert(offsetof(struct wr_log_head, copy) == 40, "");
static_assert(sizeof(struct wr_node) == 64, "one cache line");
static_assert(offsetof(struct wr_node, next) == 60, "");
static_assert(sizeof(struct wr_claim) == 8, "");
static_assert(sizeof(struct wr_ban_record) == 256, "");
static_assert(offsetof(struct wr_ban_record, text) == 16, "");
static_assert(sizeof(struct wr_ban_text) == WR_BAN_TEXT_WORDS * sizeof(uint64_t), "");
static_assert(offsetof(struct wr_ban_text, kind) == 24, "");
static_assert(offsetof(struct wr_ban_text, name) == 28, "");
static_assert(offsetof(struct wr_ban_text, reason) == 92, "");
static_assert(offsetof(struct wr_header, node_count) == 64, "");
static_assert(offsetof(struct wr_header, boot_id) == 128, "");
static_assert(offsetof(struct wr_header, offset_ns) == 168, "");
static_assert(offsetof(struct wr_header, counters) == 192, "");
static_assert(offsetof(struct wr_header, opens) == 256, "");
static_assert(offsetof(struct wr_header, nodes) == 384, "");
static_assert(offsetof(struct wr_header, heads) == 512, "");
static_assert(offsetof(struct wr_header, ban_count) == 96, "");
static_assert(offsetof(struct wr_header, bans) == 640, "");
static_assert(sizeof(struct wr_header) <= WR_HEADER_BYTES, "");
static_assert(WR_HEADER_BYTES + WR_CLAIMS * sizeof(struct wr_claim) == WR_CLASSES_OFFSET, "");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the arena's integers are little-endian");

/* The sizes that two builds must agree on, in one word. */
static inline uint64_t wr_layout_word(void)
{
    return (uint64_t)sizeof(struct wr_bucket) | (uint64_t)sizeof(struct wr_class_entry) << 12 |
           (uint64_t)sizeof(struct wr_log_head) << 24 | (uint64_t)sizeof(struct wr_node) << 36 |
           (uint64_t)WR_CLAIMS << 48;
}

/* What is where in a file of a given size. */
struct wr_geometry {
    uint64_t size_bytes;
    uint64_t class_count;
    uint64_t bucket_count;
    uint64_t head_count;
    uint64_t node_count;
    uint64_t ban_count;
    uint64_t cells_at; /* offsets in bytes */
    uint64_t records_at;
    uint64_t buckets_at;
    uint64_t heads_at;
    uint64_t nodes_at;
};

/* |size_bytes| in WR_ARENA_BYTES_MIN .. MAX, |node_share| 0..90. One head for two nodes: a list of
 * up to 15 stamps takes one of each, so neither runs out long before the other. */
static inline struct wr_geometry wr_geometry_of(uint64_t size_bytes, unsigned node_share)
{
    const uint64_t trio = sizeof(struct wr_log_head) + 2 * sizeof(struct wr_node);
    struct wr_geometry g;
    uint64_t rest, trios;

    g.size_bytes = size_bytes;
    g.class_count = wr_min_u64(WR_CLASS_MASK + 1, size_bytes / 8 / sizeof(struct wr_class_entry));
    g.ban_count = wr_min_u64(WR_BANS_MAX, size_bytes / WR_BYTES_PER_BAN / 4 * 4);
    g.cells_at = WR_CLASSES_OFFSET + g.class_count * sizeof(struct wr_class_entry);
    g.records_at = g.cells_at + g.ban_count * WR_BAN_CELLS * sizeof(struct wr_slot);
    g.buckets_at = g.records_at + g.ban_count * sizeof(struct wr_ban_record);
    rest = size_bytes - g.buckets_at;
    trios = wr_min_u64(rest / 100 * node_share / trio, UINT32_MAX / 2 - 1);
    g.head_count = trios;
    g.node_count = 2 * trios;
    g.bucket_count = (rest - trios * trio) / sizeof(struct wr_bucket);
    g.heads_at = g.buckets_at + g.bucket_count * sizeof(struct wr_bucket);
    g.nodes_at = g.heads_at + g.head_count * sizeof(struct wr_log_head);
    return g;
}

#endif
