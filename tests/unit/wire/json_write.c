/* Writing any bytes as a JSON string. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/json_write.h"

static void check(const char *bytes, size_t len, const char *expected)
{
    char out[256];
    size_t n = wr_json_write_string(out, sizeof out, (struct weir_slice){bytes, len});

    if (n != strlen(expected) || memcmp(out, expected, n) != 0)
        fail_msg("found %.*s, expected %s", (int)n, out, expected);
}

#define CHECK(bytes, expected) check(bytes, sizeof(bytes) - 1, expected)

static void test_plain(void **state)
{
    (void)state;
    check(NULL, 0, "\"\"");
    CHECK("abc /~", "\"abc /~\"");
    CHECK("\"\\/\n\r\t", "\"\\\"\\\\/\\n\\r\\t\"");
    CHECK("a\0b\x1f\x7f", "\"a\\u0000b\\u001f\\u007f\"");
}

/* RFC 3629 section 4. */
static void test_utf8(void **state)
{
    (void)state;
    CHECK("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    CHECK("\xf4\x8f\xbf\xbf", "\"\xf4\x8f\xbf\xbf\"");
    CHECK("\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    CHECK("\xc0\xaf", "\"\\ufffd\\ufffd\"");            /* overlong */
    CHECK("\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* overlong */
    CHECK("\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""); /* surrogate */
    CHECK("\xc3", "\"\\ufffd\"");                       /* cut */
    CHECK("\xc3x", "\"\\ufffdx\"");
    CHECK("\xe2\x82", "\"\\ufffd\\ufffd\"");
    CHECK("\xe2\x82x", "\"\\ufffd\\ufffdx\"");
    CHECK("\x80\xff", "\"\\ufffd\\ufffd\"");
}

static void test_small_buffers(void **state)
{
    const struct weir_slice text = {"a\"\xc3\xa9\x01", 5};
    char out[32];
    (void)state;

    for (size_t size = 0; size < sizeof out; size++) {
        memset(out, 0x55, sizeof out);
        assert_int_equal(wr_json_write_string(out, size, text), 13);
        for (size_t i = size; i < sizeof out; i++)
            assert_int_equal(out[i], 0x55);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_small_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
