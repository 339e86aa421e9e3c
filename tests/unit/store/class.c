/* class.c - the table of classes. */
#include "fixture.h"

#include <stdio.h>
#include <unistd.h>

static void equal_classes_have_one_number(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t one = test_class_make(arena, 10, WR_NS_PER_S, 0);
    uint16_t two = test_class_make(arena, 11, WR_NS_PER_S, 0);
    uint16_t list = test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS);
    struct wr_class class, made = test_class(11, WR_NS_PER_S, 0);

    (void)unused;
    assert_true(one > 0 && two > 0 && list > 0);
    assert_true(one != two && one != list && two != list);
    assert_int_equal(test_class_make(arena, 10, WR_NS_PER_S, 0), one);
    assert_int_equal(test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS), list);
    assert_true(wr_arena_class_get(arena, two, &class));
    assert_memory_equal(&class, &made, sizeof class);
    wr_arena_close(arena);
}

static void what_was_never_made_is_not_there(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    struct wr_class class;

    (void)unused;
    assert_false(wr_arena_class_get(arena, 0, &class));
    assert_false(wr_arena_class_get(arena, 1, &class));
    assert_false(wr_arena_class_get(arena, 4095, &class));
    assert_false(wr_arena_class_get(arena, 65535, &class));
    wr_arena_close(arena);
}

static void impossible_resolutions_are_refused(void **unused)
{
    static const int64_t bad[][2] = {
        {-1, 1}, {1000, 0}, {1000, -1}, {1000, 3}, {INT64_MAX, INT64_MAX}, {INT64_C(1) << 32, 1}};
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t number;

    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct wr_class class = test_class(1, 1, 0);
        class.log_window_ns = bad[i][0];
        class.log_tick_ns = bad[i][1];
        assert_int_equal(wr_arena_class(arena, &class, &number), WEIR_EINVAL);
        assert_int_equal(number, 0);
    }
    wr_arena_close(arena);
}

/* A second handle stands for a second process: it has a claim of its own. */
static struct wr_arena *second(struct wr_arena *first)
{
    char path[32];
    static struct wr_diag diag;
    struct wr_arena_options options = {.path = path, .judge = test_judge};
    struct wr_arena *arena;

    (void)snprintf(path, sizeof path, "/tmp/weir-class-%d", (int)getpid());
    (void)first;
    wr_diag_init(&diag, path);
    assert_int_equal(wr_arena_open(&arena, &options, &diag), 0);
    return arena;
}

static void a_full_table_reuses_what_nobody_needs(void **unused)
{
    char path[32];
    struct wr_arena *a, *b;
    struct wr_worth worth = {1, 1};
    struct wr_slot_view view;
    struct wr_class class;
    uint16_t kept, number;
    uint64_t made = 0;
    int rc = 0;

    (void)unused;
    (void)snprintf(path, sizeof path, "/tmp/weir-class-%d", (int)getpid());
    a = test_arena(path, WR_ARENA_BYTES_MIN, 0);
    b = second(a);
    kept = test_class_make(a, 1000000, WR_NS_PER_S, 0);
    wr_slot_find(a, test_hash(1), &view);
    assert_int_equal(wr_slot_put(a, test_hash(1), &view, kept, 1, &worth, NOW), 0);
    while (rc == 0) {
        class = test_class(2000000 + made, WR_NS_PER_S, 0);
        rc = wr_arena_class(a, &class, &number);
        made += rc == 0;
    }
    assert_int_equal(rc, WEIR_EFULL); /* a lives and may use them all */
    assert_int_equal(made, 1024 - 2);
    assert_int_equal(wr_arena_class(b, &class, &number), WEIR_EFULL);
    wr_arena_close(a);
    for (uint64_t i = 0; i < 100; i++) {
        class = test_class(3000000 + i, WR_NS_PER_S, 0);
        assert_int_equal(wr_arena_class(b, &class, &number), 0);
        assert_int_not_equal(number, kept); /* a slot has it */
    }
    wr_arena_close(b);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_classes_have_one_number),
        cmocka_unit_test(what_was_never_made_is_not_there),
        cmocka_unit_test(impossible_resolutions_are_refused),
        cmocka_unit_test(a_full_table_reuses_what_nobody_needs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
