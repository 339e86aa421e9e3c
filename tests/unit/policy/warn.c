/* warn.c - what is legal but unwise, each with a policy that is not warned of. */
#include "requests.h"

#define ID(text) "version: 1\nidentity: {" text "}\n"

static void test_proxies(void **state)
{
    (void)state;
    expect_warnings(ID("ip: {from: x-forwarded-for}") LIMITS,
                    "2:23: warning: X-Forwarded-For is never believed: identity.ip.trusted names "
                    "no proxy, so behind one all callers share its address\n");
    expect_warnings(ID("ip: {from: CF-Connecting-IP, trusted: []}") LIMITS,
                    "2:23: warning: CF-Connecting-IP is never believed: identity.ip.trusted names "
                    "no proxy, so behind one all callers share its address\n");
    expect_warnings(ID("ip: {from: forwarded, trusted: [10.0.0.0/8]}") LIMITS, "");
    expect_warnings(ID("ip: {from: peer}") LIMITS, "");
    expect_warnings(ID("ip: {from: x-forwarded-for, hops: 1}") LIMITS,
                    "2:46: warning: hops without trusted believes every peer: whoever reaches this "
                    "host past the proxies chooses its address\n");
    expect_warnings(ID("ip: {from: x-forwarded-for, hops: 1, trusted: 10.0.0.1}") LIMITS, "");
    expect_warnings(ID("ip: {trusted: [0.0.0.0/0, \"::/0\"]}") LIMITS,
                    "2:27: warning: trusted: \"0.0.0.0/0\" believes everybody: any caller can "
                    "claim any address\n"
                    "2:38: warning: trusted: \"::/0\" believes everybody: any caller can claim any "
                    "address\n");
    expect_warnings("version: 1\nbans: [{ip: \"::/64\"}, {ip: \"::/0\"}, {ip: 0.0.0.0/0}]\n" LIMITS,
                    "2:28: warning: bans: \"::/0\" bans every caller\n"
                    "2:42: warning: bans: \"0.0.0.0/0\" bans every caller of IPv4\n");
    expect_warnings(ID("plan: {header: X-Plan}") LIMITS,
                    "2:18: warning: the plan's header is never believed: identity.ip.trusted names "
                    "no proxy\n");
}

static void test_identities(void **state)
{
    (void)state;
    expect_warnings(ID("user: {header: X-User}") LIMITS,
                    "2:18: warning: user is never believed from its header: identity.ip.trusted "
                    "names no proxy; a value given by the host program is\n");
    expect_warnings(ID("ip: {trusted: [10.0.0.1]}, user: {header: X-User}") LIMITS, "");
    expect_warnings(ID("user: {given: true}") LIMITS, "");
    expect_warnings(ID("user: {header: X-User, trust: anyone}") LIMITS,
                    "2:42: warning: user is believed from anyone: a caller can claim to be "
                    "somebody else, or somebody new each time\n");
    expect_warnings(ID("api_key: {header: X-Api-Key}") LIMITS, "");
}

#define MADE_UP                                                                                  \
    "warning: a caller can make up a new api_key for each request and get a fresh counter: put " \
    "a limit by ip for all requests beside it\n"

static void test_keys_that_callers_make_up(void **state)
{
    (void)state;
    expect_warnings(ID("api_key: {header: K}") "limits: [{name: a, by: [api_key], rate: 5/s}]\n",
                    "3:24: " MADE_UP);
    expect_warnings(ID("api_key: {header: K}") "limits:\n"
                                               "  - {name: a, by: [api_key], rate: 5/s}\n"
                                               "  - {name: b, by: [ip], rate: 50/s, match: {path: "
                                               "/a}}\n", /* not
                                                            for
                                                            all
                                                          */
                    "4:19: " MADE_UP);
    expect_warnings(
        ID("api_key: {header: K}") "limits:\n"
                                   "  - {name: a, by: [api_key], rate: 5/s}\n"
                                   "  - {name: b, by: [ip], rate: 50/s, mode: shadow}\n", /* does
                                                                                             not
                                                                                             hold */
        "4:19: " MADE_UP);
    expect_warnings(ID("api_key: {header: K}") "limits:\n"
                                               "  - {name: a, by: [api_key], rate: 5/s}\n"
                                               "  - {name: b, by: [ip], rate: 50/s}\n",
                    "");
    expect_warnings(
        ID("api_key: {header: K}") "limits: [{name: a, by: [ip, api_key], rate: 5/s}]\n", "");
    expect_warnings(ID("api_key: {given: true}") "limits: [{name: a, by: [api_key], rate: 5/s}]\n",
                    "");
}

