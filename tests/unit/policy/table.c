/* table.c - strings to numbers, growing. */
#include "policy/table.h"

#include "requests.h"

static struct wr_region region;

static void test_growing(void **state)
{
    struct wr_table table = {.secret = {{1, 2}}};
    bool added;
    (void)state;

    assert_null(wr_table_find(&table, 0, slice("x")));
    for (uint32_t i = 0; i < 5000; i++) {
        char text[16];
        size_t len = (size_t)snprintf(text, sizeof text, "key%u", i);
        struct weir_slice kept = {wr_region_text(&region, text, len), len};
        assert_non_null(wr_table_add(&table, &region, i % 3, kept, i, &added));
        assert_true(added);
    }
    assert_int_equal(table.count, 5000);
    for (uint32_t i = 0; i < 5000; i++) {
        char text[16];
        size_t len = (size_t)snprintf(text, sizeof text, "key%u", i);
        const struct wr_table_entry *entry =
            wr_table_find(&table, i % 3, (struct weir_slice){text, len});
        assert_non_null(entry);
        assert_int_equal(entry->value, i);
        assert_null(wr_table_find(&table, (i + 1) % 3, (struct weir_slice){text, len}));
    }
    assert_null(wr_table_find(&table, 0, slice("key5000")));
    wr_region_fini(&region);
}

static void test_the_first_value_stays(void **state)
{
    struct wr_table table = {.secret = {{1, 2}}};
    bool added;
    (void)state;

    assert_int_equal(wr_table_add(&table, &region, 7, slice("x"), 1, &added)->value, 1);
    assert_true(added);
    assert_int_equal(wr_table_add(&table, &region, 7, slice("x"), 2, &added)->value, 1);
    assert_false(added);
    assert_int_equal(wr_table_add(&table, &region, 8, slice("x"), 2, &added)->value, 2);
    wr_region_fini(&region);
}

static void test_odd_bytes(void **state)
{
    struct wr_table table = {.secret = {{1, 2}}};
    bool added;
    (void)state;

    (void)wr_table_add(&table, &region, 0, (struct weir_slice){"a\0b", 3}, 1, &added);
    (void)wr_table_add(&table, &region, 0, (struct weir_slice){NULL, 0}, 2, &added);
    assert_int_equal(wr_table_find(&table, 0, (struct weir_slice){"a\0b", 3})->value, 1);
    assert_null(wr_table_find(&table, 0, slice("a")));
    assert_null(wr_table_find(&table, 0, (struct weir_slice){"a\0c", 3}));
    assert_int_equal(wr_table_find(&table, 0, slice(""))->value, 2);
    wr_region_fini(&region);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_the_first_value_stays),
        cmocka_unit_test(test_odd_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
