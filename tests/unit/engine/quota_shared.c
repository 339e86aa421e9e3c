/* Quotas of customers that are shared: each node counts what it let through, and all nodes' cells
 * add up to what was admitted. */
#include "shared_fixture.h"

#include <sys/stat.h>

#include "store/customers.h"
#include "store/usage.h"

#define DAY_T0 20454 /* 2026-01-01 */
#define DAY (86400 * S)
#define NODES 2
#define LIMIT 100

static const char policy[] =
    "version: 1\n"
    "arena: {path: %s/arena, size: 2MiB}\n"
    "store: {redis: {url: \"redis://127.0.0.1:1/0\"}, mode: %s}\n"
    "identity: {api_key: {header: X-Api-Key}}\n"
    "customers: {directory: %s/customers, by: [api_key], room: 100}\n"
    "limits:\n"
    "  - name: daily\n"
    "    by: [customer]\n"
    "    shared: true\n"
    "    when_store_gone: %s\n"
    "    quota: {limit: 100, per: day, count: {status: [2xx]}%s}\n"
    "  - {name: per-ip, by: [ip], rate: 1000/day, algorithm: fixed-window}\n";

struct place {
    char folder[64];
    struct node node;
};
static struct place places[NODES];
static struct memory_store *store;

/* One customer, number 3. */
static void fill(const char *folder)
{
    struct wr_customers_options options = {.writer = true};
    struct wr_customer_record record = {
        .id = 77, .flags = WR_CUSTOMER_ACTIVE, .until_ns = INT64_MAX};
    unsigned char digest[WR_SHA256_BYTES];
    struct wr_customers *map;
    char path[128];

    (void)snprintf(path, sizeof path, "%s/customers/" WR_CUSTOMERS_NAME, folder);
    options.path = path;
    assert_int_equal(wr_customers_open(&map, &options, NULL), 0);
    assert_int_equal(wr_customers_plan(map, "default"), 0);
    assert_int_equal(wr_customers_set(map, 3, &record, true), 0);
    wr_customer_digest(slice("api_key"), slice("key"), digest);
    assert_int_equal(wr_customers_key_set(map, digest, 3), 0);
    wr_customers_close(map);
}

static void open_place(struct place *place, const char *mode, const char *gone, const char *more)
{
    char text[2000], path[128], errors[4000];
    FILE *file;

    (void)snprintf(place->folder, sizeof place->folder, "/tmp/weir-test-shared-XXXXXX");
    assert_non_null(mkdtemp(place->folder));
    (void)snprintf(text, sizeof text, policy, place->folder, mode, place->folder, gone, more);
    (void)snprintf(path, sizeof path, "%s/policy.yaml", place->folder);
    file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(text, file);
    (void)fclose(file);
    place->node = (struct node){.store = store, .extra = 10, .ttl_ns = 60 * S, .nodes = NODES};
    if (weir_open(&place->node.weir, path, NULL, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    fill(place->folder);
}

static void close_place(struct place *place)
{
    static const char *const names[] = {"customers/daily.usage", "customers/" WR_CUSTOMERS_NAME,
                                        "arena", "policy.yaml", "customers"};
    char path[128];

    weir_close(place->node.weir);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)snprintf(path, sizeof path, "%.63s/%.63s", place->folder, names[i]);
        (void)remove(path);
    }
    (void)rmdir(place->folder);
}

static int setup(const char *mode, const char *gone, const char *more)
{
    store = memory_store_new(NODES);
    for (unsigned i = 0; i < NODES; i++)
        open_place(&places[i], mode, gone, more);
    return 0;
}

static int setup_strict(void **state)
{
    (void)state;
    return setup("strict", "open", "");
}

static int setup_leased(void **state)
{
    (void)state;
    return setup("leased", "open", "");
}

static int setup_graced(void **state)
{
    (void)state;
    return setup("leased", "open", ", grace: 20%");
}

static int setup_billed(void **state)
{
    (void)state;
    return setup("strict", "local", ", on_exceed: overage, ceiling: 140");
}

static int teardown(void **state)
{
    (void)state;
    for (unsigned i = 0; i < NODES; i++)
        close_place(&places[i]);
    memory_store_free(store);
    return 0;
}

static uint64_t read_cell(const struct place *place, uint64_t *over)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    struct wr_usage_options options = {.name = "daily", .per = 1, .must_exist = true};
    struct wr_usage *usage;
    char path[128];
    unsigned count;

    (void)snprintf(path, sizeof path, "%s/customers/daily" WR_USAGE_SUFFIX, place->folder);
    options.path = path;
    assert_int_equal(wr_usage_open(&usage, &options, NULL), 0);
    count = wr_usage_read(usage, 3, windows);
    wr_usage_close(usage);
    assert_true(count <= 1 && (count == 0 || windows[0].day == DAY_T0));
    *over = count == 0 ? 0 : windows[0].over;
    return count == 0 ? 0 : windows[0].units;
}

static uint64_t counted(const struct place *place)
{
    uint64_t over;

    return read_cell(place, &over);
}

static uint64_t spend(unsigned turns)
{
    uint64_t admitted = 0;

    for (unsigned i = 0; i < turns; i++) {
        struct place *place = &places[i % NODES];
        struct call call = {.api_key = "key", .cost = 1 + i % 3, .peek = i % 5 == 4};
        struct weir_answer answer = request(&place->node, T0 + i * MS, call);
        if (answer.outcome == WEIR_ALLOW && !call.peek)
            admitted += (uint64_t)call.cost;
    }
    return admitted;
}

