/* One charge at memcached: commands and verdicts worked out by hand.
 *
 * The moment is 1 000 000 030 s since the epoch: 10 s into minute number 16 666 667, which began at
 * 16 666 667 * 60 = 1 000 000 020 s. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "remote/memcached_charge.h"

#define NOW (INT64_C(1000000030) * WR_NS_PER_S)
#define TAG "000102030405060708090a0b0c0d0e0f"

static struct wr_limit limit;
static struct wr_remote_charge asked;
static struct wr_mc_charge charge;
static struct wr_mc_out out;
static char bytes[4096];

static void begin(enum wr_algo algo, int64_t units, int64_t burst, int64_t cost, int64_t extra)
{
    assert_null(wr_limit_make(&limit, algo, units, WR_NS_PER_MINUTE, burst, false));
    asked = (struct wr_remote_charge){
        .limit = &limit, .name = "per-key", .cost = cost, .extra = extra, .ttl_ns = 0};
    if (extra > 0)
        asked.ttl_ns = WR_NS_PER_S;
    for (unsigned i = 0; i < WR_TAG_BYTES; i++)
        asked.tag[i] = (unsigned char)i;
    wr_mc_charge_begin(&charge, &asked, NOW);
    out = (struct wr_mc_out){.bytes = bytes, .size = sizeof bytes};
}

static void must_send(const char *expected)
{
    assert_false(out.full);
    bytes[out.len] = '\0';
    assert_string_equal(bytes, expected);
    out.len = 0;
}

static void hear(enum wr_mc_want want, const char *reply)
{
    struct wr_mc_reply parsed;
    enum wr_mc_step step = wr_mc_parse(reply, strlen(reply), &parsed);

    assert_true(wr_mc_charge_hear(&charge, want, step, &parsed, NOW));
}

static void a_sliding_window_is_one_round_trip(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_SLIDING_WINDOW, 100, -1, 3, 0);
    assert_int_equal(wr_mc_charge_ask(&charge, "weir", NOW, &out, want), 2);
    /* 50 s are left of the window, it counts for 60 s more, clocks may differ by 60 s, and one. */
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 N171 J3 D3 v\r\n"
              "mg weir:" TAG ":per-key:60000.0:16666666 v c\r\n");
    hear(want[0], "VA 2\r\n13\r\n"); /* 10 before us */
    hear(want[1], "VA 2 c9\r\n60\r\n");
    wr_mc_charge_judge(&charge, 1, NOW);
    /* 10 + 60 * 50/60 = 60 of 100 are used; 3 more leave 37. */
    assert_true(asked.allowed);
    assert_int_equal(asked.remaining, 37);
    assert_int_equal(asked.granted, 0);
    assert_int_equal(wr_mc_charge_commit(&charge, "weir", NOW, &out, want), 0);
}

static void what_does_not_fit_is_taken_off(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_FIXED_WINDOW, 10, -1, 4, 0);
    assert_int_equal(wr_mc_charge_ask(&charge, "weir", NOW, &out, want), 1);
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 N111 J4 D4 v\r\n");
    hear(want[0], "VA 2\r\n11\r\n"); /* 7 before us */
    wr_mc_charge_judge(&charge, 1, NOW);
    assert_false(asked.allowed);
    assert_false(asked.never);
    assert_int_equal(asked.remaining, 3);
    assert_true(asked.retry_after_ns == 50 * WR_NS_PER_S);
    assert_int_equal(wr_mc_charge_undo(&charge, "weir", &out), 1);
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 MD D4 v\r\n");
    assert_int_equal(wr_mc_charge_undo(&charge, "weir", &out), 0); /* once */
}

static void a_cost_that_can_never_fit_counts_nowhere(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_FIXED_WINDOW, 10, -1, 11, 0);
    (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
    must_send("mg weir:" TAG ":per-key:60000.0:16666667 v c\r\n");
    hear(want[0], "EN\r\n");
    wr_mc_charge_judge(&charge, 1, NOW);
    assert_false(asked.allowed);
    assert_true(asked.never);
}

/* 90 of 100 are left behind the cost of 1 and 9 others'; half of that over 3 nodes is 15. */
static void a_lease_is_half_of_the_rest_over_the_nodes(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_FIXED_WINDOW, 100, -1, 1, 40);
    (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 N111 J41 D41 v\r\n");
    hear(want[0], "VA 2\r\n50\r\n");
    wr_mc_charge_judge(&charge, 3, NOW);
    assert_true(asked.allowed);
    assert_int_equal(asked.granted, 15);
    assert_int_equal(asked.remaining, 75);
    assert_true(asked.lease_ns == WR_NS_PER_S);
    assert_int_equal(wr_mc_charge_commit(&charge, "weir", NOW, &out, want), 1);
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 MD D25 v\r\n");
}

