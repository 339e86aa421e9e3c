/* ipaddr.c - every spelling of an address is one key, and nothing else is an address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ipaddr.h"

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* The RFC 5952 text of what |text| parses to; "-" where it does not. */
static const char *parsed(const char *text, bool hostport)
{
    static char out[WR_IP_TEXT_MAX];
    struct wr_ip ip;
    size_t len;

    if (!(hostport ? wr_ip_parse_hostport(slice(text), &ip) : wr_ip_parse(slice(text), &ip)))
        return "-";
    len = wr_ip_format(&ip, out);
    assert_int_equal(len, strlen(out));
    return out;
}

struct pair {
    const char *text, *expected;
};

static void test_addresses(void **state)
{
    static const struct pair pairs[] = {
        {"1.2.3.4", "1.2.3.4"},
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"::ffff:1.2.3.4", "1.2.3.4"},
        {"::FFFF:0102:0304", "1.2.3.4"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
        {"2001:db8:1:2:3:4:5:6", "2001:db8:1:2:3:4:5:6"},
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"64:ff9b::192.0.2.1", "64:ff9b::c000:201"}, /* NAT64 stays IPv6 */
        {"2002:c000:201::", "2002:c000:201::"},      /* so does 6to4 */
        {"fe80::1%eth0", "fe80::1"},
        {"fe80::1%25", "fe80::1"},
    };
    static const char *const wrong[] = {
        "",
        " 1.2.3.4",
        "1.2.3.4 ",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.00",
        "1.2.3.04",
        "1.2.3.0x4",
        "0x1.2.3.4",
        "1.2.3.",
        ".1.2.3",
        "1..2.3",
        "1.2.3.4:5",
        "1.2.3.4%eth0",
        "+1.2.3.4",
        "1.2.3.-4",
        ":",
        ":::",
        "1:",
        ":1",
        "1:2:3:4:5:6:7",
        "1::2::3",
        "12345::",
        "g::",
        "::1 ",
        "[::1]",
        "1:2:3:4:5:6:7:8:9",
        "::1% ",
        "::1%e h",
        "::1%",
        "1:2:3:4:5:6:7::8",
        "::1.2.3",
        "::1.2.3.4.5",
        "::256.1.1.1",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::1.2.3.4:1",
        "localhost",
        "1",
        "unknown",
        "_hidden",
        "0000:0000:0000:0000:0000:ffff:255.255.255.255.",
    };
    (void)state;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_string_equal(parsed(pairs[i].text, false), pairs[i].expected);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (strcmp(parsed(wrong[i], false), "-") != 0)
            fail_msg("\"%s\" was taken for %s", wrong[i], parsed(wrong[i], false));
}

static void test_addresses_with_ports(void **state)
{
    static const struct pair pairs[] = {
        {"1.2.3.4", "1.2.3.4"},
        {"1.2.3.4:80", "1.2.3.4"},
        {"\t1.2.3.4:65535  ", "1.2.3.4"},
        {"[::1]", "::1"},
        {"[2001:db8::1]:443", "2001:db8::1"},
        {"2001:db8::1", "2001:db8::1"},
        {"2001:db8::1:443", "2001:db8::1:443"}, /* many colons, no brackets: no port */
        {"[::ffff:1.2.3.4]:5", "1.2.3.4"},
        {"[fe80::1%eth0]:1", "fe80::1"},
        {"1.2.3.4:", "-"},
        {"1.2.3.4:65536", "-"},
        {"1.2.3.4:123456", "-"},
        {"1.2.3.4:8a", "-"},
        {"1.2.3.4:_obf", "-"},
        {"[::1", "-"},
        {"[]", "-"},
        {"[1.2.3.4]", "-"},
        {"[::1]x", "-"},
        {"[::1]:", "-"},
        {"[::1]80", "-"},
        {"::1]", "-"},
        {"\"1.2.3.4\"", "-"},
        {"", "-"},
        {"  ", "-"},
        {"unknown", "-"},
        {"1.2.3.4, 5.6.7.8", "-"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        assert_string_equal(parsed(pairs[i].text, true), pairs[i].expected);
}

static void test_nul_bytes_are_not_ends(void **state)
{
    struct wr_ip ip;
    (void)state;

    assert_false(wr_ip_parse((struct weir_slice){"1.2.3.4\0", 8}, &ip));
    assert_false(wr_ip_parse((struct weir_slice){"::1\0x", 5}, &ip));
    assert_false(wr_ip_parse_hostport((struct weir_slice){"1.2.3.4\0:80", 11}, &ip));
    assert_false(wr_ip_parse((struct weir_slice){NULL, 0}, &ip));
    assert_false(wr_ip_parse_hostport((struct weir_slice){NULL, 0}, &ip));
}

/* Texts built from pieces of addresses, against inet_pton, which is what the grammar is. */
static void test_as_inet_pton(void **state)
{
    static const char *const pieces[] = {"1",    "0",  "255", "256", ".",  ".",  ".",
                                         ":",    ":",  ":",   "::",  "ab", "F",  "12a",
                                         "ffff", "00", "1.2", "g",   "0:", ":0", "12345"};
    (void)state;

    srand(4711);
    for (int round = 0; round < 300000; round++) {
        char text[128] = "";
        size_t at = 0;
        unsigned char v4[4], v6[16];
        struct wr_ip ip;
        bool ours, is_v4, is_v6;
        for (int n = rand() % 16; n >= 0; n--)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s",
                                   pieces[(size_t)rand() % (sizeof pieces / sizeof pieces[0])]);
        ours = wr_ip_parse(slice(text), &ip);
        is_v4 = inet_pton(AF_INET, text, v4) == 1;
        is_v6 = strlen(text) < WR_IP_TEXT_MAX && inet_pton(AF_INET6, text, v6) == 1;
        if (ours != (is_v4 || is_v6))
            fail_msg("\"%s\": ours %d, inet_pton %d %d", text, ours, is_v4, is_v6);
        if (is_v4)
            assert_memory_equal(ip.bytes + 12, v4, 4);
        if (is_v6)
            assert_memory_equal(ip.bytes, v6, 16);
    }
}

static void test_masks(void **state)
{
    char text[WR_IP_TEXT_MAX];
    struct wr_ip v6, v4, masked;
    static const struct {
        unsigned prefix;
        const char *expected;
    } cases[] = {
        {128, "2001:db8:1234:5678:9abc:def0:1234:5678"},
        {127, "2001:db8:1234:5678:9abc:def0:1234:5678"},
        {64, "2001:db8:1234:5678::"},
        {65, "2001:db8:1234:5678:8000::"},
        {63, "2001:db8:1234:5678::"},
        {56, "2001:db8:1234:5600::"},
        {48, "2001:db8:1234::"},
        {1, "::"},
    };
    (void)state;

    assert_true(wr_ip_parse(slice("2001:db8:1234:5678:9abc:def0:1234:5678"), &v6));
    assert_true(wr_ip_parse(slice("1.2.3.4"), &v4));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        masked = wr_ip_mask(v6, cases[i].prefix);
        (void)wr_ip_format(&masked, text);
        assert_string_equal(text, cases[i].expected);
        masked = wr_ip_mask(v4, cases[i].prefix);
        assert_memory_equal(&masked, &v4, sizeof v4);
    }
    assert_true(wr_ip_is_v4(&v4));
    assert_false(wr_ip_is_v4(&v6));
}

