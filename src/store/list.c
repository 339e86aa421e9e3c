/* list.c - one list of stamps: its lock, its two copies, its ageing.
 *
 * Lock. The owner word of the head names a claim (claim.h). Whoever waits spins, then asks the
 * kernel whether the owner lives, takes the lock of a dead one, and gives up on a stopped one after
 * WAIT_NS.
 *
 * Two copies. A list changes by writing the copy that is not valid and then adding one to the
 * selector, whose lowest bit says which is: a kill leaves the old or the new. Stamps are appended
 * behind the end that the valid copy knows, so they do not exist before the commit; nodes are given
 * back only after the commit that drops them, so the valid copy never reaches a node of another
 * list.
 *
 * Invariants.
 *   1. Only the owner writes the copies, the selector and the word of a head.
 *   2. From the valid copy, count stamps can be read, oldest first.
 *   3. A stamp is at most as late as last_ns: whatever its tick is, it expires when the list does.
 *
 * Stamps are ticks of 32 bits relative to the newest one, whose moment is kept in 64. Live stamps
 * span at most the window plus what a clock may be set back unnoticed, under 2^32 ticks. */
#include "store/list.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/units.h"
#include "store/claim.h"
#include "store/node.h"

#define SPINS 200                   /* an edit takes well under a microsecond */
#define WAIT_NS (20 * WR_NS_PER_MS) /* a descheduled owner is back within a few time slices */
#define NAP_NS 50000L
#define LOOK_TRIES 8 /* of reading a list that changes meanwhile */

/* ---- the lock ------------------------------------------------------------------------------ */

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#else
    (void)sched_yield();
#endif
}

static bool steal(struct wr_arena *arena, struct wr_log_head *head, uint32_t me)
{
    uint32_t owner = WR_LOAD(&head->owner);

    if (owner == 0)
        return wr_cas4(&head->owner, 0, me);
    if (!wr_claim_dead(arena, owner) || !wr_cas4(&head->owner, owner, me))
        return false;
    (void)WR_ADD(&arena->header->counters[WR_STOLEN_LOCKS], 1);
    return true;
}

bool wr_list_trylock(struct wr_arena *arena, struct wr_log_head *head)
{
    uint32_t me = wr_claim_owner(arena);

    return me != 0 && (wr_cas4(&head->owner, 0, me) || steal(arena, head, me));
}

int wr_list_lock(struct wr_arena *arena, struct wr_log_head *head)
{
    const struct timespec nap = {0, NAP_NS};
    uint32_t me = wr_claim_owner(arena);
    int64_t start_ns;

    if (me == 0)
        return WEIR_EBUSY;
    for (int i = 0; i < SPINS; i++) {
        if (WR_LOAD(&head->owner) == 0 && wr_cas4(&head->owner, 0, me))
            return 0;
        pause_briefly();
    }
    start_ns = wr_clock_mono().ns;
    while (!steal(arena, head, me)) {
        if (wr_clock_mono().ns - start_ns > WAIT_NS) {
            (void)WR_ADD(&arena->header->counters[WR_BUSY_LISTS], 1);
            return WEIR_EBUSY;
        }
        (void)nanosleep(&nap, NULL);
    }
    return 0;
}

void wr_list_unlock(struct wr_log_head *head)
{
    WR_STORE(&head->owner, 0);
}

/* ---- the copies ---------------------------------------------------------------------------- */

bool wr_list_read(const struct wr_arena *arena, const struct wr_log_head *head,
                  struct wr_list *list)
{
    uint32_t which = WR_LOAD(&head->selector) & 1;
    const struct wr_list_copy *copy = &head->copy[which];

    list->first = WR_LOAD(&copy->first);
    list->last = WR_LOAD(&copy->last);
    list->count = WR_LOAD(&copy->count);
    list->offset = WR_LOAD(&copy->offset);
    list->last_ns = WR_LOAD(&head->last_ns[which]);
    if (list->first == 0 && list->last == 0 && list->count == 0)
        return true;
    if (wr_node_at(arena, list->first) != NULL && wr_node_at(arena, list->last) != NULL &&
        list->offset < WR_NODE_TICKS && list->last_ns >= 0 &&
        list->last_ns <= WR_TIME_MAX_NS + WR_CLOCK_NOISE_NS &&
        (list->first == list->last) == (list->offset + list->count <= WR_NODE_TICKS))
        return true;
    memset(list, 0, sizeof *list);
    return false;
}

