/* leaky_bucket.c - the queue, by hand. */
#include "subject.h"

#define T (MIDNIGHT + INT64_C(123046875)) /* whole quanta at 3 a second, as in token_bucket.c */

static void a_burst_departs_evenly_and_the_rest_is_refused(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);

    (void)state;
    expect_allow(&s, T, 1, 3);
    expect_delay(&s, T, 1, 2, 200 * MS);
    expect_delay(&s, T, 1, 1, 400 * MS);
    expect_delay(&s, T, 1, 0, 600 * MS);
    /* The next would wait 800 ms; 600 is the queue. */
    expect_deny(&s, T, 1, 0, 200 * MS);
    expect_deny(&s, T + 199999999, 1, 0, 1);
    expect_delay(&s, T + 200 * MS, 1, 0, 600 * MS);
    expect_delay(&s, T + 900 * MS, 1, 2, 100 * MS); /* 0.2 .. 0.8 are promised */
    expect_allow(&s, T + 10 * S, 1, 3);
}

static void without_a_queue_only_what_may_go_at_once_passes(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, -1);

    (void)state;
    expect_allow(&s, T, 1, 0);
    expect_deny(&s, T, 1, 0, 200 * MS);
    expect_deny(&s, T + 150 * MS, 1, 0, 50 * MS);
    expect_allow(&s, T + 200 * MS, 1, 0);
}

/* The fault: rounded intervals add up. 3/s over 30000 departures is 10000 s to the nanosecond. */
static void spacing_does_not_drift(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 3, S, 30000);

    (void)state;
    expect_allow(&s, T, 1, 30000);
    for (int64_t i = 1; i <= 30000; i++)
        expect_delay(&s, T, 1, 30000 - i, (i * S + 2) / 3); /* i / 3 s, rounded up */
    expect_deny(&s, T, 1, 0, 333333334);
}

/* A cost only spaces what departs behind it; none is too great. */
static void cost_spaces_what_follows(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);

    (void)state;
    expect_allow(&s, T, 4, 0); /* 0.8 s */
    expect_deny(&s, T, 1, 0, 200 * MS);
    expect_delay(&s, T + 300 * MS, 1, 0,
                 500 * MS); /* at 0.8; then 1.0: 0.7 s from now, more than 0.6 */
    s.state = 0;
    expect_allow(&s, T, 100, 0); /* 20 s */
    expect_deny(&s, T, 1, 0, 20 * S - 600 * MS);
    expect_deny(&s, T, 1000, 0, 20 * S - 600 * MS);
    expect_delay(&s, T + 19400 * MS, 1, 0, 600 * MS);
}

/* 1/s: 1000 s are far more than a window ahead, and not an error of the clock. */
static void a_great_cost_is_not_taken_for_a_clock_set_back(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 1, S, 0);

    (void)state;
    expect_allow(&s, T, 1000, 0);
    expect_deny(&s, T, 1, 0, 1000 * S);
    expect_deny(&s, T + 999 * S, 1, 0, S);
    expect_allow(&s, T + 1000 * S, 1, 0);
    s.state = 0;
    expect_allow(&s, T, 1000000000, 0); /* 31 years; spacing is 366 days at most */
    expect_deny(&s, T, 1, 0, 366 * DAY);
    expect_allow(&s, T + 366 * DAY, 1, 0);
}

static void cost_0_passes_when_a_request_would(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 1);

    (void)state;
    expect_allow(&s, T, 0, 2);
    assert_int_equal(s.state, 0);
    expect_allow(&s, T, 1, 1);
    expect_delay(&s, T, 0, 1, 200 * MS);
    expect_delay(&s, T, 1, 0, 200 * MS);
    expect_deny(&s, T, 0, 0, 200 * MS);
}

static void limit_0_refuses_everything(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 0, S, 5);

    (void)state;
    expect_deny(&s, T, 1, 0, NONE);
    expect_allow(&s, T, 0, 0);
    force(&s, T, 3);
    assert_int_equal(s.state, 0); /* nothing to remember, no slot to take */
    expect_deny(&s, T + DAY, 1, 0, NONE);
    expect_times(&s, T, 0, 0);
    expect_used(&s, T, 0);
}

static void clock_back_stands_still(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);

    (void)state;
    expect_allow(&s, T, 1, 3);
    expect_delay(&s, T - 100 * MS, 1, 1,
                 300 * MS); /* at T + 0.2 s; then 0.4, half a second ahead */
    expect_delay(&s, T, 1, 1, 400 * MS);
}

