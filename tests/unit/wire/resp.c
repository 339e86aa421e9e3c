/* Commands and replies of RESP, by hand from the specification and redis-server's texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/resp.h"

static struct weir_slice args[WR_RESP_ARGS_MAX];
static struct wr_resp_command command;
static char scratch[WR_RESP_INLINE_MAX];
static const struct wr_resp_limits all = {WR_RESP_ARGS_MAX, WR_RESP_BULK_MAX};

static enum wr_resp_step parse_bytes(const char *bytes, size_t len)
{
    return wr_resp_parse(bytes, len, &all, scratch, args, &command);
}

/* In a block of its own size, so that a sanitizer sees a byte too far. */
static enum wr_resp_step parse(const char *text)
{
    static char *copy;
    size_t len = strlen(text);

    free(copy);
    copy = malloc(len + (len == 0));
    assert_non_null(copy);
    memcpy(copy, text, len);
    return parse_bytes(copy, len);
}

static void expect_arg(unsigned i, const char *text)
{
    assert_true(i < command.argc);
    assert_int_equal(args[i].len, strlen(text));
    assert_memory_equal(args[i].ptr, text, strlen(text));
}

static void arrays(void **state)
{
    (void)state;
    assert_int_equal(parse("*2\r\n$4\r\nECHO\r\n$5\r\na\r\nb\n\r\nPING\r\n"), WR_RESP_COMMAND);
    assert_int_equal(command.argc, 2);
    assert_int_equal(command.consumed, 25);
    assert_false(command.is_inline);
    expect_arg(0, "ECHO");
    expect_arg(1, "a\r\nb\n");
    assert_int_equal(parse("*1\r\n$0\r\n\r\n"), WR_RESP_COMMAND);
    expect_arg(0, "");
}

static void nothing(void **state)
{
    (void)state;
    assert_int_equal(parse("*0\r\nPING\r\n"), WR_RESP_NOTHING);
    assert_int_equal(command.consumed, 4);
    assert_int_equal(parse("*-1\r\n"), WR_RESP_NOTHING);
    assert_int_equal(command.consumed, 5);
    assert_int_equal(parse("\r\n"), WR_RESP_NOTHING);
    assert_int_equal(command.consumed, 2);
    assert_int_equal(parse("\n"), WR_RESP_NOTHING);
    assert_int_equal(command.consumed, 1);
    assert_int_equal(parse("  \t \r\n"), WR_RESP_NOTHING);
}

static void every_beginning_waits(void **state)
{
    static const char whole[] = "*3\r\n$10\r\nWEIR.CHECK\r\n$2\r\nip\r\n$11\r\n192.0.2.123\r\n";
    static const char line[] = "echo \"a b\"\r\n";

    (void)state;
    for (size_t len = 0; len < sizeof whole - 1; len++) {
        char *copy = malloc(len + 1);
        assert_non_null(copy);
        memcpy(copy, whole, len);
        assert_int_equal(parse_bytes(copy, len), WR_RESP_MORE);
        free(copy);
    }
    assert_int_equal(parse(whole), WR_RESP_COMMAND);
    for (size_t len = 0; len < sizeof line - 2; len++)
        assert_int_equal(parse_bytes(line, len), WR_RESP_MORE);
    assert_int_equal(parse(line), WR_RESP_COMMAND);
}

static void lines(void **state)
{
    (void)state;
    assert_int_equal(parse("  set  key\t'it\\'s' \"a\\x41\\n\\\"\\\\\\q\" \"\"\nrest"),
                     WR_RESP_COMMAND);
    assert_true(command.is_inline);
    assert_int_equal(command.argc, 5);
    expect_arg(0, "set");
    expect_arg(1, "key");
    expect_arg(2, "it's");
    expect_arg(3, "aA\n\"\\q");
    expect_arg(4, "");
    assert_int_equal(parse("PING\r\n"), WR_RESP_COMMAND);
    assert_int_equal(command.consumed, 6);
    expect_arg(0, "PING");
    assert_int_equal(parse("a\\b '\\n' \"\\xZZ\\x4\"\n"), WR_RESP_COMMAND);
    expect_arg(0, "a\\b");
    expect_arg(1, "\\n");
    expect_arg(2, "xZZx4");
}

static void expect_bad(const char *text, const char *error)
{
    assert_int_equal(parse(text), WR_RESP_BAD);
    assert_string_equal(command.error, error);
}

static void refused(void **state)
{
    (void)state;
    expect_bad("*1\r\n+PING\r\n", "Protocol error: expected '$', got '+'");
    expect_bad("*1\r\n\r\n", "Protocol error: expected '$', got '?'");
    expect_bad("*1\r\n$-1\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$536870912\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$1048577\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$1x\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$ 1\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$99999999999999999999\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$9223372036854775807\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$4\rPING\r\n", "Protocol error: invalid bulk length");
    expect_bad("*1\r\n$4\r\nPINGxx", "Protocol error: expected CRLF behind a bulk string");
    expect_bad("*257\r\n", "Protocol error: invalid multibulk length");
    expect_bad("*-2\r\n", "Protocol error: invalid multibulk length");
    expect_bad("*\r\n", "Protocol error: invalid multibulk length");
    expect_bad("*abc\r\n", "Protocol error: invalid multibulk length");
    expect_bad("*11111111111111111111111111111111", "Protocol error: invalid multibulk length");
    expect_bad("ping \"a\r\n", "Protocol error: unbalanced quotes in request");
    expect_bad("ping \"a\"b\r\n", "Protocol error: unbalanced quotes in request");
    expect_bad("ping 'a\r\n", "Protocol error: unbalanced quotes in request");
}

