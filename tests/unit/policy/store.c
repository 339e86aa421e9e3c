/* store.c - the section store: where shared limits are counted. */
#include "requests.h"

#define SHARED_LIMITS "limits: [{name: a, by: [ip], rate: 60/m, shared: true}]\n"

static struct wr_policy *stored(const char *section)
{
    char text[4096];

    (void)snprintf(text, sizeof text, "version: 1\nstore: %s\n" SHARED_LIMITS, section);
    return policy_of(text);
}

/* |section| on line 2 gives exactly |expected|: "column: error: ...". */
static void expect_error(const char *section, const char *expected)
{
    char text[4096], full[4096];

    (void)snprintf(text, sizeof text, "version: 1\nstore: %s\n" SHARED_LIMITS, section);
    (void)snprintf(full, sizeof full, "2:%s\n", expected);
    expect_errors(text, full);
}

static const struct wr_policy_store *store_of(const struct wr_policy *policy)
{
    const struct wr_policy_store *store = wr_policy_settings(policy)->store;

    assert_non_null(store);
    return store;
}

static void test_none(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\nlimits: [{name: a, rate: 5/s}]\n");
    char text[64];
    (void)state;

    assert_null(wr_policy_settings(policy)->store);
    wr_policy_describe_store(policy, text, sizeof text);
    assert_string_equal(text, "");
    wr_policy_free(policy);
}

static void test_defaults(void **state)
{
    struct wr_policy *policy = stored("{redis: {url: 'redis://cache'}}");
    const struct wr_policy_store *store = store_of(policy);
    char text[64];
    (void)state;

    assert_int_equal(store->kind, WR_STORE_REDIS);
    assert_int_equal(store->address_count, 1);
    assert_string_equal(store->addresses[0].host, "cache");
    assert_int_equal(store->addresses[0].port, 6379);
    assert_null(store->addresses[0].path);
    assert_null(store->user);
    assert_null(store->password);
    assert_null(store->password_file);
    assert_int_equal(store->database, 0);
    assert_false(store->leased);
    assert_int_equal(store->deadline_ns, INT64_C(20000000));
    assert_string_equal(store->prefix, "weir");
    assert_null(store->secret);
    assert_null(store->secret_file);
    assert_int_equal(store->nodes, 1);
    assert_int_equal(store->when_gone, WR_GONE_LOCAL);
    assert_string_equal(store->agent_path, "/run/weir/agent.sock");
    wr_policy_describe_store(policy, text, sizeof text);
    assert_string_equal(text, "redis cache:6379; deadline 20ms");
    wr_policy_free(policy);
}

static void test_everything(void **state)
{
    struct wr_policy *policy =
        stored("{redis: {url: 'redis://u%20x:p%3aw%40@[::1]:7000/3'}, mode: leased, deadline: 5ms, "
               "prefix: w2, secret: 0123456789abcdef, nodes: 3, when_gone: closed, "
               "agent: 'unix:/tmp/a b.sock'}");
    const struct wr_policy_store *store = store_of(policy);
    (void)state;

    assert_string_equal(store->user, "u x");
    assert_string_equal(store->password, "p:w@");
    assert_string_equal(store->addresses[0].host, "::1");
    assert_string_equal(store->addresses[0].text, "[::1]:7000");
    assert_int_equal(store->addresses[0].port, 7000);
    assert_int_equal(store->database, 3);
    assert_true(store->leased);
    assert_int_equal(store->deadline_ns, INT64_C(5000000));
    assert_string_equal(store->prefix, "w2");
    assert_string_equal(store->secret, "0123456789abcdef");
    assert_int_equal(store->nodes, 3);
    assert_int_equal(store->when_gone, WR_GONE_CLOSED);
    assert_string_equal(store->agent_path, "/tmp/a b.sock");
    wr_policy_free(policy);
}

