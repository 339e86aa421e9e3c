/* identity.c - the section identity: who a caller is. */
#include "requests.h"

static void test_errors_of_ip(void **state)
{
    (void)state;
    expect_errors("version: 1\nidentity: 5\n" LIMITS,
                  "2:11: error: identity: expected a map with ip, plan and names of identities, "
                  "found \"5\"\n");
    expect_errors("version: 1\nidentity: {ip: 10.0.0.1}\n" LIMITS,
                  "2:16: error: identity.ip: expected a map with from, trusted, hops or "
                  "ipv6_prefix, found \"10.0.0.1\"\n");
    expect_errors("version: 1\nidentity: {ip: {from: [peer]}}\n" LIMITS,
                  "2:23: error: from: expected peer, x-forwarded-for, forwarded, x-real-ip or the "
                  "name of a header field with one address, found a list\n");
    expect_errors("version: 1\nidentity: {ip: {from: a header}}\n" LIMITS,
                  "2:23: error: from: expected peer, x-forwarded-for, forwarded, x-real-ip or the "
                  "name of a header field with one address, found \"a header\"\n");
    expect_errors("version: 1\nidentity: {ip: {trusted: [10.0.0.0/8, 10.0.0.1/8, 300.0.0.1, {}]}}"
                  "\n" LIMITS,
                  "2:39: error: trusted: expected a network, found \"10.0.0.1/8\": bits are set "
                  "behind its prefix\n"
                  "2:51: error: trusted: expected an address or a network such as 10.0.0.0/8 or "
                  "2001:db8::/32, found \"300.0.0.1\"\n"
                  "2:62: error: trusted: expected an address or a network such as 10.0.0.0/8 or "
                  "2001:db8::/32, found a map\n");
    expect_errors("version: 1\nidentity: {ip: {ipv6_prefix: 0}}\n" LIMITS,
                  "2:30: error: ipv6_prefix: expected a whole number from 1 to 128, found \"0\"\n");
    expect_errors("version: 1\nidentity: {ip: {ipv6_prefix: 129}}\n" LIMITS,
                  "2:30: error: ipv6_prefix: expected a whole number from 1 to 128, found "
                  "\"129\"\n");
    expect_errors("version: 1\nidentity: {ip: {from: x-real-ip, hops: 2}}\n" LIMITS,
                  "2:34: error: hops: expected only with from: x-forwarded-for or forwarded, which "
                  "have several entries\n");
    expect_errors("version: 1\nidentity: {ip: {from: x-forwarded-for, hops: 65}}\n" LIMITS,
                  "2:46: error: hops: expected a whole number from 1 to 64, found \"65\"\n");
}

static void test_errors_of_names(void **state)
{
    (void)state;
    expect_errors("version: 1\nidentity: {user: X-User}\n" LIMITS,
                  "2:18: error: user: expected a map with header, trust or given, found a text\n");
    expect_errors("version: 1\nidentity: {user: {}}\n" LIMITS,
                  "2:18: error: user: expected header: NAME, or given: true for a value that the "
                  "host program gives\n");
    expect_errors("version: 1\nidentity: {user: {header: \"X User\"}}\n" LIMITS,
                  "2:27: error: header: expected the name of a header field, found \"X User\"\n");
    expect_errors("version: 1\nidentity: {user: {header: X-U, trust: all}}\n" LIMITS,
                  "2:39: error: trust: expected anyone or peers, found \"all\"\n");
    expect_errors("version: 1\nidentity: {user: {given: true, trust: peers}}\n" LIMITS,
                  "2:32: error: trust: expected only with header\n");
    expect_errors("version: 1\nidentity: {user: {given: false}}\n" LIMITS,
                  "2:26: error: given: expected true, or header: NAME instead, found false\n");
    expect_errors("version: 1\nidentity: {route: {given: true}}\n" LIMITS,
                  "2:12: error: expected the name of an identity, found \"route\", which has a "
                  "meaning of its own\n");
    expect_errors("version: 1\nidentity: {\"us er\": {given: true}}\n" LIMITS,
                  "2:12: error: identity: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                  "\"us er\"\n");
}

static void test_too_many(void **state)
{
    char text[8192] = "version: 1\nidentity:\n";
    size_t at = strlen(text);
    (void)state;

    for (int i = 0; i < 33; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "  i%d: {header: H%d}\n", i, i);
    (void)snprintf(text + at, sizeof text - at, LIMITS);
    expect_errors(text, "34:3: error: expected at most 31 identities, found more\n"
                        "35:3: error: expected at most 31 identities, found more\n");
    at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
    for (int i = 0; i < 4; i++)
        at +=
            (size_t)snprintf(text + at, sizeof text - at,
                             "  - {name: l%d, by: [ip], rate: 5/s, ipv6_prefix: %d}\n", i, 40 + i);
    expect_errors(text, "6:50: error: ipv6_prefix: expected at most 4 different lengths in a "
                        "policy, found one more\n"); /* 64 is the first */
}

static void test_fields_are_found_once(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n"
                                         "identity:\n"
                                         "  ip: {from: x-real-ip, trusted: [10.0.0.1]}\n"
                                         "  api_key: {header: X-Api-Key}\n"
                                         "  other: {header: x-api-key}\n"
                                         "  user: {given: true}\n"
                                         "  plan: {header: X-API-KEY}\n" LIMITS);
    static const struct {
        const char *name;
        enum weir_field_kind kind;
    } expected[] = {{"X-Real-IP", WEIR_FIELD_HEADER},
                    {"api_key", WEIR_FIELD_KEY},
                    {"X-Api-Key", WEIR_FIELD_HEADER},
                    {"other", WEIR_FIELD_KEY},
                    {"user", WEIR_FIELD_KEY}};
    (void)state;

    assert_int_equal(wr_policy_field_count(policy), sizeof expected / sizeof expected[0]);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        enum weir_field_kind kind;
        assert_string_equal(wr_policy_field(policy, i, &kind), expected[i].name);
        assert_int_equal(kind, expected[i].kind);
    }
    wr_policy_free(policy);
}

static void test_only_given(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n"
                                         "identity:\n"
                                         "  api_key: {header: X-Api-Key}\n"
                                         "  tenant: {given: true}\n"
                                         "  user: {given: true}\n"
                                         "  team: {header: X-Team, given: true}\n"
                                         "limits:\n"
                                         "  - {name: a, by: [api_key], rate: 1/second}\n"
                                         "  - {name: b, by: [ip, tenant], rate: 1/second}\n"
                                         "  - {name: c, by: [team], rate: 1/second}\n");
    size_t count = wr_policy_field_count(policy);
    (void)state;

    /* user is not counted by, the others have a header */
    for (size_t i = 0; i < count; i++)
        assert_int_equal(wr_policy_only_given(policy, i),
                         strcmp(wr_policy_field(policy, i, NULL), "tenant") == 0);
    assert_false(wr_policy_only_given(policy, count));
    wr_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_of_ip), cmocka_unit_test(test_errors_of_names),
        cmocka_unit_test(test_too_many),     cmocka_unit_test(test_fields_are_found_once),
        cmocka_unit_test(test_only_given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
