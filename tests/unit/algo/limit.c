/* limit.c - what may be a limit, and what may not. */
#include "subject.h"

#include <string.h>

static const char *make(struct wr_limit *out, enum wr_algo algo, int64_t units, int64_t window_ns,
                        int64_t burst)
{
    const char *problem = wr_limit_make(out, algo, units, window_ns, burst, false);
    static const struct wr_limit nothing;

    assert_int_equal(problem == NULL, wr_limit_valid(out)); /* made: valid; refused: zeros */
    if (problem != NULL)
        assert_memory_equal(out, &nothing, sizeof nothing);
    return problem;
}

static void good(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;
    assert_null(make(&limit, algo, units, window_ns, burst));
}

static void bad(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;
    const char *problem = make(&limit, algo, units, window_ns, burst);
    assert_non_null(problem);
    assert_true(strlen(problem) > 10);
}

static void names(void **state)
{
    (void)state;
    assert_string_equal(wr_algo_name(WR_TOKEN_BUCKET), "token-bucket");
    assert_string_equal(wr_algo_name(WR_LEAKY_BUCKET), "leaky-bucket");
    assert_string_equal(wr_algo_name(WR_FIXED_WINDOW), "fixed-window");
    assert_string_equal(wr_algo_name(WR_SLIDING_WINDOW), "sliding-window");
    assert_string_equal(wr_algo_name(WR_SLIDING_LOG), "sliding-log");
    assert_string_equal(wr_algo_name(WR_CONCURRENCY), "concurrency");
    assert_null(wr_algo_name((enum wr_algo)0));
    assert_string_equal(wr_algo_name(WR_LEASE), "lease");
    assert_string_equal(wr_algo_name(WR_TOLD), "told");
    assert_null(wr_algo_name((enum wr_algo)9));
    assert_null(wr_algo_name((enum wr_algo)255));
}

static void word_algorithms_are_the_first_four(void **state)
{
    (void)state;
    assert_ptr_equal(wr_word_algo(WR_TOKEN_BUCKET), &wr_token_bucket);
    assert_ptr_equal(wr_word_algo(WR_LEAKY_BUCKET), &wr_leaky_bucket);
    assert_ptr_equal(wr_word_algo(WR_FIXED_WINDOW), &wr_fixed_window);
    assert_ptr_equal(wr_word_algo(WR_SLIDING_WINDOW), &wr_sliding_window);
    assert_null(wr_word_algo(WR_SLIDING_LOG));
    assert_null(wr_word_algo(WR_CONCURRENCY));
    assert_null(wr_word_algo((enum wr_algo)0));
    assert_null(wr_word_algo((enum wr_algo)200));
}

static void units_have_bounds(void **state)
{
    (void)state;
    good(WR_TOKEN_BUCKET, 1000000000000, HOUR, -1);
    bad(WR_TOKEN_BUCKET, 1000000000001, HOUR, -1);
    bad(WR_TOKEN_BUCKET, -1, HOUR, -1);
    good(WR_FIXED_WINDOW, 4294967295, MINUTE, -1);
    bad(WR_FIXED_WINDOW, 4294967296, MINUTE, -1);
    good(WR_SLIDING_WINDOW, 16777215, MINUTE, -1);
    bad(WR_SLIDING_WINDOW, 16777216, MINUTE, -1);
    bad(WR_SLIDING_WINDOW, INT64_MAX, MINUTE, -1);
    good(WR_CONCURRENCY, 10000, 30 * S, -1);
    bad(WR_CONCURRENCY, 10001, 30 * S, -1);
    bad((enum wr_algo)0, 1, S, -1);
    bad((enum wr_algo)7, 1, S, -1);
}

/* An exact log costs a stamp a unit, in memory and perhaps in time: large ones are refused. */
static void exact_log_is_capped(void **state)
{
    (void)state;
    good(WR_SLIDING_LOG, 10000, MINUTE, -1);
    bad(WR_SLIDING_LOG, 10001, MINUTE, -1);
}

/* The faults: more than 1000 a second refused, or nothing limited at all. */
static void high_rates_are_accepted_up_to_one_a_nanosecond(void **state)
{
    (void)state;
    good(WR_TOKEN_BUCKET, 1000000, S, -1);
    good(WR_TOKEN_BUCKET, 1000000000, S, -1);
    good(WR_TOKEN_BUCKET, 999999999, S, -1);
    bad(WR_TOKEN_BUCKET, 1000000001, S, -1);
    good(WR_LEAKY_BUCKET, 999999999, S, 1000000);
    good(WR_TOKEN_BUCKET, 1000000, MS, -1);
    bad(WR_TOKEN_BUCKET, 1000001, MS, -1);
    good(WR_CONCURRENCY, 10000, MS, -1); /* places are not a rate */
}

