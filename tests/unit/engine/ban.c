/* ban.c - callers banned at run time: who is meant, for how long, and before what. By hand. */
#include <pthread.h>

#include "fixture.h"

#define POLICY                                                                             \
    "version: 1\n"                                                                         \
    "identity: {api_key: {header: X-Api-Key}, user: {header: X-User-Id, trust: anyone}}\n" \
    "limits:\n"                                                                            \
    "  - {name: per-ip, by: [ip], rate: 3/hour, algorithm: fixed-window}\n"

static int ban(struct weir *w, const char *identity, const char *value, int64_t until, int64_t now)
{
    const struct weir_ban_order order = {
        .identity = slice(identity), .value = slice(value), .until_ns = until};

    return weir_ban(w, &order, now, NULL);
}

/* For how long |call| is banned; 0: it is not. */
static int64_t banned(struct weir *w, int64_t now, struct call call)
{
    struct weir_answer a;

    call.peek = true;
    a = decide(w, now, call);
    if (a.reason != WEIR_REASON_BANNED)
        return 0;
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.count, 0);
    assert_int_equal(a.decisive, -1);
    return a.retry_after_ns;
}

static void test_until_its_end(void **state)
{
    struct weir *w = open_text(POLICY, "");
    struct weir_answer a;
    (void)state;

    assert_int_equal(ban(w, "ip", "192.0.2.1", T0 + 10 * S, T0), 0);
    for (int i = 0; i < 5; i++) {
        a = decide(w, T0 + i * S, (struct call){0});
        assert_int_equal(a.outcome, WEIR_DENY);
        assert_int_equal(a.reason, WEIR_REASON_BANNED);
        assert_int_equal(a.retry_after_ns, (10 - i) * S);
    }
    a = decide(w, T0, (struct call){.peer = "192.0.2.2"});
    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_int_equal(banned(w, T0 + 10 * S - 1, (struct call){0}), 1);
    a = decide(w, T0 + 10 * S, (struct call){0});
    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_int_equal(left(w, &a, "per-ip"), 2); /* refused five times, charged for none */
    weir_close(w);
}

static void test_answers_over_http(void **state)
{
    struct weir *w = open_text(POLICY, "");
    struct weir_header headers[WEIR_HEADERS_MAX];
    char buffer[WEIR_HEADERS_BYTES], problem[WEIR_PROBLEM_BYTES];
    struct weir_answer a;
    (void)state;

    assert_int_equal(ban(w, "ip", "192.0.2.1", T0 + 10 * S, T0), 0);
    a = decide(w, T0 + S / 2, (struct call){0});
    assert_int_equal(weir_answer_headers(w, &a, 0, headers, buffer, sizeof buffer), 2);
    assert_string_equal(headers[0].name, "Retry-After");
    assert_int_equal(headers[0].value.len, 2);
    assert_memory_equal(headers[0].value.ptr, "10", 2); /* 9.5 s, rounded up */
    assert_true(weir_answer_problem(w, &a, 403, problem, sizeof problem) > 0);
    assert_non_null(strstr(problem, "requests from this caller are blocked; try again in 10 s"));
    assert_non_null(strstr(problem, "\"error\":\"banned\",\"retry_after\":10"));
    weir_close(w);
}

