/* report.c - what is told of usage: windows, days, the top, totals, overage; over two nodes; and
 * that what is wrong in a database is found. */
#include "fixture.h"

#include "algo/civil.h"
#include "base/units.h"
#include "meter/ledger.h"
#include "meter/report.h"

static struct wr_database *database;
static int64_t daily, monthly;
static int64_t acme, globex;
static char text[4000];

static void put(int64_t node, int64_t customer, int64_t quota, int32_t window, int32_t day,
                uint64_t used, uint64_t over)
{
    const struct wr_ledger_entry entry = {.customer = customer,
                                          .quota = quota,
                                          .window = window,
                                          .day = day,
                                          .daily = quota == daily,
                                          .used = used,
                                          .over = over};
    struct wr_ledger_batch batch;

    assert_int_equal(wr_ledger_begin(&batch, database, node, NOW), 0);
    assert_int_equal(wr_ledger_put(&batch, &entry), 0);
    assert_int_equal(wr_ledger_end(&batch), 0);
}

/* Days from 100 on. Two nodes; acme of tenant "group". */
static int set_up(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    int64_t node;

    (void)make_folder(state);
    database = open_database();
    acme = make_customer(database, "acme", "pro").id;
    globex = make_customer(database, "globex", "free").id;
    change.tenant = "group";
    assert_int_equal(wr_customer_change(database, acme, &change, &somebody, NULL), 0);
    assert_int_equal(wr_ledger_node(database, NOW, &node), 0);
    assert_int_equal(
        wr_database_exec(database, "INSERT INTO node(id, name, since) VALUES(2, 'other', 0)"), 0);
    assert_int_equal(wr_ledger_quota(database, "daily", WR_PER_DAY, "UTC", &daily), 0);
    assert_int_equal(wr_ledger_quota(database, "monthly", WR_PER_MONTH, "Asia/Tokyo", &monthly), 0);
    put(node, acme, daily, 100, 100, 10, 0);
    put(2, acme, daily, 100, 100, 5, 2);
    put(node, acme, daily, 101, 101, 7, 0);
    put(node, globex, daily, 101, 101, 70, 30);
    put(node, acme, monthly, 100, 100, 3, 0);
    put(node, acme, monthly, 100, 101, 9, 4);
    put(2, acme, monthly, 100, 101, 1, 0);
    return 0;
}

static int tear_down(void **state)
{
    wr_database_close(database);
    return remove_folder(state);
}

static bool add(void *context, const struct wr_report_line *line)
{
    size_t len = strlen(text);

    (void)context;
    (void)snprintf(text + len, sizeof text - len, "%s %s %d/%d %d-%d x%u;", line->name,
                   line->quota.name, line->window, line->day, (int)line->used, (int)line->over,
                   line->nodes);
    return true;
}

typedef int report_fn(struct wr_database *, const struct wr_report_filter *, wr_report_fn *,
                      void *);

static const char *report(report_fn *of, struct wr_report_filter filter)
{
    text[0] = '\0';
    if (filter.last == 0)
        filter.last = 1000;
    assert_int_equal(of(database, &filter, add, NULL), 0);
    return text;
}

static void windows(void **state)
{
    (void)state;
    assert_string_equal(report(wr_report_windows, (struct wr_report_filter){0}),
                        "acme daily 100/100 15-2 x2;acme daily 101/101 7-0 x1;"
                        "acme monthly 100/100 10-4 x2;globex daily 101/101 70-30 x1;");
    assert_string_equal(
        report(wr_report_windows, (struct wr_report_filter){.customer = acme, .quota = "daily"}),
        "acme daily 100/100 15-2 x2;acme daily 101/101 7-0 x1;");
    assert_string_equal(report(wr_report_windows, (struct wr_report_filter){.first = 101}),
                        "acme daily 101/101 7-0 x1;acme monthly 100/100 10-4 x2;"
                        "globex daily 101/101 70-30 x1;");
    assert_string_equal(
        report(wr_report_windows,
               (struct wr_report_filter){.first = 100, .last = 100, .by_start = true}),
        "acme daily 100/100 15-2 x2;acme monthly 100/100 10-4 x2;");
    assert_string_equal(report(wr_report_windows,
                               (struct wr_report_filter){.tenant = "group", .per = WR_PER_MONTH}),
                        "acme monthly 100/100 10-4 x2;");
    assert_string_equal(report(wr_report_windows, (struct wr_report_filter){.most = 1}),
                        "acme daily 100/100 15-2 x2;");
}

