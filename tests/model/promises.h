/* promises.h - the model of a leaky bucket: every request that passed with its cost. The departures
 * are worked out from the first one each time, in exact fractions (moments multiplied by N): each
 * departs when it comes, or cost * W/N after the one before it departs. */
#ifndef TESTS_MODEL_PROMISES_H
#define TESTS_MODEL_PROMISES_H

#include "schedule.h"

#define PROMISED_MAX 80

struct promise {
    int64_t came_ns, cost;
};

struct promises {
    int64_t units, window_ns, queue;
    struct promise promised[PROMISED_MAX];
    unsigned count;
};

/* When one more would depart that comes at |now_ns|, times N. */
static inline i128 next_departure(const struct promises *m, int64_t now_ns)
{
    i128 free = 0;

    for (unsigned i = 0; i < m->count; i++) {
        i128 came = (i128)m->promised[i].came_ns * m->units;
        i128 departs = came > free ? came : free;
        free = departs + (i128)m->promised[i].cost * m->window_ns;
    }
    i128 now = (i128)now_ns * m->units;
    return now > free ? now : free;
}

static inline bool promises_pass(const struct promises *m, int64_t now_ns)
{
    i128 delay = next_departure(m, now_ns) - (i128)now_ns * m->units;
    return delay <= (i128)m->queue * m->window_ns;
}

static inline void promise(struct promises *m, int64_t now_ns, int64_t cost)
{
    m->promised[m->count++] = (struct promise){now_ns, cost};
}

/* How many of cost 1 pass, found by letting them. */
static inline int64_t promises_room(const struct promises *m, int64_t now_ns)
{
    struct promises copy = *m;
    int64_t n = 0;

    while (promises_pass(&copy, now_ns)) {
        promise(&copy, now_ns, 1);
        n++;
    }
    return n;
}

#endif