static void test_networks(void **state)
{
    struct weir *w = open_text(POLICY, "");
    (void)state;

    assert_int_equal(ban(w, "ip", "198.51.100.0/24", T0 + 60 * S, T0), 0);
    assert_int_equal(ban(w, "ip", "2001:db8:1::/48", WEIR_BAN_FOREVER, T0), 0);
    assert_int_equal(ban(w, "ip", "2001:db8:2::7", T0 + S, T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.100.0"}), 60 * S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "::ffff:198.51.100.255"}), 60 * S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.101.0"}), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "2001:db8:1:ffff::1"}), WEIR_NEVER);
    assert_int_equal(banned(w, T0, (struct call){.peer = "2001:db8:0:ffff::1"}), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "2001:db8:2::7"}), S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "2001:db8:2::8"}), 0); /* not its /64 */
    /* Of several that hold him the longest counts, whichever was made last. */
    assert_int_equal(ban(w, "ip", "198.51.100.7", T0 + 90 * S, T0), 0);
    assert_int_equal(ban(w, "ip", "198.51.0.0/16", T0 + 30 * S, T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.100.7"}), 90 * S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.100.8"}), 60 * S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.3.4"}), 30 * S);
    assert_int_equal(weir_unban(w, slice("ip"), slice("198.51.100.7"), T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "198.51.100.7"}), 60 * S);
    assert_int_equal(weir_unban(w, slice("ip"), slice("198.51.100.7"), T0), WEIR_ENOENT);
    assert_int_equal(ban(w, "ip", "0.0.0.0/0", T0 + S, T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "203.0.113.1"}), S);
    assert_int_equal(banned(w, T0, (struct call){.peer = "2001:db8:2::8"}), 0);
    weir_close(w);
}

static void test_identities(void **state)
{
    struct weir *w = open_text(POLICY, "");
    (void)state;

    assert_int_equal(ban(w, "api_key", "stolen", T0 + 5 * S, T0), 0);
    assert_int_equal(ban(w, "user", "mallory", WEIR_BAN_FOREVER, T0), 0);
    assert_int_equal(banned(w, T0, (struct call){0}), 0);
    assert_int_equal(banned(w, T0, (struct call){.api_key = "stolen"}), 5 * S);
    assert_int_equal(banned(w, T0, (struct call){.api_key = "stolen2"}), 0);
    assert_int_equal(banned(w, T0, (struct call){.user = "stolen"}), 0); /* that is a key */
    assert_int_equal(banned(w, T0, (struct call){.user = "mallory"}), WEIR_NEVER);
    assert_int_equal(banned(w, T0, (struct call){.user = "mallory", .api_key = "stolen"}),
                     WEIR_NEVER);
    assert_int_equal(ban(w, "session", "x", WEIR_BAN_FOREVER, T0), WEIR_ENOENT);
    assert_int_equal(weir_unban(w, slice("user"), slice("mallory"), T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.user = "mallory"}), 0);
    weir_close(w);
}

/* Who a caller is, is what identity says: the proxy is not banned for those it speaks for. */
static void test_behind_a_proxy(void **state)
{
    struct weir *w = open_text("version: 1\n"
                               "identity:\n"
                               "  ip: {from: x-forwarded-for, trusted: [10.0.0.0/8]}\n"
                               "  user: {header: X-User-Id}\n"
                               "limits: [{name: x, rate: 9/hour}]\n",
                               "");
    struct weir_slice fields[3] = {slice("203.0.113.5"), {NULL, 0}, slice("u")};
    struct weir_request request = {.peer = slice("10.0.0.1"),
                                   .fields = fields,
                                   .field_count = weir_field_count(w),
                                   .cost_units = -1,
                                   .plan = -1};
    struct weir_answer a;
    (void)state;

    assert_int_equal(request.field_count, 3); /* X-Forwarded-For, the given user, X-User-Id */
    if (weir_field_kind(w, 1) != WEIR_FIELD_KEY) {
        fields[1] = fields[2];
        fields[2] = (struct weir_slice){NULL, 0};
    }
    assert_int_equal(ban(w, "ip", "203.0.113.5", T0 + S, T0), 0);
    assert_int_equal(ban(w, "user", "u", T0 + 2 * S, T0), 0);
    assert_int_equal(weir_decide(w, &request, T0, &a), 0);
    assert_int_equal(a.retry_after_ns, 2 * S); /* the peer is trusted to name its user */
    request.peer = slice("192.0.2.1");
    assert_int_equal(weir_decide(w, &request, T0, &a), 0);
    assert_int_equal(a.outcome, WEIR_ALLOW); /* anybody else is not, nor whose address it is */
    request.peer = slice("203.0.113.5");
    assert_int_equal(weir_decide(w, &request, T0, &a), 0);
    assert_int_equal(a.retry_after_ns, S);
    weir_close(w);
}

