/* class.h - the table of classes, for the rest of the store. */
#ifndef WR_STORE_CLASS_H
#define WR_STORE_CLASS_H

#include "store/handle.h"

/* What this process counts of its classes. Returns 0 or WEIR_ENOMEM. */
int wr_class_uses_new(struct wr_arena *arena);
void wr_class_uses_free(struct wr_class_uses *uses);

/* In a child that has just taken its claim: what its sets have is used by it as well. */
void wr_class_uses_claim(struct wr_arena *arena);

/* A class nobody needs any more. Inside the gate; looks through the arena if it was not yet since
 * uses->looked was cleared. Returns 0 or WEIR_EFULL. */
int wr_class_room(struct wr_arena *arena, uint16_t *number);

#endif
