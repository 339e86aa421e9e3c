/* kill.c - processes hammer one arena and are killed at random, 200 times.
 *
 * Keys of words and of lists, each with a limit that never recovers; a decision is reported after
 * it was made. So, for every key, when all is used up: reported <= limit, and limit - reported <=
 * kills (each kill hides at most one decision). Places are taken, held and released; a place whose
 * holder was killed must still be there. Nothing may be stuck, and the checker must pass. */
#include "process.h"

#include "store/check.h"
#include "store/log.h"

#define WORKERS 3
#define WORD_KEYS 8
#define LIST_KEYS 4
#define KEYS (WORD_KEYS + LIST_KEYS)
#define PLACE_KEY 100
#define PLACES 1000
#define ROUNDS 20
#define KILLS 10 /* a round */
#define WORD_LIMIT 150000
#define LIST_LIMIT 40000
#define FOREVER (INT64_C(365) * WR_NS_PER_DAY)
#define STUCK_S 30

static const struct wr_worth much = {UINT64_C(1) << 32, FOREVER};

static struct shared {
    uint64_t reported[KEYS];
    int64_t held[WORKERS]; /* a place that this worker surely has; 0: none */
    uint64_t round;
} * shared;

static uint16_t word_class, list_class, place_class;

static uint64_t limit_of(unsigned key)
{
    return key < WORD_KEYS ? WORD_LIMIT : LIST_LIMIT;
}

/* One decision on a word: 1 admitted, 0 refused. */
static int take_word(struct wr_arena *arena, unsigned key)
{
    uint64_t hash = test_hash(key);
    struct wr_slot_view view;
    int rc = WEIR_EAGAIN;

    while (rc == WEIR_EAGAIN) {
        wr_slot_find(arena, hash, &view);
        if (view.state >= WORD_LIMIT)
            return 0;
        rc = wr_slot_put(arena, hash, &view, word_class, view.state + 1, &much, NOW);
    }
    return rc == 0 ? 1 : -1;
}

static int take_list(struct wr_arena *arena, unsigned key)
{
    struct wr_log log;
    int64_t stamp;
    int rc = wr_log_open(&log, arena, test_hash(key), list_class, &much, NOW);

    if (rc == WEIR_EBUSY) /* its owner waits for a processor */
        return 0;
    if (rc != 0)
        return -1;
    rc = 0;
    if (log.live < LIST_LIMIT)
        rc = wr_log_append(&log, 1, &stamp) == 0 ? 1 : -1;
    wr_log_close(&log);
    return rc;
}

static int hold_place(struct wr_arena *arena, unsigned index)
{
    int64_t *held = &shared->held[index], now_ns = wr_arena_now(arena), stamp;
    struct wr_log log;
    uint32_t gone;

    if (wr_log_open(&log, arena, test_hash(PLACE_KEY), place_class, &much, now_ns) != 0)
        return 0;
    if (wr_log_append(&log, 1, &stamp) != 0) {
        wr_log_close(&log);
        return -1;
    }
    wr_log_close(&log);
    __atomic_store_n(held, stamp, __ATOMIC_SEQ_CST);
    for (volatile int spin = 0; spin < 200;)
        spin++;
    __atomic_store_n(held, 0, __ATOMIC_SEQ_CST); /* from here on it may be gone */
    while (wr_log_open(&log, arena, test_hash(PLACE_KEY), place_class, &much, now_ns) != 0)
        continue;
    gone = wr_log_remove(&log, stamp, 1);
    wr_log_close(&log);
    return gone == 1 ? 0 : -1;
}

