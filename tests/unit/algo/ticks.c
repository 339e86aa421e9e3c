/* ticks.c - units and rates in ticks, by hand. */
#include "algo/ticks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static struct wr_limit limit_of(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, burst, false));
    return limit;
}

static void expect(const struct wr_limit *limit, int64_t unit, int64_t rate)
{
    struct wr_ticks ticks;

    assert_true(wr_ticks_make(&ticks, limit));
    assert_int_equal(ticks.unit, unit);
    assert_int_equal(ticks.rate, rate);
}

static void a_unit_and_a_rate_are_whole(void **state)
{
    struct wr_limit thousand = limit_of(WR_TOKEN_BUCKET, 1000, WR_NS_PER_HOUR, -1);
    struct wr_limit three = limit_of(WR_TOKEN_BUCKET, 3, WR_NS_PER_S, -1);
    struct wr_limit million = limit_of(WR_TOKEN_BUCKET, 1000000, WR_NS_PER_S, -1);
    struct wr_limit fast = limit_of(WR_TOKEN_BUCKET, 1000000000, WR_NS_PER_S, -1);
    struct wr_limit none = limit_of(WR_LEAKY_BUCKET, 0, WR_NS_PER_S, -1);

    (void)state;
    expect(&thousand, 3600000, 1);
    expect(&three, 1000000, 3);
    expect(&million, 1, 1);
    expect(&fast, 1, 1000);
    expect(&none, 1, 1);
}

/* 999983 is prime and divides no day: a unit is 8.64e10 ticks; 2^53 / 2 of them are 52124.9 units.
 */
static void what_is_too_fine_is_refused(void **state)
{
    struct wr_limit fits = limit_of(WR_TOKEN_BUCKET, 999983, WR_NS_PER_DAY, 52124);
    struct wr_limit fine = limit_of(WR_TOKEN_BUCKET, 999983, WR_NS_PER_DAY, 52125);
    struct wr_limit queue = limit_of(WR_LEAKY_BUCKET, 999983, WR_NS_PER_DAY, 52124);
    struct wr_limit odd = limit_of(WR_TOKEN_BUCKET, 3, WR_NS_PER_S + 1, -1);
    struct wr_ticks ticks;

    (void)state;
    expect(&fits, 86400000000, 999983);
    assert_false(wr_ticks_make(&ticks, &fine));
    assert_true(ticks.unit == 1 && ticks.rate == 1);
    assert_false(wr_ticks_make(&ticks, &queue));
    assert_false(wr_ticks_make(&ticks, &odd));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unit_and_a_rate_are_whole),
        cmocka_unit_test(what_is_too_fine_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
