/* ban.c, ban_check.c - the table of bans: ends, room, runs of cells, damage; and against a model.
 * In an arena of 1 MiB there are 128 records, so 126 bans and 256 cells; the run of a hash starts
 * where its low twelve bits say: 16 hashes in a row share a start. */
#include "fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "store/ban.h"
#include "store/ban_cells.h"
#include "store/check.h"

#define ROOM 126
#define S WR_NS_PER_S

static struct wr_arena *arena;

static int set_up(void **unused)
{
    (void)unused;
    arena = test_arena("", WR_ARENA_BYTES_MIN, 0);
    return 0;
}

static int tear_down(void **unused)
{
    (void)unused;
    wr_arena_close(arena);
    return 0;
}

static struct wr_ban ban_of(uint64_t hash, int64_t until_ns)
{
    struct wr_ban ban = {.hash = hash,
                         .since_ns = NOW,
                         .until_ns = until_ns,
                         .kind = WR_BAN_VALUE,
                         .name_len = 7,
                         .name = "api_key"};

    ban.reason_len =
        (uint8_t)snprintf(ban.reason, sizeof ban.reason, "case %llu", (unsigned long long)hash);
    return ban;
}

static int put(uint64_t hash, int64_t until_ns, int64_t now_ns)
{
    const struct wr_ban ban = ban_of(hash, until_ns);

    return wr_ban_put(arena, &ban, now_ns);
}

/* The |i|th hash of those that share a start and nothing else. */
static uint64_t same_start(uint64_t i)
{
    return (i + 1) << 12 | 0x7ff;
}

static size_t count_at(int64_t now_ns)
{
    struct wr_ban ban;
    uint32_t at = 0;
    size_t count = 0;

    while (wr_ban_next(arena, now_ns, &at, &ban))
        count++;
    return count;
}

static struct wr_arena_report report;
static struct wr_diag diag;
static char text[8192];

static int check(void)
{
    int rc;

    wr_diag_init(&diag, "arena");
    rc = wr_arena_check(arena, NOW, &report, &diag);
    (void)wr_diag_format(&diag, text, sizeof text);
    return rc;
}

static void assert_sound(uint64_t bans)
{
    if (check() != 0)
        fail_msg("%s", text);
    assert_int_equal(report.bans, bans);
}

/* ---- one ban ------------------------------------------------------------------------------- */

static void a_ban_holds_until_its_end(void **unused)
{
    (void)unused;
    assert_false(wr_ban_any(arena));
    assert_int_equal(wr_ban_until(arena, 77, NOW), 0);
    assert_int_equal(put(77, NOW + 10 * S, NOW), 0);
    assert_true(wr_ban_any(arena));
    assert_true(wr_ban_any_value(arena));
    assert_int_equal(wr_ban_until(arena, 77, NOW), NOW + 10 * S);
    assert_int_equal(wr_ban_until(arena, 77, NOW + 10 * S - 1), NOW + 10 * S);
    assert_int_equal(wr_ban_until(arena, 77, NOW + 10 * S), 0);
    assert_int_equal(wr_ban_until(arena, 78, NOW), 0);
    assert_sound(1);
}

static void one_for_ever_has_no_end(void **unused)
{
    (void)unused;
    assert_int_equal(put(0, WR_BAN_FOREVER, NOW), 0); /* 0 is a hash like any other */
    assert_int_equal(wr_ban_until(arena, 0, WR_TIME_MAX_NS), WR_BAN_FOREVER);
    assert_int_equal(put(UINT64_MAX, WR_BAN_FOREVER, NOW), 0);
    assert_int_equal(wr_ban_until(arena, UINT64_MAX, WR_TIME_MAX_NS), WR_BAN_FOREVER);
    assert_sound(2);
}

