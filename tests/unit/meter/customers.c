/* customers.c - customers and their keys: made, changed, ended; and that each change has its line
 * in the audit log. */
#include "fixture.h"

/* Lines of the audit log since the last call, as "what:before>after;". */
static struct lines {
    int64_t last;
    char text[2000];
} lines;

static bool collect(void *context, const struct wr_audit *audit)
{
    size_t len = strlen(lines.text);

    (void)context;
    assert_string_equal(audit->who, "test:somebody");
    assert_string_equal(audit->reason, "because");
    assert_true(audit->at_ns == NOW);
    assert_true(audit->id > lines.last);
    lines.last = audit->id;
    (void)snprintf(lines.text + len, sizeof lines.text - len, "%s:%s>%s;", audit->what,
                   audit->before, audit->after);
    return true;
}

static const char *audit(struct wr_database *database)
{
    lines.text[0] = '\0';
    assert_int_equal(wr_audit_each(database, 0, lines.last, collect, NULL), 0);
    return lines.text;
}

static int set_up(void **state)
{
    memset(&lines, 0, sizeof lines);
    (void)make_folder(state);
    *state = open_database();
    return 0;
}

static int tear_down(void **state)
{
    wr_database_close(*state);
    return remove_folder(state);
}

static void creates(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer customer = make_customer(database, "acme", "free");

    assert_int_equal(customer.number, 0);
    assert_true(customer.id == wr_customer_id("acme") && customer.id > 0);
    assert_string_equal(customer.plan, "free");
    assert_string_equal(customer.tenant, "");
    assert_int_equal(customer.anchor, 0);
    assert_false(customer.partner || customer.suspended || customer.ended || customer.from_file);
    assert_string_equal(audit(database), "create:>free;");
    assert_int_equal(make_customer(database, "globex", "free").number, 1);
}

static void is_there_already(void **state)
{
    const struct wr_customer_new made = {.name = "acme", .plan = "free", .room = ROOM};

    (void)make_customer(*state, "acme", "free");
    (void)audit(*state);
    assert_int_equal(wr_customer_create(*state, &made, &somebody, NULL), WEIR_EAGAIN);
    assert_non_null(strstr(wr_database_fault(*state)->text, "acme"));
    assert_string_equal(audit(*state), "");
}

static void no_room(void **state)
{
    struct wr_customer_new made = {.name = "acme", .plan = "free", .room = 1};

    assert_int_equal(wr_customer_create(*state, &made, &somebody, NULL), 0);
    made.name = "globex";
    assert_int_equal(wr_customer_create(*state, &made, &somebody, NULL), WEIR_EFULL);
    assert_non_null(strstr(wr_database_fault(*state)->text, "customers.room"));
}

static void refuses_what_cannot_be(void **state)
{
    char longer[WR_CUSTOMER_NAME_MAX + 2];
    const struct wr_customer_new bad[] = {
        {.name = "", .plan = "free", .room = ROOM},
        {.name = " acme", .plan = "free", .room = ROOM},
        {.name = "ac\nme", .plan = "free", .room = ROOM},
        {.name = "ac\xffme", .plan = "free", .room = ROOM},
        {.name = "ac\xc2\x85me", .plan = "free", .room = ROOM}, /* a control of C1 */
        {.name = "ac\u2028me", .plan = "free", .room = ROOM},   /* an end of line */
        {.name = "ac\u202eme", .plan = "free", .room = ROOM},   /* turns what follows */
        {.name = "\u2066acme", .plan = "free", .room = ROOM},
        {.name = "acme", .plan = "free", .tenant = "a\u200f", .room = ROOM},
        {.name = longer, .plan = "free", .room = ROOM},
        {.name = "acme", .plan = "", .room = ROOM},
        {.name = "acme", .plan = "no plan", .room = ROOM},
        {.name = "acme", .plan = NULL, .room = ROOM},
        {.name = NULL, .plan = "free", .room = ROOM},
        {.name = "acme", .plan = "free", .anchor = 32, .room = ROOM},
        {.name = "acme", .plan = "free", .tenant = "", .room = ROOM},
        {.name = "acme", .plan = "free", .trial_plan = "pro", .room = ROOM},
    };
    const struct wr_customer_new good = {.name = "acme", .plan = "free", .room = ROOM};
    const struct wr_author nobody = {"", "", NOW};

    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(wr_customer_create(*state, &bad[i], &somebody, NULL), WEIR_EINVAL);
    assert_int_equal(wr_customer_create(*state, &good, &nobody, NULL), WEIR_EINVAL);
    assert_int_equal(ask(*state, "SELECT count(*) FROM customer"), 0);
    assert_int_equal(ask(*state, "SELECT count(*) FROM audit"), 0);
}

