/* keeper_files.c - files that are not what they were: older copies, damaged cells, fewer cells than
 * customers, an empty database. Nothing of it may change what somebody is billed without a word. */
#include "keeping.h"

/* Somebody puts an older copy of a file of usage in its place: the ledger does not go down, and
 * what is counted from then on comes on top of what it has. */
static void older_file(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper;
    struct wr_usage *daily;
    struct wr_database *database;

    (void)state;
    in_the_folder("cp daily.usage copy");
    keeper = start_keeper();
    daily = open_usage_file("daily", WR_PER_DAY);
    charge(daily, acme, TODAY, 8, 1);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    assert_int_equal(times_said("older copy"), 0);

    in_the_folder("mv copy daily.usage");
    keeper = start_keeper();
    assert_int_equal(times_said("older copy than the ledger was written from|daily.usage"), 1);
    daily = open_usage_file("daily", WR_PER_DAY);
    charge(daily, acme, TODAY, 5, 0);
    pass(keeper);
    database = open_database();
    assert_int_equal(ask(database, "SELECT used FROM usage"), 55);
    assert_int_equal(ask(database, "SELECT over FROM usage"), 3);
    wr_keeper_stop(keeper);

    /* The same file again is not older; what was given back while nobody kept it is. */
    charge(daily, acme, TODAY, -10, 0);
    keeper = start_keeper();
    pass(keeper);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 45);
    assert_int_equal(times_said("older copy"), 1);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
}

/* Removed after an end, as for more room: the new one is no copy, and nothing is lost. */
static void removed_file(void **state)
{
    uint32_t acme = some_history();
    struct wr_database *database = open_database();
    int64_t used = ask(database, "SELECT sum(used) FROM usage");
    struct wr_keeper *keeper;
    struct wr_usage *daily;

    (void)state;
    in_the_folder("rm daily.usage");
    keeper = start_keeper();
    assert_int_equal(times_said("a file of usage is new|daily.usage: there was none"), 1);
    assert_int_equal(times_said("older copy"), 0);
    assert_int_equal(times_said("lost"), 0);
    daily = open_usage_file("daily", WR_PER_DAY);
    charge(daily, acme, TODAY, 5, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), used + 5);
    wr_keeper_stop(keeper);
    wr_keeper_stop(start_keeper());
    assert_int_equal(times_said("a file of usage is new"), 1);
    wr_usage_close(daily);
    wr_database_close(database);
}

static uint64_t units_in(struct wr_usage *usage, uint32_t number)
{
    struct wr_usage_view view;

    assert_true(wr_usage_find(usage, number, TODAY, &view));
    return view.used & WR_USAGE_UNITS_MAX;
}

/* A file that is counted in is taken away: said for as long as it is so, and over with a restart,
 * which writes what the old one has and goes on from there in a new one. */
static void taken_away(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    struct wr_database *database = open_database();

    (void)state;
    pass(keeper);
    assert_int_equal(state_of(keeper).astray, 0);
    in_the_folder("rm daily.usage");
    charge(daily, acme, TODAY, 8, 0);
    pass(keeper);
    pass(keeper);
    assert_int_equal(times_said("taken away while it is counted in|daily.usage was removed: "), 1);
    assert_int_equal(state_of(keeper).astray, 1);
    assert_string_equal(state_of(keeper).stray, "daily.usage was removed");
    in_the_folder("cp monthly.usage daily.usage && mv customers.map x");
    pass(keeper);
    assert_int_equal(state_of(keeper).astray, 2);
    assert_string_equal(state_of(keeper).stray, "customers.map was removed");
    in_the_folder("rm daily.usage && mv x customers.map");
    pass(keeper);
    assert_int_equal(state_of(keeper).astray, 1);
    charge(daily, acme, TODAY, 1, 0);
    wr_keeper_stop(keeper);
    assert_int_equal(times_said("taken away"), 2);
    wr_usage_close(daily);

    keeper = start_keeper();
    pass(keeper);
    daily = open_usage_file("daily", WR_PER_DAY);
    assert_int_equal(units_in(daily, acme), 51);
    charge(daily, acme, TODAY, 1, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 52);
    assert_int_equal(state_of(keeper).astray, 0);
    assert_int_equal(times_said("taken away"), 2);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
}

/* As a reload does: files are opened, made where there are none, and then taken. */
static struct wr_keeper_config *prepared(void)
{
    struct wr_keeper_config *config = make_config();

    for (size_t i = 0; i < config->quota_count; i++)
        assert_int_equal(wr_kept_open(&config->quota[i], test_folder, ROOM, NULL), 0);
    return config;
}

/* The keeper goes on with the files that decisions have from the reload on. */
static void taken_away_and_reloaded(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily;
    struct wr_customers *map;
    struct wr_database *database = open_database();

    (void)state;
    in_the_folder("rm daily.usage customers.map");
    pass(keeper);
    assert_int_equal(state_of(keeper).astray, 2);
    wr_keeper_take(keeper, prepared());
    pass(keeper);
    pass(keeper);
    assert_int_equal(state_of(keeper).astray, 0);
    map = open_map();
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    daily = open_usage_file("daily", WR_PER_DAY);
    assert_int_equal(units_in(daily, acme), 42);
    charge(daily, acme, TODAY, 1, 0);
    pass(keeper);
    assert_int_equal(ask(database, "SELECT used FROM usage"), 43);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_customers_close(map);
    wr_database_close(database);
}