/* The policy's own list is for ever, whatever else; no plan is exempt. */
static void test_precedence(void **state)
{
    struct weir *w = open_text(
        "version: 1\n"
        "identity: {api_key: {header: X-Api-Key}, plan: {default: free, keys: {gold: pro}}}\n"
        "limits: [{name: x, by: [api_key], rate: {free: 5/hour, pro: unlimited}}]\n"
        "bans: [{ip: 192.0.2.66}]\n",
        "");
    (void)state;

    assert_int_equal(ban(w, "ip", "192.0.2.0/24", T0 + S, T0), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "192.0.2.66"}), WEIR_NEVER);
    assert_int_equal(banned(w, T0, (struct call){.peer = "192.0.2.65", .api_key = "gold"}), S);
    assert_int_equal(weir_unban(w, slice("ip"), slice("192.0.2.66"), T0), WEIR_ENOENT);
    weir_close(w);
}

static void test_every_way_to_decide(void **state)
{
    struct weir *w = open_text(POLICY, "");
    struct weir_slice fields[FIELDS_MAX];
    const struct call call = {0}, other = {.peer = "192.0.2.2"};
    struct weir_request requests[3] = {request_of(w, &call, fields), request_of(w, &other, fields),
                                       request_of(w, &call, fields)};
    struct weir_answer answers[3];
    struct weir_verdict verdict;
    (void)state;

    assert_int_equal(ban(w, "ip", "192.0.2.1", T0 + S, T0), 0);
    assert_int_equal(weir_decide_batch(w, requests, 3, T0, answers), 0);
    assert_int_equal(answers[0].reason, WEIR_REASON_BANNED);
    assert_int_equal(answers[1].outcome, WEIR_ALLOW);
    assert_int_equal(answers[2].retry_after_ns, S);
    answers[0] = reserve(w, T0, S, call);
    assert_int_equal(answers[0].reason, WEIR_REASON_BANNED);
    assert_int_equal(weir_settle(w, &answers[0], 1, T0), WEIR_EEXPIRED); /* nothing is reserved */
    /* One limit and one key: no caller, so no ban. */
    assert_int_equal(weir_check(w, 0, slice("192.0.2.1"), 1, T0, &verdict), 0);
    assert_int_equal(verdict.outcome, WEIR_ALLOW);
    weir_close(w);
}

/* ---- the list, and orders that are refused ------------------------------------------------- */

static void test_the_list(void **state)
{
    struct weir *w = open_text(POLICY, "");
    struct weir_ban_order order = {.identity = slice("ip"),
                                   .value = slice("2001:DB8:0::/48"),
                                   .reason = slice("scraping, caf\xc3\xa9"),
                                   .until_ns = T0 + S};
    struct weir_banned out, list[3];
    (void)state;

    assert_int_equal(weir_ban_room(w), 254); /* 2 MiB: 256 records */
    assert_int_equal(weir_bans(w, T0, NULL, 0), 0);
    assert_int_equal(weir_ban(w, &order, T0, &out), 0);
    assert_string_equal(out.identity, "ip");
    assert_string_equal(out.value, "2001:db8::/48");
    assert_string_equal(out.reason, "scraping, caf\xc3\xa9");
    assert_int_equal(out.since_ns, T0);
    assert_int_equal(out.until_ns, T0 + S);
    assert_int_equal(weir_bans(w, T0, list, 3), 1);
    assert_memory_equal(&list[0], &out, sizeof out);
    order = (struct weir_ban_order){.identity = slice("api_key"), .value = slice("k_s3cret")};
    assert_int_equal(weir_ban(w, &order, T0 + 5, &out), 0);
    assert_string_equal(out.identity, "api_key");
    assert_string_equal(out.value, "");
    assert_string_equal(out.reason, "");
    assert_int_equal(out.until_ns, WEIR_BAN_FOREVER);
    assert_int_equal(weir_bans(w, T0 + 5, list, 1), 2);
    assert_int_equal(weir_bans(w, T0 + S, list, 3), 1); /* the first has ended */
    assert_memory_equal(&list[0], &out, sizeof out);
    assert_int_equal(weir_unban_id(w, out.id + 1, T0 + S), WEIR_ENOENT);
    assert_int_equal(weir_unban_id(w, out.id, T0 + S), 0);
    assert_int_equal(banned(w, T0 + S, (struct call){.api_key = "k_s3cret"}), 0);
    weir_close(w);
}

