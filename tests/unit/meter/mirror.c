/* mirror.c - customers.map brought up to a database: by changes, whole, and where it has no room.
 */
#include "keeping.h"

static struct wr_database *database;
static struct wr_mirror mirror;

static void open_writer(uint32_t room)
{
    char path[512];
    const struct wr_customers_options options = {.path = path, .room = room, .writer = true};

    (void)snprintf(path, sizeof path, "%s/customers.map", test_folder);
    mirror = (struct wr_mirror){.map = NULL};
    assert_int_equal(wr_customers_open(&mirror.map, &options, NULL), 0);
}

static int set_up(void **state)
{
    (void)make_folder(state);
    database = open_database();
    open_writer(ROOM);
    return 0;
}

static int tear_down(void **state)
{
    wr_customers_close(mirror.map);
    wr_database_close(database);
    return remove_folder(state);
}

static struct wr_customer add_with_key(const char *name, const char *value)
{
    struct wr_customer customer = make_customer(database, name, "free");

    assert_int_equal(
        wr_customer_add_key(database, customer.id, slice("user"), slice(value), &somebody, NULL),
        0);
    return customer;
}

static void by_changes(void **state)
{
    (void)state;
    assert_int_equal(wr_mirror_changes(&mirror, database), WEIR_EAGAIN); /* a new map */
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_true(wr_customers_mark(mirror.map) == 1);
    (void)add_with_key("acme", "a");
    assert_int_equal(who_is(mirror.map, "user", "a"), -1);
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_int_equal(who_is(mirror.map, "user", "a"), 0);
    assert_true(wr_customers_mark(mirror.map) == 3);
    mirror.changed = 0;
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_int_equal(mirror.changed, 0);
}

/* A key passes from one to the other between two looks. */
static void a_key_moves(void **state)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    struct wr_customer acme, globex;

    (void)state;
    acme = add_with_key("acme", "a");
    globex = add_with_key("globex", "g");
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    wr_key_digest(slice("user"), slice("g"), digest);
    assert_int_equal(wr_customer_revoke_key(database, digest, &somebody), 0);
    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("g"), &somebody, NULL), 0);
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_int_equal(who_is(mirror.map, "user", "g"), acme.number);
    assert_int_equal(wr_customer_revoke_key(database, digest, &somebody), 0);
    assert_int_equal(
        wr_customer_add_key(database, globex.id, slice("user"), slice("g"), &somebody, NULL), 0);
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_int_equal(who_is(mirror.map, "user", "g"), globex.number);
}

/* A key in the map that the database does not know leads nowhere any more. */
static void stale_keys_go(void **state)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];

    (void)state;
    (void)add_with_key("acme", "a");
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    wr_key_digest(slice("user"), slice("stale"), digest);
    assert_int_equal(wr_customers_key_set(mirror.map, digest, 0), 0);
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_int_equal(who_is(mirror.map, "user", "stale"), -1);
    assert_int_equal(who_is(mirror.map, "user", "a"), 0);
}

static void behind_the_map(void **state)
{
    (void)state;
    (void)add_with_key("acme", "a");
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_int_equal(wr_customers_set_mark(mirror.map, 100), 0); /* an older copy of the database */
    assert_int_equal(wr_mirror_changes(&mirror, database), WEIR_EAGAIN);
}

/* The wish of one who is changed otherwise is kept; with another plan it is met. */
static void wishes(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_customer acme;
    struct wr_customer_record record;

    (void)state;
    acme = add_with_key("acme", "a");
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    wr_customers_want(mirror.map, 0, 0, NOW);
    change.suspended = 1;
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_true(wr_customers_get(mirror.map, 0, &record));
    assert_int_equal(record.flags,
                     WR_CUSTOMER_ACTIVE | WR_CUSTOMER_SUSPENDED | WR_CUSTOMER_WANTS_UPGRADE);
    change.plan = "pro";
    assert_int_equal(wr_customer_change(database, acme.id, &change, &somebody, NULL), 0);
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_true(wr_customers_get(mirror.map, 0, &record));
    assert_int_equal(record.flags, WR_CUSTOMER_ACTIVE | WR_CUSTOMER_SUSPENDED);
}

/* A wish that was taken off the list by a process that was killed then is found again. */
static void a_wish_is_not_lost(void **state)
{
    uint32_t at = 0, number;

    (void)state;
    (void)add_with_key("acme", "a");
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    wr_customers_want(mirror.map, 0, 0, NOW);
    assert_true(wr_customers_wanting_next(mirror.map, &at, &number));
    at = 0;
    assert_false(wr_customers_wanting_next(mirror.map, &at, &number));
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    at = 0;
    assert_true(wr_customers_wanting_next(mirror.map, &at, &number));
    assert_int_equal(number, 0);
}

/* 64 plans are known, a 65th is not: that customer keeps what the map had. */
static void too_many_plans(void **state)
{
    char name[32];

    (void)state;
    for (int i = 0; i < 64; i++) {
        struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
        (void)snprintf(name, sizeof name, "c-%d", i);
        (void)make_customer(database, name, "free");
        change.plan = name;
        assert_int_equal(
            wr_customer_change(database, wr_customer_id(name), &change, &somebody, NULL), 0);
    }
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_int_equal(mirror.left_out, 0);
    assert_int_equal(wr_customers_plan_count(mirror.map), 64);
    assert_int_equal(wr_customer_end(database, wr_customer_id("c-0"), &somebody), 0);
    (void)wr_customer_resume(database, wr_customer_id("c-0"), &somebody);
    {
        struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
        change.plan = "one-more";
        assert_int_equal(
            wr_customer_change(database, wr_customer_id("c-0"), &change, &somebody, NULL), 0);
    }
    assert_int_equal(wr_mirror_changes(&mirror, database), 0);
    assert_int_equal(mirror.left_out, 1);
}

/* More customers than the map was made for. */
static void too_many_customers(void **state)
{
    char command[512];

    (void)state;
    (void)add_with_key("acme", "a");
    (void)add_with_key("globex", "g");
    wr_customers_close(mirror.map);
    (void)snprintf(command, sizeof command, "rm '%s/customers.map'", test_folder);
    assert_int_equal(system(command), 0);
    open_writer(1); /* smaller than the one that they were made beside */
    assert_int_equal(wr_mirror_all(&mirror, database, NOW), 0);
    assert_int_equal(who_is(mirror.map, "user", "a"), 0);
    assert_int_equal(who_is(mirror.map, "user", "g"), -1);
    assert_true(mirror.left_out > 0);
    /* Who is not in it and has ended is not said to be a customer again. */
    assert_int_equal(wr_customer_end(database, wr_customer_id("globex"), &somebody), 0);
    assert_int_equal(wr_customer_resume(database, wr_customer_id("globex"), &somebody), WEIR_EFULL);
    assert_non_null(strstr(wr_database_fault(database)->text, "globex has no place"));
    assert_int_equal(ask(database, "SELECT count(*) FROM customer WHERE ended IS NULL"), 1);
    assert_int_equal(wr_customer_end(database, wr_customer_id("acme"), &somebody), 0);
    assert_int_equal(wr_customer_resume(database, wr_customer_id("acme"), &somebody), 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(by_changes), TEST(a_key_moves),        TEST(stale_keys_go),  TEST(behind_the_map),
        TEST(wishes),     TEST(a_wish_is_not_lost), TEST(too_many_plans), TEST(too_many_customers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
