/* What is mended, what is left alone, where a byte came from, and that undoing gives the bytes of
 * the log. Stand-ins are worked out by hand: U+10FF80 + n is f4 8f be|bf 80+n%64. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/json_mend.h"

static void check(const char *text, const char *expected)
{
    size_t len;
    char *mended = wr_json_mend((struct weir_slice){text, strlen(text)}, &len);

    if (expected == NULL) {
        if (mended != NULL)
            fail_msg("%s became %.*s", text, (int)len, mended);
        return;
    }
    if (mended == NULL || len != strlen(expected) || memcmp(mended, expected, len) != 0)
        fail_msg("%s became %.*s, expected %s", text, (int)len, mended != NULL ? mended : "",
                 expected);
    free(mended);
}

static void test_left_alone(void **state)
{
    (void)state;
    check("", NULL);
    check("{\"a\":[1,\"b\\\"\\\\\\n\\u00e9\"]}", NULL);
    check("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"", NULL);
    check("\"\\ud83d\\ude00\"", NULL);
    check("\"\\\\xff\"", NULL);        /* a backslash, then xff */
    check("\xff \\xff \\ud800", NULL); /* outside of strings */
    check("\"a\" \\xff \"b\"", NULL);
    check("\"a\\\"\" \\xff", NULL);
    check("\"\\xf\"", NULL);
    check("\"\\x", NULL);
    check("\"\\u12", NULL);
    check("\"\\", NULL);
}

static void test_mended(void **state)
{
    (void)state;
    check("\"\xff\"", "\"\xf4\x8f\xbf\xbf\"");
    check("\"\x80\"", "\"\xf4\x8f\xbe\x80\"");
    check("\"\\xbf\\xC0\"", "\"\xf4\x8f\xbe\xbf\xf4\x8f\xbf\x80\"");
    check("\"\\x22\\x5c\\x0a\\x41\"", "\"\\u0022\\u005c\\u000aA\"");
    check("\"\xc3x\"", "\"\xf4\x8f\xbf\x83x\"");
    check("\"\\ud800\"", "\"\\ufffd\"");
    check("\"\\ud800\\ud800\\udc00\"", "\"\\ufffd\\ud800\\udc00\"");
    check("\"\\udc00\\ud800\"", "\"\\ufffd\\ufffd\"");
    check("\"\xf4\x8f\xbf\xbf\"", /* the stand-in for ff, of the log's own */
          "\"\xf4\x8f\xbf\xb4\xf4\x8f\xbe\x8f\xf4\x8f\xbe\xbf\xf4\x8f\xbe\xbf\"");
}

/* All bytes, and the character that could be taken for one. */
static void test_undone(void **state)
{
    char text[256], back[1024];
    size_t n = 0, len;
    char *mended;
    (void)state;

    text[n++] = '"';
    for (unsigned c = 0x80; c < 0x100; c++)
        text[n++] = (char)c;
    memcpy(text + n, "a\xc3\xa9\xf4\x8f\xbe\x80z", 8);
    n += 8;
    mended = wr_json_mend((struct weir_slice){text, n}, &len);
    assert_non_null(mended);
    assert_true(wr_json_mend_stands((struct weir_slice){mended, len}));
    assert_false(wr_json_mend_stands((struct weir_slice){text, 130}));
    assert_int_equal(wr_json_mend_undo((struct weir_slice){mended, len}, back), n);
    assert_memory_equal(back, text, n);
    free(mended);
}

static void test_origin(void **state)
{
    const struct weir_slice text = {"{\"a\":\"\xff\\x41\xc3\xa9\\ud800\"!", 21};
    /* {"a":" f4 8f bf bf  A  c3 a9  \ u f f f d  "  ! */
    static const size_t origins[] = {0,  1,  2,  3,  4,  5,  6,  6,  6,  6,  7, 11,
                                     12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 21};
    (void)state;

    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        assert_int_equal(wr_json_mend_origin(text, i), origins[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_mended),
        cmocka_unit_test(test_undone),
        cmocka_unit_test(test_origin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
