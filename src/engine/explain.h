/* explain.h - what would happen to a request and why, and one key's state: for people who ask.
 * Takes nothing from any limit. */
#ifndef WR_ENGINE_EXPLAIN_H
#define WR_ENGINE_EXPLAIN_H

#include "engine/engine.h"
#include "policy/explain.h"

/* In the caller's memory, about 6 KiB; not to be moved. */
struct wr_explanation {
    struct wr_selection selection;
    struct weir_answer
        answer; /* of a peek; its verdicts are of selection.selected, unless banned */
    struct wr_match_reason *reason; /* set by the caller: room for one for each limit */
};

void wr_engine_explain(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                       struct wr_explanation *out);

/* What |key| has of its limit under |plan|; false, and |*out| is all zeros: the limit does not
 * apply to that plan. */
bool wr_engine_peek(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                    int64_t now, struct weir_verdict *out);

/* wr_engine_reset for a key of any parts. */
int wr_engine_forget(struct wr_engine *engine, const struct wr_selected *key);

#endif
