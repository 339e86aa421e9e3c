/* evict.c - who goes from a full bucket. All keys of these tests meet in one bucket. */
#include "fixture.h"

#include "store/evict.h"
#include "store/log.h"

#define FULL (UINT64_C(1) << 32)

static struct wr_arena *arena;
static uint64_t hashes[64]; /* of keys of the first bucket */

static int set_up(void **unused)
{
    unsigned found = 0;

    (void)unused;
    arena = test_arena("", WR_ARENA_BYTES_MIN, 50);
    for (uint64_t i = 0; found < 64; i++)
        if (wr_slot_bucket(arena, test_hash(i)) == arena->buckets)
            hashes[found++] = test_hash(i);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    wr_arena_close(arena);
    return 0;
}

static int put(unsigned key, uint16_t class_id, uint64_t state, uint64_t used_q32,
               int64_t window_ns)
{
    const struct wr_worth worth = {used_q32, window_ns};
    struct wr_slot_view view;

    wr_slot_find(arena, hashes[key], &view);
    return wr_slot_put(arena, hashes[key], &view, class_id, state, &worth, NOW);
}

static bool has(unsigned key)
{
    struct wr_slot_view view;

    wr_slot_find(arena, hashes[key], &view);
    return view.slot != NULL;
}

/* Fill the bucket with keys 0..7, of which key i has used i + 1 of 10. */
static uint16_t fill(void)
{
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);

    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(put(i, class_id, i + 1, 0, WR_NS_PER_S), 0);
    return class_id;
}

static void the_least_used_goes(void **unused)
{
    uint16_t class_id = fill();

    (void)unused;
    assert_int_equal(put(8, class_id, 2, FULL / 5, WR_NS_PER_S), 0);
    assert_false(has(0));
    assert_true(has(8));
    for (unsigned i = 1; i < 8; i++)
        assert_true(has(i));
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 1);
    assert_int_equal(wr_arena_count(arena, WR_UNSTORED), 0);
}

static void a_recovered_one_goes_without_loss(void **unused)
{
    uint16_t class_id = fill();
    struct wr_slot_view view;

    (void)unused;
    wr_slot_find(arena, hashes[5], &view);
    assert_int_equal(wr_slot_put(arena, hashes[5], &view, class_id, 0, NULL, NOW), 0);
    assert_int_equal(put(8, class_id, 0, 0, WR_NS_PER_S), 0);
    assert_false(has(5));
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
}

static void a_newcomer_worth_less_is_not_stored(void **unused)
{
    uint16_t class_id = fill();

    (void)unused;
    assert_int_equal(put(8, class_id, 0, FULL / 20, WR_NS_PER_S), WEIR_EFULL);
    assert_false(has(8));
    for (unsigned i = 0; i < 8; i++)
        assert_true(has(i));
    assert_int_equal(wr_arena_count(arena, WR_UNSTORED), 1);
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
}

static void a_newcomer_worth_as_much_is_stored(void **unused)
{
    uint16_t class_id = fill();

    (void)unused;
    assert_int_equal(put(8, class_id, 1, FULL / 10, WR_NS_PER_S), 0);
    assert_true(has(8));
}

static void a_slower_victim_yields_to_a_faster_newcomer(void **unused)
{
    uint16_t class_id = fill();

    (void)unused;
    /* Keys 0..7 recover in 1 s; the newcomer in half of it, so their longer window does not save
     * them; a newcomer of the same or a longer window is turned away. */
    assert_int_equal(put(8, class_id, 1, 1, WR_NS_PER_S), WEIR_EFULL);
    assert_int_equal(put(8, class_id, 1, 1, 2 * WR_NS_PER_S), WEIR_EFULL);
    assert_int_equal(put(8, class_id, 1, 1, WR_NS_PER_S / 2), 0);
    assert_false(has(0));
}

static void a_slot_that_makes_no_sense_goes_first(void **unused)
{
    uint16_t class_id = fill();
    uint64_t *word = &arena->buckets->slot[6].word;

    (void)unused;
    *word |= WR_CLASS_MASK; /* class 4095 does not exist */
    assert_int_equal(put(8, class_id, 0, 0, WR_NS_PER_S), 0);
    assert_true(has(8));
    assert_int_equal(wr_arena_count(arena, WR_QUARANTINED), 1);
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
}

static void a_list_is_worth_its_live_stamps(void **unused)
{
    uint16_t list = test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    const struct wr_worth worth = {FULL, WR_NS_PER_S};
    struct wr_log log;
    int64_t stamp;

    (void)unused;
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(wr_log_open(&log, arena, hashes[i], list, &worth, NOW), 0);
        assert_int_equal(wr_log_append(&log, 8 - i, &stamp), 0);
        wr_log_close(&log);
    }
    assert_int_equal(put(8, class_id, 2, FULL / 5, WR_NS_PER_S), 0);
    assert_false(has(7));
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 1);
    /* a list that is being used now is passed over */
    assert_int_equal(wr_log_open(&log, arena, hashes[6], list, &worth, NOW), 0);
    assert_int_equal(put(9, class_id, 9, FULL, WR_NS_PER_S), 0);
    assert_false(has(8)); /* 2 of 10: as much as key 6, but not locked */
    assert_int_equal(put(10, class_id, 9, FULL, WR_NS_PER_S), 0);
    assert_true(has(6));
    assert_false(has(5));
    wr_log_close(&log);
}

static void a_bucket_of_locked_lists_turns_away(void **unused)
{
    uint16_t list = test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS);
    uint16_t class_id = test_class_make(arena, 10, WR_NS_PER_S, 0);
    const struct wr_worth worth = {FULL, WR_NS_PER_S};
    struct wr_log logs[8];

    (void)unused;
    for (unsigned i = 0; i < 8; i++)
        assert_int_equal(wr_log_open(&logs[i], arena, hashes[i], list, &worth, NOW), 0);
    assert_int_equal(put(8, class_id, 2, FULL, WR_NS_PER_S), WEIR_EFULL);
    assert_int_equal(wr_arena_count(arena, WR_UNSTORED), 1);
    for (unsigned i = 0; i < 8; i++)
        wr_log_close(&logs[i]);
    assert_int_equal(put(8, class_id, 2, FULL, WR_NS_PER_S), 0);
}

int main(void)
{
#define WITH_ARENA(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ARENA(the_least_used_goes),
        WITH_ARENA(a_recovered_one_goes_without_loss),
        WITH_ARENA(a_newcomer_worth_less_is_not_stored),
        WITH_ARENA(a_newcomer_worth_as_much_is_stored),
        WITH_ARENA(a_slower_victim_yields_to_a_faster_newcomer),
        WITH_ARENA(a_slot_that_makes_no_sense_goes_first),
        WITH_ARENA(a_list_is_worth_its_live_stamps),
        WITH_ARENA(a_bucket_of_locked_lists_turns_away),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
