/* civil.c - which civil window a moment lies in, and when it begins and ends.
 *
 * Idea. A window is known by its number; its first day follows from the number by the calendar
 * alone, the moment of that day's start from the zone. A moment's number follows from its local
 * date, corrected by one where clocks were set back over midnight: windows are intervals, so a date
 * that comes twice belongs to the later one.
 *
 * Invariants.
 *   1. start_ns <= moment < end_ns, and the next window that is not empty begins at end_ns.
 *   2. A memo is read as a seqlock: what was torn is not used, and nobody waits.
 *
 * Source of the calendar: see calendar.c. */
#include "algo/civil.h"

#include <stdatomic.h>

#include "base/arith.h"
#include "base/units.h"
#include "base/zone.h"

#define DAYS_400 INT64_C(146097)
#define DAYS_BEFORE_EPOCH INT64_C(719468) /* from 0000-03-01 to 1970-01-01 */
#define MONDAY_SHIFT 3                    /* 1970-01-01 was a Thursday */
#define S_PER_DAY INT64_C(86400)

/* ---- the calendar ---------------------------------------------------------------------------- */

void wr_civil_date(int32_t day, int *year, unsigned *month, unsigned *day_of_month)
{
    int64_t z = day + DAYS_BEFORE_EPOCH;
    int64_t era = (z >= 0 ? z : z - (DAYS_400 - 1)) / DAYS_400, d = z - era * DAYS_400;
    int64_t y = (d - d / 1460 + d / 36524 - d / 146096) / 365;
    int64_t of_year = d - (365 * y + y / 4 - y / 100);
    int64_t shifted = (5 * of_year + 2) / 153; /* March is 0 */

    *day_of_month = (unsigned)(of_year - (153 * shifted + 2) / 5 + 1);
    *month = (unsigned)(shifted < 10 ? shifted + 3 : shifted - 9);
    *year = (int)(y + era * 400 + (*month <= 2));
}

int32_t wr_civil_day_of(int year, unsigned month, unsigned day_of_month)
{
    int64_t y = month <= 2 ? (int64_t)year - 1 : year;
    int64_t era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t shifted = ((int64_t)month + 9) % 12;
    int64_t of_year = (153 * shifted + 2) / 5 + day_of_month - 1;
    int64_t days = of_era * 365 + of_era / 4 - of_era / 100 + of_year;

    return (int32_t)(era * DAYS_400 + days - DAYS_BEFORE_EPOCH);
}

/* The first day of the month |months| after January 1970, and where it begins by |anchor|. */
static int32_t month_start(int64_t months, unsigned anchor)
{
    int year = (int)(1970 + (months >= 0 ? months : months - 11) / 12);
    unsigned month = (unsigned)(months - (int64_t)(year - 1970) * 12) + 1;
    int32_t first = wr_civil_day_of(year, month, 1);
    int32_t next = wr_civil_day_of(month == 12 ? year + 1 : year, month % 12 + 1, 1);

    return first + (int32_t)wr_min_i64(anchor, next - first) - 1;
}

/* ---- windows --------------------------------------------------------------------------------- */

bool wr_civil_valid(const struct wr_civil *civil)
{
    for (unsigned i = 0; i < sizeof civil->zero; i++)
        if (civil->zero[i] != 0)
            return false;
    return civil->per >= WR_PER_DAY && civil->per <= WR_PER_MONTH && civil->anchor >= 1 &&
           civil->anchor <= (civil->per == WR_PER_MONTH ? 31 : 1);
}

/* Months are numbered so that those of every anchor hold the epoch, or a day before it, in 0. */
static int64_t number_of(const struct wr_civil *civil, int32_t day)
{
    int year;
    unsigned month, of_month;
    int64_t months;

    if (civil->per == WR_PER_DAY)
        return day;
    if (civil->per == WR_PER_WEEK)
        return (day + MONDAY_SHIFT) / 7;
    wr_civil_date(day, &year, &month, &of_month);
    months = (int64_t)(year - 1970) * 12 + month - 1;
    return months + (civil->anchor > 1) - (day < month_start(months, civil->anchor));
}

static int32_t first_day(const struct wr_civil *civil, int64_t number)
{
    if (civil->per == WR_PER_DAY)
        return (int32_t)number;
    if (civil->per == WR_PER_WEEK)
        return (int32_t)(number * 7 - MONDAY_SHIFT);
    return month_start(number - (civil->anchor > 1), civil->anchor);
}

static int64_t start_of(const struct wr_zone *zone, int32_t day)
{
    return wr_zone_day_start_s(zone, day) * WR_NS_PER_S;
}

static int32_t local_day(const struct wr_zone *zone, int64_t moment_ns)
{
    int64_t s = moment_ns / WR_NS_PER_S;

    /* The shift keeps the division from rounding up where local time is before the epoch. */
    return (int32_t)((s + wr_zone_offset_s(zone, s) + 2 * S_PER_DAY) / S_PER_DAY - 2);
}