static void overage_lines(void **state)
{
    (void)state;
    assert_string_equal(report(wr_report_windows, (struct wr_report_filter){.over_only = true}),
                        "acme daily 100/100 15-2 x2;acme monthly 100/100 10-4 x2;"
                        "globex daily 101/101 70-30 x1;");
    assert_string_equal(
        report(wr_report_windows, (struct wr_report_filter){.over_only = true, .first = 101}),
        "acme monthly 100/100 10-4 x2;globex daily 101/101 70-30 x1;");
}

static void days(void **state)
{
    (void)state;
    assert_string_equal(report(wr_report_days, (struct wr_report_filter){.customer = acme}),
                        "acme daily 100/100 15-2 x2;acme daily 101/101 7-0 x1;"
                        "acme monthly 100/100 3-0 x1;acme monthly 100/101 7-0 x2;");
    assert_string_equal(
        report(wr_report_days, (struct wr_report_filter){.first = 101, .last = 101}),
        "acme daily 101/101 7-0 x1;acme monthly 100/101 7-0 x2;"
        "globex daily 101/101 70-30 x1;");
}

static void top(void **state)
{
    (void)state;
    assert_string_equal(report(wr_report_top, (struct wr_report_filter){.first = 100}),
                        "globex daily 100/100 70-30 x1;acme daily 100/100 22-2 x2;"
                        "acme monthly 100/100 10-4 x2;");
    assert_string_equal(report(wr_report_top, (struct wr_report_filter){.first = 100, .most = 1}),
                        "globex daily 100/100 70-30 x1;");
    assert_string_equal(
        report(wr_report_top,
               (struct wr_report_filter){.first = 100, .last = 100, .quota = "daily"}),
        "acme daily 100/100 15-2 x2;");
}

static void totals(void **state)
{
    (void)state;
    assert_string_equal(report(wr_report_totals, (struct wr_report_filter){.first = 100}),
                        "acme daily 100/100 22-2 x2;acme monthly 100/100 10-4 x2;"
                        "globex daily 100/100 70-30 x1;");
    assert_string_equal(
        report(wr_report_totals, (struct wr_report_filter){.first = 101, .customer = acme}),
        "acme daily 101/101 7-0 x1;acme monthly 101/101 10-4 x2;");
}

/* The month from the 11th of April (day 100) is of May (days 120 to 150), whole and once. */
static void months(void **state)
{
    const struct wr_report_filter april = {.customer = acme, .first = 90, .last = 119};
    const struct wr_report_filter may = {.customer = acme, .first = 120, .last = 150};
    const struct wr_report_filter june = {.customer = acme, .first = 151, .last = 180};

    (void)state;
    assert_string_equal(report(wr_report_totals, april), "acme daily 90/90 22-2 x2;");
    assert_string_equal(report(wr_report_totals, may), "acme monthly 120/120 10-4 x2;");
    assert_string_equal(report(wr_report_top, may), "acme monthly 120/120 10-4 x2;");
    assert_string_equal(report(wr_report_windows, may), "acme monthly 100/100 10-4 x2;");
    assert_string_equal(report(wr_report_totals, june), "");
}

static bool add_end(void *context, const struct wr_report_line *line)
{
    size_t len = strlen(text);

    (void)context;
    (void)snprintf(text + len, sizeof text - len, "%s %d %s%s;", line->quota.name, line->last,
                   line->closed ? "closed" : "open", line->over_known ? "" : " over unknown");
    return true;
}

static const char *ends(report_fn *of, int64_t now_ns)
{
    const struct wr_report_filter filter = {.customer = acme, .last = 1000, .now_ns = now_ns};

    text[0] = '\0';
    assert_int_equal(of(database, &filter, add_end, NULL), 0);
    return text;
}

/* It ends on the 10th of May, day 129, in Tokyo: at 15:00 UTC. */
static void closed(void **state)
{
    const int64_t end_ns = 129 * WR_NS_PER_DAY + 15 * WR_NS_PER_HOUR;

    (void)state;
    assert_string_equal(ends(wr_report_windows, end_ns - 1),
                        "daily 100 closed;daily 101 closed;monthly 129 open;");
    assert_string_equal(ends(wr_report_windows, end_ns),
                        "daily 100 closed;daily 101 closed;monthly 129 closed;");
    assert_string_equal(ends(wr_report_totals, 101 * WR_NS_PER_DAY),
                        "daily 101 open;monthly 129 open;");
    assert_string_equal(ends(wr_report_days, end_ns),
                        "daily 100 closed;daily 101 closed;monthly 100 closed over unknown;"
                        "monthly 101 closed over unknown;");
}

