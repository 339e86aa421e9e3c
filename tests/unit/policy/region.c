/* region.c - pieces that live and die together. */
#include "policy/region.h"

#include "requests.h"

static void test_pieces_are_apart_aligned_and_zeroed(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4000, 16384, 16385, 100000, 3};
    struct wr_region region = {0};
    char *pieces[sizeof sizes / sizeof sizes[0]];
    (void)state;

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        pieces[i] = wr_region_take(&region, 1, sizes[i]);
        assert_non_null(pieces[i]);
        assert_int_equal((uintptr_t)pieces[i] % 16, 0);
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], 0);
        memset(pieces[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(pieces[i][j], (int)i + 1);
    assert_true(pieces[0] != pieces[1]);
    assert_false(region.failed);
    wr_region_fini(&region);
    assert_null(region.blocks);
    wr_region_fini(&region); /* an empty one */
}

static void test_texts(void **state)
{
    struct wr_region region = {0};
    (void)state;

    assert_string_equal(wr_region_text(&region, "abcdef", 3), "abc");
    assert_string_equal(wr_region_text(&region, NULL, 0), "");
    assert_memory_equal(wr_region_text(&region, "a\0b", 3), "a\0b", 4);
    wr_region_fini(&region);
}

static void test_sizes_that_overflow(void **state)
{
    struct wr_region region = {0};
    (void)state;

    assert_null(wr_region_take(&region, SIZE_MAX / 2, 3));
    assert_true(region.failed);
    assert_non_null(wr_region_take(&region, 1, 1)); /* readers go on */
    assert_true(region.failed);                     /* and it stays known */
    wr_region_fini(&region);
    assert_null(wr_region_take(&region, 1, SIZE_MAX));
    wr_region_fini(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_are_apart_aligned_and_zeroed),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_sizes_that_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
