/* log.c - lists of stamps: order, ageing, removal, conversion, running out. */
#include "store/log.h"
#include "fixture.h"

#define MS WR_NS_PER_MS
#define SHARE 60

static const struct wr_worth little = {1, WR_NS_PER_S};

static void open_list(struct wr_log *log, struct wr_arena *arena, uint64_t hash, uint16_t class_id,
                      int64_t now_ns)
{
    assert_int_equal(wr_log_open(log, arena, hash, class_id, &little, now_ns), 0);
}

static int64_t append(struct wr_arena *arena, uint64_t hash, uint16_t class_id, uint32_t count,
                      int64_t now_ns)
{
    struct wr_log log;
    int64_t stamp = -1;

    open_list(&log, arena, hash, class_id, now_ns);
    assert_int_equal(wr_log_append(&log, count, &stamp), 0);
    wr_log_close(&log);
    return stamp;
}

static uint32_t live(struct wr_arena *arena, uint64_t hash, uint16_t class_id, int64_t now_ns)
{
    struct wr_log log;
    int64_t oldest, newest;
    uint32_t peeked = wr_log_peek(arena, hash, class_id, now_ns, &oldest, &newest);

    open_list(&log, arena, hash, class_id, now_ns);
    assert_int_equal(log.live, peeked);
    if (log.live > 0) {
        assert_int_equal(wr_log_stamp(&log, 0), oldest);
        assert_int_equal(wr_log_stamp(&log, log.live - 1), newest);
    }
    wr_log_close(&log);
    return peeked;
}

static void stamps_come_back_in_order(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 1000, 60 * WR_NS_PER_S, MS);
    struct wr_log log;

    (void)unused;
    for (int i = 0; i < 100; i++)
        assert_int_equal(append(arena, test_hash(1), c, 1, NOW + i * MS), NOW + i * MS);
    open_list(&log, arena, test_hash(1), c, NOW + 200 * MS);
    assert_int_equal(log.live, 100);
    for (uint32_t k = 0; k < 100; k++)
        assert_int_equal(wr_log_stamp(&log, k), NOW + (int64_t)k * MS);
    wr_log_close(&log);
    wr_arena_close(arena);
}

static void a_stamp_exactly_a_window_old_does_not_count(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 10, WR_NS_PER_S, MS);

    (void)unused;
    (void)append(arena, test_hash(1), c, 1, NOW);
    (void)append(arena, test_hash(1), c, 1, NOW + MS);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S - 1), 2);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S), 1);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S + MS - 1), 1);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S + MS), 0);
    wr_arena_close(arena);
}

static void a_stamp_is_rounded_up_to_the_tick(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 10, WR_NS_PER_S, 10 * MS);

    (void)unused;
    assert_int_equal(append(arena, test_hash(1), c, 1, NOW + 1), NOW + 10 * MS);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S + 1), 1);
    assert_int_equal(live(arena, test_hash(1), c, NOW + WR_NS_PER_S + 10 * MS), 0);
    wr_arena_close(arena);
}

static void a_stamp_before_the_newest_is_stored_as_it(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 10, WR_NS_PER_S, MS);

    (void)unused;
    (void)append(arena, test_hash(1), c, 1, NOW + 5 * MS);
    assert_int_equal(append(arena, test_hash(1), c, 1, NOW), NOW + 5 * MS);
    assert_int_equal(live(arena, test_hash(1), c, NOW), 2);
    wr_arena_close(arena);
}

static void a_clock_set_far_back_brings_the_list_along(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 10, 10 * WR_NS_PER_S, MS);
    int64_t then = NOW - WR_NS_PER_HOUR;

    (void)unused;
    (void)append(arena, test_hash(1), c, 3, NOW);
    assert_int_equal(live(arena, test_hash(1), c, then), 3);
    (void)append(arena, test_hash(1), c, 1, then);
    assert_int_equal(live(arena, test_hash(1), c, then + 10 * WR_NS_PER_S - 1), 4);
    assert_int_equal(live(arena, test_hash(1), c, then + 10 * WR_NS_PER_S), 0);
    wr_arena_close(arena);
}

