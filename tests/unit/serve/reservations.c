/* reservations.c - settling and releasing by name. */
#include "fixture.h"

#include "serve/reservations.h"

#define TTL (10 * S)

struct world {
    struct wr_handle *handle;
    struct wr_reservations *table;
    int64_t now;
    const char *peer;
};

static void open_world(struct world *world, const char *policy, size_t most)
{
    world->handle = handle_of(policy, NULL);
    world->table = wr_reservations_new(most);
    assert_non_null(world->table);
    world->now = weir_now(world->handle->weir);
    world->peer = NULL;
}

static void close_world(struct world *world)
{
    wr_reservations_free(world->table);
    assert_int_equal(world->handle->references, 1); /* entries gave theirs back */
    wr_handle_unref(world->handle);
}

static int reserve(struct world *world, int64_t cost, char id[WR_RESERVATION_ID + 1])
{
    struct weir_request request = {.method = {"GET", 3},
                                   .path = {"/", 1},
                                   .peer = {"192.0.2.1", 9},
                                   .cost_units = cost,
                                   .plan = -1};
    struct weir_answer answer;

    assert_int_equal(weir_reserve(world->handle->weir, &request, TTL, world->now, &answer), 0);
    return wr_reservations_put(world->table, world->handle, &answer, answer.expires_ns, world->peer,
                               id);
}

static void test_settle_once(void **state)
{
    struct world w;
    char id[WR_RESERVATION_ID + 1];
    (void)state;

    open_world(&w, SMALL BUCKET(100), 64);
    assert_int_equal(reserve(&w, 50, id), 0);
    assert_int_equal(strlen(id), WR_RESERVATION_ID);
    assert_int_equal(strspn(id, "0123456789abcdef"), WR_RESERVATION_ID);
    assert_int_equal(left(w.handle, "192.0.2.1", w.now), 50);
    assert_int_equal(wr_reservations_settle(w.table, NULL, id, 20, 0, w.now), 0);
    assert_int_equal(left(w.handle, "192.0.2.1", w.now), 80);
    assert_int_equal(wr_reservations_settle(w.table, NULL, id, 20, 0, w.now), WEIR_EEXPIRED);
    assert_int_equal(left(w.handle, "192.0.2.1", w.now), 80);
    close_world(&w);
}

static void test_too_late(void **state)
{
    struct world w;
    char id[WR_RESERVATION_ID + 1], other[WR_RESERVATION_ID + 1];
    (void)state;

    open_world(&w, SMALL BUCKET(100), 4096);
    assert_int_equal(reserve(&w, 50, id), 0);
    assert_int_equal(reserve(&w, 1, other), 0);
    assert_int_equal(wr_reservations_settle(w.table, NULL, id, 20, 0, w.now + TTL), WEIR_EEXPIRED);
    assert_int_equal(wr_reservations_release(w.table, NULL, id, w.now + TTL), WEIR_EEXPIRED);
    assert_int_equal(wr_reservations_settle(w.table, NULL, other, 0, 0, w.now + TTL - 1), 0);
    close_world(&w);
}

static void test_names_that_were_never_given_out(void **state)
{
    static const char *const bad[] = {"",
                                      "x",
                                      "0123456789abcdef",
                                      "0123456789abcdef0123456789abcdef",
                                      "0123456789ABCDEF0123456789ABCDEF0",
                                      "zz"};
    struct world w;
    char id[WR_RESERVATION_ID + 1];
    (void)state;

    open_world(&w, SMALL BUCKET(100), 64);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(wr_reservations_settle(w.table, NULL, bad[i], 1, 0, w.now), WEIR_ENOENT);
        assert_int_equal(wr_reservations_release(w.table, NULL, bad[i], w.now), WEIR_ENOENT);
    }
    assert_int_equal(reserve(&w, 1, id), 0);
    id[3] = id[3] == '0' ? '1' : '0';
    assert_int_equal(wr_reservations_settle(w.table, NULL, id, 1, 0, w.now), WEIR_ENOENT);
    close_world(&w);
}

