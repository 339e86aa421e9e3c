/* roster.c - the customers' file: what it may say, what is wrong with it and in which line, and
 * what the database is afterwards. */
#include "fixture.h"

#include "meter/roster.h"

static const char *const plans[] = {"free", "pro"};
static const char *const identities[] = {"api_key", "user"};
static const struct wr_roster_names names = {plans, 2, identities, 2};
static struct wr_diag diag;

/* NULL: it has errors, in |diag|. */
static struct wr_roster *load(const char *text)
{
    struct wr_roster *roster;
    int result;

    wr_diag_init(&diag, "customers.yaml");
    result = wr_roster_load_text(&roster, text, strlen(text), &names, &diag);
    assert_int_equal(result == 0, roster != NULL);
    assert_int_equal(result == 0, diag.errors == 0);
    return roster;
}

/* |text|, after "version: 1\ncustomers:\n", is wrong in |line|, and |what| is said. */
static void wrong(const char *text, unsigned line, const char *what)
{
    char whole[4000];

    (void)snprintf(whole, sizeof whole, "version: 1\ncustomers:\n%s", text);
    assert_null(load(whole));
    assert_true(diag.errors > 0);
    if (diag.items[0].line != line || strstr(diag.items[0].text, what) == NULL)
        fail_msg("line %u: %s", diag.items[0].line, diag.items[0].text);
}

static void errors_have_lines(void **state)
{
    (void)state;
    wrong("- {plan: pro}\n", 3, "a name and a plan");
    wrong("- {name: a}\n", 3, "a name and a plan");
    wrong("- name: a\n  plan: gold\n", 4, "a plan of the policy, found gold");
    wrong("- {name: a, plan: pro}\n- {name: a, plan: free}\n", 4, "in line 3 already");
    wrong("- {name: ' a', plan: pro}\n", 3, "without blanks");
    wrong("- name: a\n  plan: pro\n  anchor: 32\n", 5, "1 to 31");
    wrong("- name: a\n  plan: pro\n  anchor: 0\n", 5, "1 to 31");
    wrong("- name: a\n  plan: pro\n  suspended: yes\n", 5, "true or false");
    wrong("- name: a\n  plan: pro\n  colour: red\n", 5, "unknown key in a customer");
    wrong("- name: a\n  plan: pro\n  trial: {plan: pro}\n", 5, "a plan and until");
    wrong("- name: a\n  plan: pro\n  trial: {plan: pro, until: 2026-13-01}\n", 5, "2026-12-31");
    wrong("- name: a\n  plan: pro\n  trial: {plan: pro, until: 2026-02-30}\n", 5, "2026-12-31");
    wrong("- name: a\n  plan: pro\n  trial: {plan: pro, until: 2026-02-30T00:00:00Z}\n", 5, "day");
    wrong("- {name: \"a\\u202e\", plan: pro}\n", 3, "format characters");
    wrong("- name: a\n  plan: pro\n  trial: {plan: pro, until: tomorrow}\n", 5, "2026-12-31");
    wrong("- name: a\n  plan: pro\n  keys:\n  - {value: x}\n", 6, "an identity, and either");
    wrong("- name: a\n  plan: pro\n  keys:\n  - {identity: user}\n", 6, "an identity, and either");
    wrong("- name: a\n  plan: pro\n  keys:\n  - {identity: tenant, value: x}\n", 6, "customers.by");
    wrong("- name: a\n  plan: pro\n  keys:\n  - {identity: user, sha256: 12}\n", 6, "hexadecimal");
    wrong("- name: a\n  plan: pro\n  keys:\n  - {identity: user, value: x}\n"
          "- name: b\n  plan: pro\n  keys:\n  - {identity: user, value: x}\n",
          10, "in line 6 already");
    wrong("- name: a\n  plan: pro\n  keys: x\n", 5, "a list of keys");
    wrong("- a\n", 3, "expected a map");
    assert_null(load("version: 2\ncustomers: []\n"));
    assert_int_equal(diag.items[0].line, 1);
    assert_null(load("customers: []\n"));
    assert_null(load("version: 1\nclients: []\n"));
    assert_int_equal(diag.items[0].line, 2);
    assert_null(load(""));
    assert_null(load("version: 1\n")); /* the rest of it was cut off, perhaps */
    assert_non_null(strstr(diag.items[0].text, "customers: []"));
    assert_null(load("version: 1\ncustomers:\n"));
    assert_int_equal(diag.items[0].line, 2);
    assert_null(load("version: 1\ncustomers: [\n"));
}