static void test_addresses_as_they_are_written(void **state)
{
    static const char *const texts[][2] = {{"10.0.0.0/8", "10.0.0.0/8"},
                                           {"10.1.2.3/32", "10.1.2.3"},
                                           {"::ffff:10.1.2.3", "10.1.2.3"},
                                           {"0.0.0.0/0", "0.0.0.0/0"},
                                           {"::/0", "::/0"},
                                           {"2001:db8::1/128", "2001:db8::1"},
                                           {"fe80::/10", "fe80::/10"}};
    struct weir *w = open_text(POLICY, "");
    (void)state;

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        const struct weir_ban_order order = {.identity = slice("ip"), .value = slice(texts[i][0])};
        struct weir_banned out;
        assert_int_equal(weir_ban(w, &order, T0, &out), 0);
        assert_string_equal(out.value, texts[i][1]);
        assert_int_equal(weir_unban(w, slice("ip"), slice(texts[i][1]), T0), 0);
        assert_int_equal(weir_bans(w, T0, NULL, 0), 0);
    }
    weir_close(w);
}

/* Networks of IPv6 ban nobody on IPv4, but for ::/0. */
static void test_zeros_are_not_ipv4(void **state)
{
    struct weir *w = open_text(POLICY, "");
    struct weir_ban_order order = {.identity = slice("ip"), .value = slice("::/64")};
    struct weir_banned out;
    (void)state;

    assert_int_equal(weir_ban(w, &order, T0, &out), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "193.51.100.9"}), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "::1"}), WEIR_NEVER);
    order.value = slice("::/0");
    assert_int_equal(weir_ban(w, &order, T0, &out), 0);
    assert_int_equal(banned(w, T0, (struct call){.peer = "193.51.100.9"}), WEIR_NEVER);
    weir_close(w);
}

static void test_orders_out_of_range(void **state)
{
    char longest[WEIR_BAN_REASON_MAX + 2];
    struct weir *w = open_text(POLICY, "");
    const struct weir_slice ip = slice("ip"), one = slice("192.0.2.1");
    const struct weir_ban_order bad[] = {
        {ip, slice("192.0.2.1/24"), slice(""), 0}, /* bits behind the prefix */
        {ip, slice("example.com"), slice(""), 0},
        {ip, slice(""), slice(""), 0},
        {ip, slice("192.0.2.1:80"), slice(""), 0},
        {slice("api_key"), slice(""), slice(""), 0},
        {slice(""), slice("x"), slice(""), 0},
        {ip, one, slice("two\nlines"), 0},
        {ip, one, slice("\xff"), 0},
        {ip, one, slice("\xc2\x9b"), 0},
        {ip, one, slice(longest), 0},
        {ip, one, slice(""), T0}, /* not after now */
        {ip, one, slice(""), -1},
        {ip, one, slice(""), INT64_MAX},
    };
    struct weir_banned out;
    (void)state;

    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct weir_ban_order order = bad[i];
        if (order.reason.ptr == longest)
            order.reason.len = sizeof longest - 1;
        memset(&out, 1, sizeof out);
        if (weir_ban(w, &order, T0, &out) != WEIR_EINVAL)
            fail_msg("order %zu was taken", i);
        assert_int_equal(out.id, 0);
    }
    assert_int_equal(weir_ban(w, &(struct weir_ban_order){ip, one, slice(""), 0}, -1, NULL),
                     WEIR_EINVAL);
    assert_int_equal(weir_unban(w, ip, slice("nowhere"), T0), WEIR_EINVAL);
    assert_int_equal(weir_unban(w, slice(""), one, T0), WEIR_EINVAL);
    assert_int_equal(weir_bans(w, T0, NULL, 0), 0);
    weir_close(w);
}

