/* ban_cells.h - what ban.c and ban_check.c share: reading cells and records. */
#ifndef WR_STORE_BAN_CELLS_H
#define WR_STORE_BAN_CELLS_H

#include "store/ban.h"
#include "store/cas16.h"

#define WR_BAN_PROBES_MAX 128 /* cells that a look-up visits; see docs/decisions */
#define WR_BAN_READ_TRIES 64  /* of a cell or record that changes meanwhile */
#define WR_BAN_EVER 0         /* as a moment: no ban has ended by then */

static inline uint32_t wr_ban_cell_count(const struct wr_arena *arena)
{
    return arena->ban_count * WR_BAN_CELLS;
}

/* Where the run of |hash| begins: as for slots, the low bits first. */
static inline uint32_t wr_ban_start(const struct wr_arena *arena, uint64_t hash)
{
    uint64_t rotated = hash << 52 | hash >> 12;

    return (uint32_t)((wr_u128)rotated * wr_ban_cell_count(arena) >> 64);
}

static inline struct wr_slot *wr_ban_cell(const struct wr_arena *arena, uint32_t start, uint32_t i)
{
    uint32_t at = start + i, count = wr_ban_cell_count(arena);

    return &arena->ban_cells[at < count ? at : at - count];
}

static inline uint32_t wr_ban_probes(const struct wr_arena *arena)
{
    return (uint32_t)wr_min_u64(WR_BAN_PROBES_MAX, wr_ban_cell_count(arena));
}

static inline bool wr_ban_is_live(uint64_t state, int64_t now_ns)
{
    return (int64_t)state > now_ns;
}

/* The record that a cell names; NULL: there is none of that number. */
static inline struct wr_ban_record *wr_ban_record_of(const struct wr_arena *arena, uint64_t word)
{
    uint32_t number = (uint32_t)(word & WR_CLASS_MASK);

    return number == 0 || number >= arena->ban_count ? NULL : &arena->ban_records[number];
}

/* The cell of |hash| with a ban in force at |now_ns|, and what it held. NULL: there is none. */
struct wr_slot *wr_ban_find(const struct wr_arena *arena, uint64_t hash, int64_t now_ns,
                            struct wr_slot *seen);

/* The first cell in which |hash| may be put at |now_ns|; NULL: its run is full. Inside the gate. */
struct wr_slot *wr_ban_vacancy(const struct wr_arena *arena, uint64_t hash, int64_t now_ns);

/* The ban in |cell| and its record. False: none at |now_ns|, or its record makes no sense. */
bool wr_ban_read(const struct wr_arena *arena, const struct wr_slot *cell, int64_t now_ns,
                 struct wr_ban *out);

/* Change a cell; false: it is not as it was |seen|. */
static inline bool wr_ban_set(struct wr_slot *cell, const struct wr_slot *seen, uint64_t word,
                              uint64_t state)
{
    return wr_cas16(cell, seen->word, seen->state, word, state);
}

#endif
