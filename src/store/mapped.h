/* mapped.h - what the mapped files beside the arena have in common: a header that says what they
 * are and for how many customers, a size that follows from that, and how they are opened. */
#ifndef WR_STORE_MAPPED_H
#define WR_STORE_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "store/cas16.h"

#define WR_MAPPED_HEADER_BYTES 4096

/* The first bytes of such a file; written once. */
struct wr_mapped_header {
    unsigned char magic[8];
    uint32_t byte_order; /* WR_BYTE_ORDER_MARK */
    uint32_t version;
    uint64_t layout; /* of the kind: what two builds must agree on */
    uint32_t cas;    /* WR_CAS_PAIR */
    uint32_t room;   /* customers */
    uint64_t size_bytes;
    int64_t created_ns; /* wall clock */
    uint64_t reserved[2];
};
static_assert(sizeof(struct wr_mapped_header) == 64, "");

struct wr_mapped_kind {
    const char *what; /* "a file of customers" */
    char magic[9];
    uint32_t version;
    uint64_t layout;
    uint32_t room_max;
    uint64_t (*size_bytes)(uint32_t room);
    /* Write the rest of the header, WR_MAPPED_HEADER_BYTES in all. False: it cannot. */
    bool (*fill)(struct wr_mapped_header *header, const void *context);
    /* Does the rest of it fit? 0, or an error that |diag| explains. |context| is the same. */
    int (*check)(const struct wr_mapped_header *header, const void *context, struct wr_diag *diag);
};

struct wr_mapped {
    struct wr_mapped_header *header; /* the mapping */
    uint64_t size_bytes;
    uint32_t room;
    int fd;
};

/* Open or make the file at |path|; |room| is that of a new one, 0: there is to be one. All of it is
 * the caller's to close on success, zeros with fd -1 on error. Returns as wr_customers_open. */
int wr_mapped_open(struct wr_mapped *out, const struct wr_mapped_kind *kind, const char *path,
                   uint32_t room, bool must_exist, const void *context, struct wr_diag *diag);
void wr_mapped_close(struct wr_mapped *mapped);

/* Whoever opens |path| from now on gets this file, makes a new one, or gets another: then what they
 * count and what is counted here are apart. A path that cannot be looked at is ITSELF. */
enum wr_mapped_named { WR_MAPPED_ITSELF, WR_MAPPED_NOTHING, WR_MAPPED_ANOTHER };
enum wr_mapped_named wr_mapped_named(const struct wr_mapped *mapped, const char *path);

/* |bytes| in whole pages. */
static inline uint64_t wr_mapped_pages(uint64_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* A number below |count| from the high bits of |hash| first. */
static inline uint64_t wr_mapped_index(uint64_t hash, uint64_t count)
{
    return (uint64_t)((wr_u128)hash * count >> 64);
}

/* ---- bits, one a customer ------------------------------------------------------------------
 *
 * A bit says: look at this one. Who changes something sets it before and after: before, so that a
 * kill between the two leaves it set, and after, as whoever looks may have cleared it and looked
 * too early. The barriers: a change is a compare-and-swap, clearing is one too, so one of the two
 * sees the other. */

static inline bool wr_mapped_bit(const uint64_t *bits, uint32_t number)
{
    return (__atomic_load_n(&bits[number / 64], __ATOMIC_RELAXED) >> (number % 64) & 1) != 0;
}

static inline void wr_mapped_set_bit(uint64_t *bits, uint32_t number)
{
    if (!wr_mapped_bit(bits, number))
        (void)__atomic_fetch_or(&bits[number / 64], UINT64_C(1) << (number % 64), __ATOMIC_SEQ_CST);
}

/* The next bit from |*at| on, below |room|; |*at| is then behind it. |take|: cleared. */
bool wr_mapped_next_bit(uint64_t *bits, uint32_t room, bool take, uint32_t *at, uint32_t *number);

#endif
