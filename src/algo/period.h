/* period.h - the windows of a fixed-window limit that are not on the clock but in a calendar: those
 * of calendar.h, or of civil.h. */
#ifndef WR_ALGO_PERIOD_H
#define WR_ALGO_PERIOD_H

#include "algo/limit.h"

/* limit->calendar is not WR_CALENDAR_NONE. */
struct wr_period wr_limit_period_at(const struct wr_limit *limit, int64_t moment_ns);
struct wr_period wr_limit_period(const struct wr_limit *limit, uint64_t index);

/* A number below 2^52 that names its windows: two limits with the same count in the same ones. 0:
 * on the clock. */
int64_t wr_limit_windows_id(const struct wr_limit *limit);

/* Do two limits count in the same windows? */
bool wr_limit_same_windows(const struct wr_limit *a, const struct wr_limit *b);

#endif