/* A limit of 0 to try: nobody is refused. */
static void test_a_limit_of_0_in_shadow(void **state)
{
    (void)state;
    expect_warnings("version: 1\nlimits:\n  - {name: a, by: [ip], rate: 0/hour}\n",
                    "3:31: warning: a limit of 0 refuses every request\n");
    expect_warnings("version: 1\nlimits:\n  - {name: a, by: [ip], rate: 0/hour, mode: shadow}\n",
                    "");
}

/* Of a daemon's HTTP door; nginx and libweir answer with it, and nothing is taken for a failure. */
static void test_statuses(void **state)
{
    (void)state;
    expect_warnings("version: 1\n" LIMITS "listen: {http: '127.0.0.1:0'}\n"
                    "answers: {status: 503, ban_status: 500}\n",
                    "4:19: warning: status: proxies take 5xx for a failure, and may let the "
                    "request pass: /v1/auth answers 429 in place of 503, unless it is asked with "
                    "deny=503\n"
                    "4:36: warning: ban_status: proxies take 5xx for a failure, and may let the "
                    "request pass: /v1/auth answers 429 in place of 500, unless it is asked with "
                    "deny=500\n");
    expect_warnings("version: 1\n" LIMITS "listen: {http: '127.0.0.1:0'}\n"
                    "answers: {status: 499, ban_status: 403}\n",
                    "");
    expect_warnings("version: 1\n" LIMITS "answers: {status: 503}\n", "");
}

static void test_rates(void **state)
{
    (void)state;
    expect_warnings("version: 1\nlimits: [{name: a, by: [ip], rate: 0/s}]\n",
                    "2:36: warning: a limit of 0 refuses every request\n");
    expect_warnings("version: 1\nlimits: [{name: a, by: [ip], concurrent: 0}]\n",
                    "2:42: warning: a limit of 0 refuses every request\n");
    expect_warnings("version: 1\nlimits: [{name: a, rate: 5/s, algorithm: fixed-window}]\n",
                    "2:42: warning: fixed-window lets twice its rate pass around the boundary of "
                    "two windows; sliding-window does not\n");
    expect_warnings("version: 1\nlimits: [{name: a, rate: 5/s, algorithm: leaky-bucket}]\n",
                    "2:26: warning: leaky-bucket without a queue refuses every request that comes "
                    "sooner after another than the rate's spacing; queue N lets N wait\n");
    expect_warnings("version: 1\nlimits: [{name: a, rate: 1500/h, algorithm: sliding-log}]\n",
                    "2:26: warning: a sliding-log of 1500 keeps up to 6 KiB a key; sliding-window "
                    "keeps 16 bytes\n");
    expect_warnings("version: 1\nlimits: [{name: a, rate: unlimited}]\n",
                    "2:10: warning: a never limits: it is unlimited for every plan\n");
    expect_warnings("version: 1\nlimits: [{name: a, by: [ip], rate: 5/s, when_missing: deny}]\n",
                    "2:41: warning: when_missing has no effect: nothing in by can be missing\n");
}

static void test_limits_that_say_the_same(void **state)
{
    (void)state;
    expect_warnings("version: 1\n"
                    "limits:\n"
                    "  - {name: a, by: [ip], rate: 60/m}\n"
                    "  - {name: b, by: [ip], rate: 60/minute}\n"
                    "  - {name: c, by: [ip], rate: 60/m, mode: shadow}\n"
                    "  - {name: d, by: [ip], rate: 61/m}\n"
                    "  - {name: e, by: [ip], rate: 60/m, match: {method: GET}}\n"
                    "  - {name: f, by: [ip], rate: 60/m, ipv6_prefix: 48}\n",
                    "4:5: warning: b says the same as a and is never the one that refuses\n");
}

