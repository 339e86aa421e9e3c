/* script_limit.c - from the raw state that the script decided by to verdicts and times.
 *
 * Windows and lists of stamps are what src/algo knows: their state is written as src/algo has it,
 * and decided once more here, at the same moment; the verdict must be the same, or what we read is
 * no answer of the script. Buckets are in ticks (algo/ticks.h), of which src/algo knows nothing:
 *
 *     remaining   floor((capacity - debt) / unit)
 *     a wait      ceil(ticks / rate) of us, to the ns
 *
 * Source: as the algorithms, src/algo. */
#include "remote/script_limit.h"

#include "algo/concurrency.h"
#include "algo/leasing.h"
#include "algo/period.h"
#include "algo/sliding_log.h"
#include "algo/ticks.h"
#include "remote/script.h"

#define SPACING_MAX_US (WR_WINDOW_MAX_NS / WR_NS_PER_US)

int64_t wr_script_window_ticks(const struct wr_limit *limit, const struct wr_ticks *ticks)
{
    return wr_min_i64(limit->window_ns / WR_NS_PER_US, WR_TICKS_MAX / ticks->rate) * ticks->rate;
}

int64_t wr_script_capacity(const struct wr_limit *limit, int64_t ttl_ns)
{
    return wr_limit_capacity(limit) - wr_leasing_reserve(limit, ttl_ns);
}

/* Until |count| ticks are paid back, at least 1. */
static int64_t wait_ns(const struct wr_ticks *ticks, wr_u128 count)
{
    wr_u128 rate = (wr_u128)(uint64_t)ticks->rate;
    wr_u128 ns = (count * (uint64_t)WR_NS_PER_US + rate - 1) / rate;

    if (ns > (wr_u128)(uint64_t)INT64_MAX)
        return INT64_MAX;
    return wr_max_i64(1, (int64_t)ns);
}

static void bucket_times(struct wr_remote_charge *charge, const struct wr_ticks *ticks,
                         wr_u128 debt, wr_u128 capacity)
{
    wr_u128 unit = (wr_u128)(uint64_t)ticks->unit, then;

    charge->next_ns = charge->reset_ns = 0;
    if (debt == 0 || capacity == 0)
        return;
    then = (debt - 1) / unit * unit; /* the debt at which one unit more is there */
    if (then > capacity - unit)
        then = capacity - unit;
    charge->next_ns = wait_ns(ticks, debt - then);
    charge->reset_ns = wait_ns(ticks, debt);
}

/* As the script has it with count_denied: |wanted| more, but not above |most|. */
static wr_u128 forced(wr_u128 debt, wr_u128 wanted, wr_u128 most)
{
    wr_u128 far = debt + wanted < most ? debt + wanted : most;

    return far > debt ? far : debt;
}

static bool token_bucket(struct wr_remote_charge *charge, const struct wr_ticks *ticks,
                         wr_u128 debt)
{
    int64_t units = wr_script_capacity(charge->limit, charge->ttl_ns);
    wr_u128 unit = (wr_u128)(uint64_t)ticks->unit, capacity = unit * (uint64_t)units;
    wr_u128 wanted = unit * (uint64_t)charge->cost;
    wr_u128 taken = unit * ((uint64_t)charge->cost + (uint64_t)charge->granted);

    if (charge->allowed != (charge->cost == 0 || debt + wanted <= capacity) ||
        (charge->granted > 0 && debt + taken > capacity))
        return false;
    if (charge->allowed) {
        debt += taken;
    } else {
        if (charge->limit->count_denied)
            debt = forced(debt, wanted, 2 * unit * (uint64_t)charge->limit->burst);
        charge->never = charge->cost > units;
        charge->retry_after_ns = charge->never ? 0 : wait_ns(ticks, debt + wanted - capacity);
    }
    charge->remaining = debt >= capacity ? 0 : (int64_t)((capacity - debt) / unit);
    charge->receipt[1] = (uint64_t)debt;
    bucket_times(charge, ticks, debt, capacity);
    return true;
}

static wr_u128 spacing(const struct wr_ticks *ticks, int64_t cost)
{
    wr_u128 wanted = (wr_u128)(uint64_t)ticks->unit * (uint64_t)cost;
    wr_u128 most = (wr_u128)(uint64_t)ticks->rate * (uint64_t)SPACING_MAX_US;

    if (most > WR_TICKS_MAX / 2)
        most = WR_TICKS_MAX / 2;
    return wanted < most ? wanted : most;
}

