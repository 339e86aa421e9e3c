/* evict.c - which slot of a full bucket goes, or whether the newcomer does.
 *
 * Problem. The table is finite and callers choose keys: a flood of fresh keys must not make the
 * table forget the keys that are being limited. By simulation (65 536 slots, up to ten times as
 * many live attack keys), offenders got up to three times their limit, that is no limit at all,
 * from LRU and from random eviction, and from "soonest to recover" under two cheap attacks: keys
 * that are used up, and keys of a slow limit that shares the table.
 *
 * Rule. Each slot is worth the fraction of its limit in use, 0 when it has recovered (forgetting it
 * loses nothing). The least worth goes. But if even that is worth more than the newcomer, and its
 * window is not longer than the newcomer's, the newcomer is not stored: it is decided by its first
 * charge alone, as every first charge is. Offenders then got at most 1.1 times their limit in all
 * six attacks. tests/store/attack.c replays them.
 *
 * A slot whose class or parameters make no sense (the file is input) goes first and is counted. */
#include "store/evict.h"

#include "store/list.h"
#include "store/node.h"

static uint64_t value_of(const struct wr_arena *arena, const struct wr_class *class, uint64_t state,
                         int64_t now_ns)
{
    const struct wr_span span = {class->log_window_ns, class->log_tick_ns};
    const struct wr_log_head *head;
    int64_t oldest_ns, newest_ns;

    if (class->log_window_ns == 0)
        return state;
    head = wr_head_at(arena, state);
    return head == NULL ? 0 : wr_list_look(arena, head, &span, now_ns, &oldest_ns, &newest_ns);
}

bool wr_evict_judge(const struct wr_arena *arena, uint64_t word, uint64_t state, int64_t now_ns,
                    struct wr_worth *worth)
{
    struct wr_class class;

    *worth = (struct wr_worth){0, 0};
    return wr_arena_class_get(arena, (uint16_t)(word & WR_CLASS_MASK), &class) &&
           arena->judge(class.params, value_of(arena, &class, state, now_ns), now_ns, worth);
}

bool wr_evict_yields(const struct wr_worth *victim, const struct wr_worth *newcomer)
{
    return victim->used_q32 <= newcomer->used_q32 || victim->window_ns > newcomer->window_ns;
}

static bool has_list(const struct wr_arena *arena, uint64_t word)
{
    struct wr_span span;

    return wr_class_span(arena, (uint16_t)(word & WR_CLASS_MASK), &span);
}

/* Read the bucket. Whether a slot is empty is said by its word alone: had we asked the state as
 * well, a key that another process puts there between our two reads would be neither a free slot
 * nor the key, and we would store it a second time (0.29 % of keys in the prototype). A pair that
 * is torn by such a change fails the compare-and-swap later. Returns the first empty slot or -1; -2
 * when the key is there. */
static int scan(const struct wr_bucket *bucket, uint64_t hash, struct wr_slot copy[WR_BUCKET_SLOTS])
{
    int empty = -1;

    for (int i = 0; i < WR_BUCKET_SLOTS; i++) {
        copy[i].state = WR_LOAD(&bucket->slot[i].state);
        copy[i].word = WR_LOAD(&bucket->slot[i].word);
        if (wr_slot_same_key(copy[i].word, hash))
            return -2;
        if (copy[i].word == 0 && empty < 0)
            empty = i;
    }
    return empty;
}

int wr_evict_choose(const struct wr_arena *arena, struct wr_bucket *bucket, uint64_t hash,
                    const struct wr_worth *newcomer, int64_t now_ns, unsigned excluded,
                    struct wr_victim *victim)
{
    struct wr_slot copy[WR_BUCKET_SLOTS];
    struct wr_worth least = {UINT64_MAX, 0}, worth;
    int chosen = scan(bucket, hash, copy);
    bool damaged = false;

    *victim = (struct wr_victim){0};
    if (chosen == -2)
        return WEIR_EAGAIN;
    if (chosen >= 0) {
        /* An empty slot's state is 0 but for damage; expecting what is there clears that. */
        *victim = (struct wr_victim){.slot = &bucket->slot[chosen], .state = copy[chosen].state};
        return 0;
    }
    for (int i = 0; i < WR_BUCKET_SLOTS && least.used_q32 > 0; i++) {
        bool sound;
        if ((excluded >> i & 1) != 0)
            continue;
        sound = wr_evict_judge(arena, copy[i].word, copy[i].state, now_ns, &worth);
        if (worth.used_q32 < least.used_q32) {
            chosen = i;
            least = worth;
            damaged = !sound;
        }
    }
    if (chosen < 0 || !wr_evict_yields(&least, newcomer))
        return WEIR_EFULL;
    *victim = (struct wr_victim){.slot = &bucket->slot[chosen],
                                 .word = copy[chosen].word,
                                 .state = copy[chosen].state,
                                 .live = least.used_q32 > 0,
                                 .damaged = damaged,
                                 .has_list = has_list(arena, copy[chosen].word)};
    return 0;
}
