/* divide.c - the part of a limit that one of several nodes may let through by itself, while nobody
 * can count for all of them.
 *
 * Bound. |nodes| parts together let through no more than the whole, but that each has at least one
 * unit (or a place): a limit with fewer units than nodes refuses nobody for good.
 *
 * A bucket's rate is divided exactly, by a longer window: 5/s over 2 is 5 per 2 s, not 2/s. Windows
 * and logs keep their length, as that is what they promise about, and round their units down. */
#include <stddef.h>

#include "algo/limit.h"

static int64_t part(int64_t units, int64_t nodes)
{
    return units == 0 ? 0 : wr_max_i64(1, units / nodes);
}

static const char *divide_bucket(struct wr_limit *out, const struct wr_limit *limit, int64_t nodes)
{
    bool queue = limit->algo == WR_LEAKY_BUCKET;
    int64_t burst =
        queue ? wr_max_i64(0, (limit->burst + 1) / nodes - 1) : part(limit->burst, nodes);

    if (limit->units == 0)
        burst = -1;
    if (limit->window_ns <= WR_WINDOW_MAX_NS / nodes &&
        wr_limit_make(out, (enum wr_algo)limit->algo, limit->units, limit->window_ns * nodes, burst,
                      limit->count_denied != 0) == NULL)
        return NULL;
    return wr_limit_make(out, (enum wr_algo)limit->algo, part(limit->units, nodes),
                         limit->window_ns, burst, limit->count_denied != 0);
}

bool wr_limit_divide(struct wr_limit *out, const struct wr_limit *limit, int64_t nodes)
{
    const char *wrong;

    if (nodes <= 1) {
        *out = *limit;
        return true;
    }
    if (limit->algo == WR_TOKEN_BUCKET || limit->algo == WR_LEAKY_BUCKET)
        wrong = divide_bucket(out, limit, nodes);
    else if (limit->calendar == WR_CALENDAR_CIVIL)
        wrong = wr_limit_make_civil(out, &limit->civil, part(limit->units, nodes),
                                    limit->count_denied != 0);
    else if (limit->calendar != WR_CALENDAR_NONE)
        wrong = wr_limit_make_calendar(out, (enum wr_calendar)limit->calendar,
                                       part(limit->units, nodes), limit->count_denied != 0);
    else
        wrong = wr_limit_make(out, (enum wr_algo)limit->algo, part(limit->units, nodes),
                              limit->window_ns, -1, limit->count_denied != 0);
    return wrong == NULL;
}
