/* quota.c - count by civil windows, exactly.
 *
 *     pass iff used + c <= most;  used' = used + c
 *     overage of the charge = what of c lies beyond max(limit, used)
 *     after a refund: over = min(over, max(0, used - limit))
 *
 * Bound. most in every civil window; overage is metered when it happens, so that a limit that
 * changes within the window (another plan) neither forgives nor invents any.
 *
 * Clock back. A stored window that lies ahead of now's by one counts on, as in fixed_window.c.
 * Further ahead, the clock was set back by a whole window and more: the count moves to now's.
 *
 * Invariants.
 *   1. over <= units. Units of 0 make both words 0.
 *   2. A window's units only shrink by refunds of what was counted in that same window. */
#include "algo/quota.h"

#define DAY_MASK ((UINT64_C(1) << WR_CIVIL_DAY_BITS) - 1)

static_assert(WR_CIVIL_DAY_BITS + WR_QUOTA_UNITS_BITS == 64, "one word");

int64_t wr_quota_units(struct wr_quota_state state)
{
    return (int64_t)(state.used & WR_QUOTA_COUNT_MAX);
}

int32_t wr_quota_day(struct wr_quota_state state, int32_t near_day)
{
    uint64_t ahead = ((state.used >> WR_QUOTA_UNITS_BITS) - (uint64_t)near_day) & DAY_MASK;
    int64_t signed_ahead = (int64_t)ahead - (ahead > DAY_MASK / 2 ? (int64_t)DAY_MASK + 1 : 0);

    return (int32_t)(near_day + signed_ahead);
}

struct wr_quota_state wr_quota_state(int32_t day, int64_t units, int64_t over_units)
{
    struct wr_quota_state state = {0, 0};

    if (units <= 0)
        return state;
    state.used = ((uint64_t)day & DAY_MASK) << WR_QUOTA_UNITS_BITS |
                 wr_min_u64((uint64_t)units, WR_QUOTA_COUNT_MAX);
    state.over = (uint64_t)wr_max_i64(0, wr_min_i64(over_units, wr_quota_units(state)));
    return state;
}

/* The window that counts at a moment, and what is in it. */
struct view {
    int32_t day;
    int64_t end_ns, units, over_units;
    bool rolled, moved;
};

static struct view view_at(const struct wr_quota_rule *rule, struct wr_quota_state state,
                           int64_t moment_ns)
{
    struct wr_civil_window window = wr_civil_at(&rule->civil, moment_ns);
    struct view v = {.day = window.day, .end_ns = window.end_ns};
    int32_t stored = wr_quota_day(state, window.day);

    if (wr_quota_units(state) == 0)
        return v;
    if (stored < window.day) {
        v.rolled = true;
        return v;
    }
    v.units = wr_quota_units(state);
    v.over_units = (int64_t)wr_min_u64(state.over, (uint64_t)v.units);
    if (stored > window.day) {
        struct wr_civil_window next = wr_civil_window(&rule->civil, window.index + 1);
        v.moved = stored != next.day;
        if (!v.moved) {
            v.day = next.day;
            v.end_ns = next.end_ns;
        }
    }
    return v;
}

static struct wr_quota_state after(const struct view *v, int64_t cost, int64_t over_units)
{
    return wr_quota_state(v->day, v->units + cost, v->over_units + over_units);
}

static int64_t overage(const struct wr_quota_rule *rule, const struct view *v, int64_t cost)
{
    if (!rule->overage)
        return 0;
    return wr_quota_over(rule->limit, v->units, cost);
}

static void charge(const struct wr_quota_rule *rule, const struct view *v, int64_t cost,
                   struct wr_quota_take *out)
{
    out->take.allowed = true;
    out->take.remaining = wr_max_i64(0, rule->limit - v->units - cost);
    if (cost == 0)
        return;
    out->over_units = overage(rule, v, cost);
    out->state = after(v, cost, out->over_units);
    out->rolled = v->rolled;
}

static void begin(const struct view *v, struct wr_quota_state state, struct wr_quota_take *out)
{
    *out = (struct wr_quota_take){.state = state, .day = v->day};
    if (v->moved)
        out->state = after(v, 0, 0);
}

static void take_in(const struct wr_quota_rule *rule, const struct view *v,
                    struct wr_quota_state state, int64_t moment_ns, int64_t cost,
                    struct wr_quota_take *out)
{
    int64_t most = wr_min_i64(rule->most, (int64_t)WR_QUOTA_COUNT_MAX);

    begin(v, state, out);
    if (cost == 0 || cost <= most - v->units) {
        charge(rule, v, cost, out);
        return;
    }
    out->take.remaining = wr_max_i64(0, rule->limit - v->units);
    out->take.never = cost > most;
    out->take.retry_after_ns = out->take.never ? 0 : v->end_ns - moment_ns;
}

void wr_quota_take(const struct wr_quota_rule *rule, struct wr_quota_state state, int64_t now_ns,
                   int64_t cost, struct wr_quota_take *out)
{
    int64_t moment_ns = wr_moment_ns(now_ns);
    struct view v = view_at(rule, state, moment_ns);

    take_in(rule, &v, state, moment_ns, cost, out);
}

void wr_quota_take_in(const struct wr_quota_rule *rule, const struct wr_civil_window *window,
                      struct wr_quota_state state, int64_t moment_ns, int64_t cost,
                      struct wr_quota_take *out)
{
    struct view v = {.day = window->day, .end_ns = window->end_ns, .units = wr_quota_units(state)};

    v.over_units = (int64_t)wr_min_u64(state.over, (uint64_t)v.units);
    take_in(rule, &v, state, moment_ns, cost, out);
}

void wr_quota_force(const struct wr_quota_rule *rule, struct wr_quota_state state, int64_t now_ns,
                    int64_t cost, struct wr_quota_take *out)
{
    struct view v = view_at(rule, state, wr_moment_ns(now_ns));

    begin(&v, state, out);
    charge(rule, &v, cost, out);
}

/* Under a limit that has not changed, over > 0 means that the units within it are limit: so where
 * they are fewer, over was made under another limit, and is not this refund's to give back. */
struct wr_quota_state wr_quota_refund(const struct wr_quota_rule *rule, struct wr_quota_state state,
                                      int64_t units, int64_t over_units)
{
    int64_t used = wr_quota_units(state), over = (int64_t)wr_min_u64(state.over, (uint64_t)used);
    int64_t left = wr_max_i64(0, used - units), over_left = over - over_units;

    if (rule->overage && used - over >= rule->limit)
        over_left = wr_min_i64(over_left, left - rule->limit);
    return wr_quota_state(wr_quota_day(state, 0), left, over_left);
}
