/* token_bucket.c - the token bucket, by hand. T is a multiple of 5^9 ns and so, at 3 a second, a
 * whole number of quanta (3 * 2^28 / 10^9 a ns); ODD is not. */
#include "subject.h"

#define T (MIDNIGHT + INT64_C(123046875))
#define ODD (MIDNIGHT + INT64_C(123456789))

/* The fault: an emission interval of 333333333 ns, so that the third token is a nanosecond late, or
 * early, and the error adds up. A million seconds of it. */
static void three_a_second_are_three_in_every_second_for_ever(void **state)
{
    static const int64_t starts[] = {T, ODD, ODD + 1, ODD + 2};
    struct wr_take out;

    (void)state;
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        struct subject s = subject_of(WR_TOKEN_BUCKET, 3, S, -1);
        for (int64_t second = 0; second < 250000; second++) {
            int64_t t = starts[i] + second * S;
            for (int64_t left = 2; left >= 0; left--)
                expect_allow(&s, t, 1, left);
            algo_of(&s)->take(&s.limit, s.state, t + S - 2, 3, &out); /* a quantum is below 2 ns */
            assert_false(out.allowed);
        }
    }
}

static void a_third_of_a_second_is_rounded_up(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 3, S, -1);

    (void)state;
    expect_allow(&s, T, 3, 0);
    expect_deny(&s, T, 1, 0, 333333334);
    expect_deny(&s, T, 2, 0, 666666667);
    expect_deny(&s, T + 333333333, 1, 0, 1);
    expect_allow(&s, T + 333333334, 1, 0);
}

/* The fault: capacity B + 1 or B - 1 from comparing TAT with a tolerance. */
static void capacity_is_the_burst_exactly(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 1, S, 5);

    (void)state;
    expect_allow(&s, T, 5, 0);
    expect_deny(&s, T, 1, 0, S);
    s.state = 0;
    for (int64_t left = 4; left >= 0; left--)
        expect_allow(&s, T, 1, left);
    expect_deny(&s, T, 1, 0, S);
    expect_deny(&s, T + S - 1, 1, 0, 1);
    expect_allow(&s, T + S, 1, 0);
    s = subject_of(WR_TOKEN_BUCKET, 1, S, 1);
    expect_allow(&s, T, 1, 0);
    expect_deny(&s, T, 1, 0, S);
    expect_allow(&s, T + S, 1, 0);
}

/* The faults: "come back in n seconds", for ever; and no retry time for what just fits. */
static void cost_above_capacity_has_no_retry_time(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    expect_deny(&s, T, 11, 10, NONE);
    expect_deny(&s, T, 1000000000, 10, NONE);
    expect_deny(&s, T, INT64_MAX, 10, NONE);
    expect_allow(&s, T, 1, 9);
    expect_deny(&s, T, 10, 9, 100 * MS); /* equal to capacity: as soon as it is full */
    expect_allow(&s, T + 100 * MS, 10, 0);
    expect_deny(&s, T + 100 * MS, 11, 0, NONE);
}

/* The fault: a rejected weighted request burns what was left. */
static void a_refusal_consumes_nothing(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    expect_allow(&s, T, 7, 3);
    for (int i = 0; i < 100; i++)
        expect_deny(&s, T, 4, 3, 100 * MS); /* tokens 3 + 10/s * 0.1 s = 4 */
    expect_allow(&s, T, 3, 0);
}

/* The fault: time until the bucket is full, or the whole window, whatever the cost. */
static void retry_is_for_this_cost(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 60, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 60, 0);
    expect_deny(&s, T, 1, 0, S);
    expect_deny(&s, T, 2, 0, 2 * S);
    expect_deny(&s, T, 60, 0, MINUTE);
    expect_deny(&s, T + 1500 * MS, 2, 1, 500 * MS);
}

static void cost_0_is_a_look(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    expect_allow(&s, T, 0, 10);
    assert_int_equal(s.state, 0);
    expect_allow(&s, T, 10, 0);
    expect_allow(&s, T, 0, 0);
    expect_allow(&s, T + 150 * MS, 0, 1); /* 1.5 tokens */
    expect_allow(&s, T + 10 * S, 0, 10);
}