/* Keys are secrets: whatever is wrong with one, it is not told. */
static void quotes_no_key(void **state)
{
    char text[8192];

    (void)state;
    assert_null(
        load("version: 1\ncustomers:\n- name: a\n  plan: pro\n  keys:\n"
             "  - {identity: user, sha256: s3cret}\n  - {identity: s3cret, value: s3cret-}\n"
             "  - {identity: user, value: s3cret, s3cret: 1}\n  - s3cret\n"));
    (void)wr_diag_format(&diag, text, sizeof text);
    assert_null(strstr(text, "s3cret-"));
    assert_null(strstr(text, "sha256: s3cret"));
    assert_int_equal(diag.errors, 4);
}

static void all_errors_are_told(void **state)
{
    (void)state;
    assert_null(
        load("version: 1\ncustomers:\n- {name: a}\n- {plan: pro}\n- {name: c, plan: gold}\n"));
    assert_int_equal(diag.errors, 3);
}

static void empty_is_good(void **state)
{
    struct wr_roster *roster = load("version: 1\ncustomers: []\n");

    (void)state;
    assert_non_null(roster);
    wr_roster_free(roster);
}

static void from_files(void **state)
{
    struct wr_roster *roster;
    char path[512];
    FILE *file;

    (void)state;
    (void)snprintf(path, sizeof path, "%s/customers.yaml", test_folder);
    wr_diag_init(&diag, "policy.yaml");
    assert_int_equal(wr_roster_load(&roster, path, &names, &diag), WEIR_EIO);
    assert_string_equal(diag.items[0].file, path);
    wr_diag_init(&diag, "policy.yaml");
    assert_int_equal(wr_roster_load(&roster, test_folder, &names, &diag), WEIR_EIO);
    file = fopen(path, "w");
    assert_true(file != NULL && fputs("version: 1\ncustomers:\n- {}\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    wr_diag_init(&diag, "policy.yaml");
    assert_int_equal(wr_roster_load(&roster, path, &names, &diag), WEIR_EPOLICY);
    assert_string_equal(diag.items[0].file, path);
    assert_int_equal(diag.items[0].line, 3);
}

/* ---- applied ----------------------------------------------------------------------------------
 */

static struct wr_database *database;
static struct wr_roster_done done;

static int set_up(void **state)
{
    (void)make_folder(state);
    database = open_database();
    return 0;
}

static int tear_down(void **state)
{
    wr_database_close(database);
    return remove_folder(state);
}

static int apply(const char *customers)
{
    char whole[4000];
    struct wr_roster *roster;
    int result;

    (void)snprintf(whole, sizeof whole, "version: 1\ncustomers:\n%s", customers);
    roster = load(whole);
    if (roster == NULL)
        fail_msg("%s", diag.items[0].text);
    result = wr_roster_apply(roster, database, ROOM, &somebody, &diag, &done);
    wr_roster_free(roster);
    return result;
}

static struct wr_customer find(const char *name)
{
    struct wr_customer customer;

    assert_int_equal(wr_customer_find(database, name, &customer), 0);
    return customer;
}

/* Whose key that is; "" nobody's. */
static const char *owner(const char *identity, const char *value)
{
    static struct wr_customer customer;
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];

    wr_key_digest(slice(identity), slice(value), digest);
    return wr_customer_of_key(database, digest, &customer) == 0 ? customer.name : "";
}

static void becomes_what_it_says(void **state)
{
    struct wr_customer acme;

    (void)state;
    assert_int_equal(apply("- name: acme\n  plan: pro\n  tenant: group\n  partner: true\n"
                           "  suspended: true\n  anchor: 31\n"
                           "  trial: {plan: free, until: 2023-11-14}\n"
                           "  keys: [{identity: user, value: alice}]\n"
                           "- {name: globex, plan: free}\n"),
                     0);
    assert_int_equal(done.created, 2);
    acme = find("acme");
    assert_string_equal(acme.plan, "pro");
    assert_string_equal(acme.tenant, "group");
    assert_true(acme.partner && acme.suspended && acme.from_file);
    assert_int_equal(acme.anchor, 31);
    assert_string_equal(acme.trial_plan, "free");
    /* The end of that day in UTC: 2023-11-15T00:00:00Z. NOW is in it. */
    assert_true(acme.trial_until_ns == INT64_C(1700006400) * WR_NS_PER_S);
    assert_string_equal(owner("user", "alice"), "acme");
    /* The same again changes nothing. */
    assert_int_equal(apply("- name: acme\n  plan: pro\n  tenant: group\n  partner: true\n"
                           "  suspended: true\n  anchor: 31\n"
                           "  trial: {plan: free, until: 2023-11-14}\n"
                           "  keys: [{identity: user, value: alice}]\n"
                           "- {name: globex, plan: free}\n"),
                     0);
    assert_int_equal(done.created + done.changed + done.ended, 0);
    assert_int_equal(ask(database, "SELECT count(*) FROM audit"), 3);
}

static void changes_what_changed(void **state)
{
    (void)state;
    assert_int_equal(apply("- {name: acme, plan: pro, tenant: t, keys: [{identity: user, value: a},"
                           " {identity: user, value: b}]}\n"),
                     0);
    assert_int_equal(apply("- {name: acme, plan: free, keys: [{identity: user, value: b},"
                           " {identity: user, value: c}]}\n"),
                     0);
    assert_int_equal(done.changed, 1);
    assert_string_equal(find("acme").plan, "free");
    assert_string_equal(find("acme").tenant, "");
    assert_string_equal(owner("user", "a"), "");
    assert_string_equal(owner("user", "b"), "acme");
    assert_string_equal(owner("user", "c"), "acme");
}

/* A key moves from one to the other in one edit, whichever stands first. */
static void keys_move(void **state)
{
    (void)state;
    assert_int_equal(apply("- {name: a, plan: free, keys: [{identity: user, value: x}]}\n"
                           "- {name: b, plan: free, keys: [{identity: user, value: y}]}\n"),
                     0);
    assert_int_equal(apply("- {name: a, plan: free, keys: [{identity: user, value: y}]}\n"
                           "- {name: b, plan: free, keys: [{identity: user, value: x}]}\n"),
                     0);
    assert_string_equal(owner("user", "x"), "b");
    assert_string_equal(owner("user", "y"), "a");
}

static void who_is_taken_out_ends(void **state)
{
    (void)state;
    (void)make_customer(database, "by-hand", "free");
    assert_int_equal(apply("- {name: a, plan: free, keys: [{identity: user, value: x}]}\n"
                           "- {name: b, plan: free}\n"),
                     0);
    assert_int_equal(apply("- {name: b, plan: free}\n"), 0);
    assert_int_equal(done.ended, 1);
    assert_true(find("a").ended);
    assert_false(find("a").from_file);
    assert_string_equal(owner("user", "x"), "");
    assert_false(find("b").ended);
    assert_false(find("by-hand").ended);
    assert_int_equal(apply("- {name: a, plan: pro, keys: [{identity: user, value: x}]}\n"
                           "- {name: b, plan: free}\n"),
                     0);
    assert_false(find("a").ended);
    assert_int_equal(find("a").number, 1);
    assert_string_equal(owner("user", "x"), "a");
}

static const char *many(int count)
{
    static char text[1000];
    size_t at = 0;

    (void)snprintf(text, sizeof text, "  []\n");
    for (int i = 0; i < count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "- {name: c%d, plan: free}\n", i);
    return text;
}

/* More than half, and at least ten, at once: that may be a file that was cut off. */
static void most_of_them_end(void **state)
{
    static const struct {
        int before, after;
        bool warned;
    } cases[] = {{19, 9, true}, {20, 10, false}, {21, 10, true}, {9, 0, false}, {10, 0, true}};
    char whole[1100];

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wr_roster *roster;
        assert_int_equal(apply(many(cases[i].before)), 0);
        (void)snprintf(whole, sizeof whole, "version: 1\ncustomers:\n%s", many(cases[i].after));
        roster = load(whole);
        assert_int_equal(wr_roster_check(roster, database, &diag), 0);
        wr_roster_free(roster);
        assert_int_equal(diag.errors, 0);
        assert_int_equal(diag.kept, cases[i].warned);
        if (cases[i].warned)
            assert_non_null(strstr(diag.items[0].text, "are not in it, and end: is it whole?"));
        assert_int_equal(apply(many(cases[i].after)), 0);
        assert_int_equal(done.ended, cases[i].before - cases[i].after);
        assert_int_equal(done.before, cases[i].before);
        assert_int_equal(wr_roster_ends_most(done.ended, done.before), cases[i].warned);
    }
}

