/* stamps.c - appending to and removing from an open list.
 *
 * What an edit does to nodes before it is committed must be harmless to the copy that is still
 * valid, in case we are killed:
 *
 *   append   writes ticks behind the valid end, and links new nodes behind the valid last one;
 *            whoever comes next overwrites both. Into an emptied list it writes over stamps that
 *            have all expired or been removed: they stay at or before last_ns, and so expired.
 *   remove   shifts the newer stamps down over the removed ones, oldest first. Killed at any point,
 *            the valid copy holds each stamp that was to stay, plus as many of them twice as were
 * to go: as if what is removed had stayed a little longer, and never one less. expire   (list.c)
 * changes no node.
 *
 * Rejected: a ring per key, doubling as it grows (copies, 1.2 to 1.6 times the memory at 1000
 * stamps, slower); a lock-free ring of 64-bit stamps (twice the memory, and with 32 bits it denies
 * falsely); shifting the older stamps up, which in a singly linked chain overwrites a stamp before
 * it is copied. */
#include "store/stamps.h"

#include "store/node.h"

struct wr_list wr_stamps_list(const struct wr_log *log)
{
    return (struct wr_list){log->first, log->last, log->live, log->offset, log->last_ns};
}

/* The node of the |k|-th oldest stamp, and its place there; NULL in a damaged list. */
static struct wr_node *locate(const struct wr_log *log, uint32_t k, uint32_t *place)
{
    struct wr_node *node = wr_node_at(log->arena, log->first);
    uint32_t hops = (log->offset + k) / WR_NODE_TICKS;

    *place = (log->offset + k) % WR_NODE_TICKS;
    for (; hops > 0 && node != NULL; hops--)
        node = wr_node_at(log->arena, WR_LOAD(&node->next));
    return node;
}

int64_t wr_log_stamp(const struct wr_log *log, uint32_t k)
{
    uint32_t place;
    const struct wr_node *node = locate(log, k, &place);

    if (node == NULL || k >= log->live)
        return log->last_ns;
    return wr_list_moment(log->last_ns, log->last_tick - WR_LOAD(&node->ticks[place]),
                          log->tick_ns);
}

/* The next node to write to, behind last: one we have, or a new one. */
static bool extend(struct wr_log *log)
{
    struct wr_node *last = wr_node_at(log->arena, log->last);
    uint32_t next;

    if (last != NULL && log->last != log->tail) {
        next = WR_LOAD(&last->next);
        if (wr_node_at(log->arena, next) == NULL)
            return false; /* damaged */
        log->last = next;
        return true;
    }
    next = wr_list_node(log->arena, &log->worth, log->now_ns);
    if (next == 0)
        return false;
    WR_CRASH_POINT("append: node taken");
    if (last != NULL)
        WR_STORE(&last->next, next);
    else
        log->first = next;
    log->last = log->tail = next;
    return true;
}

bool wr_stamps_push(struct wr_log *log, int64_t stamp_ns)
{
    uint32_t place = (log->offset + log->live) % WR_NODE_TICKS;
    struct wr_node *node;

    if (log->live >= WR_LIST_MAX)
        return false;
    if (log->live == 0) {
        log->offset = place = 0;
        log->last_tick = 0;
        if (log->last == 0 && !extend(log))
            return false;
    } else {
        log->last_tick += (uint32_t)((stamp_ns - log->last_ns) / log->tick_ns);
        if (place == 0 && !extend(log))
            return false;
    }
    node = wr_node_at(log->arena, log->last);
    if (node == NULL)
        return false;
    WR_STORE(&node->ticks[place], log->last_tick);
    log->last_ns = stamp_ns;
    log->live++;
    log->changed = true;
    return true;
}

