/* log.h - lists of stamps in the arena: the times at which a key was charged (sliding log), or at
 * which its places were taken (concurrency). Chained 64-byte nodes of 15 ticks behind a lock that
 * the kernel lets go when its owner dies, two copies of the list's head and a selector: a kill
 * tears nothing. */
#ifndef WR_STORE_LOG_H
#define WR_STORE_LOG_H

#include <stdint.h>

#include "store/arena.h"

/* An open, locked list. On the caller's stack, for the length of one decision; fields are log.c's
 * but for |live|. */
struct wr_log {
    uint32_t live; /* stamps in (now - window, now]; those that noise put ahead of now included */
    uint32_t first, last, offset; /* of the copy being edited, as in struct wr_list */
    int64_t last_ns;
    uint32_t last_tick;
    uint32_t tail;                  /* the last node we have, at or behind last */
    uint32_t old_first, drop_first; /* old_first .. drop_first: nodes that fell out at the front */
    uint32_t ref;                   /* of the head; 0: no list is open */
    bool changed;
    struct wr_arena *arena;
    uint64_t hash;
    struct wr_slot *slot;
    struct wr_log_head *head;
    int64_t now_ns;
    int64_t window_ns; /* of the class */
    int64_t tick_ns;
    struct wr_worth worth;
    uint16_t class_id;
};

/* How many stamps of the key are live at |now_ns|, without the lock: a look, for the first pass
 * over several limits. |*oldest_ns|, |*newest_ns|: stamps, 0 when none is live. Never fails: a list
 * that is being edited is read from its valid copy. A list of another class counts by that class's
 * ticks and this one's window. */
uint32_t wr_log_peek(const struct wr_arena *arena, uint64_t hash, uint16_t class_id, int64_t now_ns,
                     int64_t *oldest_ns, int64_t *newest_ns);

/* Find or make the list of |hash|, lock it, and drop the stamps that are |window_ns| old or older.
 * A list whose slot has another class keeps its stamps (converted to the new resolution). |worth|:
 * of the key after the charge, should a slot or a list have to be evicted. Returns: 0; WEIR_EBUSY
 * (held by a live process that does not run, or the arena has no room for lists at all), WEIR_EFULL
 * (all others are worth more: to be decided as a key never seen, counted), WEIR_EINVAL (not a class
 * of lists); only after 0 is there anything to close. */
int wr_log_open(struct wr_log *log, struct wr_arena *arena, uint64_t hash, uint16_t class_id,
                const struct wr_worth *worth, int64_t now_ns);

/* The |k|-th oldest live stamp, k < live, in ns: a moment, rounded up to the tick, so that no stamp
 * stops counting before its window is over. Walks k / 15 nodes. */
int64_t wr_log_stamp(const struct wr_log *log, uint32_t k);

/* Append |count| stamps of |now_ns|; a stamp before the newest one is stored as the newest one.
 * Returns 0, or WEIR_EFULL with nothing appended. On success |*stamp_ns| is what was stored. */
int wr_log_append(struct wr_log *log, uint32_t count, int64_t *stamp_ns);

/* Remove up to |count| stamps equal to |stamp_ns|. Returns how many there were. */
uint32_t wr_log_remove(struct wr_log *log, int64_t stamp_ns, uint32_t count);

/* Commit and unlock. */
void wr_log_close(struct wr_log *log);

#endif
