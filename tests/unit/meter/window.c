/* window.c - the last days of windows, by the calendar; and the moments at which those are over. */
#include "fixture.h"

#include "algo/civil.h"
#include "base/units.h"
#include "meter/window.h"

static void assert_last(unsigned month, unsigned date, uint8_t anchor, unsigned last_month,
                        unsigned last_date)
{
    int32_t day = wr_civil_day_of(2026, month, date);

    assert_int_equal(wr_window_last_day(WR_PER_MONTH, day, anchor),
                     wr_civil_day_of(2026, last_month, last_date));
}

static void days_and_weeks(void **state)
{
    (void)state;
    assert_int_equal(wr_window_last_day(WR_PER_DAY, 20000, 15), 20000);
    assert_int_equal(wr_window_last_day(WR_PER_WEEK, 20000, 15), 20006);
}

static void months(void **state)
{
    (void)state;
    assert_last(11, 1, 0, 11, 30);
    assert_last(11, 1, 15, 11, 30); /* the anchor was another then */
    assert_last(10, 15, 15, 11, 14);
    assert_last(10, 15, 0, 11, 14);
    assert_last(1, 31, 31, 2, 27);
}

/* The last of a short month: which anchor? */
static void last_days_of_months(void **state)
{
    (void)state;
    assert_last(11, 30, 30, 12, 29);
    assert_last(11, 30, 31, 12, 30);
    assert_last(11, 30, 0, 12, 30);
    assert_last(11, 30, 5, 12, 30);
    assert_last(2, 28, 28, 3, 27);
    assert_last(2, 28, 29, 3, 28);
    assert_last(2, 28, 0, 3, 30);
}

static void moments(void **state)
{
    (void)state;
    assert_int_equal(wr_window_end_ns(9, "UTC"), 10 * WR_NS_PER_DAY);
    assert_int_equal(wr_window_end_ns(20000, "Asia/Tokyo"),
                     20001 * WR_NS_PER_DAY - 9 * WR_NS_PER_HOUR);
    assert_int_equal(wr_window_end_ns(9, "Nowhere/At_all"), 10 * WR_NS_PER_DAY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(days_and_weeks),
        cmocka_unit_test(months),
        cmocka_unit_test(last_days_of_months),
        cmocka_unit_test(moments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
