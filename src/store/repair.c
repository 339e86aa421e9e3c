/* repair.c - putting a damaged arena in order: what makes no sense is emptied, what is lost is
 * given back. Alone in the arena, inside the gate, so plain steps do; a kill in between leaves less
 * to be repaired the next time. */
#include "store/ban.h"
#include "store/check.h"
#include "store/claim.h"
#include "store/evict.h"
#include "store/list.h"
#include "store/node.h"

static void repair_classes(struct wr_arena *arena, int64_t now_ns)
{
    struct wr_worth worth;
    struct wr_class class;

    for (uint32_t i = 0; i < arena->class_count; i++)
        if (!wr_arena_class_get(arena, (uint16_t)i, &class) ||
            !arena->judge(class.params, 0, now_ns, &worth))
            WR_STORE(&arena->classes[i].sequence, 0);
}

/* Does the list that |slot| refers to know it? */
static bool list_fits(const struct wr_arena *arena, const struct wr_slot *slot)
{
    const struct wr_log_head *head = wr_head_at(arena, slot->state);

    return head != NULL && head->word == slot->word && head->slot == wr_slot_index(arena, slot);
}

static bool slot_fits(const struct wr_arena *arena, const struct wr_slot *slot, int64_t now_ns,
                      struct wr_worth *worth)
{
    struct wr_class class;

    if (!wr_evict_judge(arena, slot->word, slot->state, now_ns, worth))
        return false;
    return wr_arena_class_get(arena, (uint16_t)(slot->word & WR_CLASS_MASK), &class) &&
           (class.log_window_ns == 0 || list_fits(arena, slot));
}

/* Of two slots of one key, the one with more in use stays. */
static void fold(struct wr_bucket *bucket, unsigned i, struct wr_worth worth[WR_BUCKET_SLOTS])
{
    for (unsigned k = 0; k < i; k++) {
        unsigned loser = worth[k].used_q32 < worth[i].used_q32 ? k : i;
        struct wr_slot *slot = &bucket->slot[loser];
        if (wr_slot_same_key(bucket->slot[k].word, bucket->slot[i].word))
            (void)wr_cas16(slot, slot->word, slot->state, 0, 0);
    }
}

static void repair_bucket(struct wr_arena *arena, struct wr_bucket *bucket, int64_t now_ns)
{
    struct wr_worth worth[WR_BUCKET_SLOTS] = {{0, 0}};

    for (unsigned i = 0; i < WR_BUCKET_SLOTS; i++) {
        struct wr_slot *slot = &bucket->slot[i];
        if (slot->word == 0 ? slot->state == 0 : slot_fits(arena, slot, now_ns, &worth[i])) {
            fold(bucket, i, worth);
            continue;
        }
        (void)wr_cas16(slot, slot->word, slot->state, 0, 0);
        (void)WR_ADD(&arena->header->counters[WR_QUARANTINED], 1);
    }
}

int wr_arena_repair(struct wr_arena *arena, int64_t now_ns)
{
    int rc;

    if (arena->read_only)
        return WEIR_EINVAL;
    rc = wr_gate_enter(arena);
    if (rc != 0)
        return rc;
    if (wr_claim_others(arena)) {
        rc = WEIR_EBUSY;
    } else {
        repair_classes(arena, now_ns);
        for (uint64_t b = 0; b < arena->bucket_count; b++)
            repair_bucket(arena, &arena->buckets[b], now_ns);
        wr_list_collect(arena);
        (void)WR_ADD(&arena->header->counters[WR_QUARANTINED], wr_ban_repair(arena));
    }
    wr_gate_leave(arena);
    return rc;
}
