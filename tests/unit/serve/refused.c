/* refused.c - how many refusals have a line of their own, and how the others are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "serve/refused.h"

#define S INT64_C(1000000000)

static const char a[] = "a", b[] = "b";

static uint64_t suppressed_of(const struct wr_refused *refused, const char *limit)
{
    for (unsigned i = 0; i < refused->names; i++)
        if (refused->suppressed[i].limit == limit)
            return refused->suppressed[i].count;
    return 0;
}

static void test_the_first_of_each_second(void **state)
{
    struct wr_refused r = {0};
    (void)state;

    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(wr_refused_admit(&r, i % 2 == 0 ? a : b, 5 * S + i, 3), i < 3);
    assert_int_equal(suppressed_of(&r, a), 3); /* 4, 6, 8 */
    assert_int_equal(suppressed_of(&r, b), 4); /* 3, 5, 7, 9 */
    assert_false(wr_refused_admit(&r, a, 6 * S - 1, 3));
    assert_true(wr_refused_admit(&r, a, 6 * S, 3));
    assert_true(wr_refused_admit(&r, a, 5 * S, 3)); /* a clock that went back is another second */
    assert_int_equal(suppressed_of(&r, a), 4);
}

static void test_nobody_or_all(void **state)
{
    struct wr_refused r = {0};
    (void)state;

    assert_false(wr_refused_admit(&r, a, 0, 0));
    assert_int_equal(suppressed_of(&r, a), 1);
    for (unsigned i = 0; i < 1000; i++)
        assert_true(wr_refused_admit(&r, b, S, 1000));
    assert_false(wr_refused_admit(&r, b, S, 1000));
    assert_int_equal(suppressed_of(&r, b), 1);
}

static void test_many_limits(void **state)
{
    static const char names[40][2];
    struct wr_refused r = {0};
    uint64_t sum;
    (void)state;

    for (unsigned i = 0; i < 4000; i++)
        wr_refused_suppress(&r, names[i % 40]);
    assert_int_equal(r.names, WR_REFUSED_NAMES);
    sum = r.suppressed[WR_REFUSED_NAMES].count;
    assert_int_equal(sum, (40 - WR_REFUSED_NAMES) * 100);
    for (unsigned i = 0; i < WR_REFUSED_NAMES; i++) {
        assert_int_equal(suppressed_of(&r, names[i]), 100);
        sum += r.suppressed[i].count;
    }
    assert_int_equal(sum, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_of_each_second),
        cmocka_unit_test(test_nobody_or_all),
        cmocka_unit_test(test_many_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
