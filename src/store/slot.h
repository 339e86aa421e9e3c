/* slot.h - slots, for the rest of the store. */
#ifndef WR_STORE_SLOT_H
#define WR_STORE_SLOT_H

#include "store/arena.h"

/* Choose a slot for the key |hash| to be stored in by wr_slot_take. As wr_slot_store; the newcomer
 * may be turned away: WEIR_EFULL, counted. */
struct wr_victim;
int wr_slot_choose(struct wr_arena *arena, uint64_t hash, const struct wr_worth *worth,
                   int64_t now_ns, unsigned excluded, struct wr_victim *victim);

/* Change the chosen slot to (|word|, |state|). Returns 0, WEIR_EAGAIN (it has changed, or the key
 * was stored elsewhere meanwhile), WEIR_EBUSY (its list is in use). */
int wr_slot_take(struct wr_arena *arena, const struct wr_victim *victim, uint64_t word,
                 uint64_t state);

#endif
