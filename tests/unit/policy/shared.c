/* shared.c - what a limit says about the store, and whether the store can hold it. */
#include "requests.h"

#define REDIS "{redis: {url: 'redis://h'}}"

static struct wr_policy *limits_in(const char *store, const char *limits)
{
    char text[4096];

    (void)snprintf(text, sizeof text, "version: 1\nstore: %s\nlimits:\n%s", store, limits);
    return policy_of(text);
}

/* Limit |limit| on line 4 gives exactly |expected|, "4:column: ...". */
static void expect(const char *store, const char *limit, const char *expected, bool good)
{
    char text[4096];

    (void)snprintf(text, sizeof text, "version: 1\nstore: %s\nlimits:\n  - %s\n", store, limit);
    if (good)
        expect_warnings(text, expected);
    else
        expect_errors(text, expected);
}

static void test_modes(void **state)
{
    struct wr_policy *policy =
        limits_in("{redis: {url: 'redis://h'}, mode: leased, when_gone: open, nodes: 4}",
                  "  - {name: a, by: [ip], rate: 500/s, shared: true}\n"
                  "  - {name: b, by: [ip], rate: 600/s, shared: true, store_mode: strict}\n"
                  "  - {name: c, by: [ip], rate: 7/s}\n"
                  "  - {name: d, by: [ip], rate: 800/s, when_store_gone: local, shared: true}\n"
                  "  - {name: e, by: [ip], rate: 900/s, when_store_gone: closed, shared: true}\n"
                  "  - {name: f, by: [ip], rate: 9/s, shared: true}\n");
    static const struct {
        bool shared, leased;
        enum wr_when_gone when_gone;
        const char *words;
    } expected[] = {{true, true, WR_GONE_OPEN, "shared, leased; store gone: open"},
                    {true, false, WR_GONE_OPEN, "shared, strict; store gone: open"},
                    {false, false, WR_GONE_LOCAL, ""},
                    {true, true, WR_GONE_LOCAL, "shared, leased; store gone: 1/4 of it here"},
                    {true, true, WR_GONE_CLOSED, "shared, leased; store gone: closed"},
                    {true, true, WR_GONE_OPEN, "shared, strict; store gone: open"}};
    (void)state;

    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        const struct wr_policy_limit *limit = wr_policy_limit(policy, i);
        char words[64];
        wr_policy_describe_shared(policy, i, words, sizeof words);
        assert_int_equal(limit->shared, expected[i].shared);
        assert_int_equal(limit->leased, expected[i].leased);
        assert_int_equal(limit->when_gone, expected[i].when_gone);
        assert_string_equal(words, expected[i].words);
    }
    wr_policy_free(policy);
}

/* 1/s is too little to be leased, 1000/s is not. */
static void test_the_mode_by_plan(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\narena: {size: 4MiB}\nidentity: {plan: {default: free}}\n"
                  "store: {redis: {url: 'redis://h'}, mode: leased, nodes: 2}\nlimits:\n"
                  "  - {name: a, by: [ip], shared: true, rate: {free: 1/s, pro: 1000/s}}\n");
    char words[80];
    (void)state;

    wr_policy_describe_shared(policy, 0, words, sizeof words);
    assert_string_equal(words, "shared, leased under some plans; store gone: 1/2 of it here");
    wr_policy_free(policy);
}

static void test_all_shared(void **state)
{
    struct wr_policy *policy = limits_in("{redis: {url: 'redis://h'}, shared: true}",
                                         "  - {name: a, by: [ip], rate: 5/s}\n"
                                         "  - {name: b, by: [ip], rate: 6/s, shared: false}\n");
    char words[64];
    (void)state;

    assert_true(wr_policy_limit(policy, 0)->shared);
    assert_false(wr_policy_limit(policy, 1)->shared);
    wr_policy_describe_shared(policy, 0, words, sizeof words);
    assert_string_equal(words, "shared, strict; store gone: its part here");
    wr_policy_free(policy);
}

static void test_without_a_store(void **state)
{
    (void)state;

    expect_errors("version: 1\nlimits: [{name: a, by: [ip], rate: 5/s, shared: true}]\n",
                  "2:49: error: shared: expected a store in the policy, found none\n");
    expect_warnings("version: 1\nlimits: [{name: a, by: [ip], rate: 5/s, store_mode: leased}]\n",
                    "2:41: warning: store_mode has no effect: the limit is not shared\n");
    expect_warnings(
        "version: 1\nlimits: [{name: a, by: [ip], rate: 5/s, when_store_gone: closed}]\n",
        "2:41: warning: when_store_gone has no effect: the limit is not shared\n");
    expect(REDIS, "{name: a, by: [ip], rate: 5/s, shared: maybe}",
           "4:44: error: shared: expected true or false, found \"maybe\"\n", false);
    expect(REDIS, "{name: a, by: [ip], rate: 5/s, shared: true, when_store_gone: shut}",
           "4:67: error: when_store_gone: expected local, open or closed, found \"shut\"\n", false);
}

#define STAYS ": it stays strict, a round trip for each decision; store_mode: strict says so\n"

static void test_what_cannot_be_leased(void **state)
{
    (void)state;

    expect(REDIS, "{name: a, by: [ip], rate: 5/s queue 2, shared: true, store_mode: leased}",
           "4:70: warning: leaky-bucket cannot be leased, its delays are by the order of all "
           "requests" STAYS,
           true);
    expect("{redis: {url: 'redis://h'}, mode: leased}",
           "{name: a, by: [ip], rate: 5/s, algorithm: sliding-log, shared: true}",
           "4:5: warning: sliding-log cannot be leased, it keeps the moment of each "
           "request" STAYS,
           true);
    expect(REDIS,
           "{name: a, by: [ip], rate: 5/s, count_denied: true, shared: true, store_mode: leased}",
           "4:82: warning: count_denied cannot be leased, as each refusal is charged" STAYS, true);
    expect("{redis: {url: 'redis://h'}, mode: leased}",
           "{name: a, by: [ip], concurrent: 5, shared: true}",
           "4:5: warning: concurrency cannot be leased, a place belongs to one request" STAYS,
           true);
    expect("{redis: {url: 'redis://h'}, mode: leased}",
           "{name: a, by: [ip], concurrent: 5, shared: true, store_mode: strict}", "", true);
}

