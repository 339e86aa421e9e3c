/* limit.h - what a limit is, and the contract that every algorithm keeps.
 *
 * An algorithm is a set of pure functions over a small state: no clock, no memory, no I/O. Those
 * whose state is one 64-bit word (a slot of the arena) fill the table struct wr_word_algo; the
 * exact log and concurrency, whose state is a list of stamps, are in sliding_log.h and
 * concurrency.h.
 *
 * The contract, for all of them:
 *   1. 0 <= remaining <= capacity.
 *   2. A refusal changes nothing (a limit with count_denied is charged by force, apart).
 *   3. Cost 0 is a look: it changes nothing and always passes, but for the leaky bucket, where it
 *      passes if a request would.
 *   4. A cost above the capacity is refused for ever (never), but for the leaky bucket, where a
 * cost only spaces what follows. A limit of 0 refuses every cost for ever.
 *   5. retry_after is the time until this cost would pass if nothing else came, rounded up, never
 * 0. With count_denied what was refused is charged as well, so that a refusal tells of the state
 * that it leaves (told): remaining, retry_after and the times.
 *   6. State 0 is a key never seen: nothing is used. No state with anything charged is 0.
 *   7. A stamp in the future stands still: by up to one window (a bucket's is the time it refills
 *      in), or WR_CLOCK_NOISE_NS if that is more, it is ordering noise; further, the clock was set
 *      back and the state is moved to the present (a bucket as used up, windows with their counts),
 * so that no key waits for longer than two windows and the noise. A clock that jumps ahead gives at
 * most one refill.
 *   8. Any state word is allowed (the arena file is input): the result is a verdict within these
 * bounds. */
#ifndef WR_ALGO_LIMIT_H
#define WR_ALGO_LIMIT_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/calendar.h"
#include "algo/civil.h"
#include "base/arith.h"
#include "base/units.h"

enum wr_algo {
    WR_TOKEN_BUCKET = 1,
    WR_LEAKY_BUCKET = 2,
    WR_FIXED_WINDOW = 3,
    WR_SLIDING_WINDOW = 4,
    WR_SLIDING_LOG = 5,
    WR_CONCURRENCY = 6,
    WR_LEASE = 7, /* lease.h: of the arena alone */
    WR_TOLD = 8,  /* told.h: likewise */
};
#define WR_ALGO_MAX 6 /* that a policy can name */

/* Bounds of what a person may write. */
#define WR_RATE_UNITS_MAX INT64_C(1000000000000) /* units per window */
#define WR_RATE_PER_S_MAX INT64_C(1000000000)    /* units per second: a nanosecond each */
#define WR_WINDOW_MIN_NS INT64_C(1000000)        /* 1 ms */
#define WR_WINDOW_MAX_NS (INT64_C(366) * 86400 * 1000000000)
#define WR_BURST_MAX INT64_C(1000000000000)
#define WR_REFILL_MAX_NS (50 * WR_WINDOW_MAX_NS) /* how long a burst or a queue may last */
#define WR_SLIDING_WINDOW_UNITS_MAX \
    ((INT64_C(1) << 24) - 1) /* two counts and an index in 64 bits */
#define WR_FIXED_WINDOW_UNITS_MAX ((INT64_C(1) << 32) - 1)
#define WR_CIVIL_UNITS_MAX ((INT64_C(1) << 40) - 1)
#define WR_LOG_UNITS_MAX INT64_C(10000)   /* stamps a key: a decision may walk them all */
#define WR_CONCURRENCY_MAX INT64_C(10000) /* places */

/* Moments as counts of quanta since the Unix epoch, for the bucket algorithms: "time measured in
 * units". quanta(t) = floor(t * num / den); one unit is |unit| quanta, so that a cost adds exactly
 * and only the conversion of now rounds, down, never accumulating.
 *
 * Where W/N is whole nanoseconds (600/minute, 100/hour): num = den = 1, unit = W/N, and nothing
 * rounds. Elsewhere (3/second): unit = 2^f, num/den = N * 2^f / W with f as large as keeps a
 * quantum at 1 ns or more; it is then below 2 ns. Since W seconds are exactly N units, what was
 * taken at t is back at exactly t + W. As no quantum is shorter than 1 ns, whatever fits 63 bits in
 * ns fits them in quanta. */
struct wr_scale {
    uint64_t num;
    uint64_t den;
    uint64_t unit;
};

/* One limit of one plan, checked and compiled. Goes verbatim into the arena's table of classes, so
 * that any process can judge and convert any slot: fixed widths, no padding, no pointers. */
struct wr_limit {
    uint8_t algo;         /* enum wr_algo */
    uint8_t count_bits;   /* windows: bits of one count in the state word */
    uint8_t count_denied; /* 1: refused requests are charged as well */
    uint8_t calendar;     /* fixed windows: enum wr_calendar; otherwise, and on the clock, 0 */
    uint8_t zero[4];
    int64_t units;     /* N: per window, or places; 0 refuses everything */
    int64_t window_ns; /* W; for concurrency the longest hold of a place */
    int64_t burst;     /* token bucket: capacity B; leaky bucket: queue Q; else 0 */
    union {
        struct wr_scale scale; /* buckets; else zeros, but with */
        struct wr_civil civil; /* WR_CALENDAR_CIVIL: its windows */
    };
    int64_t tick_ns; /* lists of stamps: resolution of a stamp, divides window_ns; else 0 */
};
static_assert(sizeof(struct wr_civil) == sizeof(struct wr_scale), "one fills the other");
static_assert(sizeof(struct wr_limit) == 64, "a class of the arena is one cache line");

