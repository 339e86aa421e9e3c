/* units.h - the units of time. All time in weir is int64 nanoseconds. */
#ifndef WR_BASE_UNITS_H
#define WR_BASE_UNITS_H

#include <stdint.h>

#define WR_NS_PER_US INT64_C(1000)
#define WR_NS_PER_MS INT64_C(1000000)
#define WR_NS_PER_S INT64_C(1000000000)
#define WR_NS_PER_MINUTE (60 * WR_NS_PER_S)
#define WR_NS_PER_HOUR (3600 * WR_NS_PER_S)
#define WR_NS_PER_DAY (86400 * WR_NS_PER_S)
#define WR_NS_PER_WEEK (7 * WR_NS_PER_DAY)

/* The last moment that is told apart, 2200-01-01T00:00:00Z: later times count as this one. Every
 * state that holds a moment is scaled so that moments up to here, and a whole capacity after, fit.
 */
#define WR_TIME_MAX_NS (INT64_C(7258118400) * WR_NS_PER_S)

/* Two stamps this close may be out of order for honest reasons (two threads read the clock, the one
 * that read first charges last), so time merely stands still. Further apart, the clock has been set
 * back: the state is moved to the present, or a key could be locked out for as long as the step. */
#define WR_CLOCK_NOISE_NS WR_NS_PER_S

#endif