static void test_socket_and_files(void **state)
{
    struct wr_policy *policy = stored("{redis: {url: 'unix:///run/redis.sock?db=2', user: weir, "
                                      "password_file: /etc/pw}, secret_file: /etc/secret}");
    const struct wr_policy_store *store = store_of(policy);
    (void)state;

    assert_string_equal(store->addresses[0].path, "/run/redis.sock");
    assert_string_equal(store->addresses[0].text, "unix:/run/redis.sock");
    assert_null(store->addresses[0].host);
    assert_int_equal(store->database, 2);
    assert_string_equal(store->user, "weir");
    assert_string_equal(store->password_file, "/etc/pw");
    assert_string_equal(store->secret_file, "/etc/secret");
    wr_policy_free(policy);

    /* What stands beside the URL goes before it, in any order. */
    policy = stored("{redis: {database: 4, url: 'redis://u:p@h/2', user: v}}");
    store = store_of(policy);
    assert_int_equal(store->database, 4);
    assert_string_equal(store->user, "v");
    assert_string_equal(store->password, "p");
    wr_policy_free(policy);
}

static void test_sentinel(void **state)
{
    struct wr_policy *policy =
        stored("{redis: {sentinel: {master: mymaster, nodes: ['10.0.0.1:26379', 's2:26379'], "
               "password: sp}, password: rp, database: 1}}");
    const struct wr_policy_store *store = store_of(policy);
    (void)state;

    assert_int_equal(store->kind, WR_STORE_SENTINEL);
    assert_string_equal(store->master, "mymaster");
    assert_int_equal(store->address_count, 2);
    assert_string_equal(store->addresses[1].host, "s2");
    assert_string_equal(store->sentinel_password, "sp");
    assert_string_equal(store->password, "rp");
    assert_int_equal(store->database, 1);
    wr_policy_free(policy);
}

static void test_cluster(void **state)
{
    struct wr_policy *policy = stored("{redis: {cluster: [a:1, b:2, c:3, d:4, e:5]}}");
    char text[128];
    (void)state;

    assert_int_equal(store_of(policy)->kind, WR_STORE_CLUSTER);
    assert_int_equal(store_of(policy)->address_count, 5);
    wr_policy_describe_store(policy, text, sizeof text);
    assert_string_equal(text, "redis cluster a:1, b:2, c:3 and 2 more; deadline 20ms");
    wr_policy_free(policy);
}

static void test_memcached(void **state)
{
    static const char text[] =
        "version: 1\nstore: {memcached: {servers: [10.0.0.1:11211, 'unix:/run/mc']}}\n" //
        SHARED_LIMITS;
    struct wr_policy *policy = policy_of(text);
    (void)state;

    assert_int_equal(store_of(policy)->kind, WR_STORE_MEMCACHED);
    assert_string_equal(store_of(policy)->addresses[1].path, "/run/mc");
    wr_policy_free(policy);
    expect_warnings(text,
                    "2:9: warning: memcached forgets what it must when it is full and all when it "
                    "restarts, and has no clock of its own: limits may then let more through; "
                    "redis and ring do not\n");
}

static void test_ring(void **state)
{
    struct wr_policy *policy =
        stored("{ring: {self: 10.0.0.1:7946, peers: [10.0.0.2:7946, 10.0.0.3:7946], "
               "password: x}}");
    (void)state;

    assert_int_equal(store_of(policy)->kind, WR_STORE_RING);
    assert_string_equal(store_of(policy)->self.host, "10.0.0.1");
    assert_null(store_of(policy)->dns.host);
    assert_int_equal(store_of(policy)->nodes, 3);
    wr_policy_free(policy);

    /* Itself among the peers is one node, not two. */
    policy = stored("{ring: {self: a:1, peers: [a:1, b:1], password: x}}");
    assert_int_equal(store_of(policy)->nodes, 2);
    wr_policy_free(policy);

    policy = stored("{ring: {self: a:1, dns: 'weir.internal:7946', password_file: f}, nodes: 5}");
    assert_string_equal(store_of(policy)->dns.host, "weir.internal");
    assert_int_equal(store_of(policy)->dns.port, 7946);
    assert_int_equal(store_of(policy)->nodes, 5);
    wr_policy_free(policy);
}

