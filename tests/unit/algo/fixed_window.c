/* fixed_window.c - windows on the clock, by hand. MIDNIGHT is the start of a window for every
 * length here. */
#include "subject.h"

#define T (MIDNIGHT + 10 * S)

static void a_window_holds_its_units(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    for (int64_t left = 4; left >= 0; left--)
        expect_allow(&s, T, 1, left);
    expect_deny(&s, T, 1, 0, 50 * S); /* the end of the window */
    expect_deny(&s, MIDNIGHT + MINUTE - 1, 1, 0, 1);
    expect_allow(&s, MIDNIGHT + MINUTE, 5, 0);
    expect_deny(&s, MIDNIGHT + MINUTE, 1, 0, MINUTE);
}

/* Documented: twice the limit around a boundary. Who minds takes another algorithm. */
static void a_boundary_lets_twice_the_limit_through(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_allow(&s, MIDNIGHT + MINUTE - 1, 5, 0);
    expect_allow(&s, MIDNIGHT + MINUTE, 5, 0);
}

static void cost_above_the_limit_has_no_retry_time(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_deny(&s, T, 6, 5, NONE);
    expect_deny(&s, T, INT64_MAX, 5, NONE);
    expect_allow(&s, T, 2, 3);
    expect_deny(&s, T, 5, 3, 50 * S);
    expect_deny(&s, T, 4, 3, 50 * S); /* and consumes nothing */
    expect_allow(&s, T, 3, 0);
}

static void cost_0_is_a_look(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 0, 5);
    assert_int_equal(s.state, 0);
    expect_allow(&s, T, 5, 0);
    expect_allow(&s, T, 0, 0);
    expect_allow(&s, T + MINUTE, 0, 5);
}

static void limit_0_refuses_everything(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 0, MINUTE, -1);

    (void)state;
    expect_deny(&s, T, 1, 0, NONE);
    expect_allow(&s, T, 0, 0);
    force(&s, T, 3);
    assert_int_equal(s.state, 0); /* nothing to remember, no slot to take */
    expect_deny(&s, T, 1, 0, NONE);
    expect_times(&s, T, 0, 0);
}

/* The state 0 is "never seen", and the epoch's own window has index 0. */
static void the_first_window_of_all_counts(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 2, MINUTE, -1);

    (void)state;
    expect_allow(&s, 0, 1, 1);
    assert_true(s.state != 0);
    expect_allow(&s, 59 * S, 1, 0);
    expect_deny(&s, 59 * S, 1, 0, S);
    expect_deny(&s, INT64_MIN, 1, 0, MINUTE);
    expect_allow(&s, WR_TIME_MAX_NS, 2, 0);
    expect_deny(&s, INT64_MAX, 1, 0, MINUTE); /* as the last moment, which is a boundary */
}

/* The fault: two threads at a boundary; the one that read the clock first charges last, and clears
 * the new window's count. */
static void a_stamp_before_the_boundary_counts_in_the_new_window(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_allow(&s, MIDNIGHT, 5, 0);
    expect_deny(&s, MIDNIGHT - 1, 1, 0, MINUTE + 1);
    s.state = 0;
    expect_allow(&s, MIDNIGHT, 3, 2);
    expect_allow(&s, MIDNIGHT - 1, 2, 0);
    expect_deny(&s, MIDNIGHT, 1, 0, MINUTE);
}

/* Windows of 10 ms: the second of noise is a hundred of them (and the one that time is in). */
static void noise_may_be_many_short_windows(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, 10 * MS, -1);
    struct wr_take out;

    (void)state;
    expect_allow(&s, MIDNIGHT, 5, 0);
    expect_deny(&s, MIDNIGHT - S, 1, 0, S + 10 * MS);
    expect_deny(&s, MIDNIGHT - S - 10 * MS, 1, 0, S + 20 * MS);
    algo_of(&s)->take(&s.limit, s.state, MIDNIGHT - S - 10 * MS - 1, 1, &out);
    assert_int_equal(out.retry_after_ns, 1); /* moved: to the end of the window that now is in */
}

