/* What limits count by, in words, and keys that are named part by part. */
#include "policy/explain.h"
#include "requests.h"

static const char text[] =
    "version: 1\n"
    "identity: {ip: {ipv6_prefix: 64}, api_key: {header: X-Api-Key}, user: {header: X-User-Id}}\n"
    "limits:\n"
    "  - {name: ip, by: [ip], rate: 5/s}\n"
    "  - {name: wide, by: [ip], ipv6_prefix: 48, rate: 5/s}\n"
    "  - {name: key, by: [api_key, route], match: {method: [GET, POST], path: [/b, /a/**]}, rate: "
    "5/s}\n"
    "  - {name: all, rate: 5/s}\n"
    "  - {name: user, by: [user, method], when_missing: deny, match: {path: /c}, rate: 5/s}\n";

enum { IP, WIDE, KEY, ALL, USER };

static struct wr_policy *policy;
static struct wr_named_key key;

static const char *give(const char *name, const char *value)
{
    return wr_named_key_give(policy, &key, slice(name), slice(value));
}

/* The key is what a request with these values is counted by. */
static void expect_selected(unsigned limit, const char *method, const char *path, const char *peer,
                            const char *api_key)
{
    static struct asking asked;
    static struct wr_selection selection;
    const struct wr_selected *selected = NULL;

    ask(&asked, policy, method, path, peer);
    if (api_key != NULL)
        put_header(&asked, policy, "X-Api-Key", api_key);
    wr_policy_select(policy, &asked.request, &selection);
    for (unsigned i = 0; i < selection.count; i++)
        if (selection.selected[i].limit == limit)
            selected = &selection.selected[i];
    assert_non_null(selected);
    assert_null(wr_named_key_lacks(policy, &key));
    assert_int_equal(key.selected.limit, limit);
    assert_int_equal(key.selected.parts, selected->parts);
    for (unsigned i = 0; i < selected->parts; i++) {
        assert_int_equal(key.selected.part[i].kind, selected->part[i].kind);
        assert_int_equal(key.selected.part[i].bytes.len, selected->part[i].bytes.len);
        assert_memory_equal(key.selected.part[i].bytes.ptr, selected->part[i].bytes.ptr,
                            selected->part[i].bytes.len);
    }
}

static void addresses(void **state)
{
    static const char *const same[] = {"2001:db8:1:2::", "2001:db8:1:2:3::4", "2001:db8:1:2::/64"};

    (void)state;
    wr_named_key_begin(&key, IP);
    assert_string_equal(wr_named_key_lacks(policy, &key), "ip");
    assert_null(give("ip", "192.0.2.7"));
    expect_selected(IP, "GET", "/", "192.0.2.7", NULL);
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        wr_named_key_begin(&key, IP);
        assert_null(give("ip", same[i]));
        expect_selected(IP, "GET", "/", "2001:db8:1:2::99", NULL);
    }
    wr_named_key_begin(&key, WIDE);
    assert_null(give("ip", "2001:db8:1:2::9"));
    expect_selected(WIDE, "GET", "/", "2001:db8:1:ffff::1", NULL);
    wr_named_key_begin(&key, IP);
    assert_null(give("ip", "host.example"));
    expect_selected(IP, "GET", "/", "host.example", NULL);
}

/* A network is a key only where it is the one that its callers are counted by. */
static void a_network_of_another_size_is_no_address(void **state)
{
    static const char *const wrong[] = {"198.51.100.0/24", "2001:db8::/32", "2001:db8:1:2::1/128",
                                        "[192.0.2.7"};

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        wr_named_key_begin(&key, IP);
        assert_string_equal(give("ip", wrong[i]), "expected an address, or the name of a host");
    }
}

static void several_parts_in_any_order(void **state)
{
    (void)state;
    wr_named_key_begin(&key, KEY);
    assert_null(give("route", "/a/**"));
    assert_string_equal(wr_named_key_lacks(policy, &key), "api_key");
    assert_null(give("api_key", "k"));
    expect_selected(KEY, "POST", "/a/1", "192.0.2.7", "k");
}