#define LEASED3 "{redis: {url: 'redis://h'}, mode: leased, nodes: 3}"
#define SMALL "too small to be leased, less than 16 units or than 8 for each node" STAYS

/* A lease lasts an eighth of the window, or of a burst's refill, 16 ms at least and 1 s at most;
 * what comes in meanwhile, rounded up, is kept back of a bucket. */
static void test_what_leasing_does_to_a_limit(void **state)
{
    (void)state;

    /* 100/s burst 100: an eighth of a second, 12.5 units, so 13. */
    expect(LEASED3, "{name: a, by: [ip], rate: 100/s burst 100, shared: true}",
           "4:31: warning: leased, a burst of 100 is one of 87 at the store: a cost above that "
           "never passes\n",
           true);
    expect(LEASED3, "{name: a, by: [ip], rate: 1000/hour burst 95, shared: true}",
           "4:31: warning: leased, a burst of 95 is one of 94 at the store: a cost above that "
           "never passes\n",
           true);
    expect(LEASED3, "{name: a, by: [ip], rate: 24/hour, shared: true}", "", true);
    expect(LEASED3, "{name: a, by: [ip], rate: 23/hour, shared: true}", "4:31: warning: " SMALL,
           true); /* 7 a node */
    expect(REDIS, "{name: a, by: [ip], rate: 16/hour, shared: true, store_mode: leased}", "", true);
    expect(REDIS, "{name: a, by: [ip], rate: 15/hour, shared: true, store_mode: leased}",
           "4:31: warning: " SMALL, true);
    expect(LEASED3, "{name: a, by: [ip], rate: 100000/100ms, shared: true}",
           "4:31: warning: too quick to be leased, its window is shorter than 128 ms" STAYS, true);
    expect(LEASED3, "{name: a, by: [ip], rate: 1000/s burst 100, shared: true}",
           "4:31: warning: too quick to be leased, its burst comes back in less than 128 ms" STAYS,
           true);
    expect(LEASED3, "{name: a, by: [ip], rate: 10/hour, shared: true, store_mode: strict}", "",
           true);
    expect(LEASED3, "{name: a, by: [ip], rate: 0/hour, shared: true}",
           "4:31: warning: a limit of 0 refuses every request\n", true);
}

#define TOO_FINE                                                                          \
    "too fine for Redis to count exactly: use a smaller burst or queue, or numbers with " \
    "a common factor (1000/minute for 1001/minute), or sliding-window\n"

/* A unit of N/W is W_us / gcd(N, W_us) ticks. 7/day burst B: gcd(7, 86 400 000 000) = 1 (the latter
 * is 2^13 3^3 5^8), so 2 B 8.64e10 < 2^53 = 9007199254740992 holds up to B = 52124.99. */
static void test_too_fine_for_redis(void **state)
{
    (void)state;

    expect(REDIS, "{name: a, by: [ip], rate: 7/day burst 52124, shared: true}", "", true);
    expect(REDIS, "{name: a, by: [ip], rate: 7/day burst 52125, shared: true}",
           "4:31: error: " TOO_FINE, false);
    /* A queue of Q holds Q + 1. */
    expect(REDIS, "{name: a, by: [ip], rate: 7/day queue 52123, shared: true}", "", true);
    expect(REDIS, "{name: a, by: [ip], rate: 7/day queue 52124, shared: true}",
           "4:31: error: " TOO_FINE, false);
    /* 6/day: a sixth of a day a unit. */
    expect(REDIS, "{name: a, by: [ip], rate: 6/day burst 52125, shared: true}", "", true);
    /* C counts in 64 bits and more. */
    expect("{ring: {self: a:1, peers: [b:1], password: p}}",
           "{name: a, by: [ip], rate: 7/day burst 52125, shared: true}", "", true);
    expect(REDIS, "{name: a, by: [ip], rate: 7/day burst 52125}",
           "2:1: warning: store has no effect: no limit is shared\n", true);
}

static void test_what_memcached_cannot_hold(void **state)
{
    static const char loses[] =
        "2:9: warning: memcached forgets what it must when it is full and all when it restarts, "
        "and has no clock of its own: limits may then let more through; redis and ring do not\n";
    char expected[1024];
    (void)state;

    (void)snprintf(expected, sizeof expected,
                   "%s4:45: error: memcached cannot hold sliding-log: use redis or a ring\n",
                   loses);
    expect("{memcached: {servers: a:1}}",
           "{name: a, by: ip, rate: 5/s, algorithm: sliding-log, shared: true}", expected, false);
    (void)snprintf(expected, sizeof expected,
                   "%s4:5: error: memcached cannot hold concurrency: use redis or a ring\n", loses);
    expect("{memcached: {servers: a:1}}", "{name: a, by: ip, concurrent: 5, shared: true}",
           expected, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_modes),
        cmocka_unit_test(test_the_mode_by_plan),
        cmocka_unit_test(test_all_shared),
        cmocka_unit_test(test_without_a_store),
        cmocka_unit_test(test_what_cannot_be_leased),
        cmocka_unit_test(test_what_leasing_does_to_a_limit),
        cmocka_unit_test(test_too_fine_for_redis),
        cmocka_unit_test(test_what_memcached_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