/* The fault: everybody is locked out until the clock has caught up, or gets a fresh start. */
static void clock_far_back_keeps_the_count_and_no_more(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);
    struct wr_take out;

    (void)state;
    expect_allow(&s, T, 4, 1);
    expect_deny(&s, T - MINUTE, 2, 1, 110 * S); /* one window: stands still in the stored one */
    algo_of(&s)->take(&s.limit, s.state, T - DAY, 2, &out);
    assert_false(out.allowed);
    assert_int_equal(out.remaining, 1);
    assert_int_equal(out.retry_after_ns, 50 * S);
    assert_true(out.state != s.state);
    s.state = out.state;
    expect_allow(&s, T - DAY, 1, 0);
    expect_allow(&s, T - DAY + 50 * S, 5, 0);
}

static void clock_ahead_gives_one_window(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 5, 0);
    expect_allow(&s, T + 36500 * DAY, 5, 0);
    expect_deny(&s, T + 36500 * DAY, 1, 0, 50 * S);
}

/* N = 2^32 - 1 has 36 bits of count and 28 of index: after 2^28 windows the index is the same
 * again. 5 s windows: 42 years. The old count denies, for that window; it never lets more through.
 */
static void a_wrapped_index_denies_for_a_window_at_most(void **state)
{
    const int64_t most = 4294967295;
    struct subject s = subject_of(WR_FIXED_WINDOW, most, 5 * S, -1);
    int64_t later = MIDNIGHT + (INT64_C(1) << 28) * 5 * S;

    (void)state;
    expect_allow(&s, MIDNIGHT, most, 0);
    expect_deny(&s, later, 1, 0, 5 * S);
    expect_allow(&s, later + 5 * S, most, 0);
    expect_deny(&s, later + 5 * S, 1, 0, 5 * S);
}

/* The fault: with index bits all ones (window 2^28 - 1), "never seen" passes for index 0, one
 * window ahead, and time stands still in a window that has not begun. */
static void never_seen_is_not_a_window_ahead(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 4294967295, 5 * S, -1);
    int64_t start = ((INT64_C(1) << 28) - 1) * 5 * S;

    (void)state;
    expect_allow(&s, start, 4294967295, 0);
    expect_deny(&s, start, 1, 0, 5 * S);
    expect_allow(&s, start + 5 * S, 4294967295, 0);
}

static void long_windows_hold_their_time(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 1, 366 * DAY, -1);
    /* MIDNIGHT is day 19676 = 53 * 366 + 278. */

    (void)state;
    expect_allow(&s, MIDNIGHT, 1, 0);
    expect_deny(&s, MIDNIGHT, 1, 0, 88 * DAY); /* more than 2^31 ms */
    expect_allow(&s, MIDNIGHT + 88 * DAY, 1, 0);
}

static void any_state_gives_a_verdict(void **state)
{
    static const uint64_t garbage[] = {1, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX, 0xdeadbeef};
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);
    struct wr_take out;

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        algo_of(&s)->take(&s.limit, garbage[i], T, 1, &out);
        assert_in_range(out.remaining, 0, 5);
        assert_in_range(out.retry_after_ns, 0, 2 * MINUTE);
        algo_of(&s)->take(&s.limit, out.state, T + 2 * MINUTE, 5, &out);
        assert_true(out.allowed);
    }
}

/* The fault: what is given back late is taken off the next window's count. */
static void give_back_carries_its_window(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);
    uint64_t receipt;

    (void)state;
    expect_allow(&s, T, 2, 3);
    receipt = s.state;
    expect_allow(&s, T, 3, 0);
    refund(&s, receipt, T + 20 * S, 2);
    expect_allow(&s, T + 20 * S, 2, 0);
    expect_allow(&s, T + MINUTE, 5, 0);
    refund(&s, receipt, T + MINUTE, 2);
    expect_deny(&s, T + MINUTE, 1, 0, 50 * S);
    s.state = receipt;
    refund(&s, receipt, T, 2);
    assert_int_equal(s.state, 0); /* as if never seen */
    refund(&s, receipt, T, 1000000000);
    assert_int_equal(s.state, 0);
}