/* A window that cannot be is said, and not billed; the others are. */
static void damaged(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper = start_keeper();
    struct wr_usage *daily = open_usage_file("daily", WR_PER_DAY);
    struct wr_database *database = open_database();

    (void)state;
    charge(daily, acme, 33, 16492674416640, 0); /* 1970-02-03 */
    charge(daily, acme, TODAY, 1, 0);
    pass(keeper);
    pass(keeper);
    assert_int_equal(
        times_said("a cell of usage cannot be right|daily.usage, cell 1: a window that "
                   "begins on 1970-02-03"),
        1);
    assert_int_equal(times_said("cannot be right"), 1);
    assert_int_equal(state_of(keeper).damaged, 1);
    assert_non_null(strstr(state_of(keeper).damage, "daily.usage, cell 1"));
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 43);
    wr_keeper_stop(keeper);

    keeper = start_keeper(); /* all cells are looked at */
    assert_int_equal(ask(database, "SELECT sum(used) FROM usage"), 43);
    assert_int_equal(state_of(keeper).damaged, 1);
    wr_keeper_stop(keeper);
    wr_usage_close(daily);
    wr_database_close(database);
}

/* One more than there are cells for, as who was made before the files were is. */
static struct wr_customer make_beyond(struct wr_database *database)
{
    const struct wr_customer_new made = {.name = "late", .plan = "free", .room = 2 * ROOM};
    struct wr_customer customer;

    assert_int_equal(wr_customer_create(database, &made, &somebody, &customer), 0);
    assert_int_equal(customer.number, ROOM);
    return customer;
}

/* The map was taken away alone, and made anew with more room: who has no cell is refused, and who
 * is there already is said. */
static void smaller_files(void **state)
{
    struct wr_keeper *keeper;
    struct wr_database *database;
    struct wr_customer late;
    char name[32];

    (void)state;
    (void)some_history();
    database = open_database();
    assert_int_equal(wr_customers_place_for(database, 2 * ROOM).room, ROOM);
    for (unsigned i = 2; i < ROOM; i++) {
        (void)snprintf(name, sizeof name, "c-%u", i);
        (void)make_customer(database, name, "free");
    }
    in_the_folder("rm customers.map");
    test_room = 2 * ROOM;
    keeper = start_keeper();
    test_room = ROOM;
    pass(keeper);
    assert_int_equal(wr_customers_place_for(database, 2 * ROOM).room, ROOM);
    assert_int_equal(state_of(keeper).left_out, 0);
    late = make_beyond(database);
    assert_int_equal(
        wr_customer_add_key(database, late.id, slice("api_key"), slice("k-late"), &somebody, NULL),
        WEIR_EFULL);
    pass(keeper);
    assert_int_equal(state_of(keeper).left_out, 1);
    assert_int_equal(times_said("not in the ledger|1 customers: daily.usage has room for 64"), 1);
    wr_keeper_stop(keeper);
    wr_database_close(database);
}

/* Cells have counts of somebody whom the database does not know: it is an older copy, say. Who is
 * new begins with none of them, in whatever file they are. */
static void counts_of_nobody(void **state)
{
    struct wr_customer_new made = {.name = "new", .plan = "free", .room = ROOM};
    struct wr_database *database;
    struct wr_usage *usage;
    struct wr_customer customer;

    (void)state;
    (void)some_history();
    database = open_database();
    assert_int_equal(wr_customers_place_for(database, ROOM).first, 2); /* acme is 1 */
    usage = open_usage_file("daily", WR_PER_DAY);
    charge(usage, 7, TODAY, 5, 0);
    wr_usage_close(usage);
    assert_int_equal(wr_customers_place_for(database, ROOM).first, 8);
    in_the_folder("cp daily.usage gone.usage"); /* of a quota that there is no more */
    usage = open_usage_file("daily", WR_PER_DAY);
    charge(usage, ROOM - 2, TODAY, 5, 0);
    assert_int_equal(wr_customers_place_for(database, ROOM).first, ROOM - 1);
    in_the_folder("mv daily.usage older.usage");
    wr_usage_close(usage);
    made.first = wr_customers_place_for(database, ROOM).first;
    assert_int_equal(made.first, ROOM - 1);
    assert_int_equal(wr_customer_create(database, &made, &somebody, &customer), 0);
    assert_int_equal(customer.number, ROOM - 1);
    made.name = "newer";
    assert_int_equal(wr_customer_create(database, &made, &somebody, NULL), WEIR_EFULL);
    wr_database_close(database);
}

