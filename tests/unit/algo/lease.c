/* lease.c - units that were granted elsewhere, spent once and in time. */
#include "subject.h"

#include "algo/lease.h"
#include "weir/weir.h"

#define TICK (INT64_C(1) << 22)            /* 4.194304 ms */
#define NOW (INT64_C(400000000000) * TICK) /* a whole tick, in 2023 */
#define END (NOW + 20 * TICK)              /* 83.9 ms later */

static struct wr_take taken(uint64_t word, int64_t now_ns, int64_t cost)
{
    struct wr_limit limit = wr_lease_limit();
    struct wr_take out;

    wr_lease.take(&limit, word, now_ns, cost, &out);
    assert_true(out.allowed || out.state == word);
    return out;
}

static void expect_ask(uint64_t word, int64_t now_ns, int64_t cost)
{
    struct wr_take out = taken(word, now_ns, cost);

    assert_false(out.allowed);
    assert_true(out.never);
    assert_int_equal(out.retry_after_ns, 0);
}

static void expect_refused(uint64_t word, int64_t now_ns, int64_t cost, int64_t retry_ns)
{
    struct wr_take out = taken(word, now_ns, cost);

    assert_false(out.allowed);
    assert_false(out.never);
    assert_int_equal(out.retry_after_ns, retry_ns);
}

/* Returns what is left behind. */
static uint64_t expect_spent(uint64_t word, int64_t now_ns, int64_t cost, int64_t left)
{
    struct wr_take out = taken(word, now_ns, cost);

    assert_true(out.allowed);
    assert_false(out.never);
    assert_int_equal(out.remaining, left);
    assert_int_equal(wr_lease_units(out.state, now_ns), left);
    return out.state;
}

static void test_nothing(void **state)
{
    (void)state;

    expect_ask(0, NOW, 1);
    expect_ask(0, NOW, 0);
    assert_int_equal(wr_lease_units(0, NOW), 0);
}

static void test_spending(void **state)
{
    uint64_t word = wr_lease_grant(0, NOW, 10, END);
    (void)state;

    assert_int_equal(wr_lease_units(word, NOW), 10);
    word = expect_spent(word, NOW, 3, 7);
    word = expect_spent(word, END - 1, 0, 7);
    expect_ask(word, NOW, 8); /* more than is there */
    expect_ask(word, END, 1); /* void */
    word = expect_spent(word, END - 1, 7, 0);
    expect_ask(word, NOW, 1);
    expect_ask(word, NOW, 0); /* what remains, the store knows */
}

/* A deadline inside a tick ends with the tick before: never later than it was granted for. */
static void test_deadlines_are_rounded_down(void **state)
{
    uint64_t word = wr_lease_grant(0, NOW, 5, END + TICK - 1);
    (void)state;

    (void)expect_spent(word, END - 1, 1, 4);
    expect_ask(word, END, 1);
    assert_true(wr_lease_grant(0, NOW, 5, NOW + TICK - 1) == 0 ||
                wr_lease_units(wr_lease_grant(0, NOW, 5, NOW + TICK - 1), NOW) == 0);
}

static void test_no_lease_lasts_longer_than_a_second(void **state)
{
    uint64_t word = wr_lease_grant(0, NOW, 5, NOW + 3600 * S);
    (void)state;

    (void)expect_spent(word, NOW + 995 * MS, 1, 4); /* 238 ticks are 998.2 ms */
    expect_ask(word, NOW + S, 1);
}

