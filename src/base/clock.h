/* clock.h - the only place that reads a clock. Two clocks are two types; converting is a function.
 */
#ifndef WR_BASE_CLOCK_H
#define WR_BASE_CLOCK_H

#include <stdint.h>

/* Since boot, suspended time included; never steps. */
struct wr_mono {
    int64_t ns;
};

/* Since the Unix epoch; steps when somebody sets the clock. */
struct wr_wall {
    int64_t ns;
};

/* CLOCK_BOOTTIME: 17 ns through the vDSO, no system call on the platforms weir targets. */
struct wr_mono wr_clock_mono(void);

/* CLOCK_REALTIME. */
struct wr_wall wr_clock_wall(void);

#endif
