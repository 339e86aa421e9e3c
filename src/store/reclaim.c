/* reclaim.c - where lists come from and where they go.
 *
 * A slot refers to its list's head; the head knows its slot. Both must agree, under the head's
 * lock, for the list to be the slot's:
 *
 *   making     take a head, lock it, write word and slot into it, then compare-and-swap the slot
 *   changing   lock the head, see that the slot refers to it, edit
 *   disposing  lock the head, compare-and-swap the slot away, commit the empty list, give the nodes
 *              back, clear the word, unlock, give the head back
 *
 * So a process that found the slot before it was given to another key cannot edit that key's list:
 * it gets the lock of a head that its slot does not refer to any more, sees so, and starts again.
 * Heads stay heads for ever, so that a late attempt to lock one hits an owner word and nothing
 * else.
 *
 * A kill on the way loses some nodes until wr_list_collect, never more; a head that lost its slot
 * is found by the sweep. Nodes are given back only after no copy that may be valid has them: no
 * node is ever in two lists.
 *
 * When heads or nodes run out, a hand goes over the heads and disposes of lists that have nothing
 * live; if there is none among those it looks at, of the one with the least fraction of its limit
 * in use, by the rule of evict.c. Locks are only tried here, so nobody waits while holding another.
 */
#include <stdlib.h>
#include <string.h>

#include "store/evict.h"
#include "store/list.h"
#include "store/node.h"

#define SWEEP_HEADS 32 /* looked at for one that is needed; half a microsecond, mostly misses */
#define SWEEPS_MAX 2
#define TAKE_TRIES 8 /* heads found locked by someone stopped: lost until wr_list_collect */

uint64_t wr_slot_index(const struct wr_arena *arena, const struct wr_slot *slot)
{
    return (uint64_t)(slot - arena->buckets->slot);
}

static uint64_t ref_of(const struct wr_arena *arena, const struct wr_log_head *head)
{
    return (uint64_t)(head - arena->heads) + 1;
}

/* The slot that |head| says it belongs to, if that refers back to it; else NULL. Lock held. */
static struct wr_slot *slot_of(const struct wr_arena *arena, const struct wr_log_head *head)
{
    uint64_t index = WR_LOAD(&head->slot);
    struct wr_slot *slot;

    if (index >= wr_arena_slots(arena))
        return NULL;
    slot = &arena->buckets[index / WR_BUCKET_SLOTS].slot[index % WR_BUCKET_SLOTS];
    return WR_LOAD(&slot->state) == ref_of(arena, head) && WR_LOAD(&slot->word) == head->word
               ? slot
               : NULL;
}

void wr_list_dispose(struct wr_arena *arena, struct wr_log_head *head)
{
    const struct wr_list none = {0};
    struct wr_list list;

    if (wr_list_read(arena, head, &list)) {
        wr_list_publish(head, &none);
        wr_node_put_chain(arena, list.first, list.last);
    } else { /* what it refers to cannot be believed: lost until wr_list_collect */
        wr_list_publish(head, &none);
    }
    WR_CRASH_POINT("dispose: nodes given back");
    WR_STORE(&head->word, 0);
    wr_list_unlock(head);
    WR_CRASH_POINT("dispose: unlocked");
    wr_head_put(arena, (uint32_t)ref_of(arena, head));
}

int wr_list_replace(struct wr_arena *arena, struct wr_slot *slot, uint64_t word, uint64_t state,
                    uint64_t new_word, uint64_t new_state, bool wait)
{
    struct wr_log_head *head = wr_head_at(arena, state);
    bool ours, done;

    if (head == NULL) /* a reference to nothing, in a damaged file */
        return wr_cas16(slot, word, state, new_word, new_state) ? 0 : WEIR_EAGAIN;
    if (wait ? wr_list_lock(arena, head) != 0 : !wr_list_trylock(arena, head))
        return WEIR_EBUSY;
    ours = slot_of(arena, head) == slot;
    done = wr_cas16(slot, word, state, new_word, new_state);
    WR_CRASH_POINT("replace: slot changed");
    if (done && ours)
        wr_list_dispose(arena, head);
    else
        wr_list_unlock(head);
    return done ? 0 : WEIR_EAGAIN;
}

/* ---- the sweep ----------------------------------------------------------------------------- */

/* What the list is worth. False: it is locked, free or damaged: not judged. */
static bool judge_head(const struct wr_arena *arena, const struct wr_log_head *head, int64_t now_ns,
                       struct wr_worth *worth)
{
    uint64_t word = WR_LOAD(&head->word);

    return word != 0 && wr_evict_judge(arena, word, ref_of(arena, head), now_ns, worth);
}

/* Dispose of the list of |head| if nobody uses it now. */
static bool dispose_of(struct wr_arena *arena, struct wr_log_head *head)
{
    struct wr_slot *slot;
    uint64_t word;

    if (!wr_list_trylock(arena, head))
        return false;
    word = head->word;
    slot = slot_of(arena, head);
    if (word == 0 || (slot != NULL && !wr_cas16(slot, word, ref_of(arena, head), 0, 0))) {
        wr_list_unlock(head);
        return false;
    }
    wr_list_dispose(arena, head); /* with a slot or, an orphan of a kill, without */
    return true;
}

/* Is |head| without a slot that refers to it? Only a guess: the lock is not held. */
static bool looks_orphaned(const struct wr_arena *arena, const struct wr_log_head *head)
{
    return WR_LOAD(&head->word) != 0 && slot_of(arena, head) == NULL;
}

