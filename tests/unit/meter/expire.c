/* expire.c - what is kept no longer: which windows go and which stay, by hand; that none comes back
 * out of a cell; and that a clock that is wrong deletes nothing. */
#include "keeping.h"

#include "meter/expire.h"
#include "meter/report.h"

#define DAY(y, m, d) wr_civil_day_of(y, m, d)
#define AT(day, hour) ((day)*WR_NS_PER_DAY + (hour)*WR_NS_PER_HOUR)

static struct wr_database *database;
static int64_t node, acme;

static int set_up(void **state)
{
    (void)set_up_keeping(state);
    test_keep_ns = 0;
    database = open_database();
    assert_int_equal(wr_ledger_node(database, NOW, &node), 0);
    acme = make_customer(database, "acme", "free").id;
    return 0;
}

static int tear_down(void **state)
{
    wr_database_close(database);
    return remove_folder(state);
}

static int64_t quota_of(const char *name, uint8_t per, const char *zone)
{
    int64_t quota;

    assert_int_equal(wr_ledger_quota(database, name, per, zone, &quota), 0);
    return quota;
}

/* acme used one unit of |quota| in the window of |day|; of windows longer than a day, on |day|. */
static void use(int64_t quota, bool daily, int32_t day)
{
    const struct wr_ledger_entry entry = {
        .customer = acme, .quota = quota, .window = day, .day = day, .daily = daily, .used = 1};
    struct wr_ledger_batch batch;

    assert_int_equal(wr_ledger_begin(&batch, database, node, NOW), 0);
    assert_int_equal(wr_ledger_put(&batch, &entry), 0);
    assert_int_equal(wr_ledger_end(&batch), 0);
}

static void run(const char *sql)
{
    if (wr_database_exec(database, sql) != 0)
        fail_msg("%s", wr_database_fault(database)->text);
}

static int64_t first_window(int64_t quota)
{
    sqlite3_stmt *statement =
        wr_database_statement(database, "SELECT min(window_day) FROM usage WHERE quota = ?");
    int64_t day;

    assert_int_equal(sqlite3_bind_int64(statement, 1, quota), SQLITE_OK);
    assert_int_equal(wr_database_step(database, statement), 1);
    day = sqlite3_column_int64(statement, 0);
    (void)sqlite3_reset(statement);
    return day;
}

/* The last day that windows which were deleted may have ended on. */
static int32_t gone_until(void)
{
    int32_t last;

    assert_int_equal(wr_report_gone(database, &last), 0);
    return last;
}

static int32_t since_of(int64_t quota)
{
    int32_t since;

    assert_int_equal(wr_expire_since(database, quota, &since), 0);
    return since;
}

/* ---- which windows -------------------------------------------------------------------------- */

/* At 22:00 of the 14th of March in UTC that day is over in Istanbul, and not in UTC. */
static void days_end_where_their_quota_is(void **state)
{
    int64_t utc = quota_of("utc", WR_PER_DAY, "UTC");
    int64_t istanbul = quota_of("istanbul", WR_PER_DAY, "Europe/Istanbul");
    int64_t nowhere = quota_of("nowhere", WR_PER_DAY, "Nowhere/Atall");
    struct wr_expired expired = {0};

    (void)state;
    for (unsigned d = 12; d <= 16; d++) {
        use(utc, true, DAY(2023, 3, d));
        use(istanbul, true, DAY(2023, 3, d));
        use(nowhere, true, DAY(2023, 3, d));
    }
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 14), 22), &expired), 0);
    assert_int_equal(first_window(utc), DAY(2023, 3, 14));
    assert_int_equal(first_window(istanbul), DAY(2023, 3, 15));
    assert_int_equal(first_window(nowhere), DAY(2023, 3, 13)); /* whichever zone it is */
    assert_int_equal(expired.windows, 2 + 3 + 1);
    assert_int_equal(expired.days, 0);
    assert_int_equal(since_of(utc), DAY(2023, 3, 14));
    assert_int_equal(since_of(istanbul), DAY(2023, 3, 15));
}

