/* limits.c - the section limits: keys that imply, need or exclude others. */
#include "base/units.h"
#include "requests.h"

#define ONE(limit) "version: 1\nlimits:\n  - {name: a, " limit "}\n"
#define KEYED(limit) \
    "version: 1\nidentity: {user: {given: true}}\nlimits:\n  - {name: a, " limit "}\n"

static void expect_limit(const char *text, enum wr_algo algo, int64_t units, int64_t window_ns,
                         int64_t burst)
{
    struct wr_policy *policy = policy_of(text);
    const struct wr_policy_limit *limit = wr_policy_limit(policy, 0);
    struct wr_limit expected;

    assert_null(wr_limit_make(&expected, algo, units, window_ns, burst, false));
    assert_memory_equal(&limit->by[0], &expected, sizeof expected);
    assert_false(limit->unlimited[0]);
    assert_false(limit->by_plan);
    assert_false(limit->shadow);
    wr_policy_free(policy);
}

static void test_algorithms(void **state)
{
    (void)state;
    expect_limit(ONE("rate: 600/minute"), WR_SLIDING_WINDOW, 600, WR_NS_PER_MINUTE, -1);
    expect_limit(ONE("rate: 5/s, algorithm: token-bucket"), WR_TOKEN_BUCKET, 5, WR_NS_PER_S, -1);
    expect_limit(ONE("rate: 5/s burst 9"), WR_TOKEN_BUCKET, 5, WR_NS_PER_S, 9);
    expect_limit(ONE("rate: 5/s queue 9"), WR_LEAKY_BUCKET, 5, WR_NS_PER_S, 9);
    expect_limit(ONE("rate: 5/s, algorithm: leaky-bucket"), WR_LEAKY_BUCKET, 5, WR_NS_PER_S, 0);
    expect_limit(ONE("rate: 5/s queue 0, algorithm: leaky-bucket"), WR_LEAKY_BUCKET, 5, WR_NS_PER_S,
                 0);
    expect_limit(ONE("rate: 5/s, algorithm: fixed-window"), WR_FIXED_WINDOW, 5, WR_NS_PER_S, -1);
    expect_limit(ONE("rate: 5/s, algorithm: sliding-log"), WR_SLIDING_LOG, 5, WR_NS_PER_S, -1);
    expect_limit(ONE("concurrent: 4"), WR_CONCURRENCY, 4, 30 * WR_NS_PER_S, -1);
    expect_limit(ONE("concurrent: 4, hold: 1d, algorithm: concurrency"), WR_CONCURRENCY, 4,
                 WR_NS_PER_DAY, -1);
    expect_limit(ONE("rate: \"5/s\""), WR_SLIDING_WINDOW, 5, WR_NS_PER_S, -1);
    expect_limit(ONE("rate: 0/s"), WR_SLIDING_WINDOW, 0, WR_NS_PER_S, -1);
    expect_limit(ONE("concurrent: 0"), WR_CONCURRENCY, 0, 30 * WR_NS_PER_S, -1);
}

static void test_what_one_plan_implies_holds_for_all(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\nidentity: {plan: {default: a}}\n"
                  "limits: [{name: l, rate: {a: 5/s, b: 10/s burst 20, c: unlimited}}]\n");
    const struct wr_policy_limit *limit = wr_policy_limit(policy, 0);
    (void)state;

    assert_int_equal(limit->by[0].algo, WR_TOKEN_BUCKET);
    assert_int_equal(limit->by[0].burst, 5);
    assert_int_equal(limit->by[1].burst, 20);
    assert_true(limit->unlimited[2]);
    wr_policy_free(policy);
}

static void test_flags(void **state)
{
    struct wr_policy *policy = policy_of(ONE("rate: 5/s, mode: shadow, count_denied: true"));
    (void)state;

    assert_true(wr_policy_limit(policy, 0)->shadow);
    assert_int_equal(wr_policy_limit(policy, 0)->by[0].count_denied, 1);
    wr_policy_free(policy);
    policy = policy_of(ONE("rate: 5/s, mode: enforce, count_denied: false"));
    assert_false(wr_policy_limit(policy, 0)->shadow);
    assert_int_equal(wr_policy_limit(policy, 0)->by[0].count_denied, 0);
    wr_policy_free(policy);
}

