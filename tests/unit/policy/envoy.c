/* envoy.c - reading envoyproxy/ratelimit's configuration, its errors with their places, and which
 * limit a descriptor meets. Cases follow what the reference's own tests check. */
#include "requests.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/envoy.h"

static char folder[] = "/tmp/weir-envoy-XXXXXX";

static void write_file(const char *name, const char *text)
{
    char path[256];
    FILE *file;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
}

/* Load the policy "version: 1" with |section|. |*out| gets the messages without the folder's name.
 */
static struct wr_policy *load(const char *section, char *out, size_t size)
{
    static struct wr_diag diag;
    static char raw[65536];
    struct wr_policy *policy;
    char path[256], text[1024];
    size_t at = 0, skip = strlen(folder) + 1;
    int result;

    (void)snprintf(text, sizeof text, "version: 1\n%s\n", section);
    write_file("policy.yaml", text);
    (void)snprintf(path, sizeof path, "%s/policy.yaml", folder);
    wr_diag_init(&diag, path);
    result = wr_policy_load(&policy, path, &diag);
    assert_int_equal(result == 0, diag.errors == 0);
    (void)wr_diag_format(&diag, raw, sizeof raw);
    out[0] = '\0';
    for (const char *p = raw; *p != '\0' && at + 1 < size;) {
        if (strncmp(p, folder, skip - 1) == 0)
            p += p[skip - 1] == '/' ? skip : skip - 1;
        else
            out[at++] = *p++;
        out[at] = '\0';
    }
    return policy;
}

static void expect(const char *file, const char *messages)
{
    static char out[65536];
    struct wr_policy *policy;

    write_file("limits.yaml", file);
    policy = load("envoy_ratelimit: [limits.yaml]", out, sizeof out);
    wr_policy_free(policy);
    assert_string_equal(out, messages);
}

static struct wr_policy *good(const char *file)
{
    static char out[65536];
    struct wr_policy *policy;

    write_file("limits.yaml", file);
    policy = load("envoy_ratelimit: limits.yaml", out, sizeof out);
    assert_string_equal(out, "");
    assert_non_null(policy);
    return policy;
}

/* "plan=free|path=/a" in domain |domain|: the path of the rule it meets, "" for none. */
static const char *meets(const struct wr_policy *policy, const char *domain, const char *text,
                         struct wr_envoy_match *match)
{
    static char copy[1024];
    struct wr_entry entries[WR_ENTRIES_MAX];
    struct wr_descriptor descriptor = {.entries = entries};
    const struct wr_envoy *envoy = wr_policy_envoy(policy);
    int number = wr_envoy_domain(envoy, slice(domain));

    assert_true(number >= 0);
    (void)snprintf(copy, sizeof copy, "%s", text);
    for (char *pair = strtok(copy, "|"); pair != NULL; pair = strtok(NULL, "|")) {
        char *value = strchr(pair, '=');
        *value = '\0';
        entries[descriptor.count++] = (struct wr_entry){slice(pair), slice(value + 1)};
    }
    wr_envoy_find(envoy, number, &descriptor, match);
    return match->rule != NULL ? match->rule->path : "";
}

#define RULE(n) "rate_limit: {unit: minute, requests_per_unit: " #n "}"
#define SHOP                                                                               \
    "domain: shop\n"                                                                       \
    "descriptors:\n"                                                                       \
    "  - key: plan\n"                                                                      \
    "    value: free\n"                                                                    \
    "    rate_limit: {name: free_min, unit: minute, requests_per_unit: 60}\n"              \
    "    descriptors:\n"                                                                   \
    "      - {key: path, rate_limit: {unit: Second, requests_per_unit: 5}}\n"              \
    "  - {key: plan, value: \"gold*\", " RULE(                                             \
        1) "}\n"                                                                           \
           "  - {key: plan, value: \"*er\", share_threshold: true, " RULE(                 \
               2) "}\n"                                                                    \
                  "  - {key: ip, " RULE(                                                   \
                      3) "}\n"                                                             \
                         "  - {key: ip, value: 10.0.0.1, rate_limit: {unlimited: true}}\n" \
                         "  - {key: zone, descriptors: [{key: a_b, value: c, " RULE(       \
                             4) "}, {key: a, value: b_c}]}\n"

