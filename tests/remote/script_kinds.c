/* script_kinds.c - what only some algorithms have: leases, windows of the calendar, lists of stamps
 * and places, and what is kept when a limit changes. Worked out by hand. */
#include <string.h>

#include "store.h"

#define NOW (INT64_C(1700006400) * WR_NS_PER_S) /* 2023-11-15T00:00:00Z, a Wednesday */
#define S WR_NS_PER_S
#define HOUR WR_NS_PER_HOUR
#define DAY WR_NS_PER_DAY

static struct store store;
static uint64_t callers;

static struct wr_limit limit_of(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, burst, false));
    return limit;
}

static int64_t left(struct wr_remote_charge charge, int64_t now_ns)
{
    charge.cost = charge.extra = 0;
    assert_true(store_take(&store, &charge, 1, 0, now_ns));
    return charge.remaining;
}

/* ---- leases -------------------------------------------------------------------------------- */

static struct wr_remote_charge lease(const struct wr_limit *limit, int64_t cost, int64_t extra)
{
    struct wr_remote_charge charge = store_charge(limit, "lease", callers, cost);

    charge.extra = extra;
    charge.ttl_ns = S;
    return charge;
}

/* 100 in an hour: a second is less than a unit, so the bucket holds 99 at the store. 1 is taken, of
 * the 98 that are left a node of two gets a quarter, 24. */
static void a_bucket_grants_half_of_what_is_left_over_the_nodes(void **state)
{
    struct wr_limit limit = limit_of(WR_TOKEN_BUCKET, 100, HOUR, -1);
    struct wr_remote_charge charge;

    (void)state;
    callers++;
    store.ask.nodes = 2;
    charge = lease(&limit, 1, 1000);
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_true(charge.granted == 24 && charge.remaining == 74 && charge.lease_ns == S);
    charge = lease(&limit, 1, 10); /* as many as wanted */
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_true(charge.granted == 10 && charge.remaining == 63);
    store.ask.nodes = 100; /* half of a unit each: none */
    charge = lease(&limit, 1, 10);
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_true(charge.granted == 0 && charge.remaining == 62 && charge.lease_ns == 0);
    store.ask.nodes = 1;
}

/* 100 a second, burst 1000, leases of a second: at the store 900. */
static void leases_lower_the_capacity_of_a_bucket(void **state)
{
    struct wr_limit limit = limit_of(WR_TOKEN_BUCKET, 100, S, 1000);
    struct wr_remote_charge charge;

    (void)state;
    callers++;
    assert_int_equal(wr_script_capacity(&limit, S), 900);
    assert_int_equal(wr_script_capacity(&limit, S / 1000 + 1), 999);
    assert_int_equal(wr_script_capacity(&limit, 0), 1000);
    charge = lease(&limit, 901, 0);
    assert_false(store_take(&store, &charge, 1, 0, NOW));
    assert_true(charge.never && charge.remaining == 900);
    charge = lease(&limit, 900, 0);
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    charge = lease(&limit, 900, 0);
    assert_false(store_take(&store, &charge, 1, 0, NOW + S));
    assert_true(charge.remaining == 100 && charge.retry_after_ns == 8 * S);
}

/* Units of a window are void at its end. */
static void windows_grant_until_their_end(void **state)
{
    enum wr_algo algos[] = {WR_FIXED_WINDOW, WR_SLIDING_WINDOW};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct wr_limit limit = limit_of(algos[i], 100, 60 * S, -1);
        struct wr_remote_charge charge;
        int64_t granted = 0;

        callers++;
        charge = lease(&limit, 1, 50);
        assert_true(store_take(&store, &charge, 1, 0, NOW + 10 * S));
        assert_true(charge.granted == 49 && charge.remaining == 50 && charge.lease_ns == S);
        assert_int_equal(left(charge, NOW + 10 * S), 50);
        while (charge.remaining > 0) {
            charge = lease(&limit, 1, 50);
            assert_true(store_take(&store, &charge, 1, 0, NOW + 60 * S - S / 4));
            assert_int_equal(charge.lease_ns, charge.granted > 0 ? S / 4 : 0);
            granted += charge.granted;
        }
        assert_true(granted < 50);
        charge = lease(&limit, 1, 50);
        assert_false(store_take(&store, &charge, 1, 0, NOW + 60 * S - S / 4));
        assert_true(charge.granted == 0 && charge.remaining == 0);
    }
}