static void removing_takes_only_equal_stamps(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 1000, 60 * WR_NS_PER_S, MS);
    struct wr_log log;

    (void)unused;
    for (int i = 0; i < 50; i++)
        (void)append(arena, test_hash(1), c, i % 10 == 0 ? 2 : 1, NOW + i * MS);
    open_list(&log, arena, test_hash(1), c, NOW + 100 * MS);
    assert_int_equal(log.live, 55);
    assert_int_equal(wr_log_remove(&log, NOW + 20 * MS, 5), 2);
    assert_int_equal(wr_log_remove(&log, NOW + 20 * MS, 5), 0);
    assert_int_equal(wr_log_remove(&log, NOW + 30 * MS, 1), 1);
    assert_int_equal(wr_log_remove(&log, NOW + 49 * MS, 1), 1); /* the newest */
    assert_int_equal(wr_log_remove(&log, NOW, 2), 2);           /* the oldest */
    assert_int_equal(wr_log_remove(&log, NOW + 20 * MS + 1, 1), 0);
    assert_int_equal(wr_log_remove(&log, NOW + 90 * MS, 1), 0);
    wr_log_close(&log);
    open_list(&log, arena, test_hash(1), c, NOW + 100 * MS);
    assert_int_equal(log.live, 49);
    assert_int_equal(wr_log_stamp(&log, 0), NOW + MS);
    assert_int_equal(wr_log_stamp(&log, 48), NOW + 48 * MS);
    wr_log_close(&log);
    wr_arena_close(arena);
}

static void an_emptied_list_can_be_filled_again(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t c = test_class_make(arena, 1000, WR_NS_PER_S, MS);
    struct wr_log log;
    int64_t stamp;

    (void)unused;
    for (int round = 0; round < 100; round++) {
        int64_t now = NOW + round * 7 * MS;
        open_list(&log, arena, test_hash(1), c, now);
        assert_int_equal(log.live, 0);
        assert_int_equal(wr_log_append(&log, 40, &stamp), 0);
        wr_log_close(&log);
        open_list(&log, arena, test_hash(1), c, now);
        assert_int_equal(log.live, 40);
        assert_int_equal(wr_log_remove(&log, stamp, 100), 40);
        wr_log_close(&log);
    }
    wr_arena_close(arena);
}

/* A slow, obvious model: an array of moments. */
static void a_long_run_agrees_with_an_array(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    int64_t window = 100 * MS, tick = MS, now = NOW;
    uint16_t c = test_class_make(arena, 1000, window, tick);
    static int64_t model[20000];
    uint32_t n = 0;

    (void)unused;
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t dice = test_hash(i);
        uint32_t kept = 0, count = (uint32_t)(dice >> 8) % 4;
        struct wr_log log;
        int64_t stamp;

        now += (int64_t)(dice >> 16) % (dice % 97 == 0 ? 150 : 5) * MS;
        for (uint32_t k = 0; k < n; k++)
            if (model[k] > now - window)
                model[kept++] = model[k];
        n = kept;
        open_list(&log, arena, test_hash(1), c, now);
        assert_int_equal(log.live, n);
        if (n > 0 && dice % 3 == 0) {
            int64_t victim = model[(dice >> 24) % n];
            uint32_t gone = 0;
            kept = 0;
            for (uint32_t k = 0; k < n; k++)
                if (model[k] == victim && gone < count)
                    gone++;
                else
                    model[kept++] = model[k];
            n = kept;
            assert_int_equal(wr_log_remove(&log, victim, count), gone);
        } else {
            assert_int_equal(wr_log_append(&log, count, &stamp), 0);
            for (uint32_t k = 0; k < count; k++)
                model[n++] = stamp;
        }
        assert_int_equal(log.live, n);
        for (uint32_t k = 0; k < n; k += 1 + n / 8)
            assert_int_equal(wr_log_stamp(&log, k), model[k]);
        wr_log_close(&log);
    }
    wr_arena_close(arena);
}

static void another_class_keeps_the_stamps(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t fine = test_class_make(arena, 100, 10 * WR_NS_PER_S, MS);
    uint16_t coarse = test_class_make(arena, 200, 5 * WR_NS_PER_S, 500 * MS);
    int64_t now = NOW + 9 * WR_NS_PER_S;
    struct wr_log log;

    (void)unused;
    for (int i = 0; i < 40; i++)
        (void)append(arena, test_hash(1), fine, 1, NOW + i * 200 * MS);
    /* 40 stamps at NOW .. NOW + 7.8 s; of them 19 later than 9 - 5 s once rounded up: 4.2 .. 7.8 */
    open_list(&log, arena, test_hash(1), coarse, now);
    assert_int_equal(log.live, 19);
    assert_int_equal(wr_log_stamp(&log, 0), NOW + 4500 * MS);
    assert_int_equal(wr_log_stamp(&log, 18), NOW + 8000 * MS);
    wr_log_close(&log);
    wr_arena_close(arena);
}