static void test_costs_and_plans(void **state)
{
    (void)state;
    expect_warnings("version: 1\n" LIMITS "costs:\n"
                    "  - {match: {method: GET}, cost: 2}\n"
                    "  - {cost: 3}\n"
                    "  - {match: {path: /a}, cost: 4}\n",
                    "6:5: warning: this cost is never used: the one before it is for all requests, "
                    "and the first that matches counts\n");
    expect_warnings("version: 1\n" LIMITS "costs: [{match: {path: /a}, cost: 4}, {cost: 3}]\n", "");
    expect_warnings(
        ID("api_key: {header: K}, plan: {default: f, keys: {k1: pro, k2: por, k3: f}}") "limits: "
                                                                                        "[{name: "
                                                                                        "a, by: "
                                                                                        "[ip], "
                                                                                        "rate: {f: "
                                                                                        "1/s, pro: "
                                                                                        "2/s}}]\n",
        "2:73: warning: no limit has a rate for this plan: the default plan's rates "
        "count for the key\n");
}

static void test_small_arenas(void **state)
{
    (void)state;
    expect_warnings("version: 1\narena: {size: 1MiB, logs: 90%}\n"
                    "limits: [{name: a, by: [ip], concurrent: 3}]\n",
                    "2:15: warning: the arena is meant for about 1638 live keys; under more, "
                    "callers who used little are forgotten first\n");
    expect_warnings("version: 1\narena: {size: 1MiB, logs: 50%}\n"
                    "limits: [{name: a, by: [ip], rate: 10000/h, algorithm: sliding-log}]\n",
                    "3:36: warning: a sliding-log of 10000 keeps up to 41 KiB a key; "
                    "sliding-window keeps 16 bytes\n"
                    "3:36: warning: the arena has room for only 12 full lists of this limit: make "
                    "arena.size larger, or use sliding-window\n");
}

/* Limits that one request meets beyond the sixteenth would not hold: an error, not a warning. */
static void test_too_many_limits_at_once(void **state)
{
    static char text[65536];
    size_t at;
    (void)state;

    for (int n = 16; n <= 17; n++) {
        at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
        for (int i = 0; i < n; i++)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "  - {name: l%d, by: [ip], rate: %d/s, match: {method: POST, "
                                   "path: %s}}\n",
                                   i, i + 5, i % 2 ? "/a/**" : "\"/a/{x}/b\"");
        if (n == 16)
            expect_warnings(text, "");
        else
            expect_errors(text, "2:1: error: expected at most 16 limits for one request, found "
                                "more for POST /a/{x}/b: those behind would not hold\n");
    }
    at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
    for (int i = 0; i < 34; i++)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  - {name: l%d, by: [ip], rate: %d/s, match: {method: %s}}\n", i,
                               i + 5, i % 2 ? "GET" : "[PUT, POST]");
    expect_errors(text, "2:1: error: expected at most 16 limits for one request, found more for "
                        "PUT /: those behind would not hold\n");
}

#define QUEUES(store, second)                                               \
    "version: 1\n"                                                          \
    "store: {" store ", deadline: 50ms, mode: strict, shared: true}\n"      \
    "limits:\n"                                                             \
    "  - {name: all, by: [ip], rate: 900/s}\n"                              \
    "  - {name: a, by: [ip], rate: 5/s queue 9, algorithm: leaky-bucket}\n" \
    "  - {name: b, " second "}\n"

static void test_leaky_buckets_in_several_places(void **state)
{
    static const char warning[] =
        "6:5: warning: a request of this leaky bucket and of a, which counts by other parts, may "
        "be refused by one and keep its place in the other: a cluster asks them one after the "
        "other; count both by the same parts\n";
    (void)state;

    expect_warnings(QUEUES("redis: {cluster: ['h:1']}",
                           "by: [ip, route], rate: 5/s queue 9, algorithm: leaky-bucket"),
                    warning);
    expect_warnings(
        QUEUES("redis: {cluster: ['h:1']}", "by: [ip], rate: 6/s queue 9, algorithm: leaky-bucket"),
        "");
    expect_warnings(QUEUES("redis: {cluster: ['h:1']}", "by: [ip, route], rate: 5/s"), "");
    expect_warnings(QUEUES("redis: {url: 'redis://h'}",
                           "by: [ip, route], rate: 5/s queue 9, algorithm: leaky-bucket"),
                    "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proxies),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_keys_that_callers_make_up),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_statuses),
        cmocka_unit_test(test_a_limit_of_0_in_shadow),
        cmocka_unit_test(test_limits_that_say_the_same),
        cmocka_unit_test(test_costs_and_plans),
        cmocka_unit_test(test_small_arenas),
        cmocka_unit_test(test_too_many_limits_at_once),
        cmocka_unit_test(test_leaky_buckets_in_several_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
