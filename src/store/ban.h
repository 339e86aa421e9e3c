/* ban.h - who is not served at all, for now or for ever: a table in the arena that any process may
 * change and every process obeys at once. Who is meant is known by a hash, as a slot's key is; what
 * people read of a ban lies beside. */
#ifndef WR_STORE_BAN_H
#define WR_STORE_BAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ipaddr.h"
#include "store/arena.h"

#define WR_BAN_FOREVER INT64_MAX
#define WR_BAN_PREFIX_WORDS 3

enum wr_ban_kind {
    WR_BAN_NET = 1,   /* an address or a network */
    WR_BAN_VALUE = 2, /* a value of the identity |name|; the value itself is kept nowhere */
};

struct wr_ban {
    uint64_t hash;
    int64_t since_ns;
    int64_t until_ns; /* or WR_BAN_FOREVER */
    uint8_t kind;     /* enum wr_ban_kind */
    struct wr_net net;
    uint8_t name_len, reason_len;
    char name[WR_BAN_NAME_MAX]; /* not terminated */
    char reason[WR_BAN_REASON_MAX];
};

/* ---- on the path of a decision ------------------------------------------------------------- */

/* May there be any ban? One load. */
static inline bool wr_ban_any(const struct wr_arena *arena)
{
    return __atomic_load_n(&arena->header->bans.count, __ATOMIC_RELAXED) != 0;
}

/* May there be one of a value? Of networks of which lengths (bit p of the words: p bits)? */
static inline bool wr_ban_any_value(const struct wr_arena *arena)
{
    return __atomic_load_n(&arena->header->bans.values, __ATOMIC_RELAXED) != 0;
}

static inline uint64_t wr_ban_prefixes(const struct wr_arena *arena, unsigned word)
{
    return __atomic_load_n(&arena->header->bans.prefixes[word], __ATOMIC_RELAXED);
}

/* Until when is the caller with |hash| banned? WR_BAN_FOREVER; 0: he is not, at |now_ns|. Reads
 * only.
 *
 * Threads: any number, while any process changes bans.
 * Bounds:  at most 128 cells, eight a pair of cache lines; nearly always one or two. */
int64_t wr_ban_until(const struct wr_arena *arena, uint64_t hash, int64_t now_ns);

/* ---- changing ------------------------------------------------------------------------------ */

/* Ban ban->hash from now on, or change the ban that it has. When this returns 0, every process
 * obeys it, whatever happens to this one. Bans that have ended by |now_ns| make room. Returns: 0,
 * WEIR_EFULL (no room), WEIR_EBUSY (another process is stopped in the middle of changing the
 * arena), WEIR_EINVAL (a handle that only reads, an end that is not after |now_ns|). */
int wr_ban_put(struct wr_arena *arena, const struct wr_ban *ban, int64_t now_ns);

/* Lift the ban of |hash|. Returns: 0, WEIR_ENOENT (there is none at |now_ns|), WEIR_EBUSY,
 * WEIR_EINVAL. */
int wr_ban_lift(struct wr_arena *arena, uint64_t hash, int64_t now_ns);

/* ---- looking ------------------------------------------------------------------------------- */

/* Copy out the ban that |hash| has at |now_ns|. False: it has none. */
bool wr_ban_get(const struct wr_arena *arena, uint64_t hash, int64_t now_ns, struct wr_ban *out);

/* The next ban in force at |now_ns|, in no particular order; false: no more. |*at| starts at 0 and
 * belongs to the loop. Those whose record is damaged are left out. */
bool wr_ban_next(const struct wr_arena *arena, int64_t now_ns, uint32_t *at, struct wr_ban *out);

/* How many there can be. */
size_t wr_ban_room(const struct wr_arena *arena);

/* ---- for arena.c, check.c and repair.c ----------------------------------------------------- */

/* Inside the gate: make the summary in the header what the table says. */
void wr_ban_summarise(struct wr_arena *arena);

struct wr_ban_findings {
    uint64_t live; /* in force */
    uint64_t damaged;
    uint64_t first_damaged; /* number of a cell */
    bool summary_short;     /* the summary knows less than the table */
};
void wr_ban_inspect(const struct wr_arena *arena, int64_t now_ns, struct wr_ban_findings *out);

/* Alone in the arena: lift what is damaged, make the rest be found. Returns how many were lifted.
 */
uint64_t wr_ban_repair(struct wr_arena *arena);

#endif
