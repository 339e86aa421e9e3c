/* throttle.h - limits that come with the request: redis-cell's CL.THROTTLE, decided in the arena.
 *
 * The parameters of a call hold for that call only, so there is nothing to configure and nothing to
 * remember of them: a key's state is the one moment (the theoretical arrival time, ns) that
 * redis-cell keeps, whatever the parameters, and a later call with others reads it anew. */
#ifndef WR_ENGINE_THROTTLE_H
#define WR_ENGINE_THROTTLE_H

#include "base/siphash.h"
#include "store/arena.h"
#include "weir/weir.h"

/* Classes in the arena say how long a key's limit takes to recover, rounded up: eight steps an
 * octave of ns, from 1 ms to 50 years. */
#define WR_THROTTLE_CLASSES (8 * 42)

/* Of one arena; shared by any number of threads. */
struct wr_throttle {
    struct wr_arena *arena; /* borrowed */
    struct wr_sip prefix;   /* keys here never collide with those of a policy's limits */
    uint16_t class_id[WR_THROTTLE_CLASSES]; /* atomic; 0: not asked for yet */
};

void wr_throttle_init(struct wr_throttle *throttle, struct wr_arena *arena);

/* A call's parameters, checked. */
struct wr_throttle_rate {
    int64_t limit;       /* max_burst + 1 */
    int64_t interval_ns; /* of one unit: period / count, rounded down, as redis-cell does */
    int64_t quantity;
};

/* Check the numbers of a call. Returns NULL, or a static text that says which one is out of range.
 * |count| or |period| 0 is not looked at here: redis-cell has an error of its own for them. */
const char *wr_throttle_rate_make(struct wr_throttle_rate *out, int64_t max_burst, int64_t count,
                                  int64_t period_s, int64_t quantity);

uint64_t wr_throttle_hash(const struct wr_throttle *throttle, struct weir_slice key);

/* As redis-cell replies, but with ns for seconds. */
struct wr_throttle_reply {
    bool limited;
    int64_t limit, remaining;
    int64_t retry_after_ns; /* -1: allowed, or never possible */
    int64_t reset_after_ns;
};

/* Charge rate->quantity to the key behind |hash| at |now_ns|; a refusal changes nothing, quantity 0
 * looks.
 *
 * Threads: any number, any process on the same arena.
 * Returns: 0, WEIR_EFULL (no class is left in the arena: nothing is decided). */
int wr_throttle_take(struct wr_throttle *throttle, uint64_t hash,
                     const struct wr_throttle_rate *rate, int64_t now_ns,
                     struct wr_throttle_reply *out);

#endif
