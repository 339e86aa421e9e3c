/* banjson.c - bodies of bans. */
#include "wire/banjson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char scratch[512];

static bool read_body(struct wr_ban_body *out, const char *text)
{
    return wr_ban_body_read(out, (struct weir_slice){text, strlen(text)}, scratch);
}

static void is(struct weir_slice got, const char *wanted)
{
    assert_int_equal(got.len, strlen(wanted));
    assert_memory_equal(got.ptr, wanted, got.len);
}

static void whole_ones(void **state)
{
    struct wr_ban_body body;
    (void)state;

    assert_true(read_body(&body, "{\"ip\":\"192.0.2.1\"}"));
    is(body.identity, "ip");
    is(body.value, "192.0.2.1");
    assert_null(body.lasts.ptr);
    assert_null(body.until.ptr);
    assert_null(body.reason.ptr);
    assert_true(
        read_body(&body, " { \"reason\" : \"a\\u00e9\\n\", \"for\": \"1h\", \"api_key\":\"\" } "));
    is(body.identity, "api_key");
    is(body.value, "");
    is(body.lasts, "1h");
    is(body.reason, "a\xc3\xa9\n");
    assert_true(read_body(&body, "{\"until\":\"\",\"user\":\"u\"}"));
    assert_non_null(body.until.ptr); /* given, and wrong: for others to say */
}

static void refused(const char *text, const char *error, const char *member)
{
    struct wr_ban_body body;

    if (read_body(&body, text))
        fail_msg("taken: %s", text);
    assert_non_null(body.error);
    if (error != NULL)
        assert_string_equal(body.error, error);
    is(body.member, member);
}

static void others(void **state)
{
    (void)state;
    refused("", NULL, "");
    refused("[]", NULL, "");
    refused("{}", "expected a caller: \"ip\", or the name of an identity", "");
    refused("{\"for\":\"1h\"}", "expected a caller: \"ip\", or the name of an identity", "");
    refused("{\"ip\":\"1.2.3.4\",\"user\":\"u\"}", "expected one caller a ban, found a second",
            "user");
    refused("{\"ip\":\"1.2.3.4\",\"ip\":\"1.2.3.4\"}", "expected one caller a ban, found a second",
            "ip");
    refused("{\"ip\":\"1.2.3.4\",\"For\":\"1h\"}", "expected one caller a ban, found a second",
            "For");
    refused("{\"for\":\"1h\",\"for\":\"2h\",\"ip\":\"x\"}", "given twice", "for");
    refused("{\"ip\":7}", "expected a string", "ip");
    refused("{\"ip\":\"x\",\"for\":null}", "expected a string", "for");
    refused("{\"ip\":\"x\",\"reason\":[\"y\"]}", "expected a string", "reason");
    refused("{\"ip\":\"x\",\"for\":\"1h\",\"until\":\"t\"}",
            "expected one of for and until, found both", "");
    refused("{\"ip\":\"x\"} y", NULL, "");
    refused("{\"ip\":\"x\"", NULL, "");
    refused("{\"ip\":\"\xff\"}", "the body is not UTF-8", "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_ones), cmocka_unit_test(others)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