static int worker(struct wr_arena *arena, unsigned index)
{
    uint64_t random = shared->round * 1000 + index + (uint64_t)wr_clock_mono().ns;
    bool busy = true;

    if (wr_arena_after_fork(arena) != 0)
        return 1;
    while (busy) {
        uint64_t dice = next_random(&random);
        unsigned key = dice % 8 == 0 ? WORD_KEYS + (unsigned)(dice >> 8) % LIST_KEYS
                                     : (unsigned)(dice >> 8) % WORD_KEYS;
        int taken = key < WORD_KEYS ? take_word(arena, key) : take_list(arena, key);
        if (taken < 0 || ((dice >> 16) % 16 == 0 && hold_place(arena, index) < 0))
            return 2;
        if (taken > 0)
            (void)__atomic_fetch_add(&shared->reported[key], 1, __ATOMIC_SEQ_CST);
        busy = false;
        for (unsigned k = 0; k < KEYS; k++)
            busy |= __atomic_load_n(&shared->reported[k], __ATOMIC_SEQ_CST) + KILLS < limit_of(k);
    }
    /* The few that kills have hidden: until each key refuses. */
    for (unsigned k = 0; k < KEYS; k++) {
        int taken;
        while ((taken = k < WORD_KEYS ? take_word(arena, k) : take_list(arena, k)) > 0)
            (void)__atomic_fetch_add(&shared->reported[k], 1, __ATOMIC_SEQ_CST);
        if (taken < 0)
            return 3;
    }
    return 0;
}

static uint64_t stored(struct wr_arena *arena, unsigned key)
{
    struct wr_slot_view view;
    int64_t oldest, newest;

    wr_slot_find(arena, test_hash(key), &view);
    return key < WORD_KEYS ? view.state
                           : wr_log_peek(arena, test_hash(key), list_class, NOW, &oldest, &newest);
}

/* The places of the killed are there, and not many more. */
static void check_places(struct wr_arena *arena, const int64_t *held, unsigned count)
{
    int64_t oldest, newest, now_ns = wr_arena_now(arena);
    struct wr_log log;

    assert_in_range(wr_log_peek(arena, test_hash(PLACE_KEY), place_class, now_ns, &oldest, &newest),
                    count, 2 * KILLS);
    assert_int_equal(wr_log_open(&log, arena, test_hash(PLACE_KEY), place_class, &much, now_ns), 0);
    for (unsigned i = 0; i < count; i++)
        assert_true(wr_log_remove(&log, held[i], 1) == 1);
    wr_log_close(&log);
}

