/* ring_moves.c - keys of a ring when its nodes come and go: counted on exactly where they are
 * handed over, within the bound where a node dies. */
#include "nodes.h"

#include <string.h>

#define KEYS 300
#define UNITS 10
#define S WR_NS_PER_S

static struct nodes nodes;
static struct wr_limit limits[7]; /* by algorithm */

static void make_limits(void)
{
    for (int algo = 1; algo <= WR_ALGO_MAX; algo++)
        assert_null(wr_limit_make(&limits[algo], (enum wr_algo)algo, UNITS, 3600 * S,
                                  algo == WR_LEAKY_BUCKET ? UNITS - 1 : -1, false));
}

static struct wr_remote_charge charge_of(uint64_t who, int64_t cost)
{
    struct wr_remote_charge charge = {
        .limit = &limits[1 + who % WR_ALGO_MAX], .name = "moves", .cost = cost};

    memcpy(charge.tag, &who, sizeof who);
    return charge;
}

/* Does |cost| pass for |who|, asked at |node|? */
static bool take(unsigned node, uint64_t who, int64_t cost, int64_t *remaining)
{
    struct wr_remote_call call = {.count = 1};

    call.charge[0] = charge_of(who, cost);
    assert_true(nodes_take(&nodes, node, &call));
    *remaining = call.charge[0].remaining;
    return call.charge[0].allowed;
}

static void spend(unsigned node, uint64_t first, int64_t units)
{
    int64_t remaining;

    for (uint64_t who = first; who < first + KEYS; who++)
        for (int64_t i = 0; i < units; i++)
            assert_true(take(node, who, 1, &remaining));
}

static int64_t left(unsigned node, uint64_t who)
{
    int64_t remaining;

    (void)take(node, who, 0, &remaining);
    return remaining;
}

static void start(unsigned count)
{
    nodes_open(&nodes, count, "secret");
    nodes.now_ns = INT64_C(1700006400) * S;
}

/* A look at a leaky bucket passes as a request would: what remains is asked of the others. */
static void all_have(unsigned node, uint64_t first, int64_t units)
{
    for (uint64_t who = first; who < first + KEYS; who++)
        if (1 + who % WR_ALGO_MAX != WR_LEAKY_BUCKET)
            assert_int_equal(left(node, who), units);
}

static void a_node_that_leaves_hands_over(void **state)
{
    int64_t remaining;

    (void)state;
    start(3);
    spend(0, 1000, 4);
    all_have(1, 1000, UNITS - 4);
    nodes_leave(&nodes, 2);
    nodes_settle(&nodes, 2);
    all_have(0, 1000, UNITS - 4);
    all_have(1, 1000, UNITS - 4);
    spend(1, 1000, UNITS - 4);
    for (uint64_t who = 1000; who < 1000 + KEYS; who++)
        assert_false(take(0, who, 1, &remaining));
    nodes_leave(&nodes, 1);
    nodes_settle(&nodes, 1);
    for (uint64_t who = 1000; who < 1000 + KEYS; who++)
        assert_false(take(0, who, 1, &remaining));
    nodes_close(&nodes);
}

static void a_node_that_joins_is_handed_its_keys(void **state)
{
    unsigned owned = 0;

    (void)state;
    start(3);
    nodes_leave(&nodes, 2);
    nodes_settle(&nodes, 2);
    spend(0, 2000, 4);
    nodes_start(&nodes, 2);
    nodes_settle(&nodes, 3);
    for (unsigned node = 0; node < 3; node++)
        all_have(node, 2000, UNITS - 4);
    for (uint64_t who = 2000; who < 2000 + KEYS; who++) {
        const struct wr_remote_charge charge = charge_of(who, 0);
        owned += nodes_owner(&nodes, 0, charge.tag) == 2;
    }
    assert_in_range(owned, KEYS / 6, KEYS / 2); /* about a third */
    /* And back again: twice as much is gone nowhere. */
    spend(2, 2000, 2);
    nodes_leave(&nodes, 0);
    nodes_settle(&nodes, 2);
    all_have(1, 2000, UNITS - 6);
    nodes_close(&nodes);
}