static void bounds(void **state)
{
    static const struct wr_resp_limits stranger = {WR_RESP_ARGS_UNKNOWN, WR_RESP_BULK_UNKNOWN};
    char *big = malloc(WR_RESP_COMMAND_MAX);
    struct weir_slice few[WR_RESP_ARGS_UNKNOWN];

    (void)state;
    assert_non_null(big);
    memset(big, 'a', WR_RESP_COMMAND_MAX);
    assert_int_equal(parse_bytes(big, WR_RESP_INLINE_MAX - 1), WR_RESP_MORE);
    assert_int_equal(parse_bytes(big, WR_RESP_INLINE_MAX), WR_RESP_BAD);
    assert_string_equal(command.error, "Protocol error: too big inline request");
    /* Three arguments of 1 MiB are more than a command may be. */
    memcpy(big, "*3\r\n$1048576\r\n", 14);
    memcpy(big + 14 + 1048576, "\r\n$1048576\r\n", 12);
    assert_int_equal(parse_bytes(big, WR_RESP_COMMAND_MAX - 1), WR_RESP_MORE);
    assert_int_equal(parse_bytes(big, WR_RESP_COMMAND_MAX), WR_RESP_BAD);
    assert_int_equal(wr_resp_parse("*11\r\n", 5, &stranger, scratch, few, &command), WR_RESP_BAD);
    assert_int_equal(wr_resp_parse("*1\r\n$16385\r\n", 12, &stranger, scratch, few, &command),
                     WR_RESP_BAD);
    assert_int_equal(
        wr_resp_parse("1 2 3 4 5 6 7 8 9 10 11\n", 24, &stranger, scratch, few, &command),
        WR_RESP_BAD);
    free(big);
}

static void expect_integer(const char *text, bool good, int64_t value)
{
    int64_t out;

    assert_int_equal(wr_resp_integer((struct weir_slice){text, strlen(text)}, &out), good);
    if (good)
        assert_true(out == value);
}

static void integers(void **state)
{
    (void)state;
    expect_integer("0", true, 0);
    expect_integer("-0", true, 0);
    expect_integer("+7", true, 7);
    expect_integer("007", true, 7);
    expect_integer("9223372036854775807", true, INT64_MAX);
    expect_integer("-9223372036854775808", true, INT64_MIN);
    expect_integer("9223372036854775808", false, 0);
    expect_integer("-9223372036854775809", false, 0);
    expect_integer("", false, 0);
    expect_integer("+", false, 0);
    expect_integer("-", false, 0);
    expect_integer(" 1", false, 0);
    expect_integer("1.0", false, 0);
    expect_integer("1e3", false, 0);
    expect_integer("--1", false, 0);
}

static void expect_written(const struct wr_resp_out *out, const char *text)
{
    assert_false(out->full);
    assert_int_equal(out->len, strlen(text));
    assert_memory_equal(out->bytes, text, out->len);
}

static void replies(void **state)
{
    char bytes[256];
    struct wr_resp_out two = {.bytes = bytes, .size = sizeof bytes};
    struct wr_resp_out three = {.bytes = bytes, .size = sizeof bytes, .resp3 = true};

    (void)state;
    wr_resp_array(&two, 4);
    wr_resp_int(&two, 0);
    wr_resp_int(&two, -1);
    wr_resp_int(&two, INT64_MIN);
    wr_resp_int(&two, INT64_MAX);
    expect_written(&two, "*4\r\n:0\r\n:-1\r\n:-9223372036854775808\r\n:9223372036854775807\r\n");
    two.len = 0;
    wr_resp_simple(&two, "OK");
    wr_resp_error(&two, "ERR no");
    wr_resp_bulk(&two, (struct weir_slice){"a\0b", 3});
    two.bytes[sizeof "+OK\r\n-ERR no\r\n$3\r\na" - 1] = '0';
    wr_resp_null(&two);
    wr_resp_map(&two, 2);
    expect_written(&two, "+OK\r\n-ERR no\r\n$3\r\na0b\r\n$-1\r\n*4\r\n");
    wr_resp_null(&three);
    wr_resp_map(&three, 2);
    expect_written(&three, "_\r\n%2\r\n");
    three.len = 0;
    wr_resp_error_begin(&three, "ERR '");
    wr_resp_error_bytes(&three, (struct weir_slice){"a\r\xff+OK", 6}, 5);
    wr_resp_error_end(&three, "'");
    expect_written(&three, "-ERR 'a ?+O'\r\n");
}

static void full(void **state)
{
    char bytes[8] = "";
    struct wr_resp_out out = {.bytes = bytes, .size = sizeof bytes};

    (void)state;
    wr_resp_simple(&out, "FIVE5");
    assert_false(out.full);
    wr_resp_int(&out, 1);
    assert_true(out.full);
    assert_int_equal(out.len, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arrays),
        cmocka_unit_test(nothing),
        cmocka_unit_test(every_beginning_waits),
        cmocka_unit_test(lines),
        cmocka_unit_test(refused),
        cmocka_unit_test(bounds),
        cmocka_unit_test(integers),
        cmocka_unit_test(replies),
        cmocka_unit_test(full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
