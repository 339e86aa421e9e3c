/* lease_size.c - how much is leased: by hand, question by question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "remote/lease_size.h"
#include "weir/weir.h"

#define MS WR_NS_PER_MS
#define T0 (INT64_C(1767225600) * WR_NS_PER_S)
#define KEY UINT64_C(77)

static struct wr_limit limit_of(enum wr_algo algo, int64_t units, int64_t window_ns)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, -1, false));
    return limit;
}

struct asking {
    struct wr_lease_table *table;
    struct wr_limit limit;
    struct wr_lease_want want;
    int64_t ttl_ns;
};

static struct asking begin(enum wr_algo algo, int64_t units, int64_t window_ns)
{
    struct asking a = {.table = calloc(1, sizeof *a.table),
                       .limit = limit_of(algo, units, window_ns),
                       .want = {.key = KEY, .cost = 1, .nodes = 1, .now_ns = T0}};

    assert_non_null(a.table);
    return a;
}

/* Ask |after_ns| later. */
static int64_t ask(struct asking *a, int64_t after_ns)
{
    int64_t extra;

    a->want.limit = &a->limit;
    a->want.now_ns += after_ns;
    wr_lease_size(a->table, &a->want, &extra, &a->ttl_ns);
    return extra;
}

static void test_cold(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 80000, WR_NS_PER_MINUTE);
    (void)state;

    assert_int_equal(ask(&a, 0), 0);
    assert_int_equal(a.ttl_ns, WR_NS_PER_S); /* all the same */
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(&a, 100 * MS + 1), 0);
    free(a.table);
}

/* 1 unit in 40 ms are 2 in 80 and 2.5 in 100. Then 3 in 50 ms (6 in 100), 7 in 100 ms. */
static void test_as_much_as_it_used(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 80000, WR_NS_PER_MINUTE);
    (void)state;

    assert_int_equal(ask(&a, 0), 0);
    assert_int_equal(ask(&a, 60 * MS), 1); /* 1 * 100 / 60 */
    assert_int_equal(ask(&a, 50 * MS), 4); /* 2 * 100 / 50 */
    assert_int_equal(ask(&a, 100 * MS), 5);
    assert_int_equal(ask(&a, 150 * MS), 4); /* 6 * 100 / 150 */
    free(a.table);
}

/* Used up at once: twice as many as there were, cost and lease: 1, 3, 9, ... up to the eighth. */
static void test_doubling(void **state)
{
    struct asking a = begin(WR_SLIDING_WINDOW, 8000, WR_NS_PER_MINUTE);
    static const int64_t expected[] = {2, 6, 14, 30, 62, 126, 254, 510, 1000, 1000};
    (void)state;

    assert_int_equal(ask(&a, 0), 0);
    for (unsigned i = 0; i < sizeof expected / sizeof *expected; i++)
        assert_int_equal(ask(&a, MS), expected[i]);
    a.want.nodes = 3; /* 8000 / 3 / 8 */
    assert_int_equal(ask(&a, 0), 333);
    free(a.table);
}

/* The ttl is a second. */
static void test_halving(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    (void)ask(&a, 0);
    for (int i = 0; i < 9; i++)
        (void)ask(&a, MS);
    assert_int_equal(ask(&a, 1000 * MS), 500);
    assert_int_equal(ask(&a, 1999 * MS), 250);
    assert_int_equal(ask(&a, 3000 * MS), 31); /* an eighth */
    assert_int_equal(ask(&a, INT64_C(3600) * WR_NS_PER_S), 0);
    assert_int_equal(ask(&a, MS), 2); /* cold, then warm again */
    free(a.table);
}

/* A bucket of 1600 that refills in 0.2 s: leases last for 25 ms, and are meant for half of that. */
static void test_short_ttl(void **state)
{
    struct asking a = begin(WR_TOKEN_BUCKET, 1000, WR_NS_PER_S);
    (void)state;

    assert_null(wr_limit_make(&a.limit, WR_TOKEN_BUCKET, 8000, WR_NS_PER_S, 1600, false));
    (void)ask(&a, 0);
    assert_int_equal(a.ttl_ns, 25 * MS);
    assert_int_equal(ask(&a, MS), 2);
    assert_int_equal(ask(&a, MS), 6);
    assert_int_equal(ask(&a, MS), 14);
    assert_int_equal(ask(&a, 5 * MS), 30);
    assert_int_equal(ask(&a, 10 * MS), 38); /* 31 * 12.5 / 10 */
    assert_int_equal(ask(&a, 24 * MS), 20); /* 39 * 12.5 / 24 */
    assert_int_equal(ask(&a, 25 * MS), 10); /* void */
    free(a.table);
}

/* What was granted is what lasted. */
static void test_answered(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    (void)ask(&a, 0);
    assert_int_equal(ask(&a, MS), 2);
    assert_int_equal(ask(&a, MS), 6);
    wr_lease_answered(a.table, KEY, 2, WR_NS_PER_S);
    wr_lease_answered(a.table, KEY + 1, 0, 0); /* nobody */
    assert_int_equal(ask(&a, MS), 6);          /* 2 * (1 + 2) */
    wr_lease_answered(a.table, KEY, 0, 0);
    wr_lease_answered(a.table, KEY, 99,
                      WR_NS_PER_S);    /* the last counts, up to what was asked for */
    assert_int_equal(ask(&a, MS), 14); /* 2 * (1 + 6) */
    wr_lease_answered(a.table, KEY, -1, 0);
    assert_int_equal(ask(&a, MS), 2);
    free(a.table);
}

