/* ledger.c - rows of usage: the same count twice, counts that go down, days that add up. */
#include "fixture.h"

#include "meter/ledger.h"
#include "meter/report.h"

enum { DAILY = 1, MONTHLY = 3 };

static struct wr_database *database;
static int64_t node, daily, monthly;
static struct wr_customer acme;

static int set_up(void **state)
{
    (void)make_folder(state);
    database = open_database();
    acme = make_customer(database, "acme", "free");
    assert_int_equal(wr_ledger_node(database, NOW, &node), 0);
    assert_int_equal(wr_ledger_quota(database, "daily", DAILY, "UTC", &daily), 0);
    assert_int_equal(wr_ledger_quota(database, "monthly", MONTHLY, "UTC", &monthly), 0);
    return 0;
}

static int tear_down(void **state)
{
    wr_database_close(database);
    return remove_folder(state);
}

/* One batch with one row. Returns how many rows it wrote. */
static uint64_t put(int64_t quota, int32_t window, int32_t day, uint64_t used, uint64_t over)
{
    const struct wr_ledger_entry entry = {.customer = acme.id,
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
    return batch.rows;
}

static void again(void **state)
{
    int64_t other;

    (void)state;
    assert_int_equal(wr_ledger_node(database, NOW + 1, &other), 0);
    assert_int_equal(other, node);
    assert_int_equal(wr_ledger_quota(database, "daily", DAILY, "Europe/Istanbul", &other), 0);
    assert_int_equal(other, daily);
    assert_int_equal(ask(database, "SELECT count(*) FROM quota WHERE zone = 'Europe/Istanbul'"), 1);
    assert_int_equal(wr_ledger_quota(database, "daily", MONTHLY, "UTC", &other), 0);
    assert_int_not_equal(other, daily);
    assert_int_equal(ask(database, "SELECT count(*) FROM node"), 1);
}

static void twice_is_once(void **state)
{
    (void)state;
    assert_int_equal(put(daily, 100, 100, 7, 2), 1);
    assert_int_equal(put(daily, 100, 100, 7, 2), 0);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 7);
    assert_int_equal(ask(database, "SELECT sum(over) FROM usage"), 2);
    assert_int_equal(put(daily, 100, 100, 9, 2), 1);
    assert_int_equal(put(daily, 101, 101, 3, 0), 1);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 12);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage_day"), 0);
    assert_int_equal(ask(database, "SELECT batch FROM node"), 4);
    assert_int_equal(ask(database, "SELECT batch FROM usage WHERE window_day = 100"), 3);
}

static int64_t on_day(int day)
{
    char sql[100];
    sqlite3_stmt *statement;
    int64_t used = 0;

    (void)snprintf(sql, sizeof sql, "SELECT used FROM usage_day WHERE day = %d", day);
    /* Not kept: the text is another each time. */
    assert_int_equal(
        sqlite3_prepare_v2(sqlite3_db_handle(wr_database_statement(database, "SELECT 1")), sql, -1,
                           &statement, NULL),
        SQLITE_OK);
    if (sqlite3_step(statement) == SQLITE_ROW)
        used = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return used;
}

/* Days of a month that begins on day 100. */
static void days_add_up(void **state)
{
    (void)state;
    put(monthly, 100, 100, 5, 0);
    put(monthly, 100, 100, 8, 0);  /* day 100: 8 */
    put(monthly, 100, 103, 10, 0); /* day 103: 2 */
    put(monthly, 100, 104, 30, 4); /* day 104: 20 */
    assert_int_equal(on_day(100), 8);
    assert_int_equal(on_day(103), 2);
    assert_int_equal(on_day(104), 20);
    put(monthly, 100, 104, 15, 0); /* 15 given back of the 20 */
    assert_int_equal(on_day(104), 5);
    put(monthly, 100, 104, 9, 0); /* 6 more: 5 of day 104, 1 of day 103 */
    assert_int_equal(on_day(104), 0);
    assert_int_equal(on_day(103), 1);
    assert_int_equal(on_day(100), 8);
    put(monthly, 100, 104, 12, 0);
    assert_int_equal(on_day(104), 3);
    put(monthly, 100, 105, 2, 0); /* the first of another day takes back: days 104, 103, 100 */
    assert_int_equal(on_day(105), 0);
    assert_int_equal(on_day(104), 0);
    assert_int_equal(on_day(103), 0);
    assert_int_equal(on_day(100), 2);
    put(monthly, 100, 105, 0, 0);
    assert_int_equal(on_day(100), 0);
    put(monthly, 100, 105, 1, 0);
    assert_int_equal(on_day(105), 1);
}

