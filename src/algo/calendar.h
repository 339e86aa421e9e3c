/* calendar.h - windows as people count them: weeks from Monday, months, years, all in UTC.
 *
 * A period is told by its index, which grows by one from period to period; index 0 holds the Unix
 * epoch. */
#ifndef WR_ALGO_CALENDAR_H
#define WR_ALGO_CALENDAR_H

#include <stdint.h>

enum wr_calendar {
    WR_CALENDAR_NONE = 0,
    WR_CALENDAR_WEEK = 1,
    WR_CALENDAR_MONTH = 2,
    WR_CALENDAR_YEAR = 3,
    WR_CALENDAR_CIVIL = 4, /* of a time zone: civil.h, not here */
};
#define WR_CALENDAR_MAX 3

struct wr_period {
    uint64_t index;
    int64_t start_ns; /* of the first week: before the epoch */
    int64_t end_ns;   /* the start of the next one */
};

/* The period that |moment_ns| (0 .. WR_TIME_MAX_NS) lies in. |calendar| is not NONE. */
struct wr_period wr_calendar_at(enum wr_calendar calendar, int64_t moment_ns);

/* The period numbered |index|, up to the year 2400. */
struct wr_period wr_calendar_period(enum wr_calendar calendar, uint64_t index);

/* The longest that a period may be, ns. */
int64_t wr_calendar_longest_ns(enum wr_calendar calendar);

#endif
