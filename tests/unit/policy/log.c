/* log.c - the section log. */
#include "requests.h"

static unsigned per_second(const char *section)
{
    char text[512];
    struct wr_policy *policy;
    unsigned lines;

    (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "%s", section);
    policy = policy_of(text);
    lines = wr_policy_settings(policy)->log_refused_per_second;
    wr_policy_free(policy);
    return lines;
}

static void expect_error(const char *section, const char *expected)
{
    char text[512], full[512];

    (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "log: %s\n", section);
    (void)snprintf(full, sizeof full, "3:%s\n", expected);
    expect_errors(text, full);
}

static void test_values(void **state)
{
    (void)state;
    assert_int_equal(per_second(""), 10);
    assert_int_equal(per_second("log: {}\n"), 10);
    assert_int_equal(per_second("log: {refused: {}}\n"), 10);
    assert_int_equal(per_second("log: {refused: {per_second: 0}}\n"), 0);
    assert_int_equal(per_second("log: {refused: {per_second: 1000}}\n"), 1000);
}

static void test_errors(void **state)
{
    (void)state;
    expect_error("{refused: {per_second: 1001}}",
                 "29: error: per_second: expected a whole number from 0 to 1000, found \"1001\"");
    expect_error("{refused: {per_second: -1}}",
                 "29: error: per_second: expected a whole number from 0 to 1000, found \"-1\"");
    expect_error("{refused: {per_secnd: 1}}", "17: error: unknown key \"per_secnd\" in refused: "
                                              "did you mean \"per_second\"? (expected per_second)");
    expect_error("{refused: 10}",
                 "16: error: refused: expected a map with per_second, found \"10\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
