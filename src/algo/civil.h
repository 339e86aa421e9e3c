/* civil.h - windows as people count them where they live: days, weeks and months by the civil date
 * in a time zone.
 *
 * A day has 23 to 25 hours, a week begins on Monday, a month on its anchor: the first, or the day a
 * bill is written; an anchor that a month does not have is its last day. Nothing is a number of
 * seconds. */
#ifndef WR_ALGO_CIVIL_H
#define WR_ALGO_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

enum wr_per { WR_PER_DAY = 1, WR_PER_WEEK = 2, WR_PER_MONTH = 3 };

/* Which windows. Goes into the arena as a part of struct wr_limit: fixed widths, no padding. */
struct wr_civil {
    uint64_t zone;  /* wr_zone_id; in a process that has not found the zone it counts as UTC */
    uint8_t per;    /* enum wr_per */
    uint8_t anchor; /* months: the day they begin on, 1..31; otherwise 1 */
    uint8_t zero[14];
};

#define WR_CIVIL_DAY_BITS 20 /* that hold a day: until the year 4840 */

struct wr_civil_window {
    uint64_t index;   /* grows by one from window to window; 0 holds the local epoch */
    int32_t day;      /* its first civil day, days since 1970-01-01: names the window */
    int64_t start_ns; /* the window before ends here */
    int64_t end_ns;   /* > start_ns */
};

bool wr_civil_valid(const struct wr_civil *civil);

/* The window that |moment_ns| (0 .. WR_TIME_MAX_NS) lies in. The last answers are kept for all
 * threads: a few nanoseconds where the moments of calls are near each other. */
struct wr_civil_window wr_civil_at(const struct wr_civil *civil, int64_t moment_ns);

/* The window numbered |index|. One whose only day was skipped is empty: end_ns is start_ns. */
struct wr_civil_window wr_civil_window(const struct wr_civil *civil, uint64_t index);

/* The number of the window that begins on |day|, or that |day| lies in. */
uint64_t wr_civil_index(const struct wr_civil *civil, int32_t day);

/* The local date of |moment_ns|. */
int32_t wr_civil_day(const struct wr_civil *civil, int64_t moment_ns);

/* Year, month 1..12 and day 1..31 of a day; and back. */
void wr_civil_date(int32_t day, int *year, unsigned *month, unsigned *day_of_month);
int32_t wr_civil_day_of(int year, unsigned month, unsigned day_of_month);

#endif
