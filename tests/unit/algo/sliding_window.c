/* sliding_window.c - two counts, blended, by hand. MIDNIGHT is the start of a window. */
#include "subject.h"

#define T (MIDNIGHT + 10 * S)

static void one_window_holds_its_units(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 5, MINUTE, -1);

    (void)state;
    for (int64_t left = 4; left >= 0; left--)
        expect_allow(&s, T, 1, left);
    /* At the boundary 5 become previous; 5 * (60 - e)/60 + 1 <= 5 at e = 12. */
    expect_deny(&s, T, 1, 0, 62 * S);
    expect_deny(&s, MIDNIGHT + 72 * S - 1, 1, 0, 1);
    expect_allow(&s, MIDNIGHT + 72 * S, 1, 0);
}

/* The fault of fixed windows: twice the limit around a boundary. */
static void no_double_burst_at_the_boundary(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 60, MINUTE, -1);

    (void)state;
    expect_allow(&s, MIDNIGHT + MINUTE - 1, 60, 0);
    expect_deny(&s, MIDNIGHT + MINUTE, 1, 0, S); /* one fades each second */
    expect_allow(&s, MIDNIGHT + MINUTE + 30 * S, 30, 0);
    expect_deny(&s, MIDNIGHT + MINUTE + 30 * S, 1, 0, S);
}

/* previous 100, current 30, e = 15 of 60 s: 30 + 75 = 105; at 20 s 96.67. */
static void the_previous_window_fades(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 100, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 100, 0);
    /* Room for 1 at e = 0.6, for 30 at e = 18. */
    expect_deny(&s, MIDNIGHT + MINUTE, 1, 0, 600 * MS);
    expect_allow(&s, MIDNIGHT + MINUTE + 18 * S, 30, 0);
    /* e = 20: 30 + 100 * 40/60 = 96.67, 3 left; 10 when 100 * (60 - e)/60 <= 60, e = 24. */
    expect_deny(&s, MIDNIGHT + MINUTE + 20 * S, 10, 3, 4 * S);
    expect_allow(&s, MIDNIGHT + MINUTE + 20 * S, 3, 0);
    /* current 33: 70 not in this window (33 + 70 > 100); in the next 33 * (60 - e)/60 <= 30: 60 - e
     * = 54.545454545: e = 5.454545455 (rounded up) after 40 s. */
    expect_deny(&s, MIDNIGHT + MINUTE + 20 * S, 70, 0, INT64_C(45454545455));
    /* 67: 33 + 67 = 100, when the previous has faded altogether: at the boundary. */
    expect_deny(&s, MIDNIGHT + MINUTE + 20 * S, 67, 0, 40 * S);
    /* All 100: when the 33 are gone too. */
    expect_deny(&s, MIDNIGHT + MINUTE + 20 * S, 100, 0, 100 * S);
    expect_deny(&s, MIDNIGHT + 3 * MINUTE - 1, 100, 99, 1);
    expect_allow(&s, MIDNIGHT + 3 * MINUTE, 100, 0);
}

/* An even stream just at the limit loses one request a window, no more: at e = 0 all 60 of the
 * previous window count, so 1 is refused; of the 59 then 59 (60 - e)/60 + e + 1 <= 60 until e = 59.
 */
static void an_even_stream_at_the_limit_loses_one_a_window(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 60, MINUTE, -1);
    struct wr_take out;

    (void)state;
    for (int64_t window = 0; window < 100; window++) {
        int admitted = 0;
        for (int64_t e = 0; e < 60; e++) {
            algo_of(&s)->take(&s.limit, s.state, MIDNIGHT + window * MINUTE + e * S, 1, &out);
            s.state = out.state;
            admitted += out.allowed ? 1 : 0;
        }
        assert_int_equal(admitted, window == 0 ? 60 : 59);
    }
}