static bool contains(const char *network, const char *address)
{
    struct wr_net net;
    struct wr_ip ip;

    assert_true(wr_net_parse(slice(network), &net, NULL));
    assert_true(wr_ip_parse(slice(address), &ip));
    return wr_net_contains(&net, &ip);
}

static void test_networks(void **state)
{
    (void)state;
    assert_true(contains("10.0.0.0/8", "10.255.255.255"));
    assert_false(contains("10.0.0.0/8", "11.0.0.0"));
    assert_true(contains("10.0.0.0/8", "::ffff:10.1.2.3"));
    assert_true(contains("192.0.2.7", "192.0.2.7"));
    assert_false(contains("192.0.2.7", "192.0.2.6"));
    assert_true(contains("192.0.2.6/31", "192.0.2.7"));
    assert_true(contains("0.0.0.0/0", "203.0.113.9"));
    assert_false(contains("0.0.0.0/0", "2001:db8::1"));
    assert_true(contains("::/0", "2001:db8::1"));
    assert_true(contains("::/0", "1.2.3.4"));
    /* Within the 96 bits that we keep in front of IPv4, but nobody's IPv4. */
    assert_false(contains("::/1", "1.2.3.4"));
    assert_false(contains("::/64", "1.2.3.4"));
    assert_false(contains("::/80", "1.2.3.4"));
    assert_true(contains("::/64", "::1"));
    assert_true(contains("0.0.0.0/0", "1.2.3.4"));
    assert_false(contains("0.0.0.0/0", "::1"));
    assert_true(contains("2001:db8::/33", "2001:db8:7fff::1"));
    assert_false(contains("2001:db8::/33", "2001:db8:8000::1"));
    assert_true(contains("2001:db8::/64", "2001:db8::ffff:ffff:ffff:ffff"));
    assert_false(contains("2001:db8::/64", "2001:db8:0:1::"));
    assert_true(contains("2001:db8::8000:0:0:0/65", "2001:db8::ffff:0:0:1"));
    assert_false(contains("2001:db8::8000:0:0:0/65", "2001:db8::7fff:0:0:1"));
}

static void test_wrong_networks(void **state)
{
    static const char *const wrong[] = {"",
                                        "10.0.0.0/",
                                        "10.0.0.0/33",
                                        "10.0.0.0/08",
                                        "10.0.0.0/-1",
                                        "10.0.0.0/8 ",
                                        "10.0.0/8",
                                        "::/129",
                                        "::/0128",
                                        "::/12a",
                                        "/8",
                                        "fe80::%eth0/64",
                                        "10.0.0.0/8/8",
                                        "foo"};
    struct wr_net net;
    bool host_bits;
    (void)state;

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (wr_net_parse(slice(wrong[i]), &net, &host_bits))
            fail_msg("\"%s\" was taken for a network", wrong[i]);
}

static void test_host_bits(void **state)
{
    char text[WR_IP_TEXT_MAX];
    struct wr_net net;
    bool host_bits;
    (void)state;

    assert_true(wr_net_parse(slice("10.0.0.1/8"), &net, &host_bits));
    assert_true(host_bits);
    (void)wr_ip_format(&net.ip, text);
    assert_string_equal(text, "10.0.0.0");
    assert_int_equal(net.prefix, 104);
    assert_true(wr_net_parse(slice("2001:db8::/32"), &net, &host_bits));
    assert_false(host_bits);
    assert_int_equal(net.prefix, 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_addresses_with_ports),
        cmocka_unit_test(test_nul_bytes_are_not_ends),
        cmocka_unit_test(test_as_inet_pton),
        cmocka_unit_test(test_masks),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_wrong_networks),
        cmocka_unit_test(test_host_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
