/* keeper.c - the thread: changes of people reach the map, what is used reaches the database; and
 * what happens when the disk, the database or another daemon is in the way. */
#include "keeping.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void people_reach_the_map(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_customers *map = open_map();
    struct wr_customer acme = with_key(database, "acme", "k-acme");
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_customer_record record;
    char plan[WR_CUSTOMER_PLAN_BYTES + 1];

    (void)state;
    pass(keeper);
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme.number);
    assert_int_equal(who_is(map, "user", "k-acme"), -1);
    assert_true(wr_customers_get(map, acme.number, &record));
    assert_true(record.id == acme.id && record.until_ns == INT64_MAX);
    assert_true(wr_customers_plan_name(map, record.plan, plan));
    assert_string_equal(plan, "free");
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE);

    change.plan = "pro";
    change.suspended = 1;
    change.anchor = 31;
    change.trial_plan = "free";
    change.trial_until_ns = NOW + 5;
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    pass(keeper);
    assert_true(wr_customers_get(map, acme.number, &record));
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE | WR_CUSTOMER_SUSPENDED);
    assert_int_equal(record.anchor, 31);
    assert_true(record.until_ns == NOW + 5);
    assert_true(wr_customers_plan_name(map, record.plan_after, plan));
    assert_string_equal(plan, "pro");

    /* The trial ends by itself, and is noted. */
    __atomic_store_n(&test_clock_ns, NOW + 5, __ATOMIC_SEQ_CST);
    pass(keeper);
    assert_true(wr_customers_get(map, acme.number, &record));
    assert_true(record.until_ns == INT64_MAX && record.plan == record.plan_after);
    assert_int_equal(state_of(keeper).trials, 1);

    assert_int_equal(wr_customer_end(database, acme.id, &somebody), 0);
    pass(keeper);
    assert_int_equal(who_is(map, "api_key", "k-acme"), -1);
    assert_false(wr_customers_get(map, acme.number, &record));
    assert_int_equal(state_of(keeper).customers, 0);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    wr_database_close(database);
}

static void usage_reaches_the_database(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    struct wr_usage *monthly = open_usage_file("monthly", WR_PER_MONTH);
    int32_t month = TODAY - 13; /* 2023-11-01 */
    uint32_t acme = with_key(database, "acme", "k-acme").number;

    (void)state;
    pass(keeper);
    charge(daily, acme, TODAY, 5, 0);
    charge(daily, acme, TODAY, 3, 2);
    charge(monthly, acme, month, 100, 0);
    pass(keeper);
    assert_int_equal(
        ask(database, "SELECT used FROM usage JOIN quota ON quota.id = quota WHERE name = 'daily'"),
        8);
    assert_int_equal(
        ask(database, "SELECT over FROM usage JOIN quota ON quota.id = quota WHERE name = 'daily'"),
        2);
    assert_int_equal(
        ask(database,
            "SELECT used FROM usage JOIN quota ON quota.id = quota WHERE name = 'monthly'"),
        100);
    assert_int_equal(ask(database, "SELECT day FROM usage_day"), TODAY);
    /* The next day, another window; and some is given back to the old one. */
    __atomic_store_n(&test_clock_ns, NOW + WR_NS_PER_DAY, __ATOMIC_SEQ_CST);
    charge(daily, acme, TODAY + 1, 1, 0);
    charge(daily, acme, TODAY, -2, -2);
    charge(monthly, acme, month, 11, 0);
    pass(keeper);
    assert_int_equal(
        ask(database,
            "SELECT sum(used) FROM usage JOIN quota ON quota.id = quota WHERE name = 'daily'"),
        7);
    assert_int_equal(ask(database, "SELECT sum(over) FROM usage"), 0);
    assert_int_equal(ask(database, "SELECT used FROM usage_day ORDER BY day DESC LIMIT 1"), 11);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage_day"), 111);
    assert_int_equal(state_of(keeper).waiting, 0);
    assert_true(state_of(keeper).flushed_ns == NOW + WR_NS_PER_DAY);
    /* The end writes what is left. */
    charge(daily, acme, TODAY + 1, 4, 0);
    wr_keeper_stop(keeper);
    assert_int_equal(
        ask(database,
            "SELECT sum(used) FROM usage JOIN quota ON quota.id = quota WHERE name = 'daily'"),
        11);
    wr_usage_close(daily);
    wr_usage_close(monthly);
    wr_database_close(database);
}