static void cost_above_the_limit_has_no_retry_time(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_deny(&s, T, 6, 5, NONE);
    expect_deny(&s, T, INT64_MAX, 5, NONE);
    expect_allow(&s, T, 2, 3);
    for (int i = 0; i < 100; i++)
        expect_deny(&s, T, 5, 3, 110 * S); /* equal to it: when the 2 are gone */
    expect_allow(&s, T, 3, 0);
}

static void cost_0_is_a_look(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 6, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 0, 6);
    assert_int_equal(s.state, 0);
    expect_allow(&s, T, 6, 0);
    expect_allow(&s, T, 0, 0);
    expect_allow(&s, MIDNIGHT + 90 * S, 0, 3);
    expect_allow(&s, MIDNIGHT + 91 * S, 0, 3); /* 2.9 count */
    expect_allow(&s, MIDNIGHT + 2 * MINUTE, 0, 6);
}

static void limit_0_refuses_everything(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 0, MINUTE, -1);

    (void)state;
    expect_deny(&s, T, 1, 0, NONE);
    expect_allow(&s, T, 0, 0);
    force(&s, T, 3);
    expect_deny(&s, T, 1, 0, NONE);
    expect_times(&s, T, 0, 0);
    assert_int_equal(s.state, 0); /* nothing to remember, no slot to take */
}

static void the_first_window_of_all_counts(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 2, MINUTE, -1);

    (void)state;
    expect_allow(&s, 0, 1, 1);
    assert_true(s.state != 0);
    expect_allow(&s, INT64_MIN, 1, 0);
    expect_deny(&s, 30 * S, 1, 0, MINUTE); /* 2 (60 - e)/60 <= 1 at e = 30 of the next */
    expect_allow(&s, WR_TIME_MAX_NS, 2, 0);
}

static void a_stamp_before_the_boundary_counts_in_the_new_window(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 6, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 3, 3);
    /* In the next window at e = 0: 3 + 1. Then a thread that still thinks it is before: the same.
     */
    expect_allow(&s, MIDNIGHT + MINUTE, 1, 2);
    expect_allow(&s, MIDNIGHT + MINUTE - 1, 1, 1);
    expect_allow(&s, MIDNIGHT + MINUTE, 1, 0);
    /* 3 current; previous 3 fade by 1 in 20 s. */
    expect_deny(&s, MIDNIGHT + MINUTE - 1, 1, 0, 20 * S + 1);
}

static void clock_far_back_keeps_the_counts_and_no_more(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 6, MINUTE, -1);
    struct wr_take out;

    (void)state;
    expect_allow(&s, T, 6, 0);
    expect_allow(&s, T + 80 * S, 3, 0); /* e = 30: 6/2 + 3 */
    algo_of(&s)->take(&s.limit, s.state, MIDNIGHT - DAY + 30 * S, 1, &out);
    assert_false(out.allowed);
    assert_int_equal(out.retry_after_ns, 10 * S); /* as it would have been: 6 (60 - e)/60 <= 2 */
    assert_true(out.state != s.state);
    s.state = out.state;
    expect_deny(&s, MIDNIGHT - DAY + 30 * S, 1, 0, 10 * S);
    expect_allow(&s, MIDNIGHT - DAY + 2 * MINUTE, 6, 0);
}

static void clock_ahead_gives_one_limit(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 5, MINUTE, -1);

    (void)state;
    expect_allow(&s, T, 5, 0);
    expect_allow(&s, T + 36500 * DAY, 5, 0);
    expect_deny(&s, T + 36500 * DAY, 1, 0, 62 * S);
}

/* N = 2^24 - 1 has 25 bits a count and 14 of index: the same again after 16384 windows of 60 s, 11
 * days. The old counts deny for two windows at most; they never let more through. */
static void a_wrapped_index_denies_for_two_windows_at_most(void **state)
{
    const int64_t most = 16777215;
    struct subject s = subject_of(WR_SLIDING_WINDOW, most, MINUTE, -1);
    int64_t later = MIDNIGHT + 16384 * MINUTE;

    (void)state;
    expect_allow(&s, MIDNIGHT, most, 0);
    expect_deny(&s, later, most, 0, 2 * MINUTE);
    expect_allow(&s, later + 2 * MINUTE, most, 0);
    expect_deny(&s, later + 2 * MINUTE, 1, 0, MINUTE + 3577); /* 60e9 / 16777215 = 3576.3 */
}

