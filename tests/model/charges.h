/* charges.h - the model of the windows: every charge with the number of the window it counts in.
 *
 * Time: a window that lies ahead of the clock by one, or by a second, goes on (time stands at its
 * start); further ahead, all charges are moved back by whole windows, so that the newest is in the
 * clock's. */
#ifndef TESTS_MODEL_CHARGES_H
#define TESTS_MODEL_CHARGES_H

#include "schedule.h"

#define CHARGES_MAX 200
#define NEVER_SEEN INT64_MIN

struct counted {
    int64_t window, cost;
};

struct charges {
    bool sliding;
    int64_t units, window_ns;
    struct counted charges[CHARGES_MAX];
    unsigned count;
    int64_t newest; /* window of the newest charge */
};

static inline int64_t charged_in(const struct charges *m, int64_t window)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < m->count; i++)
        sum += m->charges[i].window == window ? m->charges[i].cost : 0;
    return sum;
}

static inline bool stands_still(const struct charges *m, int64_t now_ns)
{
    int64_t ahead = m->newest == NEVER_SEEN ? 0 : m->newest - now_ns / m->window_ns;
    return ahead > 0 && ahead <= WR_CLOCK_NOISE_NS / m->window_ns + 1;
}

static inline int64_t window_at(const struct charges *m, int64_t now_ns)
{
    return stands_still(m, now_ns) ? m->newest : now_ns / m->window_ns;
}

/* What counts at |now_ns|, times W. */
static inline i128 estimate(const struct charges *m, int64_t now_ns)
{
    int64_t window = window_at(m, now_ns);
    int64_t into_ns = stands_still(m, now_ns) ? 0 : now_ns % m->window_ns;
    i128 sum = (i128)charged_in(m, window) * m->window_ns;

    if (m->sliding)
        sum += (i128)charged_in(m, window - 1) * (m->window_ns - into_ns);
    return sum;
}

static inline bool charges_pass(const struct charges *m, int64_t now_ns, int64_t cost)
{
    return cost == 0 ||
           estimate(m, now_ns) + (i128)cost * m->window_ns <= (i128)m->units * m->window_ns;
}

static inline int64_t room(const struct charges *m, int64_t now_ns)
{
    int64_t low = 0, high = m->units;

    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (charges_pass(m, now_ns, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static inline void set_back(struct charges *m, int64_t now_ns)
{
    int64_t shift;

    if (m->newest == NEVER_SEEN || stands_still(m, now_ns) || m->newest <= now_ns / m->window_ns)
        return;
    shift = m->newest - now_ns / m->window_ns;
    for (unsigned i = 0; i < m->count; i++)
        m->charges[i].window -= shift;
    m->newest -= shift;
}

static inline void charge(struct charges *m, int64_t now_ns, int64_t cost)
{
    int64_t window = window_at(m, now_ns);

    if (cost == 0)
        return;
    if (m->count == CHARGES_MAX) { /* forget the oldest: long gone */
        m->count--;
        for (unsigned i = 0; i < m->count; i++)
            m->charges[i] = m->charges[i + 1];
    }
    m->charges[m->count++] = (struct counted){window, cost};
    m->newest = window;
}

#endif
