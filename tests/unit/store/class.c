/* class.c - the table of classes. */
#include "fixture.h"

#include <stdio.h>
#include <sys/wait.h>
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

static char path[64];

static struct wr_arena *first(void)
{
    (void)snprintf(path, sizeof path, "/tmp/weir-class-%d", (int)getpid());
    return test_arena(path, WR_ARENA_BYTES_MIN, 10);
}

static int take(struct wr_class_set *set, uint64_t limit, uint16_t *number)
{
    struct wr_class class = test_class(limit, WR_NS_PER_S, 0);

    return wr_class_set_take(set, &class, number);
}

/* Take |count| classes of limits from |from| on. */
static void take_many(struct wr_class_set *set, uint64_t from, unsigned count)
{
    uint16_t number;

    assert_int_equal(wr_class_set_begin(set), 0);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(take(set, from + i, &number), 0);
    wr_class_set_end(set);
}

/* Store |state| for key |key|, as a slot of |class_id|. */
static void put(struct wr_arena *arena, uint64_t key, uint16_t class_id, uint64_t state)
{
    struct wr_worth worth = {UINT64_C(1) << 32, WR_NS_PER_S};
    struct wr_slot_view view;

    wr_slot_find(arena, test_hash(key), &view);
    assert_int_equal(wr_slot_put(arena, test_hash(key), &view, class_id, state, &worth, NOW), 0);
}

static bool has(struct wr_arena *arena, uint64_t key)
{
    struct wr_slot_view view;

    wr_slot_find(arena, test_hash(key), &view);
    return view.slot != NULL;
}

#define TABLE (1024 - 1) /* classes of an arena of 1 MiB */

/* Two policies take turns, each time with other limits: in one process, for ever. */
static void a_set_that_is_left_makes_room(void **unused)
{
    struct wr_arena *a = first(), *b = second(a);
    struct wr_class_set sets[2], other;
    uint16_t number, common;

    (void)unused;
    assert_int_equal(wr_arena_class_room(a), TABLE);
    wr_class_set_init(&sets[0], a);
    wr_class_set_init(&other, b);
    take_many(&sets[0], 1000, 500);
    assert_int_equal(take(&sets[0], 1, &common), 0);
    for (unsigned turn = 1; turn < 10; turn++) {
        struct wr_class_set *now = &sets[turn % 2];
        wr_class_set_init(now, a);
        take_many(now, 1000 + turn * 1000, 500);
        assert_int_equal(take(now, 1, &number), 0);
        assert_int_equal(number, common);
        wr_class_set_leave(&sets[(turn + 1) % 2]);
    }
    take_many(&other, 1, 500); /* of another process: 501 of them are in use */
    assert_int_equal(take(&other, 1, &number), 0);
    assert_int_equal(number, common);
    wr_class_set_leave(&sets[1]);
    wr_class_set_leave(&sets[1]); /* has nothing more */
    wr_arena_close(a);
    wr_arena_close(b);
    (void)unlink(path);
}

static void what_is_in_use_is_never_reused(void **unused)
{
    struct wr_arena *a = first(), *b = second(a);
    struct wr_class_set one, two, other;
    uint16_t number;

    (void)unused;
    wr_class_set_init(&one, a);
    wr_class_set_init(&two, a);
    wr_class_set_init(&other, b);
    take_many(&one, 1000, TABLE);
    assert_int_equal(take(&other, 1, &number), WEIR_EFULL);
    assert_int_equal(number, 0);
    assert_int_equal(take(&two, 1, &number), WEIR_EFULL);
    take_many(&two, 1000, TABLE); /* the same, twice */
    wr_class_set_leave(&one);
    assert_int_equal(take(&other, 1, &number), WEIR_EFULL);
    wr_class_set_leave(&two);
    assert_int_equal(take(&other, 1, &number), 0);
    wr_class_set_leave(&other);
    /* Used as long as the arena is open. */
    assert_int_equal(test_class_make(a, 7, WR_NS_PER_S, 0), test_class_make(b, 7, WR_NS_PER_S, 0));
    wr_arena_close(b);
    take_many(&two, 2000, TABLE - 1);
    assert_int_equal(take(&two, 1, &number), WEIR_EFULL);
    wr_class_set_leave(&two);
    wr_arena_close(a);
    (void)unlink(path);
}