/* ---- across handles ------------------------------------------------------------------------ */

static void test_all_who_share_the_arena(void **state)
{
    char dir[] = "/tmp/weir-bans-XXXXXX", path[64];
    struct weir *a, *b;
    (void)state;

    assert_non_null(mkdtemp(dir));
    (void)snprintf(path, sizeof path, "%s/arena", dir);
    a = open_text(POLICY, path);
    b = open_text(POLICY, path);
    assert_int_equal(ban(a, "api_key", "k", T0 + S, T0), 0);
    assert_int_equal(banned(b, T0, (struct call){.api_key = "k"}), S);
    weir_close(a);
    weir_close(b);
    /* Another policy that knows the identity by the same name; all had closed. */
    a = open_text("version: 1\nidentity: {api_key: {header: X-Api-Key}}\n"
                  "limits: [{name: other, rate: 1/second}]\n",
                  path);
    assert_int_equal(banned(a, T0, (struct call){.api_key = "k"}), S);
    /* One that does not know it: still listed, and may be lifted. */
    b = open_text("version: 1\nlimits: [{name: third, rate: 1/second}]\n", path);
    assert_int_equal(weir_bans(b, T0, NULL, 0), 1);
    assert_int_equal(banned(b, T0, (struct call){0}), 0);
    assert_int_equal(weir_unban(b, slice("api_key"), slice("k"), T0), 0);
    assert_int_equal(banned(a, T0, (struct call){.api_key = "k"}), 0);
    weir_close(a);
    weir_close(b);
    (void)unlink(path);
    (void)rmdir(dir);
}

struct readers {
    struct weir *weir;
    int stop;
};

/* One is banned all the while, one never; a third comes and goes. */
static void *read_bans(void *argument)
{
    struct readers *readers = argument;
    struct weir_banned list[8];

    while (__atomic_load_n(&readers->stop, __ATOMIC_ACQUIRE) == 0) {
        int64_t third = banned(readers->weir, T0, (struct call){.api_key = "third"});
        size_t listed = weir_bans(readers->weir, T0, list, 8);
        if (banned(readers->weir, T0, (struct call){.api_key = "always"}) != WEIR_NEVER ||
            banned(readers->weir, T0, (struct call){.api_key = "never"}) != 0 ||
            (third != 0 && third != S && third != 2 * S) || listed < 1 || listed > 5)
            return readers;
    }
    return NULL;
}

static void test_reading_while_it_changes(void **state)
{
    struct readers readers = {open_text(POLICY, ""), 0};
    pthread_t threads[2];
    void *failed;
    (void)state;

    assert_int_equal(ban(readers.weir, "api_key", "always", WEIR_BAN_FOREVER, T0), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_bans, &readers), 0);
    for (int i = 0; i < 2000; i++) {
        const char *ip = i % 2 == 0 ? "198.51.100.0/24" : "2001:db8::/32";
        assert_int_equal(ban(readers.weir, "api_key", "third", T0 + (1 + i % 2) * S, T0), 0);
        assert_int_equal(ban(readers.weir, "ip", ip, T0 + S, T0), 0);
        if (i % 3 == 0)
            assert_int_equal(weir_unban(readers.weir, slice("api_key"), slice("third"), T0), 0);
        assert_int_equal(weir_unban(readers.weir, slice("ip"), slice(ip), T0), 0);
    }
    __atomic_store_n(&readers.stop, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    weir_close(readers.weir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_until_its_end),
        cmocka_unit_test(test_answers_over_http),
        cmocka_unit_test(test_networks),
        cmocka_unit_test(test_identities),
        cmocka_unit_test(test_behind_a_proxy),
        cmocka_unit_test(test_precedence),
        cmocka_unit_test(test_every_way_to_decide),
        cmocka_unit_test(test_the_list),
        cmocka_unit_test(test_addresses_as_they_are_written),
        cmocka_unit_test(test_zeros_are_not_ipv4),
        cmocka_unit_test(test_orders_out_of_range),
        cmocka_unit_test(test_all_who_share_the_arena),
        cmocka_unit_test(test_reading_while_it_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
