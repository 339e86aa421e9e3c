/* bucket.c - the arithmetic that both buckets share. Quanta of 10 ns a unit throughout: scale
 * {1, 1, 10}. */
#include "algo/bucket.h"

#include "subject.h"

static const struct wr_scale ten = {1, 1, 10};

static void wait_is_at_least_a_nanosecond(void **state)
{
    (void)state;
    assert_int_equal(wr_bucket_wait_ns(&ten, 150, 100), 50);
    assert_int_equal(wr_bucket_wait_ns(&ten, 100, 100), 1);
    assert_int_equal(wr_bucket_wait_ns(&ten, 0, 100), 1);
    assert_int_equal(wr_bucket_wait_ns(&ten, UINT64_MAX, 0), INT64_MAX);
}

static void used_is_rounded_up(void **state)
{
    (void)state;
    assert_int_equal(wr_bucket_used_q32(0, 100), 0);
    assert_int_equal(wr_bucket_used_q32(50, 100), UINT64_C(1) << 31);
    assert_int_equal(wr_bucket_used_q32(1, 3), 1431655766); /* 2^32 / 3 = 1431655765.33 */
    assert_int_equal(wr_bucket_used_q32(100, 100), UINT64_C(1) << 32);
    assert_int_equal(wr_bucket_used_q32(UINT64_MAX, 100), UINT64_C(1) << 32);
    assert_int_equal(wr_bucket_used_q32(1, UINT64_C(1) << 60), 1);
    assert_int_equal(wr_bucket_used_q32(0, 0), 0);
    assert_int_equal(wr_bucket_used_q32(1, 0), UINT64_C(1) << 32);
}

static void expect_bucket_times(uint64_t full, int64_t next_ns, int64_t reset_ns)
{
    int64_t next = -1, reset = -1;
    wr_bucket_times(&ten, full, 50, 1000, &next, &reset);
    assert_int_equal(next, next_ns);
    assert_int_equal(reset, reset_ns);
}

/* Capacity 50 quanta (5 units), now 1000. */
static void times_to_the_next_unit_and_to_all(void **state)
{
    (void)state;
    expect_bucket_times(1000, 0, 0);
    expect_bucket_times(0, 0, 0);
    expect_bucket_times(1030, 10, 30); /* 3 units are missing */
    expect_bucket_times(1025, 5, 25);
    expect_bucket_times(1001, 1, 1);
    expect_bucket_times(1050, 10, 50);
    expect_bucket_times(1080, 40, 80); /* 3 below empty: the first one is there at 1040 */
}

static void a_debt_keeps_its_units_at_another_rate(void **state)
{
    struct wr_scale other = {1, 1, 3};

    (void)state;
    assert_int_equal(wr_bucket_rescale(&other, &ten, 40), 12);
    assert_int_equal(wr_bucket_rescale(&other, &ten, 41), 13); /* 12.3 */
    assert_int_equal(wr_bucket_rescale(&ten, &other, 12), 40);
    assert_int_equal(wr_bucket_debt_of(UINT64_C(1) << 31, 50), 25);
    assert_int_equal(wr_bucket_debt_of(1, 50), 1);
    assert_int_equal(wr_bucket_debt_of(0, 50), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wait_is_at_least_a_nanosecond),
        cmocka_unit_test(used_is_rounded_up),
        cmocka_unit_test(times_to_the_next_unit_and_to_all),
        cmocka_unit_test(a_debt_keeps_its_units_at_another_rate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
