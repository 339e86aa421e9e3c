/* Why a request meets the limits that it meets. */
#include "policy/explain.h"

#include "requests.h"

static const char text[] =
    "version: 1\n"
    "identity:\n"
    "  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}\n"
    "  api_key: {header: X-Api-Key}\n"
    "  user: {header: X-User-Id}\n"
    "  plan: {header: X-Plan, default: free, keys: {key-of-pro: pro}}\n"
    "costs:\n"
    "  - {match: {path: /never}, cost: 3}\n"
    "  - {match: {method: POST, path: /r/**}, cost: 10}\n"
    "limits:\n"
    "  - {name: all, rate: 5/s}\n"
    "  - {name: paths, match: {path: [/r/**, \"/r/{id}\", /other]}, rate: 5/s}\n"
    "  - {name: get, match: {method: GET}, rate: 5/s}\n"
    "  - {name: free-only, by: [api_key], rate: {free: 5/s, pro: unlimited}}\n"
    "  - {name: skips, by: [user], when_missing: skip, rate: 5/s}\n"
    "  - {name: denies, by: [ip, user], when_missing: deny, rate: 5/s}\n";

enum { ALL, PATHS, GET, FREE_ONLY, SKIPS, DENIES, LIMITS_HERE };

static struct wr_policy *policy;
static struct asking asked;
static struct wr_selection selection;
static struct wr_match_reason reasons[64];

static void explain(void)
{
    wr_policy_select(policy, &asked.request, &selection);
    wr_policy_explain(policy, &asked.request, &selection, reasons);
}

static void expect(unsigned limit, enum wr_match_why why, const char *pattern, const char *missing)
{
    assert_int_equal(reasons[limit].why, why);
    if (pattern != NULL)
        assert_string_equal(reasons[limit].pattern, pattern);
    else
        assert_null(reasons[limit].pattern);
    if (missing != NULL)
        assert_string_equal(reasons[limit].missing, missing);
    else
        assert_null(reasons[limit].missing);
}

static void every_reason(void **state)
{
    (void)state;
    ask(&asked, policy, "POST", "/r/7", "192.0.2.1");
    explain();
    expect(ALL, WR_MATCHES, NULL, NULL);
    expect(PATHS, WR_MATCHES, "/r/{id}", NULL); /* the most specific one */
    expect(GET, WR_OTHER_METHOD, NULL, NULL);
    expect(FREE_ONLY, WR_MATCHES, NULL, "api_key"); /* the address stands in */
    expect(SKIPS, WR_KEY_SKIPPED, NULL, "user");
    expect(DENIES, WR_MATCHES, NULL, "user");
    assert_string_equal(show(policy, &selection, false), "all paths free-only denies!");

    ask(&asked, policy, "GET", "/x", "192.0.2.1");
    put_header(&asked, policy, "X-Api-Key", "key-of-pro");
    put_key(&asked, policy, "user", "u");
    explain();
    expect(PATHS, WR_OTHER_PATH, NULL, NULL);
    expect(GET, WR_MATCHES, NULL, NULL);
    expect(FREE_ONLY, WR_NO_LIMIT, NULL, NULL);
    expect(SKIPS, WR_MATCHES, NULL, NULL);
    expect(DENIES, WR_MATCHES, NULL, NULL);
}

static void a_path_is_told_before_a_method(void **state)
{
    struct wr_policy *other =
        policy_of("version: 1\nlimits:\n"
                  "  - {name: a, match: {method: GET, path: [/a/**, /a/b]}, rate: 5/s}\n"
                  "  - {name: b, match: {method: GET, path: /b}, rate: 5/s}\n");

    (void)state;
    ask(&asked, other, "POST", "/a/b", "192.0.2.1");
    wr_policy_select(other, &asked.request, &selection);
    wr_policy_explain(other, &asked.request, &selection, reasons);
    expect(0, WR_OTHER_METHOD, "/a/b", NULL);
    expect(1, WR_OTHER_PATH, NULL, NULL);
    wr_policy_free(other);
}