void wr_list_publish(struct wr_log_head *head, const struct wr_list *list)
{
    uint32_t selector = WR_LOAD(&head->selector);
    uint32_t which = (selector + 1) & 1;
    struct wr_list_copy *copy = &head->copy[which];

    WR_STORE(&copy->first, list->first);
    WR_STORE(&copy->last, list->last);
    WR_CRASH_POINT("commit: half a copy");
    WR_STORE(&copy->count, (uint16_t)list->count);
    WR_STORE(&copy->offset, (uint8_t)list->offset);
    WR_STORE(&head->last_ns[which], list->last_ns);
    WR_CRASH_POINT("commit: before");
    WR_STORE(&head->selector, selector + 1);
    WR_CRASH_POINT("commit: after");
}

/* ---- ageing -------------------------------------------------------------------------------- */

void wr_list_settle(struct wr_list *list, const struct wr_span *span, int64_t now_ns)
{
    int64_t noise_ns = wr_max_i64(span->window_ns, WR_CLOCK_NOISE_NS);

    /* Further ahead than honest disorder: the clock was set back, and the list comes along. */
    if (list->last_ns - now_ns > noise_ns)
        list->last_ns = now_ns - now_ns % span->tick_ns;
}

uint32_t wr_list_last_tick(const struct wr_arena *arena, const struct wr_list *list)
{
    const struct wr_node *node = wr_node_at(arena, list->last);

    if (node == NULL || list->count == 0)
        return 0;
    return WR_LOAD(&node->ticks[(list->offset + list->count - 1) % WR_NODE_TICKS]);
}

int64_t wr_list_moment(int64_t last_ns, uint32_t age, int64_t tick_ns)
{
    int64_t age_ns;

    if (__builtin_mul_overflow((int64_t)age, tick_ns, &age_ns))
        return INT64_MIN / 2;
    return last_ns - age_ns;
}

/* An emptied list keeps its first node, to be filled anew at once: of the copy that may still be
 * valid, whatever is written there, no stamp becomes later than last_ns. */
static void empty(struct wr_list *list)
{
    list->last = list->first;
    list->offset = 0;
    list->count = 0;
}

bool wr_list_expire(const struct wr_arena *arena, struct wr_list *list, const struct wr_span *span,
                    int64_t now_ns, uint32_t *dropped)
{
    const struct wr_node *node = wr_node_at(arena, list->first);
    uint32_t last_tick = wr_list_last_tick(arena, list);

    *dropped = 0;
    if (now_ns - list->last_ns >= span->window_ns) {
        empty(list);
        return true;
    }
    while (list->count > 0 && node != NULL) {
        uint32_t age = last_tick - WR_LOAD(&node->ticks[list->offset]);
        int64_t stamp_ns = wr_list_moment(list->last_ns, age, span->tick_ns);
        if (now_ns - stamp_ns < span->window_ns)
            return true;
        list->count--;
        if (++list->offset == WR_NODE_TICKS) {
            *dropped = list->first;
            list->first = WR_LOAD(&node->next);
            list->offset = 0;
            node = wr_node_at(arena, list->first);
        }
    }
    return list->count == 0 && node != NULL;
}

uint32_t wr_list_look(const struct wr_arena *arena, const struct wr_log_head *head,
                      const struct wr_span *span, int64_t now_ns, int64_t *oldest_ns,
                      int64_t *newest_ns)
{
    struct wr_list list = {0};

    *oldest_ns = 0;
    *newest_ns = 0;
    for (int i = 0; i < LOOK_TRIES; i++) {
        uint32_t selector = WR_LOAD(&head->selector);
        const struct wr_node *node;
        uint32_t dropped, age;
        bool sound = wr_list_read(arena, head, &list);

        wr_list_settle(&list, span, now_ns);
        sound = sound && (list.count == 0 || wr_list_expire(arena, &list, span, now_ns, &dropped));
        node = wr_node_at(arena, list.first);
        if (!sound || list.count == 0 || node == NULL) {
            list.count = 0;
        } else {
            age = wr_list_last_tick(arena, &list) - WR_LOAD(&node->ticks[list.offset]);
            *oldest_ns = wr_list_moment(list.last_ns, age, span->tick_ns);
            *newest_ns = list.last_ns;
        }
        if (WR_LOAD(&head->selector) == selector)
            break;
    }
    if (list.count == 0)
        *oldest_ns = *newest_ns = 0;
    return list.count;
}
