/* lease_book.c - what is left of leases goes back to the store as they end: by hand, beside a store
 * in memory. A quota of 640 a month; a lease lasts a second. */
#include "../engine/shared_fixture.h"

#include "remote/lease_book.h"

#define LIMIT 640
#define POLICY                                                                                   \
    "version: 1\n"                                                                               \
    "identity: {api_key: {header: X-Api-Key}}\n"                                                 \
    "store: {ring: {self: a:1, peers: [b:1], password: p}, nodes: 1}\n"                          \
    "limits:\n"                                                                                  \
    "  - {name: all, by: [api_key], quota: {limit: 640, per: month}, shared: true, store_mode: " \
    "leased}\n"
/* The last second of January 2026. */
#define JANUARY_ENDS (T0 + INT64_C(31) * 24 * 3600 * S)

struct shop {
    struct node node;
    struct wr_lease_book *book;
    int64_t now;
    bool lost; /* what is given back does not arrive */
    int64_t given;
    unsigned times;
};

static struct shop open_shop(void)
{
    struct shop shop = {.node = {.weir = open_text(POLICY, ""),
                                 .store = memory_store_new(1),
                                 .extra = 40,
                                 .ttl_ns = S,
                                 .nodes = 1},
                        .book = calloc(1, sizeof *shop.book),
                        .now = T0};

    assert_non_null(shop.book);
    return shop;
}

static void close_shop(struct shop *shop)
{
    weir_close(shop->node.weir);
    memory_store_free(shop->node.store);
    free(shop->book);
}

static void give(void *context, const struct wr_remote_charge *charge, int64_t units)
{
    struct shop *shop = context;

    shop->given += units;
    shop->times++;
    if (!shop->lost)
        memory_store_refund(shop->node.store, charge, units, shop->now);
}

static struct wr_lease_giving giving(struct shop *shop)
{
    return (struct wr_lease_giving){shop->node.weir->engine, shop->now, give, shop};
}

static void due(struct shop *shop)
{
    struct wr_lease_giving to = giving(shop);

    wr_lease_book_due(shop->book, &to);
}

/* A request of |key|; a lease that it brings is written down. */
static bool use(struct shop *shop, const char *key)
{
    struct weir_answer a = request(&shop->node, shop->now, (struct call){.api_key = key});
    const struct wr_remote_charge *charge = &shop->node.pending.call.charge[0];
    struct wr_lease_giving to = giving(shop);

    if (shop->node.asked && charge->granted > 0)
        wr_lease_book_add(shop->book, wr_engine_lease_key(&shop->node.pending, 0), charge,
                          shop->node.pending.call.now_ns, &to);
    return a.outcome == WEIR_ALLOW;
}

/* What the store has left of |key|. */
static int64_t store_has(struct shop *shop, const char *key)
{
    struct weir_slice fields[FIELDS_MAX];
    struct call call = {.api_key = key};
    struct weir_request look = request_of(shop->node.weir, &call, fields);
    struct wr_pending pending;
    struct weir_answer answer;

    assert_false(
        wr_engine_begin_reserve(shop->node.weir->engine, &look, shop->now, &answer, &pending));
    pending.call.charge[0].cost = 0;
    memory_store_take(shop->node.store, &pending.call, shop->now);
    return pending.call.charge[0].remaining;
}

static void test_a_spell_costs_what_it_used(void **state)
{
    struct shop shop = open_shop();
    int64_t used = 0;
    (void)state;

    for (int spell = 0; spell < 32; spell++) { /* 32 * 20 = 640: to the last unit */
        for (int i = 0; i < 20; i++, used++)
            assert_true(use(&shop, "k"));
        assert_true(store_has(&shop, "k") <= LIMIT - used);
        shop.now += 937 * MS; /* 1/16 before the end: 937.5 */
        due(&shop);
        assert_true(spell > 0 || store_has(&shop, "k") < LIMIT - used);
        shop.now += MS;
        due(&shop);
        assert_int_equal(store_has(&shop, "k"), LIMIT - used);
        shop.now += S;
        due(&shop);
        assert_int_equal(shop.book->first_ns, 0);
    }
    assert_false(use(&shop, "k"));
    close_shop(&shop);
}

/* A busy key has spent its lease before that ends, and got another: that one lasts to its own end.
 */
static void test_the_next_lease_stays(void **state)
{
    struct shop shop = open_shop();
    (void)state;

    for (int i = 0; i < 41; i++)
        assert_true(use(&shop, "k"));
    shop.now += 500 * MS;
    assert_true(use(&shop, "k"));
    assert_int_equal(store_has(&shop, "k"), LIMIT - 82);
    shop.now += 438 * MS; /* the first is due */
    due(&shop);
    assert_int_equal(shop.given, 0);
    assert_int_equal(shop.book->first_ns, T0 + 1437 * MS + MS / 2);
    assert_true(use(&shop, "k"));
    assert_false(shop.node.asked);
    shop.now += 500 * MS;
    due(&shop);
    assert_int_equal(shop.given, 39);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 43);
    close_shop(&shop);
}

