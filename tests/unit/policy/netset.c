/* netset.c - sets of networks, against trying each. */
#include "policy/netset.h"

#include <stdlib.h>

#include "requests.h"

static bool holds(const struct wr_netset *set, const char *address)
{
    struct wr_ip ip;

    assert_true(wr_ip_parse(slice(address), &ip));
    return wr_netset_holds(set, &ip);
}

static void test_by_hand(void **state)
{
    static const char *const texts[] = {"10.0.0.0/8",     "127.0.0.1",   "2001:db8::/32",
                                        "10.1.0.0/16",    "10.0.0.0/8",  "fe80::/10",
                                        "192.0.2.128/25", "192.0.2.130", "2001:db8:5::/48"};
    struct wr_net nets[sizeof texts / sizeof texts[0]];
    struct wr_netset set;
    (void)state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        assert_true(wr_net_parse(slice(texts[i]), &nets[i], NULL));
    wr_netset_make(&set, nets, sizeof texts / sizeof texts[0]);
    assert_int_equal(set.count, 5); /* held by others: 10.1/16, 10/8 again, .130, :5::/48 */
    assert_true(holds(&set, "10.1.2.3"));
    assert_true(holds(&set, "10.0.0.0"));
    assert_true(holds(&set, "10.255.255.255"));
    assert_false(holds(&set, "11.0.0.0"));
    assert_false(holds(&set, "9.255.255.255"));
    assert_true(holds(&set, "127.0.0.1"));
    assert_false(holds(&set, "127.0.0.2"));
    assert_true(holds(&set, "2001:db8:ffff::"));
    assert_false(holds(&set, "2001:db9::"));
    assert_false(holds(&set, "192.0.2.127"));
    assert_true(holds(&set, "192.0.2.255"));
    assert_true(holds(&set, "febf::1"));
    assert_false(holds(&set, "::"));
    assert_false(holds(&set, "ffff::"));
}

/* ::/64 lies around IPv4 and does not hold it, and what lies behind IPv4 in it is still found. */
static void test_zeros_around_ipv4(void **state)
{
    static const char *const texts[] = {"::/64", "10.0.0.0/8", "0:0:0:0:9::/80", "::/1"};
    struct wr_net nets[sizeof texts / sizeof texts[0]];
    struct wr_netset set;
    (void)state;

    for (size_t n = 3; n <= 4; n++) {
        for (size_t i = 0; i < n; i++)
            assert_true(wr_net_parse(slice(texts[i]), &nets[i], NULL));
        wr_netset_make(&set, nets, n);
        assert_int_equal(set.count, 2);
        assert_true(holds(&set, "10.1.2.3"));
        assert_false(holds(&set, "193.51.100.9"));
        assert_true(holds(&set, "::1"));
        assert_true(holds(&set, "::5:0:0:1"));
        assert_false(holds(&set, "8000::"));
    }
    assert_true(wr_net_parse(slice("::/0"), &nets[0], NULL));
    assert_true(wr_net_parse(slice("10.0.0.0/8"), &nets[1], NULL));
    wr_netset_make(&set, nets, 2);
    assert_true(holds(&set, "193.51.100.9"));
    assert_true(holds(&set, "8000::"));
}

static void test_empty(void **state)
{
    struct wr_netset set;
    (void)state;

    wr_netset_make(&set, NULL, 0);
    assert_false(holds(&set, "1.2.3.4"));
}

static void test_generated(void **state)
{
    static struct wr_net nets[200], copy[200];
    (void)state;

    srand(99);
    for (int round = 0; round < 200; round++) {
        size_t count = (size_t)rand() % 200;
        struct wr_netset set;
        for (size_t i = 0; i < count; i++) {
            char text[64];
            /* Few values, so that networks hold one another; the prefix clears host bits. */
            (void)snprintf(text, sizeof text, "%d.%d.%d.%d/%d", rand() % 3, rand() % 4 * 64,
                           rand() % 3, rand() % 256, rand() % 4 == 0 ? 32 : 6 + rand() % 27);
            assert_true(wr_net_parse(slice(text), &nets[i], NULL));
            copy[i] = nets[i];
        }
        wr_netset_make(&set, nets, count);
        for (int tries = 0; tries < 200; tries++) {
            struct wr_ip ip;
            char text[64];
            bool expected = false;
            (void)snprintf(text, sizeof text, "%d.%d.%d.%d", rand() % 4, rand() % 256, rand() % 4,
                           rand() % 256);
            assert_true(wr_ip_parse(slice(text), &ip));
            for (size_t i = 0; i < count; i++)
                expected = expected || wr_net_contains(&copy[i], &ip);
            assert_int_equal(wr_netset_holds(&set, &ip), expected);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_zeros_around_ipv4),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_generated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
