/* Texts that are put together. */
#include "doors/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void expect(const struct wr_page *page, const char *text)
{
    struct weir_slice got = wr_page_text(page);

    assert_false(page->full);
    assert_int_equal(got.len, strlen(text));
    assert_memory_equal(got.ptr, text, got.len);
}

static void commas_are_where_they_belong(void **state)
{
    struct wr_page page = {0};

    (void)state;
    wr_page_open(&page, '{');
    wr_page_key(&page, "a");
    wr_page_int(&page, -7);
    wr_page_key(&page, "b");
    wr_page_open(&page, '[');
    wr_page_close(&page, ']');
    wr_page_key(&page, "c");
    wr_page_open(&page, '[');
    wr_page_name(&page, "x,");
    wr_page_name(&page, NULL);
    wr_page_bool(&page, true);
    wr_page_open(&page, '{');
    wr_page_close(&page, '}');
    wr_page_open(&page, '{');
    wr_page_key(&page, "d");
    wr_page_null(&page);
    wr_page_close(&page, '}');
    wr_page_uint(&page, 1);
    wr_page_close(&page, ']');
    wr_page_key(&page, "e");
    wr_page_bool(&page, false);
    wr_page_close(&page, '}');
    expect(&page, "{\"a\":-7,\"b\":[],\"c\":[\"x,\",null,true,{},{\"d\":null},1],\"e\":false}");
    wr_page_clear(&page);
    wr_page_put(&page, "x ");
    wr_page_put_int(&page, 0);
    expect(&page, "x 0");
    wr_page_free(&page);
}

static void numbers_at_their_ends(void **state)
{
    struct wr_page page = {0};

    (void)state;
    wr_page_open(&page, '[');
    wr_page_int(&page, INT64_MIN);
    wr_page_int(&page, INT64_MAX);
    wr_page_uint(&page, UINT64_MAX);
    wr_page_uint(&page, 0);
    wr_page_close(&page, ']');
    expect(&page, "[-9223372036854775808,9223372036854775807,18446744073709551615,0]");
    wr_page_free(&page);
}

static void strings_of_any_bytes_and_length(void **state)
{
    struct wr_page page = {0};
    char text[1000];
    struct weir_slice got;

    (void)state;
    wr_page_string(&page, (struct weir_slice){"q\"\n\xff", 4});
    expect(&page, "\"q\\\"\\n\\ufffd\"");
    wr_page_clear(&page);
    memset(text, 'x', sizeof text);
    wr_page_open(&page, '[');
    wr_page_string(&page, (struct weir_slice){text, sizeof text});
    wr_page_name(&page, "y");
    wr_page_close(&page, ']');
    got = wr_page_text(&page);
    assert_int_equal(got.len, 1 + 1002 + 1 + 3 + 1);
    assert_memory_equal(got.ptr, "[\"xxx", 5);
    assert_memory_equal(got.ptr + 1000, "xx\",\"y\"]", 8);
    wr_page_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(commas_are_where_they_belong),
                                       cmocka_unit_test(numbers_at_their_ends),
                                       cmocka_unit_test(strings_of_any_bytes_and_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
