/* divide.c - one node's part of a limit. */
#include "subject.h"

static struct wr_limit part_of(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst,
                               int64_t nodes)
{
    struct wr_limit whole, part;

    assert_null(wr_limit_make(&whole, algo, units, window_ns, burst, false));
    assert_true(wr_limit_divide(&part, &whole, nodes));
    assert_true(wr_limit_valid(&part));
    assert_int_equal(part.algo, algo);
    return part;
}

static void test_windows_keep_their_length(void **state)
{
    struct wr_limit part = part_of(WR_SLIDING_WINDOW, 100, 60 * S, -1, 3);
    (void)state;

    assert_int_equal(part.units, 33);
    assert_int_equal(part.window_ns, 60 * S);
    assert_int_equal(part_of(WR_FIXED_WINDOW, 100, 60 * S, -1, 4).units, 25);
    assert_int_equal(part_of(WR_SLIDING_LOG, 3, 60 * S, -1, 5).units, 1); /* at least one */
    assert_int_equal(part_of(WR_CONCURRENCY, 10, 30 * S, -1, 4).units, 2);
    assert_int_equal(part_of(WR_SLIDING_WINDOW, 0, 60 * S, -1, 3).units, 0); /* none is none */
    assert_int_equal(part_of(WR_SLIDING_WINDOW, 7, 60 * S, -1, 1).units, 7);
}

/* 5/s over 2 nodes: 5 per 2 s. */
static void test_buckets_keep_their_rate(void **state)
{
    struct wr_limit part = part_of(WR_TOKEN_BUCKET, 5, S, 9, 2);
    (void)state;

    assert_int_equal(part.units, 5);
    assert_int_equal(part.window_ns, 2 * S);
    assert_int_equal(part.burst, 4);
    assert_int_equal(part_of(WR_TOKEN_BUCKET, 5, S, 3, 8).burst, 1);
    part = part_of(WR_LEAKY_BUCKET, 5, S, 9, 2); /* 10 in it: 5 here, of which 4 wait */
    assert_int_equal(part.burst, 4);
    assert_int_equal(part.window_ns, 2 * S);
    assert_int_equal(part_of(WR_LEAKY_BUCKET, 5, S, 0, 2).burst, 0);
    assert_int_equal(part_of(WR_TOKEN_BUCKET, 0, S, -1, 2).units, 0);
    /* A window that would be longer than any may be: the units are divided instead. */
    part = part_of(WR_TOKEN_BUCKET, 1000, WR_WINDOW_MAX_NS / 2, 1000, 4);
    assert_int_equal(part.units, 250);
    assert_int_equal(part.window_ns, WR_WINDOW_MAX_NS / 2);
}

static void test_calendar(void **state)
{
    struct wr_limit whole, part;
    (void)state;

    assert_null(wr_limit_make_calendar(&whole, WR_CALENDAR_MONTH, 100, true));
    assert_true(wr_limit_divide(&part, &whole, 3));
    assert_int_equal(part.calendar, WR_CALENDAR_MONTH);
    assert_int_equal(part.units, 33);
    assert_int_equal(part.count_denied, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_keep_their_length),
        cmocka_unit_test(test_buckets_keep_their_rate),
        cmocka_unit_test(test_calendar),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
