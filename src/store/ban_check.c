/* ban_check.c - is the table of bans sound, and making it so.
 *
 * Sound means: a cell never used is all zeros; a ban has a record that is valid, of its caller, and
 * of no other cell; a look-up by its hash finds this cell; the summary knows of it. Everything is
 * input; nothing read here is believed. */
#include "store/ban.h"
#include "store/ban_cells.h"

/* The cell that a look-up by the hash of the ban in |cell| finds, however it ends. */
static const struct wr_slot *found_by_hash(const struct wr_arena *arena, const struct wr_ban *ban)
{
    struct wr_slot seen;

    return wr_ban_find(arena, ban->hash, WR_BAN_EVER, &seen);
}

static bool is_known(const struct wr_ban_summary *summary, const struct wr_ban *ban)
{
    if (WR_LOAD(&summary->count) == 0)
        return false;
    if (ban->kind == WR_BAN_VALUE)
        return WR_LOAD(&summary->values) != 0;
    return (WR_LOAD(&summary->prefixes[ban->net.prefix / 64]) >> (ban->net.prefix % 64) & 1) != 0;
}

/* Is what lies in |cell| neither a sound ban nor nothing? */
static bool is_damaged(const struct wr_arena *arena, const struct wr_slot *cell)
{
    const struct wr_slot seen = {WR_LOAD(&cell->word), WR_LOAD(&cell->state)};
    struct wr_ban ban;

    if (seen.word == 0 || seen.state == 0)
        return seen.state != 0;
    return !wr_ban_read(arena, cell, WR_BAN_EVER, &ban) || found_by_hash(arena, &ban) != cell;
}

void wr_ban_inspect(const struct wr_arena *arena, int64_t now_ns, struct wr_ban_findings *out)
{
    *out = (struct wr_ban_findings){0};
    for (uint32_t i = 0; i < wr_ban_cell_count(arena); i++) {
        const struct wr_slot *cell = &arena->ban_cells[i];
        struct wr_ban ban;

        if (is_damaged(arena, cell)) {
            if (out->damaged++ == 0)
                out->first_damaged = i;
        } else if (wr_ban_read(arena, cell, now_ns, &ban)) {
            out->live++;
            out->summary_short |= !is_known(&arena->header->bans, &ban);
        }
    }
}

/* Put the ban of |cell| where it is found. False: it has no place. */
static bool replace(struct wr_arena *arena, const struct wr_slot *cell, const struct wr_ban *ban)
{
    struct wr_slot *to = wr_ban_vacancy(arena, ban->hash, WR_BAN_EVER);
    struct wr_slot seen;

    if (to == NULL)
        return false;
    seen = *to;
    return wr_ban_set(to, &seen, cell->word, cell->state);
}

uint64_t wr_ban_repair(struct wr_arena *arena)
{
    uint64_t lifted = 0;

    for (uint32_t i = 0; i < wr_ban_cell_count(arena); i++) {
        struct wr_slot *cell = &arena->ban_cells[i];
        const struct wr_slot seen = *cell;
        struct wr_ban ban;

        if (!is_damaged(arena, cell))
            continue;
        if (!wr_ban_read(arena, cell, WR_BAN_EVER, &ban) || found_by_hash(arena, &ban) != NULL ||
            !replace(arena, cell, &ban))
            lifted++;
        (void)wr_ban_set(cell, &seen, seen.word, 0);
    }
    wr_ban_summarise(arena);
    return lifted;
}
