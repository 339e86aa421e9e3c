/* The owner's part of a ring: leases, receipts, all or none, and states that move. */
#include "engine/owner.h"

#include "fixture.h"

static struct wr_arena *arenas[2];
static struct wr_engine *engines[2];
static struct wr_owner *owner, *other;
static struct wr_policy *policy;
static uint64_t callers;

static int set_up(void **state)
{
    static const char text[] = "version: 1\nlimits:\n  - {name: any, by: [ip], rate: 1/second}\n";
    const struct wr_arena_options options = {
        .size_bytes = UINT64_C(2) << 20, .node_share = 50, .judge = wr_engine_judge};
    struct wr_diag diag;

    (void)state;
    wr_diag_init(&diag, "test");
    assert_int_equal(wr_policy_load_text(&policy, text, sizeof text - 1, &diag), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(wr_arena_open(&arenas[i], &options, NULL), 0);
        assert_int_equal(wr_engine_new(&engines[i], policy, arenas[i]), 0);
    }
    assert_int_equal(wr_owner_new(&owner, engines[0]), 0);
    assert_int_equal(wr_owner_new(&other, engines[1]), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wr_owner_free(owner);
    wr_owner_free(other);
    for (int i = 0; i < 2; i++) {
        wr_engine_free(engines[i]);
        wr_arena_close(arenas[i]);
    }
    wr_policy_free(policy);
    return 0;
}

static struct wr_limit limit_of(enum wr_algo algo, int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, burst, false));
    return limit;
}

static struct wr_remote_charge charge_of(const struct wr_limit *limit, int64_t cost)
{
    struct wr_remote_charge charge = {.limit = limit, .name = "owned", .cost = cost};

    callers++;
    memcpy(charge.tag, &callers, sizeof callers);
    return charge;
}

static bool take(struct wr_remote_charge *charge, unsigned nodes, int64_t now)
{
    return wr_owner_take(owner, charge, 1, 0, nodes, false, now);
}

static int64_t units_left(struct wr_owner *at, struct wr_remote_charge charge, int64_t now)
{
    charge.cost = 0;
    charge.extra = 0;
    assert_true(wr_owner_take(at, &charge, 1, 0, 1, false, now));
    return charge.remaining;
}

/* 100/minute: 100 - 1 are left, half of that over three nodes is 16. */
static void windows_lease_until_their_end(void **state)
{
    struct wr_limit limit = limit_of(WR_FIXED_WINDOW, 100, 60 * S, -1);
    struct wr_remote_charge charge = charge_of(&limit, 1);

    (void)state;
    charge.extra = 50;
    charge.ttl_ns = S;
    assert_true(take(&charge, 3, T0));
    assert_true(charge.granted == 16 && charge.remaining == 83 && charge.lease_ns == S);
    charge.extra = 10;
    assert_true(take(&charge, 1, T0 + 59 * S + S / 2));
    assert_true(charge.granted == 10 && charge.remaining == 72 && charge.lease_ns == S / 2);
    charge.cost = 11;
    wr_owner_refund(owner, &charge, T0 + 59 * S + S / 2); /* cost and lease */
    assert_int_equal(units_left(owner, charge, T0 + 59 * S + S / 2), 83);
}

/* 10/s, burst 100, leases of 1 s: 10 are held back. */
static void buckets_hold_back_what_comes_in_meanwhile(void **state)
{
    struct wr_limit limit = limit_of(WR_TOKEN_BUCKET, 10, S, 100);
    struct wr_remote_charge charge = charge_of(&limit, 1);

    (void)state;
    charge.ttl_ns = S;
    charge.extra = 1000;
    assert_true(take(&charge, 1, T0));
    assert_true(charge.granted == 44 && charge.remaining == 45 && charge.lease_ns == S);
    charge.cost = 45;
    charge.extra = 0;
    assert_true(take(&charge, 1, T0));
    assert_true(charge.remaining == 0 && charge.granted == 0 && charge.next_ns == S / 10);
    charge.cost = 1;
    assert_false(take(&charge, 1, T0));
    assert_int_equal(charge.retry_after_ns, S / 10);
    charge.cost = 91; /* more than 90 there never are */
    assert_false(take(&charge, 1, T0));
    assert_true(charge.never);
    charge.ttl_ns = 0; /* asked for strictly: those that are held back are there */
    charge.cost = 10;
    assert_true(take(&charge, 1, T0));
}

static void lists_and_queues_do_not_lease(void **state)
{
    static const enum wr_algo algos[] = {WR_LEAKY_BUCKET, WR_SLIDING_LOG, WR_CONCURRENCY};

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct wr_limit limit = limit_of(algos[i], 50, 60 * S, i == 0 ? 40 : -1);
        struct wr_remote_charge charge = charge_of(&limit, 1);
        charge.extra = 10;
        charge.ttl_ns = S;
        assert_true(take(&charge, 1, T0));
        assert_int_equal(charge.granted, 0);
        assert_int_equal(charge.receipt[1], 1);
        wr_owner_refund(owner, &charge, T0);
        charge.extra = 0;
        assert_true(take(&charge, 1, T0));
        assert_int_equal(charge.remaining, i == 0 ? 40 : 49);
    }
}