static void test_rates_and_algorithms_that_disagree(void **state)
{
    (void)state;
    expect_errors(ONE("rate: 5/s queue 3, algorithm: token-bucket"),
                  "3:21: error: rate: queue needs algorithm: leaky-bucket, found token-bucket\n");
    expect_errors(ONE("rate: 5/s burst 3, algorithm: sliding-window"),
                  "3:21: error: rate: burst needs algorithm: token-bucket, found "
                  "sliding-window\n");
    expect_errors(ONE("rate: {default: 5/s burst 3, b: 5/s queue 3}"),
                  "3:47: error: rate: queue needs algorithm: leaky-bucket, found token-bucket\n");
    expect_errors(ONE("rate: 5/s, concurrent: 3"),
                  "3:26: error: concurrent: expected one of rate and concurrent, found both: write "
                  "two limits\n");
    expect_errors(ONE("rate: 5/s, hold: 3s"), "3:26: error: hold: expected only with concurrent\n");
    expect_errors(ONE("rate: 5/s, algorithm: concurrency"),
                  "3:37: error: algorithm: concurrency counts requests in flight: expected "
                  "concurrent: N, found a rate\n");
    expect_errors(ONE("concurrent: 3, algorithm: token-bucket"),
                  "3:41: error: algorithm: expected none beside concurrent, found token-bucket\n");
    expect_errors(ONE("by: [ip]"),
                  "3:5: error: expected rate: N/UNIT, concurrent: N or quota: {limit: N, "
                  "per: day} in a limit, found none\n");
}

static void test_ranges_are_the_algorithms(void **state)
{
    (void)state;
    expect_errors(ONE("rate: 16777216/minute"),
                  "3:21: error: rate \"16777216/minute\": a sliding window counts at most 16777215 "
                  "units; a token-bucket holds more\n");
    expect_errors(ONE("rate: 10001/minute, algorithm: sliding-log"),
                  "3:21: error: rate \"10001/minute\": a sliding log keeps at most 10000 stamps a "
                  "key; a sliding-window counts more\n");
    expect_errors(ONE("rate: {default: 10001/m, b: 5/s, c: 10002/m}, algorithm: sliding-log"),
                  "3:31: error: rate \"10001/m\": a sliding log keeps at most 10000 stamps a "
                  "key; a sliding-window counts more\n"
                  "3:51: error: rate \"10002/m\": a sliding log keeps at most 10000 stamps a "
                  "key; a sliding-window counts more\n");
    expect_errors(ONE("concurrent: 10001"),
                  "3:27: error: concurrent: expected a whole number from 0 to 10000, found "
                  "\"10001\"\n");
    expect_errors(ONE("concurrent: 5, hold: 25h"),
                  "3:36: error: hold \"25h\": expected at most 1d, after which a place is free "
                  "again in any case\n");
    expect_errors(ONE("concurrent: 5, hold: 0s"),
                  "3:36: error: hold \"0s\": the duration must be longer than zero\n");
    expect_errors(ONE("concurrent: 5, hold: []"),
                  "3:36: error: hold an empty list: expected a duration such as 30s\n");
}

static void test_places_of_errors_within_rates(void **state)
{
    (void)state;
    expect_errors(ONE("rate: 5/parsec"),
                  "3:23: error: rate \"5/parsec\": expected a unit: second, minute, hour, day or "
                  "week (ms, s, m, h, d, w)\n");
    expect_errors(ONE("rate: \"5/parsec\""), /* in quotes: where the text begins */
                  "3:21: error: rate \"5/parsec\": expected a unit: second, minute, hour, day or "
                  "week (ms, s, m, h, d, w)\n");
    expect_errors(
        ONE("rate: 5/month"),
        "3:23: error: rate \"5/month\": months and years have no fixed length: write 30d, or a "
        "quota per month\n");
    expect_errors(ONE("rate: [5/s]"), "3:21: error: rate: expected a rate such as 100/minute, or a "
                                      "map from plans to rates, found a list\n");
    expect_errors(ONE("rate: {default: {}}"), "3:31: error: rate: expected a rate such as "
                                              "100/minute, or a map from plans to rates, found a "
                                              "map\n");
    expect_errors(ONE("rate: 5/s, rate: 6/s"),
                  "3:26: error: expected each key once, found this one again (first on line 3)\n");
}

