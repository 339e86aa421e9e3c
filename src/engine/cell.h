/* cell.h - a quota's part in a decision: the cell of one customer, as charge.h has it for a slot of
 * the arena. */
#ifndef WR_ENGINE_CELL_H
#define WR_ENGINE_CELL_H

#include "algo/quota.h"
#include "store/usage.h"
#include "weir/weir.h"

struct wr_cell {
    struct wr_usage *usage;
    const struct wr_quota_rule *rule; /* of the limit under the plan */
    uint32_t number;                  /* of the customer, within usage's room */
    uint8_t anchor;                   /* the customer's own; 0: the rule's */
    int64_t ahead_ns;                 /* of the clock of civil days, before that of |now| below */
    /* From wr_cell_evaluate on: */
    int32_t day; /* of the window */
    int64_t end_ns;
    struct wr_usage_view view;
    struct wr_quota_state after;
    int64_t over_units;
};

/* What taking |cost| at |now| would do. Reads only. */
void wr_cell_evaluate(struct wr_cell *cell, int64_t cost, int64_t now, struct wr_take *take);

/* Take what was evaluated, evaluating anew where another process was first. |receipt|, which may be
 * NULL, is written where something was taken. */
void wr_cell_commit(struct wr_cell *cell, int64_t cost, int64_t now, struct wr_take *take,
                    struct weir_receipt *receipt);

/* Count |units| more, |over_units| of them overage, in the window of |moment_ns|, or less, whatever
 * is there. */
void wr_cell_add(struct wr_cell *cell, int64_t units, int64_t over_units, int64_t moment_ns);

/* Count |cost| whether it fits or not. */
void wr_cell_force(struct wr_cell *cell, int64_t cost, int64_t now);

/* Give back |units| of what |receipt| says, to the window they were taken in: of overage first.
 * |rule| is that they were taken under. */
void wr_cell_refund(struct wr_usage *usage, const struct wr_quota_rule *rule,
                    struct weir_receipt *receipt, int64_t units);

/* Make what |receipt| took |cost|, likewise. */
void wr_cell_settle(struct wr_usage *usage, const struct wr_quota_rule *rule,
                    struct weir_receipt *receipt, int64_t cost);

/* Say in |out| when the window ends. */
void wr_cell_verdict(const struct wr_cell *cell, const struct wr_take *take,
                     struct weir_verdict *out);

#endif
