/* plans.c - which plans there are, and which one a caller has. */
#include "requests.h"

#define KEYED(plan) "version: 1\nidentity: {api_key: {header: X-Api-Key}, plan: " plan "}\n"

static void test_names_in_order_of_coming(void **state)
{
    struct wr_policy *policy =
        policy_of(KEYED("{default: base, keys: {k1: gold}}") "limits:\n"
                                                             "  - {name: a, by: [ip], rate: {base: "
                                                             "1/s, silver: 2/s, gold: 3/s}}\n"
                                                             "  - {name: b, by: [ip], concurrent: "
                                                             "{base: 1, tin: 2}}\n");
    static const char *const expected[] = {"base", "gold", "silver", "tin"};
    (void)state;

    assert_int_equal(wr_policy_plan_count(policy), 4);
    for (size_t i = 0; i < 4; i++)
        assert_string_equal(wr_policy_plan(policy, i), expected[i]);
    assert_int_equal(wr_policy_default_plan(policy), 0);
    wr_policy_free(policy);
}

static unsigned plan_of(const struct wr_policy *policy, const struct asking *a)
{
    struct wr_selection sel;

    wr_policy_select(policy, &a->request, &sel);
    return sel.plan;
}

/* Given by the host program > by its key > by the header of a trusted peer > default. */
static void test_who_says_it(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity:\n"
                  "  ip: {from: peer, trusted: [10.0.0.0/8]}\n"
                  "  api_key: {header: X-Api-Key}\n"
                  "  plan: {header: X-Plan, default: free, keys: {k_gold: gold, k_free: free}}\n"
                  "limits: [{name: a, by: [ip], rate: {free: 1/s, gold: 2/s, tin: 3/s}}]\n");
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "9.9.9.9");
    assert_int_equal(plan_of(policy, &a), 0);
    put_header(&a, policy, "X-Plan", "tin");
    assert_int_equal(plan_of(policy, &a), 0); /* not a trusted peer */
    a.request.peer = slice("10.0.0.1");
    assert_int_equal(plan_of(policy, &a), 2);
    put_header(&a, policy, "X-Plan", " tin ");
    assert_int_equal(plan_of(policy, &a), 2);
    put_header(&a, policy, "X-Plan", "platinum"); /* no such plan */
    assert_int_equal(plan_of(policy, &a), 0);
    put_header(&a, policy, "X-Plan", "");
    assert_int_equal(plan_of(policy, &a), 0);
    put_header(&a, policy, "X-Plan", "tin");
    put_header(&a, policy, "X-Api-Key", "k_gold");
    assert_int_equal(plan_of(policy, &a), 1);
    put_header(&a, policy, "X-Api-Key", "k_free"); /* known, with the default plan */
    assert_int_equal(plan_of(policy, &a), 0);
    put_header(&a, policy, "X-Api-Key", "k_unknown");
    assert_int_equal(plan_of(policy, &a), 2);
    put_key(&a, policy, "api_key", "k_gold"); /* the host program's wins over the header */
    assert_int_equal(plan_of(policy, &a), 1);
    put_key(&a, policy, "api_key", ""); /* it says there is none */
    assert_int_equal(plan_of(policy, &a), 2);
    a.request.plan = 1;
    assert_int_equal(plan_of(policy, &a), 1);
    a.request.plan = 99; /* no such plan: as if not given */
    assert_int_equal(plan_of(policy, &a), 2);
    wr_policy_free(policy);
}

static void test_a_plan_that_a_limit_does_not_name_has_the_default_rate(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity: {plan: {default: free}}\n"
                  "limits:\n"
                  "  - {name: a, by: [ip], rate: {free: 1/s, gold: 2/s}}\n"
                  "  - {name: b, by: [ip], rate: {free: 5/s, tin: unlimited}}\n"
                  "  - {name: c, by: [ip], rate: {free: 7/s, gold: 7/s}}\n");
    const struct wr_policy_limit *a = wr_policy_limit(policy, 0), *b = wr_policy_limit(policy, 1);
    (void)state;

    assert_int_equal(a->by[0].units, 1); /* free */
    assert_int_equal(a->by[1].units, 2); /* gold */
    assert_int_equal(a->by[2].units, 1); /* tin */
    assert_true(a->by_plan);
    assert_int_equal(b->by[1].units, 5);
    assert_false(b->unlimited[1]);
    assert_true(b->unlimited[2]);
    assert_true(b->by_plan);
    assert_false(wr_policy_limit(policy, 2)->by_plan);
    wr_policy_free(policy);
}

