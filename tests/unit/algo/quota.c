/* quota.c - quotas by the civil day in Istanbul (+3 h): 2024-01-15 is day 19737, and begins there
 * at 2024-01-14T21:00:00Z. */
#include "algo/quota.h"

#include "base/zone.h"
#include "subject.h"

#define TODAY 19737
#define BEGIN (INT64_C(19736) * DAY + 21 * HOUR)

static struct wr_quota_rule rule_of(int64_t limit, int64_t most, bool overage)
{
    char why[100];
    const struct wr_zone *zone = wr_zone_find("Europe/Istanbul", why, sizeof why);

    if (zone == NULL)
        fail_msg("%s", why);
    return (struct wr_quota_rule){
        .civil = {.zone = wr_zone_id(zone), .per = WR_PER_DAY, .anchor = 1},
        .limit = limit,
        .most = most,
        .overage = overage,
    };
}

static struct wr_quota_take take(const struct wr_quota_rule *rule, struct wr_quota_state *state,
                                 int64_t now_ns, int64_t cost)
{
    struct wr_quota_take out;

    wr_quota_take(rule, *state, now_ns, cost, &out);
    *state = out.state;
    return out;
}

static void expect_state(struct wr_quota_state state, int32_t day, int64_t units, int64_t over)
{
    assert_int_equal(wr_quota_units(state), units);
    assert_int_equal(state.over, over);
    if (units > 0)
        assert_int_equal(wr_quota_day(state, TODAY), day);
}

static void a_hard_cap(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 10, false);
    struct wr_quota_state s = {0, 0};
    struct wr_quota_take t;
    (void)state;

    t = take(&rule, &s, BEGIN, 7);
    assert_true(t.take.allowed);
    assert_int_equal(t.take.remaining, 3);
    assert_int_equal(t.day, TODAY);
    t = take(&rule, &s, BEGIN + HOUR, 4);
    assert_false(t.take.allowed);
    assert_int_equal(t.take.remaining, 3);
    assert_int_equal(t.take.retry_after_ns, 23 * HOUR);
    expect_state(s, TODAY, 7, 0);
    t = take(&rule, &s, BEGIN + HOUR, 11); /* more than it ever has */
    assert_true(!t.take.allowed && t.take.never);
    assert_int_equal(t.take.retry_after_ns, 0);
    t = take(&rule, &s, BEGIN + DAY - 1, 3);
    assert_true(t.take.allowed);
    assert_int_equal(t.take.remaining, 0);
    t = take(&rule, &s, BEGIN + DAY, 1); /* the next day */
    assert_true(t.take.allowed && t.rolled);
    assert_int_equal(t.day, TODAY + 1);
    expect_state(s, TODAY + 1, 1, 0);
}

static void a_look(void **state)
{
    struct wr_quota_rule rule = rule_of(5, 5, false);
    struct wr_quota_state s = wr_quota_state(TODAY, 5, 0);
    struct wr_quota_take t = take(&rule, &s, BEGIN, 0);
    (void)state;

    assert_true(t.take.allowed);
    assert_int_equal(t.take.remaining, 0);
    expect_state(s, TODAY, 5, 0);
    t = take(&rule, &s, BEGIN + 3 * DAY, 0);
    assert_int_equal(t.take.remaining, 5);
    expect_state(s, TODAY, 5, 0); /* what was used that day stays to be read */
}

static void overage_up_to_a_ceiling(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 15, true);
    struct wr_quota_state s = {0, 0};
    struct wr_quota_take t;
    (void)state;

    t = take(&rule, &s, BEGIN, 8);
    assert_int_equal(t.over_units, 0);
    t = take(&rule, &s, BEGIN, 4); /* two are included, two are not */
    assert_true(t.take.allowed);
    assert_int_equal(t.over_units, 2);
    assert_int_equal(t.take.remaining, 0);
    t = take(&rule, &s, BEGIN, 3);
    assert_int_equal(t.over_units, 3);
    expect_state(s, TODAY, 15, 5);
    assert_false(take(&rule, &s, BEGIN, 1).take.allowed);
    rule.limit = 20; /* a larger plan: what was metered stays metered */
    rule.most = 20;
    assert_int_equal(take(&rule, &s, BEGIN, 5).over_units, 0);
    expect_state(s, TODAY, 20, 5);
}

static void grace_is_not_metered(void **state)
{
    struct wr_quota_rule rule = rule_of(100, 105, false);
    struct wr_quota_state s = wr_quota_state(TODAY, 99, 0);
    (void)state;

    assert_int_equal(take(&rule, &s, BEGIN, 6).over_units, 0);
    expect_state(s, TODAY, 105, 0);
    assert_false(take(&rule, &s, BEGIN, 1).take.allowed);
}

static void forced(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 10, true);
    struct wr_quota_state s = wr_quota_state(TODAY, 9, 0);
    struct wr_quota_take t;
    (void)state;

    wr_quota_force(&rule, s, BEGIN, 5, &t);
    expect_state(t.state, TODAY, 14, 4);
    assert_int_equal(t.over_units, 4);
}

static void given_back(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 20, true);
    struct wr_quota_state s = wr_quota_state(TODAY, 14, 4);
    (void)state;

    s = wr_quota_refund(&rule, s, 3, 3);
    expect_state(s, TODAY, 11, 1);
    s = wr_quota_refund(&rule, s, 11, 1);
    assert_true(s.used == 0 && s.over == 0);
    s = wr_quota_refund(&rule, s, 1, 1); /* more than there is */
    assert_true(s.used == 0 && s.over == 0);
}

