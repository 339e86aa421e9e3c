/* json_whole.c - whole numbers as JSON writes them. */
#include "wire/json_whole.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static enum wr_json_whole whole(const char *text, uint64_t most, uint64_t *out)
{
    return wr_json_whole((struct weir_slice){text, strlen(text)}, most, out);
}

static void the_same_number_in_many_ways(void **state)
{
    static const char *const twenty[] = {"20",
                                         "20.0",
                                         "2e1",
                                         "2E+1",
                                         "0.2e2",
                                         "200e-1",
                                         "200.00e-1",
                                         "0020",
                                         "20.000000000000000000000",
                                         "0.00000000000000000002e21",
                                         "20e0"};
    static const char *const none[] = {"0",        "0.0",           "0e5", "0e99999999999",
                                       "0.000e-3", "0e-99999999999"};
    uint64_t number;

    (void)state;
    for (size_t i = 0; i < sizeof twenty / sizeof *twenty; i++) {
        assert_int_equal(whole(twenty[i], 20, &number), WR_JSON_IS_WHOLE);
        assert_int_equal(number, 20);
        assert_int_equal(whole(twenty[i], 19, &number), WR_JSON_TOO_LARGE);
        assert_int_equal(number, 0);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(whole(none[i], 0, &number), WR_JSON_IS_WHOLE);
    assert_int_equal(whole("18446744073709551615", UINT64_MAX, &number), WR_JSON_IS_WHOLE);
    assert_true(number == UINT64_MAX);
    assert_int_equal(whole("1844674407370955161.5e1", UINT64_MAX, &number), WR_JSON_IS_WHOLE);
    assert_true(number == UINT64_MAX);
    assert_int_equal(whole("1001.10e1", 10011, &number), WR_JSON_IS_WHOLE);
    assert_int_equal(number, 10011);
}

static void what_is_none(void **state)
{
    static const char *const bad[] = {"",   "-1",  "+1",    "1.5",   "15e-1", "1e-1",
                                      "1.", ".5",  "1e",    "1e+",   "e1",    "1 ",
                                      " 1", "0x1", "1.0.0", "1e1.0", "NaN",   "1e-99999999999"};
    static const char *const large[] = {"18446744073709551616", "1e20", "1e99999999999",
                                        "99999999999999999999999", "1844674407370955161.6e1"};
    uint64_t number;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(whole(bad[i], UINT64_MAX, &number), WR_JSON_NOT_WHOLE);
    for (size_t i = 0; i < sizeof large / sizeof *large; i++)
        assert_int_equal(whole(large[i], UINT64_MAX, &number), WR_JSON_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_number_in_many_ways),
        cmocka_unit_test(what_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
