/* limit.c - from the numbers of a policy to a checked limit, and from an algorithm's number to its
 * functions.
 *
 * Everything that an algorithm relies on (no product overflows, every index fits its field) follows
 * from bounds that are checked here once. wr_limit_valid makes the limit again and compares, so
 * that there is one list of rules and a class of a damaged arena cannot break one of them. */
#include "algo/limit.h"

#include <stddef.h>
#include <string.h>

#include "algo/lease.h"
#include "algo/scale.h"
#include "algo/told.h"

/* Of civil windows, whatever their units: what is counted may be judged by the numbers of another
 * plan (a smaller one, or a larger) and must come out of it whole. */
#define CIVIL_COUNT_BITS 44
static_assert(WR_CIVIL_UNITS_MAX >> (CIVIL_COUNT_BITS - 4) == 0, "room for counts above it");

#define STAMP_TICKS_MAX INT64_C(2147483648) /* ticks of a window: half the range of 32 bits */

static const char *const names[WR_TOLD + 1] = {
    [WR_TOKEN_BUCKET] = "token-bucket",
    [WR_LEAKY_BUCKET] = "leaky-bucket",
    [WR_FIXED_WINDOW] = "fixed-window",
    [WR_SLIDING_WINDOW] = "sliding-window",
    [WR_SLIDING_LOG] = "sliding-log",
    [WR_CONCURRENCY] = "concurrency",
    [WR_LEASE] = "lease",
    [WR_TOLD] = "told",
};

static const struct wr_word_algo *const word_algos[WR_TOLD + 1] = {
    [WR_TOKEN_BUCKET] = &wr_token_bucket,
    [WR_LEAKY_BUCKET] = &wr_leaky_bucket,
    [WR_FIXED_WINDOW] = &wr_fixed_window,
    [WR_SLIDING_WINDOW] = &wr_sliding_window,
    [WR_LEASE] = &wr_lease,
    [WR_TOLD] = &wr_told,
};

const char *wr_algo_name(enum wr_algo algo)
{
    return (unsigned)algo <= WR_TOLD ? names[algo] : NULL;
}

const struct wr_word_algo *wr_word_algo(enum wr_algo algo)
{
    return (unsigned)algo <= WR_TOLD ? word_algos[algo] : NULL;
}

uint64_t wr_word_used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns)
{
    const struct wr_word_algo *algo = wr_word_algo((enum wr_algo)limit->algo);
    return algo == NULL ? 0 : algo->used_q32(limit, state, now_ns);
}

int64_t wr_limit_capacity(const struct wr_limit *limit)
{
    if (limit->units == 0)
        return 0;
    if (limit->algo == WR_TOKEN_BUCKET)
        return limit->burst;
    return limit->algo == WR_LEAKY_BUCKET ? limit->burst + 1 : limit->units;
}

static bool has_burst(enum wr_algo algo)
{
    return algo == WR_TOKEN_BUCKET || algo == WR_LEAKY_BUCKET;
}

static const char *check_units(enum wr_algo algo, int64_t units)
{
    if (units < 0)
        return "the number of units must not be negative";
    switch (algo) {
    case WR_TOKEN_BUCKET:
    case WR_LEAKY_BUCKET:
        return units > WR_RATE_UNITS_MAX ? "at most 1000000000000 units per window" : NULL;
    case WR_FIXED_WINDOW:
        return units > WR_FIXED_WINDOW_UNITS_MAX
                   ? "a fixed window counts at most 4294967295 units; a token-bucket holds more"
                   : NULL;
    case WR_SLIDING_WINDOW:
        return units > WR_SLIDING_WINDOW_UNITS_MAX
                   ? "a sliding window counts at most 16777215 units; a token-bucket holds more"
                   : NULL;
    case WR_SLIDING_LOG:
        return units > WR_LOG_UNITS_MAX
                   ? "a sliding log keeps at most 10000 stamps a key; a sliding-window counts more"
                   : NULL;
    case WR_CONCURRENCY:
        return units > WR_CONCURRENCY_MAX ? "at most 10000 places" : NULL;
    case WR_LEASE:
    case WR_TOLD:
        break;
    }
    return "no such algorithm";
}

/* The finest tick of the series 1, 2, 4, 5, 8 times a power of ten that cuts the window into whole
 * ticks, few enough; 0: none. Such ticks divide the milliseconds and seconds of time stamps, so
 * that a log of those loses nothing. */
static int64_t stamp_tick(int64_t window_ns)
{
    static const int64_t series[] = {1, 2, 4, 5, 8};

    for (int64_t decade = 1; decade <= WR_NS_PER_S; decade *= 10) {
        for (size_t i = 0; i < sizeof series / sizeof series[0]; i++) {
            int64_t tick = series[i] * decade;
            if (window_ns % tick == 0 && window_ns / tick <= STAMP_TICKS_MAX)
                return tick;
        }
    }
    return 0;
}

/* How long |burst| units take at N per W is bounded, so that moments beyond now stay in the word.
 */
static bool burst_fits(int64_t burst, int64_t units, int64_t window_ns)
{
    return (wr_u128)burst * (uint64_t)window_ns <= (wr_u128)WR_REFILL_MAX_NS * (uint64_t)units;
}

