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
    int64_t banned_ns; /* as wr_answer_ban */
    struct wr_ballot ballot;
};

/* Select, hash, and start fetching the slots. */
static void prepare(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                    struct decision *d)
{
    struct wr_selection *selection = &d->selection;
    struct wr_ballot *b = &d->ballot;

    wr_policy_select(engine->policy, request, selection);
    d->banned_ns = wr_answer_ban(engine, request, selection, now);
    b->plan = selection->plan;
    b->count = selection->count;
    b->missing = 0;
    b->here = UINT32_MAX;
    for (unsigned i = 0; i < selection->count; i++) {
        const struct wr_selected *selected = &selection->selected[i];
        uint64_t hash = wr_bound_hash_parts(engine, selected);

        b->limit[i] = selected->limit;
        b->missing |= (uint32_t)selected->deny_missing << i;
        wr_bound_charge(engine, selected->limit, selection->plan, hash, selection->cost,
                        &b->charge[i]);
        wr_slot_prefetch(engine->arena, hash);
    }
}

static void decide_prepared(struct wr_engine *engine, struct decision *d, bool peek, int64_t now,
                            struct weir_answer *answer)
{
    struct wr_ballot *b = &d->ballot;
    bool pass;

    wr_answer_begin(&d->selection, now, answer);
    if (d->banned_ns != 0) {
        wr_answer_banned(answer, d->banned_ns);
        return;
    }
    pass = wr_ballot_evaluate(engine, b, now);
    if (pass && !peek)
        pass = wr_ballot_commit(engine, b, now, answer->receipts);
    for (unsigned i = 0; i < b->count; i++)
        wr_ballot_verdict(engine, b, i, &answer->verdicts[i]);
    if (!pass && !peek)
        wr_ballot_refused(engine, b, now);
    wr_answer_describe(answer, pass);
}

void wr_engine_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer)
{
    struct decision d;

    if (engine->shares) {
        wr_shared_decide(engine, request, now, answer);
        return;
    }
    prepare(engine, request, now, &d);
    decide_prepared(engine, &d, request->peek, now, answer);
}

void wr_engine_decide_batch(struct wr_engine *engine, const struct weir_request *requests, size_t n,
                            int64_t now, struct weir_answer *answers)
{
    struct decision d[BATCH];

    for (size_t i = 0; i < n && engine->shares; i++)
        wr_shared_decide(engine, &requests[i], now, &answers[i]);
    if (engine->shares)
        return;
    for (size_t start = 0; start < n; start += BATCH) {
        size_t count = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < count; i++)
            prepare(engine, &requests[start + i], now, &d[i]);
        for (size_t i = 0; i < count; i++)
            decide_prepared(engine, &d[i], requests[start + i].peek, now, &answers[start + i]);
    }
}