static void test_names(void **state)
{
    (void)state;
    expect_errors("version: 1\nlimits: [{rate: 5/s}]\n",
                  "2:10: error: expected name: NAME in a limit, found none\n");
    expect_errors("version: 1\nlimits: [{name: \"a b\", rate: 5/s}]\n",
                  "2:17: error: name: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                  "\"a b\"\n");
    expect_errors("version: 1\nlimits: [{name: , rate: 5/s}]\n",
                  "2:17: error: name: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                  "nothing\n");
    expect_errors("version: 1\nlimits: [{name: "
                  "a23456789012345678901234567890123456789012345678901234567890123456, rate: 5/s}]"
                  "\n",
                  "2:17: error: name: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                  "\"a234567890123456789012345678901234567890...\"\n");
    expect_errors("version: 1\nlimits: [{name: x, rate: 5/s}, {name: x, rate: 6/s}]\n",
                  "2:39: error: name: expected a name of its own, found \"x\", the name of the "
                  "limit on line 2\n");
}

static void test_by(void **state)
{
    (void)state;
    expect_errors(KEYED("by: [ip, usr], rate: 5/s"),
                  "4:24: error: by: expected ip, route, method or a name from identity, found "
                  "\"usr\" (did you mean user?)\n");
    expect_errors(KEYED("by: [path], rate: 5/s"),
                  "4:20: error: by: expected route, found \"path\": every caller can make up new "
                  "paths, each of which would be a fresh counter\n");
    expect_errors(KEYED("by: [ip, ip], rate: 5/s"),
                  "4:24: error: by: expected each name once, found \"ip\" again\n");
    expect_errors(KEYED("by: {}, rate: 5/s"),
                  "4:19: error: by: expected a list of names, found a map\n");
    expect_errors("version: 1\nidentity: {u: {given: true}, v: {given: true}}\n"
                  "limits: [{name: a, by: [ip, route, method, u, v], rate: 5/s}]\n",
                  "3:47: error: by: expected at most 4 names, found more\n");
    wr_policy_free(policy_of(KEYED("by: ip, rate: 5/s"))); /* one needs no list */
}

static void test_match(void **state)
{
    (void)state;
    expect_errors(ONE("rate: 5/s, match: {method: [], path: []}"),
                  "3:42: error: method: expected at least one method, found an empty list\n"
                  "3:52: error: path: expected at least one pattern, found an empty list\n");
    expect_errors(ONE("rate: 5/s, match: {method: get}"),
                  "3:42: error: method: expected GET, found \"get\": methods differ by case\n");
    expect_errors(ONE("rate: 5/s, match: {method: \"G T\"}"),
                  "3:42: error: method: expected a method such as GET, found \"G T\"\n");
    expect_errors(ONE("rate: 5/s, match: {path: \"/a/{x y}\"}"),
                  "3:40: error: path \"/a/{x y}\": expected a name of letters, digits, - and _ "
                  "between { and }\n");
    expect_errors(
        ONE("rate: 5/s, match: {path: /ab*}"),
        "3:41: error: path \"/ab*\": expected a wildcard to be a whole segment: {name}, * "
        "or **\n");
    expect_errors(ONE("rate: 5/s, match: {host: x}"),
                  "3:34: error: unknown key \"host\" in match: expected method or path\n");
    expect_errors(ONE("rate: 5/s, match: GET"),
                  "3:33: error: match: expected a map with method or path, found \"GET\"\n");
}

static void test_other_keys(void **state)
{
    (void)state;
    expect_errors(ONE("rate: 5/s, mode: off"),
                  "3:32: error: mode: expected enforce or shadow, found \"off\"\n");
    expect_errors(ONE("rate: 5/s, count_denied: yes"),
                  "3:40: error: count_denied: expected true or false, found \"yes\"\n");
    expect_errors(KEYED("by: user, rate: 5/s, when_missing: no"),
                  "4:50: error: when_missing: expected ip, skip or deny, found \"no\"\n");
    expect_errors(ONE("rate: 5/s, algorithm: tokenbucket"),
                  "3:37: error: algorithm: expected token-bucket, leaky-bucket, fixed-window, "
                  "sliding-window, sliding-log or concurrency, found \"tokenbucket\" (did you mean "
                  "token-bucket?)\n");
    expect_errors(
        ONE("rate: 5/s, algoritm: x"),
        "3:26: error: unknown key \"algoritm\" in a limit: did you mean \"algorithm\"? "
        "(expected name, match, by, when_missing, rate, quota, algorithm, concurrent, hold, "
        "mode, count_denied, ipv6_prefix, shared, store_mode or when_store_gone)\n");
    expect_errors(
        "version: 1\nlimits: [a]\n",
        "2:10: error: a limit: expected a map with name, match, by, when_missing, rate, quota, "
        "algorithm, concurrent, hold, mode, count_denied, ipv6_prefix, shared, "
        "store_mode or when_store_gone, found \"a\"\n");
}

static void test_too_many_limits(void **state)
{
    static char text[200000];
    size_t at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
    (void)state;

    for (int i = 0; i < 2001; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  - {name: l%d, match: {path: /p%d}, rate: 5/s}\n", i, i);
    expect_errors(text, "3:3: error: limits: expected at most 2000 limits, found 2001\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_what_one_plan_implies_holds_for_all),
        cmocka_unit_test(test_flags),
        cmocka_unit_test(test_rates_and_algorithms_that_disagree),
        cmocka_unit_test(test_ranges_are_the_algorithms),
        cmocka_unit_test(test_places_of_errors_within_rates),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_by),
        cmocka_unit_test(test_match),
        cmocka_unit_test(test_other_keys),
        cmocka_unit_test(test_too_many_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
