/* period.c - one question for all calendars. */
#include "algo/period.h"

#include <string.h>

static struct wr_period period_of(const struct wr_civil_window *window)
{
    return (struct wr_period){window->index, window->start_ns, window->end_ns};
}

struct wr_period wr_limit_period_at(const struct wr_limit *limit, int64_t moment_ns)
{
    struct wr_civil_window window;

    if (limit->calendar != WR_CALENDAR_CIVIL)
        return wr_calendar_at((enum wr_calendar)limit->calendar, moment_ns);
    window = wr_civil_at(&limit->civil, moment_ns);
    return period_of(&window);
}

struct wr_period wr_limit_period(const struct wr_limit *limit, uint64_t index)
{
    struct wr_civil_window window;

    if (limit->calendar != WR_CALENDAR_CIVIL)
        return wr_calendar_period((enum wr_calendar)limit->calendar, index);
    window = wr_civil_window(&limit->civil, index);
    return period_of(&window);
}

int64_t wr_limit_windows_id(const struct wr_limit *limit)
{
    uint64_t mixed;

    if (limit->calendar != WR_CALENDAR_CIVIL)
        return limit->calendar;
    mixed = limit->civil.zone ^ ((uint64_t)limit->civil.per << 8 | limit->civil.anchor);
    mixed *= UINT64_C(0x9e3779b97f4a7c15);
    return (int64_t)(mixed >> 12 | 16); /* 1..3 are those of calendar.h */
}

bool wr_limit_same_windows(const struct wr_limit *a, const struct wr_limit *b)
{
    return a->window_ns == b->window_ns && a->calendar == b->calendar &&
           (a->calendar != WR_CALENDAR_CIVIL || memcmp(&a->civil, &b->civil, sizeof a->civil) == 0);
}
