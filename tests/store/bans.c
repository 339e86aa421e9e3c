/* bans.c - processes that ban and lift, killed at random 200 times and at every labelled point.
 *
 * What was acknowledged holds: each worker notes which caller it is at before it orders, and what
 * became of it afterwards; so after its death only that one caller's ban is unknown, and is the old
 * one or the new one. Built with the store's sources and WR_TEST_CRASH_POINTS. */
#include "points.h"
#include "process.h"

#include "store/ban.h"
#include "store/check.h"

#define WORKERS 3
#define CALLERS 30 /* of each worker; all fit, in an arena for 126 */
#define KILLS 200
#define LATER (NOW + WR_NS_PER_HOUR)

static struct shared {
    int64_t known[WORKERS][CALLERS]; /* the end that was acknowledged; 0: not banned */
    int64_t ordered[WORKERS];        /* the end that was ordered last */
    int32_t at[WORKERS];             /* for which caller; -1: acknowledged */
    uint64_t done[WORKERS];
} * shared;

static uint64_t hash_of(unsigned worker, unsigned caller)
{
    return (test_hash(worker * 1000 + caller) & ~UINT64_C(0xfff)) | caller % 4 << 4; /* long runs */
}

static struct wr_ban ban_of(uint64_t hash, int64_t until_ns)
{
    return (struct wr_ban){.hash = hash,
                           .since_ns = NOW,
                           .until_ns = until_ns,
                           .kind = WR_BAN_NET,
                           .net.prefix = 128,
                           .reason_len = 7,
                           .reason = "because"};
}

static struct wr_arena_report report;
static struct wr_diag diag;

static void assert_sound(struct wr_arena *arena)
{
    static char text[8192];

    wr_diag_init(&diag, "arena");
    if (wr_arena_check(arena, NOW, &report, &diag) != 0) {
        (void)wr_diag_format(&diag, text, sizeof text);
        fail_msg("%s", text);
    }
}

/* ---- at random ----------------------------------------------------------------------------- */

static int change(struct wr_arena *arena, unsigned worker, uint64_t dice)
{
    unsigned caller = (unsigned)(dice % CALLERS);
    uint64_t hash = hash_of(worker, caller);
    bool lift = (dice >> 8) % 3 == 0;
    struct wr_ban ban = ban_of(hash, LATER + (int64_t)((dice >> 16) % 1000));
    int rc;

    __atomic_store_n(&shared->ordered[worker], lift ? 0 : ban.until_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&shared->at[worker], (int32_t)caller, __ATOMIC_SEQ_CST);
    rc = lift ? wr_ban_lift(arena, hash, NOW) : wr_ban_put(arena, &ban, NOW);
    if (rc != 0 && !(lift && rc == WEIR_ENOENT))
        return rc == WEIR_EBUSY ? 3 : 2;
    __atomic_store_n(&shared->known[worker][caller], lift ? 0 : ban.until_ns, __ATOMIC_SEQ_CST);
    __atomic_store_n(&shared->at[worker], -1, __ATOMIC_SEQ_CST);
    shared->done[worker]++;
    return 0;
}

static int worker_main(struct wr_arena *arena, unsigned worker)
{
    uint64_t random = worker + (uint64_t)wr_clock_mono().ns;
    int rc = wr_arena_after_fork(arena) != 0 ? 1 : 0;

    while (rc == 0)
        rc = change(arena, worker, next_random(&random));
    return rc;
}

/* |worker| is dead: what it knew holds, and of what it was at, the old or the new. */
static void settle(struct wr_arena *arena, unsigned worker)
{
    for (unsigned caller = 0; caller < CALLERS; caller++) {
        int64_t until = wr_ban_until(arena, hash_of(worker, caller), NOW);
        int64_t *known = &shared->known[worker][caller];
        if (shared->at[worker] == (int32_t)caller && until == shared->ordered[worker])
            *known = until;
        assert_int_equal(until, *known);
    }
    shared->at[worker] = -1;
}