static void lifting_leaves_nothing(void **unused)
{
    (void)unused;
    assert_int_equal(wr_ban_lift(arena, 77, NOW), WEIR_ENOENT);
    assert_int_equal(put(77, NOW + S, NOW), 0);
    assert_int_equal(wr_ban_lift(arena, 77, NOW), 0);
    assert_int_equal(wr_ban_until(arena, 77, NOW), 0);
    assert_false(wr_ban_any(arena));
    assert_false(wr_ban_any_value(arena));
    assert_int_equal(wr_ban_lift(arena, 77, NOW), WEIR_ENOENT);
    assert_int_equal(put(77, NOW + S, NOW), 0);
    assert_int_equal(wr_ban_lift(arena, 77, NOW + S), WEIR_ENOENT); /* it has ended */
    for (uint32_t i = 0; i < wr_ban_cell_count(arena); i++)
        assert_true(arena->ban_cells[i].word == 0 || arena->ban_cells[i].state != 0);
}

static void a_second_order_changes_the_first(void **unused)
{
    struct wr_ban ban = ban_of(5, NOW + S), got;

    (void)unused;
    assert_int_equal(wr_ban_put(arena, &ban, NOW), 0);
    ban.until_ns = WR_BAN_FOREVER;
    ban.reason_len = 3;
    memcpy(ban.reason, "new", 3);
    ban.since_ns = NOW + 1;
    assert_int_equal(wr_ban_put(arena, &ban, NOW + 1), 0);
    assert_int_equal(count_at(NOW + 1), 1);
    assert_true(wr_ban_get(arena, 5, NOW + 1, &got));
    assert_int_equal(got.until_ns, WR_BAN_FOREVER);
    assert_int_equal(got.since_ns, NOW + 1);
    assert_int_equal(got.hash, 5);
    assert_int_equal(got.name_len, 7);
    assert_memory_equal(got.name, "api_key", 7);
    assert_int_equal(got.reason_len, 3);
    assert_memory_equal(got.reason, "new", 3);
    ban.until_ns = NOW + 2 * S; /* shorter again */
    assert_int_equal(wr_ban_put(arena, &ban, NOW + 2), 0);
    assert_int_equal(wr_ban_until(arena, 5, NOW + 2), NOW + 2 * S);
    assert_int_equal(count_at(NOW + 2), 1);
    assert_sound(1);
}

static void networks_are_summed_up_by_length(void **unused)
{
    struct wr_ban a = ban_of(1, NOW + S), b = ban_of(2, NOW + S);

    (void)unused;
    a.kind = b.kind = WR_BAN_NET;
    a.net.prefix = 120;
    b.net.prefix = 128;
    assert_int_equal(wr_ban_put(arena, &a, NOW), 0);
    assert_int_equal(wr_ban_put(arena, &b, NOW), 0);
    assert_true(wr_ban_prefixes(arena, 0) == 0);
    assert_true(wr_ban_prefixes(arena, 1) == UINT64_C(1) << 56);
    assert_true(wr_ban_prefixes(arena, 2) == 1);
    assert_false(wr_ban_any_value(arena));
    assert_int_equal(wr_ban_lift(arena, 1, NOW), 0);
    assert_true(wr_ban_prefixes(arena, 1) == 0);
    assert_true(wr_ban_prefixes(arena, 2) == 1);
}

static void nonsense_is_refused(void **unused)
{
    struct wr_ban ban = ban_of(1, NOW + S);

    (void)unused;
    assert_int_equal(put(1, NOW, NOW), WEIR_EINVAL);
    assert_int_equal(put(1, -5, -6), WEIR_EINVAL);
    ban.kind = 0;
    assert_int_equal(wr_ban_put(arena, &ban, NOW), WEIR_EINVAL);
    ban = ban_of(1, NOW + S);
    ban.net.prefix = 129;
    assert_int_equal(wr_ban_put(arena, &ban, NOW), WEIR_EINVAL);
    ban = ban_of(1, NOW + S);
    ban.reason_len = WR_BAN_REASON_MAX + 1;
    assert_int_equal(wr_ban_put(arena, &ban, NOW), WEIR_EINVAL);
    assert_int_equal(count_at(NOW), 0);
}

/* ---- room ---------------------------------------------------------------------------------- */

