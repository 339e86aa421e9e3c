/* claim.h - which processes have the arena open, told by the kernel: each holds a lock on one byte
 * of the file. Plus the gate, a lock for what is done rarely and by one at a time. */
#ifndef WR_STORE_CLAIM_H
#define WR_STORE_CLAIM_H

#include <stdbool.h>
#include <stdint.h>

#include "store/arena.h"

/* Enter: one process and one thread at a time. Returns 0, or WEIR_EBUSY when whoever is inside does
 * not leave within seconds (a stopped process; a dead one has left). */
int wr_gate_enter(struct wr_arena *arena);
void wr_gate_leave(struct wr_arena *arena);

/* Take a free claim, inside the gate. Returns 0, WEIR_EFULL, WEIR_EIO. */
int wr_claim_take(struct wr_arena *arena);

/* Does any other handle have a claim? */
bool wr_claim_others(const struct wr_arena *arena);

/* How many handles have a claim, this one included. */
unsigned wr_claim_count(const struct wr_arena *arena);

/* This process's owner word, for locks of lists. A child that has not said wr_arena_after_fork
 * claims now. 0: it could not. */
uint32_t wr_claim_owner(struct wr_arena *arena);

/* Has this process a claim already? A child that decides before it claims lives on its parent's. */
bool wr_claim_taken(const struct wr_arena *arena);

/* Is the process that wrote |owner| into a lock gone? One fcntl. */
bool wr_claim_dead(const struct wr_arena *arena, uint32_t owner);

/* Does the process with claim |number| live? */
bool wr_claim_held(const struct wr_arena *arena, uint32_t number);

#endif
