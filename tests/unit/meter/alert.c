/* alert.c - thresholds by hand: which flush tells which of them, of which plan's limit; and of
 * shared quotas, with a store that is played here, who tells. */
#include "keeping.h"

#include "meter/alert_parts.h"
#include "meter/upgrade.h"

#define DAY(y, m, d) wr_civil_day_of(y, m, d)

static struct wr_database *database;
static struct wr_customers *map;
static struct wr_kept kept;
static struct wr_flush flush;
static struct wr_customer acme;
static const char plans[2][WR_NAME_MAX + 1] = {"free", "pro"};

static int set_up(void **state)
{
    struct wr_keeper *keeper;

    (void)make_folder(state);
    test_clock_ns = NOW;
    keeper = start_keeper();
    database = open_database();
    acme = make_customer(database, "acme", "free");
    pass(keeper);
    wr_keeper_stop(keeper);
    map = open_map();
    flush = (struct wr_flush){
        .database = database, .map = map, .now_ns = NOW, .plan = plans, .plan_count = 2};
    assert_int_equal(wr_ledger_node(database, NOW, &flush.node), 0);
    kept =
        (struct wr_kept){.name = "monthly",
                         .zone = "UTC",
                         .civil = {.per = WR_PER_MONTH, .anchor = 1},
                         .alert = {.percent = {50, 80, 100, 120}, .count = 4, .limit = {10, 1000}}};
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

#define NOVEMBER DAY(2023, 11, 1) /* NOW's */

/* Count |units| in the window of |day|, and flush; the percentages that have rows, as "50 80". */
static const char *told_after(int32_t day, int64_t units)
{
    static char text[64];
    sqlite3_stmt *statement;

    charge(kept.usage, acme.number, day, units, 0);
    assert_int_equal(wr_flush_changes(&flush, &kept, 10), 0);
    statement = wr_database_statement(database,
                                      "SELECT coalesce(group_concat(percent, ' '), '') FROM"
                                      " (SELECT percent FROM alert ORDER BY window_day, percent)");
    assert_int_equal(wr_database_step(database, statement), 1);
    wr_database_text(statement, 0, text, sizeof text);
    (void)sqlite3_reset(statement);
    return text;
}

/* ---- thresholds ------------------------------------------------------------------------------ */

static void when_it_is_reached(void **state)
{
    (void)state;
    assert_false(wr_alert_reached(79, 100, 80));
    assert_true(wr_alert_reached(80, 100, 80));
    /* 80% of 7 is 5.6 */
    assert_false(wr_alert_reached(5, 7, 80));
    assert_true(wr_alert_reached(6, 7, 80));
    assert_true(wr_alert_reached(1, 1, 1));
    assert_false(wr_alert_reached(0, 1, 1));
    assert_false(wr_alert_reached(5, 0, 80));
    assert_false(wr_alert_reached(5, -1, 80));
    /* No product is too large. */
    assert_true(wr_alert_reached(UINT64_MAX, INT64_MAX, 200));
    assert_false(wr_alert_reached(INT64_MAX, INT64_MAX, 101));
}

static void once_each(void **state)
{
    (void)state;
    assert_string_equal(told_after(NOVEMBER, 4), "");
    assert_string_equal(told_after(NOVEMBER, 1), "50");
    assert_string_equal(told_after(NOVEMBER, 5), "50 80 100");  /* over two at once */
    assert_string_equal(told_after(NOVEMBER, -8), "50 80 100"); /* given back: told it stays */
    assert_string_equal(told_after(NOVEMBER, 8), "50 80 100");  /* and once */
    wr_kept_forget(&kept);                                      /* a restart looks at all cells */
    assert_int_equal(wr_flush_scan(&flush, &kept, 10), 0);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert"), 3);
    assert_string_equal(told_after(NOVEMBER, 2), "50 80 100 120");
    assert_int_equal(ask(database, "SELECT count(DISTINCT event) FROM alert"), 4);
    assert_int_equal(ask(database, "SELECT used FROM alert WHERE percent = 100"), 10);
    assert_int_equal(ask(database, "SELECT units FROM alert WHERE percent = 100"), 10);
    assert_int_equal(ask(database, "SELECT state FROM alert WHERE percent = 100"), WR_ALERT_TOLD);
    /* 2023-11-01 and 2023-12-01 00:00 UTC */
    assert_true(ask(database, "SELECT starts FROM alert") == 1698796800 * WR_NS_PER_S);
    assert_true(ask(database, "SELECT ends FROM alert") == 1701388800 * WR_NS_PER_S);
}

static void each_window_has_its_own(void **state)
{
    (void)state;
    assert_string_equal(told_after(NOVEMBER, 6), "50");
    flush.now_ns = DAY(2023, 12, 2) * WR_NS_PER_DAY;
    assert_string_equal(told_after(DAY(2023, 12, 1), 5), "50 50");
    /* What was used in a window that is over, and is written now. */
    assert_string_equal(told_after(NOVEMBER, 2), "50 80 50");
}

/* A flush that fails leaves neither the usage nor its alerts. */
static void with_the_usage_or_not_at_all(void **state)
{
    (void)state;
    charge(kept.usage, acme.number, NOVEMBER, 10, 0);
    assert_int_equal(wr_database_exec(database, "CREATE TRIGGER t BEFORE INSERT ON alert WHEN"
                                                " NEW.percent = 100 BEGIN SELECT"
                                                " abs(-9223372036854775807 - 1); END"),
                     0);
    assert_true(wr_flush_changes(&flush, &kept, 10) < 0);
    assert_int_equal(ask(database, "SELECT (SELECT count(*) FROM alert) + (SELECT count(*) FROM"
                                   " usage)"),
                     0);
    assert_int_equal(wr_database_exec(database, "DROP TRIGGER t"), 0);
    assert_string_equal(told_after(NOVEMBER, 0), "50 80 100");
}

static void of_the_plan_of_then(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_keeper *keeper;

    (void)state;
    flush.hooked = true;
    assert_string_equal(told_after(NOVEMBER, 6), "50");
    assert_int_equal(ask(database, "SELECT state FROM alert"), WR_ALERT_WAITING);
    change.plan = "pro";
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    keeper = start_keeper();
    pass(keeper);
    wr_keeper_stop(keeper);
    assert_string_equal(told_after(NOVEMBER, 700), "50");   /* once a window, of any plan */
    assert_string_equal(told_after(NOVEMBER, 94), "50 80"); /* 800 of 1000 */
    assert_int_equal(ask(database, "SELECT units FROM alert WHERE percent = 80"), 1000);
    kept.alert.limit[1] = -1; /* unlimited */
    assert_string_equal(told_after(NOVEMBER, 5000), "50 80");
    /* The plan that he leaves: told before he does. */
    kept.alert.limit[1] = 5800;
    assert_int_equal(wr_flush_one(&flush, &kept, acme.number), 0);
    assert_string_equal(told_after(NOVEMBER, 0), "50 80 100");
}

/* Free has 10. What the next plan admitted is no percentage of that. */
static void who_moves_reached_no_more_than_his_plan(void **state)
{
    struct wr_customer_record record;

    (void)state;
    assert_string_equal(told_after(NOVEMBER, 9), "50 80");
    assert_true(wr_customers_get(map, acme.number, &record));
    wr_customers_want(map, acme.number, wr_customer_plan_of(&record, NOW), NOW);
    assert_string_equal(told_after(NOVEMBER, 3), "50 80 100");
    assert_int_equal(ask(database, "SELECT units FROM alert WHERE percent = 100"), 10);
    assert_int_equal(ask(database, "SELECT used FROM alert WHERE percent = 100"), 10);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 12);
}

