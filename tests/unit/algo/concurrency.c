/* concurrency.c - deciding by the number of places taken. */
#include "algo/concurrency.h"

#include "subject.h"

static void expect_place(int64_t places, uint32_t live, bool look, bool allowed, bool never,
                         int64_t remaining, uint32_t must_age)
{
    struct wr_limit limit = subject_of(WR_CONCURRENCY, places, 30 * S, -1).limit;
    struct wr_take out;
    uint32_t age = 99;

    wr_concurrency_take(&limit, live, look, &out, &age);
    assert_int_equal(out.allowed, allowed);
    assert_int_equal(out.never, never);
    assert_int_equal(out.remaining, remaining);
    assert_int_equal(age, must_age);
    assert_int_equal(out.delay_ns, 0);
}

static void places_are_taken_one_by_one(void **state)
{
    (void)state;
    expect_place(4, 0, false, true, false, 3, 0);
    expect_place(4, 3, false, true, false, 0, 0);
    expect_place(4, 4, false, false, false, 0, 1); /* until the oldest lease ends */
    expect_place(4, 7, false, false, false, 0, 4); /* the limit was lowered */
}

static void a_look_takes_no_place(void **state)
{
    (void)state;
    expect_place(4, 1, true, true, false, 3, 0);
    expect_place(4, 4, true, true, false, 0, 0);
    expect_place(4, 9, true, true, false, 0, 0);
}

static void no_places_refuse_everything(void **state)
{
    (void)state;
    expect_place(0, 0, false, false, true, 0, 0);
    expect_place(0, 0, true, true, false, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_taken_one_by_one),
        cmocka_unit_test(a_look_takes_no_place),
        cmocka_unit_test(no_places_refuse_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