/* Two ask at the same moment, and both are granted: what lies together ends with the first. */
static void test_what_lies_together(void **state)
{
    struct shop shop = open_shop();
    struct node late = shop.node;
    struct call call = {.api_key = "k"};
    struct weir_answer answer;
    struct wr_lease_giving to;
    (void)state;

    assert_false(begin_call(&late, shop.now, call, &answer));
    assert_true(use(&shop, "k"));
    shop.now += 100 * MS;
    late.pending.call.now_ns = shop.now; /* asked once more */
    ask_store(&late, shop.now, &answer);
    to = giving(&shop);
    wr_lease_book_add(shop.book, wr_engine_lease_key(&late.pending, 0),
                      &late.pending.call.charge[0], shop.now, &to);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 82);
    shop.now += 838 * MS;
    due(&shop);
    assert_int_equal(shop.given, 80);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 2);
    close_shop(&shop);
}

/* The loop stood still: what is over in the arena is given back all the same, and once. */
static void test_late(void **state)
{
    struct shop shop = open_shop();
    int64_t units;
    (void)state;

    assert_true(use(&shop, "k"));
    assert_int_equal(store_has(&shop, "k"), LIMIT - 41);
    shop.now += 3600 * S;
    due(&shop);
    units = shop.given;
    assert_int_equal(units, 40);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 1);
    due(&shop);
    assert_int_equal(shop.given, units);
    close_shop(&shop);
}

/* The store takes it, and its answer is lost, or it never hears of it: not a second time. */
static void test_lost_is_lost(void **state)
{
    struct shop shop = open_shop();
    (void)state;

    assert_true(use(&shop, "k"));
    shop.lost = true;
    shop.now += S;
    due(&shop);
    shop.lost = false;
    for (int i = 0; i < 3; i++, shop.now += S)
        due(&shop);
    assert_int_equal(shop.times, 1);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 41);
    close_shop(&shop);
}

/* A lease of January's last second, given back in February: February has what was used of it. */
static void test_of_another_window(void **state)
{
    struct shop shop = open_shop();
    (void)state;

    shop.now = JANUARY_ENDS - 500 * MS;
    assert_true(use(&shop, "k"));
    shop.now = JANUARY_ENDS + 100 * MS;
    assert_true(use(&shop, "k"));
    assert_int_equal(store_has(&shop, "k"), LIMIT - 41);
    due(&shop); /* the row is February's: nothing of January is in the arena */
    assert_int_equal(shop.given, 0);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 41);
    shop.now += S;
    due(&shop);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 1);
    close_shop(&shop);
}

static void test_late_of_another_window(void **state)
{
    struct shop shop = open_shop();
    (void)state;

    shop.now = JANUARY_ENDS - 500 * MS;
    assert_true(use(&shop, "k"));
    shop.node.extra = 0;
    shop.now = JANUARY_ENDS + S;
    assert_true(use(&shop, "k"));
    assert_int_equal(store_has(&shop, "k"), LIMIT - 1);
    due(&shop);
    assert_int_equal(shop.given, 40);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 1);
    close_shop(&shop);
}

/* Units that another loop was granted, which end later, are its own to give back. */
static void test_not_what_ends_later(void **state)
{
    struct shop shop = open_shop();
    uint64_t key;
    (void)state;

    assert_true(use(&shop, "k"));
    key = wr_engine_lease_key(&shop.node.pending, 0);
    assert_int_equal(wr_engine_lease_collect(shop.node.weir->engine, key, shop.now,
                                             shop.now + 900 * MS, shop.now),
                     0);
    assert_int_equal(wr_engine_lease_collect(shop.node.weir->engine, key, shop.now + S,
                                             shop.now + 2 * S, shop.now),
                     0);
    assert_int_equal(
        wr_engine_lease_collect(shop.node.weir->engine, key, shop.now, shop.now + S, shop.now), 40);
    close_shop(&shop);
}

/* Who loses his row gives back; an hour back on the clock, and all of them do. */
static void test_rows_and_clocks(void **state)
{
    struct shop shop = open_shop();
    struct wr_lease_giving to;
    uint64_t key;
    (void)state;

    assert_true(use(&shop, "k"));
    key = wr_engine_lease_key(&shop.node.pending, 0);
    to = giving(&shop);
    wr_lease_book_add(shop.book, key + WR_LEASE_ROWS, &shop.node.pending.call.charge[0], shop.now,
                      &to);
    assert_int_equal(shop.given, 40);
    assert_true(use(&shop, "l"));
    shop.now -= 3600 * S;
    due(&shop);
    assert_int_equal(shop.given, 80);
    assert_int_equal(shop.book->first_ns, 0);
    close_shop(&shop);
}

static void test_return(void **state)
{
    struct shop shop = open_shop();
    struct wr_lease_giving to;
    (void)state;

    assert_true(use(&shop, "k"));
    assert_true(use(&shop, "l"));
    to = giving(&shop);
    wr_lease_book_return(shop.book, &to);
    assert_int_equal(shop.given, 80);
    wr_lease_book_return(shop.book, &to);
    assert_int_equal(shop.given, 80);
    assert_int_equal(store_has(&shop, "k"), LIMIT - 1);
    close_shop(&shop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_spell_costs_what_it_used),
        cmocka_unit_test(test_the_next_lease_stays),
        cmocka_unit_test(test_what_lies_together),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_lost_is_lost),
        cmocka_unit_test(test_of_another_window),
        cmocka_unit_test(test_late_of_another_window),
        cmocka_unit_test(test_not_what_ends_later),
        cmocka_unit_test(test_rows_and_clocks),
        cmocka_unit_test(test_return),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
