/* diag.c - messages with places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>

#include <string.h>

#include "base/diag.h"

static struct wr_diag diag;
static char out[65536];

static const char *formatted(void)
{
    size_t len = wr_diag_format(&diag, out, sizeof out);

    assert_int_equal(len, strlen(out));
    return out;
}

static void test_nothing(void **state)
{
    (void)state;
    wr_diag_init(&diag, "p.yaml");
    assert_string_equal(formatted(), "");
    assert_int_equal(diag.errors + diag.warnings, 0);
}

static void test_places(void **state)
{
    (void)state;
    wr_diag_init(&diag, "p.yaml");
    wr_diag_add(&diag, WR_ERROR, 3, 7, "expected %s, found %d", "a", 5);
    wr_diag_add(&diag, WR_WARNING, 2, 0, "a line");
    wr_diag_add(&diag, WR_ERROR, 0, 9, "the file");
    assert_string_equal(formatted(), "p.yaml: error: the file\n"
                                     "p.yaml:2: warning: a line\n"
                                     "p.yaml:3:7: error: expected a, found 5\n");
    assert_int_equal(diag.errors, 2);
    assert_int_equal(diag.warnings, 1);
}

static void test_order_of_places_and_of_coming(void **state)
{
    (void)state;
    wr_diag_init(&diag, NULL);
    wr_diag_add(&diag, WR_ERROR, 2, 5, "c");
    wr_diag_add(&diag, WR_ERROR, 2, 4, "b");
    wr_diag_add(&diag, WR_ERROR, 2, 5, "d");
    wr_diag_add(&diag, WR_ERROR, 1, 9, "a");
    assert_string_equal(formatted(), "-:1:9: error: a\n-:2:4: error: b\n-:2:5: error: c\n"
                                     "-:2:5: error: d\n");
}

static void test_control_characters_cannot_command_a_terminal(void **state)
{
    (void)state;
    wr_diag_init(&diag, "p");
    wr_diag_add(&diag, WR_ERROR, 1, 1, "found \"%s\"", "\x1b[31m\x7f\n\xc3\xa9");
    assert_string_equal(formatted(), "p:1:1: error: found \"\\x1b[31m\\x7f\\x0a\xc3\xa9\"\n");
}

static void test_long_messages_are_cut(void **state)
{
    static char text[4 * WR_DIAG_TEXT_MAX];
    (void)state;

    for (int escaped = 0; escaped < 2; escaped++) {
        memset(text, escaped ? '\x01' : 'x', sizeof text - 1);
        wr_diag_init(&diag, "p");
        wr_diag_add(&diag, WR_ERROR, 1, 1, "%s", text);
        assert_in_range(strlen(diag.items[0].text), WR_DIAG_TEXT_MAX - 8, WR_DIAG_TEXT_MAX - 1);
    }
}

static void test_too_many_are_counted(void **state)
{
    const char *last;
    (void)state;

    wr_diag_init(&diag, "p");
    for (unsigned i = 0; i < WR_DIAG_MAX + 3; i++)
        wr_diag_add(&diag, i % 2 == 0 ? WR_ERROR : WR_WARNING, i + 1, 1, "m%u", i);
    assert_int_equal(diag.kept, WR_DIAG_MAX);
    assert_int_equal(diag.errors + diag.warnings, WR_DIAG_MAX + 3);
    last = strstr(formatted(), "p: and ");
    assert_string_equal(last, "p: and 3 more\n");
}

static void test_small_room(void **state)
{
    char small[10];
    (void)state;

    wr_diag_init(&diag, "p");
    wr_diag_add(&diag, WR_ERROR, 1, 1, "message");
    assert_int_equal(wr_diag_format(&diag, small, sizeof small), strlen("p:1:1: error: message\n"));
    assert_string_equal(small, "p:1:1: er");
    assert_int_equal(wr_diag_format(&diag, NULL, 0), strlen("p:1:1: error: message\n"));
}

static void test_no_list_is_allowed(void **state)
{
    (void)state;
    wr_diag_add(NULL, WR_ERROR, 1, 1, "dropped");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_order_of_places_and_of_coming),
        cmocka_unit_test(test_control_characters_cannot_command_a_terminal),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_too_many_are_counted),
        cmocka_unit_test(test_small_room),
        cmocka_unit_test(test_no_list_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
