/* decide.c - one request, every limit that matches it: all are charged, or none.
 *
 *   select    which limits, whose key, what cost (policy); is the caller banned?
 *   evaluate  look every key up and compute what taking would do; nothing is written
 *   commit    if all enforced limits allow: take from each; if another process was first and one
 *             now refuses, give back what was taken
 *   describe  the answer speaks of the limit that refuses longest, or of the one nearest exhaustion
 *
 * The middle is ballot.c; where limits are shared, shared.c decides instead. */
#include "engine/ballot.h"
#include "engine/shared.h"

#define BATCH 8 /* requests whose cache misses overlap; a selection is 3 KiB of stack */

struct decision {
    struct wr_selection selection;
    struct wr_bar bar;
    struct wr_ballot ballot;
};

/* Select, hash, and start fetching the slots. */
static void prepare(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                    const struct wr_known_early *early, struct decision *d)
{
    struct wr_selection *selection = &d->selection;
    struct wr_ballot *b = &d->ballot;

    wr_known_select(engine, request, now, early, selection);
    d->bar = wr_answer_bar(engine, request, selection, now);
    b->plan = selection->plan;
    b->count = selection->count;
    b->missing = 0;
    b->cells = 0;
    b->here = UINT32_MAX;
    for (unsigned i = 0; i < selection->count; i++)
        wr_ballot_add(engine, b, i, selection);
}

/* The customer moves to the next plan: the request is decided by that, once. */
static __attribute__((noinline)) bool upgrade(struct wr_engine *engine,
                                              const struct weir_request *request, int64_t now,
                                              struct decision *d)
{
    struct weir_request again = *request;

    if (!wr_known_upgrade(engine, &d->ballot, &d->selection, now, &again))
        return false;
    prepare(engine, &again, now, NULL, d); /* its plan is given now: it is not upgraded again */
    return true;
}

/* False: the answer is complete, whatever the limits say. */
static bool begin(const struct decision *d, int64_t now, struct weir_answer *answer)
{
    wr_answer_begin(&d->selection, now, answer);
    if (d->bar.reason == WEIR_REASON_NONE)
        return true;
    wr_answer_barred(answer, &d->bar);
    return false;
}

static void decide_prepared(struct wr_engine *engine, const struct weir_request *request,
                            struct decision *d, int64_t now, struct weir_answer *answer)
{
    struct wr_ballot *b = &d->ballot;
    bool pass;

    if (!begin(d, now, answer))
        return;
    pass = wr_ballot_evaluate(engine, b, now);
    if (!pass && b->cells != 0 && upgrade(engine, request, now, d)) {
        if (!begin(d, now, answer))
            return;
        pass = wr_ballot_evaluate(engine, b, now);
    }
    if (pass && !request->peek)
        pass = wr_ballot_commit(engine, b, now, answer->receipts);
    for (unsigned i = 0; i < b->count; i++)
        wr_ballot_verdict(engine, b, i, &answer->verdicts[i]);
    if (!pass && !request->peek)
        wr_ballot_refused(engine, b, now);
    wr_answer_describe(answer, pass);
    if (!pass)
        wr_answer_denied(engine, b, now, answer);
}

void wr_engine_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer)
{
    struct decision d;

    if (engine->shares) {
        wr_shared_decide(engine, request, now, answer);
        return;
    }
    prepare(engine, request, now, NULL, &d);
    decide_prepared(engine, request, &d, now, answer);
}

void wr_engine_decide_batch(struct wr_engine *engine, const struct weir_request *requests, size_t n,
                            int64_t now, struct weir_answer *answers)
{
    struct wr_known_early early[BATCH];
    struct decision d[BATCH];

    for (size_t i = 0; i < n && engine->shares; i++)
        wr_shared_decide(engine, &requests[i], now, &answers[i]);
    if (engine->shares)
        return;
    for (size_t start = 0; start < n; start += BATCH) {
        size_t count = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < count; i++)
            wr_known_expect(engine, &requests[start + i], &early[i]);
        for (size_t i = 0; i < count; i++)
            wr_known_guess(engine, &early[i]);
        for (size_t i = 0; i < count; i++)
            prepare(engine, &requests[start + i], now, &early[i], &d[i]);
        for (size_t i = 0; i < count; i++)
            decide_prepared(engine, &requests[start + i], &d[i], now, &answers[start + i]);
    }
}