static void who_has_ended_is_not_spoken_of(void **state)
{
    struct wr_keeper *keeper;

    (void)state;
    assert_int_equal(wr_customer_end(database, acme.id, &somebody), 0);
    keeper = start_keeper();
    pass(keeper);
    wr_keeper_stop(keeper);
    assert_string_equal(told_after(NOVEMBER, 10), "");
    assert_int_equal(ask(database, "SELECT used FROM usage"), 10);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool is_first(void *context, const struct wr_alert *alert)
{
    *(struct wr_alert *)context = *alert;
    return false;
}

static void read_and_sent_again(void **state)
{
    const struct wr_alert_filter dead = {.customer = acme.id, .state = WR_ALERT_DEAD};
    struct wr_alert due[4], is = {.percent = 0};
    struct wr_alert_numbers numbers;

    (void)state;
    flush.hooked = true;
    (void)told_after(NOVEMBER, 10);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_QUOTA, NOW - 1, due, 4), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_QUOTA, NOW, due, 4), 3);
    assert_int_equal(wr_alerts_unsaid(database, due, 4), 3);
    assert_int_equal(wr_alert_said(database, due[0].id), 0);
    assert_int_equal(wr_alerts_unsaid(database, due, 4), 2);
    assert_string_equal(due[0].name, "acme");
    assert_string_equal(due[0].quota, "monthly");
    due[0].state = WR_ALERT_DEAD;
    due[0].tries = 7;
    (void)snprintf(due[0].error, sizeof due[0].error, "answered 500");
    assert_int_equal(wr_alert_note(database, &due[0]), 0);
    assert_int_equal(wr_alerts_count(database, &numbers), 0);
    assert_int_equal(numbers.waiting, 2);
    assert_int_equal(numbers.dead, 1);
    assert_int_equal(wr_alerts_each(database, &dead, is_first, &is), 0);
    assert_string_equal(is.event, due[0].event);
    assert_string_equal(is.error, "answered 500");
    /* Fresh ones before those that failed. */
    due[1].tries = 1;
    due[1].next_ns = NOW - 5;
    assert_int_equal(wr_alert_note(database, &due[1]), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_QUOTA, NOW, due, 1), 1);
    assert_int_equal(due[0].tries, 0);
    assert_int_equal(wr_alerts_retry(database, NULL, NOW), 1);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_QUOTA, NOW, due, 4), 3);
    assert_int_equal(wr_alerts_retry(database, "no such", NOW), 0);
}