/* The week from Monday the 6th of March ends with the 12th. */
static void weeks_end_on_sunday(void **state)
{
    int64_t weekly = quota_of("weekly", WR_PER_WEEK, "UTC");
    struct wr_expired expired = {0};

    (void)state;
    use(weekly, false, DAY(2023, 3, 6));
    use(weekly, false, DAY(2023, 3, 13));
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 12), 23), &expired), 0);
    assert_int_equal(expired.windows, 0);
    assert_int_equal(since_of(weekly), INT32_MIN);
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 13), 0), &expired), 0);
    assert_int_equal(expired.windows, 1);
    assert_int_equal(expired.days, 1);
    assert_int_equal(first_window(weekly), DAY(2023, 3, 13));
    assert_int_equal(since_of(weekly), DAY(2023, 3, 7));
    assert_int_equal(gone_until(), DAY(2023, 3, 12));
}

/* A month is as long as the longest: from the 12th of February, 31 days, the last is the 14th of
 * March. Its days go with it, and no others. */
static void months_are_long(void **state)
{
    int64_t monthly = quota_of("monthly", WR_PER_MONTH, "UTC");
    struct wr_expired expired = {0};

    (void)state;
    use(monthly, false, DAY(2023, 2, 12));
    use(monthly, false, DAY(2023, 2, 13));
    run("INSERT INTO usage_day SELECT node, quota, day + 20, customer, window_day, 7"
        " FROM usage_day");
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 14), 23), &expired), 0);
    assert_int_equal(expired.windows, 0);
    assert_int_equal(gone_until(), INT32_MIN);
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 15), 0), &expired), 0);
    assert_int_equal(expired.windows, 1);
    assert_int_equal(expired.days, 2);
    assert_int_equal(gone_until(), DAY(2023, 3, 14));
    assert_int_equal(first_window(monthly), DAY(2023, 2, 13));
    assert_int_equal(ask(database, "SELECT count(*) FROM usage_day"), 2);
    assert_int_equal(ask(database, "SELECT min(window_day) FROM usage_day"), DAY(2023, 2, 13));
}

/* 0 claiming, 1 waiting, 2 sent, 3 dead, 4 told elsewhere, 5 told; and one that is not said yet. */
static void alerts_that_are_not_told_stay(void **state)
{
    int64_t daily = quota_of("daily", WR_PER_DAY, "UTC");
    struct wr_expired expired = {0};
    char sql[600];

    (void)state;
    use(daily, true, DAY(2023, 3, 1));
    use(daily, true, DAY(2023, 3, 2));
    for (unsigned day = 1; day <= 2; day++) {
        (void)snprintf(
            sql, sizeof sql,
            "INSERT INTO alert(event, customer, quota, window_day, percent, plan, used, units,"
            " starts, ends, at, state, next_at, since, said) SELECT 'e' || value, %lld, %lld, %d,"
            " 1 + value, 'free', 1, 1, 0, 0, 0, value %% 6, 0, 0, value < 6"
            " FROM (SELECT 0 AS value UNION VALUES(1), (2), (3), (4), (5), (8))",
            (long long)acme, (long long)daily, DAY(2023, 3, day));
        run(sql);
    }
    run("INSERT INTO alert_watch SELECT customer, quota, window_day, x'50', 'free', 1, 1, 0, 0, 0, "
        "0 FROM usage");
    assert_int_equal(wr_expire(database, AT(DAY(2023, 3, 2), 0), &expired), 0);
    assert_int_equal(expired.windows, 1);
    assert_int_equal(expired.alerts, 3);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert"), 7 + 4);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert WHERE state = 3"), 2);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert WHERE said = 0"), 2);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert_watch"), 1);
    assert_int_equal(ask(database, "SELECT count(*) FROM audit"), 1); /* acme was made */
}

/* ---- how many at once ----------------------------------------------------------------------- */

