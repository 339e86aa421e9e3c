/* log.c - lines of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
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

/* |bytes| as a value, between the quotes. */
static void expect_escaped(const char *bytes, size_t len, const char *expected)
{
    const struct wr_log_value value = wr_log_slice("a", (struct weir_slice){bytes, len});
    char line[WR_LOG_LINE_MAX], whole[256];

    for (int json = 0; json < 2; json++) {
        size_t n = wr_log_format(line, sizeof line, json != 0, WHEN, WR_LOG_INFO, "x", &value, 1);
        (void)snprintf(whole, sizeof whole, json != 0 ? ",\"a\":\"%s\"}" : " a=\"%s\"", expected);
        assert_true(n >= strlen(whole));
        assert_string_equal(line + n - strlen(whole), whole);
    }
}

static void test_what_others_wrote(void **state)
{
    (void)state;
    expect_escaped("a\0b\r\n", 5, "a\\u0000b\\u000d\\u000a");
    expect_escaped("\x1b[2J\x7f", 5, "\\u001b[2J\\u007f");
    expect_escaped("\xc2\x9b"
                   "2J",
                   4, "\\u009b2J"); /* CSI in one character */
    expect_escaped("\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 11,
                   "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    expect_escaped("\xe2\x80\xae"
                   "fdp.exe",
                   10, "\\u202efdp.exe"); /* right to left */
    expect_escaped("\xe2\x80\xa8\xe2\x81\xa6\xef\xbb\xbf", 9, "\\u2028\\u2066\\ufeff");
    expect_escaped("a\xff\xc3", 3, "a\\ufffd\\ufffd");
    expect_escaped("\xc0\xaf\xed\xa0\x80", 5, "\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd");
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

static void first_error(const char *text, const char *expected)
{
    char line[64];

    wr_log_first_error(text, line, sizeof line);
    assert_string_equal(line, expected);
}

static void test_the_first_error(void **state)
{
    (void)state;
    first_error("p:1:2: warning: w\np:3:4: error: e\np:5: error: f\n", "p:3:4: error: e");
    first_error("p: error: about : warning: lights\n", "p: error: about : warning: lights");
    first_error("p:1:2: warning: w\np:3:4: warning: v", "p:1:2: warning: w");
    first_error("", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_the_first_error),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_what_others_wrote),
        cmocka_unit_test(test_what_does_not_fit_is_cut_inside_a_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
