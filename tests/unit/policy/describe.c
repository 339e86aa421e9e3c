/* describe.c - a policy in words. */
#include "requests.h"

static struct wr_policy *policy;

static const char *keys(size_t index)
{
    static char out[128];

    wr_policy_describe_keys(policy, index, out, sizeof out);
    return out;
}

static const char *rate(size_t index, size_t plan)
{
    static char out[128];

    wr_policy_describe_rate(policy, index, plan, out, sizeof out);
    return out;
}

static void test_words(void **state)
{
    char small[6];
    (void)state;

    policy = policy_of("version: 1\n"
                       "arena: {size: 1MiB}\n"
                       "identity: {user: {given: true}, plan: {default: f}}\n"
                       "limits:\n"
                       "  - {name: a, by: [ip, user, route], rate: {f: 5/s, p: unlimited}}\n"
                       "  - {name: b, rate: 10/15m burst 3}\n"
                       "  - {name: c, by: user, when_missing: skip, rate: 10/d queue 3}\n"
                       "  - {name: d, by: [method], concurrent: 4, hold: 1500ms}\n"
                       "  - {name: e, by: [ip], concurrent: 4, ipv6_prefix: 48}\n"
                       "  - {name: g, by: user, when_missing: deny, rate: 7/m burst 7}\n");
    assert_string_equal(keys(0), "ip, user (or ip), route");
    assert_string_equal(rate(0, 0), "5 per second");
    assert_string_equal(rate(0, 1), "unlimited");
    assert_string_equal(keys(1), "all together");
    assert_string_equal(rate(1, 0), "10 per 15m, burst 3");
    assert_string_equal(keys(2), "user (or skipped)");
    assert_string_equal(rate(2, 1), "10 per day, queue 3");
    assert_string_equal(keys(3), "method");
    assert_string_equal(rate(3, 0), "4 at once, held 1500ms at most");
    assert_string_equal(keys(4), "ip/48");
    assert_string_equal(rate(4, 0), "4 at once, held 30s at most");
    assert_string_equal(keys(5), "user (or denied)");
    assert_string_equal(rate(5, 0), "7 per minute"); /* the burst says nothing new */
    assert_string_equal(keys(6), "");
    assert_string_equal(rate(6, 0), "");
    assert_string_equal(rate(0, 2), "");
    assert_int_equal(wr_policy_slots(policy), (1 << 20) / 2 / 16);

    wr_policy_describe_keys(policy, 0, small, sizeof small);
    assert_string_equal(small, "ip, u");
    wr_policy_describe_rate(policy, 3, 0, small, sizeof small);
    assert_string_equal(small, "4 at ");
    wr_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
