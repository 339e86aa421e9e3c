/* answers.c - the sections arena and answers. */
#include "requests.h"

static void test_all_settings(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "arena: {path: /run/x, size: 1GiB, logs: 30%}\n"
                  "answers:\n"
                  "  status: 503\n"
                  "  ban_status: 403\n"
                  "  headers: [x-ratelimit-delta, draft-07]\n"
                  "  documentation_url: https://example.com/limits\n"
                  "  upgrade_url: http://example.com/buy?a=b&c=%20\n"
                  "  cors: true\n"
                  "  skip_options: false\n"
                  "limits: [{name: a, by: [ip], rate: 5/s, algorithm: sliding-log}]\n");
    const struct wr_policy_settings *s = wr_policy_settings(policy);
    (void)state;

    assert_string_equal(s->arena_path, "/run/x");
    assert_int_equal(s->arena_bytes, 1 << 30);
    assert_int_equal(s->arena_log_percent, 30);
    assert_int_equal(s->status, 503);
    assert_int_equal(s->ban_status, 403);
    assert_int_equal(s->header_families, WEIR_HEADERS_X_DELTA | WEIR_HEADERS_DRAFT_07);
    assert_string_equal(s->documentation_url, "https://example.com/limits");
    assert_string_equal(s->upgrade_url, "http://example.com/buy?a=b&c=%20");
    assert_true(s->cors_expose);
    assert_false(s->skip_options);
    wr_policy_free(policy);
}

static unsigned families_of(const char *headers)
{
    char text[256];
    struct wr_policy *policy;
    unsigned families;

    (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "answers: {headers: %s}\n", headers);
    policy = policy_of(text);
    families = wr_policy_settings(policy)->header_families;
    wr_policy_free(policy);
    return families;
}

static void test_families(void **state)
{
    (void)state;
    assert_int_equal(families_of("none"), 0);
    assert_int_equal(families_of("[none]"), 0);
    assert_int_equal(families_of("x-ratelimit"), WEIR_HEADERS_X);
    assert_int_equal(families_of("[x-ratelimit]"), WEIR_HEADERS_X);
    assert_int_equal(families_of("draft-03"), WEIR_HEADERS_DRAFT_03);
    assert_int_equal(families_of("draft-06"), WEIR_HEADERS_DRAFT_06);
    assert_int_equal(families_of("[draft-11, x-ratelimit]"),
                     WEIR_HEADERS_DRAFT_11 | WEIR_HEADERS_X);
}

static void test_lists_have_a_share(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\nlimits: [{name: a, by: [ip], concurrent: 5}]\n");
    (void)state;

    assert_int_equal(wr_policy_settings(policy)->arena_log_percent, 50);
    assert_int_equal(wr_policy_slots(policy), (32 << 20) / 16);
    wr_policy_free(policy);
    policy = policy_of("version: 1\nidentity: {plan: {default: f}}\n"
                       "limits: [{name: a, by: [ip], concurrent: {f: unlimited, p: 5}}]\n");
    assert_int_equal(wr_policy_settings(policy)->arena_log_percent, 50);
    wr_policy_free(policy);
    /* Without such a limit a quarter: the arena is divided once, and one may come with a reload. */
    policy = policy_of("version: 1\n" LIMITS);
    assert_int_equal(wr_policy_settings(policy)->arena_log_percent, 25);
    wr_policy_free(policy);
    policy = policy_of("version: 1\narena: {logs: 20}\n" LIMITS);
    assert_int_equal(wr_policy_settings(policy)->arena_log_percent, 20);
    wr_policy_free(policy);
}

#define ANSWERS(text) "version: 1\n" LIMITS "answers: {" text "}\n"
#define ARENA(text) "version: 1\n" LIMITS "arena: {" text "}\n"

