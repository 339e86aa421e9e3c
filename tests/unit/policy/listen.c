/* listen.c - the section listen. */
#include "requests.h"

static struct wr_policy *listening(const char *section)
{
    char text[2048];

    (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "listen: %s\n", section);
    return policy_of(text);
}

static void expect_error(const char *section, const char *expected)
{
    char text[2048], full[2048];

    (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "listen: %s\n", section);
    (void)snprintf(full, sizeof full, "3:%s\n", expected);
    expect_errors(text, full);
}

static void test_none(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n" LIMITS);
    const struct wr_policy_settings *s = wr_policy_settings(policy);
    (void)state;

    assert_int_equal(s->listener_count, 0);
    assert_int_equal(s->threads, 0);
    assert_int_equal(s->drain_ns, INT64_C(10000000000));
    assert_int_equal(s->idle_ns, 0);
    assert_int_equal(s->stall_ns, 0);
    assert_null(s->admin_token);
    assert_null(s->admin_token_file);
    assert_null(s->resp_password);
    assert_null(s->resp_password_file);
    wr_policy_free(policy);
}

static void test_all(void **state)
{
    struct wr_policy *policy =
        listening("{http: 127.0.0.1:8080, grpc: ['[::1]:0', 'unix:/run/x y.sock'], resp: {address: "
                  "0.0.0.0:65535, tls: {certificate: c, key: k, client_ca: a}}, admin: [{address: "
                  "localhost:1}], admin_token: 0123456789abcdef, resp_password: a b, threads: 3, "
                  "drain: 250ms, idle_timeout: 24h, stall_timeout: 1500ms}");
    const struct wr_policy_settings *s = wr_policy_settings(policy);
    const struct wr_policy_listener *l = s->listeners;
    static const unsigned char one[16] = {[15] = 1}, home[4] = {127, 0, 0, 1};
    (void)state;

    assert_int_equal(s->listener_count, 5);
    assert_string_equal(l[0].door, "http");
    assert_string_equal(l[0].address, "127.0.0.1:8080");
    assert_memory_equal(l[0].ip.bytes + 12, home, 4);
    assert_int_equal(l[0].port, 8080);
    assert_null(l[0].path);
    assert_null(l[0].tls);
    assert_string_equal(l[1].door, "grpc");
    assert_memory_equal(l[1].ip.bytes, one, 16);
    assert_int_equal(l[1].port, 0);
    assert_string_equal(l[2].path, "/run/x y.sock");
    assert_string_equal(l[3].door, "resp");
    assert_int_equal(l[3].port, 65535);
    assert_string_equal(l[3].tls->certificate, "c");
    assert_string_equal(l[3].tls->key, "k");
    assert_string_equal(l[3].tls->client_ca, "a");
    assert_string_equal(l[4].door, "admin");
    assert_memory_equal(l[4].ip.bytes + 12, home, 4);
    assert_string_equal(s->admin_token, "0123456789abcdef");
    assert_string_equal(s->resp_password, "a b");
    assert_int_equal(s->threads, 3);
    assert_int_equal(s->drain_ns, INT64_C(250000000));
    assert_int_equal(s->idle_ns, INT64_C(86400000000000));
    assert_int_equal(s->stall_ns, INT64_C(1500000000));
    wr_policy_free(policy);
}

#define EXPECTED_ADDRESS \
    "expected an address such as 127.0.0.1:8080, \"[::1]:8080\" or unix:/path, found "

static void test_bad_addresses(void **state)
{
    static const char *const bad[] = {
        "8080",          ":8080",           "127.0.0.1",        "127.0.0.1:",     "127.0.0.1:65536",
        "127.0.0.1:-1",  "127.0.0.1:+1",    "127.0.0.1: 1",     "example.com:80", "1.2.3:80",
        "::1:80",        "[::1]",           "[127.0.0.1]:80",   "[]:80",          "[::1:80",
        "127.0.0.1:80x", "127.0.0.01:8080", "http://1.2.3.4:80"};
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char section[128], expected[256];
        (void)snprintf(section, sizeof section, "{http: '%s'}", bad[i]);
        (void)snprintf(expected, sizeof expected, "16: error: http: " EXPECTED_ADDRESS "\"%s\"",
                       bad[i]);
        expect_error(section, expected);
    }
    expect_error("{http: [[1]]}", "17: error: http: " EXPECTED_ADDRESS "a list");
}

static void test_paths(void **state)
{
    char section[256], expected[512], path[128];
    (void)state;

    memset(path, 'p', 106);
    path[106] = '\0';
    (void)snprintf(section, sizeof section, "{http: 'unix:/%s'}", path); /* 107 bytes: fits */
    wr_policy_free(listening(section));
    (void)snprintf(section, sizeof section, "{http: 'unix:/p%s'}", path);
    (void)snprintf(expected, sizeof expected,
                   "16: error: http: expected an absolute path of at most 107 bytes after unix:, "
                   "found ");
    {
        char text[1024];
        int result;
        (void)snprintf(text, sizeof text, "version: 1\n" LIMITS "listen: %s\n", section);
        assert_non_null(strstr(messages_of(text, strlen(text), &result), expected));
        assert_int_equal(result, WEIR_EPOLICY);
    }
    expect_error("{http: 'unix:run/x'}",
                 "16: error: http: expected an absolute path of at most 107 bytes after unix:, "
                 "found \"unix:run/x\"");
    expect_error("{http: 'unix:'}",
                 "16: error: http: expected an absolute path of at most 107 bytes after unix:, "
                 "found \"unix:\"");
}

