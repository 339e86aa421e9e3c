/* class_room.c - finding a class that nobody needs, in a table that is full.
 *
 * Problem. Policies change, and each change leaves classes behind: some no slot has any more, some
 * are had by slots of keys that recovered long ago, some by keys that still count.
 *
 * Idea. One look through the arena says how many slots each class has, and empties those of unused
 * classes that have recovered, by which nothing is lost. Classes that have no slot then are spare.
 * Where there are none, the unused classes with the fewest slots are emptied, as by an eviction,
 * and counted as such: a policy that a person wants comes before counts that were begun under
 * limits that are no more. With each such round the classes emptied are larger, so that a few
 * rounds make room for any policy.
 *
 * Invariants:
 *   1. A class is spare only while the gate is held in which the look was: nobody else can begin to
 *      use it.
 *   2. Slots of a class that a living process uses are not touched.
 *
 * Cost: a look is one pass over all slots (1 GiB: half a second), once for a whole policy. */
#include "store/class.h"

#include <stdlib.h>
#include <string.h>

#include "store/claim.h"
#include "store/evict.h"
#include "store/list.h"
#include "store/slot.h"

#define ROUNDS_MAX                                                                \
    40 /* of emptying; each takes classes twice as large: 2^40 slots is any arena \
        */

struct look {
    struct wr_arena *arena;
    int64_t now_ns;
    bool used[WR_CLASSES_MAX];      /* by somebody living */
    uint64_t slots[WR_CLASSES_MAX]; /* as of the last pass */
    uint64_t left[WR_CLASSES_MAX];  /* as of this one */
};

static void find_used(struct look *look)
{
    const struct wr_arena *arena = look->arena;
    uint64_t held[WR_CLAIMS / 64] = {0};

    for (uint32_t claim = 0; claim < WR_CLAIMS; claim++)
        if (wr_claim_held(arena, claim))
            held[claim / 64] |= UINT64_C(1) << (claim % 64);
    for (uint32_t i = 0; i < arena->class_count; i++)
        for (uint32_t word = 0; word < WR_CLAIMS / 64; word++)
            if ((WR_LOAD(&arena->classes[i].users[word]) & held[word]) != 0)
                look->used[i] = true;
}

/* Empty |slot|, as it was read. False: it has changed, or its list is in use. */
static bool empty(struct wr_arena *arena, struct wr_slot *slot, uint64_t word, uint64_t state)
{
    struct wr_span span;

    if (wr_class_span(arena, (uint16_t)(word & WR_CLASS_MASK), &span))
        return wr_list_replace(arena, slot, word, state, 0, 0, false) == 0;
    return wr_cas16(slot, word, state, 0, 0);
}

/* Empty a slot of an unused class that has recovered; any, where |most| says so of its class. */
static bool clear(struct look *look, struct wr_slot *slot, uint64_t most)
{
    uint64_t state = WR_LOAD(&slot->state), word = WR_LOAD(&slot->word);
    uint32_t class_id = (uint32_t)(word & WR_CLASS_MASK);
    struct wr_worth worth;

    if (word == 0 || look->used[class_id])
        return false;
    (void)wr_evict_judge(look->arena, word, state, look->now_ns, &worth);
    if (worth.used_q32 > 0 && look->slots[class_id] > most)
        return false;
    if (!empty(look->arena, slot, word, state))
        return false;
    if (worth.used_q32 > 0)
        (void)WR_ADD(&look->arena->header->counters[WR_EVICTED_LIVE], 1);
    return true;
}

/* Clear classes of at most |most| slots, and count anew. */
static void pass(struct look *look, uint64_t most)
{
    struct wr_arena *arena = look->arena;

    memset(look->left, 0, sizeof look->left);
    for (uint64_t b = 0; b < arena->bucket_count; b++) {
        for (unsigned i = 0; i < WR_BUCKET_SLOTS; i++) {
            struct wr_slot *slot = &arena->buckets[b].slot[i];
            if (WR_LOAD(&slot->word) != 0 && !clear(look, slot, most))
                look->left[WR_LOAD(&slot->word) & WR_CLASS_MASK]++;
        }
    }
    memcpy(look->slots, look->left, sizeof look->slots);
}

/* The fewest slots that an unused class has; 0: there is none. */
static uint64_t fewest(const struct look *look)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 1; i < look->arena->class_count; i++)
        if (!look->used[i])
            least = wr_min_u64(least, look->slots[i]);
    return least == UINT64_MAX ? 0 : least;
}

static bool mark_spare(const struct look *look)
{
    struct wr_class_uses *uses = look->arena->uses;
    bool any = false;

    for (uint32_t i = 1; i < look->arena->class_count; i++) {
        uses->spare[i] = !look->used[i] && look->slots[i] == 0;
        any = any || uses->spare[i] != 0;
    }
    return any;
}

static void look_through(struct wr_arena *arena)
{
    struct look *look = (struct look *)calloc(1, sizeof *look);

    memset(arena->uses->spare, 0, sizeof arena->uses->spare);
    if (look == NULL)
        return;
    look->arena = arena;
    look->now_ns = wr_arena_now(arena);
    find_used(look);
    memset(look->slots, 0xff, sizeof look->slots); /* as if too many to be emptied */
    pass(look, 0);
    for (int round = 0; round < ROUNDS_MAX && !mark_spare(look) && fewest(look) > 0; round++)
        pass(look, 2 * fewest(look));
    free(look);
}

static bool take_spare(struct wr_arena *arena, uint16_t *number)
{
    unsigned char *spare = arena->uses->spare;
    const unsigned char *first = (unsigned char *)memchr(spare, 1, arena->class_count);

    if (first == NULL)
        return false;
    *number = (uint16_t)(first - spare);
    spare[*number] = 0;
    return true;
}

int wr_class_room(struct wr_arena *arena, uint16_t *number)
{
    *number = 0;
    if (!arena->uses->looked || !take_spare(arena, number))
        look_through(arena);
    else
        return 0;
    arena->uses->looked = true;
    return take_spare(arena, number) ? 0 : WEIR_EFULL;
}