static void by_itself(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    uint32_t acme = with_key(database, "acme", "k-acme").number;

    (void)state;
    charge(daily, acme, TODAY, 5, 0);
    WAIT_FOR(ask(database, "SELECT coalesce(sum(used), 0) FROM usage") == 5);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
}

static void upgrades(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_customers *map = open_map();
    struct wr_customer acme = with_key(database, "acme", "k-acme");
    struct wr_customer_record record;
    char plan[WR_CUSTOMER_PLAN_BYTES + 1];

    (void)state;
    pass(keeper);
    want(map, acme.number);
    pass(keeper);
    assert_true(wr_customers_get(map, acme.number, &record));
    assert_true(wr_customers_plan_name(map, record.plan, plan));
    assert_string_equal(plan, "pro");
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE);
    assert_int_equal(state_of(keeper).upgrades, 1);
    assert_int_equal(ask(database, "SELECT count(*) FROM audit WHERE what = 'plan' AND who = 'weir'"
                                   " AND before = 'free' AND after = 'pro' AND reason <> ''"),
                     1);
    /* There is nothing above pro. */
    want(map, acme.number);
    pass(keeper);
    assert_true(wr_customers_get(map, acme.number, &record));
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE);
    assert_int_equal(state_of(keeper).upgrades, 1);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    wr_database_close(database);
}

static void one_writer(void **state)
{
    struct wr_keeper *first = start_keeper(), *second = start_keeper();
    struct wr_database *database = open_database();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    uint32_t acme = with_key(database, "acme", "k-acme").number;

    (void)state;
    assert_true(state_of(first).writer);
    assert_false(state_of(second).writer);
    assert_int_equal(times_said("another process keeps"), 1);
    assert_false(wr_keeper_pass(second, 20000));
    charge(daily, acme, TODAY, 5, 0);
    wr_keeper_stop(first);
    charge(daily, acme, TODAY, 2, 0);
    WAIT_FOR(state_of(second).writer);
    pass(second);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 7);
    assert_int_equal(times_said("another process keeps"), 1);
    assert_int_equal(times_said("this process keeps"), 1);
    assert_string_equal(state_of(second).detail, "");
    wr_keeper_stop(second);
    wr_usage_close(daily);
    wr_database_close(database);
}

/* The database is not there any more: nobody makes a new one in silence; when one is made, it has
 * whom the map has, and what the cells have. */
static void missing(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper;
    struct wr_customers *map;
    struct wr_database *database;
    struct wr_customer customer;

    (void)state;
    in_the_folder("rm customers.db*");
    keeper = start_keeper();
    map = open_map();
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme); /* decisions go on */
    assert_false(wr_keeper_pass(keeper, 20000));
    assert_false(wr_keeper_pass(keeper, 20000));
    assert_int_equal(access(test_path, F_OK), -1);
    assert_int_equal(state_of(keeper).disk, WR_DISK_MISSING);
    assert_non_null(strstr(state_of(keeper).detail, "weir customer recover"));
    assert_int_equal(times_said("cannot be written"), 1);
    assert_int_equal(state_of(keeper).waiting, 1);

    database = open_database(); /* somebody begins a new one */
    __atomic_store_n(&test_clock_ns, NOW + 2 * WR_NS_PER_S, __ATOMIC_SEQ_CST);
    pass(keeper);
    assert_int_equal(times_said("is written again"), 1);
    assert_int_equal(times_said("only customers.map knew|2"), 1);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 42);
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    assert_int_equal(wr_customer_get(database, wr_customer_id("acme"), &customer), 0);
    assert_int_equal(customer.number, acme);
    assert_int_equal(strncmp(customer.name, "recovered-", 10), 0);
    /* By his name he is himself again. */
    customer = make_customer(database, "acme", "pro");
    assert_int_equal(customer.number, acme);
    assert_string_equal(customer.plan, "pro");
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 2);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    wr_database_close(database);
}