static struct wr_civil_window window_of(const struct wr_civil *civil, const struct wr_zone *zone,
                                        int64_t number)
{
    int32_t day = first_day(civil, number);
    int64_t start_ns = start_of(zone, day);

    if (number == 0) /* what is before the epoch where it began later */
        start_ns = wr_min_i64(start_ns, 0);
    return (struct wr_civil_window){(uint64_t)number, day, start_ns,
                                    start_of(zone, first_day(civil, number + 1))};
}

static struct wr_civil_window find(const struct wr_civil *civil, int64_t moment_ns)
{
    const struct wr_zone *zone = wr_zone_by_id(civil->zone);
    int32_t day = local_day(zone, moment_ns);
    int64_t number = wr_max_i64(0, number_of(civil, day < -1 ? -1 : day));
    struct wr_civil_window window = window_of(civil, zone, number);

    if (window.end_ns <= moment_ns) /* a date that comes twice */
        window = window_of(civil, zone, number + 1);
    return window;
}

struct wr_civil_window wr_civil_window(const struct wr_civil *civil, uint64_t index)
{
    int64_t number = (int64_t)wr_min_u64(index, UINT64_C(1) << WR_CIVIL_DAY_BITS);

    return window_of(civil, wr_zone_by_id(civil->zone), number);
}

uint64_t wr_civil_index(const struct wr_civil *civil, int32_t day)
{
    return (uint64_t)wr_max_i64(0, number_of(civil, day));
}

int32_t wr_civil_day(const struct wr_civil *civil, int64_t moment_ns)
{
    return local_day(wr_zone_by_id(civil->zone), moment_ns);
}

/* ---- memos ----------------------------------------------------------------------------------- */

#define MEMOS 64U

static struct memo {
    _Alignas(64) atomic_uint sequence; /* odd: being written */
    atomic_uint_fast64_t zone, kind;   /* of the windows; kind 0: none */
    atomic_uint_fast64_t index, day;
    atomic_int_fast64_t start_ns, end_ns;
} memos[MEMOS];

static uint64_t kind_of(const struct wr_civil *civil)
{
    return (uint64_t)civil->anchor << 8 | civil->per;
}

static struct memo *memo_of(const struct wr_civil *civil)
{
    uint64_t mixed = (civil->zone ^ kind_of(civil) << 32) * UINT64_C(0x9e3779b97f4a7c15);

    return &memos[mixed >> 32 & (MEMOS - 1)];
}

static bool recall(struct memo *memo, const struct wr_civil *civil, int64_t moment_ns,
                   struct wr_civil_window *out)
{
    unsigned sequence = atomic_load_explicit(&memo->sequence, memory_order_acquire);
    uint64_t zone = atomic_load_explicit(&memo->zone, memory_order_relaxed);
    uint64_t kind = atomic_load_explicit(&memo->kind, memory_order_relaxed);

    out->index = atomic_load_explicit(&memo->index, memory_order_relaxed);
    out->day = (int32_t)atomic_load_explicit(&memo->day, memory_order_relaxed);
    out->start_ns = atomic_load_explicit(&memo->start_ns, memory_order_relaxed);
    out->end_ns = atomic_load_explicit(&memo->end_ns, memory_order_relaxed);
    atomic_thread_fence(memory_order_acquire);
    return (sequence & 1) == 0 &&
           sequence == atomic_load_explicit(&memo->sequence, memory_order_relaxed) &&
           zone == civil->zone && kind == kind_of(civil) && moment_ns >= out->start_ns &&
           moment_ns < out->end_ns;
}

/* Where another thread is writing, its window is as good. */
static void remember(struct memo *memo, const struct wr_civil *civil,
                     const struct wr_civil_window *window)
{
    unsigned sequence = atomic_load_explicit(&memo->sequence, memory_order_relaxed);

    if ((sequence & 1) != 0 ||
        !atomic_compare_exchange_strong_explicit(&memo->sequence, &sequence, sequence + 1,
                                                 memory_order_acq_rel, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&memo->zone, civil->zone, memory_order_relaxed);
    atomic_store_explicit(&memo->kind, kind_of(civil), memory_order_relaxed);
    atomic_store_explicit(&memo->index, window->index, memory_order_relaxed);
    atomic_store_explicit(&memo->day, (uint64_t)(uint32_t)window->day, memory_order_relaxed);
    atomic_store_explicit(&memo->start_ns, window->start_ns, memory_order_relaxed);
    atomic_store_explicit(&memo->end_ns, window->end_ns, memory_order_relaxed);
    atomic_store_explicit(&memo->sequence, sequence + 2, memory_order_release);
}

/* Not inlined, so that recalling, which is on the path of every decision, needs no stack. */
static __attribute__((noinline)) struct wr_civil_window
find_and_remember(struct memo *memo, const struct wr_civil *civil, int64_t moment_ns)
{
    struct wr_civil_window window = find(civil, moment_ns);

    if (wr_zone_id(wr_zone_by_id(civil->zone)) == civil->zone) /* it may be found later */
        remember(memo, civil, &window);
    return window;
}

struct wr_civil_window wr_civil_at(const struct wr_civil *civil, int64_t moment_ns)
{
    struct memo *memo = memo_of(civil);
    struct wr_civil_window window;

    if (recall(memo, civil, moment_ns, &window))
        return window;
    return find_and_remember(memo, civil, moment_ns);
}
