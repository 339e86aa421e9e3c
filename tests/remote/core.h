/* core.h - the same limit and the same schedule twice: at a test's Redis by the script, and by the
 * C core on a word. Microseconds throughout.
 *
 * Where W/N is no whole number of ns the core may be early by less than 2 ns (docs/algorithms.md);
 * the script never is. */
#ifndef TESTS_REMOTE_CORE_H
#define TESTS_REMOTE_CORE_H

#include "../model/schedule.h"
#include "algo/ticks.h"
#include "store.h"

#define CORE_EARLY_NS 2

struct subject {
    struct store *store;
    struct wr_limit limit;
    const struct wr_word_algo *algo;
    uint64_t who;
    uint64_t state; /* of the core */
    int64_t now_ns;
    int64_t charged_ns; /* when something was last charged; 0: never */
    int64_t early_ns;
    struct wr_remote_charge last; /* what the script said */
};

/* A limit of |algo| for a caller never seen, that the script can count. */
static inline struct subject subject_start(struct schedule *s, struct store *store,
                                           enum wr_algo algo, int64_t units_max, bool count_denied)
{
    static uint64_t callers;
    struct subject t = {.store = store, .who = ++callers, .algo = wr_word_algo(algo)};
    struct wr_ticks ticks;

    for (;;) {
        int64_t units, window_ns, burst = -1;

        schedule_rate(s, units_max, &units, &window_ns);
        window_ns -= window_ns % WR_NS_PER_US;
        if (algo == WR_LEAKY_BUCKET)
            burst = schedule_below(s, 8);
        else if (algo == WR_TOKEN_BUCKET && schedule_one_in(s, 2))
            burst = 1 + schedule_below(s, schedule_one_in(s, 4) ? 1000000 : 20);
        if (wr_limit_make(&t.limit, algo, units, window_ns, burst, count_denied) == NULL &&
            (algo > WR_LEAKY_BUCKET || wr_ticks_make(&ticks, &t.limit)) &&
            /* Of queues counted more finely the script takes a step of the clock for one sooner. */
            (algo != WR_LEAKY_BUCKET || ticks.unit < WR_TICKS_MAX / 2 / t.limit.units))
            break;
    }
    t.now_ns = schedule_start_ns(s);
    t.now_ns -= t.now_ns % WR_NS_PER_US;
    t.early_ns = algo > WR_LEAKY_BUCKET || t.limit.scale.den == 1 ? 0 : CORE_EARLY_NS;
    return t;
}

/* Move the clock by about |step_ns|, to a whole us, but not so far from the last charge that a
 * window's index in the word means another one. */
static inline void subject_advance(struct schedule *s, struct subject *t, int64_t step_ns)
{
    unsigned words = t->limit.algo == WR_SLIDING_WINDOW ? 2 : 1;
    unsigned bits = 64U - words * t->limit.count_bits;
    int64_t windows = bits < 40 ? INT64_C(1) << (bits - 1) : INT64_C(1) << 40;
    int64_t now_ns = wr_max_i64(WR_NS_PER_DAY, t->now_ns + step_ns), apart;

    if (now_ns % WR_NS_PER_US != 0)
        now_ns += (schedule_one_in(s, 2) ? WR_NS_PER_US : 0) - now_ns % WR_NS_PER_US;
    apart = (now_ns - t->charged_ns) / t->limit.window_ns;
    if (now_ns < WR_TIME_MAX_NS / 2 &&
        (t->charged_ns == 0 || (apart < windows - 2 && -apart < windows - 2)))
        t->now_ns = now_ns;
}

static inline bool near(int64_t a, int64_t b, int64_t apart)
{
    return a - b <= apart && b - a <= apart;
}

static inline void subject_check_times(struct schedule *s, const struct subject *t)
{
    int64_t next_ns, reset_ns;

    t->algo->times(&t->limit, t->state, t->now_ns, &next_ns, &reset_ns);
    CHECK(s, near(t->last.reset_ns, reset_ns, t->early_ns));
    /* A quantum more or less may make the next unit another one. */
    if (t->early_ns == 0)
        CHECK(s, t->last.next_ns == next_ns);
}

/* One decision by both. False: they differ by what the core may be early, and part here. */
static inline bool subject_decide(struct schedule *s, struct subject *t, int64_t cost)
{
    struct wr_take out, later;
    bool passed, charged;

    t->last = store_charge(&t->limit, "core", t->who, cost);
    passed = store_take(t->store, &t->last, 1, 0, t->now_ns);
    CHECK(s, passed == t->last.allowed);
    t->algo->take(&t->limit, t->state, t->now_ns, cost, &out);
    if (t->last.allowed != out.allowed) {
        /* Then the script says yes at the next microsecond, to which it is early. */
        CHECK(s, t->early_ns > 0 && out.allowed && t->last.retry_after_ns <= t->early_ns);
        return false;
    }
    CHECK(s, t->last.never == out.never && t->last.granted == 0);
    CHECK(s, near(t->last.retry_after_ns, out.retry_after_ns, t->early_ns));
    CHECK(s, near(t->last.delay_ns, out.delay_ns, t->early_ns));
    t->state = out.state;
    if (t->last.remaining != out.remaining) { /* a unit that comes within the quantum */
        t->algo->take(&t->limit, t->state, t->now_ns - CORE_EARLY_NS, 0, &later);
        CHECK(s, t->early_ns > 0 && near(t->last.remaining, out.remaining, 1) &&
                     later.remaining <= t->last.remaining);
    }
    charged = (out.allowed || t->limit.count_denied) && cost > 0;
    if (!out.allowed && t->limit.count_denied)
        t->state = t->algo->force(&t->limit, t->state, t->now_ns, cost);
    subject_check_times(s, t);
    if (charged)
        t->charged_ns = t->now_ns;
    return true;
}

static inline void subject_force(struct subject *t, int64_t cost)
{
    struct wr_remote_charge charge = store_charge(&t->limit, "core", t->who, cost);

    store_do(t->store, WR_SCRIPT_FORCE, &charge, 1, t->now_ns);
    t->state = t->algo->force(&t->limit, t->state, t->now_ns, cost);
    t->charged_ns = t->now_ns;
}

/* Give |units| back of what |charge| took, when the core's state was |receipt|. */
static inline void subject_refund(struct subject *t, const struct wr_remote_charge *charge,
                                  uint64_t receipt, int64_t units)
{
    struct wr_remote_charge back = *charge;

    back.cost = units;
    store_do(t->store, WR_SCRIPT_REFUND, &back, 1, t->now_ns);
    t->state = t->algo->refund(&t->limit, t->state, receipt, t->now_ns, units);
}

#endif