/* Fill |out| for |algo| from numbers that a person wrote. |burst| < 0: the algorithm's default.
 * Returns NULL, or a static text that says which number is out of range and what would be in range.
 */
const char *wr_limit_make(struct wr_limit *out, enum wr_algo algo, int64_t units, int64_t window_ns,
                          int64_t burst, bool count_denied);

/* The same for a fixed window that is a week, month or year of the calendar. */
const char *wr_limit_make_calendar(struct wr_limit *out, enum wr_calendar calendar, int64_t units,
                                   bool count_denied);

/* The same by civil time. A window's state is a word like others'; where counts are billed on, see
 * quota.h. |units| up to WR_CIVIL_UNITS_MAX. */
const char *wr_limit_make_civil(struct wr_limit *out, const struct wr_civil *civil, int64_t units,
                                bool count_denied);

/* The part of |limit| that one of |nodes| (>= 1) may let through by itself: divided, at least 1.
 * False, which no limit of a policy comes to: there is none. */
bool wr_limit_divide(struct wr_limit *out, const struct wr_limit *limit, int64_t nodes);

/* Could one of these have made |limit|? For limits that come out of an arena file. */
bool wr_limit_valid(const struct wr_limit *limit);

/* The most that can be remaining: N, B, or Q + 1. */
int64_t wr_limit_capacity(const struct wr_limit *limit);

/* Is the state one word? Otherwise it is a list of stamps. */
static inline bool wr_limit_is_word(const struct wr_limit *limit)
{
    return limit->algo <= WR_SLIDING_WINDOW || limit->algo == WR_LEASE || limit->algo == WR_TOLD;
}

/* The name as in a policy, or NULL. */
const char *wr_algo_name(enum wr_algo algo);

/* |t_ns| as a moment that is told apart: moments outside [0, WR_TIME_MAX_NS] count as the nearest
 * end. */
static inline int64_t wr_moment_ns(int64_t t_ns)
{
    return wr_max_i64(0, wr_min_i64(t_ns, WR_TIME_MAX_NS));
}

/* What an algorithm says of one charge. Always fully written. */
struct wr_take {
    bool allowed;
    bool never;             /* denied, and no waiting helps */
    int64_t remaining;      /* after the charge, 0..capacity */
    int64_t retry_after_ns; /* denied: > 0, 0 with never; allowed: 0 */
    int64_t delay_ns;       /* allowed: until the request may go */
    uint64_t state; /* to be stored if it differs from the one given: without a charge only where
                       the clock was set back */
    uint64_t told;  /* whose times are to be told: |state|, or with count_denied, denied, what force
                       makes of it */
};

struct wr_word_algo {
    /* Take |cost| (0..WEIR_COST_MAX) at |now_ns| (>= 0). */
    void (*take)(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost,
                 struct wr_take *out);

    /* The state after charging |cost| whether it fits or not, as far as the word can say so: for
     * settling above an estimate and for count_denied. */
    uint64_t (*force)(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t cost);

    /* The state after giving back |cost| that was taken when the state became |receipt|. Gives back
     * what has not been recovered since, exactly; where others charged in between and the exact
     * amount cannot be known, less, never more. */
    uint64_t (*refund)(const struct wr_limit *limit, uint64_t state, uint64_t receipt,
                       int64_t now_ns, int64_t cost);

    /* How much of the capacity is in use: 0 (as if never seen) .. 2^32 (nothing left), rounded up.
     */
    uint64_t (*used_q32)(const struct wr_limit *limit, uint64_t state, int64_t now_ns);

    /* Until one unit more is available, and until all are; 0 when nothing is used. Rounded up. */
    void (*times)(const struct wr_limit *limit, uint64_t state, int64_t now_ns, int64_t *next_ns,
                  int64_t *reset_ns);

    /* The state under |limit| that keeps the history of |state| under |old|, which may be of any
     * word algorithm. Same algorithm: as exactly as the new state can say; another: the same
     * fraction used. */
    uint64_t (*carry)(const struct wr_limit *limit, const struct wr_limit *old, uint64_t state,
                      int64_t now_ns);
};

/* The functions of a limit for which wr_limit_is_word; otherwise NULL. */
const struct wr_word_algo *wr_word_algo(enum wr_algo algo);

/* used_q32 of a limit of any kind of word; 0 where it is none. */
uint64_t wr_word_used_q32(const struct wr_limit *limit, uint64_t state, int64_t now_ns);

extern const struct wr_word_algo wr_token_bucket;
extern const struct wr_word_algo wr_leaky_bucket;
extern const struct wr_word_algo wr_fixed_window;
extern const struct wr_word_algo wr_sliding_window;

#endif