/* 60 a minute, burst 60: a unit a second. The word is the moment at which the bucket is full. */
static void a_bucket_is_read_and_stored(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_TOKEN_BUCKET, 60, 60, 5, 0);
    assert_int_equal(wr_mc_charge_ask(&charge, "weir", NOW, &out, want), 1);
    must_send("mg weir:" TAG ":per-key v c\r\n");
    hear(want[0], "VA 46 c77\r\nw1 1 60 60000000000 60 1000000050000000000    \r\n");
    wr_mc_charge_judge(&charge, 1, NOW);
    /* 20 units are missing: 40 left, less 5. */
    assert_true(asked.allowed);
    assert_int_equal(asked.remaining, 35);
    assert_true(asked.reset_ns == 25 * WR_NS_PER_S);
    assert_int_equal(wr_mc_charge_commit(&charge, "weir", NOW, &out, want), 1);
    must_send("ms weir:" TAG ":per-key 42 T86 C77\r\n"
              "w1 1 60 60000000000 60 1000000055000000000\r\n");
    assert_int_equal(want[0], WR_MC_WANT_STORED);
    hear(want[0], "EX\r\n");
    assert_false(charge.stored);
    hear(want[0], "HD\r\n");
    assert_true(charge.stored);
}

static void a_new_bucket_is_added(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_TOKEN_BUCKET, 60, 60, 5, 0);
    (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
    out.len = 0;
    hear(want[0], "EN\r\n");
    wr_mc_charge_judge(&charge, 1, NOW);
    assert_int_equal(asked.remaining, 55);
    (void)wr_mc_charge_commit(&charge, "weir", NOW, &out, want);
    must_send("ms weir:" TAG ":per-key 42 T66 ME\r\n"
              "w1 1 60 60000000000 60 1000000035000000000\r\n");
}

/* At 60 a minute a lease of 1 s may be spent a second after a unit has come back: the bucket is one
 * smaller at the store. */
static void a_leased_bucket_is_smaller(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_TOKEN_BUCKET, 60, 60, 1, 10);
    (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
    hear(want[0], "EN\r\n");
    wr_mc_charge_judge(&charge, 2, NOW);
    assert_true(asked.allowed);
    assert_int_equal(asked.granted, 10); /* of (59 - 1) / 2 / 2 = 14 */
    assert_int_equal(asked.remaining, 48);
    assert_true(charge.left == (uint64_t)(NOW + 11 * WR_NS_PER_S));
}

/* 10 of 20 were used under the old numbers; of 60 that is 30. */
static void another_limit_carries_the_history_over(void **state)
{
    enum wr_mc_want want[2];

    (void)state;
    begin(WR_TOKEN_BUCKET, 60, 60, 0, 0);
    (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
    hear(want[0],
         "VA 42 c7\r\nw1 2 60 60000000000 19 1000000040000000000\r\n"); /* leaky, queue 19 */
    wr_mc_charge_judge(&charge, 1, NOW);
    assert_int_equal(asked.remaining, 30);
}

static void rubbish_counts_as_nothing(void **state)
{
    static const char *const values[] = {
        "VA 2 c7\r\nw1\r\n", "VA 42 c7\r\nw1 9 60 60000000000 60 1000000050000000000\r\n",
        "VA 41 c7\r\nw1 1 -1 60000000000 60 100000050000000000\r\n"};
    enum wr_mc_want want[2];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        begin(WR_TOKEN_BUCKET, 60, 60, 0, 0);
        (void)wr_mc_charge_ask(&charge, "weir", NOW, &out, want);
        hear(want[0], values[i]);
        wr_mc_charge_judge(&charge, 1, NOW);
        assert_int_equal(asked.remaining, 60);
    }
}

static void refunds_and_forces(void **state)
{
    (void)state;
    begin(WR_FIXED_WINDOW, 10, -1, 4, 0);
    asked.receipt[0] = 16666666; /* taken in the window before */
    assert_true(wr_mc_charge_change(&charge, WR_MC_REFUND, 4, "weir", NOW, &out));
    must_send("ma weir:" TAG ":per-key:60000.0:16666666 MD D4 v\r\n");
    assert_true(wr_mc_charge_change(&charge, WR_MC_FORCE, 2, "weir", NOW, &out));
    must_send("ma weir:" TAG ":per-key:60000.0:16666667 N111 J2 D2 v\r\n");
    begin(WR_TOKEN_BUCKET, 60, 60, 4, 0);
    asked.receipt[0] = (uint64_t)(NOW + 20 * WR_NS_PER_S);
    assert_false(wr_mc_charge_change(&charge, WR_MC_REFUND, 4, "weir", NOW, &out));
    charge.word = (uint64_t)(NOW + 25 * WR_NS_PER_S);
    wr_mc_charge_apply(&charge, WR_MC_REFUND, 4, NOW);
    assert_true(charge.left == (uint64_t)(NOW + 21 * WR_NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sliding_window_is_one_round_trip),
        cmocka_unit_test(what_does_not_fit_is_taken_off),
        cmocka_unit_test(a_cost_that_can_never_fit_counts_nowhere),
        cmocka_unit_test(a_lease_is_half_of_the_rest_over_the_nodes),
        cmocka_unit_test(a_bucket_is_read_and_stored),
        cmocka_unit_test(a_new_bucket_is_added),
        cmocka_unit_test(a_leased_bucket_is_smaller),
        cmocka_unit_test(another_limit_carries_the_history_over),
        cmocka_unit_test(rubbish_counts_as_nothing),
        cmocka_unit_test(refunds_and_forces),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