/* A copy of earlier days gives numbers again that later customers have. */
static void older_copy(void **state)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_database *database = open_database();
    struct wr_usage *daily;
    struct wr_customers *map;
    struct wr_customer acme, later, stranger;

    (void)state;
    acme = with_key(database, "acme", "k-acme");
    pass(keeper);
    wr_keeper_stop(keeper);
    wr_database_close(database);
    in_the_folder("cp customers.db copy.db");
    keeper = start_keeper();
    database = open_database();
    later = with_key(database, "later", "k-later");
    pass(keeper);
    daily = open_usage_file("daily", WR_PER_DAY);
    charge(daily, later.number, TODAY, 9, 0);
    charge(daily, acme.number, TODAY, 1, 0);
    pass(keeper);
    wr_keeper_stop(keeper);
    wr_database_close(database);

    in_the_folder("rm customers.db* && mv copy.db customers.db");
    database = open_database();
    stranger = with_key(database, "stranger", "k-stranger");
    assert_int_equal(stranger.number, later.number); /* as the copy knows no better */
    keeper = start_keeper();
    pass(keeper);
    map = open_map();
    assert_int_equal(who_is(map, "api_key", "k-later"), later.number);
    assert_int_equal(wr_customer_find(database, "stranger", &stranger), 0);
    assert_int_not_equal(stranger.number, later.number);
    assert_int_equal(who_is(map, "api_key", "k-stranger"), stranger.number);
    assert_int_equal(ask(database, "SELECT used FROM usage JOIN customer AS c ON c.id = customer"
                                   " WHERE c.name LIKE 'recovered-%'"),
                     9);
    assert_int_equal(ask(database,
                         "SELECT count(*) FROM usage JOIN customer AS c ON c.id = customer"
                         " WHERE c.name = 'stranger'"),
                     0);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_customers_close(map);
    wr_database_close(database);
}

static void corrupt(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper;
    struct wr_customers *map;
    struct wr_usage *daily;
    struct wr_database *database;

    (void)state;
    in_the_folder("cp customers.db copy.db && dd if=/dev/urandom of=customers.db bs=4096 seek=1"
                  " count=20 conv=notrunc 2>/dev/null");
    keeper = start_keeper();
    map = open_map();
    daily = open_usage_file("daily", WR_PER_DAY);
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    charge(daily, acme, TODAY, 8, 0);
    for (int i = 0; i < 3; i++) {
        __atomic_add_fetch(&test_clock_ns, 2 * WR_NS_PER_S, __ATOMIC_SEQ_CST);
        assert_false(wr_keeper_pass(keeper, 20000));
    }
    in_the_folder("test $(ls customers.db.corrupt-2* | wc -l) = 1 && test ! -e customers.db");
    assert_int_equal(times_said("cannot be written"), 1);
    assert_int_equal(times_said("set aside"), 1);
    assert_int_equal(state_of(keeper).disk, WR_DISK_CORRUPT);
    assert_true(state_of(keeper).failures >= 3);
    in_the_folder("cp copy.db customers.db");
    __atomic_add_fetch(&test_clock_ns, 2 * WR_NS_PER_S, __ATOMIC_SEQ_CST);
    pass(keeper);
    assert_int_equal(times_said("is written again"), 1);
    assert_int_equal(state_of(keeper).disk, WR_DISK_WELL);
    database = open_database();
    assert_int_equal(ask(database, "SELECT used FROM usage"), 50);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_customers_close(map);
    wr_database_close(database);
}

