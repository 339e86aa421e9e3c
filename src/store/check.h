/* check.h - is an arena sound, and what is in it? For `weir arena FILE` and the crash tests. */
#ifndef WR_STORE_CHECK_H
#define WR_STORE_CHECK_H

#include <stdint.h>

#include "store/arena.h"

struct wr_class_report {
    struct wr_class spec;
    uint64_t slots;  /* with this class */
    uint64_t live;   /* of those, with anything in use */
    uint64_t full;   /* of those, with nothing left */
    uint64_t stamps; /* in lists */
};

struct wr_arena_report {
    uint64_t size_bytes, slots, used, live;
    uint64_t duplicates; /* keys stored twice: harmless, the first one counts */
    uint64_t damaged;    /* slots and classes that make no sense */
    uint64_t heads, heads_free, heads_used, heads_lost; /* of lists of stamps */
    uint64_t nodes, nodes_free, nodes_used;
    uint64_t nodes_lost;      /* leaked by kills, see wr_arena_repair */
    uint64_t bans, bans_room; /* in force; the most there can be */
    unsigned processes;       /* that have it open, this one included unless it only reads */
    int64_t now_ns, created_ns;
    uint64_t counters[WR_ARENA_COUNTERS];
    unsigned classes;                               /* in use */
    struct wr_class_report reports[WR_CLASSES_MAX]; /* by number; all zeros: no such class */
};

/* Walk everything at |now_ns|; every finding of damage is an error in |diag|. Never crashes,
 * whatever the bytes. While other processes have it open, lists and pools change under the walk,
 * and what looks wrong there is a warning. About half a MiB: |report| is not for the stack. Returns
 * 0 when sound, WEIR_ECORRUPT when not, WEIR_ENOMEM. */
int wr_arena_check(const struct wr_arena *arena, int64_t now_ns, struct wr_arena_report *report,
                   struct wr_diag *diag);

/* Empty damaged slots, classes, lists and bans, keep one of each key, give lost nodes back. Only
 * while no other process has it open. Returns 0 or WEIR_EBUSY. */
int wr_arena_repair(struct wr_arena *arena, int64_t now_ns);

#endif