static void refused_is_as_never_asked(void **state)
{
    struct wr_limit much = limit_of(WR_FIXED_WINDOW, 100, 60 * S, -1);
    struct wr_limit none = limit_of(WR_TOKEN_BUCKET, 0, 60 * S, -1);
    struct wr_limit denied = much;
    struct wr_remote_charge charges[3];

    (void)state;
    denied.count_denied = 1;
    charges[0] = charge_of(&much, 1);
    charges[0].extra = 10;
    charges[0].ttl_ns = S;
    charges[1] = charge_of(&none, 1);
    charges[2] = charge_of(&denied, 7);
    assert_false(wr_owner_take(owner, charges, 3, 0, 1, false, T0));
    assert_true(charges[0].allowed && charges[0].granted == 0 && charges[0].receipt[1] == 0);
    assert_true(charges[1].never);
    assert_int_equal(units_left(owner, charges[0], T0), 100);
    assert_int_equal(units_left(owner, charges[2], T0), 93);
    /* In shadow mode it decides nothing. */
    assert_true(wr_owner_take(owner, charges, 3, 1U << 1, 1, false, T0));
    assert_true(charges[0].granted == 10 && !charges[1].allowed && charges[1].receipt[1] == 0);
    /* Known to be refused elsewhere. */
    assert_false(wr_owner_take(owner, charges, 1, 0, 1, true, T0));
    assert_int_equal(units_left(owner, charges[0], T0), 89);
    wr_owner_drop(owner, &charges[0]);
    assert_int_equal(units_left(owner, charges[0], T0), 100);
    charges[0].cost = 150;
    wr_owner_force(owner, &charges[0], T0);
    assert_int_equal(units_left(owner, charges[0], T0), 0);
}

/* 7 used here, told to the other node, where 0 or 2 are: then 7 or 9 are used there. */
static void states_move_and_add_up(void **state)
{
    (void)state;
    for (int algo = 1; algo <= WR_ALGO_MAX; algo++) {
        struct wr_limit limit =
            limit_of((enum wr_algo)algo, 20, 60 * S, algo == WR_LEAKY_BUCKET ? 19 : -1);
        for (int there = 0; there <= 2; there += 2) {
            static struct wr_owner_state told;
            struct wr_remote_charge charge = charge_of(&limit, 1);
            for (int i = 0; i < 7; i++)
                assert_true(take(&charge, 1, T0 + i));
            for (int i = 0; i < there; i++)
                assert_true(wr_owner_take(other, &charge, 1, 0, 1, false, T0 + 10));
            assert_true(wr_owner_export(owner, &charge, T0 + 20, &told));
            wr_owner_import(other, &charge, &told, T0 + 20);
            for (int i = 7 + there; i < 20; i++)
                assert_true(wr_owner_take(other, &charge, 1, 0, 1, false, T0 + 30));
            assert_false(wr_owner_take(other, &charge, 1, 0, 1, false, T0 + 30));
            wr_owner_drop(owner, &charge);
            assert_false(wr_owner_export(owner, &charge, T0 + 40, &told));
        }
    }
}

/* The other node's clock is an hour behind: a debt of half a minute is one there too. */
static void clocks_apart_do_not_lend(void **state)
{
    struct wr_limit bucket = limit_of(WR_TOKEN_BUCKET, 60, 60 * S, 60);
    struct wr_limit log = limit_of(WR_SLIDING_LOG, 60, 60 * S, -1);
    static struct wr_owner_state told;
    struct wr_remote_charge charge = charge_of(&bucket, 30);

    (void)state;
    assert_true(take(&charge, 1, T0));
    assert_true(wr_owner_export(owner, &charge, T0, &told));
    wr_owner_import(other, &charge, &told, T0 - 3600 * S);
    assert_int_equal(units_left(other, charge, T0 - 3600 * S), 30);
    assert_int_equal(units_left(other, charge, T0 - 3600 * S + 10 * S), 40);
    charge = charge_of(&log, 30);
    assert_true(take(&charge, 1, T0));
    assert_true(wr_owner_export(owner, &charge, T0 + 10 * S, &told));
    wr_owner_import(other, &charge, &told, T0 + 3610 * S);
    assert_int_equal(units_left(other, charge, T0 + 3649 * S), 30);
    assert_int_equal(units_left(other, charge, T0 + 3661 * S), 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_lease_until_their_end),
        cmocka_unit_test(buckets_hold_back_what_comes_in_meanwhile),
        cmocka_unit_test(lists_and_queues_do_not_lease),
        cmocka_unit_test(refused_is_as_never_asked),
        cmocka_unit_test(states_move_and_add_up),
        cmocka_unit_test(clocks_apart_do_not_lend),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
