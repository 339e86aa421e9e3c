/* Problem bodies against objects written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "wire/problem.h"

static const char *render(const struct wr_problem *problem)
{
    static char body[WEIR_PROBLEM_BYTES];
    int n = wr_problem_write(problem, body, sizeof body);

    assert_true(n > 0);
    assert_int_equal(strlen(body), n);
    return body;
}

static struct wr_problem search(void)
{
    return (struct wr_problem){.status = 429,
                               .reason = WEIR_REASON_LIMIT,
                               .limit = "search",
                               .quota_units = 30,
                               .window_ns = 60 * WR_NS_PER_S,
                               .retry_after_ns = 12 * WR_NS_PER_S,
                               .violated = {"search"},
                               .violated_count = 1};
}

static void test_a_refusal(void **state)
{
    struct wr_problem p = search();
    (void)state;

    assert_string_equal(
        render(&p), "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
                    "\"title\":\"Quota exceeded\",\"status\":429,"
                    "\"detail\":\"30 requests per minute; try again in 12 s\","
                    "\"violated-policies\":[\"search\"],\"error\":\"rate_limit_exceeded\","
                    "\"retry_after\":12,\"limit\":\"search\"}");
    p.plan = "free";
    p.upgrade_url = "https://example.com/pricing";
    p.documentation_url = "https://example.com/docs?a=\"b\"";
    p.violated[1] = "day";
    p.violated_count = 2;
    assert_non_null(strstr(render(&p), "\"violated-policies\":[\"search\",\"day\"],"));
    assert_non_null(strstr(render(&p),
                           ",\"limit\":\"search\",\"plan\":\"free\","
                           "\"upgrade_url\":\"https://example.com/pricing\","
                           "\"documentation_url\":\"https://example.com/docs?a=\\\"b\\\"\"}"));
}

static void check_detail(const struct wr_problem *problem, const char *detail)
{
    char expected[512];

    (void)snprintf(expected, sizeof expected, "\"detail\":\"%s\",", detail);
    if (strstr(render(problem), expected) == NULL)
        fail_msg("%s\nnot in %s", expected, render(problem));
}

static void test_waits(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } waits[] = {
        {1, "1 s"},
        {WR_NS_PER_S, "1 s"},
        {WR_NS_PER_S + 1, "2 s"},
        {59 * WR_NS_PER_S, "59 s"},
        {60 * WR_NS_PER_S, "1 min"},
        {303 * WR_NS_PER_S, "5 min 3 s"},
        {3600 * WR_NS_PER_S, "1 h"},
        {3601 * WR_NS_PER_S, "1 h 1 min"},
        {INT64_C(86399) * WR_NS_PER_S, "24 h"},
        {INT64_C(86400) * WR_NS_PER_S, "1 d"},
        {INT64_C(31) * 86400 * WR_NS_PER_S - 1, "31 d"},
        {INT64_C(3) * 86400 * WR_NS_PER_S + 3 * WR_NS_PER_HOUR + 1, "3 d 4 h"},
    };
    char detail[128];
    (void)state;

    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct wr_problem p = search();
        p.retry_after_ns = waits[i].ns;
        (void)snprintf(detail, sizeof detail, "30 requests per minute; try again in %s",
                       waits[i].text);
        check_detail(&p, detail);
    }
}

static void test_windows(void **state)
{
    static const struct {
        int64_t units, window_ns;
        const char *text;
    } windows[] = {
        {1, WR_NS_PER_S, "1 request per second"},
        {100, 15 * WR_NS_PER_MINUTE, "100 requests per 15 minutes"},
        {100, WR_NS_PER_HOUR, "100 requests per hour"},
        {100, 24 * WR_NS_PER_HOUR, "100 requests per day"},
        {100, 14 * WR_NS_PER_DAY, "100 requests per 2 weeks"},
        {2, 250 * WR_NS_PER_MS, "2 requests per 250 ms"},
        {2, 90 * WR_NS_PER_S, "2 requests per 90 seconds"},
        {4, 0, "4 requests at a time"},
        {2, 7, "2 requests per 7 ns"},
    };
    char detail[128];
    (void)state;

    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct wr_problem p = search();
        p.quota_units = windows[i].units;
        p.window_ns = windows[i].window_ns;
        (void)snprintf(detail, sizeof detail, "%s; try again in 12 s", windows[i].text);
        check_detail(&p, detail);
    }
}

static void test_windows_of_the_calendar(void **state)
{
    struct wr_problem p = search();
    (void)state;

    p.window_ns = 32 * WR_NS_PER_DAY;
    p.period = "month";
    check_detail(&p, "30 requests per month; try again in 12 s");
}

static void test_reasons(void **state)
{
    struct wr_problem p = search();
    (void)state;

    p.retry_after_ns = WEIR_NEVER;
    p.reason = WEIR_REASON_CAPACITY;
    check_detail(&p, "this request costs more than 30 requests per minute can ever allow");
    assert_null(strstr(render(&p), "retry_after"));
    p.reason = WEIR_REASON_ZERO;
    check_detail(&p, "no requests are allowed here");
    p.reason = WEIR_REASON_MISSING;
    check_detail(&p, "the request lacks a credential that this limit needs");
    p.reason = WEIR_REASON_BUSY;
    p.retry_after_ns = WR_NS_PER_S;
    check_detail(&p, "too many requests at this moment; try again in 1 s");
}

static void test_types(void **state)
{
    struct wr_problem p = {.status = 429,
                           .reason = WEIR_REASON_BANNED,
                           .retry_after_ns = -1,
                           .upgrade_url = "https://example.org/plans"}; /* paying cures no ban */
    (void)state;

    assert_string_equal(
        render(&p),
        "{\"type\":\"https://iana.org/assignments/http-problem-types#abnormal-usage-detected\","
        "\"title\":\"Abnormal usage detected\",\"status\":429,"
        "\"detail\":\"requests from this caller are blocked\",\"violated-policies\":[],"
        "\"error\":\"banned\"}");
    p.reason = WEIR_REASON_MISSING;
    assert_non_null(strstr(render(&p), "\"error\":\"credential_missing\"}"));
    p = search();
    p.reason = WEIR_REASON_CAPACITY;
    assert_non_null(strstr(render(&p), "\"error\":\"cost_above_capacity\""));
    p = search();
    p.status = 503;
    assert_non_null(strstr(render(&p), "#temporary-reduced-capacity\",\"title\":\"Temporarily "
                                       "reduced capacity\",\"status\":503,"));
}