static void test_errors(void **state)
{
    (void)state;
    expect_errors("version: 1\nlimits: [{name: a, rate: {free: 1/s}}]\n",
                  "2:26: error: expected a value for plan \"default\", or one for the default "
                  "plan, \"default\", found neither\n");
    expect_errors(KEYED("{default: base}") "limits: [{name: a, by: [ip], rate: {free: 1/s}}]\n",
                  "3:36: error: expected a value for plan \"base\", or one for the default plan, "
                  "\"base\", found neither\n");
    expect_errors("version: 1\nidentity: {plan: {keys: {k: p}}}\n" LIMITS,
                  "2:19: error: keys: expected an identity api_key to look the keys up by, found "
                  "none in identity\n");
    expect_errors(KEYED("{keys: k_secret}") LIMITS,
                  "2:55: error: keys: expected a map from API keys to plans, found a text\n");
    expect_errors(KEYED("{keys: {\"\": p}}") LIMITS,
                  "2:56: error: keys: expected an API key, found nothing\n");
    expect_errors(KEYED("{default: \"a b\"}") LIMITS,
                  "2:58: error: default: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                  "\"a b\"\n");
    expect_errors(KEYED("{defautl: b}") LIMITS,
                  "2:49: error: unknown key \"defautl\" in identity.plan: did you mean "
                  "\"default\"? (expected header, default or keys)\n");
}

/* Whatever a person gets wrong around keys, the message does not give one away. */
static void test_no_message_quotes_a_key(void **state)
{
    static const char *const texts[] = {
        KEYED("{keys: {k_s3cret: [a]}}") LIMITS,
        KEYED("{keys: {pro: \"k_s3cret+/=\"}}") LIMITS,
        KEYED("{keys: {k_s3cret: pro, k_s3cret: free}}") LIMITS,
        KEYED("{k_s3cret: pro}") LIMITS,
        KEYED("{keys: [k_s3cret]}") LIMITS,
        KEYED("{keys: k_s3cret}") LIMITS,
        KEYED("k_s3cret") LIMITS,
        KEYED("{keys: {pro: k_s3cret}}") LIMITS, /* a warning */
        "version: 1\nidentity: {api_key: k_s3cret}\n" LIMITS,
        "version: 1\nidentity: {api_key: {k_s3cret: true}}\n" LIMITS,
        KEYED("{}") LIMITS "bans: [k_s3cret]\n",
        KEYED("{}") LIMITS "bans: k_s3cret\n",
        KEYED("{}") LIMITS "bans: [{k_s3cret: api_key}]\n",
        KEYED("{}") LIMITS "bans: [{api_key: [k_s3cret]}]\n",
        KEYED("{}") LIMITS "bans: [{api_key: k_s3cret}, {api_key: k_s3cret}]\n", /* a warning */
    };
    (void)state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int result;
        const char *got = messages_of(texts[i], strlen(texts[i]), &result);
        if (strstr(got, "s3cret") != NULL || *got == '\0')
            fail_msg("%s gave %s", texts[i], got);
    }
}

static void test_too_many_plans(void **state)
{
    char text[8192] = "version: 1\nlimits: [{name: a, rate: {default: 1/s";
    size_t at = strlen(text);
    (void)state;

    for (int i = 0; i < 64; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, ", p%d: 1/s", i);
    (void)snprintf(text + at, sizeof text - at, "}}]\n");
    expect_errors(text, "2:661: error: expected at most 64 plans, found more\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_in_order_of_coming),
        cmocka_unit_test(test_who_says_it),
        cmocka_unit_test(test_a_plan_that_a_limit_does_not_name_has_the_default_rate),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_no_message_quotes_a_key),
        cmocka_unit_test(test_too_many_plans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
