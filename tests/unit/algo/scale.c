/* scale.c - nanoseconds and quanta. */
#include "algo/scale.h"

#include "subject.h"

static void expect_scale(int64_t units, int64_t window_ns, uint64_t num, uint64_t den,
                         uint64_t unit)
{
    struct wr_scale scale = wr_scale_make(units, window_ns);
    assert_int_equal(scale.num, num);
    assert_int_equal(scale.den, den);
    assert_int_equal(scale.unit, unit);
}

static void whole_nanoseconds_need_no_fraction(void **state)
{
    (void)state;
    expect_scale(600, MINUTE, 1, 1, 100000000);
    expect_scale(100, HOUR, 1, 1, 36000000000);
    expect_scale(1, 366 * DAY, 1, 1, 31622400000000000);
    expect_scale(1000000000, S, 1, 1, 1);
}

/* 3/1e9: 1e9 / 3 = 333333333, whose highest bit is 2^28; 3 * 2^28 = 805306368 <= 1e9. */
static void others_have_the_finest_quantum_of_a_nanosecond_or_more(void **state)
{
    (void)state;
    expect_scale(3, S, 805306368, 1000000000, 268435456);
    expect_scale(7, S, 7 << 27, 1000000000, 1 << 27);     /* 142857142: 2^27 = 134217728 */
    expect_scale(999999999, S, 999999999, 1000000000, 1); /* 1: 2^0 */
    /* 7000 / 366 days = 7 / 31622400000000; the quotient is 4.5e12, and 2^42 = 4.4e12. */
    expect_scale(7000, 366 * DAY, UINT64_C(7) << 42, 31622400000000, UINT64_C(1) << 42);
    expect_scale(0, S, 1, 1, 1);
}

/* 600 a minute is 10 a second: the same scale, so a change of spelling changes nothing. */
static void equal_rates_have_equal_scales(void **state)
{
    (void)state;
    expect_scale(10, S, 1, 1, 100000000);
    expect_scale(9, 3 * S, 805306368, 1000000000, 268435456);
}

/* W is exactly N units from any moment on. */
static void a_window_is_its_units_from_any_moment(void **state)
{
    static const int64_t rates[][2] = {{3, S},    {7, S},          {1000003, S}, {999999999, S},
                                       {7, HOUR}, {11, 366 * DAY}, {17, MS}};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct wr_scale scale = wr_scale_make(rates[i][0], rates[i][1]);
        for (int64_t k = 0; k < 1000; k++) {
            int64_t t = 1700000000123456789 + k * 7919;
            assert_int_equal(wr_scale_quanta(&scale, t + rates[i][1]) - wr_scale_quanta(&scale, t),
                             (uint64_t)rates[i][0] * scale.unit);
        }
    }
}

/* wr_scale_ns(q) is the first nanosecond with q quanta: it has them, the one before has not. */
static void back_and_forth(void **state)
{
    struct wr_scale scale = wr_scale_make(3, S);

    (void)state;
    for (uint64_t q = 1; q < 2000; q++) {
        uint64_t quanta = q * 805306367;
        int64_t t = wr_scale_ns(&scale, quanta);
        assert_true(wr_scale_quanta(&scale, t) >= quanta);
        assert_true(wr_scale_quanta(&scale, t - 1) < quanta);
    }
    assert_int_equal(wr_scale_ns(&scale, UINT64_MAX), INT64_MAX);
    scale = wr_scale_make(1, S);
    assert_int_equal(wr_scale_ns(&scale, UINT64_MAX), INT64_MAX);
    assert_int_equal(wr_scale_ns(&scale, 12345), 12345);
}

static void moments_outside_the_range_are_its_ends(void **state)
{
    (void)state;
    assert_int_equal(wr_moment_ns(INT64_MIN), 0);
    assert_int_equal(wr_moment_ns(-1), 0);
    assert_int_equal(wr_moment_ns(0), 0);
    assert_int_equal(wr_moment_ns(WR_TIME_MAX_NS), WR_TIME_MAX_NS);
    assert_int_equal(wr_moment_ns(INT64_MAX), WR_TIME_MAX_NS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_nanoseconds_need_no_fraction),
        cmocka_unit_test(others_have_the_finest_quantum_of_a_nanosecond_or_more),
        cmocka_unit_test(equal_rates_have_equal_scales),
        cmocka_unit_test(a_window_is_its_units_from_any_moment),
        cmocka_unit_test(back_and_forth),
        cmocka_unit_test(moments_outside_the_range_are_its_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
