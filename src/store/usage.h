/* usage.h - what each customer of a host has used of one quota: a mapped file with a cell of exact
 * counts for each customer, never evicted. Valid after SIGKILL of any process at any instant; all
 * that was counted is still there. Byte by byte: docs/formats/usage.md.
 *
 * A cell holds the last WR_USAGE_WINDOWS windows, each told by the civil day it begins on: the one
 * that counts, and those before it, so that a late settlement goes to the window it was taken in,
 * and a ledger that could not be written for some windows has missed nothing. What a window is and
 * what taking means is said elsewhere (algo/quota.h); here two words per window change together. */
#ifndef WR_STORE_USAGE_H
#define WR_STORE_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "store/mapped.h"
#include "weir/weir.h"

struct wr_usage; /* one process's handle; needs nothing after fork */
struct wr_slot;

#define WR_USAGE_SUFFIX ".usage" /* QUOTA.usage, in the directory of customers */
#define WR_USAGE_WINDOWS 4       /* of one cell: a cache line */
#define WR_USAGE_UNIT_BITS 44    /* of the word |used|: the day above, 20 bits */
#define WR_USAGE_UNITS_MAX ((UINT64_C(1) << WR_USAGE_UNIT_BITS) - 1)

#define WR_USAGE_PER_ANY 0

struct wr_usage_options {
    const char *path;
    const char *name; /* of the quota */
    uint32_t room;    /* of a new file: that of customers.map; one that is there is used as it is,
                         with a warning where this is larger */
    uint8_t per;      /* what windows are, opaque: a file with other ones is refused, unless this
                         is WR_USAGE_PER_ANY of one that must exist; so is one of another name */
    bool must_exist;
};

/* As wr_customers_open; there is no writer: every process counts. */
int wr_usage_open(struct wr_usage **out, const struct wr_usage_options *options,
                  struct wr_diag *diag);
void wr_usage_close(struct wr_usage *usage); /* NULL is allowed */

uint32_t wr_usage_room(const struct wr_usage *usage);
/* That of the file at |path|, which need not be opened for it. 0: it cannot be told. */
uint32_t wr_usage_room_at(const char *path);

/* One more than the highest number whose cell was ever counted in, of the file at |path|; 0: none,
 * or there is no such file. Reads a bit a cell. */
uint32_t wr_usage_end_at(const char *path);
uint8_t wr_usage_per(const struct wr_usage *usage);
uint64_t wr_usage_bytes(const struct wr_usage *usage);

/* What has the file's name at |path| now? */
enum wr_mapped_named wr_usage_named(const struct wr_usage *usage, const char *path);

/* ---- on the path of a decision -------------------------------------------------------------
 *
 * Any number of threads and processes; one cache line; no allocation, no lock, no system call. */

void wr_usage_prefetch(const struct wr_usage *usage, uint32_t number);

/* A window of a cell as it was read: what wr_usage_put expects to find unchanged. */
struct wr_usage_view {
    uint64_t used, over; /* day << WR_USAGE_UNIT_BITS | units, and units among them that were beyond
                            the limit; zeros: nothing was counted in that window */
    struct wr_slot *pair; /* private, as are: */
    uint64_t was_used, was_over;
};

/* Find the window that begins on |day| in the cell of customer |number|. False: there is no such
 * cell. */
bool wr_usage_find(const struct wr_usage *usage, uint32_t number, int32_t day,
                   struct wr_usage_view *out);

/* Make that window |used| and |over|, if nothing has changed since it was found. One that was not
 * there takes the place of the window farthest from its day. False: somebody else was first; find
 * it anew. |used| has that day. */
bool wr_usage_put(struct wr_usage *usage, uint32_t number, const struct wr_usage_view *view,
                  uint64_t used, uint64_t over);

/* ---- the ledger's -------------------------------------------------------------------------- */

struct wr_usage_window {
    int32_t day; /* modulo 2^20, days since 1970 */
    uint64_t units, over;
};

/* The windows of a cell in the order of their days. Returns how many, 0..WR_USAGE_WINDOWS. */
unsigned wr_usage_read(const struct wr_usage *usage, uint32_t number,
                       struct wr_usage_window out[WR_USAGE_WINDOWS]);

/* The next cell that has changed since this was last said of it; false: no more. |*at| starts at 0
 * and belongs to the loop. What changes from now on is said again: read it now. One thread of one
 * process at a time. */
bool wr_usage_dirty_next(struct wr_usage *usage, uint32_t *at, uint32_t *number);

/* Say it again: it could not be written. */
void wr_usage_mark(struct wr_usage *usage, uint32_t number);

/* Has it changed since that was said? For those who only look. */
bool wr_usage_is_dirty(const struct wr_usage *usage, uint32_t number);

/* From begin to end bits may be taken of cells that are not in the ledger yet, and a kill in
 * between leaves it so: the number is odd then, and another one after each end. Where it is even
 * and the same before and after a look at a cell, a cell without its bit was not being written. By
 * who takes bits. */
void wr_usage_taking_begin(struct wr_usage *usage);
void wr_usage_taking_end(struct wr_usage *usage);
uint64_t wr_usage_taking(const struct wr_usage *usage);

/* The next cell that was ever counted in, changed or not. */
bool wr_usage_known_next(const struct wr_usage *usage, uint32_t *at, uint32_t *number);

/* Can a window begin on |day|, as of |today| (days since 1970, UTC)? Not long before the file was
 * made, nor far from now in the future: such a cell is damaged, or a clock was far from right when
 * it was counted in. What it says is nobody's use. */
bool wr_usage_can_begin(const struct wr_usage *usage, int32_t day, int32_t today);

/* The cell has used at least so much in that window: from the ledger into a cell that a power loss
 * has emptied. The window takes the place of an older one only, or of one that cannot be. */
void wr_usage_raise(struct wr_usage *usage, uint32_t number, const struct wr_usage_window *window,
                    int32_t today);

/* Was the file last brought up to the ledger in this boot of the machine? Otherwise it is new, or a
 * power loss may have taken what was not written: raise, then say so. */
bool wr_usage_is_restored(const struct wr_usage *usage);
/* Was it never brought up to a ledger, nor written to one? */
bool wr_usage_is_new(const struct wr_usage *usage);
void wr_usage_set_restored(struct wr_usage *usage);

/* The last batch of the ledger that was to be written out of this file; set before it is committed,
 * so that a file whose number is below the ledger's is an older copy. */
uint64_t wr_usage_batch(const struct wr_usage *usage);
void wr_usage_set_batch(struct wr_usage *usage, uint64_t batch);

/* All that was counted before |day| (days since 1970, UTC) is in the ledger: after a pass over the
 * dirty cells of which nothing failed. */
void wr_usage_set_flushed(struct wr_usage *usage, int32_t day);

/* Units that may have given way to newer windows before the ledger had them: more windows went by
 * than a cell holds. */
uint64_t wr_usage_lost_units(const struct wr_usage *usage);

#endif
