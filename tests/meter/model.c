/* model.c - the ledger against an obvious model, over a random life: counts, what is given back,
 * days that pass, flushes, kills in the middle of a batch, restarts, power losses.
 *
 * The model is what each customer has used in each window: of the cells, as they are; and of the
 * database, as it was when it was last flushed. A kill leaves the cells; a power loss takes them,
 * and what then counts is what the database has, or what a cell that survived has, if that is more.
 */
#include "../unit/meter/keeping.h"

#include "meter/flush.h"
#include "meter/report.h"

#define PEOPLE 5U
#define DAYS 40
#define STEPS 4000
#define REMEMBERED 4 /* windows of a cell */

static struct wr_database *database;
static struct wr_customers *map;
static struct wr_kept kept;
static int64_t node;

static uint64_t cells[PEOPLE][DAYS], ledger[PEOPLE][DAYS]; /* by day, the window of a day */
static int32_t today;

static uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static void open_kept(void)
{
    kept =
        (struct wr_kept){.name = "daily", .zone = "UTC", .civil = {.per = WR_PER_DAY, .anchor = 1}};
    assert_int_equal(wr_kept_open(&kept, test_folder, ROOM, NULL), 0);
}

static struct wr_flush flush_now(void)
{
    return (struct wr_flush){
        .database = database, .map = map, .node = node, .now_ns = NOW + today * WR_NS_PER_DAY};
}

/* Everything is written, by bits or by looking at all. */
static void flush_all(bool scan)
{
    struct wr_flush flush = flush_now();

    if (!scan) {
        assert_int_equal(wr_flush_changes(&flush, &kept, 100), 0);
    } else {
        kept.scanning = true;
        assert_int_equal(wr_flush_scan(&flush, &kept, 100), 0);
    }
    for (unsigned i = 0; i < PEOPLE; i++)
        for (int day = today - REMEMBERED + 1; day <= today; day++)
            if (day >= 0)
                ledger[i][day] = cells[i][day];
}

/* A batch was begun when the process was killed: nothing of it is there; the bits may be gone. */
static void die_in_a_batch(void)
{
    struct wr_flush flush = flush_now();

    assert_int_equal(wr_database_begin(database), 0); /* so the batch cannot begin */
    assert_true(wr_flush_changes(&flush, &kept, 100) < 0 || kept.row != 0);
    wr_database_close(database);
    wr_kept_close(&kept);
    database = open_database();
    open_kept();
}

/* Cells are as the database has them, or, of those whose pages were written out, as they were. */
static void lose_power(uint64_t dice)
{
    struct wr_flush flush = flush_now();
    char path[512];

    wr_kept_close(&kept);
    if (dice % 2 == 0) { /* all of it was in memory */
        (void)snprintf(path, sizeof path, "%s/daily.usage", test_folder);
        assert_int_equal(unlink(path), 0);
        memcpy(cells, ledger, sizeof cells);
    }
    open_kept();
    flush.database = database;
    assert_int_equal(wr_flush_restore(&flush, &kept), 0);
    assert_true(wr_usage_is_restored(kept.usage));
}

static void count(unsigned who, uint64_t dice)
{
    int day = today - (dice % 8 == 0 ? 1 : 0); /* a late settlement */
    int64_t units = (int64_t)(dice >> 8) % 20;

    if (day < 0)
        return;
    if (dice % 5 == 0)
        units = -(int64_t)((dice >> 16) % (cells[who][day] + 1));
    charge(kept.usage, who, TODAY + day, units, 0);
    cells[who][day] += (uint64_t)units;
}

static void compare_cells(void)
{
    struct wr_usage_window window[WR_USAGE_WINDOWS];

    for (unsigned who = 0; who < PEOPLE; who++) {
        unsigned n = wr_usage_read(kept.usage, who, window);
        for (unsigned i = 0; i < n; i++)
            assert_int_equal(window[i].units, cells[who][window[i].day - TODAY]);
    }
}

static bool compare_line(void *context, const struct wr_report_line *line)
{
    unsigned who = (unsigned)(line->name[0] - 'a');

    assert_int_equal(line->used, ledger[who][line->window - TODAY]);
    *(uint64_t *)context += line->used;
    return true;
}

static void compare_ledger(void)
{
    const struct wr_report_filter filter = {.first = TODAY, .last = TODAY + DAYS};
    uint64_t sum = 0, expected = 0;

    for (unsigned who = 0; who < PEOPLE; who++)
        for (int day = 0; day < DAYS; day++)
            expected += ledger[who][day];
    assert_int_equal(wr_report_windows(database, &filter, compare_line, &sum), 0);
    assert_int_equal(sum, expected);
}

static void step(uint64_t dice)
{
    unsigned what = (unsigned)(dice % 100);

    if (what < 70) {
        count((unsigned)(dice >> 40) % PEOPLE, dice >> 8);
    } else if (what < 85) {
        flush_all(what < 72);
        compare_ledger();
    } else if (what < 88) {
        die_in_a_batch();
    } else if (what < 90) {
        wr_kept_close(&kept); /* a restart without a word */
        open_kept();
    } else if (what < 91) {
        lose_power(dice >> 8);
    } else if (what == 91 && today < DAYS - 1 && dice >> 60 == 0) {
        flush_all(false); /* a ledger that is out for longer than four windows is another test */
        today++;
    }
    compare_cells();
}

static void against_the_model(void **state)
{
    const char *given = getenv("WEIR_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20261130;

    (void)state;
    print_message("WEIR_SEED=%llu\n", (unsigned long long)seed);
    wr_keeper_stop(start_keeper()); /* makes the files */
    database = open_database();
    map = open_map();
    for (unsigned i = 0; i < PEOPLE; i++)
        (void)make_customer(database, (char[]){(char)('a' + i), '\0'}, "free");
    assert_int_equal(wr_ledger_node(database, NOW, &node), 0);
    open_kept();
    for (int i = 0; i < STEPS; i++)
        step(next_random(&seed));
    flush_all(true);
    compare_ledger();
    assert_true(today > 3);
    wr_kept_close(&kept);
    wr_customers_close(map);
    wr_database_close(database);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(against_the_model, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
