/* log.c - opening and closing a list of stamps: find it or make it, lock it, age it, commit it.
 *
 * The edit lives in struct wr_log until it is committed (list.c); what is done to its stamps
 * meanwhile is in stamps.c. Nodes that fall out are given back after the commit. A kill before that
 * loses them until wr_list_collect; new nodes linked and not committed likewise. */
#include "store/log.h"

#include "base/units.h"
#include "store/evict.h"
#include "store/list.h"
#include "store/node.h"
#include "store/slot.h"
#include "store/stamps.h"

#define OPEN_TRIES 64 /* of opening a list that others drop and make meanwhile */

/* ---- looking ------------------------------------------------------------------------------- */

static int64_t clamp_time(int64_t now_ns)
{
    return wr_min_i64(wr_max_i64(0, now_ns), WR_TIME_MAX_NS);
}

uint32_t wr_log_peek(const struct wr_arena *arena, uint64_t hash, uint16_t class_id, int64_t now_ns,
                     int64_t *oldest_ns, int64_t *newest_ns)
{
    const struct wr_log_head *head;
    struct wr_span span, have;
    struct wr_slot_view view;

    *oldest_ns = 0;
    *newest_ns = 0;
    wr_slot_find(arena, hash, &view);
    if (view.slot == NULL || !wr_class_span(arena, class_id, &span))
        return 0;
    if (view.class_id != class_id) {
        if (!wr_class_span(arena, view.class_id, &have))
            return 0;
        span.tick_ns = have.tick_ns;
    }
    head = wr_head_at(arena, view.state);
    return head == NULL
               ? 0
               : wr_list_look(arena, head, &span, clamp_time(now_ns), oldest_ns, newest_ns);
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Take the list as it was committed, aged, as what is to be edited. */
static bool load(struct wr_log *log)
{
    const struct wr_span span = {log->window_ns, log->tick_ns};
    struct wr_list list;
    bool sound = wr_list_read(log->arena, log->head, &list);

    wr_list_settle(&list, &span, log->now_ns);
    log->old_first = list.first;
    log->tail = list.last;
    log->drop_first = 0;
    log->changed = false;
    if (sound && list.count > 0) {
        uint32_t count = list.count;
        sound = wr_list_expire(log->arena, &list, &span, log->now_ns, &log->drop_first);
        log->changed = list.count != count;
    }
    log->first = list.first;
    log->last = list.last;
    log->offset = list.offset;
    log->live = list.count;
    log->last_ns = list.last_ns;
    log->last_tick = wr_list_last_tick(log->arena, &list);
    return sound;
}

/* Lock the list that |view| refers to. Returns 0; WEIR_EAGAIN: it is not that slot's any more. */
static int lock(struct wr_log *log, const struct wr_slot_view *view)
{
    struct wr_log_head *head = wr_head_at(log->arena, view->state);
    int rc;

    if (head != NULL) {
        rc = wr_list_lock(log->arena, head);
        if (rc != 0)
            return rc;
        if (WR_LOAD(&view->slot->state) == view->state &&
            WR_LOAD(&view->slot->word) == view->word && WR_LOAD(&head->word) == view->word &&
            WR_LOAD(&head->slot) == wr_slot_index(log->arena, view->slot)) {
            log->slot = view->slot;
            log->head = head;
            log->ref = (uint32_t)view->state;
            return 0;
        }
        wr_list_unlock(head);
        if (WR_LOAD(&view->slot->state) != view->state || WR_LOAD(&view->slot->word) != view->word)
            return WEIR_EAGAIN;
    }
    /* The slot refers to nothing, or to a list that knows nothing of it: damaged. */
    if (wr_cas16(view->slot, view->word, view->state, 0, 0))
        (void)WR_ADD(&log->arena->header->counters[WR_QUARANTINED], 1);
    return WEIR_EAGAIN;
}

/* Empty a damaged list that is locked; what it refers to is lost until wr_list_collect. */
static void quarantine(struct wr_log *log)
{
    const struct wr_list none = {0};

    wr_list_publish(log->head, &none);
    (void)WR_ADD(&log->arena->header->counters[WR_QUARANTINED], 1);
    (void)load(log);
}

static int enter(struct wr_log *log, const struct wr_slot_view *view)
{
    int rc = lock(log, view);

    if (rc == 0 && !load(log))
        quarantine(log);
    return rc;
}

/* A new list, locked, that |slot| does not refer to yet. */
static int begin(struct wr_log *log, struct wr_slot *slot)
{
    uint64_t word = wr_slot_word(log->hash, log->class_id);

    log->ref = wr_list_new(log->arena, slot, word, &log->worth, log->now_ns);
    if (log->ref == 0) {
        bool none = log->arena->head_count == 0;
        (void)WR_ADD(&log->arena->header->counters[none ? WR_NO_NODES : WR_UNSTORED], 1);
        return none ? WEIR_EBUSY : WEIR_EFULL;
    }
    log->slot = slot;
    log->head = wr_head_at(log->arena, log->ref);
    (void)load(log);
    return 0;
}

/* The key has no slot: take one. */
static int make(struct wr_log *log)
{
    uint64_t word = wr_slot_word(log->hash, log->class_id);
    struct wr_victim victim;
    unsigned excluded = 0;
    int rc = WEIR_EFULL;

    for (int i = 0; i < WR_BUCKET_SLOTS; i++) {
        rc = wr_slot_choose(log->arena, log->hash, &log->worth, log->now_ns, excluded, &victim);
        if (rc == 0)
            rc = begin(log, victim.slot);
        if (rc != 0)
            return rc;
        rc = wr_slot_take(log->arena, &victim, word, log->ref);
        WR_CRASH_POINT("make: slot taken");
        if (rc == 0)
            return 0;
        wr_list_dispose(log->arena, log->head);
        if (rc != WEIR_EBUSY)
            return rc;
        excluded |= 1U << (wr_slot_index(log->arena, victim.slot) % WR_BUCKET_SLOTS);
    }
    return rc;
}

/* Append what is live of |old| to the new list |log|, each stamp at its moment, rounded up. */
static bool copy_stamps(struct wr_log *log, const struct wr_log *old)
{
    struct wr_node *node = wr_node_at(old->arena, old->first);
    int64_t tick_ns = log->tick_ns;
    uint32_t place = old->offset;

    for (uint32_t k = 0; k < old->live && node != NULL; k++) {
        uint32_t age = old->last_tick - WR_LOAD(&node->ticks[place]);
        int64_t stamp = wr_list_moment(old->last_ns, age, old->tick_ns);
        stamp = (wr_max_i64(0, stamp) + tick_ns - 1) / tick_ns * tick_ns;
        if (log->now_ns - stamp < log->window_ns &&
            !wr_stamps_push(log, log->live == 0 ? stamp : wr_max_i64(stamp, log->last_ns)))
            return false;
        if (++place == WR_NODE_TICKS) {
            place = 0;
            node = wr_node_at(old->arena, WR_LOAD(&node->next));
        }
    }
    return true;
}

/* Commit the edit, without unlocking. */
static void commit(struct wr_log *log)
{
    struct wr_list list = wr_stamps_list(log);
    struct wr_node *last;

    if (log->changed)
        wr_list_publish(log->head, &list);
    if (log->drop_first != 0)
        wr_node_put_chain(log->arena, log->old_first, log->drop_first);
    last = wr_node_at(log->arena, log->last);
    if (last != NULL && log->last != log->tail)
        wr_node_put_chain(log->arena, WR_LOAD(&last->next), log->tail);
    log->changed = false;
    log->drop_first = 0;
    log->tail = log->last;
    log->old_first = log->first;
}

/* The key's slot has a list of another class: make a new list of its stamps, then let the slot
 * refer to that. Both are locked; nobody but us knows of the new one, so nobody waits for both. */
static int rebuild(struct wr_log *log, const struct wr_slot_view *view, const struct wr_span *have)
{
    uint64_t word = wr_slot_word(log->hash, log->class_id);
    struct wr_log old = *log;
    bool done;
    int rc;

    old.window_ns = have->window_ns;
    old.tick_ns = have->tick_ns;
    rc = lock(&old, view);
    if (rc != 0)
        return rc;
    if (!load(&old))
        quarantine(&old);
    rc = begin(log, view->slot);
    if (rc == 0 && !copy_stamps(log, &old)) {
        (void)WR_ADD(&log->arena->header->counters[WR_NO_NODES], 1);
        rc = WEIR_EFULL;
    }
    if (rc != 0) {
        if (log->ref != 0) {
            commit(log);
            wr_list_dispose(log->arena, log->head);
        }
        wr_list_unlock(old.head);
        return rc;
    }
    commit(log);
    done = wr_cas16(view->slot, view->word, view->state, word, log->ref);
    WR_CRASH_POINT("rebuild: slot changed");
    wr_list_dispose(log->arena, done ? old.head : log->head);
    if (!done)
        wr_list_unlock(old.head);
    return done ? 0 : WEIR_EAGAIN;
}

/* The key's slot has another class: of lists, or of words, which leave no stamps. */
static int convert(struct wr_log *log, const struct wr_slot_view *view)
{
    struct wr_span have;
    int rc;

    if (wr_class_span(log->arena, view->class_id, &have))
        return rebuild(log, view, &have);
    rc = begin(log, view->slot);
    if (rc != 0 || wr_cas16(view->slot, view->word, view->state,
                            wr_slot_word(log->hash, log->class_id), log->ref))
        return rc;
    wr_list_dispose(log->arena, log->head);
    return WEIR_EAGAIN;
}

int wr_log_open(struct wr_log *log, struct wr_arena *arena, uint64_t hash, uint16_t class_id,
                const struct wr_worth *worth, int64_t now_ns)
{
    struct wr_slot_view view;
    struct wr_span span;
    int rc = WEIR_EAGAIN;

    log->arena = arena;
    log->hash = hash;
    log->class_id = class_id;
    log->worth = *worth;
    log->now_ns = clamp_time(now_ns);
    log->live = 0;
    log->ref = 0;
    if (!wr_class_span(arena, class_id, &span))
        return WEIR_EINVAL;
    log->window_ns = span.window_ns;
    log->tick_ns = span.tick_ns;
    for (int i = 0; i < OPEN_TRIES && rc == WEIR_EAGAIN; i++) {
        wr_slot_find(arena, hash, &view);
        if (view.slot == NULL)
            rc = make(log);
        else if (view.class_id == class_id)
            rc = enter(log, &view);
        else
            rc = convert(log, &view);
    }
    if (rc == WEIR_EAGAIN)
        rc = WEIR_EBUSY;
    if (rc != 0) {
        log->ref = 0;
        log->live = 0;
    }
    return rc;
}

void wr_log_close(struct wr_log *log)
{
    if (log->ref == 0)
        return;
    commit(log);
    WR_CRASH_POINT("close: before unlocking");
    wr_list_unlock(log->head);
    log->ref = 0;
}
