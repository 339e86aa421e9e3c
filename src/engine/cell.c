/* cell.c - charging a quota's cell.
 *
 * As word.c: read, compute, compare-and-swap, and anew if somebody else was first. Peculiar here:
 *   1. The window is chosen by the clock alone, and each window of a cell has its own pair. So a
 *      clock that is a little behind counts where it stands, and one that was set back by a day
 *      counts on where that day was left.
 *   2. What was taken names its window: it is given back there, or nowhere once the cell holds that
 *      window no more.
 *   3. Everything given back leaves the window with a count of 0, which the ledger must see; an
 *      empty pair would say that nothing was ever counted. */
#include "engine/cell.h"

#include "engine/charge.h"
#include "engine/receipt.h"

#define TRIES 1000 /* as word.c has it */

/* The windows that count for this customer. */
static struct wr_civil_window window_at(const struct wr_cell *cell, int64_t moment_ns)
{
    struct wr_civil civil;

    if (cell->anchor == 0)
        return wr_civil_at(&cell->rule->civil, moment_ns);
    civil = cell->rule->civil;
    civil.anchor = cell->anchor;
    return wr_civil_at(&civil, moment_ns);
}

void wr_cell_evaluate(struct wr_cell *cell, int64_t cost, int64_t now, struct wr_take *take)
{
    int64_t moment_ns = wr_moment_ns(wr_add_sat_i64(now, cell->ahead_ns));
    struct wr_civil_window window = window_at(cell, moment_ns);
    struct wr_quota_take out;

    cell->day = window.day;
    cell->end_ns = wr_add_sat_i64(window.end_ns, -cell->ahead_ns);
    (void)wr_usage_find(cell->usage, cell->number, window.day, &cell->view);
    wr_quota_take_in(cell->rule, &window, (struct wr_quota_state){cell->view.used, cell->view.over},
                     moment_ns, cost, &out);
    cell->after = out.state;
    cell->over_units = out.over_units;
    *take = out.take;
}

static bool put(const struct wr_cell *cell, struct wr_quota_state state)
{
    return wr_usage_put(cell->usage, cell->number, &cell->view, state.used, state.over);
}

static bool commit(const struct wr_cell *cell, int64_t cost, struct weir_receipt *receipt)
{
    if (!put(cell, cell->after))
        return false;
    if (receipt != NULL)
        wr_receipt_write_cell(receipt, cell->number, cell->day, cost, cell->over_units);
    return true;
}

/* Somebody else was first. */
static __attribute__((noinline)) void commit_anew(struct wr_cell *cell, int64_t cost, int64_t now,
                                                  struct wr_take *take,
                                                  struct weir_receipt *receipt)
{
    for (int tries = 1; tries < TRIES; tries++) {
        wr_cell_evaluate(cell, cost, now, take);
        if (!take->allowed || commit(cell, cost, receipt))
            return;
    }
    take->allowed = false; /* for a moment */
    take->never = false;
    take->retry_after_ns = WR_BUSY_RETRY_NS;
}

void wr_cell_commit(struct wr_cell *cell, int64_t cost, int64_t now, struct wr_take *take,
                    struct weir_receipt *receipt)
{
    if (take->allowed && cost > 0 && !commit(cell, cost, receipt))
        commit_anew(cell, cost, now, take, receipt);
}

/* Of |units| more in a window that has |used|, those beyond the limit. */
static int64_t overage(const struct wr_quota_rule *rule, int64_t used, int64_t units)
{
    return rule->overage ? wr_max_i64(0, used + units - wr_max_i64(rule->limit, used)) : 0;
}

/* What to store as used: of a window that all was given back to, its day (3). */
static uint64_t kept(const struct wr_usage_view *view, struct wr_quota_state after)
{
    return after.used != 0 ? after.used : view->used & ~WR_QUOTA_COUNT_MAX;
}