static void test_bad_urls(void **state)
{
    static const char scheme[] =
        "22: error: url: expected redis://host:port/database or unix:///path?db=N";
    (void)state;

    expect_error("{redis: {url: ''}}", scheme);
    expect_error("{redis: {url: [1]}}", scheme);
    expect_error("{redis: {url: 'http://user:hunter2@h'}}", scheme);
    expect_error("{redis: {url: 'redis://user:hunter2@h:x'}}",
                 "22: error: url: expected a host, and a port or none");
    expect_error("{redis: {url: 'redis://'}}",
                 "22: error: url: expected a host, and a port or none");
    expect_error("{redis: {url: 'redis://h:0'}}",
                 "22: error: url: expected a host, and a port or none");
    expect_error("{redis: {url: 'redis://[::g]:1'}}",
                 "22: error: url: expected a host, and a port or none");
    expect_error("{redis: {url: 'redis://h:1/x'}}",
                 "22: error: url: expected the database as a number");
    expect_error("{redis: {url: 'unix://run/x'}}",
                 "22: error: url: expected an absolute path of at most 107 bytes");
    expect_error("{redis: {url: 'unix:///x?password=hunter2'}}",
                 "22: error: url: expected ?db=N or nothing behind the path");
    expect_error("{redis: {url: 'redis://u:hunter%2@h'}}",
                 "22: error: url: expected user:password before @, with %XX for what is special");
    expect_error("{redis: {url: 'redis://u:%00@h'}}",
                 "22: error: url: expected user:password before @, with %XX for what is special");
    expect_error("{redis: {url: 'rediss://u:hunter2@h'}}",
                 "22: error: url: this build's hiredis has no TLS: use a TLS tunnel such as "
                 "stunnel, or a unix socket");
}

static void test_what_excludes_what(void **state)
{
    (void)state;

    expect_error("{mode: strict}",
                 "8: error: store: expected redis, memcached or ring, found none");
    expect_error("{redis: {url: 'redis://h'}, memcached: {servers: x:1}}",
                 "36: error: expected redis, memcached or ring, found both");
    expect_error("{redis: {user: u, password: p}}",
                 "16: error: redis: expected url, sentinel or cluster, found none");
    expect_error("{redis: {url: 'redis://h', cluster: [a:1]}}",
                 "35: error: expected url, sentinel or cluster, found both");
    expect_error("{redis: {cluster: [a:1], database: 1}}",
                 "43: error: database: expected none, as a cluster has only 0");
    expect_error("{redis: {url: 'redis://h', user: u}}",
                 "16: error: redis: expected a password for the user, found none");
    expect_error("{redis: {password: p, url: 'redis://:q@h'}}",
                 "30: error: expected one password, in url or beside it, found both");
    expect_error("{redis: {url: 'redis://h', password: p, password_file: f}}",
                 "48: error: expected password or password_file, found both");
    expect_error("{redis: {sentinel: {nodes: [a:1]}}}",
                 "27: error: sentinel: expected master and nodes, found no master");
    expect_error("{redis: {sentinel: {master: m}}}",
                 "27: error: sentinel: expected master and nodes, found no nodes");
    expect_error("{ring: {self: a:1, peers: [b:1]}}",
                 "9: error: ring: beyond loopback expected a password or password_file, found "
                 "none");
    expect_error("{ring: {peers: [a:1], password: p}}",
                 "15: error: ring: expected self, the address of this node, found none");
    expect_error("{ring: {self: a:1, password: p}}",
                 "15: error: ring: expected peers or dns, found none");
    expect_error("{ring: {self: a:1, peers: [b:1], dns: c:1, password: p}}",
                 "15: error: ring: expected peers or dns, found both");
    expect_error("{ring: {self: '0.0.0.0:1', peers: [b:1], password: p}}",
                 "22: error: self: expected the address that the other nodes reach this one at, "
                 "found 0.0.0.0:1");
    expect_error("{ring: {self: '[::]:1', peers: [b:1], password: p}}",
                 "22: error: self: expected the address that the other nodes reach this one at, "
                 "found [::]:1");
    expect_error("{memcached: {}}", "20: error: memcached: expected servers, found none");
    expect_error("{redis: {url: 'redis://h'}, secret: 0123456789abcdef, secret_file: f}",
                 "62: error: expected secret or secret_file, found both");
}

