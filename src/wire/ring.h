/* ring.h - what the nodes of a ring say to each other: the one binary argument of each of their
 * private commands, and the binary replies. RESP around it is wire/resp.h's; no I/O here.
 *
 *   WEIR.RING.HELLO hello  -> hello   who I am and how I stand; also the health check
 *   WEIR.RING.TAKE ask     -> answer  decide, give back, charge, forget
 *   WEIR.RING.PUT items    -> +OK     states of keys that are yours now
 *
 * All numbers are little-endian and of fixed width, beginning with the version; byte by byte:
 * docs/formats/ring.md. Limits travel as the 64 bytes that a class of the arena holds. */
#ifndef WR_WIRE_RING_H
#define WR_WIRE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

#define WR_RING_VERSION 1
#define WR_RING_TAG_BYTES 16
#define WR_RING_LIMIT_BYTES 64
#define WR_RING_NAME_MAX 64    /* bytes of a limit's name */
#define WR_RING_ID_MAX 255     /* bytes of a node's address as the ring knows it */
#define WR_RING_STAMPS_MAX 512 /* of one item */
#define WR_RING_ITEMS_MAX 64   /* of one PUT */
/* Bytes that each can have. */
#define WR_RING_CHARGE_BYTES (2 + WR_RING_NAME_MAX + WR_RING_TAG_BYTES + WR_RING_LIMIT_BYTES + 40)
#define WR_RING_ASK_BYTES (6 + WEIR_LIMITS_MAX * WR_RING_CHARGE_BYTES)
#define WR_RING_ANSWER_BYTES (3 + WEIR_LIMITS_MAX * 73)
#define WR_RING_HELLO_BYTES (11 + WR_RING_ID_MAX)
#define WR_RING_ITEM_BYTES                                                        \
    (2 + WR_RING_NAME_MAX + WR_RING_TAG_BYTES + WR_RING_LIMIT_BYTES + 8 + 8 + 2 + \
     8 * WR_RING_STAMPS_MAX)

enum wr_ring_op {
    WR_RING_TAKE,
    WR_RING_JUDGE, /* what it would say: it is refused elsewhere */
    WR_RING_REFUND,
    WR_RING_FORCE,
    WR_RING_DROP,
    WR_RING_OPS
};

enum wr_ring_status {
    WR_RING_JOINING, /* decides what is sent to it; others may still hold its keys */
    WR_RING_READY,
    WR_RING_LEAVING, /* hands its keys over */
    WR_RING_LEFT,
    WR_RING_STATUSES
};

/* Whose state: borrowed from the message when it was read. */
struct wr_ring_key {
    struct weir_slice name; /* 1..WR_RING_NAME_MAX bytes, none of them 0 */
    unsigned char tag[WR_RING_TAG_BYTES];
    unsigned char limit[WR_RING_LIMIT_BYTES]; /* not judged here */
};

struct wr_ring_charge {
    struct wr_ring_key key;
    int64_t cost, extra, ttl_ns; /* >= 0 */
    uint64_t receipt[2];
    bool shadow;
};

struct wr_ring_ask {
    enum wr_ring_op op;
    bool regardless; /* decide although another node may own it: its owner says it is yours */
    uint16_t nodes;  /* 1.. */
    unsigned count;  /* 1..WEIR_LIMITS_MAX */
    struct wr_ring_charge charge[WEIR_LIMITS_MAX];
};

struct wr_ring_verdict {
    bool allowed, never;
    int64_t granted, lease_ns, remaining, retry_after_ns, delay_ns, next_ns, reset_ns; /* >= 0 */
    uint64_t receipt[2];
};

struct wr_ring_answer {
    bool passed;
    unsigned count;
    struct wr_ring_verdict verdict[WEIR_LIMITS_MAX];
};

struct wr_ring_hello {
    enum wr_ring_status status;
    uint64_t incarnation; /* of the process */
    struct weir_slice id; /* 1..WR_RING_ID_MAX */
};

struct wr_ring_item {
    struct wr_ring_key key;
    int64_t now_ns; /* >= 0 */
    uint64_t word;
    unsigned stamps;
    int64_t stamp[WR_RING_STAMPS_MAX]; /* >= 0, ascending */
};

/* Writers: return the length; 0 where it does not fit into |size| or a field is out of range. */
size_t wr_ring_ask_write(char *out, size_t size, const struct wr_ring_ask *ask);
size_t wr_ring_answer_write(char *out, size_t size, const struct wr_ring_answer *answer);
size_t wr_ring_hello_write(char *out, size_t size, const struct wr_ring_hello *hello);
size_t wr_ring_item_write(char *out, size_t size, const struct wr_ring_item *item);

/* Readers: false where the bytes are not exactly one such message of this version. */
bool wr_ring_ask_read(struct weir_slice bytes, struct wr_ring_ask *out);
bool wr_ring_answer_read(struct weir_slice bytes, struct wr_ring_answer *out);
bool wr_ring_hello_read(struct weir_slice bytes, struct wr_ring_hello *out);
/* The first item of |*bytes|, which moves behind it. */
bool wr_ring_item_read(struct weir_slice *bytes, struct wr_ring_item *out);

#endif