static void test_release_frees_the_place(void **state)
{
    struct world w;
    char id[WR_RESERVATION_ID + 1];
    (void)state;

    open_world(&w, SMALL "limits: [{name: a, by: [ip], concurrent: 1, hold: 60s}]\n", 64);
    assert_int_equal(reserve(&w, -1, id), 0);
    assert_int_equal(left(w.handle, "192.0.2.1", w.now), 0);
    assert_int_equal(wr_reservations_release(w.table, NULL, id, w.now), 0);
    assert_int_equal(left(w.handle, "192.0.2.1", w.now), 1);
    assert_int_equal(wr_reservations_release(w.table, NULL, id, w.now), WEIR_EEXPIRED);
    close_world(&w);
}

static void test_full_until_some_expire(void **state)
{
    struct world w;
    char id[WR_RESERVATION_ID + 1];
    unsigned put = 0;
    (void)state;

    open_world(&w, SMALL BUCKET(1000),
               64); /* one in each of 64 stripes: names fall where they may */
    for (unsigned i = 0; i < 1000; i++)
        put += reserve(&w, 0, id) == 0;
    assert_in_range(put, 32, 64);
    assert_int_equal(reserve(&w, 0, id) == 0 ? put + 1 <= 64 : 1, 1);
    w.now += TTL;
    put = 0;
    for (unsigned i = 0; i < 1000; i++)
        put += reserve(&w, 0, id) == 0;
    assert_in_range(put, 32, 64); /* those before have expired and made room */
    close_world(&w);
}

/* How many of |tries| reservations of |peer| are remembered. */
static unsigned reserve_as(struct world *w, const char *peer, unsigned tries)
{
    char id[WR_RESERVATION_ID + 1];
    unsigned put = 0;

    w->peer = peer;
    for (unsigned i = 0; i < tries; i++)
        put += reserve(w, 0, id) == 0;
    return put;
}

static void test_one_peer_has_a_quarter(void **state)
{
    struct world w;
    char id[WR_RESERVATION_ID + 1];
    (void)state;

    /* 64 stripes of 64: names fall where they may, but 33 on average fill none. */
    open_world(&w, SMALL BUCKET(10000), 4096);
    assert_int_equal(reserve_as(&w, "192.0.2.1", 1100), 1024);
    assert_int_equal(reserve_as(&w, "192.0.2.2", 10), 10);
    assert_int_equal(reserve_as(&w, "2001:db8::1", 800), 800); /* a /64 is one */
    assert_int_equal(reserve_as(&w, "2001:db8::ffff", 800), 224);
    assert_int_equal(reserve_as(&w, NULL, 10), 10); /* of whom nothing is asked */
    assert_int_equal(wr_reservations_open(w.table), 1024 + 10 + 1024 + 10);
    assert_int_equal(wr_reservations_most(w.table), 4096);
    w.now += TTL; /* some of the expired make room at once, and the more the longer */
    assert_in_range(reserve_as(&w, "192.0.2.1", 1100), 800, 1024);
    close_world(&w);

    open_world(&w, SMALL BUCKET(1000), 64 * 4); /* what is released is no longer counted */
    w.peer = "192.0.2.1";
    for (unsigned i = 0; i < 1000; i++) {
        assert_int_equal(reserve(&w, 0, id), 0);
        assert_int_equal(wr_reservations_release(w.table, NULL, id, w.now), 0);
    }
    assert_int_equal(wr_reservations_open(w.table), 0);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settle_once),
        cmocka_unit_test(test_too_late),
        cmocka_unit_test(test_names_that_were_never_given_out),
        cmocka_unit_test(test_release_frees_the_place),
        cmocka_unit_test(test_full_until_some_expire),
        cmocka_unit_test(test_one_peer_has_a_quarter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
