/* subject.h - one key under one limit, for tests: its state goes from decision to decision. */
#ifndef TESTS_UNIT_ALGO_SUBJECT_H
#define TESTS_UNIT_ALGO_SUBJECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/limit.h"
#include "base/units.h"

#define MS WR_NS_PER_MS
#define S WR_NS_PER_S
#define MINUTE WR_NS_PER_MINUTE
#define HOUR WR_NS_PER_HOUR
#define DAY WR_NS_PER_DAY
#define MIDNIGHT                                                                    \
    (INT64_C(19676) * DAY) /* 2023-11-15T00:00:00Z: a multiple of every window here \
                            */
#define NONE INT64_C(-1)   /* as a retry time: never */

struct subject {
    struct wr_limit limit;
    uint64_t state;
};

static inline struct subject subject_of(enum wr_algo algo, int64_t units, int64_t window_ns,
                                        int64_t burst)
{
    struct subject s = {.state = 0};
    const char *problem = wr_limit_make(&s.limit, algo, units, window_ns, burst, false);

    if (problem != NULL)
        fail_msg("%s", problem);
    return s;
}

static inline const struct wr_word_algo *algo_of(const struct subject *s)
{
    return wr_word_algo((enum wr_algo)s->limit.algo);
}

/* Take |cost| at |now_ns|; what comes must be this. */
static inline void expect(struct subject *s, int64_t now_ns, int64_t cost, bool allowed,
                          int64_t remaining, int64_t retry_ns, int64_t delay_ns)
{
    uint64_t before = s->state;
    struct wr_take out;

    algo_of(s)->take(&s->limit, s->state, now_ns, cost, &out);
    assert_int_equal(out.allowed, allowed);
    assert_int_equal(out.remaining, remaining);
    assert_int_equal(out.never, retry_ns == NONE);
    assert_int_equal(out.retry_after_ns, retry_ns == NONE ? 0 : retry_ns);
    assert_int_equal(out.delay_ns, delay_ns);
    if (!allowed || cost == 0)
        assert_true(out.state == before); /* a refusal, or a look: nothing changes */
    s->state = out.state;
}

static inline void expect_allow(struct subject *s, int64_t now_ns, int64_t cost, int64_t remaining)
{
    expect(s, now_ns, cost, true, remaining, 0, 0);
}

static inline void expect_delay(struct subject *s, int64_t now_ns, int64_t cost, int64_t remaining,
                                int64_t delay_ns)
{
    expect(s, now_ns, cost, true, remaining, 0, delay_ns);
}

static inline void expect_deny(struct subject *s, int64_t now_ns, int64_t cost, int64_t remaining,
                               int64_t retry_ns)
{
    expect(s, now_ns, cost, false, remaining, retry_ns, 0);
}

static inline void force(struct subject *s, int64_t now_ns, int64_t cost)
{
    s->state = algo_of(s)->force(&s->limit, s->state, now_ns, cost);
}

static inline void refund(struct subject *s, uint64_t receipt, int64_t now_ns, int64_t cost)
{
    s->state = algo_of(s)->refund(&s->limit, s->state, receipt, now_ns, cost);
}

static inline void expect_times(const struct subject *s, int64_t now_ns, int64_t next_ns,
                                int64_t reset_ns)
{
    int64_t next = -1, reset = -1;

    algo_of(s)->times(&s->limit, s->state, now_ns, &next, &reset);
    assert_int_equal(next, next_ns);
    assert_int_equal(reset, reset_ns);
}

/* How much is used, as a fraction of 2^32. */
static inline void expect_used(const struct subject *s, int64_t now_ns, uint64_t used_q32)
{
    assert_int_equal(algo_of(s)->used_q32(&s->limit, s->state, now_ns), used_q32);
}

/* The same key under another limit. */
static inline struct subject carried(const struct subject *old, enum wr_algo algo, int64_t units,
                                     int64_t window_ns, int64_t burst, int64_t now_ns)
{
    struct subject s = subject_of(algo, units, window_ns, burst);

    s.state = algo_of(&s)->carry(&s.limit, &old->limit, old->state, now_ns);
    return s;
}

#endif