static void windows_have_bounds(void **state)
{
    (void)state;
    good(WR_TOKEN_BUCKET, 1, MS, -1);
    bad(WR_TOKEN_BUCKET, 1, MS - 1, -1);
    bad(WR_TOKEN_BUCKET, 1, 0, -1);
    bad(WR_TOKEN_BUCKET, 0, 0, -1);
    bad(WR_TOKEN_BUCKET, 1, -S, -1);
    good(WR_TOKEN_BUCKET, 1, 366 * DAY, -1);
    bad(WR_TOKEN_BUCKET, 1, 366 * DAY + 1, -1);
    bad(WR_TOKEN_BUCKET, 1, INT64_MAX, -1);
}

static void burst_defaults(void **state)
{
    struct wr_limit limit;

    (void)state;
    assert_null(make(&limit, WR_TOKEN_BUCKET, 100, HOUR, -1));
    assert_int_equal(limit.burst, 100);
    assert_int_equal(wr_limit_capacity(&limit), 100);
    assert_null(make(&limit, WR_TOKEN_BUCKET, 100, HOUR, 7));
    assert_int_equal(wr_limit_capacity(&limit), 7);
    assert_null(make(&limit, WR_LEAKY_BUCKET, 5, S, -1));
    assert_int_equal(limit.burst, 0);
    assert_int_equal(wr_limit_capacity(&limit), 1);
    assert_null(make(&limit, WR_LEAKY_BUCKET, 5, S, 20));
    assert_int_equal(wr_limit_capacity(&limit), 21);
    assert_null(make(&limit, WR_SLIDING_WINDOW, 600, MINUTE, -1));
    assert_int_equal(wr_limit_capacity(&limit), 600);
}

static void burst_has_bounds(void **state)
{
    (void)state;
    bad(WR_TOKEN_BUCKET, 100, HOUR, 0);
    good(WR_TOKEN_BUCKET, 1000000000, S, 1000000000000);
    bad(WR_TOKEN_BUCKET, 1000000000, S, 1000000000001);
    bad(WR_TOKEN_BUCKET, 1000000000, S, INT64_MAX);
    good(WR_TOKEN_BUCKET, 1, 366 * DAY, 50); /* just as long as a burst may last */
    bad(WR_TOKEN_BUCKET, 1, 366 * DAY, 51);
    good(WR_LEAKY_BUCKET, 1, 366 * DAY, 50);
    bad(WR_LEAKY_BUCKET, 1, 366 * DAY, 51);
    bad(WR_FIXED_WINDOW, 100, HOUR, 5);
    bad(WR_SLIDING_WINDOW, 100, HOUR, 0);
    bad(WR_SLIDING_LOG, 100, HOUR, 5);
    bad(WR_CONCURRENCY, 100, HOUR, 5);
}

/* 0 means "always refuse"; the fault was a division by zero that killed the host. */
static void zero_units_are_a_limit_that_holds_nothing(void **state)
{
    struct wr_limit limit;

    (void)state;
    for (int algo = 1; algo <= WR_ALGO_MAX; algo++) {
        assert_null(make(&limit, (enum wr_algo)algo, 0, S, -1));
        assert_int_equal(wr_limit_capacity(&limit), 0);
    }
    assert_null(make(&limit, WR_TOKEN_BUCKET, 0, S, 5));
    assert_int_equal(wr_limit_capacity(&limit), 0);
    assert_null(make(&limit, WR_LEAKY_BUCKET, 0, S, 5));
    assert_int_equal(wr_limit_capacity(&limit), 0);
}

static int64_t tick_of(int64_t window_ns)
{
    struct wr_limit limit;
    assert_null(make(&limit, WR_SLIDING_LOG, 1, window_ns, -1));
    return limit.tick_ns;
}

