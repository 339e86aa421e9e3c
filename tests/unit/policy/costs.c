/* costs.c - what a request takes, and who is not served at all. */
#include "requests.h"

static int64_t cost_of(const struct wr_policy *policy, const char *method, const char *path)
{
    struct wr_selection sel;
    struct asking a;

    ask(&a, policy, method, path, "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    return sel.cost;
}

static void test_the_first_that_matches_counts(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n" LIMITS "costs:\n"
                                         "  - {match: {method: POST, path: /reports}, cost: 10}\n"
                                         "  - {match: {path: [/reports, /big/**]}, cost: 5}\n"
                                         "  - {match: {method: [PUT, BREW]}, cost: 3}\n"
                                         "  - {match: {path: /big/free}, cost: 0}\n"
                                         "  - {match: {path: /free}, cost: 0}\n");
    (void)state;

    assert_int_equal(cost_of(policy, "POST", "/reports"), 10);
    assert_int_equal(cost_of(policy, "GET", "/reports"), 5);
    assert_int_equal(cost_of(policy, "PUT", "/reports"), 5); /* file order, not the method's rule */
    assert_int_equal(cost_of(policy, "PUT", "/x"), 3);
    assert_int_equal(cost_of(policy, "BREW", "/free"), 3);
    assert_int_equal(cost_of(policy, "GET", "/big/free"), 5); /* nor the more specific pattern's */
    assert_int_equal(cost_of(policy, "GET", "/free"), 0);
    assert_int_equal(cost_of(policy, "GET", "/x"), 1);
    assert_int_equal(cost_of(policy, "put", "/x"), 1); /* methods differ by case */
    wr_policy_free(policy);
}

static void test_a_cost_of_the_request_wins(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n" LIMITS "costs: [{cost: 10}]\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    assert_int_equal(cost_of(policy, "GET", "/"), 10);
    ask(&a, policy, "GET", "/", "1.2.3.4");
    a.request.cost_units = 0;
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.cost, 0);
    a.request.cost_units = 7;
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.cost, 7);
    wr_policy_free(policy);
}

static void test_errors_of_costs(void **state)
{
    (void)state;
    expect_errors("version: 1\n" LIMITS "costs: {}\n",
                  "3:8: error: costs: expected a list of {match, cost}, found a map\n");
    expect_errors("version: 1\n" LIMITS
                  "costs: [{match: {path: /a}}, {cost: x}, {cost: 1000000001}, "
                  "{cots: 1}]\n",
                  "3:9: error: expected cost: N beside match, found none\n"
                  "3:37: error: cost: expected a whole number from 0 to 1000000000, found \"x\"\n"
                  "3:48: error: cost: expected a whole number from 0 to 1000000000, found "
                  "\"1000000001\"\n"
                  "3:61: error: expected cost: N beside match, found none\n"
                  "3:62: error: unknown key \"cots\" in a cost: did you mean \"cost\"? (expected "
                  "match or cost)\n");
}

/* ---- bans -------------------------------------------------------------------------------- */

static bool is_banned(const struct wr_policy *policy, const struct asking *a)
{
    struct wr_selection sel;

    wr_policy_select(policy, &a->request, &sel);
    return sel.banned;
}

static void test_bans(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n"
                                         "identity:\n"
                                         "  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}\n"
                                         "  api_key: {header: X-Api-Key}\n"
                                         "  user: {header: X-User}\n" LIMITS "bans:\n"
                                         "  - {ip: 192.0.2.0/24, reason: scraping}\n"
                                         "  - {ip: \"2001:db8::bad\"}\n"
                                         "  - {api_key: k_stolen}\n"
                                         "  - {user: mallory, reason: \"see ticket 7\"}\n");
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "9.9.9.9");
    assert_false(is_banned(policy, &a));
    a.request.peer = slice("192.0.2.77");
    assert_true(is_banned(policy, &a));
    a.request.peer = slice("::ffff:192.0.2.77");
    assert_true(is_banned(policy, &a));
    a.request.peer = slice("2001:db8::BAD");
    assert_true(is_banned(policy, &a)); /* the address itself, not its /64 */
    a.request.peer = slice("2001:db8::bae");
    assert_false(is_banned(policy, &a));

    a.request.peer = slice("10.0.0.1"); /* the client counts, not the proxy */
    put_header(&a, policy, "X-Forwarded-For", "192.0.2.5");
    assert_true(is_banned(policy, &a));
    put_header(&a, policy, "X-Forwarded-For", "192.0.3.5");
    assert_false(is_banned(policy, &a));

    put_header(&a, policy, "X-Api-Key", "k_stole");
    assert_false(is_banned(policy, &a));
    put_header(&a, policy, "X-Api-Key", "k_stolen");
    assert_true(is_banned(policy, &a));
    put_header(&a, policy, "X-Api-Key", "mallory"); /* another identity's value */
    assert_false(is_banned(policy, &a));

    put_header(&a, policy, "X-User", "mallory");
    assert_true(is_banned(policy, &a));
    a.request.peer = slice("9.9.9.9"); /* said by nobody we trust */
    assert_false(is_banned(policy, &a));
    put_key(&a, policy, "user", "mallory");
    assert_true(is_banned(policy, &a));
    a.request.peer = slice("a.host.name");
    assert_true(is_banned(policy, &a));
    wr_policy_free(policy);
}

static void test_errors_of_bans(void **state)
{
    (void)state;
    expect_errors("version: 1\n" LIMITS "bans: {}\n",
                  "3:7: error: bans: expected a list of {ip: ...} and {api_key: ...}, found a "
                  "map\n");
    expect_errors(
        "version: 1\n" LIMITS
        "bans: [1.2.3.4, {}, {ip: x}, {reason: r}, {user: u}, {ip: 1.2.3.4, ip6: \"::\"}]\n",
        "3:8: error: bans: expected a map such as {ip: 192.0.2.0/24}, found a text\n"
        "3:17: error: bans: expected ip or a name from identity, found neither\n"
        "3:26: error: ip: expected an address or a network such as 10.0.0.0/8 or "
        "2001:db8::/32, found \"x\"\n"
        "3:30: error: bans: expected ip or a name from identity, found neither\n"
        "3:44: error: unknown key in a ban: expected ip, reason, or a name from "
        "identity\n"
        "3:68: error: bans: expected one caller a ban, found a second: bans do not "
        "combine, write two\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_that_matches_counts),
        cmocka_unit_test(test_a_cost_of_the_request_wins),
        cmocka_unit_test(test_errors_of_costs),
        cmocka_unit_test(test_bans),
        cmocka_unit_test(test_errors_of_bans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
