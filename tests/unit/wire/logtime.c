/* Moments as logs write them; the seconds were computed with date(1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "wire/logtime.h"

#define BAD INT64_C(-1)

static int64_t clf(const char *text)
{
    int64_t ns = BAD;

    assert_int_equal(strlen(text), WR_LOGTIME_CLF_LEN);
    return wr_logtime_clf(text, &ns) ? ns : BAD;
}

static int64_t rfc3339(const char *text)
{
    int64_t ns = BAD;
    return wr_logtime_rfc3339((struct weir_slice){text, strlen(text)}, &ns) ? ns : BAD;
}

static int64_t epoch(const char *text)
{
    int64_t ns = BAD;
    return wr_logtime_epoch((struct weir_slice){text, strlen(text)}, &ns) ? ns : BAD;
}

static int64_t scaled(const char *text, int64_t unit_ns)
{
    int64_t ns = BAD;
    return wr_logtime_scaled((struct weir_slice){text, strlen(text)}, unit_ns, &ns) ? ns : BAD;
}

static void test_clf(void **state)
{
    (void)state;
    assert_int_equal(clf("17/May/2015:10:05:03 +0000"), 1431857103 * WR_NS_PER_S);
    assert_int_equal(clf("01/Jul/1995:00:00:01 -0400"), 804571201 * WR_NS_PER_S);
    assert_int_equal(clf("10/Oct/2023:11:06:56 +0200"), 1696928816 * WR_NS_PER_S);
    assert_int_equal(clf("10/Oct/2023:11:06:56 +0545"), 1696915316 * WR_NS_PER_S);
    assert_int_equal(clf("29/Feb/2000:23:59:59 +0000"), 951868799 * WR_NS_PER_S);
    assert_int_equal(clf("31/Dec/2016:23:59:60 +0000"), 1483228800 * WR_NS_PER_S);
    assert_int_equal(clf("01/Jan/1970:00:00:00 +0000"), 0);
    assert_int_equal(clf("31/Dec/2199:23:59:59 +0000"), WR_TIME_MAX_NS - WR_NS_PER_S);
}

static void test_clf_nonsense(void **state)
{
    static const char *const bad[] = {
        "29/Feb/2015:10:05:03 +0000", "00/May/2015:10:05:03 +0000", "32/May/2015:10:05:03 +0000",
        "31/Apr/2015:10:05:03 +0000", "17/may/2015:10:05:03 +0000", "17/Mai/2015:10:05:03 +0000",
        "17/May/1969:10:05:03 +0000", "01/Jan/2200:00:00:00 +0000", "17/May/2015:24:05:03 +0000",
        "17/May/2015:10:60:03 +0000", "17/May/2015:10:05:61 +0000", "17/May/2015:10:05:03 +1600",
        "17/May/2015:10:05:03 +0060", "17/May/2015:10:05:03  0000", "17/May/2015 10:05:03 +0000",
        "17-May-2015:10:05:03 +0000", "1x/May/2015:10:05:03 +0000", "01/Jan/1970:00:00:00 +0001",
    };
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (clf(bad[i]) != BAD)
            fail_msg("%s was let through", bad[i]);
}

static void test_rfc3339(void **state)
{
    const int64_t s = 1431857103 * WR_NS_PER_S;
    (void)state;

    assert_int_equal(rfc3339("2015-05-17T10:05:03Z"), s);
    assert_int_equal(rfc3339("2015-05-17t10:05:03z"), s);
    assert_int_equal(rfc3339("2015-05-17 10:05:03Z"), s);
    assert_int_equal(rfc3339("2015-05-17T10:05:03"), s);
    assert_int_equal(rfc3339("2015-05-17T12:05:03+02:00"), s);
    assert_int_equal(rfc3339("2015-05-17T12:05:03+0200"), s);
    assert_int_equal(rfc3339("2015-05-17T08:05:03.5-02:00"), s + 500 * WR_NS_PER_MS);
    assert_int_equal(rfc3339("2015-05-17T10:05:03.000000001Z"), s + 1);
    assert_int_equal(rfc3339("2015-05-17T10:05:03.1234567899999Z"), s + 123456789);
}

static void test_rfc3339_nonsense(void **state)
{
    static const char *const bad[] = {
        "",
        "2015-05-17",
        "2015-05-17T10:05",
        "2015-05-17T10:05:03.Z",
        "2015-05-17T10:05:03.5.5Z",
        "2015-05-17T10:05:03Zulu",
        "2015-05-17T10:05:03+2",
        "2015-05-17T10:05:03+02:00 ",
        "2015-05-17T10:05:03+02-00",
        "2015-02-29T10:05:03Z",
        "2015-13-01T10:05:03Z",
        "2015/05/17T10:05:03Z",
        "1969-12-31T23:59:59Z",
        "2200-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
    };
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rfc3339(bad[i]) != BAD)
            fail_msg("%s was let through", bad[i]);
}

static void test_epoch_is_exact(void **state)
{
    (void)state;
    assert_int_equal(epoch("1700000000"), 1700000000 * WR_NS_PER_S);
    assert_int_equal(epoch("1700000000.123456789"), 1700000000 * WR_NS_PER_S + 123456789);
    assert_int_equal(epoch("1700000000.1"), 1700000000 * WR_NS_PER_S + 100 * WR_NS_PER_MS);
    assert_int_equal(epoch("1700000000.000000001"), 1700000000 * WR_NS_PER_S + 1);
    assert_int_equal(epoch("1700000000.9999999999"), 1700000000 * WR_NS_PER_S + 999999999);
    assert_int_equal(epoch("1.7e9"), 1700000000 * WR_NS_PER_S);
    assert_int_equal(epoch("1.7000000000000000015E+9"), 1700000000 * WR_NS_PER_S + 1);
    assert_int_equal(epoch("170000000012e-2"), 1700000000 * WR_NS_PER_S + 120 * WR_NS_PER_MS);
    assert_int_equal(epoch("0"), 0);
    assert_int_equal(epoch("0.0e99999999999"), 0);
    assert_int_equal(epoch("0.000000001"), 1);
    assert_int_equal(epoch("5e-10"), 0);
    assert_int_equal(epoch("0001700000000.5"), 1700000000 * WR_NS_PER_S + 500 * WR_NS_PER_MS);
}

static void test_epoch_nonsense(void **state)
{
    static const char *const bad[] = {"",
                                      "-1",
                                      "1700000000123",
                                      "7258118400",
                                      "1e10",
                                      "1e999",
                                      "9999999999999999999999",
                                      ".5",
                                      "1..2",
                                      "1.2.3",
                                      "12x",
                                      "1e",
                                      "1e+",
                                      "0x10",
                                      "1 ",
                                      "nan",
                                      "1e-",
                                      "1,5",
                                      "1e99999999999999999999"};
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (epoch(bad[i]) != BAD)
            fail_msg("%s was let through", bad[i]);
}

static void test_scaled(void **state)
{
    (void)state;
    assert_int_equal(scaled("215563", 1), 215563);
    assert_int_equal(scaled("0.002", WR_NS_PER_S), 2 * WR_NS_PER_MS);
    assert_int_equal(scaled("0.000002701", WR_NS_PER_S), 2701);
    assert_int_equal(scaled("11", WR_NS_PER_MS), 11 * WR_NS_PER_MS);
    assert_int_equal(scaled("9223372036854775807", 1), INT64_MAX);
    assert_int_equal(scaled("9223372036854775808", 1), BAD);
    assert_int_equal(scaled("-", WR_NS_PER_S), BAD);
}

static void test_format(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } moments[] = {
        {0, "1970-01-01T00:00:00Z"},
        {1431857103 * WR_NS_PER_S, "2015-05-17T10:05:03Z"},
        {951868799 * WR_NS_PER_S + 1, "2000-02-29T23:59:59.000000001Z"},
        {951868799 * WR_NS_PER_S + 500 * WR_NS_PER_MS, "2000-02-29T23:59:59.500Z"},
        {951868800 * WR_NS_PER_S + 1000, "2000-03-01T00:00:00.000001Z"},
        {WR_TIME_MAX_NS - 1, "2199-12-31T23:59:59.999999999Z"},
        {-1, "1969-12-31T23:59:59.999999999Z"},
    };
    char text[WR_LOGTIME_TEXT_MAX];
    (void)state;

    for (size_t i = 0; i < sizeof moments / sizeof *moments; i++) {
        assert_int_equal(wr_logtime_format(moments[i].ns, text), strlen(moments[i].text));
        assert_string_equal(text, moments[i].text);
    }
}

/* Every day from 1970 to 2199, counted by stepping through the calendar, both ways. */
static void test_every_day(void **state)
{
    int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int64_t count = 0;
    char text[64], back[WR_LOGTIME_TEXT_MAX];
    (void)state;

    for (int year = 1970; year < 2200; year++) {
        days[1] = (year % 4 == 0 && year != 2100) ? 29 : 28;
        for (int month = 1; month <= 12; month++) {
            for (int day = 1; day <= days[month - 1]; day++, count++) {
                (void)snprintf(text, sizeof text, "%04d-%02d-%02dT12:00:00Z", year, month, day);
                assert_int_equal(rfc3339(text), (count * 86400 + 43200) * WR_NS_PER_S);
                (void)wr_logtime_format((count * 86400 + 43200) * WR_NS_PER_S, back);
                assert_string_equal(back, text);
            }
        }
    }
    assert_int_equal(count * 86400 * WR_NS_PER_S, WR_TIME_MAX_NS);
}

