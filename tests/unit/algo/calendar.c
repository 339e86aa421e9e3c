/* calendar.c - weeks, months and years of the calendar; days since the epoch by hand. */
#include "subject.h"

#define DAYS(n) (INT64_C(n) * DAY)

static void expect_period(enum wr_calendar calendar, int64_t at, uint64_t index, int64_t start,
                          int64_t end)
{
    struct wr_period p = wr_calendar_at(calendar, at);

    assert_int_equal(p.index, index);
    assert_int_equal(p.start_ns, start);
    assert_int_equal(p.end_ns, end);
}

static void months(void **state)
{
    (void)state;
    expect_period(WR_CALENDAR_MONTH, 0, 0, 0, DAYS(31));
    expect_period(WR_CALENDAR_MONTH, DAYS(31) - 1, 0, 0, DAYS(31));
    expect_period(WR_CALENDAR_MONTH, DAYS(31), 1, DAYS(31), DAYS(59)); /* February 1970 */
    expect_period(WR_CALENDAR_MONTH, DAYS(59), 2, DAYS(59), DAYS(90));
    /* 2024-02-29T12:00:00Z: a leap day; 2024-02-01 is day 19754, and 2024-03-01 day 19783. */
    expect_period(WR_CALENDAR_MONTH, DAYS(19782) + 12 * HOUR, 54 * 12 + 1, DAYS(19754),
                  DAYS(19783));
    /* 2100 has no leap day: February begins on day 47513 and has 28. */
    expect_period(WR_CALENDAR_MONTH, DAYS(47540), 130 * 12 + 1, DAYS(47513), DAYS(47541));
}

static void weeks_begin_on_mondays(void **state)
{
    (void)state;
    expect_period(WR_CALENDAR_WEEK, 0, 0, DAYS(-3), DAYS(4)); /* a Thursday */
    expect_period(WR_CALENDAR_WEEK, DAYS(4) - 1, 0, DAYS(-3), DAYS(4));
    expect_period(WR_CALENDAR_WEEK, DAYS(4), 1, DAYS(4), DAYS(11));
    /* 2023-11-15 (day 19676) is a Wednesday: its Monday is day 19674. */
    expect_period(WR_CALENDAR_WEEK, MIDNIGHT, 2811, DAYS(19674), DAYS(19681));
}

static void years(void **state)
{
    (void)state;
    expect_period(WR_CALENDAR_YEAR, DAYS(364), 0, 0, DAYS(365));
    expect_period(WR_CALENDAR_YEAR, DAYS(365), 1, DAYS(365), DAYS(730));
    expect_period(WR_CALENDAR_YEAR, MIDNIGHT, 53, DAYS(19358), DAYS(19723)); /* 2023 */
}

/* Each day belongs to the period that it should, from 1970 to 2200: they follow without a gap. */
static void periods_follow_each_other(void **state)
{
    (void)state;
    for (int calendar = WR_CALENDAR_WEEK; calendar <= WR_CALENDAR_MAX; calendar++) {
        struct wr_period last = wr_calendar_at((enum wr_calendar)calendar, 0);
        for (int64_t day = 0; day <= WR_TIME_MAX_NS / DAY; day++) {
            struct wr_period p = wr_calendar_at((enum wr_calendar)calendar, day * DAY);
            assert_true(p.start_ns <= day * DAY && day * DAY < p.end_ns);
            assert_true(p.end_ns - p.start_ns <=
                        wr_calendar_longest_ns((enum wr_calendar)calendar));
            if (p.index != last.index) {
                assert_int_equal(p.index, last.index + 1);
                assert_int_equal(p.start_ns, last.end_ns);
            }
            last = p;
        }
    }
}

static struct subject monthly(int64_t units)
{
    struct subject s = {.state = 0};

    assert_null(wr_limit_make_calendar(&s.limit, WR_CALENDAR_MONTH, units, false));
    assert_true(wr_limit_valid(&s.limit));
    return s;
}

/* 2023-11-15 to the first of December: 16 days. */
static void a_month_ends_with_the_month(void **state)
{
    struct subject s = monthly(3);

    (void)state;
    expect(&s, MIDNIGHT, 2, true, 1, 0, 0);
    expect(&s, MIDNIGHT, 2, false, 1, 16 * DAY, 0);
    expect(&s, MIDNIGHT + 16 * DAY - 1, 2, false, 1, 1, 0);
    expect(&s, MIDNIGHT + 16 * DAY, 2, true, 1, 0, 0);
    /* A thread that read the clock a moment before: counted in December. */
    expect(&s, MIDNIGHT + 16 * DAY - 1, 1, true, 0, 0, 0);
    expect(&s, MIDNIGHT + 16 * DAY, 1, false, 0, 31 * DAY, 0);
}

static void a_month_is_not_a_window_of_31_days(void **state)
{
    struct subject s = monthly(3);
    struct wr_limit other;

    (void)state;
    assert_null(wr_limit_make(&other, WR_FIXED_WINDOW, 3, 31 * DAY, -1, false));
    assert_memory_not_equal(&s.limit, &other, sizeof other);
    expect(&s, MIDNIGHT, 2, true, 1, 0, 0);
    s.state = wr_fixed_window.carry(&other, &s.limit, s.state, MIDNIGHT); /* counts go along */
    s.limit = other;
    expect(&s, MIDNIGHT, 1, true, 0, 0, 0);
    other.calendar = WR_CALENDAR_MAX + 1;
    assert_false(wr_limit_valid(&other));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(months),
        cmocka_unit_test(weeks_begin_on_mondays),
        cmocka_unit_test(years),
        cmocka_unit_test(periods_follow_each_other),
        cmocka_unit_test(a_month_ends_with_the_month),
        cmocka_unit_test(a_month_is_not_a_window_of_31_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