static void all_nodes_add_up(void **state)
{
    uint64_t admitted = spend(200);

    (void)state;
    assert_true(admitted > LIMIT / 2 && admitted <= LIMIT);
    assert_true(counted(&places[0]) > 0 && counted(&places[1]) > 0);
    assert_int_equal(counted(&places[0]) + counted(&places[1]), admitted);
}

static void what_passes_without_the_store_is_counted(void **state)
{
    struct node *node = &places[0].node;

    (void)state;
    node->store = NULL;
    assert_int_equal(request(node, T0, (struct call){.api_key = "key", .cost = 500}).outcome,
                     WEIR_ALLOW);
    assert_int_equal(counted(&places[0]), 500);
    (void)request(node, T0, (struct call){.api_key = "nobody's", .cost = 1});
    assert_int_equal(counted(&places[0]), 500);
}

/* Leases are of what is admitted, the grace too; what callers are told is of the limit. */
static void a_grace_is_admitted_and_not_told(void **state)
{
    struct call one = {.api_key = "key", .cost = 1};
    uint64_t admitted = 0, over;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        struct weir_answer answer = request(&places[i % NODES].node, T0 + i * MS, one);
        admitted += answer.outcome == WEIR_ALLOW;
        assert_int_equal(answer.verdicts[0].capacity_units, LIMIT);
        assert_true(answer.verdicts[0].remaining_units < LIMIT);
        if (answer.outcome == WEIR_DENY)
            assert_int_equal(answer.verdicts[0].remaining_units, 0);
    }
    assert_true(admitted > LIMIT && admitted <= LIMIT + 20);
    assert_int_equal(read_cell(&places[0], &over) + counted(&places[1]), admitted);
    assert_int_equal(over, 0);
}

/* Each has half of what is admitted in all, and none knows what lies beyond the limit. */
static void what_an_island_lets_through_is_no_overage(void **state)
{
    struct node *node = &places[0].node;
    struct weir_answer answer;
    uint64_t over;

    (void)state;
    (void)request(node, T0, (struct call){.api_key = "key", .cost = 90});
    answer = request(&places[1].node, T0, (struct call){.api_key = "key", .cost = 30});
    assert_int_equal(answer.verdicts[0].remaining_units, 0);
    assert_int_equal(read_cell(&places[1], &over), 30);
    assert_int_equal(over, 20);
    node->store = NULL;
    answer = request(node, T0, (struct call){.api_key = "key", .cost = 69});
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.verdicts[0].capacity_units, 50);
    assert_int_equal(answer.verdicts[0].remaining_units, 0);
    answer = request(node, T0, (struct call){.api_key = "key", .cost = 2});
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(read_cell(&places[0], &over), 159);
    assert_int_equal(over, 0);
}

/* By one of his keys, as doors that know no requests ask: the same count as by a request. */
static void a_key_leads_to_the_customers_count(void **state)
{
    struct node *node = &places[0].node;
    struct wr_engine *engine = node->weir->engine;
    struct weir_answer answer;
    uint64_t over;

    (void)state;
    (void)request(&places[1].node, T0, (struct call){.api_key = "key", .cost = 90});
    assert_false(
        wr_engine_begin_check(engine, 0, slice("key"), 20, false, T0, &answer, &node->pending));
    ask_store(node, T0, &answer);
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.verdicts[0].remaining_units, 0);
    assert_int_equal(read_cell(&places[0], &over), 20);
    assert_int_equal(over, 10);
    assert_true(wr_engine_begin_check(engine, 0, slice("nobody's"), 20, false, T0, &answer,
                                      &node->pending));
    assert_int_equal(answer.outcome, WEIR_ALLOW);
    assert_int_equal(answer.verdicts[0].remaining_units, INT64_MAX);
    assert_int_equal(wr_engine_lease_of(engine, 0, slice("key")), 0);
    assert_int_equal(read_cell(&places[0], &over), 20);
}

static void settling_and_the_status_are_counted_too(void **state)
{
    struct node *node = &places[0].node;
    struct wr_engine *engine = node->weir->engine;
    struct weir_answer answer = request(node, T0, (struct call){.api_key = "key", .cost = 5});
    struct wr_pending pending;

    (void)state;
    assert_int_equal(counted(&places[0]), 5);
    answer.expires_ns = T0 + 2 * DAY;
    assert_int_equal(wr_engine_settle_shared(engine, &answer, 8, T0 + DAY, &pending), 0);
    assert_int_equal(counted(&places[0]), 8);
    assert_true(weir_awaits_status(node->weir, &answer));
    wr_engine_ended_shared(engine, &answer, 200, T0 + DAY, &pending);
    assert_int_equal(counted(&places[0]), 8);
    answer = request(node, T0, (struct call){.api_key = "key", .cost = 5});
    wr_engine_ended_shared(engine, &answer, 500, T0, &pending);
    assert_int_equal(pending.call.count, 1); /* at the store as well */
    assert_int_equal(pending.adjust[0], -5);
    assert_int_equal(counted(&places[0]), 8);
}

#define STRICT(f) cmocka_unit_test_setup_teardown(f, setup_strict, teardown)
#define WITH(f, setup) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define LEASED(f) cmocka_unit_test_setup_teardown(f, setup_leased, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        STRICT(all_nodes_add_up),
        LEASED(all_nodes_add_up),
        WITH(a_grace_is_admitted_and_not_told, setup_graced),
        WITH(what_an_island_lets_through_is_no_overage, setup_billed),
        WITH(a_key_leads_to_the_customers_count, setup_billed),
        STRICT(what_passes_without_the_store_is_counted),
        STRICT(settling_and_the_status_are_counted_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