static void a_full_table_says_so_and_keeps_what_it_has(void **unused)
{
    (void)unused;
    assert_int_equal(wr_ban_room(arena), ROOM);
    for (uint64_t i = 0; i < ROOM; i++)
        assert_int_equal(put(test_hash(i), NOW + (int64_t)(i + 1) * S, NOW), 0);
    assert_int_equal(put(test_hash(ROOM), NOW + S, NOW), WEIR_EFULL);
    assert_int_equal(wr_ban_until(arena, test_hash(ROOM), NOW), 0);
    for (uint64_t i = 0; i < ROOM; i++)
        assert_int_equal(wr_ban_until(arena, test_hash(i), NOW), NOW + (int64_t)(i + 1) * S);
    /* Full or not, one that is there can be changed. */
    assert_int_equal(put(test_hash(7), WR_BAN_FOREVER, NOW), 0);
    assert_sound(ROOM);
    /* The first has ended: its room is the next one's. */
    assert_int_equal(put(test_hash(ROOM), WR_BAN_FOREVER, NOW + S), 0);
    assert_int_equal(put(test_hash(ROOM + 1), WR_BAN_FOREVER, NOW + S), WEIR_EFULL);
    assert_int_equal(count_at(NOW + S), ROOM);
    assert_int_equal(wr_ban_lift(arena, test_hash(50), NOW + S), 0);
    assert_int_equal(put(test_hash(ROOM + 1), WR_BAN_FOREVER, NOW + S), 0);
    assert_int_equal(wr_ban_until(arena, test_hash(0), NOW), 0); /* gone, not only ended */
}

static void a_run_has_an_end_too(void **unused)
{
    (void)unused;
    wr_arena_close(arena);
    arena = test_arena("", 2 * WR_ARENA_BYTES_MIN, 0); /* room for 254 */
    for (uint64_t i = 0; i < WR_BAN_PROBES_MAX; i++)
        assert_int_equal(put(same_start(i), NOW + S, NOW), 0);
    assert_int_equal(put(same_start(WR_BAN_PROBES_MAX), NOW + S, NOW), WEIR_EFULL);
    assert_int_equal(wr_ban_lift(arena, same_start(40), NOW), 0);
    for (uint64_t i = 0; i < WR_BAN_PROBES_MAX; i++)
        assert_int_equal(wr_ban_until(arena, same_start(i), NOW), i == 40 ? 0 : NOW + S);
    assert_int_equal(put(same_start(WR_BAN_PROBES_MAX), NOW + S, NOW), 0);
    assert_int_equal(wr_ban_until(arena, same_start(WR_BAN_PROBES_MAX), NOW), NOW + S);
    assert_sound(WR_BAN_PROBES_MAX);
}

static void runs_cross_the_end_of_the_table_and_shrink(void **unused)
{
    (void)unused;
    for (uint64_t i = 0; i < 10; i++) /* starts in the last cell */
        assert_int_equal(put((i + 1) << 12 | 0xfff, NOW + S, NOW), 0);
    assert_int_equal(put(UINT64_C(99) << 12 | 0x010, NOW + S, NOW), 0); /* starts in cell 1 */
    assert_int_equal(wr_ban_lift(arena, UINT64_C(5) << 12 | 0xfff, NOW), 0);
    assert_int_equal(wr_ban_until(arena, UINT64_C(10) << 12 | 0xfff, NOW), NOW + S);
    assert_int_equal(wr_ban_until(arena, UINT64_C(99) << 12 | 0x010, NOW), NOW + S);
    assert_sound(10);
    for (uint64_t i = 0; i < 10; i++)
        if (i != 4)
            assert_int_equal(wr_ban_lift(arena, (i + 1) << 12 | 0xfff, NOW), 0);
    assert_int_equal(wr_ban_until(arena, UINT64_C(99) << 12 | 0x010, NOW), NOW + S);
    assert_int_equal(wr_ban_lift(arena, UINT64_C(99) << 12 | 0x010, NOW), 0);
    for (uint32_t i = 0; i < wr_ban_cell_count(arena); i++)
        assert_true(arena->ban_cells[i].word == 0 && arena->ban_cells[i].state == 0);
}