static void a_word_becomes_an_empty_list_and_back(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, SHARE);
    uint16_t word = test_class_make(arena, 100, WR_NS_PER_S, 0);
    uint16_t list = test_class_make(arena, 100, WR_NS_PER_S, MS);
    struct wr_slot_view view;
    uint64_t hash = test_hash(1);

    (void)unused;
    wr_slot_find(arena, hash, &view);
    assert_int_equal(wr_slot_put(arena, hash, &view, word, 7, &little, NOW), 0);
    assert_int_equal(live(arena, hash, list, NOW), 0);
    (void)append(arena, hash, list, 3, NOW);
    wr_slot_find(arena, hash, &view);
    assert_int_equal(view.class_id, list);
    assert_int_equal(wr_slot_put(arena, hash, &view, word, 9, &little, NOW), 0);
    wr_slot_find(arena, hash, &view);
    assert_int_equal(view.class_id, word);
    assert_int_equal(view.state, 9);
    wr_arena_close(arena);
}

static void expired_lists_make_room(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);
    uint16_t c = test_class_make(arena, 10, WR_NS_PER_S, MS);
    int64_t now = NOW;

    (void)unused;
    /* Far more keys than heads, ten a millisecond: at most 10 000 are live at any time, too many;
     * so let them be further apart. */
    for (uint64_t i = 0; i < 20000; i++, now += 10 * MS)
        (void)append(arena, test_hash(i), c, 1, now);
    assert_int_equal(wr_arena_count(arena, WR_NO_NODES), 0);
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
    wr_arena_close(arena);
}

static void running_out_of_nodes_appends_nothing(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 10);
    uint16_t c = test_class_make(arena, 100000, WR_NS_PER_HOUR, WR_NS_PER_S);
    struct wr_worth worth = {0, WR_NS_PER_S}; /* worth nothing: evicts nobody */
    struct wr_log log;
    uint32_t stored = 0;
    int64_t stamp;
    int rc = 0;

    (void)unused;
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), c, &worth, NOW), 0);
    while (rc == 0) {
        rc = wr_log_append(&log, 16, &stamp);
        stored += rc == 0 ? 16 : 0;
        assert_int_equal(log.live, stored);
    }
    assert_int_equal(rc, WEIR_EFULL);
    assert_int_equal(wr_log_stamp(&log, stored - 1), NOW);
    wr_log_close(&log);
    assert_int_equal(live(arena, test_hash(1), c, NOW), stored);
    assert_int_equal(wr_arena_count(arena, WR_NO_NODES), 1);
    assert_int_equal(wr_slot_drop(arena, test_hash(1)), 0);
    (void)append(arena, test_hash(2), c, stored, NOW);
    wr_arena_close(arena);
}

static void an_arena_without_room_for_lists_says_so(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint16_t list = test_class_make(arena, 10, WR_NS_PER_S, MS);
    uint16_t word = test_class_make(arena, 10, WR_NS_PER_S, 0);
    struct wr_log log;

    (void)unused;
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list, &little, NOW), WEIR_EBUSY);
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), word, &little, NOW), WEIR_EINVAL);
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), 4000, &little, NOW), WEIR_EINVAL);
    wr_log_close(&log);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stamps_come_back_in_order),
        cmocka_unit_test(a_stamp_exactly_a_window_old_does_not_count),
        cmocka_unit_test(a_stamp_is_rounded_up_to_the_tick),
        cmocka_unit_test(a_stamp_before_the_newest_is_stored_as_it),
        cmocka_unit_test(a_clock_set_far_back_brings_the_list_along),
        cmocka_unit_test(removing_takes_only_equal_stamps),
        cmocka_unit_test(an_emptied_list_can_be_filled_again),
        cmocka_unit_test(a_long_run_agrees_with_an_array),
        cmocka_unit_test(another_class_keeps_the_stamps),
        cmocka_unit_test(a_word_becomes_an_empty_list_and_back),
        cmocka_unit_test(expired_lists_make_room),
        cmocka_unit_test(running_out_of_nodes_appends_nothing),
        cmocka_unit_test(an_arena_without_room_for_lists_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