int wr_log_append(struct wr_log *log, uint32_t count, int64_t *stamp_ns)
{
    const struct wr_list before = wr_stamps_list(log);
    const uint32_t before_tick = log->last_tick;
    const bool before_changed = log->changed;
    int64_t tick_ns = log->tick_ns;
    int64_t stamp = (log->now_ns + tick_ns - 1) / tick_ns * tick_ns;

    *stamp_ns = log->live == 0 ? stamp : wr_max_i64(stamp, log->last_ns);
    for (uint32_t i = 0; i < count; i++) {
        if (wr_stamps_push(log, *stamp_ns))
            continue;
        /* Back to what it was, but for the nodes: those are behind last, and given back at close.
         */
        log->live = before.count;
        log->last = before.last != 0 ? before.last : log->first;
        log->offset = before.offset;
        log->last_ns = before.last_ns;
        log->last_tick = before_tick;
        log->changed = before_changed || before.last != log->last;
        (void)WR_ADD(&log->arena->header->counters[WR_NO_NODES], 1);
        return WEIR_EFULL;
    }
    WR_CRASH_POINT("append: written");
    return 0;
}

/* Where the stamps of tick |tick| begin, and how many there are; 0 for none. */
static uint32_t find_equal(const struct wr_log *log, uint32_t tick, uint32_t *at)
{
    struct wr_node *node = wr_node_at(log->arena, log->first);
    uint32_t place = log->offset, equal = 0;

    for (uint32_t k = 0; k < log->live && node != NULL; k++) {
        if (WR_LOAD(&node->ticks[place]) == tick) {
            *at = equal == 0 ? k : *at;
            equal++;
        } else if (equal > 0) {
            break;
        }
        if (++place == WR_NODE_TICKS) {
            place = 0;
            node = wr_node_at(log->arena, WR_LOAD(&node->next));
        }
    }
    return equal;
}

/* Move the stamps from |at| + |by| on down by |by|. False: the list is damaged. */
static bool shift_down(struct wr_log *log, uint32_t at, uint32_t by)
{
    uint32_t to_place, from_place;
    struct wr_node *to = locate(log, at, &to_place);
    struct wr_node *from = locate(log, at + by, &from_place);

    for (uint32_t k = at; k + by < log->live; k++) {
        if (to == NULL || from == NULL)
            return false;
        WR_STORE(&to->ticks[to_place], WR_LOAD(&from->ticks[from_place]));
        WR_CRASH_POINT("remove: one shifted");
        if (++to_place == WR_NODE_TICKS) {
            to_place = 0;
            to = wr_node_at(log->arena, WR_LOAD(&to->next));
        }
        if (++from_place == WR_NODE_TICKS) {
            from_place = 0;
            from = wr_node_at(log->arena, WR_LOAD(&from->next));
        }
    }
    return true;
}

/* The reference of the node that holds the newest stamp. */
static uint32_t last_node(const struct wr_log *log)
{
    uint32_t ref = log->first;
    uint32_t hops = log->live == 0 ? 0 : (log->offset + log->live - 1) / WR_NODE_TICKS;

    for (; hops > 0; hops--) {
        const struct wr_node *node = wr_node_at(log->arena, ref);
        if (node == NULL)
            return log->first;
        ref = WR_LOAD(&node->next);
    }
    return ref;
}

uint32_t wr_log_remove(struct wr_log *log, int64_t stamp_ns, uint32_t count)
{
    int64_t age_ns = log->last_ns - stamp_ns, tick_ns = log->tick_ns;
    uint32_t at = 0, found, tick;
    struct wr_list list;

    if (log->live == 0 || stamp_ns < 0 || age_ns < 0 || age_ns % tick_ns != 0 ||
        age_ns / tick_ns > UINT32_MAX)
        return 0;
    tick = log->last_tick - (uint32_t)(age_ns / tick_ns);
    found = (uint32_t)wr_min_u64(count, find_equal(log, tick, &at));
    if (found == 0 || !shift_down(log, at, found))
        return 0;
    log->live -= found;
    log->last = last_node(log);
    log->changed = true;
    if (log->live == 0) {
        log->offset = 0;
        return found;
    }
    list = wr_stamps_list(log);
    tick = wr_list_last_tick(log->arena, &list);
    log->last_ns = wr_list_moment(log->last_ns, log->last_tick - tick, tick_ns);
    log->last_tick = tick;
    return found;
}
