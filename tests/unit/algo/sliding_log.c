/* sliding_log.c - deciding by the number of live stamps. */
#include "algo/sliding_log.h"

#include "subject.h"

static struct wr_limit five_a_minute(void)
{
    return subject_of(WR_SLIDING_LOG, 5, MINUTE, -1).limit;
}

static void expect_log(const struct wr_limit *limit, uint32_t live, int64_t cost, bool allowed,
                       bool never, int64_t remaining, uint32_t must_age)
{
    struct wr_take out;
    uint32_t age = 99;

    wr_sliding_log_take(limit, live, cost, &out, &age);
    assert_int_equal(out.allowed, allowed);
    assert_int_equal(out.never, never);
    assert_int_equal(out.remaining, remaining);
    assert_int_equal(age, must_age);
    assert_int_equal(out.state, 0);
    assert_int_equal(out.retry_after_ns, 0);
    assert_int_equal(out.delay_ns, 0);
}

static void live_stamps_decide(void **state)
{
    struct wr_limit limit = five_a_minute();

    (void)state;
    expect_log(&limit, 0, 1, true, false, 4, 0);
    expect_log(&limit, 0, 5, true, false, 0, 0);
    expect_log(&limit, 4, 1, true, false, 0, 0);
    expect_log(&limit, 5, 1, false, false, 0, 1);
    expect_log(&limit, 3, 4, false, false, 2, 2);
    expect_log(&limit, 5, 5, false, false, 0, 5);
}

static void cost_above_the_limit_has_no_retry_time(void **state)
{
    struct wr_limit limit = five_a_minute();

    (void)state;
    expect_log(&limit, 0, 6, false, true, 5, 0);
    expect_log(&limit, 3, INT64_MAX, false, true, 2, 0);
}

static void cost_0_is_a_look(void **state)
{
    struct wr_limit limit = five_a_minute();

    (void)state;
    expect_log(&limit, 0, 0, true, false, 5, 0);
    expect_log(&limit, 5, 0, true, false, 0, 0);
    expect_log(&limit, 9, 0, true, false, 0, 0);
}

static void limit_0_refuses_everything(void **state)
{
    struct wr_limit limit = subject_of(WR_SLIDING_LOG, 0, MINUTE, -1).limit;

    (void)state;
    expect_log(&limit, 0, 1, false, true, 0, 0);
    expect_log(&limit, 0, 0, true, false, 0, 0);
}

/* The fault: no retry time when the limit was lowered below its use. */
static void more_stamps_than_the_limit_still_age(void **state)
{
    struct wr_limit limit = five_a_minute();

    (void)state;
    expect_log(&limit, 8, 1, false, false, 0, 4);
    expect_log(&limit, 8, 5, false, false, 0, 8);
    expect_log(&limit, UINT32_MAX, 5, false, false, 0, UINT32_MAX);
}

/* A stamp exactly W old does not count. */
static void retry_is_when_the_stamp_is_a_window_old(void **state)
{
    struct wr_limit limit = five_a_minute();

    (void)state;
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT, MIDNIGHT), MINUTE);
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT, MIDNIGHT + 20 * S), 40 * S);
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT, MIDNIGHT + MINUTE - 1), 1);
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT, MIDNIGHT + MINUTE), 1); /* never 0 */
    assert_int_equal(wr_sliding_log_retry(&limit, 0, MIDNIGHT), 1);
}

/* 60 s / 2^30 is a tick of 56 ns at most; a stamp made at MIDNIGHT + 1 is a part of it later. */
static void what_is_told_is_not_a_part_of_a_tick_more(void **state)
{
    struct wr_limit limit = five_a_minute();
    int64_t tick = limit.tick_ns;

    (void)state;
    assert_in_range(tick, 2, 56);
    assert_int_equal(wr_sliding_log_left(&limit, MIDNIGHT + tick - 1, MIDNIGHT), MINUTE);
    assert_int_equal(wr_sliding_log_left(&limit, MIDNIGHT, MIDNIGHT), MINUTE);
    assert_int_equal(wr_sliding_log_left(&limit, MIDNIGHT + tick, MIDNIGHT), MINUTE + tick);
    assert_int_equal(wr_sliding_log_left(&limit, MIDNIGHT, MIDNIGHT + 20 * S), 40 * S);
}

static void a_stamp_ahead_waits_for_two_windows_at_most(void **state)
{
    struct wr_limit limit = five_a_minute();
    struct wr_limit fast = subject_of(WR_SLIDING_LOG, 5, 10 * MS, -1).limit;

    (void)state;
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT + S, MIDNIGHT), 61 * S);
    assert_int_equal(wr_sliding_log_retry(&limit, MIDNIGHT + DAY, MIDNIGHT), 2 * MINUTE);
    assert_int_equal(wr_sliding_log_retry(&limit, INT64_MAX, INT64_MIN), 2 * MINUTE);
    assert_int_equal(wr_sliding_log_retry(&limit, INT64_MIN, INT64_MAX), 1);
    assert_int_equal(wr_sliding_log_retry(&fast, MIDNIGHT + S, MIDNIGHT), S + 10 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_stamps_decide),
        cmocka_unit_test(cost_above_the_limit_has_no_retry_time),
        cmocka_unit_test(cost_0_is_a_look),
        cmocka_unit_test(limit_0_refuses_everything),
        cmocka_unit_test(more_stamps_than_the_limit_still_age),
        cmocka_unit_test(retry_is_when_the_stamp_is_a_window_old),
        cmocka_unit_test(what_is_told_is_not_a_part_of_a_tick_more),
        cmocka_unit_test(a_stamp_ahead_waits_for_two_windows_at_most),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