/* Look at the next few lists and dispose of those that hold nothing, else of the least one. */
static bool sweep(struct wr_arena *arena, const struct wr_worth *newcomer, int64_t now_ns)
{
    uint64_t hand = WR_ADD(&arena->header->sweep, SWEEP_HEADS);
    struct wr_worth least = {UINT64_MAX, 0}, worth;
    struct wr_log_head *victim = NULL;
    bool freed = false;

    for (unsigned i = 0; i < SWEEP_HEADS; i++) {
        struct wr_log_head *head = &arena->heads[(hand + i) % arena->head_count];
        if (looks_orphaned(arena, head)) {
            freed |= dispose_of(arena, head);
        } else if (judge_head(arena, head, now_ns, &worth)) {
            if (worth.used_q32 == 0)
                freed |= dispose_of(arena, head);
            else if (worth.used_q32 < least.used_q32) {
                least = worth;
                victim = head;
            }
        }
    }
    if (freed || victim == NULL || !wr_evict_yields(&least, newcomer))
        return freed;
    if (!dispose_of(arena, victim))
        return false;
    (void)WR_ADD(&arena->header->counters[WR_EVICTED_LIVE], 1);
    return true;
}

uint32_t wr_list_node(struct wr_arena *arena, const struct wr_worth *worth, int64_t now_ns)
{
    uint32_t ref = wr_node_take(arena);

    for (int i = 0; ref == 0 && arena->head_count > 0 && i < SWEEPS_MAX; i++)
        if (sweep(arena, worth, now_ns))
            ref = wr_node_take(arena);
    return ref;
}

static uint32_t take_head(struct wr_arena *arena, const struct wr_worth *worth, int64_t now_ns)
{
    uint32_t ref = wr_head_take(arena);

    for (int i = 0; ref == 0 && arena->head_count > 0 && i < SWEEPS_MAX; i++)
        if (sweep(arena, worth, now_ns))
            ref = wr_head_take(arena);
    return ref;
}

uint32_t wr_list_new(struct wr_arena *arena, const struct wr_slot *slot, uint64_t word,
                     const struct wr_worth *worth, int64_t now_ns)
{
    const struct wr_list none = {0};

    for (int i = 0; i < TAKE_TRIES; i++) {
        uint32_t ref = take_head(arena, worth, now_ns);
        struct wr_log_head *head = wr_head_at(arena, ref);
        if (head == NULL)
            return 0;
        WR_CRASH_POINT("new: head taken");
        if (wr_list_lock(arena, head) != 0)
            continue;
        wr_list_publish(head, &none);
        WR_STORE(&head->slot, wr_slot_index(arena, slot));
        WR_STORE(&head->word, word);
        WR_CRASH_POINT("new: before its slot");
        return ref;
    }
    return 0;
}

/* ---- putting in order ---------------------------------------------------------------------- */

/* Mark the nodes of |list|. Returns how many there are; 0, and none marked, when it has none or is
 * damaged, which a node that has another list's mark shows as well. Ends: each step marks a node.
 */
static uint32_t mark_nodes(struct wr_arena *arena, const struct wr_list *list, uint8_t *marks)
{
    uint32_t ref = list->first, steps = 0;

    for (;;) {
        struct wr_node *node = wr_node_at(arena, ref);
        if (node == NULL || marks[ref - 1] != 0)
            break;
        marks[ref - 1] = 1;
        steps++;
        if (ref == list->last) {
            WR_STORE(&node->next, 0); /* what was linked and not committed is nobody's */
            return steps;
        }
        ref = WR_LOAD(&node->next);
    }
    for (ref = list->first; steps > 0; steps--) {
        marks[ref - 1] = 0;
        ref = WR_LOAD(&arena->nodes[ref - 1].next);
    }
    return 0;
}

/* Mark what the list of |head| has; one that is damaged becomes empty. */
static void keep_list(struct wr_arena *arena, struct wr_log_head *head, uint8_t *marks)
{
    const struct wr_list none = {0};
    struct wr_list list;
    uint32_t wanted, marked = 0;
    bool sound = wr_list_read(arena, head, &list);

    wanted = list.first == 0 ? 0 : wr_list_nodes(&list);
    if (sound && wanted > 0)
        marked = mark_nodes(arena, &list, marks);
    if (sound && marked == wanted)
        return;
    for (uint32_t ref = list.first; marked > 0; marked--) { /* more or fewer than it says */
        marks[ref - 1] = 0;
        ref = WR_LOAD(&arena->nodes[ref - 1].next);
    }
    wr_list_publish(head, &none);
    (void)WR_ADD(&arena->header->counters[WR_QUARANTINED], 1);
}

static void collect_heads(struct wr_arena *arena, uint8_t *marks)
{
    const struct wr_list none = {0};
    struct wr_log_head *head;

    arena->header->heads.free = 0;
    for (uint32_t ref = arena->head_count; ref >= 1; ref--) {
        head = &arena->heads[ref - 1];
        WR_STORE(&head->owner, 0);
        if (WR_LOAD(&head->word) != 0 && slot_of(arena, head) != NULL) {
            keep_list(arena, head, marks);
            continue;
        }
        wr_list_publish(head, &none);
        WR_STORE(&head->word, 0);
        wr_head_put(arena, ref);
    }
    arena->header->heads.fresh = arena->head_count;
}

void wr_list_collect(struct wr_arena *arena)
{
    uint8_t *marks;

    if (arena->head_count == 0)
        return;
    marks = (uint8_t *)calloc(arena->node_count, 1);
    if (marks == NULL)
        return; /* what is lost stays lost until somebody has the memory */
    collect_heads(arena, marks);
    arena->header->nodes.free = 0;
    for (uint32_t ref = arena->node_count; ref >= 1; ref--)
        if (marks[ref - 1] == 0)
            wr_node_put_chain(arena, ref, ref);
    arena->header->nodes.fresh = arena->node_count;
    free(marks);
}