/* Whatever a policy says, the body is one JSON object. */
static void test_hostile_strings(void **state)
{
    struct wr_problem p = search();
    (void)state;

    p.limit = "a\"b\\c\nd\x01\x7f";
    p.plan = "\xff\xc3\xa9\xed\xa0\x80";
    assert_non_null(strstr(render(&p), "\"limit\":\"a\\\"b\\\\c\\nd\\u0001\\u007f\","
                                       "\"plan\":\"\\ufffd\xc3\xa9\\ufffd\\ufffd\\ufffd\"}"));
}

static void test_small_buffers(void **state)
{
    struct wr_problem p = search();
    char buffer[WEIR_PROBLEM_BYTES];
    size_t need = strlen(render(&p)) + 1;
    (void)state;

    for (size_t size = 0; size <= need; size++) {
        memset(buffer, 0x55, sizeof buffer);
        int n = wr_problem_write(&p, buffer, size);
        assert_int_equal(n, size == need ? (int)need - 1 : WEIR_EFULL);
        assert_int_equal(buffer[size], 0x55);
        if (size > 0)
            assert_non_null(memchr(buffer, '\0', size));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_refusal),       cmocka_unit_test(test_waits),
        cmocka_unit_test(test_windows),         cmocka_unit_test(test_windows_of_the_calendar),
        cmocka_unit_test(test_reasons),         cmocka_unit_test(test_types),
        cmocka_unit_test(test_hostile_strings), cmocka_unit_test(test_small_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