/* It dies: until that is known its keys are nobody's; then the next node counts them anew, so that
 * each admits at most one more limit. When it is back with its arena, both counts stand. */
static void a_node_that_dies_costs_at_most_a_limit(void **state)
{
    uint64_t its = 0;
    struct wr_remote_call call = {.count = 1};
    int64_t remaining;

    (void)state;
    start(3);
    spend(0, 3000, 4);
    for (uint64_t who = 3000; who < 3000 + KEYS; who++) {
        const struct wr_remote_charge charge = charge_of(who, 0);
        if (charge.limit->algo == WR_FIXED_WINDOW && nodes_owner(&nodes, 0, charge.tag) == 2)
            its = who;
    }
    assert_true(its != 0);
    nodes_kill(&nodes, 2);
    call.charge[0] = charge_of(its, 1);
    assert_false(nodes_take(&nodes, 0, &call));
    assert_int_not_equal(call.trouble, WR_TROUBLE_NONE);
    nodes_settle(&nodes, 2);
    for (int i = 0; i < UNITS; i++)
        assert_true(take((unsigned)i % 2, its, 1, &remaining));
    assert_false(take(0, its, 1, &remaining));
    nodes_start(&nodes, 2);
    nodes_settle(&nodes, 3);
    assert_int_equal(nodes_owner(&nodes, 0, call.charge[0].tag), 2);
    assert_false(take(0, its, 1, &remaining)); /* 4 of before and 10 of between */
    nodes_close(&nodes);
}

/* Asked all the time while a node leaves and another comes: never more than the limit, and every
 * question is answered. */
struct storm {
    struct wr_remote_call call;
    unsigned node;
    uint64_t who;
    bool busy;
};

static struct {
    int64_t allowed, refused, gone;
} tally;

static void storm_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    struct storm *storm = call->context;

    storm->busy = false;
    if (result == WR_REMOTE_GONE)
        tally.gone++;
    else if (call->charge[0].allowed)
        tally.allowed++;
    else
        tally.refused++;
}

#define STORMS 64
static struct storm storms[STORMS];

static void on_storm(uv_timer_t *timer)
{
    static uint64_t turn;
    (void)timer;

    for (unsigned i = 0; i < STORMS; i++) {
        struct storm *storm = &storms[i];
        const struct wr_backend *backend = &nodes.node[i % 2].backend;
        if (storm->busy)
            continue;
        storm->call = (struct wr_remote_call){.count = 1, .done = storm_done, .context = storm};
        storm->call.charge[0] = charge_of(5000 + turn++ % KEYS, 1);
        storm->call.charge[0].limit = &limits[WR_FIXED_WINDOW];
        storm->busy = true;
        backend->ops->take(backend->context, &storm->call);
    }
}

static void under_load_nothing_is_counted_twice(void **state)
{
    uv_timer_t timer;

    (void)state;
    start(3);
    assert_null(wr_limit_make(&limits[WR_FIXED_WINDOW], WR_FIXED_WINDOW, 200, 3600 * S, -1, false));
    (void)uv_timer_init(&nodes.loop, &timer);
    (void)uv_timer_start(&timer, on_storm, 1, 1);
    nodes_pass(&nodes, 200);
    nodes_leave(&nodes, 2);
    nodes_pass(&nodes, 200);
    nodes_start(&nodes, 2);
    nodes_settle(&nodes, 3);
    while (tally.refused < 5000)
        nodes_pass(&nodes, 50);
    uv_close((uv_handle_t *)&timer, NULL);
    nodes_pass(&nodes, 100);
    print_message("allowed %lld refused %lld gone %lld\n", (long long)tally.allowed,
                  (long long)tally.refused, (long long)tally.gone);
    assert_int_equal(tally.allowed, KEYS * 200);
    assert_int_equal(tally.gone, 0);
    nodes_close(&nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_leaves_hands_over),
        cmocka_unit_test(a_node_that_joins_is_handed_its_keys),
        cmocka_unit_test(a_node_that_dies_costs_at_most_a_limit),
        cmocka_unit_test(under_load_nothing_is_counted_twice),
    };

    make_limits();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
