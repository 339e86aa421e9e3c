/* breaker.c - the breaker at moments worked out by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/breaker.h"

#define MS WR_NS_PER_MS

static struct wr_breaker fresh(void)
{
    struct wr_breaker breaker;

    wr_breaker_init(&breaker, 42);
    return breaker;
}

static void test_five_in_a_row_open_it(void **state)
{
    struct wr_breaker breaker = fresh();
    (void)state;

    for (int i = 0; i < 4; i++)
        wr_breaker_failed(&breaker, i * MS);
    assert_true(wr_breaker_closed(&breaker));
    wr_breaker_succeeded(&breaker, 4 * MS); /* the row begins anew */
    for (int i = 5; i < 9; i++)
        wr_breaker_failed(&breaker, i * MS);
    assert_true(wr_breaker_closed(&breaker));
    wr_breaker_failed(&breaker, 9 * MS);
    assert_false(wr_breaker_closed(&breaker));
}

static void test_half_of_a_span_opens_it(void **state)
{
    struct wr_breaker breaker = fresh();
    (void)state;

    /* 1 of 2 fails, one after the other: never five in a row. 18 calls say nothing yet; the 19th
     * succeeds; the 20th fails, and 10 of 20 is half. */
    for (int i = 0; i < 9; i++) {
        wr_breaker_succeeded(&breaker, i * MS);
        wr_breaker_failed(&breaker, i * MS);
    }
    wr_breaker_succeeded(&breaker, 9 * MS);
    assert_true(wr_breaker_closed(&breaker));
    wr_breaker_failed(&breaker, 10 * MS);
    assert_false(wr_breaker_closed(&breaker));
}

static void test_a_span_is_forgotten(void **state)
{
    struct wr_breaker breaker = fresh();
    (void)state;

    for (int i = 0; i < 9; i++) {
        wr_breaker_succeeded(&breaker, 0);
        wr_breaker_failed(&breaker, 0);
    }
    /* A second later a new span begins: 1 of 1, 1 of 2, …: too few to say anything. */
    for (int i = 0; i < 9; i++) {
        wr_breaker_failed(&breaker, 1000 * MS);
        wr_breaker_succeeded(&breaker, 1000 * MS);
    }
    assert_true(wr_breaker_closed(&breaker));
}

/* Trip it at |now|: how long the pause is. */
static int64_t pause_after(struct wr_breaker *breaker, int64_t now)
{
    wr_breaker_trip(breaker, now);
    assert_false(wr_breaker_closed(breaker));
    return wr_breaker_wait_ns(breaker, now);
}

static void test_pauses_double_up_to_five_seconds(void **state)
{
    /* Half of 200 ms << n, and up to as much again. */
    static const int64_t least_ms[] = {100, 200, 400, 800, 1600, 2500, 2500, 2500};
    (void)state;

    for (uint64_t seed = 0; seed < 200; seed++) {
        struct wr_breaker breaker;
        int64_t now = 0;
        wr_breaker_init(&breaker, seed);
        for (unsigned i = 0; i < sizeof least_ms / sizeof least_ms[0]; i++) {
            int64_t pause = pause_after(&breaker, now);
            assert_in_range(pause, least_ms[i] * MS, 2 * least_ms[i] * MS);
            assert_false(wr_breaker_probe(&breaker, now + pause - 1));
            assert_true(wr_breaker_probe(&breaker, now + pause));
            assert_false(wr_breaker_probe(&breaker, now + pause)); /* one at a time */
            assert_int_equal(wr_breaker_wait_ns(&breaker, now + pause), 0);
            now += pause;
        }
    }
}

static void test_seeds_differ(void **state)
{
    struct wr_breaker a, b;
    (void)state;

    wr_breaker_init(&a, 1);
    wr_breaker_init(&b, 2);
    assert_int_not_equal(pause_after(&a, 0), pause_after(&b, 0));
}

static void test_on_trial_one_failure_is_enough(void **state)
{
    struct wr_breaker breaker = fresh();
    int64_t now = pause_after(&breaker, 0);
    (void)state;

    assert_true(wr_breaker_probe(&breaker, now));
    wr_breaker_succeeded(&breaker, now); /* the probe */
    assert_true(wr_breaker_closed(&breaker));
    wr_breaker_failed(&breaker, now);
    assert_false(wr_breaker_closed(&breaker));
    assert_in_range(wr_breaker_wait_ns(&breaker, now), 200 * MS, 400 * MS);
}

static void test_after_a_success_all_is_forgotten(void **state)
{
    struct wr_breaker breaker = fresh();
    int64_t now = pause_after(&breaker, 0);
    (void)state;

    assert_true(wr_breaker_probe(&breaker, now));
    wr_breaker_succeeded(&breaker, now); /* the probe */
    wr_breaker_succeeded(&breaker, now); /* a call */
    wr_breaker_failed(&breaker, now);
    assert_true(wr_breaker_closed(&breaker));
    assert_in_range(pause_after(&breaker, now), 100 * MS, 200 * MS);
}

static void test_a_failed_probe_opens_it_for_longer(void **state)
{
    struct wr_breaker breaker = fresh();
    int64_t now = pause_after(&breaker, 0);
    (void)state;

    assert_true(wr_breaker_probe(&breaker, now));
    wr_breaker_failed(&breaker, now);
    assert_in_range(wr_breaker_wait_ns(&breaker, now), 200 * MS, 400 * MS);
}

static void test_what_comes_late_changes_nothing(void **state)
{
    struct wr_breaker breaker = fresh();
    int64_t pause = pause_after(&breaker, 0);
    (void)state;

    wr_breaker_succeeded(&breaker, 1);
    wr_breaker_failed(&breaker, 2);
    wr_breaker_trip(&breaker, 3);
    assert_false(wr_breaker_closed(&breaker));
    assert_int_equal(wr_breaker_wait_ns(&breaker, 0), pause);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_five_in_a_row_open_it),
        cmocka_unit_test(test_half_of_a_span_opens_it),
        cmocka_unit_test(test_a_span_is_forgotten),
        cmocka_unit_test(test_pauses_double_up_to_five_seconds),
        cmocka_unit_test(test_seeds_differ),
        cmocka_unit_test(test_on_trial_one_failure_is_enough),
        cmocka_unit_test(test_after_a_success_all_is_forgotten),
        cmocka_unit_test(test_a_failed_probe_opens_it_for_longer),
        cmocka_unit_test(test_what_comes_late_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