static void changes(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer customer = make_customer(database, "acme", "free");
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;

    (void)audit(database);
    change.plan = "pro";
    change.tenant = "group";
    change.anchor = 31;
    change.suspended = 1;
    change.partner = 1;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, &customer), 0);
    assert_string_equal(customer.plan, "pro");
    assert_string_equal(customer.tenant, "group");
    assert_int_equal(customer.anchor, 31);
    assert_true(customer.suspended && customer.partner);
    assert_string_equal(audit(database),
                        "plan:free>pro;tenant:>group;anchor:>31;partner:no>yes;suspend:no>yes;");
    change = WR_CUSTOMER_UNCHANGED;
    change.anchor = 0;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, &customer), 0);
    assert_int_equal(customer.anchor, 0);
    assert_string_equal(audit(database), "anchor:31>;");
    change.anchor = 31;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, &customer), 0);
    (void)audit(database);
    /* The same again is nothing. */
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, NULL), 0);
    assert_string_equal(audit(database), "");
    change = WR_CUSTOMER_UNCHANGED;
    change.tenant = "";
    change.suspended = 0;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, &customer), 0);
    assert_string_equal(customer.tenant, "");
    assert_string_equal(audit(database), "tenant:group>;suspend:yes>no;");
    assert_int_equal(wr_customer_change(database, 12345, &change, &somebody, NULL), WEIR_ENOENT);
    change.anchor = 32;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, NULL),
                     WEIR_EINVAL);
}

static void trials_end(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer customer = make_customer(database, "acme", "free");
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_author author = somebody;

    change.trial_plan = "pro";
    change.trial_until_ns = NOW + 100;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &author, &customer), 0);
    assert_string_equal(wr_customer_plan_at(&customer, NOW + 99), "pro");
    assert_string_equal(wr_customer_plan_at(&customer, NOW + 100), "free");
    assert_int_equal(wr_customers_end_trials(database, &author), 0); /* it is NOW */
    assert_int_equal(wr_customer_get(database, customer.id, &customer), 0);
    assert_string_equal(customer.trial_plan, "pro");
    author.now_ns = NOW + 100;
    assert_int_equal(wr_customers_end_trials(database, &author), 1);
    assert_int_equal(wr_customers_end_trials(database, &author), 0);
    assert_int_equal(wr_customer_get(database, customer.id, &customer), 0);
    assert_string_equal(customer.trial_plan, "");
    assert_int_equal(ask(database, "SELECT count(*) FROM audit WHERE what = 'trial'"), 2);
}

static void upgrades_once(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer customer = make_customer(database, "acme", "free");

    (void)audit(database);
    assert_int_equal(wr_customer_upgrade(database, customer.id, "free", "pro", &somebody), 0);
    assert_int_equal(wr_customer_upgrade(database, customer.id, "free", "pro", &somebody),
                     WEIR_EAGAIN);
    assert_string_equal(audit(database), "plan:free>pro;");
}

/* Nobody is on a paid plan for good because he tried another one. */
static void a_trial_is_upgraded_as_a_trial(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer customer = make_customer(database, "acme", "free");
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;

    change.trial_plan = "starter";
    change.trial_until_ns = NOW + WR_NS_PER_DAY;
    assert_int_equal(wr_customer_change(database, customer.id, &change, &somebody, NULL), 0);
    (void)audit(database);
    assert_int_equal(wr_customer_upgrade(database, customer.id, "starter", "pro", &somebody), 0);
    assert_string_equal(audit(database),
                        "trial:starter until 2023-11-15T22:13:20Z>pro until 2023-11-15T22:13:20Z;");
    assert_int_equal(wr_customer_get(database, customer.id, &customer), 0);
    assert_string_equal(customer.plan, "free");
    assert_string_equal(wr_customer_plan_at(&customer, NOW), "pro");
    assert_string_equal(wr_customer_plan_at(&customer, NOW + WR_NS_PER_DAY), "free");
    /* To the plan that is his own: the trial is over. */
    assert_int_equal(wr_customer_upgrade(database, customer.id, "pro", "free", &somebody), 0);
    assert_string_equal(audit(database), "trial:pro until 2023-11-15T22:13:20Z>;");
}