/* What people did by hand stays until the entry itself is another. */
static void by_hand_stays(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;

    (void)state;
    assert_int_equal(apply("- {name: acme, plan: free}\n"), 0);
    assert_int_equal(
        wr_customer_upgrade(database, wr_customer_id("acme"), "free", "pro", &somebody), 0);
    change.suspended = 1;
    assert_int_equal(wr_customer_change(database, wr_customer_id("acme"), &change, &somebody, NULL),
                     0);
    assert_int_equal(wr_customer_add_key(database, wr_customer_id("acme"), slice("user"),
                                         slice("by hand"), &somebody, NULL),
                     0);
    assert_int_equal(apply("- {name: acme, plan: free}\n"), 0);
    assert_string_equal(find("acme").plan, "pro");
    assert_true(find("acme").suspended);
    assert_int_equal(apply("- {name: acme, plan: free, anchor: 3}\n"), 0);
    assert_string_equal(find("acme").plan, "free");
    assert_false(find("acme").suspended);
    assert_string_equal(owner("user", "by hand"), "acme"); /* a key that the file did not give */
}

static void takes_over(void **state)
{
    (void)state;
    (void)make_customer(database, "acme", "free");
    assert_int_equal(apply("- {name: acme, plan: pro}\n"), 0);
    assert_string_equal(find("acme").plan, "pro");
    assert_true(find("acme").from_file);
}

