/* slot.c - storing a key that has no slot yet, and dropping one.
 *
 * The bucket is read, a slot chosen, and changed by one compare-and-swap on what was read. Two
 * processes may do so for one key at once:
 *
 *   - both choose the same slot: one fails and looks the key up again;
 *   - they choose different ones, since eviction follows no order. So after storing, each looks at
 *     the whole bucket again; whoever sees the key twice takes its own copy back, unless it was
 *     charged meanwhile, and looks the key up again. The compare-and-swap is a full barrier, so at
 *     least one of the two sees the other: never are both admitted by copies that do not know of
 * each other. Where a third one charged the copy before it could be taken back, both stay; the
 * first one in the bucket is found from then on, and wr_arena_repair folds them.
 *
 * A slot with a list is changed only by who holds that list's lock (reclaim.c). */
#include "store/slot.h"

#include "store/evict.h"
#include "store/list.h"

int wr_slot_choose(struct wr_arena *arena, uint64_t hash, const struct wr_worth *worth,
                   int64_t now_ns, unsigned excluded, struct wr_victim *victim)
{
    int rc =
        wr_evict_choose(arena, wr_slot_bucket(arena, hash), hash, worth, now_ns, excluded, victim);

    if (rc == WEIR_EFULL)
        (void)WR_ADD(&arena->header->counters[WR_UNSTORED], 1);
    return rc;
}

/* Is the key of |word| in its bucket outside of |own| as well? */
static bool stored_twice(const struct wr_arena *arena, const struct wr_slot *own, uint64_t word)
{
    const struct wr_bucket *bucket = &arena->buckets[wr_slot_index(arena, own) / WR_BUCKET_SLOTS];

    for (int i = 0; i < WR_BUCKET_SLOTS; i++)
        if (&bucket->slot[i] != own && wr_slot_same_key(WR_LOAD(&bucket->slot[i].word), word))
            return true;
    return false;
}

int wr_slot_take(struct wr_arena *arena, const struct wr_victim *victim, uint64_t word,
                 uint64_t state)
{
    struct wr_slot *slot = victim->slot;
    int rc;

    if (victim->has_list)
        rc = wr_list_replace(arena, slot, victim->word, victim->state, word, state, false);
    else
        rc = wr_cas16(slot, victim->word, victim->state, word, state) ? 0 : WEIR_EAGAIN;
    if (rc != 0)
        return rc;
    if (victim->live)
        (void)WR_ADD(&arena->header->counters[WR_EVICTED_LIVE], 1);
    if (victim->damaged)
        (void)WR_ADD(&arena->header->counters[WR_QUARANTINED], 1);
    if (stored_twice(arena, slot, word) && wr_cas16(slot, word, state, 0, 0))
        return WEIR_EAGAIN;
    return 0;
}

static int insert(struct wr_arena *arena, uint64_t hash, uint64_t word, uint64_t state,
                  const struct wr_worth *worth, int64_t now_ns)
{
    struct wr_victim victim;
    unsigned excluded = 0; /* slots whose lists are in use */
    int rc;

    for (int i = 0; i < WR_BUCKET_SLOTS; i++) {
        rc = wr_slot_choose(arena, hash, worth, now_ns, excluded, &victim);
        if (rc == 0)
            rc = wr_slot_take(arena, &victim, word, state);
        if (rc != WEIR_EBUSY)
            return rc;
        excluded |= 1U << (victim.slot - wr_slot_bucket(arena, hash)->slot);
    }
    (void)WR_ADD(&arena->header->counters[WR_UNSTORED], 1);
    return WEIR_EFULL;
}

/* The key's slot has another class: change it, and free its list if it had one. */
static int convert(struct wr_arena *arena, const struct wr_slot_view *view, uint64_t word,
                   uint64_t state)
{
    struct wr_class old;
    int rc;

    if (!wr_arena_class_get(arena, view->class_id, &old))
        (void)WR_ADD(&arena->header->counters[WR_QUARANTINED], 1);
    if (old.log_window_ns == 0)
        return wr_cas16(view->slot, view->word, view->state, word, state) ? 0 : WEIR_EAGAIN;
    rc = wr_list_replace(arena, view->slot, view->word, view->state, word, state, true);
    if (rc != WEIR_EBUSY)
        return rc;
    (void)WR_ADD(&arena->header->counters[WR_UNSTORED], 1);
    return WEIR_EFULL; /* its list is held by a stopped process */
}

int wr_slot_store(struct wr_arena *arena, uint64_t hash, const struct wr_slot_view *view,
                  uint16_t class_id, uint64_t state, const struct wr_worth *worth, int64_t now_ns)
{
    uint64_t word = wr_slot_word(hash, class_id);

    if (view->slot != NULL)
        return convert(arena, view, word, state);
    return insert(arena, hash, word, state, worth, now_ns);
}

int wr_slot_drop(struct wr_arena *arena, uint64_t hash)
{
    struct wr_slot_view view;
    struct wr_class class;
    int rc = WEIR_EAGAIN;

    while (rc == WEIR_EAGAIN) { /* a failure means that somebody else got on */
        wr_slot_find(arena, hash, &view);
        if (view.slot == NULL)
            return WEIR_ENOENT;
        if (wr_arena_class_get(arena, view.class_id, &class) && class.log_window_ns != 0)
            rc = wr_list_replace(arena, view.slot, view.word, view.state, 0, 0, true);
        else
            rc = wr_cas16(view.slot, view.word, view.state, 0, 0) ? 0 : WEIR_EAGAIN;
    }
    return rc;
}
