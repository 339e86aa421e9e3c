/* charge.h - one limit's part in a decision: look at the key's state, take from it, give back.
 *
 * Evaluating reads only and says what taking would do; committing makes it so by one
 * compare-and-swap, or says that somebody else was first. A request over several limits evaluates
 * all of them before it commits any: that makes all-or-none cheap, as nearly every refusal is known
 * before anything is written. */
#ifndef WR_ENGINE_CHARGE_H
#define WR_ENGINE_CHARGE_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/limit.h"
#include "engine/receipt.h"
#include "store/arena.h"
#include "weir/weir.h"

/* After a refusal for a moment (wr_charge.busy): whoever holds the key runs again by then. */
#define WR_BUSY_RETRY_NS INT64_C(1000000)

/* In weir_verdict.flags: priv[] holds the moments of next and reset, as no state does. */
#define WR_VERDICT_MOMENTS 1U

struct wr_charge {
    const struct wr_limit *limit;
    uint64_t hash;     /* of the limit's name and the key, under the arena's secret */
    int64_t cost;      /* units, 0..WEIR_COST_MAX; 0 looks */
    uint16_t class_id; /* of the limit, in the arena */
    /* From wr_charge_evaluate on: */
    bool busy; /* decided without the state: held by a stopped process, or no memory */
    struct wr_slot_view view; /* words: the slot as it was read */
    uint64_t base;            /* words: its state under |limit|, before the charge */
    struct wr_take take;
    int64_t oldest_ns, newest_ns; /* lists: stamps in use; 0 where there is none */
};

/* Look |charge|'s key up and compute what taking its cost at |now| would do: charge->take. Reads
 * only. */
void wr_charge_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now);

/* Take what was evaluated, evaluating anew where another process was first. Afterwards take.allowed
 * says whether it was taken, and |receipt| (may be NULL) holds what wr_charge_refund needs. */
void wr_charge_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now,
                      struct weir_receipt *receipt);

/* Charge the cost whether it fits or not: count_denied, and settling above an estimate. */
void wr_charge_force(struct wr_arena *arena, const struct wr_charge *charge, int64_t now);

/* Give back |cost| units of what |receipt| says was taken; of a place in a concurrency limit, the
 * place. */
void wr_charge_refund(struct wr_arena *arena, const struct wr_limit *limit,
                      const struct weir_receipt *receipt, int64_t cost, int64_t now);

#endif
