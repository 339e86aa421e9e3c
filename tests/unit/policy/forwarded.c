/* forwarded.c - the client behind proxies. The first cases are the worked ones of docs/policy.md.
 */
#include "policy/forwarded.h"

#include <stdlib.h>

#include "requests.h"

static struct wr_net trusted_nets[3];
static struct wr_client_rule rule;

static void trust(enum wr_from from, unsigned hops, const char *a, const char *b)
{
    size_t count = 0;

    if (a != NULL)
        assert_true(wr_net_parse(slice(a), &trusted_nets[count++], NULL));
    if (b != NULL)
        assert_true(wr_net_parse(slice(b), &trusted_nets[count++], NULL));
    rule = (struct wr_client_rule){.from = from, .field = 0, .hops = hops};
    wr_netset_make(&rule.trusted, trusted_nets, count);
}

static const char *client_of(const char *peer, struct weir_slice header)
{
    static char out[WR_IP_TEXT_MAX];
    struct wr_ip ip, client;

    assert_true(wr_ip_parse_hostport(slice(peer), &ip));
    client = wr_client_find(&rule, &ip, header);
    (void)wr_ip_format(&client, out);
    return out;
}

static void expect(const char *peer, const char *header, const char *client)
{
    const char *got = client_of(peer, slice(header));

    if (strcmp(got, client) != 0)
        fail_msg("peer %s, \"%s\": %s, not %s", peer, header, got, client);
}

static void test_x_forwarded_for(void **state)
{
    (void)state;
    trust(WR_FROM_XFF, 0, "10.0.0.0/8", NULL);
    expect("10.0.0.2", "6.6.6.6, 1.2.3.4, 10.0.0.9", "1.2.3.4");
    expect("9.9.9.9", "1.2.3.4", "9.9.9.9");
    expect("10.0.0.2", "evil", "10.0.0.2");
    expect("10.0.0.2", "6.6.6.6, 1.2.3.4:5000", "1.2.3.4"); /* two lines, joined */
    expect("10.0.0.2", "10.1.1.1, 10.0.0.9", "10.1.1.1");   /* all trusted: the left-most */
    expect("::ffff:10.0.0.2", "[2001:db8:7:8::1]:99", "2001:db8:7:8::1");
    expect("10.0.0.2", NULL, "10.0.0.2");
    expect("10.0.0.2", "", "10.0.0.2");
    expect("10.0.0.2", "1.2.3.4,10.0.0.9", "1.2.3.4"); /* no blanks, as Envoy writes */
    expect("10.0.0.2", "1.2.3.4, unknown", "10.0.0.2");
    expect("10.0.0.2", "1.2.3.4, unknown, 10.0.0.9", "10.0.0.9");
    expect("10.0.0.2", "1.2.3.4,", "10.0.0.2"); /* an empty entry is no address */
    expect("10.0.0.2", ",1.2.3.4", "1.2.3.4");
    expect("10.0.0.2", "\"1.2.3.4\"", "10.0.0.2");
    expect("10.0.0.2", "1.2.3.4, 10.0.0.300", "10.0.0.2");
    expect("10.0.0.2:4711", "1.2.3.4", "1.2.3.4");
}

static void test_without_trust_no_header_counts(void **state)
{
    (void)state;
    trust(WR_FROM_XFF, 0, NULL, NULL);
    expect("10.0.0.2", "1.2.3.4", "10.0.0.2");
    trust(WR_FROM_FORWARDED, 0, NULL, NULL);
    expect("10.0.0.2", "for=1.2.3.4", "10.0.0.2");
    trust(WR_FROM_SINGLE, 0, NULL, NULL);
    expect("10.0.0.2", "1.2.3.4", "10.0.0.2");
    trust(WR_FROM_PEER, 0, "10.0.0.0/8", NULL);
    expect("10.0.0.2", "1.2.3.4", "10.0.0.2");
}

static void test_fixed_hops(void **state)
{
    (void)state;
    trust(WR_FROM_XFF, 2, NULL, NULL);
    expect("8.8.8.8", "6.6.6.6, 1.2.3.4, 7.7.7.7", "1.2.3.4");
    expect("8.8.8.8", "1.2.3.4", "1.2.3.4"); /* fewer than hops: the left-most */
    expect("8.8.8.8", "1.2.3.4, x, 7.7.7.7", "7.7.7.7");
    trust(WR_FROM_XFF, 1, NULL, NULL);
    expect("8.8.8.8", "6.6.6.6, 1.2.3.4", "1.2.3.4");
    trust(WR_FROM_XFF, 1, "10.0.0.0/8", NULL); /* the peer must be trusted as well */
    expect("8.8.8.8", "1.2.3.4", "8.8.8.8");
    expect("10.0.0.1", "6.6.6.6, 1.2.3.4", "1.2.3.4");
}

static void test_single_values(void **state)
{
    (void)state;
    trust(WR_FROM_SINGLE, 0, "10.0.0.0/8", NULL);
    expect("10.0.0.2", "1.2.3.4", "1.2.3.4");
    expect("10.0.0.2", " 1.2.3.4:80 ", "1.2.3.4");
    expect("10.0.0.2", "1.2.3.4, 5.6.7.8", "10.0.0.2"); /* two lines: neither is believed */
    expect("9.9.9.9", "1.2.3.4", "9.9.9.9");
    expect("10.0.0.2", NULL, "10.0.0.2");
}