/* Queue 0.6 s, window 1 s, as much again: 2.6 s ahead is believed. */
static void clock_far_back_fills_the_queue_and_it_drains(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);
    struct wr_take out;

    (void)state;
    expect_allow(&s, T, 1, 3);                   /* next departure at T + 0.2 s */
    expect_deny(&s, T - 2400 * MS, 1, 0, 2 * S); /* 2.6 s ahead */
    algo_of(&s)->take(&s.limit, s.state, T - 2400 * MS - 1, 1, &out);
    assert_false(out.allowed);
    assert_int_equal(out.retry_after_ns, 200 * MS); /* a full queue */
    assert_true(out.state != s.state);
    s.state = out.state;
    expect_delay(&s, T - 2200 * MS - 1, 1, 0, 600 * MS);
    /* A great cost is believed to be 366 days ahead, no more. */
    s.state = 0;
    expect_allow(&s, T, 1000000000, 0);
    expect_deny(&s, T - 600 * MS, 1, 0, 366 * DAY);
    algo_of(&s)->take(&s.limit, s.state, T - 601 * MS - S, 1, &out);
    assert_int_equal(out.retry_after_ns, 200 * MS);
}

static void clock_ahead_drains_the_queue_once(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 1);

    (void)state;
    expect_allow(&s, T, 1, 1);
    expect_delay(&s, T, 1, 0, 200 * MS);
    expect_allow(&s, T + 3650 * DAY, 1, 1);
    expect_delay(&s, T + 3650 * DAY, 1, 0, 200 * MS);
    expect_deny(&s, T + 3650 * DAY, 1, 0, 200 * MS);
}

static void any_state_gives_a_verdict(void **state)
{
    static const uint64_t garbage[] = {1, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX, 0xdeadbeef};
    struct subject s = subject_of(WR_LEAKY_BUCKET, 3, S, 2);
    struct wr_take out;

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        algo_of(&s)->take(&s.limit, garbage[i], T, 1, &out);
        assert_in_range(out.remaining, 0, 3);
        assert_in_range(out.retry_after_ns, 0, S);
        algo_of(&s)->take(&s.limit, out.state, T + 3 * S, 1, &out);
        assert_true(out.allowed);
    }
}

static void moments_at_the_ends_of_time(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 1);

    (void)state;
    expect_allow(&s, 0, 1, 1);
    expect_delay(&s, INT64_MIN, 1, 0, 200 * MS);
    expect_deny(&s, 0, 1, 0, 200 * MS);
    expect_allow(&s, WR_TIME_MAX_NS, 1, 1);
    expect_delay(&s, INT64_MAX, 1, 0, 200 * MS);
    s = subject_of(WR_LEAKY_BUCKET, 1, 366 * DAY, 50); /* as far ahead as a word must reach */
    s.state = 0;
    expect_allow(&s, WR_TIME_MAX_NS, 1, 50);
    for (int64_t i = 1; i < 50; i++)
        expect_delay(&s, WR_TIME_MAX_NS, 1, 50 - i, i * 366 * DAY);
    expect_delay(&s, WR_TIME_MAX_NS, 1000000000, 0, 50 * 366 * DAY);
    expect_deny(&s, WR_TIME_MAX_NS, 1, 0, 366 * DAY);
}

/* Where another departure has been promised behind it, a gap cannot be closed. */
static void give_back_is_exact_or_nothing(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);
    uint64_t first, second;

    (void)state;
    expect_allow(&s, T, 1, 3);
    first = s.state;
    expect_delay(&s, T, 10, 0, 200 * MS);
    second = s.state;
    refund(&s, first, T, 1); /* the second has been promised 0.2 s */
    assert_true(s.state == second);
    refund(&s, second, T, 10);
    assert_true(s.state == first);
    expect_delay(&s, T, 1, 2, 200 * MS);
    s.state = first;
    refund(&s, first, T, 1);
    expect_allow(&s, T, 1, 3);
    s.state = UINT64_MAX;
    refund(&s, UINT64_MAX, T, 1); /* nothing that charging left */
    assert_true(s.state == UINT64_MAX);
}