static void levels_and_values(void **state)
{
    struct wr_policy *policy = good(SHOP);
    struct wr_envoy_match m;

    (void)state;
    assert_string_equal(meets(policy, "shop", "plan=free", &m), "shop.plan_free");
    assert_int_equal(m.rule->units, 60);
    assert_int_equal(m.rule->unit, WR_UNIT_MINUTE);
    assert_string_equal(m.rule->name, "free_min");
    assert_string_equal(meets(policy, "shop", "plan=free|path=/a", &m), "shop.plan_free.path");
    assert_int_equal(m.rule->unit, WR_UNIT_SECOND);
    /* Exactly as many entries as the path has; case matters; no rule for other values. */
    assert_string_equal(meets(policy, "shop", "plan=free|path=/a|ip=x", &m), "");
    assert_string_equal(meets(policy, "shop", "plan=Free", &m), "");
    assert_string_equal(meets(policy, "shop", "path=/a", &m), "");
    assert_string_equal(meets(policy, "shop", "zone=x", &m), "");
    assert_string_equal(meets(policy, "shop", "zone=x|a=b_c", &m), "");
    assert_string_equal(meets(policy, "shop", "zone=x|a_b=c", &m), "shop.zone.a_b_c");
    assert_int_equal(wr_envoy_domain(wr_policy_envoy(policy), slice("Shop")), -1);
    wr_policy_free(policy);
}

static void exact_then_pattern_then_key(void **state)
{
    struct wr_policy *policy = good(SHOP);
    struct wr_envoy_match m;

    (void)state;
    assert_string_equal(meets(policy, "shop", "plan=gold", &m), "shop.plan_gold*");
    assert_null(m.shared[0]);
    assert_string_equal(meets(policy, "shop", "plan=silver", &m), "shop.plan_*er");
    assert_string_equal(m.shared[0], "*er");
    /* Both patterns fit: the first of the file. */
    assert_string_equal(meets(policy, "shop", "plan=golder", &m), "shop.plan_gold*");
    assert_string_equal(meets(policy, "shop", "ip=10.0.0.1", &m), "shop.ip_10.0.0.1");
    assert_true(m.rule->unlimited);
    assert_string_equal(meets(policy, "shop", "ip=10.0.0.2", &m), "shop.ip");
    assert_string_equal(meets(policy, "shop", "ip=", &m), "shop.ip");
    wr_policy_free(policy);
}

static void expect_glob(const char *pattern, const char *text, bool fits)
{
    assert_int_equal(wr_envoy_glob(pattern, slice(text)), fits);
}

static void patterns(void **state)
{
    (void)state;
    expect_glob("*", "", true);
    expect_glob("*", "anything", true);
    expect_glob("a*", "a", true);
    expect_glob("a*", "ba", false);
    expect_glob("*a", "ba", true);
    expect_glob("*a", "ab", false);
    expect_glob("/v*/users/*", "/v1/users/7", true);
    expect_glob("/v*/users/*", "/v1/user/7", false);
    expect_glob("a*b*c", "aXbYbZc", true);
    expect_glob("a*b*c", "aXcYb", false);
    expect_glob("a**b", "ab", true);
    expect_glob("", "", true);
    expect_glob("", "a", false);
}