static void test_errors(void **state)
{
    static const char *const no_hosts[] = {"http://",      "https:///x",      "http://h:99999/",
                                           "http://h:0",   "http://:80/",     "http://u@",
                                           "http://h:/x",  "http://h:8080x/", "http://[::1",
                                           "http://h:-1/", "http://?q",       "http://[::1]x"};
    static const char *const hosts[] = {"http://h",
                                        "https://h:1/x",
                                        "http://[::1]:65535",
                                        "http://u:p@h:80?a@b",
                                        "https://h/a:99999/b@c",
                                        "http://h#x"};
    (void)state;
    expect_errors(ANSWERS("status: 200"),
                  "3:19: error: status: expected a whole number from 400 to 599, found \"200\"\n");
    expect_errors(ANSWERS("status: 4 29"),
                  "3:19: error: status: expected a whole number from 400 to 599, found \"4 29\"\n");
    expect_errors(ANSWERS("headers: [x-ratelimit, x-ratelimit-delta]"),
                  "3:34: error: headers: expected one x-ratelimit family and one draft at most, "
                  "found x-ratelimit-delta beside another: their fields share names\n");
    expect_errors(ANSWERS("headers: [draft-03, draft-11]"),
                  "3:31: error: headers: expected one x-ratelimit family and one draft at most, "
                  "found draft-11 beside another: their fields share names\n");
    expect_errors(ANSWERS("headers: [none, draft-11]"),
                  "3:20: error: headers: expected none alone, found it beside others\n");
    expect_errors(ANSWERS("headers: []"),
                  "3:20: error: headers: expected at least one family, or none, found an empty "
                  "list\n");
    expect_errors(ANSWERS("headers: x-ratelimits"),
                  "3:20: error: headers: expected x-ratelimit, x-ratelimit-delta, draft-03, "
                  "draft-06, draft-07, draft-11 or none, found \"x-ratelimits\" (did you mean "
                  "x-ratelimit?)\n");
    expect_errors(ANSWERS("documentation_url: example.com"),
                  "3:30: error: documentation_url: expected a URL that begins with https:// or "
                  "http:// and has no blanks or quotes, found \"example.com\"\n");
    expect_errors(ANSWERS("upgrade_url: 'https://x/\"'"),
                  "3:24: error: upgrade_url: expected a URL that begins with https:// or http:// "
                  "and has no blanks or quotes, found \"https://x/\"\"\n");
    for (size_t i = 0; i < sizeof no_hosts / sizeof no_hosts[0]; i++) {
        char text[200], error[200];
        (void)snprintf(text, sizeof text, ANSWERS("upgrade_url: \"%s\""), no_hosts[i]);
        (void)snprintf(
            error, sizeof error,
            "3:24: error: upgrade_url: expected a host behind ://, and of ports one of 1 "
            "to 65535, found \"%s\"\n",
            no_hosts[i]);
        expect_errors(text, error);
    }
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        char text[200];
        (void)snprintf(text, sizeof text, ANSWERS("upgrade_url: \"%s\""), hosts[i]);
        wr_policy_free(policy_of(text));
    }
    expect_errors(ANSWERS("cors: 1"), "3:17: error: cors: expected true or false, found \"1\"\n");
    expect_errors(ARENA("size: 64"), "3:15: error: size: expected 1MiB to 1TiB, found \"64\"\n");
    expect_errors(ARENA("size: 2TiB"),
                  "3:15: error: size: expected 1MiB to 1TiB, found \"2TiB\"\n");
    expect_errors(ARENA("size: 64Mb"), "3:17: error: size \"64Mb\": expected a size in KiB, MiB or "
                                       "GiB (kB, MB, GB are powers of ten)\n");
    expect_errors(ARENA("size: []"),
                  "3:15: error: size: expected a size such as 64MiB, found an empty list\n");
    expect_errors(ARENA("logs: 91%"),
                  "3:15: error: logs: expected a share of the arena for lists of stamps, 1% to "
                  "90%, found \"91%\"\n");
    expect_errors(ARENA("path: "),
                  "3:15: error: expected the path of the arena's file, found nothing\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_settings),
        cmocka_unit_test(test_families),
        cmocka_unit_test(test_lists_have_a_share),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