/* Refused with another limit, nothing is granted; and only three algorithms grant at all. */
static void nothing_is_granted_for_a_refusal(void **state)
{
    struct wr_limit grants = limit_of(WR_FIXED_WINDOW, 100, 60 * S, -1);
    struct wr_limit refuses = limit_of(WR_TOKEN_BUCKET, 0, 60 * S, -1);
    struct wr_limit log = limit_of(WR_SLIDING_LOG, 100, 60 * S, -1);
    struct wr_remote_charge charges[2];

    (void)state;
    callers++;
    charges[0] = lease(&grants, 1, 50);
    charges[1] = store_charge(&refuses, "refuses", callers, 1);
    assert_false(store_take(&store, charges, 2, 0, NOW));
    assert_true(charges[0].granted == 0 && charges[0].allowed && charges[0].remaining == 99);
    assert_int_equal(left(charges[0], NOW), 100);
    charges[0] = lease(&log, 1, 50);
    charges[0].name = "log";
    assert_true(store_take(&store, charges, 1, 0, NOW));
    assert_true(charges[0].granted == 0 && charges[0].remaining == 99);
}

/* ---- windows of the calendar --------------------------------------------------------------- */

static void months_begin_on_the_first(void **state)
{
    struct wr_limit limit;
    struct wr_remote_charge charge;
    int64_t december = NOW + 16 * DAY;

    (void)state;
    assert_null(wr_limit_make_calendar(&limit, WR_CALENDAR_MONTH, 5, false));
    charge = store_charge(&limit, "month", ++callers, 5);
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_true(charge.remaining == 0 && charge.reset_ns == 16 * DAY);
    charge.cost = 1;
    assert_false(store_take(&store, &charge, 1, 0, december - WR_NS_PER_US));
    assert_int_equal(charge.retry_after_ns, WR_NS_PER_US);
    assert_true(store_take(&store, &charge, 1, 0, december));
    assert_true(charge.remaining == 4 && charge.reset_ns == 31 * DAY);
    /* Back in November: December counts on. Back in October: its count is moved there. */
    charge.cost = 0;
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_int_equal(charge.remaining, 4);
    assert_true(store_take(&store, &charge, 1, 0, NOW - 20 * DAY));
    assert_true(charge.remaining == 4 && charge.reset_ns == 6 * DAY);
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_int_equal(charge.remaining, 5);
}

/* Who asks thinks it is a year ago: the script does not decide, but says what time it is. */
static void boundaries_that_do_not_hold_are_said(void **state)
{
    struct wr_limit limit;
    struct wr_remote_charge charge;
    struct wr_script_answer answer;

    (void)state;
    assert_null(wr_limit_make_calendar(&limit, WR_CALENDAR_WEEK, 5, false));
    charge = store_charge(&limit, "week", ++callers, 1);
    store.ask.moment_us = NOW / WR_NS_PER_US;
    store.ask.about_ns = NOW - 366 * DAY;
    assert_int_equal(store_call(&store, WR_SCRIPT_TAKE, &charge, 1, 0, &answer), WR_SCRIPT_DONE);
    assert_true(answer.passed && answer.now_ns == NOW && store.ask.about_ns == NOW);
    assert_true(charge.remaining == 4 && charge.reset_ns == 5 * DAY);
    store.ask.about_ns = NOW - 7 * DAY; /* the next one it was told of */
    assert_int_equal(store_call(&store, WR_SCRIPT_TAKE, &charge, 1, 0, &answer), WR_SCRIPT_DONE);
    assert_true(charge.remaining == 3 && store.ask.about_ns == NOW - 7 * DAY);
}