/* A clock that goes back puts nothing down to a day that was closed. */
static void no_day_goes_back(void **state)
{
    (void)state;
    put(monthly, 100, 105, 5, 0);
    put(monthly, 100, 102, 8, 0);
    assert_int_equal(on_day(102), 0);
    assert_int_equal(on_day(105), 8);
}

static void of_nobody(void **state)
{
    const struct wr_ledger_entry stranger = {
        .customer = 999, .quota = daily, .window = 1, .day = 1, .daily = true, .used = 1};
    const struct wr_ledger_entry known = {
        .customer = acme.id, .quota = daily, .window = 1, .day = 1, .daily = true, .used = 2};
    struct wr_ledger_batch batch;

    (void)state;
    assert_int_equal(wr_ledger_begin(&batch, database, node, NOW), 0);
    assert_int_equal(wr_ledger_put(&batch, &stranger), WEIR_EAGAIN);
    assert_int_equal(wr_ledger_put(&batch, &known), 0);
    assert_int_equal(wr_ledger_end(&batch), 0);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 2);
}

static void abandons(void **state)
{
    const struct wr_ledger_entry entry = {
        .customer = acme.id, .quota = daily, .window = 1, .day = 1, .daily = true, .used = 2};
    struct wr_ledger_batch batch;

    (void)state;
    assert_int_equal(wr_ledger_begin(&batch, database, node, NOW), 0);
    assert_int_equal(wr_ledger_put(&batch, &entry), 0);
    wr_ledger_abandon(&batch);
    assert_int_equal(ask(database, "SELECT count(*) FROM usage"), 0);
    assert_int_equal(ask(database, "SELECT batch FROM node"), 0);
}

static bool add(void *context, const struct wr_ledger_entry *entry)
{
    char *out = context;

    assert_true(entry->customer == acme.id);
    assert_int_equal(entry->number, acme.number);
    (void)snprintf(out + strlen(out), 100 - strlen(out), "%d:%d/%d ", entry->window,
                   (int)entry->used, (int)entry->over);
    return true;
}

static void reads_back(void **state)
{
    char text[100] = "";

    (void)state;
    put(daily, 100, 100, 7, 2);
    put(daily, 101, 101, 8, 0);
    put(daily, 102, 102, 9, 1);
    put(monthly, 101, 102, 99, 0);
    assert_int_equal(wr_ledger_each(database, node, daily, 101, add, text), 0);
    assert_string_equal(text, "101:8/0 102:9/1 ");
}

/* ---- model: random counts, and the sums that must hold -----------------------------------------
 */

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void never(void *context, const char *text)
{
    (void)context;
    fail_msg("%s", text);
}

static void adds_up_whatever_comes(void **state)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20261130;
    uint64_t used[3] = {0};
    int32_t today = 100;
    struct wr_verify verify = {0};

    (void)state;
    print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
    for (int i = 0; i < 2000; i++) {
        unsigned window = (unsigned)(next_random(&seed) % 3);
        uint64_t dice = next_random(&seed);
        today += dice % 40 == 0 ? 1 : dice % 40 == 1 ? -1 : 0;
        if (dice % 3 == 0) /* given back */
            used[window] -= next_random(&seed) % (used[window] + 1);
        else
            used[window] += next_random(&seed) % 50;
        put(monthly, 100 + 31 * (int32_t)window, today, used[window],
            next_random(&seed) % (used[window] + 1));
    }
    assert_int_equal(wr_verify_database(database, &verify, never, NULL), 0);
    assert_int_equal(verify.wrong, 0);
    assert_int_equal(verify.windows, 3);
    assert_int_equal(verify.used, used[0] + used[1] + used[2]);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage_day"), verify.used);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(again),     TEST(twice_is_once), TEST(days_add_up), TEST(no_day_goes_back),
        TEST(of_nobody), TEST(abandons),      TEST(reads_back),  TEST(adds_up_whatever_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