/* In a child: its files may not grow any more, then they may again. */
static int full_disk(uint32_t acme)
{
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    struct rlimit before, none;
    struct wr_database *database;
    int64_t sum;

    (void)signal(SIGXFSZ, SIG_IGN);
    pass(keeper);
    (void)getrlimit(RLIMIT_FSIZE, &before);
    none = before;
    none.rlim_cur = 1024;
    (void)setrlimit(RLIMIT_FSIZE, &none);
    charge(daily, acme, TODAY, 8, 0);
    for (int i = 0; i < 4; i++) {
        __atomic_add_fetch(&test_clock_ns, 16 * WR_NS_PER_S, __ATOMIC_SEQ_CST);
        charge(daily, acme, TODAY, 1, 0);
        if (wr_keeper_pass(keeper, 20000))
            return 1;
    }
    if (state_of(keeper).disk != WR_DISK_FULL || times_said("cannot be written") != 1)
        return 2;
    if (state_of(keeper).waiting != 1)
        return 3;
    (void)setrlimit(RLIMIT_FSIZE, &before);
    pass(keeper);
    if (state_of(keeper).disk != WR_DISK_WELL || times_said("is written again") != 1)
        return 4;
    wr_keeper_stop(keeper);
    database = open_database();
    sum = ask(database, "SELECT used FROM usage");
    wr_database_close(database);
    wr_usage_close(daily);
    return sum == 54 ? 0 : 5;
}

