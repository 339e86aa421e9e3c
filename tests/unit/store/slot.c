/* slot.c - finding, storing, converting and dropping slots. */
#include "fixture.h"

#include "store/evict.h"
#include "store/slot.h"

static const struct wr_worth little = {1, WR_NS_PER_S};

static void put_new(struct wr_arena *arena, uint64_t hash, uint16_t class_id, uint64_t state)
{
    struct wr_slot_view view;

    wr_slot_find(arena, hash, &view);
    assert_null(view.slot);
    assert_int_equal(wr_slot_put(arena, hash, &view, class_id, state, &little, NOW), 0);
}

static void a_key_never_seen_has_no_slot(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    struct wr_slot_view view;

    (void)unused;
    wr_slot_find(arena, test_hash(1), &view);
    assert_null(view.slot);
    assert_int_equal(view.state, 0);
    wr_slot_find(arena, 0, &view); /* fingerprint 0 is not an empty slot */
    assert_null(view.slot);
    wr_arena_close(arena);
}

static void what_is_put_is_found(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    struct wr_slot_view view;

    (void)unused;
    for (uint64_t i = 0; i < 1000; i++)
        put_new(arena, test_hash(i), class_id, i + 7);
    for (uint64_t i = 0; i < 1000; i++) {
        wr_slot_find(arena, test_hash(i), &view);
        assert_non_null(view.slot);
        assert_int_equal(view.state, i + 7);
        assert_int_equal(view.class_id, class_id);
    }
    wr_arena_close(arena);
}

static void fingerprint_zero_is_a_key(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    struct wr_slot_view view;

    (void)unused;
    put_new(arena, 0, class_id, 5);
    wr_slot_find(arena, 0, &view);
    assert_non_null(view.slot);
    assert_int_equal(view.state, 5);
    wr_arena_close(arena);
}

static void a_put_on_a_stale_view_fails(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    struct wr_slot_view none, first, again;
    uint64_t hash = test_hash(3);

    (void)unused;
    wr_slot_find(arena, hash, &none);
    assert_int_equal(wr_slot_put(arena, hash, &none, class_id, 1, &little, NOW), 0);
    assert_int_equal(wr_slot_put(arena, hash, &none, class_id, 1, &little, NOW), WEIR_EAGAIN);
    wr_slot_find(arena, hash, &first);
    wr_slot_find(arena, hash, &again);
    assert_int_equal(wr_slot_put(arena, hash, &first, class_id, 2, &little, NOW), 0);
    assert_int_equal(wr_slot_put(arena, hash, &again, class_id, 3, &little, NOW), WEIR_EAGAIN);
    wr_slot_find(arena, hash, &first);
    assert_int_equal(first.state, 2);
    wr_arena_close(arena);
}

static void a_slot_changes_class_with_its_state(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t one = test_class_make(arena, 10, WR_NS_PER_S, 0);
    uint16_t two = test_class_make(arena, 20, WR_NS_PER_S, 0);
    struct wr_slot_view view;
    uint64_t hash = test_hash(4);

    (void)unused;
    assert_int_not_equal(one, two);
    put_new(arena, hash, one, 5);
    wr_slot_find(arena, hash, &view);
    assert_int_equal(view.class_id, one);
    assert_int_equal(wr_slot_put(arena, hash, &view, two, 10, &little, NOW), 0);
    assert_int_equal(wr_slot_put(arena, hash, &view, two, 11, &little, NOW), WEIR_EAGAIN);
    wr_slot_find(arena, hash, &view);
    assert_int_equal(view.class_id, two);
    assert_int_equal(view.state, 10);
    wr_arena_close(arena);
}

static void a_dropped_key_is_gone(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    struct wr_slot_view view;

    (void)unused;
    put_new(arena, test_hash(5), class_id, 5);
    assert_int_equal(wr_slot_drop(arena, test_hash(5)), 0);
    assert_int_equal(wr_slot_drop(arena, test_hash(5)), WEIR_ENOENT);
    wr_slot_find(arena, test_hash(5), &view);
    assert_null(view.slot);
    wr_arena_close(arena);
}

static void all_slots_can_be_filled(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 1000, WR_NS_PER_S, 0);
    uint64_t slots = wr_arena_slots(arena), stored = 0;
    const struct wr_worth equal = {(UINT64_C(1) << 32) / 1000, WR_NS_PER_S};
    struct wr_slot_view view;

    (void)unused;
    /* All worth the same: each newcomer takes a slot, and the last eight of a bucket stay. */
    for (uint64_t i = 0; i < 4 * slots; i++) {
        wr_slot_find(arena, test_hash(i), &view);
        assert_int_equal(wr_slot_put(arena, test_hash(i), &view, class_id, 1, &equal, NOW), 0);
    }
    for (uint64_t i = 0; i < 4 * slots; i++) {
        wr_slot_find(arena, test_hash(i), &view);
        stored += view.slot != NULL;
    }
    assert_true(stored > slots * 99 / 100);
    wr_arena_close(arena);
}

/* Between our look at the bucket and our store, another process puts the key elsewhere in it. */
static void a_copy_stored_at_the_same_time_is_taken_back(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    uint64_t hash = test_hash(1), word = wr_slot_word(hash, class_id);
    struct wr_bucket *bucket = wr_slot_bucket(arena, hash);
    struct wr_slot_view view;
    struct wr_victim victim;

    (void)unused;
    assert_int_equal(wr_slot_choose(arena, hash, &little, NOW, 0, &victim), 0);
    assert_ptr_equal(victim.slot, &bucket->slot[0]);
    bucket->slot[5] = (struct wr_slot){word, 3};
    assert_int_equal(wr_slot_take(arena, &victim, word, 1), WEIR_EAGAIN);
    assert_int_equal(bucket->slot[0].word, 0);
    assert_int_equal(bucket->slot[0].state, 0);
    wr_slot_find(arena, hash, &view);
    assert_ptr_equal(view.slot, &bucket->slot[5]);
    assert_int_equal(view.state, 3);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_never_seen_has_no_slot),
        cmocka_unit_test(what_is_put_is_found),
        cmocka_unit_test(fingerprint_zero_is_a_key),
        cmocka_unit_test(a_put_on_a_stale_view_fails),
        cmocka_unit_test(a_slot_changes_class_with_its_state),
        cmocka_unit_test(a_dropped_key_is_gone),
        cmocka_unit_test(all_slots_can_be_filled),
        cmocka_unit_test(a_copy_stored_at_the_same_time_is_taken_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