/* Slots that have recovered go first; then those of the smallest classes; those in use never. */
static void slots_of_unused_classes_make_room_last(void **unused)
{
    struct wr_arena *a = first();
    struct wr_class_set old, new, kept;
    uint16_t idle, small, large, used, number;

    (void)unused;
    wr_class_set_init(&old, a);
    wr_class_set_init(&new, a);
    wr_class_set_init(&kept, a);
    assert_int_equal(take(&kept, 40, &used), 0);
    assert_int_equal(take(&old, 10, &idle), 0);
    assert_int_equal(take(&old, 20, &small), 0);
    assert_int_equal(take(&old, 30, &large), 0);
    put(a, 1, idle, 0); /* recovered, as the judge of these tests has it */
    put(a, 2, small, 1);
    for (uint64_t key = 100; key < 105; key++)
        put(a, key, large, 1);
    put(a, 3, used, 1);
    wr_class_set_leave(&old);
    take_many(&new, 1000, TABLE - 4);
    assert_true(has(a, 1)); /* there was room */
    assert_int_equal(take(&new, 1, &number), 0);
    assert_int_equal(number, idle);
    assert_false(has(a, 1));
    assert_true(has(a, 2));
    assert_int_equal(wr_arena_count(a, WR_EVICTED_LIVE), 0);
    assert_int_equal(take(&new, 2, &number), 0);
    assert_int_equal(number, small);
    assert_false(has(a, 2));
    assert_true(has(a, 100));
    assert_int_equal(wr_arena_count(a, WR_EVICTED_LIVE), 1);
    assert_int_equal(take(&new, 3, &number), 0);
    assert_int_equal(number, large);
    for (uint64_t key = 100; key < 105; key++)
        assert_false(has(a, key));
    assert_int_equal(wr_arena_count(a, WR_EVICTED_LIVE), 6);
    assert_int_equal(take(&new, 4, &number), WEIR_EFULL);
    assert_true(has(a, 3));
    wr_arena_close(a);
    (void)unlink(path);
}

/* A child uses what its parent's policy uses, whatever becomes of that in the parent; a child that
 * has not claimed touches nothing. */
static void a_child_has_the_sets_of_its_parent(void **unused)
{
    struct wr_arena *a = first();
    struct wr_class_set set;
    int ready[2], go[2], status;
    uint16_t number;
    char byte = 0;
    pid_t pid;

    (void)unused;
    wr_class_set_init(&set, a);
    take_many(&set, 1000, TABLE);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct wr_class_set copy = set;
        bool good = wr_arena_after_fork(a) == 0;
        good = good && write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1;
        wr_class_set_leave(&copy);
        good = good && write(ready[1], &byte, 1) == 1 && read(go[0], &byte, 1) == 1;
        _exit(good ? 0 : 1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    wr_class_set_leave(&set);
    assert_int_equal(take(&set, 1, &number), WEIR_EFULL); /* the child lives and has them */
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(take(&set, 1, &number), 0);
    assert_int_equal(write(go[1], &byte, 1), 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    wr_class_set_leave(&set);
    take_many(&set, 1000, TABLE);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        wr_class_set_leave(&set);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    wr_class_set_leave(&set);
    take_many(&set, 5000, TABLE);
    wr_arena_close(a);
    (void)unlink(path);
}

static void a_full_table_reuses_what_the_dead_had(void **unused)
{
    struct wr_arena *a = first(), *b = second(a);
    struct wr_class class;
    uint64_t made = 0;
    uint16_t number;
    int rc = 0;

    (void)unused;
    while (rc == 0) {
        class = test_class(2000000 + made, WR_NS_PER_S, 0);
        rc = wr_arena_class(a, &class, &number);
        made += rc == 0;
    }
    assert_int_equal(rc, WEIR_EFULL); /* a lives and may use them all */
    assert_int_equal(made, TABLE);
    assert_int_equal(wr_arena_class(b, &class, &number), WEIR_EFULL);
    wr_arena_close(a);
    for (uint64_t i = 0; i < 100; i++) {
        class = test_class(3000000 + i, WR_NS_PER_S, 0);
        assert_int_equal(wr_arena_class(b, &class, &number), 0);
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
        cmocka_unit_test(a_full_table_reuses_what_the_dead_had),
        cmocka_unit_test(a_set_that_is_left_makes_room),
        cmocka_unit_test(what_is_in_use_is_never_reused),
        cmocka_unit_test(slots_of_unused_classes_make_room_last),
        cmocka_unit_test(a_child_has_the_sets_of_its_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