static void more_than_can_be_met(void **state)
{
    char many[4096] = "version: 1\nlimits:\n";
    struct wr_policy *other;

    (void)state;
    for (unsigned i = 0; i < 9; i++) /* paths that no one request of weir check meets at once */
        (void)snprintf(many + strlen(many), sizeof many - strlen(many),
                       "  - {name: a%u, match: {path: /**/a}, rate: 5/s}\n"
                       "  - {name: b%u, match: {path: /x/**}, rate: 5/s}\n",
                       i, i);
    other = policy_of(many);
    ask(&asked, other, "GET", "/x/y/a", "192.0.2.1");
    wr_policy_select(other, &asked.request, &selection);
    wr_policy_explain(other, &asked.request, &selection, reasons);
    assert_true(selection.over_max);
    for (unsigned i = 0; i < 18; i++)
        assert_int_equal(reasons[i].why, i < WEIR_LIMITS_MAX ? WR_MATCHES : WR_BEYOND_MAX);
    wr_policy_free(other);
}

static void who_said_the_plan(void **state)
{
    (void)state;
    ask(&asked, policy, "GET", "/", "192.0.2.1");
    explain();
    assert_int_equal(selection.plan_from, WR_PLAN_DEFAULT);
    put_header(&asked, policy, "X-Plan", "pro");
    explain(); /* the peer is not trusted */
    assert_int_equal(selection.plan_from, WR_PLAN_DEFAULT);
    asked.request.peer = slice("10.0.0.1");
    explain();
    assert_int_equal(selection.plan_from, WR_PLAN_HEADER);
    put_header(&asked, policy, "X-Api-Key", "key-of-pro");
    explain();
    assert_int_equal(selection.plan_from, WR_PLAN_KEY);
    asked.request.plan = 0;
    explain();
    assert_int_equal(selection.plan_from, WR_PLAN_GIVEN);
}

static void which_rule_is_the_cost(void **state)
{
    (void)state;
    ask(&asked, policy, "POST", "/r/1", "192.0.2.1");
    explain();
    assert_int_equal(selection.cost_rule, 1);
    assert_int_equal(selection.cost, 10);
    ask(&asked, policy, "GET", "/r/1", "192.0.2.1");
    explain();
    assert_int_equal(selection.cost_rule, -1);
    assert_int_equal(selection.cost, 1);
}

static void expect_identity(size_t identity, enum wr_value_from from, const char *value)
{
    struct weir_slice got;

    assert_int_equal(wr_policy_identity_value(policy, identity, &asked.request, &got), from);
    assert_int_equal(got.len, strlen(value));
    assert_memory_equal(got.len > 0 ? got.ptr : "", value, got.len);
}

static void whose_value_it_is(void **state)
{
    (void)state;
    assert_int_equal(wr_policy_identity_count(policy), 2);
    assert_string_equal(wr_policy_identity(policy, 0), "api_key");
    assert_string_equal(wr_policy_identity(policy, 1), "user");
    assert_null(wr_policy_identity(policy, 2));
    ask(&asked, policy, "GET", "/", "192.0.2.1");
    expect_identity(0, WR_VALUE_MISSING, "");
    put_header(&asked, policy, "X-Api-Key", " k ");
    put_header(&asked, policy, "X-User-Id", "u");
    expect_identity(0, WR_VALUE_HEADER, "k");
    expect_identity(1, WR_VALUE_NOT_BELIEVED, "u");
    asked.request.peer = slice("10.1.2.3");
    expect_identity(1, WR_VALUE_HEADER, "u");
    put_key(&asked, policy, "user", "v");
    expect_identity(1, WR_VALUE_GIVEN, "v");
    put_key(&asked, policy, "user", "");
    expect_identity(1, WR_VALUE_MISSING, ""); /* given, and empty: it wins over the header */
}

static int set_up(void **state)
{
    (void)state;
    policy = policy_of(text);
    assert_int_equal(wr_policy_limit_count(policy), LIMITS_HERE);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wr_policy_free(policy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_reason),           cmocka_unit_test(a_path_is_told_before_a_method),
        cmocka_unit_test(more_than_can_be_met),   cmocka_unit_test(who_said_the_plan),
        cmocka_unit_test(which_rule_is_the_cost), cmocka_unit_test(whose_value_it_is)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
