/* usage_file.h - the bytes of a file of usage, and a process's handle on it. All integers
 * little-endian; docs/formats/usage.md says the same for readers without a C compiler.
 *
 *        0  header        4096 bytes
 *     4096  dirty         room / 8     a bit a cell, in whole pages: changed, not yet in the ledger
 *        .  known         room / 8     likewise: was ever counted in
 *        .  cells         room x 64    four windows each
 *
 * Zero is the empty value of everything. Any bytes are a cell: what they say is a count. */
#ifndef WR_STORE_USAGE_FILE_H
#define WR_STORE_USAGE_FILE_H

#include "store/mapped.h"
#include "store/usage.h"

#define WR_USAGE_MAGIC "\x89weiru\x1a\n"
#define WR_USAGE_VERSION UINT32_C(1)
#define WR_USAGE_ROOM_LIMIT (1U << 24)
#define WR_USAGE_NAME_BYTES 64
#define WR_USAGE_DAY_MASK ((UINT64_C(1) << (64 - WR_USAGE_UNIT_BITS)) - 1)
#define WR_USAGE_BOOT_BYTES 40

struct wr_usage_header {
    struct wr_mapped_header mapped;
    char name[WR_USAGE_NAME_BYTES]; /* of the quota, padded with zeros */
    uint64_t per;                   /* what windows are */
    uint64_t lost_units;
    uint64_t flushed_day; /* all before it is in the ledger; 0: nothing is known */
    char restored_boot[WR_USAGE_BOOT_BYTES]; /* text of the kernel's boot_id */
    uint64_t batch;                          /* of the ledger: written since, or about to be */
    uint64_t taking;                         /* odd: bits may be taken of what is not written */
};

/* cell: four windows, in no order
 *   0  used        day of the window, modulo 2^20, << 44 | units; 0: none
 *   8  over        units of them that were beyond the limit
 * Each changes by one compare-and-swap. */
struct wr_usage_cell {
    _Alignas(64) struct wr_slot window[WR_USAGE_WINDOWS];
};
static_assert(sizeof(struct wr_usage_cell) == 64, "one cache line");
static_assert(sizeof(struct wr_usage_header) <= WR_MAPPED_HEADER_BYTES, "");

struct wr_usage {
    struct wr_mapped mapped;
    struct wr_usage_header *header;
    uint64_t *dirty;
    uint64_t *known;
    struct wr_usage_cell *cells;
    uint32_t room;
};

#endif