static const char *make_bucket(struct wr_limit *limit, int64_t burst)
{
    limit->scale = wr_scale_make(limit->units, limit->window_ns);
    if (limit->units == 0)
        return NULL;
    if (burst < 0)
        burst = limit->algo == WR_TOKEN_BUCKET ? limit->units : 0;
    if (burst == 0 && limit->algo == WR_TOKEN_BUCKET)
        return "burst must be at least 1: it is what the bucket holds";
    if (burst > WR_BURST_MAX)
        return "burst and queue are at most 1000000000000";
    if (!burst_fits(burst, limit->units, limit->window_ns))
        return "at this rate the burst or queue lasts longer than 50 years";
    limit->burst = burst;
    return NULL;
}

/* Room for counts above N (count_denied, settling above an estimate): sixteen times as much; of the
 * sliding window, whose word holds two, as much as leaves 24 bits for the index, and twice at
 * least. */
static void make_counts(struct wr_limit *limit)
{
    unsigned bits = wr_bit_length((uint64_t)limit->units);

    if (limit->algo == WR_FIXED_WINDOW)
        limit->count_bits = (uint8_t)(bits + 4);
    else
        limit->count_bits = (uint8_t)wr_max_u64(bits + 1, wr_min_u64(bits + 4, 20));
}

static const char *make_stamps(struct wr_limit *limit)
{
    limit->tick_ns = stamp_tick(limit->window_ns);
    return limit->tick_ns == 0
               ? "a window this long must be whole milliseconds, above 24 days whole seconds"
               : NULL;
}

static const char *make(struct wr_limit *limit, enum wr_algo algo, int64_t units, int64_t window_ns,
                        int64_t burst, bool count_denied)
{
    const char *problem = check_units(algo, units);

    if (problem != NULL)
        return problem;
    if (window_ns < WR_WINDOW_MIN_NS || window_ns > WR_WINDOW_MAX_NS)
        return "the window must be 1 ms to 366 days";
    if (units > window_ns && algo != WR_CONCURRENCY)
        return "at most 1000000000 units per second";
    if (burst >= 0 && !has_burst(algo))
        return "only token-bucket takes a burst, only leaky-bucket a queue";
    limit->algo = (uint8_t)algo;
    limit->count_denied = count_denied;
    limit->units = units;
    limit->window_ns = window_ns;
    if (has_burst(algo))
        return make_bucket(limit, burst);
    if (wr_limit_is_word(limit)) {
        make_counts(limit);
        return NULL;
    }
    return make_stamps(limit);
}

const char *wr_limit_make(struct wr_limit *out, enum wr_algo algo, int64_t units, int64_t window_ns,
                          int64_t burst, bool count_denied)
{
    struct wr_limit limit = {0};
    const char *problem = make(&limit, algo, units, window_ns, burst, count_denied);

    *out = problem == NULL ? limit : (struct wr_limit){0};
    return problem;
}

const char *wr_limit_make_calendar(struct wr_limit *out, enum wr_calendar calendar, int64_t units,
                                   bool count_denied)
{
    const char *problem = "no such calendar";

    *out = (struct wr_limit){0};
    if (calendar != WR_CALENDAR_NONE && (unsigned)calendar <= WR_CALENDAR_MAX)
        problem = wr_limit_make(out, WR_FIXED_WINDOW, units, wr_calendar_longest_ns(calendar), -1,
                                count_denied);
    if (problem == NULL)
        out->calendar = (uint8_t)calendar;
    return problem;
}

const char *wr_limit_make_civil(struct wr_limit *out, const struct wr_civil *civil, int64_t units,
                                bool count_denied)
{
    static const int64_t longest_days[] = {
        [WR_PER_DAY] = 2, [WR_PER_WEEK] = 8, [WR_PER_MONTH] = 32};

    *out = (struct wr_limit){0};
    if (!wr_civil_valid(civil))
        return "no such windows";
    if (units < 0)
        return "the number of units must not be negative";
    if (units > WR_CIVIL_UNITS_MAX)
        return "a quota counts at most 1099511627775 units";
    out->algo = WR_FIXED_WINDOW;
    out->calendar = WR_CALENDAR_CIVIL;
    out->count_denied = count_denied;
    out->units = units;
    out->window_ns = longest_days[civil->per] * WR_NS_PER_DAY;
    out->civil = *civil;
    out->count_bits = CIVIL_COUNT_BITS;
    return NULL;
}

bool wr_limit_valid(const struct wr_limit *limit)
{
    struct wr_limit again;
    bool burst = has_burst((enum wr_algo)limit->algo);
    bool denied = limit->count_denied == 1;
    const char *problem;

    if (limit->algo == WR_LEASE || limit->algo == WR_TOLD) {
        again = limit->algo == WR_LEASE ? wr_lease_limit() : wr_told_limit();
        return memcmp(&again, limit, sizeof again) == 0;
    }
    if (limit->calendar == WR_CALENDAR_CIVIL)
        problem = wr_limit_make_civil(&again, &limit->civil, limit->units, denied);
    else if (limit->calendar != WR_CALENDAR_NONE)
        problem =
            wr_limit_make_calendar(&again, (enum wr_calendar)limit->calendar, limit->units, denied);
    else
        problem = wr_limit_make(&again, (enum wr_algo)limit->algo, limit->units, limit->window_ns,
                                burst ? limit->burst : -1, denied);
    return limit->count_denied <= 1 && limit->burst >= 0 && problem == NULL &&
           memcmp(&again, limit, sizeof again) == 0;
}