static void one_round(struct wr_arena *arena, uint64_t *random)
{
    pid_t pids[WORKERS];
    int64_t held[KILLS];
    unsigned lost_places = 0;

    memset(shared->reported, 0, sizeof shared->reported);
    memset(shared->held, 0, sizeof shared->held);
    shared->round++;
    for (unsigned i = 0; i < WORKERS; i++)
        pids[i] = spawn(worker, arena, i);
    for (unsigned kills = 0; kills < KILLS; kills++) {
        unsigned i = (unsigned)(next_random(random) % WORKERS);
        nap_us(500 + (long)(next_random(random) % 4000));
        kill_and_wait(pids[i]);
        if (shared->held[i] != 0)
            held[lost_places++] = shared->held[i];
        shared->held[i] = 0;
        pids[i] = spawn(worker, arena, i);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        assert_int_equal(wait_for(pids[i], STUCK_S), 0);
    for (unsigned k = 0; k < KEYS; k++) {
        assert_int_equal(stored(arena, k), limit_of(k));
        assert_in_range(shared->reported[k], limit_of(k) - KILLS, limit_of(k));
    }
    check_places(arena, held, lost_places);
    for (unsigned k = 0; k < KEYS; k++)
        assert_int_equal(wr_slot_drop(arena, test_hash(k)), 0);
    assert_int_equal(wr_slot_drop(arena, test_hash(PLACE_KEY)), 0);
}

static struct wr_arena_report report;
static struct wr_diag diag;

static void assert_sound(struct wr_arena *arena)
{
    static char text[8192];

    wr_diag_init(&diag, "arena");
    if (wr_arena_check(arena, wr_arena_now(arena), &report, &diag) != 0) {
        (void)wr_diag_format(&diag, text, sizeof text);
        fail_msg("%s", text);
    }
}

static void kills_neither_admit_more_nor_stick(void **unused)
{
    struct wr_arena *arena = test_arena("", 4 * WR_ARENA_BYTES_MIN, 60);
    uint64_t random = test_seed();

    (void)unused;
    shared = (struct shared *)shared_memory(sizeof *shared);
    word_class = test_class_make(arena, WORD_LIMIT, FOREVER, 0);
    list_class = test_class_make(arena, LIST_LIMIT, FOREVER, WR_NS_PER_S);
    place_class = test_class_make(arena, PLACES, WR_NS_PER_HOUR, 2 * WR_NS_PER_US);
    for (int i = 0; i < ROUNDS; i++)
        one_round(arena, &random);
    assert_sound(arena);
    print_message("%d kills: %llu locks taken over, %llu nodes and %llu lists lost, %llu busy\n",
                  ROUNDS * KILLS, (unsigned long long)wr_arena_count(arena, WR_STOLEN_LOCKS),
                  (unsigned long long)report.nodes_lost, (unsigned long long)report.heads_lost,
                  (unsigned long long)wr_arena_count(arena, WR_BUSY_LISTS));
    assert_true(report.nodes_lost + report.heads_lost <= 8 * ROUNDS * KILLS);
    assert_int_equal(report.used, 0);
    assert_int_equal(wr_arena_count(arena, WR_QUARANTINED), 0);
    assert_int_equal(wr_arena_count(arena, WR_EVICTED_LIVE), 0);
    assert_int_equal(wr_arena_repair(arena, NOW), 0);
    assert_sound(arena);
    assert_int_equal(report.nodes_lost + report.heads_lost, 0);
    wr_arena_close(arena);
}

/* ---- everything at once, in an arena that is much too small -------------------------------- */

static int chaos(struct wr_arena *arena, unsigned index)
{
    uint64_t random = index + (uint64_t)wr_clock_mono().ns;

    if (wr_arena_after_fork(arena) != 0)
        return 1;
    for (;;) {
        uint64_t dice = next_random(&random), hash = test_hash((dice >> 8) % 20000);
        const struct wr_worth worth = {dice >> 32, WR_NS_PER_S};
        int64_t now_ns = wr_arena_now(arena), stamp;
        struct wr_slot_view view;
        struct wr_log log;

        if (dice % 4 == 0) {
            wr_slot_find(arena, hash, &view);
            (void)wr_slot_put(arena, hash, &view, word_class, dice >> 40, &worth, now_ns);
        } else if (dice % 64 == 1) {
            (void)wr_slot_drop(arena, hash);
        } else if (wr_log_open(&log, arena, hash, dice % 8 < 4 ? list_class : place_class, &worth,
                               now_ns) == 0) {
            (void)wr_log_append(&log, (uint32_t)(dice >> 4) % 50, &stamp);
            if (log.live > 0 && dice % 3 == 0)
                (void)wr_log_remove(&log, wr_log_stamp(&log, log.live / 2), 5);
            wr_log_close(&log);
        }
    }
    return 0;
}

static void evictions_and_kills_leave_it_sound(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 80);
    uint64_t random = test_seed();
    pid_t pids[WORKERS];

    (void)unused;
    word_class = test_class_make(arena, UINT64_C(1) << 24, WR_NS_PER_S, 0);
    list_class = test_class_make(arena, 300, WR_NS_PER_S / 10, WR_NS_PER_MS);
    place_class = test_class_make(arena, 400, WR_NS_PER_S, WR_NS_PER_MS);
    for (unsigned i = 0; i < WORKERS; i++)
        pids[i] = spawn(chaos, arena, i);
    for (unsigned kills = 0; kills < 200; kills++) {
        unsigned i = (unsigned)(next_random(&random) % WORKERS);
        nap_us(500 + (long)(next_random(&random) % 4000));
        kill_and_wait(pids[i]);
        pids[i] = spawn(chaos, arena, i);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        kill_and_wait(pids[i]);
    assert_sound(arena);
    print_message("%llu of %llu nodes and %llu of %llu lists lost, %llu kept twice\n",
                  (unsigned long long)report.nodes_lost, (unsigned long long)report.nodes,
                  (unsigned long long)report.heads_lost, (unsigned long long)report.heads,
                  (unsigned long long)report.duplicates);
    assert_int_equal(wr_arena_count(arena, WR_QUARANTINED), 0);
    assert_true(wr_arena_count(arena, WR_EVICTED_LIVE) > 0);
    assert_true(wr_arena_count(arena, WR_UNSTORED) > 0);
    assert_true(wr_arena_count(arena, WR_STOLEN_LOCKS) > 0);
    assert_int_equal(wr_arena_repair(arena, wr_arena_now(arena)), 0);
    assert_sound(arena);
    assert_int_equal(report.nodes_lost + report.heads_lost + report.duplicates, 0);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_neither_admit_more_nor_stick),
        cmocka_unit_test(evictions_and_kills_leave_it_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
