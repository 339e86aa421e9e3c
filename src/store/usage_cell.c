/* usage_cell.c - counting in a cell, on the path of a decision.
 *
 * Problem. Counts that people are billed by: no unit may be lost or counted twice, whoever is
 * killed and whenever, while any number of processes count for one customer, and while one window
 * ends and another begins.
 *
 * Idea. A cell is one cache line of four windows, each a pair of words that changes by one
 * compare-and-swap and says itself which window it is. A window begins when a pair that is empty,
 * or the window farthest from it, is replaced by it: one swap, from exactly what was read, so there
 * is no state in between and nothing to mend. Whoever read the clock just before the window ended
 * finds the old one still there, and counts in that; so does a settlement that comes late.
 *
 * Invariants.
 *   1. used + over of a window change together, from what was read.
 *   2. A window is in one pair. Two who begin the same window choose the same pair, as the choice
 *      follows from what is there; one's swap fails. (To choose differently, they would have to
 * read the cell before and after a pair went from nearer to farther of that window: that takes a
 *      clock that steps while they do it. Then the two pairs are counted apart, and added up by who
 *      reads the cell.)
 *   3. The bit of a changed cell is set from before the change until somebody looks, and so is
 * known (mapped.h).
 *
 * Rejected: moving the old window aside before the new one begins (a kill in between leaves it
 * twice, and a slow process may move the new one over it); a lock per cell; a pair for now and one
 * for before (a ledger on a full disk over a weekend would lose a day). */
#include "store/crash_point.h"
#include "store/usage_file.h"

void wr_usage_prefetch(const struct wr_usage *usage, uint32_t number)
{
    if (number < usage->room)
        __builtin_prefetch(&usage->cells[number]);
}

/* How far the window of |used| is from |day|; an empty one is farthest. */
static uint64_t distance(uint64_t used, uint64_t day)
{
    uint64_t other = used >> WR_USAGE_UNIT_BITS;

    if (used == 0)
        return UINT64_MAX;
    return other > day ? other - day : day - other;
}

/* The pair that a window of |day| is to take the place of. It may have begun meanwhile. */
static __attribute__((noinline)) void find_vacancy(struct wr_usage_cell *cell, uint64_t day,
                                                   struct wr_usage_view *out)
{
    uint64_t farthest = 0;

    for (unsigned i = 0; i < WR_USAGE_WINDOWS; i++) {
        struct wr_slot *pair = &cell->window[i];
        uint64_t used = WR_LOAD(&pair->word), over = WR_LOAD(&pair->state);
        uint64_t far = distance(used, day);

        if (far == 0) {
            *out = (struct wr_usage_view){used, over, pair, used, over};
            return;
        }
        if (far > farthest) {
            farthest = far;
            *out = (struct wr_usage_view){0, 0, pair, used, over};
        }
    }
}

/* Both words of a pair are of one moment unless it changes all the time; a swap compares both. */
bool wr_usage_find(const struct wr_usage *usage, uint32_t number, int32_t day,
                   struct wr_usage_view *out)
{
    uint64_t wanted = (uint64_t)day & WR_USAGE_DAY_MASK;
    struct wr_usage_cell *cell;

    if (number >= usage->room) {
        *out = (struct wr_usage_view){0};
        return false;
    }
    cell = &usage->cells[number];
    for (unsigned i = 0; i < WR_USAGE_WINDOWS; i++) {
        struct wr_slot *pair = &cell->window[i];
        uint64_t used = WR_LOAD(&pair->word);

        if (used >> WR_USAGE_UNIT_BITS == wanted && used != 0) {
            uint64_t over = WR_LOAD(&pair->state);
            *out = (struct wr_usage_view){used, over, pair, used, over};
            return true;
        }
    }
    find_vacancy(cell, wanted, out);
    return true;
}

/* A window gives way to the one of |by|. It ended when the next one in its cell began, at the
 * latest a day after that somewhere on earth; is the ledger so far? One that cannot be was no use.
 */
static __attribute__((noinline)) void note_lost(struct wr_usage *usage, uint32_t number,
                                                const struct wr_usage_view *view, int32_t by)
{
    uint64_t day = view->was_used >> WR_USAGE_UNIT_BITS, next = UINT64_MAX;
    uint64_t flushed = WR_LOAD(&usage->header->flushed_day);

    if (!wr_usage_can_begin(usage, (int32_t)day, by))
        return;
    for (unsigned i = 0; i < WR_USAGE_WINDOWS; i++) {
        uint64_t other = WR_LOAD(&usage->cells[number].window[i].word) >> WR_USAGE_UNIT_BITS;
        if (other > day)
            next = wr_min_u64(next, other);
    }
    if (flushed != 0 && next + 1 >= flushed)
        (void)WR_ADD(&usage->header->lost_units, view->was_used & WR_USAGE_UNITS_MAX);
}

bool wr_usage_put(struct wr_usage *usage, uint32_t number, const struct wr_usage_view *view,
                  uint64_t used, uint64_t over)
{
    bool begins = view->used == 0;

    if (begins)
        wr_mapped_set_bit(usage->known, number);
    wr_mapped_set_bit(usage->dirty, number);
    WR_CRASH_POINT("usage: bits set");
    if (!wr_cas16(view->pair, view->was_used, view->was_over, used, over))
        return false;
    WR_CRASH_POINT("usage: counted");
    wr_mapped_set_bit(usage->dirty, number);
    if (begins && view->was_used != 0)
        note_lost(usage, number, view, (int32_t)(used >> WR_USAGE_UNIT_BITS));
    return true;
}