static void kills_lose_no_ban_and_stick_nowhere(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    uint64_t random = test_seed(), bans = 0, changes = 0;
    pid_t pids[WORKERS];

    (void)unused;
    memset(shared, 0, sizeof *shared);
    for (unsigned i = 0; i < WORKERS; i++) {
        shared->at[i] = -1;
        pids[i] = spawn(worker_main, arena, i);
    }
    for (unsigned kills = 0; kills < KILLS; kills++) {
        unsigned i = (unsigned)(next_random(&random) % WORKERS);
        nap_us(500 + (long)(next_random(&random) % 4000));
        kill_and_wait(pids[i]);
        settle(arena, i);
        pids[i] = spawn(worker_main, arena, i);
    }
    for (unsigned i = 0; i < WORKERS; i++) {
        kill_and_wait(pids[i]);
        settle(arena, i);
        for (unsigned caller = 0; caller < CALLERS; caller++)
            bans += shared->known[i][caller] != 0;
        changes += shared->done[i];
    }
    assert_sound(arena);
    assert_int_equal(report.bans, bans);
    print_message("%d kills, %llu changes\n", KILLS, (unsigned long long)changes);
    assert_true(changes > KILLS);
    wr_arena_close(arena);
}

/* ---- at every point ------------------------------------------------------------------------ */

#define OLD 1
#define NEW 2
#define ENDED 3

static void run_put(struct wr_arena *arena)
{
    const struct wr_ban ban = ban_of(hash_of(0, NEW), LATER);

    assert_int_equal(wr_ban_put(arena, &ban, NOW + 2), 0);
}

static void run_change(struct wr_arena *arena)
{
    const struct wr_ban ban = ban_of(hash_of(0, OLD), LATER);

    assert_int_equal(wr_ban_put(arena, &ban, NOW + 2), 0);
}

static void run_lift(struct wr_arena *arena)
{
    assert_int_equal(wr_ban_lift(arena, hash_of(0, OLD), NOW + 2), 0);
}

static const struct scenario {
    const char *name;
    void (*run)(struct wr_arena *);
    int64_t old[2]; /* the end of OLD, before and after */
    int64_t new[2]; /* and of NEW */
} scenarios[] = {
    {"put", run_put, {NOW + 100, NOW + 100}, {0, LATER}},
    {"change", run_change, {NOW + 100, LATER}, {0, 0}},
    {"lift", run_lift, {NOW + 100, 0}, {0, 0}},
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

static void assert_one_of(int64_t end, const int64_t ends[2])
{
    if (end != ends[0] && end != ends[1])
        fail_msg("%s: an end %lld from NOW", current->name, (long long)(end - NOW));
}

static void every_scenario_at_every_point(void **unused)
{
    const struct wr_ban old = ban_of(hash_of(0, OLD), NOW + 100);
    const struct wr_ban ended = ban_of(hash_of(0, ENDED), NOW + 1);

    (void)unused;
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++) {
        unsigned until = 1;
        int status = 128 + SIGKILL;
        current = &scenarios[i];
        for (; status == 128 + SIGKILL; until++) {
            struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
            assert_int_equal(wr_ban_put(arena, &ended, NOW), 0);
            assert_int_equal(wr_ban_put(arena, &old, NOW), 0);
            status = wait_for(spawn(child, arena, until), 20);
            points_disarm();
            assert_sound(arena);
            assert_one_of(wr_ban_until(arena, old.hash, NOW + 2), current->old);
            assert_one_of(wr_ban_until(arena, hash_of(0, NEW), NOW + 2), current->new);
            if (status == 0) {
                assert_int_equal(wr_ban_until(arena, old.hash, NOW + 2), current->old[1]);
                assert_int_equal(wr_ban_until(arena, hash_of(0, NEW), NOW + 2), current->new[1]);
            }
            run_put(arena); /* the next one is not held up */
            assert_int_equal(wr_ban_until(arena, hash_of(0, NEW), NOW + 2), LATER);
            assert_sound(arena);
            wr_arena_close(arena);
        }
        assert_int_equal(status, 0);
        print_message("%s: died at %u points\n", current->name, until - 2);
        assert_true(until - 2 >= 3);
    }
}

static void every_label_was_reached(void **unused)
{
    static const char *const labels[] = {"ban: half a record",  "ban: record written",
                                         "ban: half a summary", "ban: cell changed",
                                         "lift: cell changed",  "ban: ended one forgotten",
                                         "ban: run shortened"};

    (void)unused;
    points_assert_passed(labels, sizeof labels / sizeof labels[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kills_lose_no_ban_and_stick_nowhere),
        cmocka_unit_test(every_scenario_at_every_point),
        cmocka_unit_test(every_label_was_reached),
    };
    shared = (struct shared *)shared_memory(sizeof *shared);
    points_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