static void full(void **state)
{
    uint32_t acme = some_history();
    pid_t pid = fork();
    int status;

    (void)state;
    if (pid == 0)
        _exit(full_disk(acme));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* The file of usage is gone, as after a power loss on a disk in memory: what the ledger has is
 * where counting goes on. */
static void restores(void **state)
{
    uint32_t acme = some_history();
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    struct wr_keeper *keeper;
    struct wr_usage *daily;
    struct wr_database *database;

    (void)state;
    in_the_folder("rm daily.usage");
    keeper = start_keeper();
    daily = open_usage_file("daily", WR_PER_DAY);
    assert_int_equal(wr_usage_read(daily, acme, window), 1);
    assert_int_equal(window[0].units, 42);
    assert_int_equal(window[0].over, 2);
    charge(daily, acme, TODAY, 1, 0);
    pass(keeper);
    database = open_database();
    assert_int_equal(ask(database, "SELECT used FROM usage"), 43);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
}

/* Without its map too: customers have the numbers that the database says. */
static void restores_all(void **state)
{
    uint32_t acme = some_history();
    struct wr_usage_window window[WR_USAGE_WINDOWS];
    struct wr_keeper *keeper;
    struct wr_customers *map;
    struct wr_usage *daily;

    (void)state;
    in_the_folder("rm *.usage customers.map");
    keeper = start_keeper();
    map = open_map();
    daily = open_usage_file("daily", WR_PER_DAY);
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    assert_int_equal(wr_usage_read(daily, acme, window), 1);
    assert_int_equal(window[0].units, 42);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_customers_close(map);
}

static void of_other_windows(void **state)
{
    char text[1000];

    (void)state;
    (void)some_history();
    in_the_folder("mv daily.usage x && cp monthly.usage daily.usage");
    assert_null(try_keeper(text, sizeof text));
    assert_non_null(strstr(text, "quota daily"));
}

static void write_roster(const char *text)
{
    char path[512];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/customers.yaml", test_folder);
    file = fopen(path, "w");
    assert_true(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

static void from_a_file(void **state)
{
    struct wr_keeper *keeper;
    struct wr_keeper_config *config;
    struct wr_customers *map;
    struct wr_database *database;

    (void)state;
    write_roster("version: 1\ncustomers:\n"
                 "- {name: acme, plan: pro, keys: [{identity: user, value: alice}]}\n");
    keeper = start_keeper(); /* known before anybody is served */
    map = open_map();
    assert_int_equal(who_is(map, "user", "alice"), 0);
    write_roster("version: 1\ncustomers:\n"
                 "- {name: globex, plan: pro, keys: [{identity: user, value: alice}]}\n");
    config = make_config();
    wr_keeper_take(keeper, config);
    pass(keeper);
    assert_int_equal(who_is(map, "user", "alice"), 1);
    database = open_database();
    assert_int_equal(ask(database, "SELECT ended IS NOT NULL FROM customer WHERE name = 'acme'"),
                     1);
    assert_int_equal(ask(database, "SELECT count(*) FROM audit WHERE who <> 'file:customers.yaml'"),
                     0);
    assert_int_equal(times_said("1 created, 0 changed, 1 ended"), 1);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    wr_database_close(database);
}

/* At the start, and again when the policy has become another; not each turn. */
static void plans_that_are_none(void **state)
{
    struct wr_database *database = open_database();
    struct wr_keeper_config *config = make_config();
    struct wr_keeper *keeper;

    (void)state;
    (void)make_customer(database, "acme", "gold");
    (void)make_customer(database, "globex", "gold");
    (void)make_customer(database, "initech", "pro");
    keeper = start_keeper();
    pass(keeper);
    pass(keeper);
    assert_int_equal(times_said("1 customers have a plan that is none|gold: 2 customers; the "
                                "policy has no such plan, so the limits of free hold"),
                     1);
    (void)snprintf(config->plan[0], sizeof config->plan[0], "gold");
    (void)snprintf(config->plan[1], sizeof config->plan[1], "silver");
    wr_keeper_take(keeper, config);
    pass(keeper);
    assert_int_equal(times_said("gold: "), 1);
    assert_int_equal(times_said("pro: 1 customers; the policy has no such plan, so the limits of "
                                "gold hold"),
                     1);
    wr_keeper_stop(keeper);
    wr_database_close(database);
}

/* Quotas that stay go on with what they know; one that is new begins. */
static void another_policy(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper = start_keeper();
    struct wr_keeper_config *config = make_config();
    struct wr_database *database = open_database();
    struct wr_usage *weekly, *daily = open_usage_file("daily", WR_PER_DAY);
    uint64_t rows;

    (void)state;
    pass(keeper);
    rows = state_of(keeper).rows;
    config->quota[0] = config->quota[1];
    (void)snprintf(config->quota[0].name, sizeof config->quota[0].name, "weekly");
    config->quota[0].civil.per = WR_PER_WEEK;
    config->quota[1] = (struct wr_kept){
        .name = "daily", .zone = "Europe/Istanbul", .civil = {.per = WR_PER_DAY, .anchor = 1}};
    wr_keeper_take(keeper, config);
    pass(keeper);
    assert_int_equal(state_of(keeper).rows, rows);
    weekly = open_usage_file("weekly", WR_PER_WEEK);
    charge(weekly, acme, TODAY - 1, 5, 0);
    charge(daily, acme, TODAY, 1, 0);
    pass(keeper);
    assert_int_equal(state_of(keeper).rows, rows + 2);
    assert_int_equal(
        ask(database,
            "SELECT used FROM usage JOIN quota ON quota.id = quota WHERE zone = 'Europe/Istanbul'"),
        43);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_usage_close(weekly);
    wr_database_close(database);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up_keeping, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(people_reach_the_map),
        TEST(usage_reaches_the_database),
        TEST(by_itself),
        TEST(upgrades),
        TEST(one_writer),
        TEST(missing),
        TEST(older_copy),
        TEST(corrupt),
        TEST(full),
        TEST(restores),

        TEST(restores_all),
        TEST(of_other_windows),
        TEST(from_a_file),
        TEST(plans_that_are_none),
        TEST(another_policy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