/* The fault: with index bits all ones (window 16383), "never seen" passes for index 0, one window
 * ahead, and time stands still in a window that has not begun. */
static void never_seen_is_not_a_window_ahead(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 16777215, MINUTE, -1);

    (void)state;
    expect_allow(&s, 16383 * MINUTE, 16777215, 0);
    expect_deny(&s, 16383 * MINUTE, 16777215, 0, 2 * MINUTE);
}

static void any_state_gives_a_verdict(void **state)
{
    static const uint64_t garbage[] = {1, UINT64_MAX, UINT64_C(1) << 63, INT64_MAX, 0xdeadbeef};
    struct subject s = subject_of(WR_SLIDING_WINDOW, 5, MINUTE, -1);
    struct wr_take out;

    (void)state;
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        algo_of(&s)->take(&s.limit, garbage[i], T, 1, &out);
        assert_in_range(out.remaining, 0, 5);
        assert_in_range(out.retry_after_ns, 0, 3 * MINUTE);
        algo_of(&s)->take(&s.limit, out.state, T + 3 * MINUTE, 5, &out);
        assert_true(out.allowed);
    }
}

static void give_back_carries_its_window(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 6, MINUTE, -1);
    uint64_t receipt;

    (void)state;
    expect_allow(&s, T, 2, 4);
    receipt = s.state;
    expect_allow(&s, T, 4, 0);
    refund(&s, receipt, T, 2);
    expect_allow(&s, T, 2, 0);
    expect_allow(&s, MIDNIGHT + 90 * S, 3, 0); /* 6/2 + 3 */
    refund(&s, receipt, MIDNIGHT + 90 * S, 2); /* off the previous: 4/2 + 3 */
    expect_allow(&s, MIDNIGHT + 90 * S, 0, 1);
    expect_allow(&s, MIDNIGHT + 10 * MINUTE, 6, 0);
    refund(&s, receipt, MIDNIGHT + 10 * MINUTE, 2); /* long gone */
    expect_deny(&s, MIDNIGHT + 10 * MINUTE, 1, 0, 70 * S);
    s.state = receipt;
    refund(&s, receipt, T, 1000000000);
    assert_int_equal(s.state, 0);
}

/* Window 16383 has index bits all ones, the next one's are 0. */
static void give_back_finds_its_window_across_the_wrap(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 16777215, MINUTE, -1);
    uint64_t receipt;

    (void)state;
    expect_allow(&s, 16383 * MINUTE, 5000000, 11777215);
    receipt = s.state;
    expect_allow(&s, 16384 * MINUTE, 1000000, 10777215);
    refund(&s, receipt, 16384 * MINUTE, 5000000);
    expect_allow(&s, 16384 * MINUTE, 0, 15777215);
}

/* 6 is 3 bits, a field 7: 127 means "127 or more". */
static void force_counts_above_the_limit_up_to_the_field(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 6, MINUTE, -1);
    uint64_t receipt;

    (void)state;
    force(&s, T, 12);
    receipt = s.state;
    /* Next window: 12 (60 - e)/60 <= 5 at e = 35. */
    expect_deny(&s, T, 1, 0, 85 * S);
    refund(&s, receipt, T, 7);
    expect_allow(&s, T, 1, 0);
    force(&s, T, INT64_MAX);
    refund(&s, receipt, T, 127); /* of how many, nobody knows */
    /* 127 (60 - e)/60 <= 5: 60 - e = 2.362204724: e = 57.637795276 after 50 s. */
    expect_deny(&s, T, 1, 0, INT64_C(107637795276));
    refund(&s, receipt, T + MINUTE, 127);
    expect_deny(&s, T + MINUTE, 1, 0, INT64_C(47637795276));
    force(&s, T + MINUTE, 0);
    force(&s, T + MINUTE, 1); /* now the 127 are the previous ones: 127 (60 - e)/60 <= 4 */
    refund(&s, receipt, T + MINUTE, 127);
    expect_deny(&s, T + MINUTE, 1, 0, INT64_C(48110236221));
    expect_allow(&s, T + 3 * MINUTE, 6, 0);
}