/* What is asked each turn reads what it is about, however many rows lie there. */
static void of_many_rows_few_are_read(void **state)
{
    struct wr_alert due[4];
    struct wr_alert_numbers numbers;
    sqlite3_stmt *statement;
    sqlite3 *sqlite;

    (void)state;
    (void)told_after(NOVEMBER, 10);
    assert_int_equal(
        wr_database_exec(database,
                         "UPDATE alert SET said = 1, state = 2;"
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
                         " i < 500) INSERT INTO alert(event, customer, quota, window_day, percent,"
                         " plan, used, units, starts, ends, at, said, state, next_at, since)"
                         " SELECT event, customer, quota, i, 50, plan, used, units, starts, ends,"
                         " at, 1, 2, 0, 0 FROM n, alert WHERE percent = 50;"
                         "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE"
                         " i < 500) INSERT INTO customer(id, number, name, plan, created)"
                         " SELECT i, 1000 + i, 'name' || i, 'free', 0 FROM n"),
        0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_QUOTA, NOW, due, 4), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, NOW, due, 4), 0);
    assert_int_equal(wr_alerts_unsaid(database, due, 4), 0);
    assert_int_equal(wr_alerts_count(database, &numbers), 0);
    assert_int_equal(wr_upgrades_drop(database), 0);
    assert_int_equal(wr_alerts_settle(database, true, NOW, NULL, NULL), 0);
    sqlite = sqlite3_db_handle(wr_database_statement(database, "SELECT 1"));
    for (statement = sqlite3_next_stmt(sqlite, NULL); statement != NULL;
         statement = sqlite3_next_stmt(sqlite, statement))
        if (sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_FULLSCAN_STEP, 0) > 100)
            fail_msg("all rows are read by %s", sqlite3_sql(statement));
}

/* ---- over nodes ------------------------------------------------------------------------------ */

