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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_example_of_the_design),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