static bool leaky_bucket(struct wr_remote_charge *charge, const struct wr_ticks *ticks,
                         wr_u128 debt)
{
    wr_u128 unit = (wr_u128)(uint64_t)ticks->unit, queue = unit * (uint64_t)charge->limit->burst;
    bool closed = charge->limit->units == 0;

    if (charge->allowed != (closed ? charge->cost == 0 : debt <= queue) || charge->granted > 0)
        return false;
    if (closed) {
        charge->never = !charge->allowed;
        return true;
    }
    if (!charge->allowed) {
        if (charge->limit->count_denied) {
            wr_u128 window = (wr_u128)(uint64_t)wr_script_window_ticks(charge->limit, ticks);
            wr_u128 more = spacing(ticks, charge->cost);
            debt = forced(debt, more, queue + (more > window ? more : window));
        }
        charge->retry_after_ns = wait_ns(ticks, debt - queue);
    } else {
        charge->delay_ns = debt > 0 ? wait_ns(ticks, debt) : 0;
        debt += spacing(ticks, charge->cost);
        charge->remaining = debt >= queue + unit ? 0 : (int64_t)((queue + unit - debt) / unit);
    }
    charge->receipt[1] = (uint64_t)debt;
    bucket_times(charge, ticks, debt, queue + unit);
    return true;
}

bool wr_script_bucket(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us)
{
    struct wr_ticks ticks;

    if (!wr_ticks_make(&ticks, charge->limit))
        return false;
    charge->receipt[0] = (uint64_t)now_us;
    charge->lease_ns = charge->granted > 0 ? charge->ttl_ns : 0;
    if (charge->limit->algo == WR_TOKEN_BUCKET)
        return token_bucket(charge, &ticks, (wr_u128)(uint64_t)field[1]);
    return leaky_bucket(charge, &ticks, (wr_u128)(uint64_t)field[1]);
}

/* The state as src/algo has it: index, (previous,) count. */
static uint64_t window_word(const struct wr_limit *limit, const int64_t *field, uint64_t index)
{
    uint64_t most = (UINT64_C(1) << limit->count_bits) - 1;
    uint64_t count = wr_min_u64((uint64_t)field[2], most);
    uint64_t before = limit->algo == WR_SLIDING_WINDOW ? wr_min_u64((uint64_t)field[3], most) : 0;

    if (count == 0 && before == 0)
        return 0;
    if (limit->algo == WR_SLIDING_WINDOW)
        index = index << limit->count_bits | before;
    return index << limit->count_bits | count;
}

bool wr_script_window(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us)
{
    const struct wr_limit *limit = charge->limit;
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    int64_t start_ns = field[1] * WR_NS_PER_US, end_ns, now_ns = now_us * WR_NS_PER_US;
    uint64_t index;
    struct wr_take out;

    if (limit->calendar != WR_CALENDAR_NONE) {
        struct wr_period period = wr_limit_period_at(limit, start_ns);
        index = period.index;
        end_ns = period.end_ns;
    } else {
        index = (uint64_t)start_ns / (uint64_t)limit->window_ns;
        end_ns = start_ns + limit->window_ns;
    }
    algo->take(limit, window_word(limit, field, index), now_ns, charge->cost + charge->granted,
               &out);
    if (out.allowed != charge->allowed)
        return false;
    charge->never = out.never;
    charge->remaining = out.remaining;
    charge->retry_after_ns = out.retry_after_ns;
    charge->receipt[0] = (uint64_t)field[1];
    charge->lease_ns =
        charge->granted > 0 ? wr_max_i64(0, wr_min_i64(charge->ttl_ns, end_ns - now_ns)) : 0;
    algo->times(limit, out.told, now_ns, &charge->next_ns, &charge->reset_ns);
    return true;
}

/* Fields: live, the stamp that must age out, the one that frees a unit, the newest. */
bool wr_script_stamps(struct wr_remote_charge *charge, const int64_t *field, int64_t now_us)
{
    const struct wr_limit *limit = charge->limit;
    bool places = limit->algo == WR_CONCURRENCY;
    int64_t now_ns = now_us * WR_NS_PER_US, next_us = field[3], last_us = field[4];
    uint32_t live, must_age;
    struct wr_take out;

    if (field[1] > UINT32_MAX || charge->granted > 0)
        return false;
    live = (uint32_t)field[1];
    if (places)
        wr_concurrency_take(limit, live, charge->cost == 0, &out, &must_age);
    else
        wr_sliding_log_take(limit, live, charge->cost, &out, &must_age);
    /* Above the limit (it was lowered) a look passes all the same. */
    if (out.allowed != charge->allowed)
        return false;
    charge->never = out.never;
    charge->remaining = out.remaining;
    if (must_age > 0)
        charge->retry_after_ns = wr_sliding_log_retry(limit, field[2] * WR_NS_PER_US, now_ns);
    if (charge->allowed && charge->cost > 0) {
        last_us = wr_max_i64(now_us, last_us);
        next_us = live == 0 ? last_us : next_us;
        live++;
    }
    if (!charge->allowed && !places && limit->count_denied)
        live += (uint32_t)wr_sliding_log_forced(limit, live, charge->cost);
    charge->receipt[0] = (uint64_t)last_us;
    if (live > 0) {
        charge->next_ns = wr_sliding_log_retry(limit, next_us * WR_NS_PER_US, now_ns);
        charge->reset_ns = wr_sliding_log_retry(limit, last_us * WR_NS_PER_US, now_ns);
    }
    return true;
}
