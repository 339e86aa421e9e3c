/* word.h - charges against limits whose state is one word. See charge.h, which chooses by
 * algorithm. */
#ifndef WR_ENGINE_WORD_H
#define WR_ENGINE_WORD_H

#include "engine/charge.h"

void wr_word_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now);

/* True when something was taken that can be given back. */
bool wr_word_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now);

/* Store |state| for what was evaluated, as wr_slot_put. */
int wr_word_store(struct wr_arena *arena, const struct wr_charge *charge, uint64_t state,
                  int64_t now);

/* Both at once, for a charge that stands alone. */
void wr_word_take(struct wr_arena *arena, struct wr_charge *charge, int64_t now);

void wr_word_force(struct wr_arena *arena, struct wr_charge charge, int64_t now);

/* Give charge.cost units back to charge.hash; |receipt| is the state that taking them left. */
void wr_word_refund(struct wr_arena *arena, struct wr_charge charge, uint64_t receipt, int64_t now);

/* Replace the state behind charge.hash by change(state, now, charge.cost, deadline_ns). */
typedef uint64_t wr_word_change_fn(uint64_t state, int64_t now_ns, int64_t amount,
                                   int64_t deadline_ns);
void wr_word_change(struct wr_arena *arena, struct wr_charge charge, int64_t now,
                    wr_word_change_fn *change, int64_t deadline_ns);

#endif
