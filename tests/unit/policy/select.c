/* select.c - which limits a request meets, and by which keys. */
#include "requests.h"

static const char design[] =
    "version: 1\n"
    "arena: {path: /run/weir/arena, size: 64MiB}\n"
    "\n"
    "identity:\n"
    "  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8, 127.0.0.1], ipv6_prefix: 64}\n"
    "  api_key: {header: X-Api-Key}\n"
    "  user: {header: X-User-Id}            # believed only from trusted peers\n"
    "  plan: {header: X-Plan, default: free, keys: {k_live_123: pro}}\n"
    "\n"
    "costs:\n"
    "  - {match: {method: POST, path: /reports}, cost: 10}\n"
    "\n"
    "limits:\n"
    "  - name: per-ip                       # broad, for NAT\n"
    "    by: [ip]\n"
    "    rate: 600/minute\n"
    "  - name: per-key                      # standard, by plan\n"
    "    by: [api_key]\n"
    "    when_missing: ip                   # ip | skip | deny\n"
    "    rate: {free: 100/hour, pro: 1000/hour, enterprise: 10000/hour burst 2000}\n"
    "    algorithm: token-bucket\n"
    "  - name: search\n"
    "    match: {method: [GET, POST], path: /search/**}\n"
    "    by: [api_key, route]\n"
    "    rate: 30/minute\n"
    "    algorithm: sliding-log\n"
    "  - name: db-export\n"
    "    match: {path: \"/export/{id}\"}\n"
    "    rate: 5/second queue 20            # leaky bucket\n"
    "    algorithm: leaky-bucket\n"
    "  - name: uploads\n"
    "    match: {path: /upload}\n"
    "    by: [ip]\n"
    "    concurrent: 4\n"
    "    hold: 30s\n"
    "  - name: new-rule\n"
    "    by: [user]\n"
    "    rate: 10/second\n"
    "    mode: shadow\n";

static void test_example_of_the_design(void **state)
{
    struct wr_policy *policy = policy_of(design);
    struct wr_selection sel;
    struct asking a;
    (void)state;

    assert_int_equal(wr_policy_limit_count(policy), 6);
    assert_int_equal(wr_policy_plan_count(policy), 3);
    assert_string_equal(wr_policy_plan(policy, 0), "free");
    assert_string_equal(wr_policy_plan(policy, 1), "pro");
    assert_string_equal(wr_policy_plan(policy, 2), "enterprise");
    assert_int_equal(wr_policy_default_plan(policy), 0);

    ask(&a, policy, "GET", "/search/a/b?q=1", "9.9.9.9");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "per-ip=i:9.9.9.9 per-key=f:9.9.9.9 search=f:9.9.9.9,v:/search/** "
                        "new-rule=f:9.9.9.9");
    assert_int_equal(sel.cost, 1);
    assert_int_equal(sel.plan, 0);
    assert_string_equal(sel.route, "/search/**");

    ask(&a, policy, "POST", "//reports/", "10.0.0.2");
    put_header(&a, policy, "X-Forwarded-For", "6.6.6.6, 1.2.3.4, 10.0.0.9");
    put_header(&a, policy, "X-Api-Key", "k_live_123");
    put_header(&a, policy, "X-User-Id", "anna");
    put_header(&a, policy, "X-Plan", "enterprise");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "per-ip=i:1.2.3.4 per-key=v:k_live_123 new-rule=v:anna");
    assert_int_equal(sel.cost, 10);
    assert_int_equal(sel.plan, 1); /* by its key, which goes before the header */
    assert_string_equal(sel.route, "/reports");

    ask(&a, policy, "GET", "/export/7", "10.0.0.2");
    put_header(&a, policy, "X-Plan", "enterprise");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "per-ip=i:10.0.0.2 per-key=f:10.0.0.2 db-export new-rule=f:10.0.0.2");
    assert_int_equal(sel.plan, 2);

    ask(&a, policy, "PUT", "/upload", "2001:db8:7:8::1");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "per-ip=i:2001:db8:7:8:: per-key=f:2001:db8:7:8:: "
                        "uploads=i:2001:db8:7:8:: new-rule=f:2001:db8:7:8::");
    wr_policy_free(policy);
}