static void batches_are_bounded(void **state)
{
    int64_t daily = quota_of("daily", WR_PER_DAY, "UTC");
    struct wr_expired expired = {0};
    char sql[300];

    (void)state;
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE d(day) AS (SELECT 1 UNION ALL SELECT day + 1 FROM d WHERE day <"
                   " 2500) INSERT INTO usage SELECT %lld, %lld, day, %lld, 1, 0, day, 0, 1 FROM d",
                   (long long)node, (long long)daily, (long long)acme);
    run(sql);
    assert_int_equal(wr_expire(database, AT(2500, 0), &expired), 1);
    assert_int_equal(expired.windows, 1000);
    assert_int_equal(first_window(daily), 1001);
    assert_int_equal(since_of(daily), 1001);
    assert_int_equal(wr_expire(database, AT(2500, 0), &expired), 1);
    assert_int_equal(wr_expire(database, AT(2500, 0), &expired), 0);
    assert_int_equal(expired.windows, 2499);
    assert_int_equal(first_window(daily), 2500);
    /* Nothing is left to do, and nothing is written. */
    assert_int_equal(wr_expire(database, AT(2500, 0), &expired), 0);
    assert_int_equal(expired.windows, 2499);
    assert_int_equal(since_of(daily), 2500);
}

/* A window with its 10 days is 11 rows: 91 of them are 1001. */
static void days_count_as_rows(void **state)
{
    int64_t weekly = quota_of("weekly", WR_PER_WEEK, "UTC");
    struct wr_expired expired = {0};
    char sql[300];

    (void)state;
    (void)snprintf(sql, sizeof sql,
                   "WITH RECURSIVE d(day) AS (SELECT 1 UNION ALL SELECT day + 1 FROM d WHERE day <"
                   " 100) INSERT INTO usage SELECT %lld, %lld, day, %lld, 10, 0, day, 0, 1 FROM d",
                   (long long)node, (long long)weekly, (long long)acme);
    run(sql);
    run("WITH RECURSIVE d(day) AS (SELECT 0 UNION ALL SELECT day + 1 FROM d WHERE day < 9)"
        " INSERT INTO usage_day SELECT node, quota, window_day + d.day, customer, window_day, 1"
        " FROM usage, d");
    assert_int_equal(wr_expire(database, AT(1000, 0), &expired), 1);
    assert_int_equal(expired.windows, 91);
    assert_int_equal(expired.days, 910);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage_day"), 90);
    assert_int_equal(wr_expire(database, AT(1000, 0), &expired), 0);
    assert_int_equal(expired.windows, 100);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage_day"), 0);
}

/* What cannot be deleted is not said to be. */
static void what_fails_is_not_counted(void **state)
{
    struct wr_expired expired = {0};
    int64_t daily = quota_of("daily", WR_PER_DAY, "UTC");

    (void)state;
    use(daily, true, 1);
    run("CREATE TEMP TRIGGER broken BEFORE DELETE ON usage BEGIN SELECT RAISE(ABORT, 'no'); END");
    assert_true(wr_expire(database, AT(100, 0), &expired) < 0);
    assert_int_equal(expired.windows, 0);
    assert_int_equal(since_of(daily), INT32_MIN);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage"), 1);
    run("DROP TRIGGER broken");
    assert_int_equal(wr_expire(database, AT(100, 0), &expired), 0);
    assert_int_equal(expired.windows, 1);
}

/* ---- nothing comes back ---------------------------------------------------------------------- */

static void how_long_is_gone(void **state)
{
    (void)state;
    assert_true(wr_expire_is_gone(99, 100, AT(162, 0)));
    assert_false(wr_expire_is_gone(100, 100, AT(900, 0)));
    assert_false(wr_expire_is_gone(99, INT32_MIN, AT(900, 0)));
    /* Since a clock that was years ahead: what is of now is written all the same. */
    assert_false(wr_expire_is_gone(100, 20000, AT(162, 23)));
    assert_true(wr_expire_is_gone(100, 20000, AT(163, 0)));
}

static char complaint[600];
static void keep_complaint(void *context, const char *text)
{
    (void)context;
    (void)snprintf(complaint, sizeof complaint, "%s", text);
}

static uint64_t wrong_of_cells(void)
{
    const struct wr_verify_look look = {.directory = test_folder, .now_ns = test_now()};
    struct wr_verify verify = {0};

    assert_int_equal(wr_verify_cells(database, &look, &verify, keep_complaint, NULL), 0);
    return verify.wrong;
}

/* The clock goes on to |to|, a turn each half an hour. */
static void clock_goes(struct wr_keeper *keeper, int64_t to)
{
    while (test_now() < to) {
        int64_t left = to - test_now(), step = WR_NS_PER_HOUR / 2;
        (void)__atomic_add_fetch(&test_clock_ns, left < step ? left : step, __ATOMIC_SEQ_CST);
        pass(keeper);
    }
}