static void test_grants_add_up_under_the_earlier_deadline(void **state)
{
    uint64_t word = wr_lease_grant(0, NOW, 10, END);
    (void)state;

    word = wr_lease_grant(word, NOW, 10, END + 5 * TICK);
    assert_int_equal(wr_lease_units(word, END - 1), 20);
    assert_int_equal(wr_lease_units(word, END), 0);

    word = wr_lease_grant(0, NOW, 10, END);
    word = wr_lease_grant(word, NOW, 10, END - 5 * TICK);
    assert_int_equal(wr_lease_units(word, END - 5 * TICK - 1), 20);
    assert_int_equal(wr_lease_units(word, END - 5 * TICK), 0);

    /* Of any size. */
    word = wr_lease_grant(0, NOW, 1, END);
    word = wr_lease_grant(word, NOW, 80, END + 5 * TICK);
    assert_int_equal(wr_lease_units(word, END - 1), 81);

    /* What is void adds nothing. */
    /* One that is over within this tick ends nothing. */
    word = wr_lease_grant(0, NOW + 1, 8, END);
    word = wr_lease_grant(word, NOW + 1, 5, NOW + TICK - 1);
    assert_int_equal(wr_lease_units(word, END - 1), 8);
    word = wr_lease_grant(0, NOW, 100, END);
    word = wr_lease_grant(word, END, 10, END + 5 * TICK);
    assert_int_equal(wr_lease_units(word, END), 10);
}

static void test_as_many_units_as_fit(void **state)
{
    uint64_t word = wr_lease_grant(0, NOW, WR_LEASE_UNITS_MAX + 5, END);
    (void)state;

    assert_int_equal(wr_lease_units(word, NOW), 4194303);
    word = wr_lease_grant(word, NOW, WR_LEASE_UNITS_MAX, END);
    assert_int_equal(wr_lease_units(word, NOW), 4194303);
    assert_int_equal(wr_lease_units(word, END - 1), 4194303); /* and the deadline is intact */
    assert_int_equal(wr_lease_units(word, END), 0);
    expect_ask(word, NOW, WEIR_COST_MAX);
}

static void test_refusals(void **state)
{
    uint64_t word = wr_lease_refuse(0, NOW, 5, END);
    (void)state;

    expect_refused(word, NOW, 5, 20 * TICK);
    expect_refused(word, NOW + TICK, 1000, 19 * TICK);
    expect_ask(word, NOW, 4); /* less may pass */
    expect_ask(word, NOW, 0);
    expect_ask(word, END, 5);
    assert_int_equal(wr_lease_units(word, NOW), 0);

    /* Units from another answer go before it, also if they cannot pay: they are others'. */
    word = wr_lease_grant(word, NOW, 3, END);
    (void)expect_spent(word, NOW, 3, 0);
    assert_true(wr_lease_refuse(word, NOW, 3, END) == word);
    assert_true(wr_lease_refuse(word, NOW, 4, END) == word);
    expect_refused(wr_lease_refuse(word, END, 4, END + TICK), END, 4, TICK);
    word = expect_spent(word, NOW, 3, 0);
    expect_refused(wr_lease_refuse(word, NOW, 4, END), NOW, 4, 20 * TICK);

    /* A cost that the word cannot say is not remembered. */
    assert_true(wr_lease_refuse(0, NOW, WR_LEASE_UNITS_MAX + 1, END) == 0);
    expect_refused(wr_lease_refuse(0, NOW, 1, NOW + 3600 * S), NOW, 1, 238 * TICK);
}

static uint64_t given_back(uint64_t word, uint64_t receipt, int64_t now_ns, int64_t cost)
{
    struct wr_limit limit = wr_lease_limit();
    return wr_lease.refund(&limit, word, receipt, now_ns, cost);
}

static void test_giving_back(void **state)
{
    uint64_t receipt = expect_spent(wr_lease_grant(0, NOW, 10, END), NOW, 10, 0);
    uint64_t later = wr_lease_grant(0, NOW, 4, END + TICK), word;
    (void)state;

    assert_int_equal(wr_lease_units(given_back(receipt, receipt, NOW, 10), END - 1), 10);
    assert_int_equal(wr_lease_units(given_back(receipt, receipt, NOW, 10), END), 0);
    /* Their time is over. */
    assert_true(given_back(receipt, receipt, END, 10) == receipt);
    /* A later lease is not shortened for them, and they do not become later. */
    assert_true(given_back(later, receipt, NOW, 10) == later);
    /* An earlier one takes them. */
    word = given_back(wr_lease_grant(0, NOW, 4, END - TICK), receipt, NOW, 10);
    assert_int_equal(wr_lease_units(word, END - TICK - 1), 14);
    assert_int_equal(wr_lease_units(word, END - TICK), 0);
    /* What was refused meanwhile passes with them. */
    word = given_back(wr_lease_refuse(0, NOW, 2, END), receipt, NOW, 10);
    assert_int_equal(wr_lease_units(word, NOW), 10);
}

