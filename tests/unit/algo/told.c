/* told.c - what the store said, as a word. */
#include "subject.h"

#include "algo/told.h"

#define TICK (INT64_C(1) << 22)
#define NOW (INT64_C(400000000000) * TICK)

static void test_what_is_kept(void **state)
{
    uint64_t word = wr_told_word(1000, 998, NOW + 3600 * WR_NS_PER_S + 1);
    (void)state;

    assert_int_equal(wr_told_units(1000, word), 998);
    assert_in_range(wr_told_moment_ns(word), NOW + 3600 * WR_NS_PER_S + 1,
                    NOW + 3600 * WR_NS_PER_S + TICK);
    assert_int_equal(wr_told_moment_ns(wr_told_word(5, 0, NOW)), NOW); /* a whole tick */
    assert_int_equal(wr_told_units(5, wr_told_word(5, 9, NOW)), 5);
    assert_int_equal(wr_told_units(5, wr_told_word(5, -9, NOW)), 0);
}

/* 10^12 has 40 bits, of which the low 18 go. */
static void test_large_counts_round_down(void **state)
{
    const int64_t large = INT64_C(1000000000000);
    (void)state;

    assert_int_equal(wr_told_units(large, wr_told_word(large, 5 * (1 << 18) + 7, NOW)),
                     5 * (1 << 18));
    assert_int_equal(wr_told_units(large, wr_told_word(large, (1 << 18) - 1, NOW)), 0);
    assert_int_equal(wr_told_units(4194303, wr_told_word(4194303, 4194303, NOW)), 4194303);
}

static void test_decides_nothing(void **state)
{
    struct wr_limit limit = wr_told_limit();
    uint64_t word = wr_told_word(1000, 998, NOW);
    struct wr_take out;
    (void)state;

    assert_true(wr_limit_valid(&limit));
    wr_told.take(&limit, word, NOW, 1, &out);
    assert_false(out.allowed);
    assert_int_equal(out.state, word);
    assert_int_equal(wr_told.force(&limit, word, NOW, 1), word);
    assert_int_equal(wr_told.refund(&limit, word, word, NOW, 1), word);
    assert_int_equal(wr_word_used_q32(&limit, word, NOW - 1), 1);
    assert_int_equal(wr_word_used_q32(&limit, word, NOW), 0);
    assert_in_range(wr_told_moment_ns(UINT64_MAX), 0, WR_TIME_MAX_NS);
    assert_in_range(wr_told_units(1000, UINT64_MAX), 0, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_kept),
        cmocka_unit_test(test_large_counts_round_down),
        cmocka_unit_test(test_decides_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
