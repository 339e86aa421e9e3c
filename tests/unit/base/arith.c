/* arith.c - at the ends of the ranges, where silent overflow would be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include "base/arith.h"

static void test_min_and_max(void **state)
{
    (void)state;
    assert_int_equal(wr_min_i64(INT64_MIN, INT64_MAX), INT64_MIN);
    assert_int_equal(wr_max_i64(-1, 0), 0);
    assert_true(wr_min_u64(UINT64_MAX, 1) == 1);
    assert_true(wr_max_u64(UINT64_MAX, 1) == UINT64_MAX);
}

static void test_monus(void **state)
{
    (void)state;
    assert_true(wr_monus_u64(7, 5) == 2);
    assert_true(wr_monus_u64(5, 7) == 0);
    assert_true(wr_monus_u64(0, UINT64_MAX) == 0);
    assert_true(wr_monus_u64(UINT64_MAX, 0) == UINT64_MAX);
}

static void test_saturating_sums(void **state)
{
    (void)state;
    assert_int_equal(wr_add_sat_i64(1, 2), 3);
    assert_int_equal(wr_add_sat_i64(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(wr_add_sat_i64(INT64_MIN, -1), INT64_MIN);
    assert_int_equal(wr_add_sat_i64(INT64_MAX, INT64_MIN), -1);
    assert_true(wr_add_sat_u64(UINT64_MAX - 1, 1) == UINT64_MAX);
    assert_true(wr_add_sat_u64(UINT64_MAX, UINT64_MAX) == UINT64_MAX);
}

static void test_product_that_does_not_fit_leaves_the_result(void **state)
{
    int64_t out = 42;
    (void)state;

    assert_true(wr_mul_i64(INT64_C(3037000499), INT64_C(3037000499), &out));
    assert_int_equal(out, INT64_C(9223372030926249001));
    out = 42;
    assert_false(wr_mul_i64(INT64_C(3037000500), INT64_C(3037000500), &out));
    assert_int_equal(out, 42);
    assert_false(wr_mul_i64(INT64_MIN, -1, &out));
    assert_true(wr_mul_i64(INT64_MIN, 1, &out));
    assert_int_equal(out, INT64_MIN);
}

static void test_muldiv_keeps_128_bits(void **state)
{
    (void)state;
    assert_true(wr_muldiv_floor(10, 10, 3) == 33);
    assert_true(wr_muldiv_ceil(10, 10, 3) == 34);
    assert_true(wr_muldiv_ceil(9, 10, 3) == 30);
    assert_true(wr_muldiv_floor(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    assert_true(wr_muldiv_ceil(UINT64_MAX, UINT64_MAX, UINT64_MAX) == UINT64_MAX);
    /* (2^64 - 1) * 2 / 3 = 12297829382473034410 exactly */
    assert_true(wr_muldiv_floor(UINT64_MAX, 2, 3) == UINT64_C(12297829382473034410));
    assert_true(wr_muldiv_ceil(UINT64_MAX, 2, 3) == UINT64_C(12297829382473034410));
    /* saturated */
    assert_true(wr_muldiv_floor(UINT64_MAX, 2, 1) == UINT64_MAX);
    assert_true(wr_muldiv_ceil(UINT64_MAX, UINT64_MAX, 1) == UINT64_MAX);
    assert_true(wr_muldiv_ceil(0, UINT64_MAX, UINT64_MAX) == 0);
}

static void test_bit_length(void **state)
{
    (void)state;
    assert_int_equal(wr_bit_length(0), 0);
    assert_int_equal(wr_bit_length(1), 1);
    assert_int_equal(wr_bit_length(255), 8);
    assert_int_equal(wr_bit_length(256), 9);
    assert_int_equal(wr_bit_length(UINT64_MAX), 64);
}

static void test_greatest_common_divisor(void **state)
{
    (void)state;
    assert_true(wr_gcd_u64(12, 18) == 6);
    assert_true(wr_gcd_u64(17, 5) == 1);
    assert_true(wr_gcd_u64(0, 9) == 9);
    assert_true(wr_gcd_u64(9, 0) == 9);
    assert_true(wr_gcd_u64(UINT64_MAX, UINT64_MAX - 1) == 1);
    /* Two neighbours of Fibonacci: the most steps there are. */
    assert_true(wr_gcd_u64(UINT64_C(12200160415121876738), UINT64_C(7540113804746346429)) == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_min_and_max),
        cmocka_unit_test(test_monus),
        cmocka_unit_test(test_saturating_sums),
        cmocka_unit_test(test_product_that_does_not_fit_leaves_the_result),
        cmocka_unit_test(test_muldiv_keeps_128_bits),
        cmocka_unit_test(test_bit_length),
        cmocka_unit_test(test_greatest_common_divisor),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