/* ---- lists of stamps ----------------------------------------------------------------------- */

static void a_log_forgets_what_is_a_window_old(void **state)
{
    struct wr_limit limit = limit_of(WR_SLIDING_LOG, 3000, 60 * S, -1);
    struct wr_remote_charge charge = store_charge(&limit, "log", ++callers, 1), first;

    (void)state;
    for (int64_t i = 0; i < 100; i++) {
        charge.cost = 1 + i % 10;
        assert_true(store_take(&store, &charge, 1, 0, NOW + i * S / 10)); /* 550 in 10 s */
    }
    first = charge; /* 10 at 9.9 s */
    charge.cost = 2450;
    assert_true(store_take(&store, &charge, 1, 0, NOW + 20 * S));
    assert_int_equal(charge.remaining, 0);
    charge.cost = 1;
    assert_false(store_take(&store, &charge, 1, 0, NOW + 20 * S));
    assert_int_equal(charge.retry_after_ns, 40 * S);
    charge.cost = 56; /* 55 age out until 60.9 s, the next at 61 s */
    assert_false(store_take(&store, &charge, 1, 0, NOW + 20 * S));
    assert_int_equal(charge.retry_after_ns, 41 * S);
    assert_int_equal(left(charge, NOW + 65 * S), 5 * 55 + 1);
    store_do(&store, WR_SCRIPT_REFUND, &first, 1, NOW + 65 * S);
    assert_int_equal(left(charge, NOW + 65 * S), 5 * 55 + 1 + 10);
    charge.cost = 1;
    assert_true(store_take(&store, &charge, 1, 0, NOW + 65 * S));
    assert_int_equal(left(charge, NOW + 79 * S), 549 + 0);
    assert_int_equal(left(charge, NOW + 80 * S), 2999);
    assert_int_equal(left(charge, NOW + 125 * S), 3000);
}

/* By a second time stands still; by days, the stamps are of now. */
static void a_log_is_not_locked_by_a_clock_set_back(void **state)
{
    struct wr_limit limit = limit_of(WR_SLIDING_LOG, 2, 60 * S, -1);
    struct wr_remote_charge charge = store_charge(&limit, "log", ++callers, 1);

    (void)state;
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_true(store_take(&store, &charge, 1, 0, NOW - S / 2));
    assert_int_equal(charge.receipt[0], NOW / WR_NS_PER_US);
    assert_false(store_take(&store, &charge, 1, 0, NOW - S));
    assert_int_equal(charge.retry_after_ns, 61 * S);
    assert_false(store_take(&store, &charge, 1, 0, NOW - 5 * DAY));
    assert_int_equal(charge.retry_after_ns, 60 * S);
    assert_false(store_take(&store, &charge, 1, 0, NOW - 5 * DAY + 59 * S));
    assert_true(store_take(&store, &charge, 1, 0, NOW - 5 * DAY + 60 * S));
}

static void places_are_given_back_by_name(void **state)
{
    struct wr_limit limit = limit_of(WR_CONCURRENCY, 2, 30 * S, -1);
    struct wr_remote_charge one = store_charge(&limit, "places", ++callers, 1), two, three;

    (void)state;
    two = three = one;
    one.place = 1;
    two.place = UINT64_MAX;
    three.place = 3;
    assert_true(store_take(&store, &one, 1, 0, NOW));
    assert_true(store_take(&store, &two, 1, 0, NOW + 10 * S));
    assert_true(two.remaining == 0 && two.next_ns == 20 * S && two.reset_ns == 30 * S);
    assert_false(store_take(&store, &three, 1, 0, NOW + 20 * S));
    assert_int_equal(three.retry_after_ns, 10 * S);
    store_do(&store, WR_SCRIPT_REFUND, &two, 1, NOW + 20 * S);
    store_do(&store, WR_SCRIPT_REFUND, &two, 1, NOW + 20 * S); /* once is enough */
    assert_true(store_take(&store, &three, 1, 0, NOW + 20 * S));
    assert_int_equal(left(one, NOW + 29 * S), 0);
    assert_int_equal(left(one, NOW + 30 * S), 1); /* the hold of one is over */
    assert_int_equal(left(one, NOW + 50 * S), 2);
    assert_true(store_take(&store, &two, 1, 0, NOW + 50 * S));
    assert_int_equal(left(one, NOW - DAY), 1); /* set back: taken at the present */
    assert_int_equal(left(one, NOW - DAY + 30 * S), 2);
}

