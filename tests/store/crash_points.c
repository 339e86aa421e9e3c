/* crash_points.c - killed at every labelled point of the list code, one after the other.
 *
 * Built with the store's sources and WR_TEST_CRASH_POINTS: wr_crash_point is called there. A child
 * runs a scenario and is killed at its n-th point, for n = 1, 2, ... until it comes through. After
 * each death: the list holds what it held before or after (for a removal: all that was to stay),
 * the checker passes, the next decision is not stuck, and a repair gives back all that was lost. */
#include "points.h"
#include "process.h"

#include "store/check.h"
#include "store/list.h"
#include "store/log.h"

#define KEY 1
#define OTHER 2
#define WINDOW (10 * WR_NS_PER_S)
#define LOST_MAX 12 /* nodes that one death may lose: of one list here */

static const struct wr_worth much = {UINT64_C(1) << 32, WINDOW};
static uint16_t fine_class, coarse_class, word_class;

/* ---- scenarios ----------------------------------------------------------------------------- */

static void append(struct wr_arena *arena, uint64_t key, uint16_t class_id, uint32_t count,
                   int64_t now_ns)
{
    struct wr_log log;
    int64_t stamp;

    assert_int_equal(wr_log_open(&log, arena, test_hash(key), class_id, &much, now_ns), 0);
    assert_int_equal(wr_log_append(&log, count, &stamp), 0);
    wr_log_close(&log);
}

/* 50 stamps, 100 ms apart, of which those at 1 s and at 2 s are there five times. */
static uint32_t prepare(struct wr_arena *arena)
{
    for (int i = 0; i < 50; i++)
        append(arena, KEY, fine_class, i == 10 || i == 20 ? 5 : 1, NOW + i * 100 * WR_NS_PER_MS);
    return 58;
}

static void run_append(struct wr_arena *arena)
{
    append(arena, KEY, fine_class, 20, NOW + 5 * WR_NS_PER_S);
}

static void run_expire(struct wr_arena *arena)
{
    append(arena, KEY, fine_class, 2, NOW + 13 * WR_NS_PER_S);
}

static void run_expire_all(struct wr_arena *arena)
{
    append(arena, KEY, fine_class, 2, NOW + 30 * WR_NS_PER_S);
}

static void run_remove(struct wr_arena *arena)
{
    struct wr_log log;

    assert_int_equal(
        wr_log_open(&log, arena, test_hash(KEY), fine_class, &much, NOW + 5 * WR_NS_PER_S), 0);
    assert_int_equal(wr_log_remove(&log, NOW + WR_NS_PER_S, 5), 5);
    wr_log_close(&log);
}

static void run_remove_newest(struct wr_arena *arena)
{
    struct wr_log log;

    assert_int_equal(
        wr_log_open(&log, arena, test_hash(KEY), fine_class, &much, NOW + 5 * WR_NS_PER_S), 0);
    assert_int_equal(wr_log_remove(&log, NOW + 4900 * WR_NS_PER_MS, 1), 1);
    wr_log_close(&log);
}

static void run_make(struct wr_arena *arena)
{
    append(arena, OTHER, fine_class, 17, NOW);
}

static void run_convert(struct wr_arena *arena)
{
    append(arena, KEY, coarse_class, 1, NOW + 5 * WR_NS_PER_S);
}

static void run_drop(struct wr_arena *arena)
{
    assert_int_equal(wr_slot_drop(arena, test_hash(KEY)), 0);
}

static void run_to_word(struct wr_arena *arena)
{
    struct wr_slot_view view;

    wr_slot_find(arena, test_hash(KEY), &view);
    assert_int_equal(
        wr_slot_put(arena, test_hash(KEY), &view, word_class, 7, &much, NOW + WR_NS_PER_S), 0);
}

/* What may be left of KEY: as many stamps as before, or as after, or for a removal in between. */
struct scenario {
    const char *name;
    void (*run)(struct wr_arena *);
    int64_t at_ns;      /* when the list is looked at, from NOW */
    uint32_t before;    /* live stamps then, had the scenario not run */
    uint32_t after;     /* and had it run through */
    bool gone_possible; /* the whole list may be gone */
};

static const struct scenario scenarios[] = {
    {"append", run_append, 5 * WR_NS_PER_S, 58, 78, false},
    /* at 13 s those after 3 s are live: 3.1 .. 4.9 */
    {"expire", run_expire, 13 * WR_NS_PER_S, 19, 21, false},
    {"expire all", run_expire_all, 30 * WR_NS_PER_S, 0, 2, false},
    {"remove", run_remove, 5 * WR_NS_PER_S, 58, 53, false},
    {"remove newest", run_remove_newest, 5 * WR_NS_PER_S, 58, 57, false},
    {"make", run_make, 5 * WR_NS_PER_S, 58, 58, false},
    {"convert", run_convert, 5 * WR_NS_PER_S, 58, 59, false},
    {"drop", run_drop, 5 * WR_NS_PER_S, 58, 0, true},
    {"to word", run_to_word, 5 * WR_NS_PER_S, 58, 0, true},
};