static void limit_0_refuses_everything(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 0, S, 5);

    (void)state;
    expect_deny(&s, T, 1, 0, NONE);
    expect_deny(&s, T + DAY, 1000000000, 0, NONE);
    expect_allow(&s, T, 0, 0);
    expect_times(&s, T, 0, 0);
    expect_used(&s, T, 0);
    force(&s, T, 5);
    assert_int_equal(s.state, 0); /* nothing to remember, no slot to take */
    expect_deny(&s, T, 1, 0, NONE);
}

/* The faults: fractions dropped at each hit stop the refill; 1 a minute becomes 0.96. */
static void slow_rates_keep_the_fraction(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 1, HOUR, 2);

    (void)state;
    expect_allow(&s, T, 2, 0);
    for (int64_t second = 1; second < 3600; second++) /* looked at every second, and tried */
        expect_deny(&s, T + second * S, 1, 0, (3600 - second) * S);
    expect_allow(&s, T + HOUR, 1, 0);
    s = subject_of(WR_TOKEN_BUCKET, 7, 366 * DAY, -1);
    expect_allow(&s, T, 7, 0);
    expect_deny(&s, T, 7, 0, 366 * DAY);
    expect_deny(&s, T + 366 * DAY - 1, 7, 6, 1);
    expect_allow(&s, T + 366 * DAY, 7, 0);
}

/* The fault: the interval of 1 000 000/s and above rounds to zero, and nothing is limited. */
static void fast_rates_hold(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 1000000000, S, 1);

    (void)state;
    for (int64_t ns = 0; ns < 1000; ns++) {
        expect_allow(&s, T + ns, 1, 0);
        expect_deny(&s, T + ns, 1, 0, 1);
    }
    s = subject_of(WR_TOKEN_BUCKET, 1500000, S, 1);
    expect_allow(&s, MIDNIGHT, 1, 0);
    expect_deny(&s, MIDNIGHT, 1, 0, 667); /* 666.7 ns */
    expect_deny(&s, MIDNIGHT + 666, 1, 0, 1);
    expect_allow(&s, MIDNIGHT + 667, 1, 0);
}

/* The fault: on a grid of ms half of a stream at 2000/s is refused. */
static void half_milliseconds_count(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 2000, S, 1);

    (void)state;
    for (int64_t i = 0; i < 4000; i++)
        expect_allow(&s, T + i * 500 * WR_NS_PER_US, 1, 0);
}

/* The fault: elapsed time below zero drains the bucket or locks out. */
static void clock_back_stands_still(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    expect_allow(&s, T, 4, 6);
    expect_allow(&s, T - 1, 1, 4); /* what was 6.0 is a nanosecond's refill less: 5.99 */
    expect_allow(&s, T - 300 * MS, 0, 2);
    expect_allow(&s, T, 0, 5);
}

/* 10/s: a bucket is full again after 1 s; 2 s and the second of noise is as far ahead as is
 * believed. */
static void clock_far_back_empties_and_recovers_in_one_refill(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);
    struct wr_take out;

    (void)state;
    expect_allow(&s, T, 10, 0); /* full again at T + 1 s */
    expect_deny(&s, T - 2 * S, 1, 0, 2100 * MS);
    algo_of(&s)->take(&s.limit, s.state, T - 2 * S - 1, 1, &out);
    assert_false(out.allowed);
    assert_int_equal(out.retry_after_ns, 100 * MS);
    assert_true(out.state != s.state); /* moved, and to be stored even though refused */
    s.state = out.state;
    expect_allow(&s, T - 2 * S - 1 + S, 10, 0);
    /* A year back, before anything was set up. */
    algo_of(&s)->take(&s.limit, s.state, T - 365 * DAY, 0, &out);
    assert_int_equal(out.remaining, 0);
    s.state = out.state;
    expect_deny(&s, T - 365 * DAY, 10, 0, S);
    expect_allow(&s, T - 365 * DAY + S, 10, 0);
}