/* 52 bits of a hash are in the cell; the rest is told apart by the record. */
static void equal_fingerprints_are_two_callers(void **unused)
{
    const uint64_t a = UINT64_C(123) << 12 | 0x011, b = UINT64_C(123) << 12 | 0x012;

    (void)unused;
    assert_int_equal(wr_ban_start(arena, a), wr_ban_start(arena, b));
    assert_int_equal(put(a, NOW + S, NOW), 0);
    assert_int_equal(wr_ban_until(arena, b, NOW), 0);
    assert_int_equal(put(b, NOW + 2 * S, NOW), 0);
    assert_int_equal(wr_ban_until(arena, a, NOW), NOW + S);
    assert_int_equal(wr_ban_until(arena, b, NOW), NOW + 2 * S);
    assert_int_equal(wr_ban_lift(arena, a, NOW), 0);
    assert_int_equal(wr_ban_until(arena, a, NOW), 0);
    assert_int_equal(wr_ban_until(arena, b, NOW), NOW + 2 * S);
    assert_sound(1);
}

/* ---- against a model ----------------------------------------------------------------------- */

#define CALLERS 200

/* Many starts are shared and the table is often full; what holds is an array of ends. */
static void it_is_as_an_array_of_ends(void **unused)
{
    static int64_t ends[CALLERS];
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20261130;
    int64_t now_ns = NOW;

    (void)unused;
    print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
    memset(ends, 0, sizeof ends);
    for (uint64_t step = 0; step < 20000; step++) {
        uint64_t dice = test_hash(seed + step), who = dice % CALLERS;
        uint64_t hash = (test_hash(who) & ~UINT64_C(0xfff)) | who % 5 << 4;
        size_t live = 0;
        for (unsigned i = 0; i < CALLERS; i++)
            live += ends[i] > now_ns;
        assert_int_equal(wr_ban_until(arena, hash, now_ns), ends[who] > now_ns ? ends[who] : 0);
        if ((dice >> 20) % 8 < 5) {
            int64_t end = now_ns + 1 + (int64_t)((dice >> 30) % 4000);
            bool fits = ends[who] > now_ns || live < ROOM;
            assert_int_equal(put(hash, end, now_ns), fits ? 0 : WEIR_EFULL);
            if (fits)
                ends[who] = end;
        } else {
            assert_int_equal(wr_ban_lift(arena, hash, now_ns),
                             ends[who] > now_ns ? 0 : WEIR_ENOENT);
            ends[who] = 0;
        }
        now_ns += (int64_t)((dice >> 50) % 16);
        if (step % 1000 == 0) {
            live = 0;
            for (unsigned i = 0; i < CALLERS; i++)
                live += ends[i] > now_ns;
            assert_int_equal(count_at(now_ns), live);
            assert_int_equal(check(), 0);
        }
    }
}

/* ---- damage -------------------------------------------------------------------------------- */

static struct wr_slot *cell_of(uint64_t hash)
{
    struct wr_slot seen;

    return wr_ban_find(arena, hash, NOW, &seen);
}

/* Damage is found, and repaired; |kept| bans are left. */
static void found(const char *words, uint64_t kept)
{
    assert_int_equal(check(), WEIR_ECORRUPT);
    if (strstr(text, words) == NULL)
        fail_msg("'%s' is not in: %s", words, text);
    assert_int_equal(wr_arena_repair(arena, NOW), 0);
    assert_sound(kept);
}

static void three(void)
{
    for (uint64_t i = 0; i < 3; i++)
        assert_int_equal(put(same_start(i), NOW + S, NOW), 0);
}

static void a_hole_in_a_run_is_found_and_mended(void **unused)
{
    (void)unused;
    three();
    *cell_of(same_start(0)) = (struct wr_slot){0, 0};
    assert_int_equal(wr_ban_until(arena, same_start(2), NOW), 0);
    found("damaged: the ban in cell", 2);
    assert_int_equal(wr_ban_until(arena, same_start(1), NOW), NOW + S);
    assert_int_equal(wr_ban_until(arena, same_start(2), NOW), NOW + S);
}