static void test_the_client(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity: {ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}}\n"
                  "limits: [{name: a, by: [ip], rate: 5/s}]\n");
    static const struct {
        const char *peer, *xff, *key;
    } cases[] = {
        {"10.0.0.2", "6.6.6.6, 1.2.3.4, 10.0.0.9", "a=i:1.2.3.4"},
        {"9.9.9.9", "1.2.3.4", "a=i:9.9.9.9"},
        {"9.9.9.9:1234", NULL, "a=i:9.9.9.9"},
        {"[2001:db8:7:8::1]:99", NULL, "a=i:2001:db8:7:8::"},
        {"::ffff:9.9.9.9", NULL, "a=i:9.9.9.9"},
        {"fe80::1:2:3%eth0", NULL, "a=i:fe80::"},
        {"host.example", "1.2.3.4", "a=h:host.example"}, /* no address: never trusted */
        {"", "1.2.3.4", "a=h:"},                         /* a unix socket */
        {NULL, NULL, "a=h:"},
        {"10.0.0.2", "evil", "a=i:10.0.0.2"},
        {"64:ff9b::192.0.2.1", NULL, "a=i:64:ff9b::"}, /* NAT64 stays IPv6 */
    };
    struct wr_selection sel;
    struct asking a;
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(&a, policy, "GET", "/", cases[i].peer);
        put_header(&a, policy, "X-Forwarded-For", cases[i].xff);
        wr_policy_select(policy, &a.request, &sel);
        assert_string_equal(show(policy, &sel, true), cases[i].key);
    }
    wr_policy_free(policy);
}

static void test_prefix_of_a_limit(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity: {ip: {ipv6_prefix: 56}, user: {given: true}}\n"
                  "limits:\n"
                  "  - {name: a, by: [ip], rate: 5/s}\n"
                  "  - {name: b, by: [ip], rate: 50/s, ipv6_prefix: 48}\n"
                  "  - {name: c, by: [user], rate: 50/s, ipv6_prefix: 32}\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "2001:db8:1234:5678::1");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "a=i:2001:db8:1234:5600:: b=i:2001:db8:1234:: c=f:2001:db8::");
    ask(&a, policy, "GET", "/", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true), "a=i:1.2.3.4 b=i:1.2.3.4 c=f:1.2.3.4");
    wr_policy_free(policy);
}

static void test_when_missing(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity:\n"
                  "  ip: {trusted: [10.0.0.0/8]}\n"
                  "  api_key: {header: X-Api-Key}\n"
                  "  user: {header: X-User}\n"
                  "limits:\n"
                  "  - {name: fall, by: [api_key], rate: 5/s}\n"
                  "  - {name: skip, by: [api_key], rate: 5/s, when_missing: skip}\n"
                  "  - {name: deny, by: [route, api_key], rate: 5/s, when_missing: deny}\n"
                  "  - {name: both, by: [user, api_key], rate: 5/s}\n"
                  "  - {name: all, rate: 500/s}\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "9.9.9.9");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "fall=f:9.9.9.9 deny=v:! both=f:9.9.9.9,f:9.9.9.9 all");
    put_header(&a, policy, "X-Api-Key", "k1");
    put_header(&a, policy, "X-User", "anna"); /* not believed from this peer */
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "fall=v:k1 skip=v:k1 deny=v:,v:k1 both=f:9.9.9.9,v:k1 all");
    put_header(&a, policy, "X-Api-Key", ""); /* empty is missing */
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "fall=f:9.9.9.9 deny=v:! both=f:9.9.9.9,f:9.9.9.9 all");
    put_header(&a, policy, "X-Api-Key", " \t ");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, false), "fall deny! both all");
    a.request.peer = slice("a.host");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true), "fall=g:a.host deny=v:! both=g:a.host,g:a.host "
                                                  "all");
    a.request.peer = slice("10.1.2.3");
    put_header(&a, policy, "X-Api-Key", " k2\t");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true),
                        "fall=v:k2 skip=v:k2 deny=v:,v:k2 both=v:anna,v:k2 all");
    wr_policy_free(policy);
}

static void test_given_keys_win(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity: {api_key: {header: X-Api-Key}, tenant: {given: true}}\n"
                  "limits:\n"
                  "  - {name: a, by: [api_key], rate: 5/s}\n"
                  "  - {name: b, by: [tenant], rate: 5/s}\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "9.9.9.9");
    put_header(&a, policy, "X-Api-Key", "claimed");
    put_key(&a, policy, "api_key", "verified");
    put_key(&a, policy, "tenant", " t1 "); /* as it stands */
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true), "a=v:verified b=v: t1 ");
    put_key(&a, policy, "api_key", ""); /* the host program says: nobody */
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true), "a=f:9.9.9.9 b=v: t1 ");
    wr_policy_free(policy);
}