static void test_one_door_an_address(void **state)
{
    (void)state;
    expect_error("{http: 127.0.0.1:80, resp: 127.0.0.1:80}",
                 "36: error: resp: 127.0.0.1:80 is taken by line 3 already");
    expect_error("{http: 127.0.0.1:80, resp: localhost:80}",
                 "36: error: resp: localhost:80 is taken by line 3 already");
    expect_error("{http: ['unix:/a', 'unix:/a']}",
                 "28: error: http: unix:/a is taken by line 3 already");
    wr_policy_free(listening("{http: ['127.0.0.1:0', '127.0.0.1:0', '[::1]:80', '0.0.0.0:80']}"));
}

static void test_admin_beyond_this_machine(void **state)
{
    static const char needs[] = "error: admin: an address that other machines can reach needs an "
                                "admin_token or admin_token_file";
    char expected[256];
    (void)state;

    (void)snprintf(expected, sizeof expected, "17: %s", needs);
    expect_error("{admin: 0.0.0.0:9180}", expected);
    expect_error("{admin: '[::]:9180'}", expected);
    expect_error("{admin: 192.0.2.1:9180}", expected);
    wr_policy_free(listening("{admin: ['127.9.9.9:9180', '[::1]:9180', 'unix:/run/admin']}"));
    wr_policy_free(listening("{admin: 0.0.0.0:9180, admin_token_file: /etc/weir/token}"));
    wr_policy_free(listening("{admin: 0.0.0.0:9180, admin_token: 0123456789abcdef}"));
}

static void test_tokens_stay_secret(void **state)
{
    (void)state;
    expect_error("{resp_password: ''}", "25: error: resp_password: expected a password");
    expect_error("{admin_token: 'top secret words'}",
                 "23: error: admin_token: expected visible ASCII characters without blanks");
    expect_error("{admin_token: [top-secret]}",
                 "23: error: admin_token: expected visible ASCII characters without blanks");
    expect_error("{admin_token: 0123456789abcdef, admin_token_file: /t}",
                 "59: error: listen: expected admin_token or admin_token_file, found both");
    expect_error("{resp_password: a, resp_password_file: /p}",
                 "48: error: listen: expected resp_password or resp_password_file, found both");
    expect_warnings("version: 1\n" LIMITS "listen: {admin_token: short}\n",
                    "3:23: warning: admin_token: fewer than 16 characters can be guessed\n");
}

#define ANYONE(door, address)                                                                    \
    "warning: " door ": other machines can reach " address ", and anyone there may spend every " \
    "count: let a firewall pass your proxies alone, or give it tls with a client_ca\n"

static void test_doors_without_a_password(void **state)
{
    (void)state;
    expect_warnings("version: 1\n" LIMITS "listen:\n  http: 0.0.0.0:80\n  grpc: '[::]:81'\n",
                    "4:9: " ANYONE("http", "0.0.0.0:80") "5:9: " ANYONE("grpc", "[::]:81"));
    expect_warnings("version: 1\n" LIMITS
                    "listen: {http: ['127.0.0.2:80', 'unix:/a'], grpc: '[::1]:81'}\n",
                    "");
    expect_warnings("version: 1\n" LIMITS
                    "listen: {http: {address: '0.0.0.0:80', tls: {certificate: c, key: k, "
                    "client_ca: a}}}\n",
                    "");
}

static void test_other_mistakes(void **state)
{
    (void)state;
    expect_error("{http: {tls: {certificate: c, key: k}}}",
                 "16: error: http: expected an address, found none");
    expect_error("{http: {address: '127.0.0.1:1', tls: {key: k}}}",
                 "46: error: tls: expected certificate and key, found no certificate");
    expect_error("{http: []}",
                 "16: error: http: expected at least one address, found an empty list");
    expect_error("{threads: 0}",
                 "19: error: threads: expected a whole number from 1 to 256, found \"0\"");
    expect_error("{idle_timeout: 25h}",
                 "24: error: idle_timeout: expected at most 24h, found \"25h\"");
    expect_error("{stall_timeout: 61m}",
                 "25: error: stall_timeout: expected at most 1h, found \"61m\"");
    expect_error("{drain: 2h}", "17: error: drain: expected at most 1h, found \"2h\"");
    expect_error(
        "{htttp: 127.0.0.1:1}",
        "10: error: unknown key \"htttp\" in listen: did you mean \"http\"? (expected http, "
        "grpc, resp, admin, threads, drain, idle_timeout, stall_timeout, unsent_max, admin_token, "
        "admin_token_file, resp_password or resp_password_file)");
}

/* Said once, at the first one too many. */
static void test_too_many_addresses(void **state)
{
    static struct wr_diag diag;
    static char text[8192];
    struct wr_policy *policy;
    size_t at = (size_t)snprintf(text, sizeof text, "version: 1\nlisten:\n  http:\n");

    (void)state;
    for (int i = 0; i < 70; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "    - 127.0.0.1:%d\n", 1000 + i);
    (void)snprintf(text + at, sizeof text - at, LIMITS);
    wr_diag_init(&diag, "p");
    assert_int_equal(wr_policy_load_text(&policy, text, strlen(text), &diag), WEIR_EPOLICY);
    assert_int_equal(diag.errors, 1);
    (void)wr_diag_format(&diag, text, sizeof text);
    assert_string_equal(text, "p:68:7: error: listen: expected at most 64 addresses\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_one_door_an_address),
        cmocka_unit_test(test_admin_beyond_this_machine),
        cmocka_unit_test(test_tokens_stay_secret),
        cmocka_unit_test(test_doors_without_a_password),
        cmocka_unit_test(test_other_mistakes),
        cmocka_unit_test(test_too_many_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
