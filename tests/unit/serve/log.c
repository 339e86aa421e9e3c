/* log.c - lines of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/log.h"

#define WHEN (INT64_C(1767225600) * 1000000000 + 7000000) /* 2026-01-01T00:00:00.007Z */

static void expect(bool json, const char *event, struct wr_log_value value, const char *expected)
{
    char line[WR_LOG_LINE_MAX];
    size_t len = wr_log_format(line, sizeof line, json, WHEN, WR_LOG_WARNING, event, &value, 1);

    assert_string_equal(line, expected);
    assert_int_equal(len, strlen(expected));
}

static void test_text(void **state)
{
    (void)state;
    expect(false, "listening", wr_log_text("door", "http"),
           "2026-01-01T00:00:00.007Z warning listening door=http");
    expect(false, "x", wr_log_number("n", -5), "2026-01-01T00:00:00.007Z warning x n=-5");
    expect(false, "x", wr_log_text("a", "two words"),
           "2026-01-01T00:00:00.007Z warning x a=\"two words\"");
    expect(false, "x", wr_log_text("a", ""), "2026-01-01T00:00:00.007Z warning x a=\"\"");
    expect(false, "x", wr_log_text("a", "\x1b[1m\n"),
           "2026-01-01T00:00:00.007Z warning x a=\"\\u001b[1m\\u000a\"");
    expect(false, "x", wr_log_text("a", NULL), "2026-01-01T00:00:00.007Z warning x a=\"\"");
}

static void test_json(void **state)
{
    (void)state;
    expect(true, "listening", wr_log_text("door", "ht\"tp\\"),
           "{\"time\":\"2026-01-01T00:00:00.007Z\",\"level\":\"warning\",\"event\":\"listening\","
           "\"door\":\"ht\\\"tp\\\\\"}");
    expect(true, "x", wr_log_number("n", INT64_MAX),
           "{\"time\":\"2026-01-01T00:00:00.007Z\",\"level\":\"warning\",\"event\":\"x\","
           "\"n\":9223372036854775807}");
}

static void test_what_does_not_fit_is_cut_inside_a_value(void **state)
{
    static char text[10000];
    char line[256];
    const struct wr_log_value values[] = {wr_log_text("long", text), wr_log_text("more", "x")};
    size_t len;
    (void)state;

    for (unsigned fill = 0; fill < 300; fill++) {
        memset(text, fill % 2 == 0 ? 'y' : '\n', sizeof text - 1);
        text[fill] = '\0';
        len = wr_log_format(line, sizeof line, true, WHEN, WR_LOG_INFO, "cut", values, 2);
        assert_true(len < sizeof line);
        assert_int_equal(line[len], '\0');
        assert_int_equal(line[len - 1], '}');
        assert_int_equal(line[len - 2], '"');
        text[fill] = 'y';
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_what_does_not_fit_is_cut_inside_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
