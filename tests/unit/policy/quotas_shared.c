/* quotas_shared.c - quotas of customers that are counted at a store. */
#include "requests.h"

#include "policy/quota.h"

#define CUSTOMERS                                \
    "version: 1\n"                               \
    "identity: {api_key: {header: X-Api-Key}}\n" \
    "customers: {directory: /var/lib/weir, by: [api_key]}\n"
#define FLOOR "  - {name: floor, by: [ip], rate: 600/minute}\n"
#define SHARED                                                        \
    CUSTOMERS "store: {redis: {url: \"redis://127.0.0.1:6379/0\"}}\n" \
              "limits:\n" FLOOR

static void expect_some_error(const char *text, const char *expected)
{
    int result;
    const char *got = messages_of(text, strlen(text), &result);

    if (result != WEIR_EPOLICY || strstr(got, expected) == NULL)
        fail_msg("%s\n--- gave %d:\n%s--- without\n%s", text, result, got, expected);
}

#define SHARED_QUOTA(more, quota) \
    SHARED "  - {name: q, by: [customer], shared: true" more ", quota: {per: day, " quota "}}\n"

/* A store decides by all that is admitted, as far as it can count; callers are told of the limit.
 */
static void test_what_a_store_decides_a_shared_quota_by(void **state)
{
    static const struct {
        const char *text;
        int64_t limit, at_store;
    } cases[] = {
        {SHARED_QUOTA("", "limit: 5"), 5, 5},
        {SHARED_QUOTA("", "limit: 50, grace: 20%"), 50, 60},
        {SHARED_QUOTA("", "limit: 5, on_exceed: overage, ceiling: 7"), 5, 7},
        {SHARED_QUOTA("", "limit: 5, on_exceed: overage"), 5, WR_CIVIL_UNITS_MAX},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wr_policy *policy = policy_of(cases[i].text);
        const struct wr_policy_limit *limit = wr_policy_limit(policy, 1);
        assert_int_equal(limit->by[0].units, cases[i].limit);
        assert_int_equal(wr_policy_at_store(limit, 0)->units, cases[i].at_store);
        assert_true(wr_limit_valid(wr_policy_at_store(limit, 0)));
        assert_int_equal(wr_policy_at_store(wr_policy_limit(policy, 0), 0)->units, 600);
        wr_policy_free(policy);
    }
    expect_some_error(SHARED "  - {name: q, by: [customer], shared: true, quota: {limit: 5, per: "
                             "month, anchor: customer}}\n",
                      "a shared quota has the same windows for all");
}

static void expect_strict(const char *text, bool leased, const char *warning)
{
    int result;
    const char *got = messages_of(text, strlen(text), &result);
    struct wr_policy *policy;

    if (result != 0 || (warning == NULL) != (strstr(got, "never as overage") == NULL &&
                                             strstr(got, "cannot be leased") == NULL))
        fail_msg("%s\n--- gave %d:\n%s", text, result, got);
    if (warning != NULL && strstr(got, warning) == NULL)
        fail_msg("%s\n--- gave:\n%s--- without\n%s", text, got, warning);
    policy = policy_of(text);
    assert_int_equal(wr_policy_limit(policy, 1)->leased, leased);
    wr_policy_free(policy);
}

/* What is billed or sold beyond the limit is never leased, and known of what the store decided. */
static void test_what_a_shared_quota_warns_of(void **state)
{
    (void)state;
    expect_strict(SHARED_QUOTA(", store_mode: leased", "limit: 5000, grace: 5%"), true, NULL);
    expect_strict(SHARED_QUOTA(", store_mode: leased, when_store_gone: closed",
                               "limit: 5000, on_exceed: overage"),
                  false, "on_exceed: overage cannot be leased, as units that lie unspent would");
    expect_strict(SHARED_QUOTA(", when_store_gone: closed", "limit: 5000, on_exceed: overage"),
                  false, NULL);
    expect_strict(SHARED_QUOTA("", "limit: 5000, on_exceed: overage"), false,
                  "while the store is gone is counted, but never as overage");
}

/* 5000 and 5 % are 5250, and a 64th of that is 82. */
static void test_what_a_killed_process_may_strand_is_said(void **state)
{
    int result;
    const char *text = SHARED_QUOTA(", store_mode: leased", "limit: 5000, grace: 5%");
    const char *got = messages_of(text, strlen(text), &result);
    (void)state;

    assert_int_equal(result, 0);
    if (strstr(got, "leased, up to 82 of 5250 units of each customer are lost until the window "
                    "ends, for each thread of a process that is killed") == NULL)
        fail_msg("%s", got);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_store_decides_a_shared_quota_by),
        cmocka_unit_test(test_what_a_shared_quota_warns_of),
        cmocka_unit_test(test_what_a_killed_process_may_strand_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
