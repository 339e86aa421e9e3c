/* hex.c - digits, bytes, numbers; and what stands beside the digits in ASCII. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <string.h>

#include "base/hex.h"

static void what_is_a_digit(void **unused)
{
    unsigned digits = 0;

    (void)unused;
    for (int i = 0; i < 10; i++)
        assert_int_equal(wr_hex_digit((char)('0' + i)), i);
    for (int i = 0; i < 6; i++) {
        assert_int_equal(wr_hex_digit((char)('a' + i)), 10 + i);
        assert_int_equal(wr_hex_digit((char)('A' + i)), 10 + i);
    }
    for (int c = 0; c < 256; c++)
        digits += wr_hex_digit((char)c) >= 0;
    assert_int_equal(digits, 22); /* and nothing else */
}

static void bytes_there_and_back(void **unused)
{
    const uint8_t bytes[] = {0x00, 0x09, 0x7f, 0xa0, 0xff};
    char out[] = "..........|";

    (void)unused;
    wr_hex_write(out, bytes, sizeof bytes);
    assert_string_equal(out, "00097fa0ff|");
    for (size_t i = 0; i < sizeof bytes; i++)
        assert_int_equal(wr_hex_byte(out + 2 * i), bytes[i]);
    assert_int_equal(wr_hex_byte("Fe"), 0xfe);
    assert_int_equal(wr_hex_byte("0g"), -1);
    assert_int_equal(wr_hex_byte("g0"), -1);
}

static void numbers_there_and_back(void **unused)
{
    static const struct {
        uint64_t value;
        const char *text;
    } known[] = {{0, "0000000000000000"},
                 {1, "0000000000000001"},
                 {UINT64_C(0x0123456789abcdef), "0123456789abcdef"},
                 {UINT64_MAX, "ffffffffffffffff"}};
    static const char *const none[] = {"000000000000000g", "00000000 0000000", "0000000000000_00",
                                       "000000000000000A"};
    char out[] = "................|";
    uint64_t value;

    (void)unused;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        wr_hex_write_u64(out, known[i].value);
        assert_memory_equal(out, known[i].text, WR_HEX_U64);
        assert_true(wr_hex_read_u64(known[i].text, &value));
        assert_true(value == known[i].value);
    }
    assert_int_equal(out[WR_HEX_U64], '|');
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        value = 1;
        assert_false(wr_hex_read_u64(none[i], &value));
        assert_true(value == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_a_digit),
        cmocka_unit_test(bytes_there_and_back),
        cmocka_unit_test(numbers_there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