/* At most 2^31 = 2147483648 ticks a window, of 1, 2, 4, 5 or 8 times a power of ten. */
static void stamps_are_as_fine_as_31_bits_allow(void **state)
{
    struct wr_limit limit;

    (void)state;
    assert_int_equal(tick_of(MS), 1);
    assert_int_equal(tick_of(S), 1);
    assert_int_equal(tick_of(2 * S), 1);            /* 2.0e9 ticks */
    assert_int_equal(tick_of(3 * S), 2);            /* 1.5e9 */
    assert_int_equal(tick_of(MINUTE), 40);          /* 60e9 / 2^31 = 27.9; no 30 in the series */
    assert_int_equal(tick_of(HOUR), 2000);          /* 1676.4 */
    assert_int_equal(tick_of(DAY), 50000);          /* 40233.1 */
    assert_int_equal(tick_of(366 * DAY), 20000000); /* 14725329.. */
    assert_int_equal(tick_of(2147483647 * MS), 1000000);
    /* A prime number of ms above 2^31 of them has no tick of whole ms. */
    assert_non_null(make(&limit, WR_SLIDING_LOG, 1, 2147483659 * MS, -1));
    assert_non_null(make(&limit, WR_SLIDING_LOG, 1, 3 * S + 1, -1)); /* an odd number of ns */
}

static void counts_have_room_above_the_limit(void **state)
{
    struct wr_limit limit;

    (void)state;
    assert_null(make(&limit, WR_FIXED_WINDOW, 100, S, -1));
    assert_int_equal(limit.count_bits, 11); /* 100 is 7 bits; 2047 = 20 * 100 */
    assert_null(make(&limit, WR_FIXED_WINDOW, 4294967295, MINUTE, -1));
    assert_int_equal(limit.count_bits, 36);
    assert_null(make(&limit, WR_SLIDING_WINDOW, 100, S, -1));
    assert_int_equal(limit.count_bits, 11);
    assert_null(make(&limit, WR_SLIDING_WINDOW, 100000, S, -1)); /* 17 bits */
    assert_int_equal(limit.count_bits, 20);
    assert_null(make(&limit, WR_SLIDING_WINDOW, 16777215, S, -1)); /* 24 bits */
    assert_int_equal(limit.count_bits, 25);
}

/* A class from a damaged arena may hold any bytes. */
static void altered_limits_are_not_valid(void **state)
{
    struct wr_limit limit, altered;

    (void)state;
    assert_null(make(&limit, WR_TOKEN_BUCKET, 3, S, 5));
    for (size_t bit = 0; bit < 8 * sizeof limit; bit++) {
        unsigned char *bytes = (unsigned char *)&altered;
        altered = limit;
        bytes[bit / 8] = (unsigned char)(bytes[bit / 8] ^ (1U << bit % 8));
        if (altered.units != limit.units || altered.window_ns != limit.window_ns ||
            altered.burst != limit.burst || altered.count_denied != limit.count_denied)
            continue; /* another limit, perhaps a valid one */
        assert_false(wr_limit_valid(&altered));
    }
    memset(&altered, 0, sizeof altered);
    assert_false(wr_limit_valid(&altered));
    memset(&altered, 0xff, sizeof altered);
    assert_false(wr_limit_valid(&altered));
    altered = limit;
    altered.scale.den = 0;
    assert_false(wr_limit_valid(&altered));
    altered = limit;
    altered.burst = -1; /* "the default", but not in a made limit */
    assert_false(wr_limit_valid(&altered));
    altered = limit;
    altered.count_denied = 2;
    assert_false(wr_limit_valid(&altered));
}

static void used_of_what_is_no_word_is_nothing(void **state)
{
    struct wr_limit limit;

    (void)state;
    assert_null(make(&limit, WR_SLIDING_LOG, 1, S, -1));
    assert_int_equal(wr_word_used_q32(&limit, UINT64_MAX, 0), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(word_algorithms_are_the_first_four),
        cmocka_unit_test(units_have_bounds),
        cmocka_unit_test(exact_log_is_capped),
        cmocka_unit_test(high_rates_are_accepted_up_to_one_a_nanosecond),
        cmocka_unit_test(windows_have_bounds),
        cmocka_unit_test(burst_defaults),
        cmocka_unit_test(burst_has_bounds),
        cmocka_unit_test(zero_units_are_a_limit_that_holds_nothing),
        cmocka_unit_test(stamps_are_as_fine_as_31_bits_allow),
        cmocka_unit_test(counts_have_room_above_the_limit),
        cmocka_unit_test(altered_limits_are_not_valid),
        cmocka_unit_test(used_of_what_is_no_word_is_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