static void test_forwarded(void **state)
{
    (void)state;
    trust(WR_FROM_FORWARDED, 0, "10.0.0.0/8", "2001:db8::/32");
    expect("10.0.0.2", "for=192.0.2.4", "192.0.2.4");
    expect("10.0.0.2", "For=\"[2001:db9::7]:4711\"", "2001:db9::7");
    expect("10.0.0.2", "for=6.6.6.6;proto=http, for=192.0.2.4;by=10.0.0.2", "192.0.2.4");
    expect("10.0.0.2", "proto=http;for=192.0.2.4", "192.0.2.4");
    expect("10.0.0.2", "for=6.6.6.6, for=192.0.2.4, for=10.0.0.9", "192.0.2.4");
    expect("10.0.0.2", "for=6.6.6.6, for=192.0.2.4, for=\"[2001:db8::1]\"", "192.0.2.4");
    expect("10.0.0.2", "for=192.0.2.4, for=unknown", "10.0.0.2");
    expect("10.0.0.2", "for=192.0.2.4, for=_hidden", "10.0.0.2");
    expect("10.0.0.2", "for=192.0.2.4, by=10.0.0.1", "10.0.0.2"); /* says nothing of for */
    expect("10.0.0.2", "for=192.0.2.4;for=6.6.6.6", "10.0.0.2");  /* twice */
    expect("10.0.0.2", "for=\"192.0.2.4:_port\"", "10.0.0.2");
    expect("10.0.0.2", "for = 192.0.2.4", "10.0.0.2");
    expect("10.0.0.2", "host=\"a,b;for=6.6.6.6\";for=192.0.2.4", "192.0.2.4");
    expect("10.0.0.2", "ext=\"q\\\"uoted, for=6.6.6.6\", for=192.0.2.4", "192.0.2.4");
    expect("10.0.0.2", "for=192.0.2.4:80", "192.0.2.4"); /* unquoted, as some proxies write */
    expect("10.0.0.2", ";;for=192.0.2.4;;", "192.0.2.4");
    expect("10.0.0.2", "for=192.0.2.4,", "10.0.0.2");
    expect("10.0.0.2", "", "10.0.0.2");
    expect("10.0.0.2", NULL, "10.0.0.2");
}

/* Whatever a caller writes to the left, what our proxy appended counts: otherwise a caller could be
 * counted, or banned, as the proxy. */
static void test_forwarded_cannot_be_voided_from_the_left(void **state)
{
    static const char *const callers[] = {
        "x=\"",   "x=\"\\", "for=6.6.6.6;x=\"", "garbage", "for=6.6.6.6 y",       "=",
        "for=\"", "\"",     "x=\"a\"b",         ";=;",     "for=6.6.6.6,x=\"a\\", "\x01\x02"};
    static const char *const proxies[] = {
        "for=192.0.2.4", "for=\"192.0.2.4:5\"", "for=192.0.2.4;proto=https",
        "proto=\"https\";for=192.0.2.4", "by=\"[2001:db8::1]\";for=\"192.0.2.4\";host=\"h\""};
    char header[256];
    (void)state;

    trust(WR_FROM_FORWARDED, 0, "10.0.0.0/8", NULL);
    for (size_t i = 0; i < sizeof callers / sizeof callers[0]; i++) {
        for (size_t j = 0; j < sizeof proxies / sizeof proxies[0]; j++) {
            (void)snprintf(header, sizeof header, "%s, %s", callers[i], proxies[j]);
            expect("10.0.0.2", header, "192.0.2.4");
        }
    }
}

static void test_the_walk_is_bounded(void **state)
{
    static char header[65536];
    size_t at = 0;
    (void)state;

    at += (size_t)snprintf(header, sizeof header, "1.2.3.4");
    for (int i = 0; i < 1000; i++)
        at += (size_t)snprintf(header + at, sizeof header - at, ", 10.0.%d.%d", i / 200, i % 200);
    trust(WR_FROM_XFF, 0, "10.0.0.0/8", NULL);
    /* The 64th entry from the right of 0 .. 999 is number 936. */
    expect("10.0.0.2", header, "10.0.4.136");

    at = (size_t)snprintf(header, sizeof header, "for=1.2.3.4");
    for (int i = 0; i < 1000; i++)
        at +=
            (size_t)snprintf(header + at, sizeof header - at, ",for=10.0.%d.%d", i / 200, i % 200);
    trust(WR_FROM_FORWARDED, 0, "10.0.0.0/8", NULL);
    expect("10.0.0.2", header, "10.0.4.136");
}

static void test_nul_and_long_junk(void **state)
{
    static char junk[65536];
    (void)state;

    trust(WR_FROM_XFF, 0, "10.0.0.0/8", NULL);
    assert_string_equal(client_of("10.0.0.2", (struct weir_slice){"1.2.3.4\0", 8}), "10.0.0.2");
    memset(junk, ',', sizeof junk);
    assert_string_equal(client_of("10.0.0.2", (struct weir_slice){junk, sizeof junk}), "10.0.0.2");
    trust(WR_FROM_FORWARDED, 0, "10.0.0.0/8", NULL);
    assert_string_equal(client_of("10.0.0.2", (struct weir_slice){junk, sizeof junk}), "10.0.0.2");
    memset(junk, '"', sizeof junk);
    assert_string_equal(client_of("10.0.0.2", (struct weir_slice){junk, sizeof junk}), "10.0.0.2");
    memset(junk, '\\', sizeof junk);
    assert_string_equal(client_of("10.0.0.2", (struct weir_slice){junk, sizeof junk}), "10.0.0.2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_x_forwarded_for),
        cmocka_unit_test(test_without_trust_no_header_counts),
        cmocka_unit_test(test_fixed_hops),
        cmocka_unit_test(test_single_values),
        cmocka_unit_test(test_forwarded),
        cmocka_unit_test(test_forwarded_cannot_be_voided_from_the_left),
        cmocka_unit_test(test_the_walk_is_bounded),
        cmocka_unit_test(test_nul_and_long_junk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
