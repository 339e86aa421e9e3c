/* sample.c - how full an arena is: exactly where all is looked at, nearly where a part is. */
#include "fixture.h"

/* |live| keys that are in use and |idle| ones that have recovered. */
static struct wr_arena *arena_with(uint64_t live, uint64_t idle)
{
    struct wr_arena *arena = test_arena("", 4 * WR_ARENA_BYTES_MIN, 10);
    uint16_t class_id = test_class_make(arena, UINT64_C(1) << 33, WR_NS_PER_S, 0);

    for (uint64_t i = 0; i < live + idle; i++) {
        const uint64_t state = i < live ? UINT64_C(1) << 31 : 1; /* 1 of 2^33: 0 of 2^32 */
        const struct wr_worth worth = {i < live ? UINT64_C(1) << 30 : 0, WR_NS_PER_S};
        struct wr_slot_view view;

        wr_slot_find(arena, test_hash(i), &view);
        assert_int_equal(wr_slot_put(arena, test_hash(i), &view, class_id, state, &worth, NOW), 0);
    }
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
    return arena;
}

static void test_all_of_it(void **unused)
{
    struct wr_arena *arena = arena_with(300, 700);
    struct wr_occupancy seen;

    (void)unused;
    for (uint64_t turn = 0; turn < 3; turn++) {
        wr_arena_sample(arena, turn, UINT64_MAX, NOW, &seen);
        assert_int_equal(seen.looked, wr_arena_slots(arena));
        assert_int_equal(seen.live, 300);
    }
    wr_arena_close(arena);
}

static void test_a_part_of_it(void **unused)
{
    struct wr_arena *arena = arena_with(20000, 0);
    uint64_t slots = wr_arena_slots(arena), sum = 0, most = 0, least = UINT64_MAX;
    struct wr_occupancy seen;

    (void)unused;
    for (uint64_t turn = 0; turn < 64; turn++) {
        uint64_t estimate;
        wr_arena_sample(arena, turn, 1024, NOW, &seen);
        assert_int_equal(seen.looked, 8192);
        estimate = seen.live * slots / seen.looked;
        most = estimate > most ? estimate : most;
        least = estimate < least ? estimate : least;
        sum += estimate;
    }
    assert_in_range(sum / 64, 19500, 20500);
    assert_in_range(least, 17000, 20000);
    assert_in_range(most, 20000, 23000);
    assert_true(least < most); /* each look is at others */
    wr_arena_close(arena);
}

static void test_nothing(void **unused)
{
    struct wr_arena *arena = arena_with(10, 0);
    struct wr_occupancy seen;

    (void)unused;
    wr_arena_sample(arena, 1, 0, NOW, &seen);
    assert_int_equal(seen.looked, 0);
    assert_int_equal(seen.live, 0);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_of_it),
        cmocka_unit_test(test_a_part_of_it),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