/* Any bits of a damaged arena: too far ahead is void. */
static void test_damage(void **state)
{
    (void)state;

    assert_int_equal(wr_lease_units(UINT64_MAX >> 1, NOW), 0);
    expect_ask(UINT64_MAX, NOW, WEIR_COST_MAX);
    expect_ask(wr_lease_grant(0, NOW + 3 * S, 10, NOW + 4 * S), NOW, 1);
}

static void test_worth(void **state)
{
    struct wr_limit limit = wr_lease_limit();
    uint64_t word = wr_lease_grant(0, NOW, 10, END);
    int64_t next_ns, reset_ns;
    (void)state;

    assert_true(wr_limit_valid(&limit));
    assert_true(wr_limit_is_word(&limit));
    assert_int_equal(wr_lease.used_q32(&limit, word, NOW), UINT64_C(1) << 31);
    assert_int_equal(wr_lease.used_q32(&limit, word, END), 0);
    wr_lease.times(&limit, word, NOW, &next_ns, &reset_ns);
    assert_int_equal(reset_ns, 20 * TICK);
    limit.units = 2;
    assert_false(wr_limit_valid(&limit));
}

static int64_t ttl_of(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, burst, false));
    return wr_lease_ttl_ns(&limit);
}

/* An eighth of the window, or the time in which an eighth of the bucket comes back; 1 s at most. */
static void test_ttl(void **state)
{
    (void)state;
    assert_int_equal(ttl_of(WR_FIXED_WINDOW, 100, WR_NS_PER_S, -1), 125 * WR_NS_PER_MS);
    assert_int_equal(ttl_of(WR_SLIDING_WINDOW, 100, WR_NS_PER_S, -1), 125 * WR_NS_PER_MS);
    assert_int_equal(ttl_of(WR_FIXED_WINDOW, 100, WR_NS_PER_MINUTE, -1), WR_NS_PER_S);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 100, WR_NS_PER_S, 100), 125 * WR_NS_PER_MS);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 100, WR_NS_PER_S, 40), 50 * WR_NS_PER_MS);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 1000, WR_NS_PER_HOUR, -1), WR_NS_PER_S);
    /* 20 * 1 s / (8 * 30) = 83 333 333.3 ns */
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 30, WR_NS_PER_S, 20), 83333333);
    /* Too small to hand out, or gone too soon: 12.8 / 100 s is 16 ms. */
    assert_int_equal(ttl_of(WR_FIXED_WINDOW, 15, WR_NS_PER_MINUTE, -1), 0);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 1000, WR_NS_PER_S, 128), 16 * WR_NS_PER_MS);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 1000, WR_NS_PER_S, 127), 0);
    assert_int_equal(ttl_of(WR_FIXED_WINDOW, 100, 127 * WR_NS_PER_MS, -1), 0);
    assert_int_equal(ttl_of(WR_TOKEN_BUCKET, 0, WR_NS_PER_S, 100), 0);
    assert_int_equal(ttl_of(WR_LEAKY_BUCKET, 100, WR_NS_PER_S, 100), 0);
    assert_int_equal(ttl_of(WR_SLIDING_LOG, 100, WR_NS_PER_S, -1), 0);
    assert_int_equal(ttl_of(WR_CONCURRENCY, 100, WR_NS_PER_S, -1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_spending),
        cmocka_unit_test(test_deadlines_are_rounded_down),
        cmocka_unit_test(test_no_lease_lasts_longer_than_a_second),
        cmocka_unit_test(test_grants_add_up_under_the_earlier_deadline),
        cmocka_unit_test(test_as_many_units_as_fit),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_giving_back),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_worth),
        cmocka_unit_test(test_ttl),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