static void test_long_keys_with_any_bytes(void **state)
{
    static char key[65536];
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "identity: {api_key: {header: X-Api-Key}, plan: {keys: {\"k\": p}}}\n"
                  "limits: [{name: a, by: [api_key, ip], rate: {default: 5/s, p: 6/s}}]\n"
                  "bans: [{api_key: b}]\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)(i * 7); /* NUL and 8-bit bytes among them */
    ask(&a, policy, "GET", "/", "9.9.9.9");
    put_field(&a, policy, WEIR_FIELD_HEADER, "X-Api-Key", (struct weir_slice){key, sizeof key});
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.count, 1);
    assert_ptr_equal(sel.selected[0].part[0].bytes.ptr, key);
    assert_int_equal(sel.selected[0].part[0].bytes.len, sizeof key);
    assert_int_equal(sel.plan, 0);
    assert_false(sel.banned);
    put_field(&a, policy, WEIR_FIELD_HEADER, "X-Api-Key", (struct weir_slice){"k\0", 2});
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.plan, 0); /* "k\0" is not "k" */
    wr_policy_free(policy);
}

static void test_routes(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "routes: [\"/users/{id}\", \"/users/{id}/posts\", /**/feed]\n"
                  "costs: [{match: {path: /users/me}, cost: 2}]\n"
                  "limits:\n"
                  "  - {name: all, by: [route], rate: 5/s}\n"
                  "  - name: own\n"
                  "    by: [route, method]\n"
                  "    match: {path: [/users/**, /users/*/posts, /users/me/**]}\n"
                  "    rate: 5/s\n");
    static const struct {
        const char *path, *keys, *route;
    } cases[] = {
        {"/", "all=v:", ""},
        {"/users/7", "all=v:/users/{id} own=v:/users/**,v:GET", "/users/{id}"},
        {"/users/me", "all=v:/users/me own=v:/users/me/**,v:GET", "/users/me"},
        {"/users/7/posts", "all=v:/users/*/posts own=v:/users/*/posts,v:GET", "/users/*/posts"},
        {"/users/7/feed", "all=v:/users/** own=v:/users/**,v:GET", "/users/**"},
        {"/x/feed", "all=v:/**/feed", "/**/feed"},
        {"/users", "all=v:/users/** own=v:/users/**,v:GET", "/users/**"},
    };
    struct wr_selection sel;
    struct asking a;
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(&a, policy, "GET", cases[i].path, "1.2.3.4");
        wr_policy_select(policy, &a.request, &sel);
        assert_string_equal(show(policy, &sel, true), cases[i].keys);
        assert_string_equal(sel.route, cases[i].route);
    }
    wr_policy_free(policy);
}

/* Whether %2F is a slash, routers disagree: neither reading lets a caller past a limit. */
static void test_encoded_slashes_match_in_both_readings(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "limits:\n"
                  "  - {name: export, by: [ip], rate: 5/s, match: {path: \"/export/{id}\"}}\n"
                  "  - {name: file, by: [ip], rate: 5/s, match: {path: \"/file/{name}\"}}\n"
                  "  - {name: all, by: [ip], rate: 50/s, match: {path: /**}}\n");
    static const struct {
        const char *path, *limits;
    } cases[] = {
        {"/export/7", "export all"},
        {"/export%2f7", "export all"},
        {"/x/..%2fexport/7", "export all"},
        {"/file/a%2Fb", "file all"},
        {"/file/a/b", "all"},
    };
    struct wr_selection sel;
    struct asking a;
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(&a, policy, "GET", cases[i].path, "1.2.3.4");
        wr_policy_select(policy, &a.request, &sel);
        assert_string_equal(show(policy, &sel, false), cases[i].limits);
    }
    wr_policy_free(policy);
}