/* The window |units| and |over_units| richer, or poorer. */
static struct wr_quota_state changed(const struct wr_usage_view *view, int32_t day, int64_t units,
                                     int64_t over_units)
{
    const struct wr_quota_state state = {view->used, view->over};
    struct wr_quota_state after =
        wr_quota_state(day, wr_quota_units(state) + units, (int64_t)state.over + over_units);

    after.used = kept(view, after);
    return after;
}

void wr_cell_force(struct wr_cell *cell, int64_t cost, int64_t now)
{
    int32_t day = window_at(cell, wr_moment_ns(wr_add_sat_i64(now, cell->ahead_ns))).day;

    for (int tries = 0; tries < TRIES && cost > 0; tries++) {
        int64_t used;
        if (!wr_usage_find(cell->usage, cell->number, day, &cell->view))
            return;
        used = wr_quota_units((struct wr_quota_state){cell->view.used, cell->view.over});
        if (put(cell, changed(&cell->view, day, cost, overage(cell->rule, used, cost))))
            return;
    }
}

void wr_cell_add(struct wr_cell *cell, int64_t units, int64_t over_units, int64_t moment_ns)
{
    int32_t day = window_at(cell, wr_moment_ns(moment_ns)).day;

    for (int tries = 0; tries < TRIES && units != 0; tries++) {
        if (!wr_usage_find(cell->usage, cell->number, day, &cell->view) ||
            (units < 0 && cell->view.used == 0))
            return;
        if (put(cell, changed(&cell->view, day, units, over_units)))
            return;
    }
}

/* ---- afterwards ---------------------------------------------------------------------------- */

void wr_cell_refund(struct wr_usage *usage, const struct wr_quota_rule *rule,
                    struct weir_receipt *receipt, int64_t units)
{
    struct wr_cell_receipt taken = wr_receipt_read_cell(receipt);
    int64_t over_units = wr_min_i64(taken.over_units, units);
    struct wr_usage_view view;

    for (int tries = 0; tries < TRIES && units > 0; tries++) {
        struct wr_quota_state after;
        if (!wr_usage_find(usage, taken.number, taken.day, &view) || view.used == 0)
            break; /* invariant 2 */
        after =
            wr_quota_refund(rule, (struct wr_quota_state){view.used, view.over}, units, over_units);
        if (wr_usage_put(usage, taken.number, &view, kept(&view, after), after.over))
            break;
    }
    wr_receipt_write_cell(receipt, taken.number, taken.day, taken.units - units,
                          taken.over_units - over_units);
}

static void add(struct wr_usage *usage, const struct wr_quota_rule *rule,
                struct weir_receipt *receipt, int64_t units)
{
    struct wr_cell_receipt taken = wr_receipt_read_cell(receipt);
    int64_t over_units = 0;
    struct wr_usage_view view;

    for (int tries = 0; tries < TRIES; tries++) {
        struct wr_quota_state after;
        if (!wr_usage_find(usage, taken.number, taken.day, &view) || view.used == 0)
            return;
        over_units =
            overage(rule, wr_quota_units((struct wr_quota_state){view.used, view.over}), units);
        after = changed(&view, taken.day, units, over_units);
        if (wr_usage_put(usage, taken.number, &view, after.used, after.over))
            break;
    }
    wr_receipt_write_cell(receipt, taken.number, taken.day, taken.units + units,
                          taken.over_units + over_units);
}

void wr_cell_settle(struct wr_usage *usage, const struct wr_quota_rule *rule,
                    struct weir_receipt *receipt, int64_t cost)
{
    int64_t taken = wr_receipt_cost(receipt);

    if (cost < taken)
        wr_cell_refund(usage, rule, receipt, taken - cost);
    else if (cost > taken)
        add(usage, rule, receipt, cost - taken);
}

void wr_cell_verdict(const struct wr_cell *cell, const struct wr_take *take,
                     struct weir_verdict *out)
{
    bool used = take->remaining < cell->rule->limit;

    out->flags = WR_VERDICT_MOMENTS;
    out->priv[0] = used ? (uint64_t)cell->end_ns : 0;
    out->priv[1] = out->priv[0];
}