static void what_stands_in(void **state)
{
    (void)state;
    wr_named_key_begin(&key, KEY);
    assert_null(give("api_key@ip", "192.0.2.7"));
    assert_null(give("route", "/b"));
    expect_selected(KEY, "GET", "/b", "192.0.2.7", NULL);
    wr_named_key_begin(&key, KEY);
    assert_null(give("api_key@ip", "host.example"));
    assert_null(give("route", "/b"));
    expect_selected(KEY, "GET", "/b", "host.example", NULL);
}

static void no_parts(void **state)
{
    (void)state;
    wr_named_key_begin(&key, ALL);
    expect_selected(ALL, "GET", "/", "192.0.2.7", NULL);
    assert_non_null(give("ip", "192.0.2.7"));
}

static void what_is_wrong(void **state)
{
    (void)state;
    wr_named_key_begin(&key, USER);
    assert_string_equal(give("users", "u"), "the limit has no such part");
    assert_string_equal(give("", "u"), "the limit has no such part");
    assert_string_equal(give("ip", "u"), "the limit has no such part");
    assert_string_equal(give("user", ""), "expected a value");
    assert_string_equal(give("user@ip", "192.0.2.7"),
                        "nothing stands in for a missing value here: see when_missing");
    assert_string_equal(give("method@ip", "192.0.2.7"), "the limit has no such part");
    assert_null(give("user", "u"));
    assert_string_equal(give("user", "u"), "given twice");
    assert_string_equal(wr_named_key_lacks(policy, &key), "method");
}

static void a_programs_own_key(void **state)
{
    (void)state;
    wr_named_key_begin(&key, IP);
    wr_named_key_plain(&key, slice("192.0.2.7"));
    assert_int_equal(key.selected.parts, 1);
    assert_int_equal(key.selected.part[0].kind, WR_PART_VALUE); /* not the address's key */
    assert_int_equal(key.selected.part[0].bytes.len, 9);
}

static void what_limits_say(void **state)
{
    const char *pattern[3];
    uint32_t start[6];
    bool identity;
    size_t len;

    (void)state;
    assert_string_equal(wr_policy_part(policy, KEY, 0, &identity), "api_key");
    assert_true(identity);
    assert_string_equal(wr_policy_part(policy, KEY, 1, &identity), "route");
    assert_false(identity);
    assert_null(wr_policy_part(policy, KEY, 2, NULL));
    assert_null(wr_policy_part(policy, ALL, 0, NULL));
    assert_null(wr_policy_part(policy, 99, 0, NULL));
    assert_int_equal(wr_policy_when_missing(policy, KEY), WR_MISSING_IP);
    assert_int_equal(wr_policy_when_missing(policy, USER), WR_MISSING_DENY);
    assert_int_equal(wr_policy_prefix(policy, IP), 64);
    assert_int_equal(wr_policy_prefix(policy, WIDE), 48);
    assert_memory_equal(wr_policy_method(policy, KEY, 0, &len), "GET", 3);
    assert_memory_equal(wr_policy_method(policy, KEY, 1, &len), "POST", 4);
    assert_int_equal(len, 4);
    assert_null(wr_policy_method(policy, KEY, 2, &len));
    assert_null(wr_policy_method(policy, ALL, 0, &len));
    assert_int_equal(wr_policy_pattern_count(policy), 3);
    wr_policy_patterns(policy, pattern, start);
    assert_int_equal(start[IP], 0);
    assert_int_equal(start[KEY], 0);
    assert_int_equal(start[ALL], 2);
    assert_int_equal(start[USER], 2);
    assert_int_equal(start[USER + 1], 3);
    assert_string_equal(pattern[0], "/b"); /* as in the file */
    assert_string_equal(pattern[1], "/a/**");
    assert_string_equal(pattern[2], "/c");
}

static int set_up(void **state)
{
    (void)state;
    policy = policy_of(text);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    wr_policy_free(policy);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses),
        cmocka_unit_test(a_network_of_another_size_is_no_address),
        cmocka_unit_test(several_parts_in_any_order),
        cmocka_unit_test(what_stands_in),
        cmocka_unit_test(no_parts),
        cmocka_unit_test(what_is_wrong),
        cmocka_unit_test(a_programs_own_key),
        cmocka_unit_test(what_limits_say),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