static void clock_ahead_gives_one_refill(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    expect_allow(&s, T, 10, 0);
    expect_allow(&s, T + 3650 * DAY, 10, 0);
    expect_deny(&s, T + 3650 * DAY, 1, 0, 100 * MS);
}

static void any_state_gives_a_verdict(void **state)
{
    static const uint64_t garbage[] = {1, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX, 0xdeadbeef};
    struct subject s = subject_of(WR_TOKEN_BUCKET, 3, S, -1);
    struct wr_take out;

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        algo_of(&s)->take(&s.limit, garbage[i], T, 1, &out);
        assert_in_range(out.remaining, 0, 3);
        assert_in_range(out.retry_after_ns, 0, 3 * S);
        algo_of(&s)->take(&s.limit, out.state, T + 3 * S, 3, &out);
        assert_true(out.allowed);
    }
}

static void moments_at_the_ends_of_time(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 3, S, -1);

    (void)state;
    expect_allow(&s, 0, 3, 0);
    expect_deny(&s, 0, 1, 0, 333333334);
    expect_deny(&s, INT64_MIN, 1, 0, 333333334); /* counts as 0 */
    expect_allow(&s, S, 3, 0);
    expect_allow(&s, WR_TIME_MAX_NS, 3, 0);
    expect_deny(&s, INT64_MAX, 1, 0, 333333334);
}

static void give_back_is_exact_while_in_debt(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);
    uint64_t receipt;

    (void)state;
    expect_allow(&s, T, 4, 6);
    expect_allow(&s, T, 3, 3);
    receipt = s.state;
    refund(&s, receipt, T, 3);
    expect_allow(&s, T, 0, 6);
    expect_allow(&s, T, 6, 0);
    s.state = 0;
    expect_allow(&s, T, 5, 5);
    receipt = s.state;
    expect_allow(&s, T, 5, 0); /* somebody else in between */
    refund(&s, receipt, T + 200 * MS, 5);
    /* Of the 5, full at T + 0.5 s, 2 have been recovered by T + 0.2 s; 3 are given back. 5 used by
     * the other less none recovered of it yet: 10 - 5 = 5. */
    expect_allow(&s, T + 200 * MS, 0, 5);
}

/* The fault: what the refill has given back already is given back again. */
static void give_back_never_gives_more_than_was_lost(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);
    uint64_t receipt;

    (void)state;
    expect_allow(&s, T, 5, 5);
    receipt = s.state;
    refund(&s, receipt, T + S, 5); /* the bucket was full at T + 0.5 s */
    expect_allow(&s, T + S, 0, 10);
    expect_allow(&s, T + S, 10, 0);
    refund(&s, receipt, T + S, 5);
    expect_deny(&s, T + S, 1, 0, 100 * MS);
    refund(&s, UINT64_MAX, T + S, 5); /* a receipt from a future that never was */
    expect_deny(&s, T + S, 1, 0, 100 * MS);
    s.state = 0;
    refund(&s, receipt, T, 5);
    assert_int_equal(s.state, 0);
}

static void force_goes_below_empty_for_two_refills_at_most(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 10, S, -1);

    (void)state;
    force(&s, T, 4);
    expect_allow(&s, T, 0, 6);
    force(&s, T, 9); /* 3 below empty */
    expect_deny(&s, T, 1, 0, 400 * MS);
    expect_times(&s, T, 400 * MS, 1300 * MS);
    for (int i = 0; i < 100; i++)
        force(&s, T, 1000000000);
    expect_deny(&s, T, 1, 0, 1100 * MS);
    expect_deny(&s, T, 10, 0, 2 * S);
    force(&s, T, 0);
    expect_allow(&s, T + 2 * S, 10, 0);
}

