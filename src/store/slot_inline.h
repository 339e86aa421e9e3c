/* slot_inline.h - the part of the store that every decision runs through, to be inlined into it.
 * Part of arena.h; include that. */
#ifndef WR_STORE_SLOT_INLINE_H
#define WR_STORE_SLOT_INLINE_H

#include "store/arena.h"
#include "store/cas16.h"
#include "store/handle.h"
#include "weir/weir.h"

/* A number below |bucket_count|, from the low bits of |hash| first: the high ones are the
 * fingerprint, and from 4096 buckets up all 64 bits of the hash take part in telling keys apart. A
 * multiplication instead of a mask, so that the number of buckets need not be a power of two. */
static inline struct wr_bucket *wr_slot_bucket(const struct wr_arena *arena, uint64_t hash)
{
    uint64_t rotated = hash << 52 | hash >> 12;

    return &arena->buckets[(uint64_t)((wr_u128)rotated * arena->bucket_count >> 64)];
}

/* The word of a key's slot. */
static inline uint64_t wr_slot_word(uint64_t hash, uint16_t class_id)
{
    return (hash & ~WR_CLASS_MASK) | class_id;
}

static inline bool wr_slot_same_key(uint64_t word, uint64_t hash)
{
    return word >> 12 == hash >> 12 && word != 0;
}

/* Start fetching the bucket of |hash| into the cache. */
static inline void wr_slot_prefetch(const struct wr_arena *arena, uint64_t hash)
{
    const char *bucket = (const char *)wr_slot_bucket(arena, hash);

    __builtin_prefetch(bucket);
    __builtin_prefetch(bucket + 64);
}

/* Look the key up by its fingerprint alone. Reads only. Two copies of a key (see slot.c) are told
 * apart by nobody: all find the first.
 *
 * The two words are read one after the other, so they may belong to different keys. The state was
 * the key's when the word is the same before and after it was read; a verdict that writes nothing
 * relies on that, one that writes compares both words anyway. */
static inline void wr_slot_find(const struct wr_arena *arena, uint64_t hash,
                                struct wr_slot_view *view)
{
    struct wr_slot *slot = wr_slot_bucket(arena, hash)->slot;
    struct wr_slot *end = slot + WR_BUCKET_SLOTS;

    for (; slot < end; slot++) {
        uint64_t word = WR_LOAD(&slot->word);
        while (wr_slot_same_key(word, hash)) {
            uint64_t state = WR_LOAD(&slot->state);
            uint64_t again = WR_LOAD(&slot->word);
            if (again == word) {
                *view = (struct wr_slot_view){slot, word, state, (uint16_t)(word & WR_CLASS_MASK)};
                return;
            }
            word = again;
        }
    }
    *view = (struct wr_slot_view){NULL, 0, 0, 0};
}

/* wr_slot_put where the key has no slot yet, or one of another class. */
int wr_slot_store(struct wr_arena *arena, uint64_t hash, const struct wr_slot_view *view,
                  uint16_t class_id, uint64_t state, const struct wr_worth *worth, int64_t now_ns);

/* Store |state| under |class| for the key |view| was read for, if nothing has changed since.
 * Without a slot: takes a free one or evicts the slot of its bucket with the least fraction of its
 * limit in use, the newcomer (|worth|) among the candidates; |worth| is looked at only then.
 * Returns: 0, WEIR_EAGAIN (look it up again), WEIR_EFULL (all others are worth more: decided
 * without being stored, counted). */
static inline int wr_slot_put(struct wr_arena *arena, uint64_t hash,
                              const struct wr_slot_view *view, uint16_t class_id, uint64_t state,
                              const struct wr_worth *worth, int64_t now_ns)
{
    if (view->slot != NULL && view->class_id == class_id)
        return wr_cas16(view->slot, view->word, view->state, view->word, state) ? 0 : WEIR_EAGAIN;
    return wr_slot_store(arena, hash, view, class_id, state, worth, now_ns);
}

#endif
