/* list.c - charging a limit whose state is a list of stamps.
 *
 * A look reads without the lock; taking locks the list, decides again by what is there then, and
 * appends. Concurrency is the same list with the longest hold as its window: a request takes one
 * place whatever it costs, and its release removes the stamp. */
#include "engine/list.h"

#include "algo/concurrency.h"
#include "algo/sliding_log.h"
#include "base/arith.h"
#include "store/log.h"

static bool is_places(const struct wr_limit *limit)
{
    return limit->algo == WR_CONCURRENCY;
}

/* Stamps that |cost| units are. */
static uint32_t stamps_of(const struct wr_limit *limit, int64_t cost)
{
    if (is_places(limit))
        return cost > 0 ? 1 : 0;
    return (uint32_t)wr_min_i64(cost, WR_LOG_UNITS_MAX);
}

static void take(struct wr_charge *charge, uint32_t live, uint32_t *must_age)
{
    *must_age = 0;
    if (is_places(charge->limit))
        wr_concurrency_take(charge->limit, live, charge->cost == 0, &charge->take, must_age);
    else
        wr_sliding_log_take(charge->limit, live, charge->cost, &charge->take, must_age);
}

static void refuse_for_a_moment(struct wr_charge *charge)
{
    charge->busy = true;
    charge->take = (struct wr_take){.retry_after_ns = WR_BUSY_RETRY_NS};
}

static struct wr_worth worth_of(const struct wr_limit *limit, int64_t stamps)
{
    uint64_t used = limit->units > 0 ? wr_muldiv_ceil((uint64_t)wr_min_i64(stamps, limit->units),
                                                      UINT64_C(1) << 32, (uint64_t)limit->units)
                                     : 0;
    return (struct wr_worth){used, limit->window_ns};
}

static int open_list(struct wr_log *log, struct wr_arena *arena, const struct wr_charge *charge,
                     int64_t now)
{
    struct wr_worth worth = worth_of(charge->limit, stamps_of(charge->limit, charge->cost));
    return wr_log_open(log, arena, charge->hash, charge->class_id, &worth, now);
}

/* Stamps that are charged to |charge| although it is refused. */
static uint32_t stamps_forced(const struct wr_charge *charge, uint32_t live)
{
    if (charge->take.allowed || !charge->limit->count_denied || is_places(charge->limit))
        return 0;
    return (uint32_t)wr_sliding_log_forced(charge->limit, live, charge->cost);
}

/* The |k|-th oldest of the stamps there are, and behind them of those that a refusal adds. */
static int64_t stamp_of(const struct wr_log *log, uint32_t k)
{
    int64_t now_stamp = log->now_ns - log->now_ns % log->tick_ns;

    if (k < log->live)
        return wr_log_stamp(log, k);
    return log->live > 0 ? wr_max_i64(log->last_ns, now_stamp) : now_stamp;
}

/* Of a refusal, or a look at more than the limit holds: when to come back, and which stamps are
 * spoken of, by the locked list. */
static void tell(const struct wr_log *log, struct wr_charge *charge, uint32_t must_age, int64_t now)
{
    uint32_t live = log->live + stamps_forced(charge, log->live);
    uint32_t more = (uint32_t)wr_max_i64(0, (int64_t)live - charge->limit->units); /* than fit */

    charge->oldest_ns = live > 0 ? stamp_of(log, more < live ? more : live - 1) : 0;
    charge->newest_ns = live > 0 ? stamp_of(log, live - 1) : 0;
    if (must_age > 0)
        charge->take.retry_after_ns =
            wr_sliding_log_retry(charge->limit, stamp_of(log, must_age - 1), now);
}

/* A look that found |live| stamps cannot tell it all by the oldest and the newest. */
static void look_closely(struct wr_arena *arena, struct wr_charge *charge, uint32_t must_age,
                         int64_t now)
{
    struct wr_log log;

    if (open_list(&log, arena, charge, now) == 0) {
        tell(&log, charge, must_age, now);
        wr_log_close(&log);
    } else if (must_age > 0) { /* the list cannot be walked: what is certainly enough */
        int64_t stamp = stamps_forced(charge, 0) > 0 ? now : charge->newest_ns;
        charge->take.retry_after_ns = wr_sliding_log_retry(charge->limit, stamp, now);
    }
}

void wr_list_evaluate(struct wr_arena *arena, struct wr_charge *charge, int64_t now)
{
    uint32_t must_age;
    uint32_t live = wr_log_peek(arena, charge->hash, charge->class_id, now, &charge->oldest_ns,
                                &charge->newest_ns);

    charge->busy = false;
    take(charge, live, &must_age);
    if (must_age == 1)
        charge->take.retry_after_ns = wr_sliding_log_retry(charge->limit, charge->oldest_ns, now);
    else if (must_age > 1 || live > charge->limit->units || stamps_forced(charge, live) > 0)
        look_closely(arena, charge, must_age, now);
}

/* Decide by the locked list and append. */
static bool take_locked(struct wr_log *log, struct wr_charge *charge, int64_t now,
                        int64_t *stamp_ns)
{
    uint32_t must_age;

    take(charge, log->live, &must_age);
    if (!charge->take.allowed) {
        tell(log, charge, must_age, now);
        return false;
    }
    if (wr_log_append(log, stamps_of(charge->limit, charge->cost), stamp_ns) != 0) {
        refuse_for_a_moment(charge);
        return false;
    }
    charge->oldest_ns = wr_log_stamp(log, 0);
    charge->newest_ns = *stamp_ns;
    return true;
}

bool wr_list_commit(struct wr_arena *arena, struct wr_charge *charge, int64_t now,
                    int64_t *stamp_ns)
{
    struct wr_log log;
    bool taken;
    int result;

    *stamp_ns = 0;
    if (!charge->take.allowed || charge->cost == 0)
        return false;
    result = open_list(&log, arena, charge, now);
    if (result == WEIR_EFULL) /* all its neighbours are worth more: decided as new, not stored */
        return false;
    if (result != 0) {
        refuse_for_a_moment(charge);
        return false;
    }
    taken = take_locked(&log, charge, now, stamp_ns);
    wr_log_close(&log);
    return taken;
}

void wr_list_force(struct wr_arena *arena, const struct wr_charge *charge, int64_t now)
{
    struct wr_log log;
    int64_t stamp;
    int64_t more;

    if (is_places(charge->limit) || charge->cost == 0 || charge->limit->units == 0)
        return;
    if (open_list(&log, arena, charge, now) != 0)
        return;
    more = wr_sliding_log_forced(charge->limit, log.live, charge->cost);
    if (more > 0)
        (void)wr_log_append(&log, (uint32_t)more, &stamp);
    wr_log_close(&log);
}

void wr_list_refund(struct wr_arena *arena, const struct wr_charge *charge, int64_t stamp_ns,
                    int64_t now)
{
    struct wr_log log;

    if (open_list(&log, arena, charge, now) != 0)
        return; /* evicted, or held by a stopped process: what was taken ages out by itself */
    (void)wr_log_remove(&log, stamp_ns, stamps_of(charge->limit, charge->cost));
    wr_log_close(&log);
}
