/* bytes.c - a buffer that grows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/bytes.h"

static void test_append_and_settle(void **state)
{
    struct wr_bytes bytes = {0};
    (void)state;

    for (unsigned i = 0; i < 10000; i++) {
        uint8_t piece[3] = {(uint8_t)i, (uint8_t)(i >> 8), 7};
        assert_true(wr_bytes_append(&bytes, piece, sizeof piece));
    }
    assert_int_equal(wr_bytes_held(&bytes), 30000);
    bytes.start = 29997; /* all but the last piece is used up */
    wr_bytes_settle(&bytes);
    assert_int_equal(wr_bytes_held(&bytes), 3);
    assert_int_equal(bytes.bytes[0], 9999 & 255);
    assert_int_equal(bytes.bytes[1], 9999 >> 8);
    assert_true(wr_bytes_append(&bytes, "ab", 2));
    assert_int_equal(wr_bytes_held(&bytes), 5);
    assert_int_equal(bytes.bytes[4], 'b');
    wr_bytes_free(&bytes);
    assert_int_equal(wr_bytes_held(&bytes), 0);
    wr_bytes_free(&bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_append_and_settle)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