/* 8 within the limit, then 2 and 4 beyond it; the 8 are given back, all or some. */
static void what_was_beyond_moves_within(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 20, true);
    struct wr_quota_state s = wr_quota_state(TODAY, 14, 4);
    (void)state;

    expect_state(wr_quota_refund(&rule, s, 8, 0), TODAY, 6, 0);
    expect_state(wr_quota_refund(&rule, s, 4, 0), TODAY, 10, 0);
    expect_state(wr_quota_refund(&rule, s, 3, 0), TODAY, 11, 1);
    expect_state(wr_quota_refund(&rule, s, 6, 4), TODAY, 8, 0);
}

/* 20 beyond the 50 of a plan; the next one includes 1000, or meters nothing, or includes 10. */
static void overage_of_another_plan_stays(void **state)
{
    struct wr_quota_rule larger = rule_of(1000, 2000, true), capped = rule_of(100, 100, false);
    struct wr_quota_rule smaller = rule_of(10, 2000, true);
    (void)state;

    expect_state(wr_quota_refund(&larger, wr_quota_state(TODAY, 170, 20), 100, 0), TODAY, 70, 20);
    expect_state(wr_quota_refund(&capped, wr_quota_state(TODAY, 90, 20), 20, 0), TODAY, 70, 20);
    expect_state(wr_quota_refund(&smaller, wr_quota_state(TODAY, 75, 25), 5, 5), TODAY, 70, 20);
}

static void a_clock_that_was_set_back(void **state)
{
    struct wr_quota_rule rule = rule_of(10, 10, false);
    struct wr_quota_state s = wr_quota_state(TODAY + 1, 4, 0);
    struct wr_quota_take t = take(&rule, &s, BEGIN + DAY - 1, 5);
    (void)state;

    assert_true(t.take.allowed); /* by a little: tomorrow's count goes on */
    assert_int_equal(t.day, TODAY + 1);
    expect_state(s, TODAY + 1, 9, 0);
    assert_int_equal(take(&rule, &s, BEGIN + DAY - 1, 5).take.retry_after_ns, DAY + 1);
    s = wr_quota_state(TODAY + 5, 4, 1);
    t = take(&rule, &s, BEGIN, 0); /* by days: the count comes along */
    assert_int_equal(t.take.remaining, 6);
    expect_state(s, TODAY, 4, 1);
}

static void counts_at_their_bound(void **state)
{
    struct wr_quota_rule rule = rule_of(WR_QUOTA_UNITS_MAX, INT64_MAX, true);
    struct wr_quota_state s = wr_quota_state(TODAY, (int64_t)WR_QUOTA_COUNT_MAX - 1, 0);
    struct wr_quota_take t = take(&rule, &s, BEGIN, 1);
    (void)state;

    assert_true(t.take.allowed);
    t = take(&rule, &s, BEGIN, 1); /* refused rather than lost */
    assert_false(t.take.allowed);
    expect_state(s, TODAY, (int64_t)WR_QUOTA_COUNT_MAX, 1);
}

/* A fixed window of the arena in the same windows: the day of 23 hours in New York, 2024-03-10. */
static void a_limit_by_civil_days(void **state)
{
    char why[100];
    const struct wr_zone *zone = wr_zone_find("America/New_York", why, sizeof why);
    const int64_t begin = INT64_C(19792) * DAY + 5 * HOUR;
    struct wr_civil civil = {.per = WR_PER_DAY, .anchor = 1};
    struct subject s = {.state = 0};
    (void)state;

    assert_non_null(zone);
    civil.zone = wr_zone_id(zone);
    assert_null(wr_limit_make_civil(&s.limit, &civil, 3, false));
    assert_true(wr_limit_valid(&s.limit));
    expect(&s, begin - 1, 3, true, 0, 0, 0);
    expect(&s, begin - 1, 1, false, 0, 1, 0);
    expect(&s, begin, 2, true, 1, 0, 0);
    expect(&s, begin + HOUR, 2, false, 1, 22 * HOUR, 0);
    expect(&s, begin + 23 * HOUR, 3, true, 0, 0, 0);
    civil.anchor = 2;
    assert_non_null(wr_limit_make_civil(&s.limit, &civil, 3, false));
    civil.anchor = 1;
    assert_non_null(wr_limit_make_civil(&s.limit, &civil, WR_CIVIL_UNITS_MAX + 1, false));
    assert_null(wr_limit_make_civil(&s.limit, &civil, WR_CIVIL_UNITS_MAX, true));
    assert_true(wr_limit_valid(&s.limit));
    s.limit.civil.zero[3] = 1;
    assert_false(wr_limit_valid(&s.limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hard_cap),
        cmocka_unit_test(a_look),
        cmocka_unit_test(overage_up_to_a_ceiling),
        cmocka_unit_test(grace_is_not_metered),
        cmocka_unit_test(forced),
        cmocka_unit_test(given_back),
        cmocka_unit_test(what_was_beyond_moves_within),
        cmocka_unit_test(overage_of_another_plan_stays),
        cmocka_unit_test(a_clock_that_was_set_back),
        cmocka_unit_test(counts_at_their_bound),
        cmocka_unit_test(a_limit_by_civil_days),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