/* The question says that the plan is on trial, and yes does not make the trial a plan for good. */
static void a_question_about_a_trial(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_alert due[2];

    (void)state;
    change.trial_plan = "starter";
    change.trial_until_ns = NOW + WR_NS_PER_DAY;
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    assert_int_equal(wr_upgrade_ask(database, acme.id, "starter", "pro", &somebody), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, NOW, due, 2), 1);
    assert_true(due[0].ends_ns == NOW + WR_NS_PER_DAY);
    assert_int_equal(wr_upgrade_confirm(database, &due[0], &somebody), 0);
    assert_int_equal(wr_customer_get(database, acme.id, &acme), 0);
    assert_string_equal(acme.plan, "free");
    assert_string_equal(acme.trial_plan, "pro");
    assert_true(acme.trial_until_ns == NOW + WR_NS_PER_DAY);
    assert_int_equal(wr_upgrade_ask(database, acme.id, "pro", "best", &somebody), 0);
    change.trial_plan = "";
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, NOW, due, 2), 1);
    assert_true(due[0].ends_ns == 0);
}

/* What was given up rests for a day, as what was refused does; then a wish is asked anew. */
static void a_question_that_was_given_up(void **state)
{
    struct wr_author later = somebody;
    struct wr_alert due[2];

    (void)state;
    later.now_ns = NOW + WR_NS_PER_DAY;
    assert_int_equal(wr_upgrade_ask(database, acme.id, "free", "pro", &somebody), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, NOW, due, 2), 1);
    due[0].state = WR_ALERT_DEAD;
    due[0].next_ns = NOW + WR_NS_PER_DAY;
    assert_int_equal(wr_alert_note(database, &due[0]), 0);
    assert_int_equal(wr_upgrade_ask(database, acme.id, "free", "pro", &somebody), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, later.now_ns, due, 2), 0);
    assert_int_equal(wr_upgrade_ask(database, acme.id, "free", "pro", &later), 0);
    assert_int_equal(wr_alerts_due(database, WR_ALERT_UPGRADE, later.now_ns, due, 2), 1);
}

/* A store: what all used, and who was first with each event. */
static struct {
    uint64_t used;
    uint32_t first[4];
    unsigned char event[4][WR_EVENT_BYTES];
    unsigned events, asked;
    bool gone, lost; /* it does not hear; its answer does not come back */
} store;

static void ask_store(void *context, struct wr_alert_ask *asks, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++) {
        struct wr_alert_ask *a = &asks[i];
        unsigned k = 0;
        store.asked++;
        a->answer = WR_ALERT_GONE;
        if (store.gone)
            continue;
        if (!a->claim) {
            assert_string_equal(a->quota, "monthly");
            assert_string_equal(a->plan, "free");
            a->used = store.used;
            a->answer = WR_ALERT_DONE;
            continue;
        }
        assert_in_range(a->who, WR_CLAIM_LOW, 2 * WR_CLAIM_LOW - 2);
        while (k < store.events && memcmp(store.event[k], a->event, WR_EVENT_BYTES) != 0)
            k++;
        if (k == store.events) {
            memcpy(store.event[k], a->event, WR_EVENT_BYTES);
            store.first[store.events++] = a->who;
        }
        if (store.lost)
            continue;
        a->mine = store.first[k] == a->who;
        a->answer = WR_ALERT_DONE;
    }
}

static void settle(void)
{
    int result;

    while ((result = wr_alerts_settle(database, true, flush.now_ns, ask_store, NULL)) == 1)
        continue;
    assert_int_equal(result, 0);
    assert_int_equal(wr_alerts_settle(database, true, flush.now_ns, ask_store, NULL), 0);
}

static int set_up_shared(void **state)
{
    memset(&store, 0, sizeof store);
    (void)set_up(state);
    kept.alert.shared = true;
    kept.alert.limit[0] = 300;
    return 0;
}

#define COUNT(state) ask(database, "SELECT count(*) FROM alert WHERE state = " state)

static void of_what_all_used(void **state)
{
    (void)state;
    assert_string_equal(told_after(NOVEMBER, 1), "");
    store.used = 149;
    settle();
    assert_int_equal(ask(database, "SELECT count(*) FROM alert_watch"), 0);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert"), 0);
    assert_int_equal(store.asked, 1);
    (void)told_after(NOVEMBER, 1);
    store.used = 240;
    settle();
    assert_int_equal(COUNT("1"), 2); /* 50 and 80 */
    assert_int_equal(ask(database, "SELECT used FROM alert"), 240);
    /* Where all are told nothing is asked. */
    (void)told_after(NOVEMBER, 1);
    store.used = 400;
    settle();
    assert_int_equal(COUNT("1"), 4);
    store.asked = 0;
    (void)told_after(NOVEMBER, 1);
    settle();
    assert_int_equal(store.asked, 0);
}