static void all_or_nothing(void **state)
{
    struct wr_customer acme;

    (void)state;
    acme = make_customer(database, "acme", "free");
    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("x"), &somebody, NULL), 0);
    assert_int_equal(apply("- {name: a, plan: free}\n"
                           "- name: b\n  plan: free\n  keys:\n  - {identity: user, value: x}\n"
                           "- {name: c, plan: free}\n"),
                     WEIR_EPOLICY);
    assert_int_equal(diag.errors, 1);
    assert_int_equal(diag.items[0].line, 7);
    assert_non_null(strstr(diag.items[0].text, "another customer, acme"));
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 1);
    assert_int_equal(done.created, 0);
}

static size_t looked_at(const char *customers)
{
    char text[1000];
    struct wr_roster *roster;

    (void)snprintf(text, sizeof text, "version: 1\ncustomers:\n%s", customers);
    roster = load(text);
    assert_int_equal(wr_roster_check(roster, database, &diag), 0);
    wr_roster_free(roster);
    return diag.errors;
}

/* What a look beforehand says is what comes of it. */
static void looks_before(void **state)
{
    const struct wr_customer initech = make_customer(database, "initech", "free");

    (void)state;
    assert_int_equal(
        wr_customer_add_key(database, initech.id, slice("user"), slice("y"), &somebody, NULL), 0);
    assert_int_equal(apply("- {name: acme, plan: free, keys: [{identity: user, value: x}]}\n"
                           "- {name: globex, plan: free}\n"),
                     0);
    /* A key moves within the file, or from who is not in it any more. */
    assert_int_equal(
        looked_at("- {name: acme, plan: free}\n"
                  "- {name: globex, plan: free, keys: [{identity: user, value: x}]}\n"),
        0);
    assert_int_equal(
        looked_at("- {name: globex, plan: free, keys: [{identity: user, value: x}]}\n"), 0);
    assert_int_equal(
        looked_at("- {name: globex, plan: free}\n"
                  "- {name: initech, plan: free, keys: [{identity: user, value: y}]}\n"),
        0);
    /* One that somebody was given by hand does not. */
    assert_int_equal(
        looked_at("- {name: globex, plan: free, keys: [{identity: user, value: y}]}\n"), 1);
    assert_int_equal(diag.items[0].line, 3);
    assert_string_equal(diag.items[0].text, "this key leads to another customer, initech");
    assert_int_equal(ask(database, "SELECT count(*) FROM customer"), 3);
}

static void no_room(void **state)
{
    struct wr_roster *roster =
        load("version: 1\ncustomers:\n- {name: a, plan: free}\n- {name: b, plan: free}\n");

    (void)state;
    assert_int_equal(wr_roster_apply(roster, database, 1, &somebody, &diag, &done), WEIR_EPOLICY);
    assert_int_equal(diag.items[0].line, 4);
    assert_non_null(strstr(diag.items[0].text, "customers.room"));
    wr_roster_free(roster);
}

/* A digest that stands in the file is the one of the key that callers send. */
static void by_digest(void **state)
{
    unsigned char digest[WR_CUSTOMER_DIGEST_BYTES];
    char text[300], hex[33];

    (void)state;
    wr_key_digest(slice("api_key"), slice("k-secret"), digest);
    for (unsigned i = 0; i < sizeof digest; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    (void)snprintf(
        text, sizeof text,
        "- {name: acme, plan: free, keys: [{identity: api_key, hint: cret, sha256: \"%s\"}]}\n",
        hex);
    assert_int_equal(apply(text), 0);
    assert_string_equal(owner("api_key", "k-secret"), "acme");
    assert_int_equal(ask(database, "SELECT count(*) FROM key WHERE hint = 'cret'"), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_have_lines),
        cmocka_unit_test(quotes_no_key),
        cmocka_unit_test(all_errors_are_told),
        cmocka_unit_test(empty_is_good),
        cmocka_unit_test_setup_teardown(from_files, make_folder, remove_folder),
        TEST(becomes_what_it_says),
        TEST(changes_what_changed),
        TEST(keys_move),
        TEST(who_is_taken_out_ends),
        TEST(most_of_them_end),
        TEST(by_hand_stays),
        TEST(takes_over),
        TEST(all_or_nothing),
        TEST(looks_before),
        TEST(no_room),
        TEST(by_digest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