/* acme's cell holds a window of 100 days ago, as he has stayed away since, and today's. */
static struct wr_usage *old_and_new(struct wr_keeper *keeper)
{
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);

    charge(daily, 0, TODAY - 100, 42, 2);
    charge(daily, 0, TODAY, 5, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 47);
    return daily;
}

/* Deleted after an hour, said once, and never written again: not by a restart, which writes what
 * cells have, nor with a longer keep, nor is it anything to complain of. */
static void a_cell_brings_nothing_back(void **state)
{
    struct wr_keeper *keeper;
    struct wr_usage *daily;

    (void)state;
    test_keep_ns = 90 * WR_NS_PER_DAY;
    keeper = start_keeper();
    daily = old_and_new(keeper);
    clock_goes(keeper, NOW + WR_NS_PER_HOUR / 2);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 47);
    clock_goes(keeper, NOW + 3 * WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 5);
    assert_int_equal(times_said("0 old rows of the ledger were deleted|1 windows that ended longer "
                                "ago than customers.keep says, 0 of their days, 0 of their alerts"),
                     1);
    assert_int_equal(times_said("were deleted"), 1);
    assert_int_equal(state_of(keeper).expired, 1);
    charge(daily, 0, TODAY - 100, 1, 0); /* much too late */
    charge(daily, 0, TODAY, 1, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 6);
    assert_int_equal(wrong_of_cells(), 0);
    wr_keeper_stop(keeper);

    test_keep_ns = 0;
    keeper = start_keeper();
    charge(daily, 0, TODAY, 1, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 7);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage"), 1);
    assert_int_equal(wrong_of_cells(), 0);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

/* Next, a day later; and what was not old is then. */
static void once_a_day(void **state)
{
    struct wr_keeper *keeper;
    struct wr_usage *daily;

    (void)state;
    test_keep_ns = 90 * WR_NS_PER_DAY;
    keeper = start_keeper();
    daily = old_and_new(keeper);
    charge(daily, 0, TODAY - 90, 3, 0); /* it ended 89 days and 22 hours ago */
    clock_goes(keeper, NOW + WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 8);
    clock_goes(keeper, NOW + 24 * WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 8);
    clock_goes(keeper, NOW + 25 * WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 5);
    assert_int_equal(times_said("were deleted"), 2);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

/* A clock that is years ahead for a while, and one that goes back: neither counts as an hour. */
static void a_clock_that_is_wrong_deletes_nothing(void **state)
{
    struct wr_keeper *keeper;
    struct wr_usage *daily;

    (void)state;
    test_keep_ns = 90 * WR_NS_PER_DAY;
    keeper = start_keeper();
    daily = old_and_new(keeper);
    __atomic_store_n(&test_clock_ns, NOW + 4000 * WR_NS_PER_DAY, __ATOMIC_SEQ_CST);
    pass(keeper);
    clock_goes(keeper, NOW + 4000 * WR_NS_PER_DAY + WR_NS_PER_HOUR / 2);
    __atomic_store_n(&test_clock_ns, NOW, __ATOMIC_SEQ_CST);
    pass(keeper);
    clock_goes(keeper, NOW + WR_NS_PER_HOUR / 2);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 47);
    assert_int_equal(state_of(keeper).expired, 0);
    clock_goes(keeper, NOW + WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 5);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

static void for_ever_is_for_ever(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily = old_and_new(keeper);

    (void)state;
    clock_goes(keeper, NOW + 3 * WR_NS_PER_HOUR);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 47);
    assert_int_equal(times_said("were deleted"), 0);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
}

int main(void)
{
#define A_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {A_TEST(days_end_where_their_quota_is),
                                       A_TEST(weeks_end_on_sunday),
                                       A_TEST(months_are_long),
                                       A_TEST(alerts_that_are_not_told_stay),
                                       A_TEST(batches_are_bounded),
                                       A_TEST(days_count_as_rows),
                                       A_TEST(what_fails_is_not_counted),
                                       cmocka_unit_test(how_long_is_gone),
                                       A_TEST(a_cell_brings_nothing_back),
                                       A_TEST(once_a_day),
                                       A_TEST(a_clock_that_is_wrong_deletes_nothing),
                                       A_TEST(for_ever_is_for_ever)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
