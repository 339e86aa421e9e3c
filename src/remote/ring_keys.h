/* ring_keys.h - which keys this process counts for the ring: one table for all its loops.
 *
 * A slot of the arena holds a hash, from which nobody can tell who else should have it; so what is
 * counted here is remembered by tag, to be handed over. The table is of fixed size: what falls out
 * of it stays where it is, and is counted as lost. */
#ifndef WR_REMOTE_RING_KEYS_H
#define WR_REMOTE_RING_KEYS_H

#include <stdbool.h>

#include "engine/backend.h"
#include "wire/ring.h"

struct wr_ring_keys;

enum wr_ring_place {
    WR_RING_UNKNOWN, /* not counted here */
    WR_RING_HERE,
    WR_RING_MOVING, /* on its way to another node */
};

/* The table of the node with |id|: one for all loops of this process. NULL: no memory. */
struct wr_ring_keys *wr_ring_keys_get(const char *id);
void wr_ring_keys_put(struct wr_ring_keys *keys);

/* What follows is called with the lock held; deciding is, too. */
void wr_ring_keys_lock(struct wr_ring_keys *keys);
void wr_ring_keys_unlock(struct wr_ring_keys *keys);

enum wr_ring_place wr_ring_keys_place(const struct wr_ring_keys *keys,
                                      const unsigned char tag[WR_TAG_BYTES]);
/* The key of |charge| is counted here from now on. */
void wr_ring_keys_note(struct wr_ring_keys *keys, const struct wr_remote_charge *charge);

/* All keys of a tag, as charges of cost 0 whose names and limits are the table's. */
struct wr_ring_found {
    unsigned char tag[WR_TAG_BYTES];
    unsigned count;
    struct wr_remote_charge charge[WEIR_LIMITS_MAX];
};
/* The first tag that is HERE at or behind |*cursor|, which moves behind it. False: there is none up
 * to |until|; wr_ring_keys_size is the end. */
bool wr_ring_keys_next(struct wr_ring_keys *keys, size_t *cursor, size_t until,
                       struct wr_ring_found *out);
size_t wr_ring_keys_size(const struct wr_ring_keys *keys);
/* Its keys as charges, wherever they are. */
void wr_ring_keys_find(struct wr_ring_keys *keys, const unsigned char tag[WR_TAG_BYTES],
                       struct wr_ring_found *out);
/* Say that |tag| is |place|; WR_RING_UNKNOWN: forget it. */
void wr_ring_keys_mark(struct wr_ring_keys *keys, const unsigned char tag[WR_TAG_BYTES],
                       enum wr_ring_place place);

/* ---- the process as a member ----------------------------------------------------------------- */

struct wr_ring_news *wr_ring_keys_news(const struct wr_ring_keys *keys);
struct wr_ring_counts *wr_ring_keys_counts(const struct wr_ring_keys *keys);
struct wr_ring_names *wr_ring_keys_names(const struct wr_ring_keys *keys);
enum wr_ring_status wr_ring_keys_status(struct wr_ring_keys *keys);
void wr_ring_keys_set_status(struct wr_ring_keys *keys, enum wr_ring_status status);
uint64_t wr_ring_keys_incarnation(const struct wr_ring_keys *keys);
/* The node |id| has handed us all it had of ours. */
void wr_ring_keys_synced(struct wr_ring_keys *keys, const char *id);
bool wr_ring_keys_is_synced(struct wr_ring_keys *keys, const char *id);
/* One loop at a time hands keys over. */
bool wr_ring_keys_claim(struct wr_ring_keys *keys, const void *loop);
void wr_ring_keys_release(struct wr_ring_keys *keys, const void *loop);
/* When the process joined, by uv_hrtime. */
int64_t wr_ring_keys_since_ns(const struct wr_ring_keys *keys);

#endif
