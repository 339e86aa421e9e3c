/* The reorder window against a model that keeps everything in one list and searches it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/order.h"

#define ITEMS 3000

static uint64_t seed;

static uint64_t next_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* ---- the model ---------------------------------------------------------------------------- */

struct model {
    int64_t window;
    int64_t times[ITEMS];
    bool gone[ITEMS];
    size_t count;
    int64_t latest, reached;
};

/* The index of the next item due, or -1. */
static int model_pop(struct model *m, bool flush)
{
    int best = -1;

    for (size_t i = 0; i < m->count; i++)
        if (!m->gone[i] && (best < 0 || m->times[i] < m->times[best]))
            best = (int)i;
    if (best < 0 || (!flush && m->times[best] > m->latest - m->window))
        return -1;
    m->gone[best] = true;
    if (m->times[best] > m->reached)
        m->reached = m->times[best];
    return best;
}

/* ---- both, side by side ------------------------------------------------------------------- */

static void check_pops(struct wr_order *order, struct model *m, const bool *late, bool flush)
{
    for (;;) {
        struct wr_item *item = wr_order_pop(order, flush);
        int expected = model_pop(m, flush);
        if (expected < 0) {
            assert_null(item);
            return;
        }
        assert_non_null(item);
        assert_int_equal(item->line, expected);
        assert_int_equal(item->time_ns, m->times[expected]);
        assert_int_equal(item->late, late[expected]);
        wr_order_done(order, item);
    }
}

/* Times that mostly rise, with steps back of up to |back| and, where |wild|, far jumps. */
static void run(int64_t window, uint64_t back, bool wild)
{
    static struct model m;
    static bool late[ITEMS];
    struct wr_order *order = wr_order_new(window, 0);
    int64_t now = 1000000;

    memset(&m, 0, sizeof m);
    m.window = window;
    m.reached = m.latest = -1;
    for (size_t i = 0; i < ITEMS; i++) {
        struct wr_log_record record = {.cost = -1, .client = {"h", 1}, .path = {"/", 1}};
        now += (int64_t)(next_random() % 20);
        record.time_ns = now - (int64_t)(next_random() % (back + 1));
        if (wild && next_random() % 200 == 0)
            record.time_ns = (int64_t)(next_random() % 100000000);
        m.times[i] = record.time_ns;
        late[i] = record.time_ns < m.reached;
        m.count++;
        if (record.time_ns > m.latest)
            m.latest = record.time_ns;
        assert_true(wr_order_push(order, &record, i, 0));
        check_pops(order, &m, late, false);
    }
    check_pops(order, &m, late, true);
    wr_order_free(order);
}

static void test_against_model(void **state)
{
    const char *text = getenv("WEIR_SEED");
    uint64_t start = text != NULL ? strtoull(text, NULL, 10) : 20261130;
    (void)state;

    seed = start * 2 + 1;
    (void)printf("WEIR_SEED=%llu\n", (unsigned long long)start);
    for (int round = 0; round < 3; round++) {
        run(100, 0, false);
        run(100, 50, false);
        run(100, 500, false);
        run(0, 50, true);
        run(1000, 1000, true);
        run(INT64_MAX, 5000, true);
    }
}

/* What an item points to is its own copy; the query is cut off. */
static void test_copies(void **state)
{
    char line[] = "client /path?query GET value";
    struct wr_log_record record = {.time_ns = 5,
                                   .duration_ns = 7,
                                   .cost = 3,
                                   .status = 200,
                                   .client = {line, 6},
                                   .path = {line + 7, 11},
                                   .method = {line + 19, 3},
                                   .field = {{line + 23, 5}, {NULL, 0}, {line, 0}}};
    struct wr_order *order = wr_order_new(0, 3);
    struct wr_item *item;
    (void)state;

    assert_true(wr_order_push(order, &record, 9, 2));
    memset(line, 'x', sizeof line);
    item = wr_order_pop(order, false);
    assert_non_null(item);
    assert_int_equal(item->request.peer.len, 6);
    assert_memory_equal(item->request.peer.ptr, "client", 6);
    assert_int_equal(item->request.path.len, 5);
    assert_memory_equal(item->request.path.ptr, "/path", 5);
    assert_memory_equal(item->request.method.ptr, "GET", 3);
    assert_int_equal(item->request.field_count, 3);
    assert_memory_equal(item->request.fields[0].ptr, "value", 5);
    assert_null(item->request.fields[1].ptr);
    assert_non_null(item->request.fields[2].ptr);
    assert_int_equal(item->request.cost_units, 3);
    assert_int_equal(item->duration_ns, 7);
    assert_int_equal(item->line, 9);
    assert_int_equal(item->source, 2);
    wr_order_done(order, item);
    wr_order_free(order);
}

/* Held back are at most so many; then the oldest goes although it is not due. */
static void test_bounded(void **state)
{
    struct wr_log_record record = {.cost = -1, .client = {"h", 1}};
    struct wr_order *order = wr_order_new(INT64_MAX, 0);
    struct wr_item *item;
    (void)state;

    for (size_t i = 0; i < WR_ORDER_ITEMS_MAX; i++) {
        record.time_ns = (int64_t)i;
        assert_true(wr_order_push(order, &record, i, 0));
        assert_null(wr_order_pop(order, false));
    }
    record.time_ns++;
    assert_true(wr_order_push(order, &record, WR_ORDER_ITEMS_MAX, 0));
    item = wr_order_pop(order, false);
    assert_non_null(item);
    assert_int_equal(item->line, 0);
    wr_order_done(order, item);
    assert_null(wr_order_pop(order, false));
    wr_order_free(order); /* with a million left in it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_model),
        cmocka_unit_test(test_copies),
        cmocka_unit_test(test_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