static void keys_lead_to_customers(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer acme = make_customer(database, "acme", "free");
    struct wr_customer globex = make_customer(database, "globex", "free");
    struct wr_customer_key key;
    struct wr_customer found;
    char expected[200];

    (void)audit(database);
    assert_int_equal(wr_customer_add_key(database, acme.id, slice("api_key"),
                                         slice("k-0123456789abcdef-tail"), &somebody, &key),
                     0);
    assert_string_equal(key.hint, "tail");
    (void)snprintf(expected, sizeof expected,
                   "key add:>api_key %02x%02x%02x%02x%02x%02x%02x%02x ...tail;", key.digest[0],
                   key.digest[1], key.digest[2], key.digest[3], key.digest[4], key.digest[5],
                   key.digest[6], key.digest[7]);
    assert_string_equal(audit(database), expected);
    assert_int_equal(wr_customer_of_key(database, key.digest, &found), 0);
    assert_true(found.id == acme.id);
    /* One key, one customer. */
    assert_int_equal(wr_customer_add_digest(database, &key, &somebody), WEIR_EAGAIN);
    key.customer = globex.id;
    assert_int_equal(wr_customer_add_digest(database, &key, &somebody), WEIR_EAGAIN);
    assert_null(strstr(wr_database_fault(database)->text, "acme")); /* whose it is, is not told */
    assert_int_equal(wr_customer_revoke_key(database, key.digest, &somebody), 0);
    assert_int_equal(wr_customer_revoke_key(database, key.digest, &somebody), WEIR_ENOENT);
    assert_int_equal(wr_customer_of_key(database, key.digest, &found), WEIR_ENOENT);
    /* A key that was revoked may be given to another. */
    assert_int_equal(wr_customer_add_digest(database, &key, &somebody), 0);
    assert_int_equal(wr_customer_of_key(database, key.digest, &found), 0);
    assert_true(found.id == globex.id);
}

/* Nothing of a key is in the file but its digest and hint. */
static void keys_are_not_kept(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer acme = make_customer(database, "acme", "free");
    char command[512];

    assert_int_equal(wr_customer_add_key(database, acme.id, slice("api_key"),
                                         slice("k-0123456789abcdef-tail"), &somebody, NULL),
                     0);
    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("secretuser"), &somebody, NULL),
        0);
    (void)snprintf(command, sizeof command,
                   "! grep -aqE '0123456789abcdef-tail|secretuser|user ...user' '%s'*", test_path);
    assert_int_equal(system(command), 0);
}

static void finds_keys_by_id(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer acme = make_customer(database, "acme", "free");
    struct wr_customer_key one, two, found;
    char id[WR_KEY_ID_TEXT];

    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("a"), &somebody, &one), 0);
    two = one;
    two.digest[15] ^= 1; /* the same id */
    wr_key_id(one.digest, id);
    assert_int_equal(strlen(id), 16);
    assert_int_equal(wr_customer_find_key(database, acme.id, id, &found), 0);
    assert_memory_equal(found.digest, one.digest, sizeof one.digest);
    id[4] = '\0';
    assert_int_equal(wr_customer_find_key(database, acme.id, id, &found), 0);
    id[3] = '\0';
    assert_int_equal(wr_customer_find_key(database, acme.id, id, &found), WEIR_EINVAL);
    assert_int_equal(wr_customer_find_key(database, acme.id, "zzzz", &found), WEIR_ENOENT);
    assert_int_equal(wr_customer_add_digest(database, &two, &somebody), 0);
    wr_key_id(one.digest, id);
    assert_int_equal(wr_customer_find_key(database, acme.id, id, &found), WEIR_EINVAL);
}

static void generated_keys_differ(void **state)
{
    char one[WR_KEY_TEXT_MAX], two[WR_KEY_TEXT_MAX];

    (void)state;
    assert_int_equal(wr_key_make("weir_", one), 0);
    assert_int_equal(wr_key_make("weir_", two), 0);
    assert_int_equal(strlen(one), 5 + 43); /* 62^43 > 2^256 > 62^42 */
    assert_string_not_equal(one, two);
    assert_int_equal(strncmp(one, "weir_", 5), 0);
    assert_int_equal(
        strspn(one + 5, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"), 43);
    assert_int_equal(wr_key_make("no blanks", one), WEIR_EINVAL);
    assert_int_equal(wr_key_make("", one), 0);
    assert_int_equal(strlen(one), 43);
}

static void ends_and_resumes(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer acme = make_customer(database, "acme", "free");
    struct wr_customer_key key;

    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("a"), &somebody, &key), 0);
    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("b"), &somebody, NULL), 0);
    (void)audit(database);
    assert_int_equal(wr_customer_end(database, acme.id, &somebody), 0);
    assert_int_equal(wr_customer_end(database, acme.id, &somebody), 0);
    assert_non_null(strstr(audit(database), ";end:>;"));
    assert_int_equal(ask(database, "SELECT count(*) FROM key WHERE revoked IS NULL"), 0);
    assert_int_equal(wr_customer_add_digest(database, &key, &somebody), WEIR_EINVAL);
    assert_int_equal(wr_customer_resume(database, acme.id, &somebody), 0);
    assert_string_equal(audit(database), "resume:>;");
    assert_int_equal(wr_customer_add_digest(database, &key, &somebody), 0);
    /* The number is still his, and nobody else's. */
    assert_int_equal(wr_customer_find(database, "acme", &acme), 0);
    assert_int_equal(acme.number, 0);
    assert_int_equal(make_customer(database, "globex", "free").number, 1);
}