static void used_and_times(void **state)
{
    struct subject s = subject_of(WR_TOKEN_BUCKET, 4, S, -1);

    (void)state;
    expect_used(&s, T, 0);
    expect_times(&s, T, 0, 0);
    expect_allow(&s, T, 1, 3);
    expect_used(&s, T, UINT64_C(1) << 30);
    expect_times(&s, T, 250 * MS, 250 * MS);
    expect_times(&s, T + 100 * MS, 150 * MS, 150 * MS);
    expect_allow(&s, T, 3, 0);
    expect_used(&s, T, UINT64_C(1) << 32);
    expect_times(&s, T, 250 * MS, S);
    expect_used(&s, T + 500 * MS, UINT64_C(1) << 31);
    expect_used(&s, T + S, 0);
    expect_times(&s, T + S, 0, 0);
    s.state = UINT64_MAX; /* garbage is an empty bucket */
    expect_used(&s, T, UINT64_C(1) << 32);
    expect_times(&s, T, 250 * MS, S);
}

/* The faults: a changed limit is ignored, resets everybody, or a raised one keeps denying under the
 * old arrival time. What was used stays used, in units. */
static void a_changed_limit_keeps_what_was_used(void **state)
{
    struct subject old = subject_of(WR_TOKEN_BUCKET, 10, HOUR, -1);
    struct subject s;

    (void)state;
    expect_allow(&old, T, 10, 0);
    s = carried(&old, WR_TOKEN_BUCKET, 1000, HOUR, -1, T); /* raised: lets through at once */
    expect_allow(&s, T, 0, 990);
    s = carried(&old, WR_TOKEN_BUCKET, 4, HOUR, -1, T); /* lowered below its use */
    expect_deny(&s, T, 1, 0, 15 * MINUTE);
    s = carried(&old, WR_TOKEN_BUCKET, 10, HOUR, 20, T); /* another burst */
    expect_allow(&s, T, 0, 10);
    s = carried(&old, WR_TOKEN_BUCKET, 3, S, 30, T); /* another scale */
    expect_allow(&s, T, 0, 20);
    s = carried(&old, WR_TOKEN_BUCKET, 1000, HOUR, -1, T + HOUR); /* recovered meanwhile */
    assert_int_equal(s.state, 0);
}

static void another_algorithm_keeps_the_fraction_used(void **state)
{
    struct subject old = subject_of(WR_FIXED_WINDOW, 100, DAY, -1);
    struct subject s;

    (void)state;
    expect_allow(&old, T, 25, 75);
    s = carried(&old, WR_TOKEN_BUCKET, 40, HOUR, -1, T);
    expect_allow(&s, T, 0, 30);
    old = subject_of(WR_LEAKY_BUCKET, 0, S, -1);
    old.state = UINT64_MAX;
    s = carried(&old, WR_TOKEN_BUCKET, 40, HOUR, -1, T);
    expect_allow(&s, T, 0, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_a_second_are_three_in_every_second_for_ever),
        cmocka_unit_test(a_third_of_a_second_is_rounded_up),
        cmocka_unit_test(capacity_is_the_burst_exactly),
        cmocka_unit_test(cost_above_capacity_has_no_retry_time),
        cmocka_unit_test(a_refusal_consumes_nothing),
        cmocka_unit_test(retry_is_for_this_cost),
        cmocka_unit_test(cost_0_is_a_look),
        cmocka_unit_test(limit_0_refuses_everything),
        cmocka_unit_test(slow_rates_keep_the_fraction),
        cmocka_unit_test(fast_rates_hold),
        cmocka_unit_test(half_milliseconds_count),
        cmocka_unit_test(clock_back_stands_still),
        cmocka_unit_test(clock_far_back_empties_and_recovers_in_one_refill),
        cmocka_unit_test(clock_ahead_gives_one_refill),
        cmocka_unit_test(any_state_gives_a_verdict),
        cmocka_unit_test(moments_at_the_ends_of_time),
        cmocka_unit_test(give_back_is_exact_while_in_debt),
        cmocka_unit_test(give_back_never_gives_more_than_was_lost),
        cmocka_unit_test(force_goes_below_empty_for_two_refills_at_most),
        cmocka_unit_test(used_and_times),
        cmocka_unit_test(a_changed_limit_keeps_what_was_used),
        cmocka_unit_test(another_algorithm_keeps_the_fraction_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