static void another_was_first(void **state)
{
    (void)state;
    (void)told_after(NOVEMBER, 150);
    store.used = 150;
    assert_int_equal(wr_alerts_settle(database, true, NOW, ask_store, NULL), 0);
    assert_int_equal(COUNT("1"), 1);
    assert_int_equal(wr_database_exec(database, "UPDATE alert SET state = 0"), 0);
    store.first[0]++;
    settle();
    assert_int_equal(COUNT("4"), 1);
}

/* The claim was taken and its answer lost, or this node was killed before it wrote it down. */
static void a_claim_is_found_again(void **state)
{
    (void)state;
    (void)told_after(NOVEMBER, 150);
    store.used = 150;
    store.lost = true;
    settle();
    assert_int_equal(COUNT("0"), 1);
    store.lost = false;
    settle(); /* not before its time */
    assert_int_equal(COUNT("0"), 1);
    flush.now_ns += 3 * WR_NS_PER_S;
    settle();
    assert_int_equal(COUNT("1"), 1);
}

static void nothing_is_dropped_while_the_store_is_gone(void **state)
{
    (void)state;
    store.gone = true;
    (void)told_after(NOVEMBER, 160);
    settle();
    assert_int_equal(ask(database, "SELECT count(*) FROM alert_watch"), 1);
    store.gone = false;
    flush.now_ns += 3 * WR_NS_PER_S;
    settle();
    assert_int_equal(COUNT("1"), 1); /* of its own share: the store has heard nothing */
    assert_int_equal(ask(database, "SELECT used FROM alert"), 160);
    /* A change while the answer was on its way is looked at again. */
    (void)told_after(NOVEMBER, 1);
    assert_int_equal(ask(database, "SELECT count(*) FROM alert_watch"), 1);
    /* A window that has ended is at the store no more. */
    flush.now_ns = DAY(2023, 12, 5) * WR_NS_PER_DAY;
    store.used = 300;
    settle();
    assert_int_equal(ask(database, "SELECT count(*) FROM alert"), 1);
}

/* ---- older files ----------------------------------------------------------------------------- */

static void of_version_1(void **state)
{
    const struct wr_database_options looking = {.path = test_path, .read_only = true};
    struct wr_database *old;
    struct wr_fault fault;

    (void)state;
    (void)told_after(NOVEMBER, 3);
    assert_int_equal(wr_database_exec(database, "DROP TABLE alert; DROP TABLE alert_watch;"
                                                " DROP TABLE upgrade; PRAGMA user_version = 1"),
                     0);
    wr_database_close(database);
    assert_int_equal(wr_database_open(&old, &looking, &fault), WEIR_EFORMAT);
    assert_non_null(strstr(fault.text, "older"));
    database = open_database();
    flush.database = database;
    assert_int_equal(ask(database, "PRAGMA user_version"), 2);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 3);
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 1);
    assert_string_equal(told_after(NOVEMBER, 5), "50 80");
    assert_int_equal(wr_database_check(database, true), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
#define S(f) cmocka_unit_test_setup_teardown(f, set_up_shared, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(when_it_is_reached),
        T(once_each),
        T(each_window_has_its_own),
        T(with_the_usage_or_not_at_all),
        T(of_the_plan_of_then),
        T(who_moves_reached_no_more_than_his_plan),
        T(who_has_ended_is_not_spoken_of),
        T(read_and_sent_again),
        T(of_many_rows_few_are_read),
        T(a_question_about_a_trial),
        T(a_question_that_was_given_up),
        S(of_what_all_used),
        S(another_was_first),
        S(a_claim_is_found_again),
        S(nothing_is_dropped_while_the_store_is_gone),
        T(of_version_1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
