/* flush.c - cells into rows: which day it is put down to, whose cell it is, what fails and is said
 * again, and what is found wrong when the two are compared. */
#include "keeping.h"

#include "meter/report.h"

#define DAY(y, m, d) wr_civil_day_of(y, m, d)

static struct wr_database *database;
static struct wr_customers *map;
static struct wr_kept kept;
static struct wr_flush flush;

static int set_up(void **state)
{
    (void)make_folder(state);
    wr_keeper_stop(start_keeper());
    database = open_database();
    map = open_map();
    flush = (struct wr_flush){.database = database, .map = map, .now_ns = NOW};
    assert_int_equal(wr_ledger_node(database, NOW, &flush.node), 0);
    kept = (struct wr_kept){.name = "monthly",
                            .zone = "UTC",
                            .civil = {.per = WR_PER_MONTH, .anchor = 1},
                            .anchor_by_customer = true};
    assert_int_equal(wr_kept_open(&kept, test_folder, ROOM, NULL), 0);
    return 0;
}

static int tear_down(void **state)
{
    wr_kept_close(&kept);
    wr_customers_close(map);
    wr_database_close(database);
    return remove_folder(state);
}

/* Flush on |day|, at noon; the last day that usage_day has. */
static int32_t flushed_on(int32_t day)
{
    flush.now_ns = day * WR_NS_PER_DAY + WR_NS_PER_DAY / 2;
    assert_int_equal(wr_flush_changes(&flush, &kept, 10), 0);
    return (int32_t)ask(database, "SELECT max(day) FROM usage_day");
}

/* Months that begin on the 15th: what comes late is put down to the month's last day. */
static void days_are_within_the_window(void **state)
{
    struct wr_customer acme = make_customer(database, "acme", "free");
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;

    (void)state;
    change.anchor = 15;
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    charge(kept.usage, acme.number, DAY(2023, 2, 15), 1, 0);
    assert_int_equal(flushed_on(DAY(2023, 2, 15)), DAY(2023, 2, 15));
    charge(kept.usage, acme.number, DAY(2023, 2, 15), 1, 0);
    assert_int_equal(flushed_on(DAY(2023, 3, 14)), DAY(2023, 3, 14));
    charge(kept.usage, acme.number, DAY(2023, 2, 15), 1, 0);
    assert_int_equal(flushed_on(DAY(2023, 3, 20)), DAY(2023, 3, 14));
    assert_int_equal(ask(database, "SELECT used FROM usage_day ORDER BY day DESC LIMIT 1"), 2);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage_day"), 3);
    /* A clock that is behind. */
    charge(kept.usage, acme.number, DAY(2023, 3, 15), 1, 0);
    assert_int_equal(flushed_on(DAY(2023, 3, 10)), DAY(2023, 3, 15));
}

/* One who ended has no record any more, but his number in the database. */
static void of_one_who_ended(void **state)
{
    struct wr_customer acme = make_customer(database, "acme", "free");

    (void)state;
    assert_int_equal(wr_customer_end(database, acme.id, &somebody), 0);
    charge(kept.usage, acme.number, TODAY - 13, 5, 0);
    (void)flushed_on(TODAY);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 5);
}

/* A cell of nobody is no trouble, and is seen again when it has somebody. */
static void of_nobody(void **state)
{
    (void)state;
    charge(kept.usage, 0, TODAY - 13, 5, 0);
    assert_int_equal(wr_flush_changes(&flush, &kept, 10), 0);
    assert_false(flush.stranger);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage"), 0);
    (void)make_customer(database, "acme", "free");
    kept.scanning = true;
    assert_int_equal(wr_flush_scan(&flush, &kept, 10), 0);
    assert_false(kept.scanning);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 5);
}

static void what_fails_is_said_again(void **state)
{
    struct wr_customer acme = make_customer(database, "acme", "free");

    (void)state;
    charge(kept.usage, acme.number, TODAY - 13, 5, 0);
    assert_int_equal(wr_database_begin(database), 0); /* no batch can begin */
    assert_true(wr_flush_changes(&flush, &kept, 10) < 0);
    wr_database_rollback(database);
    assert_int_equal(wr_kept_waiting(&kept, NOW), 1);
    assert_int_equal(wr_flush_changes(&flush, &kept, 10), 0);
    assert_int_equal(wr_kept_waiting(&kept, NOW), 0);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 5);
}

/* Batches are bounded, and go on. */
static void more_than_a_batch(void **state)
{
    char name[32];

    (void)state;
    for (unsigned i = 0; i < ROOM; i++) {
        (void)snprintf(name, sizeof name, "c-%u", i);
        charge(kept.usage, make_customer(database, name, "free").number, TODAY - 13, 1, 0);
    }
    assert_int_equal(wr_flush_changes(&flush, &kept, 0), 1);
    assert_int_equal(wr_flush_changes(&flush, &kept, 1), 0);
    assert_int_equal(flush.rows, ROOM);
    assert_int_equal(flush.batches, 1);
}

static char complaint[600];
static void keep(void *context, const char *text)
{
    (void)context;
    (void)snprintf(complaint, sizeof complaint, "%s", text);
}

static int look_at_cells(struct wr_verify *verify)
{
    static const char *const quotas[] = {"daily"};
    const struct wr_verify_look look = {test_folder, NOW, quotas, 1};

    return wr_verify_cells(database, &look, verify, keep, NULL);
}