/* Write |bytes| over |id| in customers.map; 0: one bit of it is another. */
static void damage_id(int64_t id, uint64_t bytes)
{
    uint64_t is = 0, becomes = bytes != 0 ? bytes : ((uint64_t)id ^ 1U << 9);
    char path[512];
    FILE *file;
    long at = -1;

    (void)snprintf(path, sizeof path, "%s/customers.map", test_folder);
    file = fopen(path, "r+b");
    assert_non_null(file);
    for (long here = 0; at < 0 && fread(&is, sizeof is, 1, file) == 1; here += (long)sizeof is)
        if (is == (uint64_t)id)
            at = here;
    assert_true(at > 0);
    assert_int_equal(fseek(file, at, SEEK_SET), 0);
    assert_int_equal(fwrite(&becomes, sizeof becomes, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

/* An id in customers.map is damaged, in a bit or wholly: the database knows better, and what was
 * counted stays whose it is. */
static void damaged_ids(void **state)
{
    uint32_t acme = some_history();
    struct wr_database *database = open_database();
    int64_t id = wr_customer_id("acme");
    struct wr_customers *map;
    struct wr_customer_record record;

    (void)state;
    for (uint64_t bytes = 0; bytes < 2; bytes++) {
        struct wr_keeper *keeper;
        struct wr_usage *daily;
        damage_id(id, bytes * UINT64_C(0x0123456789abcdef));
        keeper = start_keeper();
        daily = open_usage_file("daily", WR_PER_DAY);
        charge(daily, acme, TODAY, 4, 0);
        pass(keeper);
        pass(keeper);
        map = open_map();
        assert_true(wr_customers_get(map, acme, &record));
        assert_true(record.id == id);
        assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 2);
        assert_int_equal(ask(database, "SELECT number FROM customer WHERE name = 'acme'"), acme);
        assert_int_equal(ask(database, "SELECT used FROM usage"), 46 + 4 * (int64_t)bytes);
        assert_int_equal(ask(database, "SELECT count(*) FROM usage"), 1);
        assert_int_equal(times_said("customers.map was damaged|1 customers"), bytes + 1);
        assert_int_equal(times_said("only customers.map knew"), 0);
        wr_keeper_stop(keeper);
        wr_usage_close(daily);
        wr_customers_close(map);
    }
    wr_database_close(database);
}

/* Bytes that nobody wrote, where nobody's record is, with the bit of a customer: of a plan that
 * there is not, or with flags that there are not. The database is well. */
static void bytes_are_nobody(void **state)
{
    static const struct wr_customer_record invented[] = {
        {.id = 77, .plan = 41, .plan_after = 0, .flags = WR_CUSTOMER_ACTIVE, .until_ns = 5},
        {.id = 78, .plan = 0, .plan_after = 41, .flags = WR_CUSTOMER_ACTIVE, .until_ns = 5},
        {.id = 79, .flags = WR_CUSTOMER_ACTIVE | 0x40, .until_ns = 5},
        {.id = 0, .flags = WR_CUSTOMER_ACTIVE, .until_ns = 5}};
    struct wr_customers_options options = {.writer = true, .must_exist = true};
    uint32_t acme = some_history();
    struct wr_database *database = open_database();
    struct wr_customer_record record;
    struct wr_customers *map;
    struct wr_keeper *keeper;
    char path[sizeof test_folder + sizeof WR_CUSTOMERS_NAME + 1];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/" WR_CUSTOMERS_NAME, test_folder);
    options.path = path;
    assert_int_equal(wr_customers_open(&map, &options, NULL), 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(wr_customers_set(map, 20 + i, &invented[i], true), 0);
    wr_customers_close(map);
    keeper = start_keeper();
    pass(keeper);
    map = open_map();
    for (uint32_t i = 0; i < 4; i++)
        assert_false(wr_customers_get(map, 20 + i, &record));
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 2);
    assert_int_equal(times_said("customers.map was damaged|4 customers"), 1);
    assert_int_equal(times_said("only customers.map knew"), 0);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    wr_database_close(database);
}

/* A file with nothing in it is as good as none. */
static void empty_database(void **state)
{
    uint32_t acme = some_history();
    struct wr_keeper *keeper;
    struct wr_customers *map;

    (void)state;
    in_the_folder("rm customers.db* && touch customers.db");
    keeper = start_keeper();
    map = open_map();
    assert_int_equal(who_is(map, "api_key", "k-acme"), acme);
    assert_false(wr_keeper_pass(keeper, 20000));
    assert_int_equal(state_of(keeper).disk, WR_DISK_MISSING);
    assert_non_null(strstr(state_of(keeper).detail, "customers.db is empty, but"));
    assert_int_equal(times_said("cannot be written"), 1);
    assert_int_equal(times_said("only customers.map knew"), 0);
    wr_keeper_stop(keeper);
    wr_customers_close(map);
    in_the_folder("test ! -s customers.db");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up_keeping, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(older_file),       TEST(removed_file),
        TEST(taken_away),       TEST(taken_away_and_reloaded),
        TEST(damaged),          TEST(damaged_ids),
        TEST(bytes_are_nobody), TEST(smaller_files),
        TEST(counts_of_nobody), TEST(empty_database),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