static void part_of_a_transaction(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer acme;

    assert_int_equal(wr_database_begin(database), 0);
    acme = make_customer(database, "acme", "free");
    assert_int_equal(
        wr_customer_add_key(database, acme.id, slice("user"), slice("a"), &somebody, NULL), 0);
    wr_database_rollback(database);
    assert_int_equal(ask(database,
                         "SELECT (SELECT count(*) FROM customer) + (SELECT count(*) FROM key)"
                         " + (SELECT count(*) FROM audit)"),
                     0);
}

static bool count_names(void *context, const struct wr_customer *customer)
{
    char *out = context;

    (void)snprintf(out + strlen(out), 100 - strlen(out), "%s ", customer->name);
    return true;
}

static void lists(void **state)
{
    struct wr_database *database = *state;
    struct wr_customer_filter filter = {.after = "a"};
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    char names[100] = "";
    int64_t customers, keys;

    (void)make_customer(database, "c", "free");
    (void)make_customer(database, "a", "free");
    (void)make_customer(database, "b", "pro");
    (void)make_customer(database, "d", "free");
    change.tenant = "group";
    assert_int_equal(wr_customer_change(database, wr_customer_id("c"), &change, &somebody, NULL),
                     0);
    assert_int_equal(wr_customer_end(database, wr_customer_id("d"), &somebody), 0);
    assert_int_equal(wr_customers_each(database, &filter, count_names, names), 0);
    assert_string_equal(names, "b c ");
    filter = (struct wr_customer_filter){.with_ended = true, .most = 3};
    names[0] = '\0';
    assert_int_equal(wr_customers_each(database, &filter, count_names, names), 0);
    assert_string_equal(names, "a b c ");
    filter = (struct wr_customer_filter){.tenant = "group"};
    names[0] = '\0';
    assert_int_equal(wr_customers_each(database, &filter, count_names, names), 0);
    assert_string_equal(names, "c ");
    filter = (struct wr_customer_filter){.plan = "pro"};
    names[0] = '\0';
    assert_int_equal(wr_customers_each(database, &filter, count_names, names), 0);
    assert_string_equal(names, "b ");
    assert_int_equal(wr_customers_count(database, &customers, &keys), 0);
    assert_int_equal(customers, 3);
    assert_int_equal(keys, 0);
}

static bool collect_plan(void *context, const char *plan, int64_t customers)
{
    char *out = context;

    (void)snprintf(out + strlen(out), 100 - strlen(out), "%s %d;", plan, (int)customers);
    return true;
}

static void plans_of_customers(void **state)
{
    struct wr_customer_change change = WR_CUSTOMER_UNCHANGED;
    struct wr_customer gone;
    char plans[100] = "";

    (void)make_customer(*state, "a", "pro");
    (void)make_customer(*state, "b", "free");
    (void)make_customer(*state, "c", "free");
    gone = make_customer(*state, "d", "gold");
    assert_int_equal(wr_customer_end(*state, gone.id, &somebody), 0);
    change.trial_plan = "pro";
    change.trial_until_ns = NOW + 1;
    assert_int_equal(wr_customer_change(*state, wr_customer_id("b"), &change, &somebody, NULL), 0);
    assert_int_equal(wr_customers_plans(*state, collect_plan, plans), 0);
    assert_string_equal(plans, "free 2;pro 2;");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(creates),
        TEST(is_there_already),
        TEST(no_room),
        TEST(refuses_what_cannot_be),
        TEST(changes),
        TEST(trials_end),
        TEST(upgrades_once),
        TEST(a_trial_is_upgraded_as_a_trial),
        TEST(keys_lead_to_customers),
        TEST(keys_are_not_kept),
        TEST(finds_keys_by_id),
        TEST(generated_keys_differ),
        TEST(ends_and_resumes),
        TEST(part_of_a_transaction),
        TEST(lists),
        TEST(plans_of_customers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
