/* arena.h - one fixed-size table that all processes of a host share: slots of 16 bytes, lists of
 * stamps (log.h), a table of classes, counters. Valid after SIGKILL of any process at any instant.
 * Layout, byte by byte: docs/formats/arena.md; its proof beside the structs in layout.h.
 *
 * The store knows nothing of algorithms. What it must judge (which slot is worth least) it asks a
 * function that whoever opens the arena gives. */
#ifndef WR_STORE_ARENA_H
#define WR_STORE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/siphash.h"

struct wr_arena; /* one process's handle; a child after fork calls wr_arena_after_fork */

#define WR_CLASS_PARAMS 64  /* bytes: a struct wr_limit, opaque here */
#define WR_CLASSES_MAX 4096 /* twelve bits of a slot's word; class 0 is never given out */
#define WR_ARENA_BYTES_MIN (UINT64_C(1) << 20)
#define WR_ARENA_BYTES_MAX (UINT64_C(1) << 40)

/* What a slot is worth, for eviction. */
struct wr_worth {
    uint64_t used_q32; /* fraction of its limit in use, 0 .. 2^32; 0: as if never seen, nothing is
                          lost */
    int64_t window_ns; /* how long a whole limit takes to recover */
};

/* Judge a slot by the parameters of its class. |value| is the state word, or for a class with lists
 * the number of live stamps. False: the parameters are not valid (a damaged file); the slot is
 * quarantined. */
typedef bool wr_judge_fn(const unsigned char params[WR_CLASS_PARAMS], uint64_t value,
                         int64_t now_ns, struct wr_worth *out);

struct wr_arena_options {
    const char *path;    /* NULL or "": anonymous (shared with children only) */
    uint64_t size_bytes; /* WR_ARENA_BYTES_MIN .. MAX; a file that is there is used as it is, with a
                            warning where this differs and is not 0 */
    unsigned node_share; /* percent of the space for lists of stamps, 0..90; of a new arena only */
    bool must_exist;     /* do not create */
    bool read_only;      /* for the checker: no claim, no change */
    wr_judge_fn *judge;
};

/* Open or create. The file is made whole under no name and linked into place, its blocks reserved
 * (a full tmpfs would be SIGBUS later), mode 0660. A file that does not fit (other magic, version,
 * layout, byte order; a size that is not what its header says; users who count time from another
 * boot) is refused, never reinterpreted.
 *
 * Owns:    |*out| is the caller's, to be closed; NULL on error.
 * Returns: 0, WEIR_EIO, WEIR_EFORMAT, WEIR_ECORRUPT, WEIR_ENOMEM, WEIR_EFULL (no claim left for one
 * more process), WEIR_EBUSY (another process is stopped in the middle of opening it); |diag|, which
 * may be NULL, says why. */
int wr_arena_open(struct wr_arena **out, const struct wr_arena_options *options,
                  struct wr_diag *diag);

/* In a forked child, before it decides: a claim of its own. Returns 0 or WEIR_EFULL. A child that
 * forgets is given one when it first locks a list. */
int wr_arena_after_fork(struct wr_arena *arena);

/* One user more of this handle: it is closed when each has closed it. Any thread. */
void wr_arena_share(struct wr_arena *arena);

/* NULL is allowed. */
void wr_arena_close(struct wr_arena *arena);

/* Now in ns since the Unix epoch: CLOCK_BOOTTIME plus the offset in the header. */
int64_t wr_arena_now(const struct wr_arena *arena);

/* How far the machine's clock was ahead of the arena's when it was last looked at, which somebody
 * does each second; negative: behind. 0 within two seconds. What is counted by civil days goes by
 * wr_arena_now plus this. */
int64_t wr_arena_wall_ahead_ns(const struct wr_arena *arena);

/* The arena's secret, made at creation. Keys lie in the arena only as hashes under it. */
struct wr_sip_key wr_arena_secret(const struct wr_arena *arena);

/* ---- classes ------------------------------------------------------------------------------- */

struct wr_class {
    unsigned char params[WR_CLASS_PARAMS];
    int64_t log_window_ns; /* 0: slots of this class hold a word; else lists of stamps that live
                              this long */
    int64_t log_tick_ns;   /* resolution of a stamp; divides log_window_ns into at most 2^31 */
};