static bool add_quota(void *context, const struct wr_report_quota *quota)
{
    size_t len = strlen(text);

    (void)context;
    (void)snprintf(text + len, sizeof text - len, "%s %d %s;", quota->name, quota->per,
                   quota->zone);
    return true;
}

static void quotas(void **state)
{
    (void)state;
    text[0] = '\0';
    assert_int_equal(wr_report_quotas(database, add_quota, NULL), 0);
    assert_string_equal(text, "daily 1 UTC;monthly 3 Asia/Tokyo;");
}

static void keep(void *context, const char *said)
{
    (void)context;
    (void)snprintf(text, sizeof text, "%s", said);
}

static void verifies(void **state)
{
    struct wr_verify verify = {0};

    (void)state;
    assert_int_equal(wr_verify_database(database, &verify, keep, NULL), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.windows, 6);
    assert_int_equal(verify.customers, 2);
    assert_int_equal(verify.nodes, 2);
    assert_int_equal(verify.used, 102);
    assert_int_equal(verify.over, 36);
    assert_int_equal(wr_verify_database(database, &verify, keep, NULL), 0);
    assert_int_equal(verify.used, 204); /* adds to what it is given */
    assert_int_equal(
        wr_database_exec(database, "UPDATE usage_day SET used = used + 1 WHERE node = 2"), 0);
    assert_int_equal(wr_verify_database(database, &verify, keep, NULL), 0);
    assert_int_equal(verify.wrong, 1);
    assert_string_equal(text, "acme, monthly, window of 1970-04-11: 1 used, its days add up to 2");
    assert_int_equal(
        wr_database_exec(database,
                         "PRAGMA foreign_keys = OFF; DELETE FROM customer WHERE name = 'globex'"),
        0);
    assert_int_equal(wr_verify_database(database, &verify, keep, NULL), 0);
    assert_true(verify.wrong > 2);
}

/* Another database, of node |name|, with rows of globex alone. */
static struct wr_database *open_second(const char *name)
{
    char path[300], sql[256];
    const struct wr_database_options options = {.path = path, .create = true};
    struct wr_database *second;
    struct wr_fault fault;

    (void)snprintf(path, sizeof path, "%s/second.db", test_folder);
    assert_int_equal(wr_database_open(&second, &options, &fault), 0);
    (void)make_customer(second, "globex", "free");
    (void)make_customer(second, "unused", "free");
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO node(id, name, since) VALUES(7, '%s', 0);"
                   "INSERT INTO quota(id, name, per, zone) VALUES(1, 'daily', 1, 'UTC')",
                   name);
    assert_int_equal(wr_database_exec(second, sql), 0);
    (void)snprintf(sql, sizeof sql,
                   "INSERT INTO usage(node, quota, window_day, customer, used, over, day, batch)"
                   " VALUES(7, 1, 100, %lld, 3, 0, 100, 1)",
                   (long long)globex);
    assert_int_equal(wr_database_exec(second, sql), 0);
    return second;
}

static void databases_of_one_node(void **state)
{
    struct wr_database *second = open_second("other");
    char node[64];

    (void)state;
    assert_int_equal(wr_verify_same_node(second, database, node, sizeof node), 0);
    assert_string_equal(node, "other");
    assert_int_equal(wr_database_exec(second, "UPDATE node SET name = 'third'"), 0);
    assert_int_equal(wr_verify_same_node(second, database, node, sizeof node), 0);
    assert_string_equal(node, "");
    wr_database_close(second);
}

static void customers_of_several_nodes(void **state)
{
    struct wr_database *second = open_second("third");
    struct wr_database *earlier[2] = {NULL, database};
    uint64_t repeated;

    (void)state;
    assert_int_equal(wr_verify_repeated(second, earlier, 2, &repeated), 0);
    assert_int_equal(repeated, 1);
    assert_int_equal(wr_verify_repeated(second, earlier, 1, &repeated), 0);
    assert_int_equal(repeated, 0);
    wr_database_close(second);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(windows),
        TEST(overage_lines),
        TEST(days),
        TEST(top),
        TEST(totals),
        TEST(quotas),
        TEST(verifies),
        TEST(months),
        TEST(closed),
        TEST(databases_of_one_node),
        TEST(customers_of_several_nodes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