/* A * in the key: the reference fits patterns to key, _ and value in one. */
static void patterns_in_keys(void **state)
{
    struct wr_policy *policy = good(
        "domain: shop\n"
        "descriptors:\n"
        "  - {key: \"tenant*\", " RULE(
            1) "}\n"
               "  - {key: tenant_id, value: \"7*\", " RULE(
                   2) "}\n"
                      "  - {key: path, value: \"/a*\", " RULE(
                          3) "}\n"
                             "  - {key: \"pa*\", value: \"*z\", share_threshold: true, " RULE(
                                 4) "}\n"
                                    "  - {key: path, value: /exact, descriptors: [{key: "
                                    "\"*\", " RULE(5) "}]}\n"
                                                      "  - {key: pa, " RULE(
                                                          6) "}\n"
                                                             "  - {key: tenant_x, value: e, " RULE(
                                                                 7) "}\n");
    struct wr_envoy_match m;

    (void)state;
    assert_string_equal(meets(policy, "shop", "tenant_id=8", &m), "shop.tenant*");
    assert_string_equal(meets(policy, "shop", "tenant=", &m), "shop.tenant*");
    assert_string_equal(meets(policy, "shop", "tenant*=x", &m), "shop.tenant*");
    assert_string_equal(meets(policy, "shop", "tena=nt", &m), "");
    /* The first in the file that fits, of both kinds; before both an exact pair. */
    assert_string_equal(meets(policy, "shop", "tenant_id=71", &m), "shop.tenant*");
    assert_string_equal(meets(policy, "shop", "path=/az", &m), "shop.path_/a*");
    assert_null(m.shared[0]);
    assert_string_equal(meets(policy, "shop", "tenant_x=e", &m), "shop.tenant_x_e");
    assert_string_equal(meets(policy, "shop", "path=/bz", &m), "shop.pa*_*z");
    assert_string_equal(m.shared[0], "pa*_*z");
    assert_string_equal(meets(policy, "shop", "pa=z", &m), "shop.pa*_*z");
    assert_string_equal(meets(policy, "shop", "pa=y", &m),
                        "shop.pa"); /* the key alone comes last */
    assert_string_equal(meets(policy, "shop", "path=/exact|any=thing", &m), "shop.path_/exact.*");
    wr_policy_free(policy);
    wr_policy_free(good("domain: d\ndescriptors:\n  - {key: \"a*\", share_threshold: true}\n"));
}

static void files_of_go(void **state)
{
    struct wr_envoy_match m;
    struct wr_policy *policy = good("domain: shop\n"
                                    "descriptors:\n"
                                    "  - key: n\n"
                                    "    value: 5\n" /* a number is its text */
                                    "    detailed_metric: true\n"
                                    "    value_to_metric: no\n"
                                    "    shadow_mode: True\n"
                                    "    quota_mode: yes\n"
                                    "    metadata: {any: [thing, {at: 1.5}], 7: x}\n"
                                    "    rate_limit:\n"
                                    "      unit: WEEK\n"
                                    "      requests_per_unit: 4294967295\n"
                                    "      replaces: [{name: a}, {name: b}]\n"
                                    "  - {key: m, value: null, rate_limit: }\n"
                                    "  - {key: l, value: \"1.5\", descriptors: }\n");

    (void)state;
    assert_string_equal(meets(policy, "shop", "n=5", &m), "shop.n_5");
    assert_true(m.rule->shadow && m.rule->quota);
    assert_int_equal(m.rule->unit, WR_UNIT_WEEK);
    assert_int_equal(m.rule->units, UINT32_MAX);
    assert_int_equal(m.rule->limit.calendar, WR_CALENDAR_WEEK);
    assert_int_equal(m.rule->replaces_count, 2);
    assert_string_equal(m.rule->replaces[1], "b");
    assert_string_equal(meets(policy, "shop", "m=x", &m), "");
    wr_policy_free(policy);
    wr_policy_free(good("domain: empty\n"));
}

