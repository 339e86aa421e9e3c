/* clock.c - reading the two clocks. */
#include "base/clock.h"

#include <time.h>

#include "base/units.h"

static int64_t read_clock(clockid_t id)
{
    struct timespec ts = {0, 0};
    (void)clock_gettime(id, &ts); /* fails only for ids the kernel does not have */
    return (int64_t)ts.tv_sec * WR_NS_PER_S + ts.tv_nsec;
}

struct wr_mono wr_clock_mono(void)
{
    return (struct wr_mono){read_clock(CLOCK_BOOTTIME)};
}

struct wr_wall wr_clock_wall(void)
{
    return (struct wr_wall){read_clock(CLOCK_REALTIME)};
}
