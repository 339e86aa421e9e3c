/* owner.h - the owner's part of a shared limit: what a node of a ring decides in its own arena for
 * all nodes.
 *
 * A key is a limit's name and a tag, in a slot of its own: never that of a key counted locally. The
 * limit comes with the charge, so nodes whose policies differ for a while still count together:
 * what was used is carried from one limit to the other, as at a reload. */
#ifndef WR_ENGINE_OWNER_H
#define WR_ENGINE_OWNER_H

#include "engine/backend.h"
#include "engine/engine.h"

/* Of one thread. */
struct wr_owner;

/* Keys lie in the arena of |engine|, which is borrowed. Returns 0 or WEIR_ENOMEM. */
int wr_owner_new(struct wr_owner **out, const struct wr_engine *engine);
void wr_owner_free(struct wr_owner *owner);

/* Its arena's clock. */
int64_t wr_owner_now(const struct wr_owner *owner);

/* Is |limit| one that can be counted (wr_limit_valid)? */
bool wr_owner_valid(const struct wr_owner *owner, const struct wr_limit *limit);

/* Decide charge[0..count) and answer them: all that decide (not in |shadow|) are taken, or none.
 * |nodes|: over how many leases are shared. |judge|: it is known to be refused elsewhere; nothing
 * is taken, but refusals are charged where the limit says count_denied. Returns whether it passed;
 * not with |judge|. A limit must be valid (wr_limit_valid). */
bool wr_owner_take(struct wr_owner *owner, struct wr_remote_charge *charge, unsigned count,
                   uint32_t shadow, unsigned nodes, bool judge, int64_t now);

/* Give charge->cost units back by its receipt; charge them whether they fit or not; forget the key.
 */
void wr_owner_refund(struct wr_owner *owner, const struct wr_remote_charge *charge, int64_t now);
void wr_owner_force(struct wr_owner *owner, const struct wr_remote_charge *charge, int64_t now);
void wr_owner_drop(struct wr_owner *owner, const struct wr_remote_charge *charge);

/* ---- handing over ------------------------------------------------------------------------- */

/* Stamps of a list that are handed over: the newest ones of a longer list. */
#define WR_OWNER_STAMPS_MAX 512

/* What a key's state is, to be told to another node. */
struct wr_owner_state {
    int64_t now_ns; /* of who tells it, when it was so */
    uint64_t word;  /* of a word; 0: nothing used */
    uint32_t stamps;
    int64_t stamp[WR_OWNER_STAMPS_MAX]; /* of a list, ascending */
};

/* The state of the key of |charge|. False: nothing is used, nothing to be told. */
bool wr_owner_export(struct wr_owner *owner, const struct wr_remote_charge *charge, int64_t now,
                     struct wr_owner_state *out);
/* Add what another node had counted to what is here, if anything. */
void wr_owner_import(struct wr_owner *owner, const struct wr_remote_charge *charge,
                     const struct wr_owner_state *state, int64_t now);

#endif
