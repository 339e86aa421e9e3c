/* level.h - the model of a token bucket: a level between 0 and B that rises by N/W a ns, in exact
 * fractions (multiplied by W). */
#ifndef TESTS_MODEL_LEVEL_H
#define TESTS_MODEL_LEVEL_H

#include "schedule.h"

struct level {
    int64_t units, window_ns, burst;
    i128 level;      /* tokens * W; below zero when forced */
    int64_t last_ns; /* when it had that level */
};

static inline i128 level_at(const struct level *m, int64_t now_ns)
{
    i128 level = m->level + (i128)(now_ns - m->last_ns) * m->units;
    i128 full = (i128)m->burst * m->window_ns;
    return level < full ? level : full;
}

static inline bool level_passes(const struct level *m, int64_t now_ns, int64_t cost)
{
    return cost == 0 || level_at(m, now_ns) >= (i128)cost * m->window_ns;
}

static inline int64_t tokens_at(const struct level *m, int64_t now_ns)
{
    i128 level = level_at(m, now_ns);
    return level <= 0 ? 0 : (int64_t)(level / m->window_ns);
}

static inline void spend(struct level *m, int64_t now_ns, int64_t cost)
{
    m->level = level_at(m, now_ns) - (i128)cost * m->window_ns;
    m->last_ns = now_ns;
}

/* As spend, down to B below zero. */
static inline void spend_by_force(struct level *m, int64_t now_ns, int64_t cost)
{
    i128 before = level_at(m, now_ns);
    i128 lowest = -(i128)m->burst * m->window_ns;

    spend(m, now_ns, cost);
    if (m->level < lowest)
        m->level = before < lowest ? before : lowest;
}

#endif
