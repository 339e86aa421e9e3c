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

struct wr_ballot {
    unsigned plan;
    uint16_t count;
    uint16_t limit[WEIR_LIMITS_MAX]; /* in the order of the file */
    uint32_t missing; /* bit: a key that the limit insists on is missing: it refuses */
    uint32_t here;    /* bit: charge[i] is decided in this arena; others are not
                         looked at */
    struct wr_charge charge[WEIR_LIMITS_MAX];
};

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

/* The verdict of limit |i|. */
void wr_ballot_verdict(const struct wr_engine *engine, const struct wr_ballot *b, unsigned i,
                       struct weir_verdict *out);

/* Fill what |answer| says of the request as a whole from its verdicts. */
void wr_answer_describe(struct weir_answer *answer, bool pass);

/* The head of an answer over what was selected, and no receipts. */
void wr_answer_begin(const struct wr_selection *selection, int64_t now, struct weir_answer *answer);

/* The answer to a caller who is banned for |banned_ns| yet, or WEIR_NEVER (ends). */
void wr_answer_banned(struct weir_answer *answer, int64_t banned_ns);

/* For how long yet the caller of |request| is banned, by the policy or in the arena, or WEIR_NEVER
 * (ends); 0: not. */
int64_t wr_answer_ban(struct wr_engine *engine, const struct weir_request *request,
                      const struct wr_selection *selection, int64_t now);

#endif