static void test_bad_values(void **state)
{
    (void)state;

    expect_error("{redis: {cluster: []}}",
                 "26: error: cluster: expected a list of addresses, found an empty one");
    expect_error("{redis: {cluster: [a:1, a:1]}}",
                 "32: error: cluster: expected each address once, found a:1 again");
    expect_error("{redis: {cluster: [a]}}",
                 "27: error: cluster: expected HOST:PORT, \"[::1]:PORT\", found \"a\"");
    expect_error("{redis: {cluster: ['redis://u:hunter2@h:1']}}",
                 "27: error: cluster: expected HOST:PORT, \"[::1]:PORT\", found a text");
    expect_error("{redis: 'redis://u:hunter2@h'}",
                 "16: error: redis: expected a map with url, sentinel, cluster, user, password, "
                 "password_file or database, found a text");
    expect_error("{redis: {url: 'redis://h', password: []}}",
                 "45: error: password: expected a text, found an empty list");
    expect_error("{redis: {url: 'redis://h'}, deadline: 11s}",
                 "46: error: deadline: expected at most 10s, found \"11s\"");
    expect_error("{redis: {url: 'redis://h'}, deadline: 20}",
                 "48: error: deadline \"20\": expected a unit: second, minute, hour, day or week "
                 "(ms, s, m, h, d, w)");
    expect_error("{redis: {url: 'redis://h'}, nodes: 0}",
                 "43: error: nodes: expected a whole number from 1 to 10000, found \"0\"");
    expect_error("{redis: {url: 'redis://h'}, when_gone: closd}",
                 "47: error: when_gone: expected local, open or closed, found \"closd\" (did you "
                 "mean closed?)");
    expect_error("{redis: {url: 'redis://h'}, agent: /run/x}",
                 "43: error: agent: expected unix:/absolute/path, found \"/run/x\"");
    expect_error("{redis: {url: 'redis://h'}, prefix: 'a b'}",
                 "44: error: prefix: expected 1 to 64 letters, digits, '.', '_' or '-', found "
                 "\"a b\"");
}

static void test_warnings(void **state)
{
    (void)state;

    expect_warnings("version: 1\n"
                    "store: {redis: {url: 'redis://h'}, deadline: 2s, secret: short}\n" //
                    SHARED_LIMITS,
                    "2:46: warning: a deadline above 1s: requests wait for this long each time "
                    "the store goes away\n"
                    "2:58: warning: secret: fewer than 16 characters can be guessed\n");
    expect_warnings("version: 1\n"
                    "store: {ring: {self: '127.0.0.1:1', peers: [localhost:1]}}\n" //
                    SHARED_LIMITS,
                    "2:9: warning: a ring without a password takes charges from whoever reaches "
                    "its port\n");
    expect_warnings("version: 1\n"
                    "store: {ring: {self: '127.0.0.1:1', peers: [b:1], password: p}}\n" //
                    SHARED_LIMITS,
                    "2:22: warning: self is on loopback, where the peer b:1 cannot reach it: it "
                    "will not be of that one's ring\n");
    expect_warnings("version: 1\n"
                    "store: {redis: {url: 'redis://h'}}\n"
                    "limits: [{name: a, by: [ip], rate: 5/s}]\n",
                    "2:1: warning: store has no effect: no limit is shared\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_none),       cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_everything), cmocka_unit_test(test_socket_and_files),
        cmocka_unit_test(test_sentinel),   cmocka_unit_test(test_cluster),
        cmocka_unit_test(test_memcached),  cmocka_unit_test(test_ring),
        cmocka_unit_test(test_bad_urls),   cmocka_unit_test(test_what_excludes_what),
        cmocka_unit_test(test_bad_values), cmocka_unit_test(test_warnings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