static void errors_of_the_reference(void **state)
{
    (void)state;
    expect("", "limits.yaml:1:1: error: expected a rate limit configuration, found nothing\n");
    expect("descriptors: []\n",
           "limits.yaml:1:1: error: expected a domain in a rate limit configuration, found none\n");
    expect("domain: ''\n",
           "limits.yaml:1:9: error: expected a domain in a rate limit configuration, found none\n");
    expect("domain: d\ndescriptors:\n  - value: x\n",
           "limits.yaml:3:5: error: expected a key in a descriptor, found none\n");
    expect("domain: d\ndescriptors:\n  - {key: a}\n  - {key: a}\n",
           "limits.yaml:4:11: error: expected each descriptor once, found d.a again\n");
    expect("domain: d\ndescriptors:\n  - {key: a, value: b}\n  - {key: a, value: b}\n",
           "limits.yaml:4:11: error: expected each descriptor once, found d.a_b again\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: fortnight, "
           "requests_per_unit: 1}}\n",
           "limits.yaml:3:33: error: unit: expected second, minute, hour, day, week, month or "
           "year, found \"fortnight\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {requests_per_unit: 1}}\n",
           "limits.yaml:3:26: error: unit: expected second, minute, hour, day, week, month or "
           "year, found none\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unlimited: true, unit: day}}\n",
           "limits.yaml:3:50: error: unit: expected none where unlimited is true, found \"day\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, "
           "name: n, replaces: [{name: n}]}}\n",
           "limits.yaml:3:80: error: replaces: expected the name of another limit, found its own, "
           "\"n\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 1, "
           "replaces: [{name: ''}]}}\n",
           "limits.yaml:3:71: error: replaces: expected the name of another limit, found none\n");
    expect("domain: d\ndescriptors:\n  - {key: a, value: b, share_threshold: true}\n",
           "limits.yaml:3:5: error: share_threshold: expected a value with a * in it, found "
           "\"b\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, value: 1.5}\n",
           "limits.yaml:3:21: error: value: expected a text, found the number 1.5: put it in "
           "quotes\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: "
           "4294967296}}\n",
           "limits.yaml:3:57: error: requests_per_unit: expected a whole number from 0 to "
           "4294967295, found \"4294967296\"\n");
}

/* Go's YAML reads 010 as 8, 0x10 as 16, 1_000 as 1000. */
static void numbers_that_are_others_there(void **state)
{
    (void)state;
    expect(
        "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 010}}\n",
        "limits.yaml:3:57: error: requests_per_unit: expected a decimal number without a 0 "
        "before it, found \"010\"\n");
    expect(
        "domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: 0x10}}\n",
        "limits.yaml:3:57: error: requests_per_unit: expected a decimal number without a 0 "
        "before it, found \"0x10\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, requests_per_unit: "
           "1_000}}\n",
           "limits.yaml:3:57: error: requests_per_unit: expected a whole number from 0 to "
           "4294967295, found \"1_000\"\n");
    wr_policy_free(good("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day, "
                        "requests_per_unit: 0}}\n"));
}

static void unknown_keys_and_wrong_kinds(void **state)
{
    (void)state;
    expect(
        "domain: d\ndescriptors:\n  - {key: a, ratelimit: {}}\n",
        "limits.yaml:3:14: error: unknown key \"ratelimit\" in a descriptor: did you mean "
        "\"rate_limit\"? (expected key, value, rate_limit, descriptors, shadow_mode, quota_mode, "
        "share_threshold, detailed_metric, value_to_metric or metadata)\n");
    expect("domains: d\n",
           "limits.yaml:1:1: error: unknown key \"domains\" in a rate limit configuration: did you "
           "mean \"domain\"? (expected domain or descriptors)\n"
           "limits.yaml:1:1: error: expected a domain in a rate limit configuration, found none\n");
    expect("domain: d\ndescriptors: {key: a}\n",
           "limits.yaml:2:14: error: descriptors: expected a list of descriptors, found a map\n");
    expect("domain: d\ndescriptors: [a]\n",
           "limits.yaml:2:15: error: a descriptor: expected a map with key, value, rate_limit, "
           "descriptors, shadow_mode, quota_mode, share_threshold, detailed_metric, "
           "value_to_metric or metadata, found \"a\"\n");
    expect("domain: d\ndescriptors:\n  - {key: a, shadow_mode: maybe}\n",
           "limits.yaml:3:27: error: shadow_mode: expected true or false, found \"maybe\"\n");
    expect("domain: [\n", "limits.yaml:2:1: error: expected YAML, did not find expected node "
                          "content while parsing a flow node; between { } or [ ], a text with one "
                          "of {}[], needs quotes\n");
    expect("domain: d\ndescriptors:\n  - {key: a, rate_limit: {unit: day}}\n",
           "limits.yaml:3:26: warning: rate_limit: no requests_per_unit, so nothing passes\n");
}