/* As a keeper that is about to write. */
static void take_bits(void)
{
    uint32_t at = 0, number;

    while (wr_usage_dirty_next(kept.usage, &at, &number))
        continue;
}

/* Killed between taking bits and its commit, until the next one has compared all cells. */
static void verifies_after_a_kill(void **state)
{
    struct wr_verify verify = {0};
    struct wr_keeper *keeper = start_keeper();
    struct wr_customer acme = make_customer(database, "acme", "free");

    (void)state;
    pass(keeper);
    wr_keeper_stop(keeper);
    assert_int_equal(wr_usage_taking(kept.usage) % 2, 0);
    charge(kept.usage, acme.number, TODAY - 13, 5, 1);
    wr_usage_taking_begin(kept.usage);
    take_bits();
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.waiting, 5);
    wr_usage_taking_end(kept.usage); /* who says that all is written has to have written it */
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 1);
    wr_usage_taking_begin(kept.usage);
    wr_keeper_stop(start_keeper());
    assert_int_equal(wr_usage_taking(kept.usage) % 2, 0);
    verify = (struct wr_verify){0};
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong + verify.waiting, 0);
    /* A row that somebody has changed, up or down. */
    assert_int_equal(wr_database_exec(database, "UPDATE usage SET used = 6"), 0);
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 1);
    assert_int_equal(wr_database_exec(database, "UPDATE usage SET used = 4"), 0);
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 2);
    assert_int_equal(verify.waiting, 0);
}

static void verifies_cells(void **state)
{
    struct wr_verify verify = {0};
    struct wr_keeper *keeper = start_keeper();
    struct wr_customer acme = make_customer(database, "acme", "free");

    (void)state;
    pass(keeper);
    charge(kept.usage, acme.number, TODAY - 13, 5, 1);
    pass(keeper);
    wr_keeper_stop(keeper);
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.windows, 1);
    assert_int_equal(verify.used, 5);
    assert_int_equal(verify.over, 1);
    charge(kept.usage, acme.number, TODAY - 13, 2, 1); /* counted, and to be flushed */
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.waiting, 2);
    charge(kept.usage, acme.number, TODAY - 13, -3, -2); /* given back: less than the row has */
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.waiting, 3);
    charge(kept.usage, acme.number, TODAY - 13, 3, 1);
    take_bits();
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 1);
    assert_string_equal(complaint, "acme, monthly, window of 2023-11-01: the cell has 7 used and 1 "
                                   "over, the ledger 5 and 1");
    charge(kept.usage, acme.number, TODAY - 13, -2, 0);
    charge(kept.usage, acme.number, 33, 9, 0);
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 2);
    assert_string_equal(complaint, "acme, monthly: cell 0 of its file of usage has a window of "
                                   "1970-02-03, which cannot be: it is damaged, or the clock was "
                                   "far from right");
}

/* What others count in since its file was taken away is not what the ledger was written from. */
static void verifies_which_file(void **state)
{
    struct wr_verify verify = {0};
    const struct wr_usage_options options = {
        .path = "daily.usage", .name = "daily", .room = ROOM, .per = WR_PER_DAY};
    struct wr_usage *usage;

    (void)state;
    (void)some_history();
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    in_the_folder("rm daily.usage");
    assert_int_equal(chdir(test_folder), 0);
    assert_int_equal(wr_usage_open(&usage, &options, NULL), 0);
    assert_int_equal(chdir("/"), 0);
    wr_usage_close(usage);
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 1);
    assert_non_null(strstr(complaint, "daily.usage: it is not the file that the ledger was written "
                                      "from"));
}

/* What cannot be read is not sound, and is named; nor is what is missing. */
static void verifies_files(void **state)
{
    struct wr_verify verify = {0};

    (void)state;
    wr_keeper_stop(start_keeper());
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 0);
    in_the_folder("mv monthly.usage x && cp daily.usage monthly.usage");
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 1);
    assert_non_null(strstr(complaint,
                           "monthly.usage: it cannot be compared: it has what was counted "
                           "of the quota \"daily\""));
    in_the_folder("mv x monthly.usage && : > daily.usage");
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 2);
    assert_non_null(strstr(complaint,
                           "daily.usage: it cannot be compared: it is not a file of usage: "
                           "only 0 bytes long"));
    in_the_folder("rm daily.usage && cp monthly.usage x && printf 7 | dd of=monthly.usage bs=1 "
                  "seek=16 conv=notrunc status=none");
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 4);
    assert_non_null(strstr(complaint, "monthly.usage: it cannot be compared: its layout is "));
    in_the_folder("rm monthly.usage"); /* of it the policy knows nothing */
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 5);
    assert_non_null(strstr(complaint, "daily.usage: it is missing"));
    in_the_folder("mv x monthly.usage && : > customers.map");
    assert_int_equal(look_at_cells(&verify), 0);
    assert_int_equal(verify.wrong, 6);
    assert_non_null(strstr(complaint, "customers.map: it cannot be compared: it is not a file of "
                                      "customers"));
    in_the_folder("rm customers.map");
    assert_int_equal(look_at_cells(&verify), WEIR_ENOENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(days_are_within_the_window), TEST(of_one_who_ended),    TEST(of_nobody),
        TEST(what_fails_is_said_again),   TEST(more_than_a_batch),   TEST(verifies_cells),
        TEST(verifies_after_a_kill),      TEST(verifies_which_file), TEST(verifies_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