/* 5 is 3 bits, the field 7: 127 means "127 or more". */
static void force_counts_above_the_limit_up_to_the_field(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 5, MINUTE, -1);
    uint64_t receipt;

    (void)state;
    force(&s, T, 7);
    expect_deny(&s, T, 1, 0, 50 * S);
    receipt = s.state;
    refund(&s, receipt, T, 3);
    expect_allow(&s, T, 0, 1);
    force(&s, T, INT64_MAX);
    expect_deny(&s, T, 1, 0, 50 * S);
    refund(&s, receipt, T, 127); /* of how many, nobody knows */
    expect_deny(&s, T, 1, 0, 50 * S);
    force(&s, T, 0);
    expect_allow(&s, T + MINUTE, 5, 0);
}

static void used_and_times(void **state)
{
    struct subject s = subject_of(WR_FIXED_WINDOW, 4, MINUTE, -1);

    (void)state;
    expect_used(&s, T, 0);
    expect_times(&s, T, 0, 0);
    expect_allow(&s, T, 1, 3);
    expect_used(&s, T, UINT64_C(1) << 30);
    expect_times(&s, T, 50 * S, 50 * S);
    force(&s, T, 10);
    expect_used(&s, T, UINT64_C(1) << 32);
    expect_used(&s, T + MINUTE, 0);
    expect_times(&s, T + MINUTE, 0, 0);
}

static void a_changed_limit_keeps_the_count(void **state)
{
    struct subject old = subject_of(WR_FIXED_WINDOW, 10, MINUTE, -1);
    struct subject s;

    (void)state;
    expect_allow(&old, T, 8, 2);
    s = carried(&old, WR_FIXED_WINDOW, 1000, MINUTE, -1, T);
    expect_allow(&s, T, 0, 992);
    s = carried(&old, WR_FIXED_WINDOW, 5, MINUTE, -1,
                T); /* below its use: a retry time none the less */
    expect_deny(&s, T, 1, 0, 50 * S);
    expect_allow(&s, T + 50 * S, 5, 0);
    s = carried(&old, WR_FIXED_WINDOW, 10, HOUR, -1, T);
    expect_allow(&s, T, 0, 2);
    s = carried(&old, WR_FIXED_WINDOW, 5, S, -1, T);
    expect_deny(&s, T, 1, 0, S);
    s = carried(&old, WR_FIXED_WINDOW, 10, HOUR, -1, T + MINUTE);
    assert_int_equal(s.state, 0);
    old = subject_of(WR_TOKEN_BUCKET, 4, HOUR, -1);
    expect_allow(&old, T, 3, 1);
    s = carried(&old, WR_FIXED_WINDOW, 100, MINUTE, -1, T);
    expect_allow(&s, T, 0, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_holds_its_units),
        cmocka_unit_test(a_boundary_lets_twice_the_limit_through),
        cmocka_unit_test(cost_above_the_limit_has_no_retry_time),
        cmocka_unit_test(cost_0_is_a_look),
        cmocka_unit_test(limit_0_refuses_everything),
        cmocka_unit_test(the_first_window_of_all_counts),
        cmocka_unit_test(a_stamp_before_the_boundary_counts_in_the_new_window),
        cmocka_unit_test(noise_may_be_many_short_windows),
        cmocka_unit_test(clock_far_back_keeps_the_count_and_no_more),
        cmocka_unit_test(clock_ahead_gives_one_window),
        cmocka_unit_test(a_wrapped_index_denies_for_a_window_at_most),
        cmocka_unit_test(never_seen_is_not_a_window_ahead),
        cmocka_unit_test(long_windows_hold_their_time),
        cmocka_unit_test(any_state_gives_a_verdict),
        cmocka_unit_test(give_back_carries_its_window),
        cmocka_unit_test(force_counts_above_the_limit_up_to_the_field),
        cmocka_unit_test(used_and_times),
        cmocka_unit_test(a_changed_limit_keeps_the_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
