/* list.h - charges against limits whose state is a list of stamps: the exact log and concurrency.
 * See charge.h, which chooses by algorithm. */
#ifndef WR_ENGINE_LIST_H
#define WR_ENGINE_LIST_H

#include "engine/charge.h"

void wr_list_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now);

/* True when something was taken that can be given back: |*stamp_ns| is its stamp. */
bool wr_list_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now,
                    int64_t *stamp_ns);

void wr_list_force(struct wr_arena *arena, const struct wr_charge *charge, int64_t now);

/* Remove charge->cost stamps equal to |stamp_ns|. */
void wr_list_refund(struct wr_arena *arena, const struct wr_charge *charge, int64_t stamp_ns,
                    int64_t now);

#endif
