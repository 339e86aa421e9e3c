/* list.h - lists of stamps as the rest of the store sees them: lock, read, commit, make, dispose.
 * What a decision does with a list is log.h. */
#ifndef WR_STORE_LIST_H
#define WR_STORE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "store/arena.h"
#include "store/crash_point.h"

/* A list as it was read from the valid copy of its head, checked. */
struct wr_list {
    uint32_t first;  /* nodes; 0 where there is none */
    uint32_t last;   /* an empty list may keep a node: then first == last */
    uint32_t count;  /* stamps */
    uint32_t offset; /* of the oldest in its node, 0..14 */
    int64_t last_ns; /* the newest stamp */
};

/* How long the stamps of a class live, and how finely they are told apart. */
struct wr_span {
    int64_t window_ns;
    int64_t tick_ns;
};

/* The span of class |number|. False: it is not a valid class of lists. (class.c) */
bool wr_class_span(const struct wr_arena *arena, uint16_t number, struct wr_span *span);

/* ---- list.c: one list ---------------------------------------------------------------------- */

/* Lock; a dead owner is replaced. The first waits for a bounded time: WEIR_EBUSY. */
int wr_list_lock(struct wr_arena *arena, struct wr_log_head *head);
bool wr_list_trylock(struct wr_arena *arena, struct wr_log_head *head);
void wr_list_unlock(struct wr_log_head *head);

/* The list as of its last commit. False: it is damaged; |list| is then empty. */
bool wr_list_read(const struct wr_arena *arena, const struct wr_log_head *head,
                  struct wr_list *list);

/* How many nodes |list|, not without any, must have. */
static inline uint32_t wr_list_nodes(const struct wr_list *list)
{
    return list->count == 0 ? 1 : (list->offset + list->count - 1) / WR_NODE_TICKS + 1;
}

/* Make |list| the valid one. The lock is held. */
void wr_list_publish(struct wr_log_head *head, const struct wr_list *list);

/* Put the stamps of |list| where |span| and |now_ns| want them: newest not too far in the future.
 */
void wr_list_settle(struct wr_list *list, const struct wr_span *span, int64_t now_ns);

/* The tick of the newest stamp; 0 in an empty list. */
uint32_t wr_list_last_tick(const struct wr_arena *arena, const struct wr_list *list);

/* The moment of a stamp that is |age| ticks older than |last_ns|. */
int64_t wr_list_moment(int64_t last_ns, uint32_t age, int64_t tick_ns);

/* Drop the stamps that are as old as the window. |*dropped|: the last node that fell out at the
 * front, 0 for none; an emptied list keeps its first node. False: it is damaged. */
bool wr_list_expire(const struct wr_arena *arena, struct wr_list *list, const struct wr_span *span,
                    int64_t now_ns, uint32_t *dropped);

/* How many stamps of |head| are live, without its lock; |*oldest_ns|, |*newest_ns|: 0 for none. */
uint32_t wr_list_look(const struct wr_arena *arena, const struct wr_log_head *head,
                      const struct wr_span *span, int64_t now_ns, int64_t *oldest_ns,
                      int64_t *newest_ns);

/* ---- reclaim.c: where lists come from and go ----------------------------------------------- */

/* A new, empty, locked list for |slot|, which does not refer to it yet. Reclaims others if need be.
 * Returns its reference, 0 when none can be had. */
uint32_t wr_list_new(struct wr_arena *arena, const struct wr_slot *slot, uint64_t word,
                     const struct wr_worth *worth, int64_t now_ns);

/* Free a list that no slot refers to (any more), lock held; unlocks. */
void wr_list_dispose(struct wr_arena *arena, struct wr_log_head *head);

/* Change a slot that refers to a list, and free that. |wait|: for its lock. Returns 0, WEIR_EAGAIN
 * (the slot is not as expected), WEIR_EBUSY. */
int wr_list_replace(struct wr_arena *arena, struct wr_slot *slot, uint64_t word, uint64_t state,
                    uint64_t new_word, uint64_t new_state, bool wait);

/* A node, reclaiming lists if need be; 0 when none can be had. */
uint32_t wr_list_node(struct wr_arena *arena, const struct wr_worth *worth, int64_t now_ns);

/* Index of a slot in the arena. */
uint64_t wr_slot_index(const struct wr_arena *arena, const struct wr_slot *slot);

/* Rebuild the pools: what no list has is free. Alone in the arena, inside the gate. */
void wr_list_collect(struct wr_arena *arena);

#endif
