/* load.c - files, the top level, and what a policy is once it is loaded. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "requests.h"

static void test_top_level(void **state)
{
    (void)state;
    expect_errors("", "1:1: error: expected a policy, found nothing\n");
    expect_errors("# nothing\n", "1:1: error: expected a policy, found nothing\n");
    expect_errors("---\n", "1:1: error: expected a policy, found nothing\n");
    expect_errors(
        "[]\n",
        "1:1: error: a policy: expected a map with version, arena, identity, "
        "costs, limits, bans, answers, routes, listen, envoy_ratelimit, store, log, customers or "
        "plans, found an empty list\n");
    expect_errors(LIMITS, "1:1: error: expected version: 1 in a policy, found none\n");
    expect_errors("version: 2\n" LIMITS, "1:10: error: version: expected 1, found \"2\"\n");
    expect_errors("version: 1\n", "1:1: error: expected limits in a policy, found none\n");
    expect_errors("version: 1\nlimits: 5\n",
                  "2:9: error: limits: expected a list of limits, found \"5\"\n");
    expect_errors("version: 1\nlimits:\n",
                  "2:8: error: limits: expected a list of limits, found nothing\n");
    expect_errors(
        "version: 1\nlistne: {}\n" LIMITS,
        "2:1: error: unknown key \"listne\" in a policy: did you mean \"listen\"? "
        "(expected version, arena, "
        "identity, costs, limits, bans, answers, routes, listen, envoy_ratelimit, store, log, "
        "customers or plans)\n");
    expect_errors("version: 1\nlimit: []\n",
                  "1:1: error: expected limits in a policy, found none\n"
                  "2:1: error: unknown key \"limit\" in a policy: did you mean \"limits\"? "
                  "(expected version, arena, identity, costs, limits, bans, answers, routes, "
                  "listen, envoy_ratelimit, store, log, "
                  "customers or plans)\n");
}

static void test_all_errors_at_once(void **state)
{
    (void)state;
    expect_errors("version: 3\n"
                  "arena: {size: 1}\n"
                  "limits:\n"
                  "  - {name: a, rate: x}\n"
                  "  - {name: a, rate: 5/s, by: [z]}\n"
                  "costs: [{cost: 1}, {cost: -1}]\n",
                  "1:10: error: version: expected 1, found \"3\"\n"
                  "2:15: error: size: expected 1MiB to 1TiB, found \"1\"\n"
                  "4:21: error: rate \"x\": expected a rate such as 100/minute or 100/15m, or "
                  "unlimited\n"
                  "5:12: error: name: expected a name of its own, found \"a\", the name of the "
                  "limit on line 4\n"
                  "5:31: error: by: expected ip, route, method or a name from identity, found "
                  "\"z\"\n"
                  "6:27: error: cost: expected a whole number from 0 to 1000000000, found "
                  "\"-1\"\n");
}

static void test_an_empty_list_of_limits_is_allowed(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\nlimits: []\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.count, 0);
    assert_false(sel.banned);
    assert_int_equal(sel.cost, 1);
    wr_policy_free(policy);
}

static void test_settings(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\n" LIMITS);
    const struct wr_policy_settings *s = wr_policy_settings(policy);
    (void)state;

    assert_null(s->arena_path);
    assert_int_equal(s->arena_bytes, 64 << 20);
    assert_int_equal(s->arena_log_percent, 25); /* for limits of later reloads */
    assert_int_equal(s->status, 429);
    assert_int_equal(s->ban_status, 429);
    assert_int_equal(s->header_families, WEIR_HEADERS_DEFAULT);
    assert_true(s->skip_options);
    assert_false(s->cors_expose);
    assert_null(s->documentation_url);
    assert_null(s->upgrade_url);
    assert_int_equal(wr_policy_plan_count(policy), 1);
    assert_string_equal(wr_policy_plan(policy, 0), "default");
    assert_null(wr_policy_plan(policy, 1));
    assert_null(wr_policy_limit(policy, 1));
    assert_int_equal(wr_policy_field_count(policy), 0);
    assert_null(wr_policy_field(policy, 0, NULL));
    wr_policy_free(policy);
    wr_policy_free(NULL);
}

/* ---- files ------------------------------------------------------------------------------- */

static struct wr_diag diag;
static char messages[4096];

static int load_file(const char *path)
{
    struct wr_policy *policy;
    int result;

    wr_diag_init(&diag, "f");
    result = wr_policy_load(&policy, path, &diag);
    assert_int_equal(result != 0, policy == NULL);
    wr_policy_free(policy);
    (void)wr_diag_format(&diag, messages, sizeof messages);
    return result;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

static void test_files(void **state)
{
    char dir[] = "/tmp/weir-load-XXXXXX", path[64];
    (void)state;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/p.yaml", dir);
    assert_int_equal(load_file(path), WEIR_EIO);
    assert_string_equal(messages, "f: error: expected a policy to read: No such file or "
                                  "directory\n");
    write_file(path, "version: 1\n" LIMITS);
    assert_int_equal(load_file(path), 0);
    assert_string_equal(messages, "");
    write_file(path, "version: 1\nlimits: [{name: a}]\n");
    assert_int_equal(load_file(path), WEIR_EPOLICY);
    assert_string_equal(messages, "f:2:10: error: expected rate: N/UNIT, concurrent: N or "
                                  "quota: {limit: N, per: day} in a limit, found none\n");
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid() != 0) { /* root reads everything */
        assert_int_equal(load_file(path), WEIR_EIO);
        assert_string_equal(messages, "f: error: expected a policy to read: Permission denied\n");
    }
    assert_int_equal(load_file(dir), WEIR_EIO);
    assert_string_equal(messages, "f: error: expected a file, found a directory\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(dir), 0);
}

static void test_files_without_an_end(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(load_file(i == 0 ? "/dev/zero" : "/dev/null"), WEIR_EIO);
        assert_string_equal(messages,
                            "f: error: expected a regular file, found a device or socket\n");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_top_level),
        cmocka_unit_test(test_all_errors_at_once),
        cmocka_unit_test(test_an_empty_list_of_limits_is_allowed),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_files_without_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