static void test_methods(void **state)
{
    struct wr_policy *policy = policy_of(
        "version: 1\n"
        "limits:\n"
        "  - {name: get, by: [ip], rate: 5/s, match: {method: GET}}\n"
        "  - {name: write, by: [ip], rate: 5/s, match: {method: [POST, PURGE], path: /**}}\n"
        "  - {name: any, by: [ip], rate: 50/s}\n");
    static const struct {
        const char *method, *limits;
    } cases[] = {{"GET", "get any"},  {"POST", "write any"}, {"PURGE", "write any"},
                 {"HEAD", "any"},     {"get", "any"},        {"", "any"},
                 {"BREW\x01", "any"}, {NULL, "any"},         {"GETT", "any"}};
    struct wr_selection sel;
    struct asking a;
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ask(&a, policy, cases[i].method, "/", "1.2.3.4");
        wr_policy_select(policy, &a.request, &sel);
        assert_string_equal(show(policy, &sel, false), cases[i].limits);
    }
    wr_policy_free(policy);
}

static void test_unlimited_plans_are_left_out(void **state)
{
    struct wr_policy *policy =
        policy_of("version: 1\n"
                  "limits:\n"
                  "  - {name: a, by: [ip], rate: {default: 5/s, vip: unlimited}}\n"
                  "  - {name: b, by: [ip], concurrent: {default: 5, vip: unlimited}}\n"
                  "  - {name: c, by: [ip], rate: 500/s}\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, false), "a b c");
    a.request.plan = 1;
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, false), "c");
    wr_policy_free(policy);
}

/* Three limits that match, among three or a thousand: the same selection, whatever the order. */
static void test_a_thousand_limits(void **state)
{
    static char text[200000];
    struct wr_policy *policy;
    struct wr_selection sel;
    struct asking a;
    size_t at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
    (void)state;

    for (int i = 0; i < 1000; i++) {
        char other[32];
        (void)snprintf(other, sizeof other, "/api/p%d/**", i);
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  - {name: l%d, by: [ip], rate: 5/s, match: {path: %s}}\n", i,
                               i == 999   ? "/api/**"
                               : i == 500 ? "\"/api/{x}\""
                               : i == 3   ? "/api/seven"
                                          : other);
    }
    policy = policy_of(text);
    ask(&a, policy, "GET", "/api/seven", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, false), "l3 l500 l999");
    assert_false(sel.over_max);
    wr_policy_free(policy);
}

/* Patterns may overlap for one path in a way that no pattern alone shows: then the first sixteen of
 * the file count, and it is said. */
static void test_more_than_sixteen(void **state)
{
    static char text[8192];
    struct wr_policy *policy;
    struct wr_selection sel;
    struct asking a;
    size_t at = (size_t)snprintf(text, sizeof text, "version: 1\nlimits:\n");
    char expected[512] = "";
    (void)state;

    for (int i = 0; i < 20; i++) {
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "  - {name: l%d, by: [ip], rate: 5/s, match: {path: %s}}\n", i,
                               i % 2 ? "\"/a/{x}\"" : "\"/{x}/b\"");
        if (i < 16)
            (void)snprintf(expected + strlen(expected), sizeof expected - strlen(expected), "%sl%d",
                           i > 0 ? " " : "", i);
    }
    policy = policy_of(text);
    ask(&a, policy, "GET", "/a/b", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, false), expected);
    assert_true(sel.over_max);
    ask(&a, policy, "GET", "/a/c", "1.2.3.4");
    wr_policy_select(policy, &a.request, &sel);
    assert_int_equal(sel.count, 10);
    assert_false(sel.over_max);
    wr_policy_free(policy);
}

static void test_fewer_fields_than_the_policy_has(void **state)
{
    struct wr_policy *policy = policy_of("version: 1\nidentity: {api_key: {header: K}}\n"
                                         "limits: [{name: a, by: [api_key], rate: 5/s}]\n");
    struct wr_selection sel;
    struct asking a;
    (void)state;

    ask(&a, policy, "GET", "/", "1.2.3.4");
    a.request.fields = NULL;
    a.request.field_count = 0;
    wr_policy_select(policy, &a.request, &sel);
    assert_string_equal(show(policy, &sel, true), "a=f:1.2.3.4");
    wr_policy_free(policy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example_of_the_design),
        cmocka_unit_test(test_the_client),
        cmocka_unit_test(test_prefix_of_a_limit),
        cmocka_unit_test(test_when_missing),
        cmocka_unit_test(test_given_keys_win),
        cmocka_unit_test(test_long_keys_with_any_bytes),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_encoded_slashes_match_in_both_readings),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_unlimited_plans_are_left_out),
        cmocka_unit_test(test_a_thousand_limits),
        cmocka_unit_test(test_more_than_sixteen),
        cmocka_unit_test(test_fewer_fields_than_the_policy_has),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