/* The number of the class equal to |spec|, made if there is none, to be used as long as the arena
 * is open. Safe from any process at once; killed in between, the next one completes it. When the
 * table is full, classes that no slot has and nobody living uses are reused; and where there are
 * none, those with the fewest slots that nobody living uses, whose slots are emptied. Returns: 0,
 * WEIR_EFULL (all are in use), WEIR_EINVAL (an impossible resolution, a handle that only reads),
 * WEIR_EBUSY. */
int wr_arena_class(struct wr_arena *arena, const struct wr_class *spec, uint16_t *number);

/* Classes that are used for a while: as long as a policy is in force. Any thread; borrows the
 * arena.
 */
struct wr_class_set {
    struct wr_arena *arena; /* NULL: it has nothing */
    bool inside;            /* between begin and end; one thread then */
    uint64_t has[WR_CLASSES_MAX / 64];
};

void wr_class_set_init(struct wr_class_set *set, struct wr_arena *arena);

/* As wr_arena_class, but used until the set is left. */
int wr_class_set_take(struct wr_class_set *set, const struct wr_class *spec, uint16_t *number);

/* Around many takes: the arena is looked through once for all of them, where that must be. As
 * wr_arena_class; end also after a failure of a take. */
int wr_class_set_begin(struct wr_class_set *set);
void wr_class_set_end(struct wr_class_set *set);

/* None of its classes is used any more by this set: nobody is writing slots of them. */
void wr_class_set_leave(struct wr_class_set *set);

/* How many classes the table holds. */
unsigned wr_arena_class_room(const struct wr_arena *arena);

/* Copy out class |number|. False: there is none, or it is damaged. */
bool wr_arena_class_get(const struct wr_arena *arena, uint16_t number, struct wr_class *out);

/* ---- slots --------------------------------------------------------------------------------- */

/* A key's hash (SipHash under the arena's secret) says where its bucket is and what its fingerprint
 * is: the high 52 bits. Finding and changing a slot are inline, in slot_inline.h:
 *
 *   wr_slot_prefetch  start fetching the bucket of a hash into the cache
 *   wr_slot_find      look a key up by its fingerprint alone; reads only
 *   wr_slot_put       store a state if nothing has changed since it was found */

/* A slot as it was read: what wr_slot_put expects to find unchanged. */
struct wr_slot_view {
    struct wr_slot *slot; /* NULL: the key has no slot */
    uint64_t word;        /* fingerprint and class */
    uint64_t state;       /* 0 without a slot */
    uint16_t class_id;    /* of the slot; may differ from the one wanted: convert the state */
};

/* Empty the slot of a key, list and all. Returns 0, WEIR_ENOENT or WEIR_EBUSY. */
int wr_slot_drop(struct wr_arena *arena, uint64_t hash);

/* ---- counters ------------------------------------------------------------------------------ */

enum wr_arena_counter {
    WR_EVICTED_LIVE, /* slots evicted that were still in use */
    WR_UNSTORED,     /* newcomers decided without being stored */
    WR_QUARANTINED,  /* slots found damaged and emptied */
    WR_STOLEN_LOCKS, /* locks of lists taken from dead processes */
    WR_BUSY_LISTS,   /* decisions refused because a list was held by a stopped process */
    WR_NO_NODES,     /* decisions refused because no node was left */
    WR_ARENA_COUNTERS
};
uint64_t wr_arena_count(const struct wr_arena *arena, enum wr_arena_counter counter);
uint64_t wr_arena_bytes(const struct wr_arena *arena); /* of all of it */
uint64_t wr_arena_slots(const struct wr_arena *arena);

/* How full it is, estimated by judging the slots of at most |buckets| buckets, as if at |now_ns|.
 * |turn|: counts up, so that each look is at others. Reads only, two cache lines a bucket. */
struct wr_occupancy {
    uint64_t looked, live; /* slots judged; those of them that are in use */
};
void wr_arena_sample(const struct wr_arena *arena, uint64_t turn, uint64_t buckets, int64_t now_ns,
                     struct wr_occupancy *out);

#include "store/slot_inline.h"

#endif
