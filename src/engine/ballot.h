/* ballot.h - several limits that decide one request together: all are charged, or none.
 *
 * Invariants:
 *   1. A refused ballot has consumed nothing when wr_ballot_commit returns, but from limits that
 * say count_denied (wr_ballot_refused).
 *   2. Between commit and give-back other requests may see the units as taken: they can only be
 *      refused too often, never admitted too often.
 *   3. A limit in shadow mode never decides. It is charged when the request passes and it would
 *      have let it pass itself, so that its counts are what they would be if it were enforced. */
#ifndef WR_ENGINE_BALLOT_H
#define WR_ENGINE_BALLOT_H

#include "engine/bound.h"
#include "engine/cell.h"

struct wr_ballot {
    unsigned plan;
    uint16_t count;
    uint16_t limit[WEIR_LIMITS_MAX]; /* in the order of the file */
    uint32_t missing; /* bit: a key that the limit insists on is missing: it refuses */
    uint32_t here;    /* bit: charge[i] is decided in this arena; others are not
                         looked at */
    uint32_t cells;   /* bit: cell[i] is what is charged; of charge[i] only limit, cost and take
                         count */
    struct wr_charge charge[WEIR_LIMITS_MAX];
    struct wr_cell cell[WEIR_LIMITS_MAX];
};

/* Make limit |i| of |selection| what |b| charges as its limit |i|, and start fetching its state. */
void wr_ballot_add(const struct wr_engine *engine, struct wr_ballot *b, unsigned i,
                   const struct wr_selection *selection);

static inline bool wr_ballot_enforced(const struct wr_engine *engine, const struct wr_ballot *b,
                                      unsigned i)
{
    return !engine->limits[b->limit[i]].policy->shadow;
}

/* Look all keys up and compute what taking would do; nothing is written. Returns true when every
 * enforced limit would let the request pass. */
bool wr_ballot_evaluate(struct wr_engine *engine, struct wr_ballot *b, int64_t now);

/* Take what was evaluated from all. False: an enforced one refuses now, as another process was
 * first, and what was taken is given back. */
bool wr_ballot_commit(struct wr_engine *engine, struct wr_ballot *b, int64_t now,
                      struct weir_receipt *receipts);

/* After a refusal: limits that punish trying are charged, states from before the clock was set back
 * are moved to the present. */
void wr_ballot_refused(struct wr_engine *engine, struct wr_ballot *b, int64_t now);

/* Was it refused by quotas alone that say on_exceed: upgrade, under a plan that is the customer's?
 * Then the plan that he is to have; otherwise -1. */
int wr_ballot_upgrade(const struct wr_engine *engine, const struct wr_ballot *b,
                      const struct wr_selection *selection);

/* The verdict of limit |i|. */
void wr_ballot_verdict(const struct wr_engine *engine, const struct wr_ballot *b, unsigned i,
                       struct weir_verdict *out);

/* Fill what |answer| says of the request as a whole from its verdicts. */
void wr_answer_describe(struct weir_answer *answer, bool pass);

/* Of an answer that was described as refused: let who waits as told not run into a limit that let
 * this request pass, but says count_denied and so is charged for it. */
void wr_answer_denied(const struct wr_engine *engine, const struct wr_ballot *b, int64_t now,
                      struct weir_answer *answer);

/* The head of an answer over what was selected, and no receipts. */
void wr_answer_begin(const struct wr_selection *selection, int64_t now, struct weir_answer *answer);

/* Why the request is refused whatever its limits say: the caller is banned, by the policy or in the
 * arena, or his plan excludes the route. */
struct wr_bar {
    uint8_t reason;     /* enum weir_reason; WEIR_REASON_NONE: it is not */
    int16_t upgrade_to; /* with WEIR_REASON_PLAN: the next plan up that has the route; else -1 */
    int64_t left_ns;    /* or WEIR_NEVER (ends) */
};
struct wr_bar wr_answer_bar(struct wr_engine *engine, const struct weir_request *request,
                            const struct wr_selection *selection, int64_t now);

/* The answer then. */
void wr_answer_barred(struct weir_answer *answer, const struct wr_bar *bar);

#endif
