/* calendar.c - which week, month or year a moment lies in.
 *
 * Idea. Years that begin on the first of March have their leap day last, so that the day of such a
 * year gives its month by one multiplication: the lengths 31 30 31 30 31 of five months in a row
 * repeat, 153 days. Four centuries have 146 097 days, always.
 *
 * Invariants: for every moment t, start <= t < end, and the period after has index + 1 and begins
 * at end.
 *
 * Source: the Gregorian rule; the shift to March is Zeller's (1882). */
#include "algo/calendar.h"

#include "base/arith.h"
#include "base/units.h"

#define DAYS_400 INT64_C(146097)          /* in four centuries */
#define DAYS_BEFORE_EPOCH INT64_C(719468) /* from 0000-03-01 to 1970-01-01 */
#define MONDAY_SHIFT 3                    /* 1970-01-01 was a Thursday */
#define LAST_YEAR 2400

/* Days from the epoch to the first of |month| (0..11) of |year|. */
static int64_t days_to(int64_t year, int64_t month)
{
    int64_t shifted = (month + 10) % 12; /* March is 0 */
    int64_t y = month < 2 ? year - 1 : year;
    int64_t day = (153 * shifted + 2) / 5;

    return 365 * y + y / 4 - y / 100 + y / 400 + day - DAYS_BEFORE_EPOCH;
}

/* Months from January 1970 to the month that |days| after the epoch lies in. */
static int64_t month_of(int64_t days)
{
    int64_t z = days + DAYS_BEFORE_EPOCH;
    int64_t era = z / DAYS_400, day = z % DAYS_400;
    int64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
    int64_t of_year = day - (365 * year + year / 4 - year / 100);
    int64_t shifted = (5 * of_year + 2) / 153;

    return (era * 400 + year - 1970) * 12 + shifted + 2;
}

struct wr_period wr_calendar_period(enum wr_calendar calendar, uint64_t index)
{
    int64_t i = (int64_t)wr_min_u64(index, (uint64_t)(LAST_YEAR - 1970) * 53);
    int64_t start, end;

    if (calendar == WR_CALENDAR_WEEK) {
        start = i * 7 - MONDAY_SHIFT;
        end = start + 7;
    } else if (calendar == WR_CALENDAR_MONTH) {
        start = days_to(1970 + i / 12, i % 12);
        end = days_to(1970 + (i + 1) / 12, (i + 1) % 12);
    } else {
        start = days_to(1970 + i, 0);
        end = days_to(1971 + i, 0);
    }
    return (struct wr_period){(uint64_t)i, start * WR_NS_PER_DAY, end * WR_NS_PER_DAY};
}

struct wr_period wr_calendar_at(enum wr_calendar calendar, int64_t moment_ns)
{
    int64_t days = moment_ns / WR_NS_PER_DAY;
    int64_t index = calendar == WR_CALENDAR_WEEK    ? (days + MONDAY_SHIFT) / 7
                    : calendar == WR_CALENDAR_MONTH ? month_of(days)
                                                    : month_of(days) / 12;

    return wr_calendar_period(calendar, (uint64_t)index);
}

int64_t wr_calendar_longest_ns(enum wr_calendar calendar)
{
    return (calendar == WR_CALENDAR_WEEK    ? 7
            : calendar == WR_CALENDAR_MONTH ? 31
                                            : 366) *
           WR_NS_PER_DAY;
}