static const struct scenario *current;

static int child(struct wr_arena *arena, unsigned until)
{
    if (wr_arena_after_fork(arena) != 0)
        return 1;
    points_arm(until);
    current->run(arena);
    points_disarm();
    return 0;
}

/* ---- what must hold after a death ---------------------------------------------------------- */

static struct wr_arena_report report;
static struct wr_diag diag;

static void assert_sound(struct wr_arena *arena, unsigned until)
{
    static char text[8192];

    wr_diag_init(&diag, "arena");
    if (wr_arena_check(arena, NOW, &report, &diag) != 0) {
        (void)wr_diag_format(&diag, text, sizeof text);
        fail_msg("%s, point %u: %s", current->name, until, text);
    }
}

/* Each stamp that the scenario does not touch is there: one for every 100 ms but those it removes
 * or lets expire. */
static void assert_stamps(const struct wr_log *log)
{
    int64_t cut = NOW + current->at_ns - WINDOW;
    bool removes = current->run == run_remove, newest = current->run == run_remove_newest;
    uint32_t k = 0;

    if (log->class_id != fine_class)
        return; /* converted: the moments are coarser */
    for (int i = 0; i < 50; i++) {
        int64_t stamp = NOW + i * 100 * WR_NS_PER_MS;
        bool found = false;
        if (stamp <= cut || (removes && i == 10) || (newest && i == 49))
            continue;
        for (; k < log->live && wr_log_stamp(log, k) <= stamp; k++)
            found |= wr_log_stamp(log, k) == stamp;
        if (!found)
            fail_msg("%s: the stamp at %d00 ms is lost", current->name, i);
    }
}

static void assert_list(struct wr_arena *arena, unsigned until)
{
    uint32_t low = current->before < current->after ? current->before : current->after;
    uint32_t high = current->before < current->after ? current->after : current->before;
    struct wr_slot_view view;
    struct wr_log log;

    wr_slot_find(arena, test_hash(KEY), &view);
    if (current->gone_possible && (view.slot == NULL || view.class_id == word_class))
        return;
    assert_non_null(view.slot);
    /* Not stuck: the dead owner's lock is taken over. */
    assert_int_equal(
        wr_log_open(&log, arena, test_hash(KEY), view.class_id, &much, NOW + current->at_ns), 0);
    if (log.live != current->before && log.live != current->after &&
        (current->run != run_remove || log.live < low || log.live > high))
        fail_msg("%s, point %u: %u stamps", current->name, until, log.live);
    if (log.live > 0)
        assert_stamps(&log);
    wr_log_close(&log);
}

static void die_at_every_point(const struct scenario *scenario)
{
    unsigned until, deaths = 0;
    int status = 128 + SIGKILL;

    current = scenario;
    for (until = 1; status == 128 + SIGKILL; until++) {
        struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 30);

        fine_class = test_class_make(arena, 1000, WINDOW, WR_NS_PER_MS);
        coarse_class = test_class_make(arena, 1000, WINDOW, 100 * WR_NS_PER_MS);
        word_class = test_class_make(arena, 1000, WINDOW, 0);
        assert_int_equal(prepare(arena), 58);
        status = wait_for(spawn(child, arena, until), 20);
        points_disarm();
        deaths += status == 128 + SIGKILL;
        assert_sound(arena, until);
        assert_true(report.nodes_lost <= LOST_MAX && report.heads_lost <= 1);
        assert_list(arena, until);
        append(arena, OTHER, fine_class, 3, NOW + current->at_ns);
        assert_sound(arena, until);
        assert_int_equal(wr_arena_repair(arena, NOW), 0);
        assert_sound(arena, until);
        assert_int_equal(report.nodes_lost + report.heads_lost, 0);
        wr_arena_close(arena);
    }
    assert_int_equal(status, 0);
    print_message("%s: died at %u points\n", scenario->name, deaths);
    assert_true(deaths >= 3);
}

static void every_scenario_at_every_point(void **unused)
{
    (void)unused;
    points_init();
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        die_at_every_point(&scenarios[i]);
}

static void every_label_was_reached(void **unused)
{
    static const char *const labels[] = {
        "commit: half a copy",       "commit: before",         "commit: after",
        "dispose: nodes given back", "dispose: unlocked",      "replace: slot changed",
        "new: head taken",           "new: before its slot",   "append: node taken",
        "append: written",           "remove: one shifted",    "make: slot taken",
        "rebuild: slot changed",     "close: before unlocking"};

    (void)unused;
    points_assert_passed(labels, sizeof labels / sizeof labels[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_scenario_at_every_point),
        cmocka_unit_test(every_label_was_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
