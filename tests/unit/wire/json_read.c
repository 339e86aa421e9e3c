/* Where a string ends. The rest of reading is tested through bodies (checkjson.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "wire/json.h"

/* Strings are looked through eight bytes at a time: an end at every place, among bytes that are
 * nearly one. */
static void test_string_ends(void **state)
{
    static const char fillers[] = "! #[]\x7f\x80\xff\xa2\xdc\x9f"; /* off by a bit or by one */
    char text[64], scratch[64];
    (void)state;

    for (size_t at = 1; at < 40; at++) {
        for (size_t f = 0; f < sizeof fillers - 1; f++) {
            struct wr_json json = {text, text + sizeof text, scratch, scratch + sizeof scratch,
                                   NULL};
            struct wr_json_value value;
            memset(text, fillers[f], sizeof text);
            text[0] = '"';
            text[at] = '"';
            assert_true(wr_json_read(&json, &value));
            assert_int_equal(value.text.len, at - 1);
            assert_ptr_equal(json.at, text + at + 1);
            json =
                (struct wr_json){text, text + sizeof text, scratch, scratch + sizeof scratch, NULL};
            text[at] = 0x1f;
            assert_false(wr_json_read(&json, &value));
            assert_ptr_equal(json.at, text + at);
            json = (struct wr_json){text, text + at, scratch, scratch + sizeof scratch, NULL};
            assert_false(wr_json_read(&json, &value));
            assert_string_equal(json.error, "the string is not closed");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_string_ends)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