static int64_t until(const char *text)
{
    int64_t ns = BAD;
    return wr_logtime_until((struct weir_slice){text, strlen(text)}, &ns) ? ns : BAD;
}

static void test_until(void **state)
{
    static const char *const bad[] = {"",           "2015-05-1",  "2015-05-32", "2015-02-29",
                                      "2015/05/17", "2015-05 17", "201x-05-17", "2015-05-17T",
                                      "1969-12-31", "2200-01-01", "tomorrow!!", "31.12.2026"};
    (void)state;

    assert_int_equal(until("2015-05-17"), 1431907200 * WR_NS_PER_S); /* the 18th begins */
    assert_int_equal(until("2016-12-31"), 1483228800 * WR_NS_PER_S);
    assert_int_equal(until("2000-02-29"), 951868800 * WR_NS_PER_S);
    assert_int_equal(until("2015-05-17T10:05:03Z"), 1431857103 * WR_NS_PER_S);
    assert_int_equal(until("2015-05-17T12:05:03+02:00"), 1431857103 * WR_NS_PER_S);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (until(bad[i]) != BAD)
            fail_msg("%s was let through", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clf),
        cmocka_unit_test(test_clf_nonsense),
        cmocka_unit_test(test_rfc3339),
        cmocka_unit_test(test_rfc3339_nonsense),
        cmocka_unit_test(test_epoch_is_exact),
        cmocka_unit_test(test_epoch_nonsense),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_format),
        cmocka_unit_test(test_every_day),
        cmocka_unit_test(test_until),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