/* At the end of a window a lease is void before it can be spent: the next is asked for in the
 * window after. */
static void test_brief(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    (void)ask(&a, 0);
    assert_int_equal(ask(&a, MS), 2);
    wr_lease_answered(a.table, KEY, 2, 16 * MS);
    assert_int_equal(ask(&a, MS), 6);
    wr_lease_answered(a.table, KEY, 6, 16 * MS - 1);
    assert_int_equal(ask(&a, MS), 0);
    assert_int_equal(ask(&a, 15 * MS - 1), 0);
    assert_int_equal(ask(&a, 1), 14);
    free(a.table);
}

static void test_costs(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    a.want.cost = 10;
    (void)ask(&a, 0);
    assert_int_equal(ask(&a, 50 * MS), 20);
    a.want.cost = 0; /* a look leaves no trace */
    assert_int_equal(ask(&a, MS), 0);
    assert_int_equal(a.ttl_ns, WR_NS_PER_S);
    a.want.cost = 10;
    assert_int_equal(ask(&a, 99 * MS), 30); /* 30 in 100 ms */
    a.want.cost = WEIR_COST_MAX;
    assert_int_equal(ask(&a, 100 * MS), 40);
    assert_int_equal(ask(&a, MS), 1000);
    free(a.table);
}

/* A month of 6400: a 64th of it, over the nodes; in its last 20 ms no more than they take. */
static void test_quotas(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 6400, WR_NS_PER_MINUTE);
    (void)state;

    assert_null(wr_limit_make_calendar(&a.limit, WR_CALENDAR_MONTH, 6400, false));
    (void)ask(&a, 0);
    for (int i = 0; i < 7; i++)
        (void)ask(&a, MS);
    assert_int_equal(ask(&a, MS), 100);
    a.want.nodes = 3;
    assert_int_equal(ask(&a, MS), 33);
    a.want.nodes = 1;
    a.limit.units = 40;
    assert_int_equal(ask(&a, MS), 1);
    a.limit.units = 6400;
    a.want.now_ns = T0 + INT64_C(31) * WR_NS_PER_DAY - 24 * MS;
    (void)ask(&a, 0);
    assert_int_equal(ask(&a, 4 * MS), 2); /* 1 * 10 / 4: 20 ms are left */
    free(a.table);
}

static void test_small_limits_stay_strict(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 15, WR_NS_PER_MINUTE);
    (void)state;

    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(&a, MS), 0);
    assert_int_equal(a.ttl_ns, 0);
    a.limit = limit_of(WR_FIXED_WINDOW, 79, WR_NS_PER_MINUTE);
    a.want.nodes = 10; /* 8 for each would be 80 */
    for (int i = 0; i < 5; i++)
        assert_int_equal(ask(&a, MS), 0);
    assert_int_equal(a.ttl_ns, WR_NS_PER_S); /* the limit's, however many nodes there are */
    a.limit.units = 80;
    (void)ask(&a, MS);
    assert_int_equal(ask(&a, MS), 1);
    free(a.table);
}

/* 77 and 77 + rows fall on one row: the first has it for two spans after its last question. */
static void test_two_keys_on_a_row(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    (void)ask(&a, 0);
    assert_int_equal(ask(&a, MS), 2);
    a.want.key = KEY + WR_LEASE_ROWS;
    assert_int_equal(ask(&a, MS), 0);
    assert_int_equal(ask(&a, MS), 0);
    a.want.key = KEY;
    assert_int_equal(ask(&a, MS), 6);
    a.want.key = KEY + WR_LEASE_ROWS;
    assert_int_equal(ask(&a, 200 * MS), 0);
    assert_int_equal(ask(&a, MS), 2);
    a.want.key = KEY;
    assert_int_equal(ask(&a, MS), 0);
    free(a.table);
}

static void test_clock_set_back(void **state)
{
    struct asking a = begin(WR_FIXED_WINDOW, 8000, WR_NS_PER_MINUTE);
    (void)state;

    (void)ask(&a, 0);
    assert_int_equal(ask(&a, MS), 2);
    assert_int_equal(ask(&a, -WR_NS_PER_HOUR), 0);
    assert_int_equal(ask(&a, MS), 2);
    free(a.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cold),
        cmocka_unit_test(test_as_much_as_it_used),
        cmocka_unit_test(test_doubling),
        cmocka_unit_test(test_halving),
        cmocka_unit_test(test_short_ttl),
        cmocka_unit_test(test_answered),
        cmocka_unit_test(test_brief),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_quotas),
        cmocka_unit_test(test_small_limits_stay_strict),
        cmocka_unit_test(test_two_keys_on_a_row),
        cmocka_unit_test(test_clock_set_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