static void records_that_do_not_fit_are_found(void **unused)
{
    struct wr_slot *cell;

    (void)unused;
    three();
    cell = cell_of(same_start(1));
    wr_ban_record_of(arena, cell->word)->hash ^= UINT64_C(1) << 40;
    assert_int_equal(wr_ban_until(arena, same_start(1), NOW), 0);
    found("damaged: the ban in cell", 2);
    cell = cell_of(same_start(0));
    cell->word &= ~WR_CLASS_MASK; /* no record */
    found("damaged: the ban in cell", 1);
    cell = cell_of(same_start(2));
    cell->word |= WR_CLASS_MASK; /* one that there is not */
    found("damaged: the ban in cell", 0);
    assert_int_equal(wr_arena_count(arena, WR_QUARANTINED), 3);
}

static void a_ban_twice_is_found(void **unused)
{
    struct wr_slot *cell;

    (void)unused;
    three();
    cell = cell_of(same_start(0));
    cell[3] = *cell;
    found("damaged: the ban in cell", 3);
}

static void an_end_without_a_ban_is_found(void **unused)
{
    (void)unused;
    three();
    arena->ban_cells[9] = (struct wr_slot){0, 5};
    found("damaged: the ban in cell 9", 3);
}

static void a_summary_that_forgets_is_found(void **unused)
{
    (void)unused;
    three();
    arena->header->bans.count = 0;
    found("damaged: the summary of bans, of which there are 3", 3);
    assert_true(wr_ban_any(arena));
    arena->header->bans.values = 0;
    found("damaged: the summary of bans", 3);
    assert_true(wr_ban_any_value(arena));
}

static void random_bytes_do_no_harm(void **unused)
{
    unsigned char *base = (unsigned char *)arena->ban_cells;
    size_t bytes = (size_t)((unsigned char *)arena->buckets - base);

    (void)unused;
    for (uint64_t round = 0; round < 30; round++) {
        for (uint64_t i = 0; i < 100; i++)
            (void)put(test_hash(i) % 4096 << 8 | i % 16, NOW + S, NOW);
        for (uint64_t i = 0; i < (round % 3 + 1) * bytes / 8; i++) {
            uint64_t dice = test_hash(round << 32 | i);
            base[dice % bytes] = (unsigned char)(dice >> 56);
        }
        for (uint64_t i = 0; i < 200; i++) {
            uint64_t hash = test_hash(i) % 4096 << 8 | i % 16;
            (void)wr_ban_until(arena, hash, NOW);
            (void)(i % 2 == 0 ? put(hash, NOW + S, NOW) : wr_ban_lift(arena, hash, NOW));
        }
        (void)count_at(NOW);
        (void)check();
        assert_int_equal(wr_arena_repair(arena, NOW), 0);
        if (check() != 0)
            fail_msg("round %d: %s", (int)round, text);
    }
}

int main(void)
{
#define WITH_ARENA(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH_ARENA(a_ban_holds_until_its_end),
        WITH_ARENA(one_for_ever_has_no_end),
        WITH_ARENA(lifting_leaves_nothing),
        WITH_ARENA(a_second_order_changes_the_first),
        WITH_ARENA(networks_are_summed_up_by_length),
        WITH_ARENA(nonsense_is_refused),
        WITH_ARENA(a_full_table_says_so_and_keeps_what_it_has),
        WITH_ARENA(a_run_has_an_end_too),
        WITH_ARENA(runs_cross_the_end_of_the_table_and_shrink),
        WITH_ARENA(equal_fingerprints_are_two_callers),
        WITH_ARENA(it_is_as_an_array_of_ends),
        WITH_ARENA(a_hole_in_a_run_is_found_and_mended),
        WITH_ARENA(records_that_do_not_fit_are_found),
        WITH_ARENA(a_ban_twice_is_found),
        WITH_ARENA(an_end_without_a_ban_is_found),
        WITH_ARENA(a_summary_that_forgets_is_found),
        WITH_ARENA(random_bytes_do_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