static void used_and_times(void **state)
{
    struct subject s = subject_of(WR_SLIDING_WINDOW, 4, MINUTE, -1);

    (void)state;
    expect_used(&s, T, 0);
    expect_times(&s, T, 0, 0);
    expect_allow(&s, T, 2, 2);
    expect_used(&s, T, UINT64_C(1) << 31);
    /* One more than 2: 2 (60 - e)/60 <= 1 at e = 30 of the next; all at its end. */
    expect_times(&s, T, 80 * S, 110 * S);
    expect_used(&s, MIDNIGHT + 90 * S, UINT64_C(1) << 30);
    expect_times(&s, MIDNIGHT + 90 * S, 30 * S, 30 * S);
    expect_used(&s, MIDNIGHT + 2 * MINUTE, 0);
    expect_times(&s, MIDNIGHT + 2 * MINUTE, 0, 0);
    force(&s, T, 100);
    expect_used(&s, T, UINT64_C(1) << 32);
}

static void a_changed_limit_keeps_the_counts(void **state)
{
    struct subject old = subject_of(WR_SLIDING_WINDOW, 10, MINUTE, -1);
    struct subject s;
    int64_t t = MIDNIGHT + 90 * S;

    (void)state;
    expect_allow(&old, T, 8, 2);
    expect_allow(&old, t, 3, 3);                                 /* 8/2 + 3 */
    s = carried(&old, WR_SLIDING_WINDOW, 100000, MINUTE, -1, t); /* other field widths */
    expect_allow(&s, t, 0, 99993);
    s = carried(&old, WR_SLIDING_WINDOW, 5, MINUTE, -1,
                t);                       /* below its use: a retry time none the less */
    expect_deny(&s, t, 1, 0, 22500 * MS); /* 8 (60 - e)/60 <= 1 at e = 52.5 */
    s = carried(&old, WR_SLIDING_WINDOW, 10, HOUR, -1, t + 1);
    expect_allow(&s, t + 1, 0, 3); /* 6.99.. rounded up to 7 */
    s = carried(&old, WR_SLIDING_WINDOW, 10, HOUR, -1, t + DAY);
    assert_int_equal(s.state, 0);
    old = subject_of(WR_TOKEN_BUCKET, 4, HOUR, -1);
    expect_allow(&old, t, 3, 1);
    s = carried(&old, WR_SLIDING_WINDOW, 100, MINUTE, -1, t);
    expect_allow(&s, t, 0, 25);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_window_holds_its_units),
        cmocka_unit_test(no_double_burst_at_the_boundary),
        cmocka_unit_test(the_previous_window_fades),
        cmocka_unit_test(an_even_stream_at_the_limit_loses_one_a_window),
        cmocka_unit_test(cost_above_the_limit_has_no_retry_time),
        cmocka_unit_test(cost_0_is_a_look),
        cmocka_unit_test(limit_0_refuses_everything),
        cmocka_unit_test(the_first_window_of_all_counts),
        cmocka_unit_test(a_stamp_before_the_boundary_counts_in_the_new_window),
        cmocka_unit_test(clock_far_back_keeps_the_counts_and_no_more),
        cmocka_unit_test(clock_ahead_gives_one_limit),
        cmocka_unit_test(a_wrapped_index_denies_for_two_windows_at_most),
        cmocka_unit_test(never_seen_is_not_a_window_ahead),
        cmocka_unit_test(any_state_gives_a_verdict),
        cmocka_unit_test(give_back_carries_its_window),
        cmocka_unit_test(give_back_finds_its_window_across_the_wrap),
        cmocka_unit_test(force_counts_above_the_limit_up_to_the_field),
        cmocka_unit_test(used_and_times),
        cmocka_unit_test(a_changed_limit_keeps_the_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