/* ---- limits that change -------------------------------------------------------------------- */

/* Takes |spent| under |old| at NOW, then looks under |limit| at |then_ns|. */
static int64_t carried(const struct wr_limit *old, int64_t spent, const struct wr_limit *limit,
                       int64_t then_ns)
{
    struct wr_remote_charge charge = store_charge(old, "changes", ++callers, spent);

    assert_true(store_take(&store, &charge, 1, 0, NOW));
    charge.limit = limit;
    return left(charge, then_ns);
}

static void what_was_spent_stays_spent(void **state)
{
    struct wr_limit ten = limit_of(WR_TOKEN_BUCKET, 10, HOUR, -1);
    struct wr_limit thousand = limit_of(WR_TOKEN_BUCKET, 1000, HOUR, -1);
    struct wr_limit four = limit_of(WR_TOKEN_BUCKET, 4, HOUR, -1);
    struct wr_limit minutes = limit_of(WR_FIXED_WINDOW, 10, 60 * S, -1);
    struct wr_limit hours = limit_of(WR_FIXED_WINDOW, 20, HOUR, -1);
    struct wr_limit sliding = limit_of(WR_SLIDING_WINDOW, 10, 60 * S, -1);
    struct wr_limit slower = limit_of(WR_SLIDING_WINDOW, 10, 120 * S, -1);
    struct wr_limit more = limit_of(WR_SLIDING_WINDOW, 100, 60 * S, -1);

    (void)state;
    assert_int_equal(carried(&ten, 10, &thousand, NOW), 990);
    assert_int_equal(carried(&ten, 10, &four, NOW), 0);
    assert_int_equal(carried(&ten, 10, &four, NOW + HOUR / 10), 0); /* paid back as it was: 9 */
    assert_int_equal(carried(&minutes, 7, &hours, NOW + 30 * S), 13);
    assert_int_equal(carried(&minutes, 7, &hours, NOW + 60 * S), 20); /* that minute is over */
    assert_int_equal(carried(&sliding, 8, &more, NOW + 30 * S), 92);
    assert_int_equal(carried(&sliding, 8, &more, NOW + 90 * S), 96); /* half of 8 */
    assert_int_equal(carried(&sliding, 8, &slower, NOW + 90 * S), 6);
    assert_int_equal(carried(&ten, 10, &sliding, NOW), 10); /* another algorithm: anew */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bucket_grants_half_of_what_is_left_over_the_nodes),
        cmocka_unit_test(leases_lower_the_capacity_of_a_bucket),
        cmocka_unit_test(windows_grant_until_their_end),
        cmocka_unit_test(nothing_is_granted_for_a_refusal),
        cmocka_unit_test(months_begin_on_the_first),
        cmocka_unit_test(boundaries_that_do_not_hold_are_said),
        cmocka_unit_test(a_log_forgets_what_is_a_window_old),
        cmocka_unit_test(a_log_is_not_locked_by_a_clock_set_back),
        cmocka_unit_test(places_are_given_back_by_name),
        cmocka_unit_test(what_was_spent_stays_spent),
    };
    int failed;

    store_open(&store);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_close(&store);
    return failed;
}