static void expect_section(const char *section, const char *messages)
{
    static char out[65536];

    wr_policy_free(load(section, out, sizeof out));
    assert_string_equal(out, messages);
}

static void files_and_folders(void **state)
{
    char path[256];

    (void)state;
    (void)snprintf(path, sizeof path, "%s/conf", folder);
    assert_int_equal(mkdir(path, 0755), 0);
    expect_section("envoy_ratelimit: [conf]",
                   "policy.yaml:2:19: error: envoy_ratelimit: expected files named *.yaml in the "
                   "folder conf, found none\n");
    write_file("conf/b.yaml", "domain: one\n");
    write_file("conf/a.yaml", "domain: two\n");
    write_file("conf/README", "not yaml");
    expect_section("envoy_ratelimit: [conf]", "");
    write_file("one.yaml", "domain: one\n");
    expect_section("envoy_ratelimit: [conf, one.yaml]",
                   "one.yaml:1:9: error: domain: expected each domain in one file, found \"one\" "
                   "again (merge_domains: true in the policy allows it)\n");
    expect_section("envoy_ratelimit: {files: [conf, one.yaml], merge_domains: true}", "");
    expect_section("envoy_ratelimit: [missing.yaml]",
                   "policy.yaml:2:19: error: envoy_ratelimit: expected a file or folder, found "
                   "missing.yaml: No such file or directory\n");
    expect_section("envoy_ratelimit: [/dev/null]",
                   "policy.yaml:2:19: error: envoy_ratelimit: expected a file or folder, found "
                   "neither: /dev/null\n");
    expect_section("envoy_ratelimit: []", "policy.yaml:2:18: error: envoy_ratelimit: expected a "
                                          "list of files or folders, found an empty list\n");
    expect_section("envoy_ratelimit: {windows: lunar, files: one.yaml}",
                   "policy.yaml:2:28: error: windows: expected calendar or epoch, found "
                   "\"lunar\"\n");
    expect_section("envoy_ratelimit: {merge_domains: true}",
                   "policy.yaml:2:18: error: envoy_ratelimit: expected files, a list of files or "
                   "folders\n");
}

static void a_policy_in_no_file_has_none(void **state)
{
    int result;

    (void)state;
    assert_string_equal(messages_of("version: 1\nenvoy_ratelimit: [a.yaml]\n", 37, &result),
                        "2:18: error: envoy_ratelimit: expected a policy in a file, whose folder "
                        "its files are looked for in\n");
}

static void epoch_windows(void **state)
{
    static char out[4096];
    struct wr_envoy_match m;
    struct wr_policy *policy;

    (void)state;
    write_file("limits.yaml", "domain: d\ndescriptors:\n"
                              "  - {key: a, rate_limit: {unit: month, requests_per_unit: 3}}\n");
    policy = load("envoy_ratelimit: {files: limits.yaml, windows: epoch}", out, sizeof out);
    assert_string_equal(out, "");
    (void)meets(policy, "d", "a=x", &m);
    assert_int_equal(m.rule->limit.calendar, WR_CALENDAR_NONE);
    assert_int_equal(m.rule->limit.window_ns, 30 * WR_NS_PER_DAY);
    wr_policy_free(policy);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[64];

    (void)state;
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_and_values),
        cmocka_unit_test(exact_then_pattern_then_key),
        cmocka_unit_test(patterns),
        cmocka_unit_test(patterns_in_keys),
        cmocka_unit_test(files_of_go),
        cmocka_unit_test(errors_of_the_reference),
        cmocka_unit_test(numbers_that_are_others_there),
        cmocka_unit_test(unknown_keys_and_wrong_kinds),
        cmocka_unit_test(files_and_folders),
        cmocka_unit_test(a_policy_in_no_file_has_none),
        cmocka_unit_test(epoch_windows),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