static void force_goes_a_window_beyond_a_full_queue_at_most(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);

    (void)state;
    for (int i = 0; i < 100; i++)
        force(&s, T, 1);
    expect_deny(&s, T, 1, 0, S); /* 0.6 s of queue, 1 s of window */
    force(&s, T, 0);
    expect_deny(&s, T, 1, 0, S);
    s.state = 0;
    force(&s, T, 50); /* a great cost settled: 10 s */
    expect_deny(&s, T, 1, 0, 10 * S - 600 * MS);
    force(&s, T, 1);
    expect_deny(&s, T, 1, 0, 10 * S - 600 * MS);
}

static void used_and_times(void **state)
{
    struct subject s = subject_of(WR_LEAKY_BUCKET, 5, S, 3);

    (void)state;
    expect_used(&s, T, 0);
    expect_times(&s, T, 0, 0);
    expect_allow(&s, T, 1, 3);
    expect_used(&s, T, UINT64_C(1) << 30);
    expect_times(&s, T, 200 * MS, 200 * MS);
    expect_delay(&s, T, 1, 2, 200 * MS);
    expect_times(&s, T + 50 * MS, 150 * MS, 350 * MS);
    force(&s, T, 100);
    expect_used(&s, T, UINT64_C(1) << 32);
    expect_times(&s, T, 20400 * MS - 600 * MS, 20400 * MS);
    expect_used(&s, T + 20400 * MS, 0);
    expect_times(&s, T + 20400 * MS, 0, 0);
}

static void a_changed_limit_keeps_the_queue(void **state)
{
    struct subject old = subject_of(WR_LEAKY_BUCKET, 5, S, 9);
    struct subject s;

    (void)state;
    expect_allow(&old, T, 5, 5); /* 1 s */
    s = carried(&old, WR_LEAKY_BUCKET, 5, S, 2, T);
    expect_deny(&s, T, 1, 0, 600 * MS); /* same rate: promises stand, though the queue is shorter */
    s = carried(&old, WR_LEAKY_BUCKET, 300, MINUTE, 9, T); /* 5/s written otherwise */
    assert_true(s.state == old.state);
    s = carried(&old, WR_LEAKY_BUCKET, 50, S, 9, T); /* ten times as fast: 5 units are 0.1 s */
    expect_delay(&s, T, 1, 4, 100 * MS);
    s = carried(&old, WR_LEAKY_BUCKET, 1, HOUR, 1, T); /* slower: at most a full queue of 2 */
    expect_deny(&s, T, 1, 0, HOUR);
    s = carried(&old, WR_LEAKY_BUCKET, 1, HOUR, 1, T + S);
    assert_int_equal(s.state, 0);
    s = carried(&old, WR_LEAKY_BUCKET, 0, HOUR, 1, T);
    assert_int_equal(s.state, 0);
    old = subject_of(WR_TOKEN_BUCKET, 10, S, -1);
    expect_allow(&old, T, 5, 5);
    s = carried(&old, WR_LEAKY_BUCKET, 1, S, 3, T); /* half of 4 places: 2 s */
    expect_delay(&s, T, 1, 1, 2 * S);
}

/* The fault: a great cost, carried at the same rate, loses its mark and is taken for an error. */
static void a_great_cost_is_carried(void **state)
{
    struct subject old = subject_of(WR_LEAKY_BUCKET, 5, S, 9);
    struct subject s;

    (void)state;
    expect_allow(&old, T, 500, 0);
    s = carried(&old, WR_LEAKY_BUCKET, 5, S, 2, T);
    expect_deny(&s, T, 1, 0, 100 * S - 400 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_burst_departs_evenly_and_the_rest_is_refused),
        cmocka_unit_test(without_a_queue_only_what_may_go_at_once_passes),
        cmocka_unit_test(spacing_does_not_drift),
        cmocka_unit_test(cost_spaces_what_follows),
        cmocka_unit_test(a_great_cost_is_not_taken_for_a_clock_set_back),
        cmocka_unit_test(cost_0_passes_when_a_request_would),
        cmocka_unit_test(limit_0_refuses_everything),
        cmocka_unit_test(clock_back_stands_still),
        cmocka_unit_test(clock_far_back_fills_the_queue_and_it_drains),
        cmocka_unit_test(clock_ahead_drains_the_queue_once),
        cmocka_unit_test(any_state_gives_a_verdict),
        cmocka_unit_test(moments_at_the_ends_of_time),
        cmocka_unit_test(give_back_is_exact_or_nothing),
        cmocka_unit_test(force_goes_a_window_beyond_a_full_queue_at_most),
        cmocka_unit_test(used_and_times),
        cmocka_unit_test(a_changed_limit_keeps_the_queue),
        cmocka_unit_test(a_great_cost_is_carried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
