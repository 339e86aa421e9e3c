/* Cells of usage: what is counted where, what gives way, what the ledger is told. */
#include "fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/usage.h"
#include "store/usage_file.h"

#define DAY 20000 /* some civil day */
#define ROOM 100

static char path[64];
static struct wr_diag diag;
static char text[4096];

static struct wr_usage *open_as(const char *name, uint32_t room, uint8_t per, int expected)
{
    struct wr_usage_options options = {.path = path, .name = name, .room = room, .per = per};
    struct wr_usage *usage;
    int rc;

    wr_diag_init(&diag, path);
    rc = wr_usage_open(&usage, &options, &diag);
    (void)wr_diag_format(&diag, text, sizeof text);
    if (rc != expected)
        fail_msg("%d, expected %d: %s", rc, expected, text);
    return usage;
}

static struct wr_usage *open_with(uint32_t room, uint8_t per, int expected)
{
    return open_as("daily", room, per, expected);
}

static int setup(void **state)
{
    (void)snprintf(path, sizeof path, "/tmp/weir-test-usage-%d", (int)getpid());
    (void)unlink(path);
    *state = open_with(ROOM, 1, 0);
    return 0;
}

static int teardown(void **state)
{
    wr_usage_close(*state);
    (void)unlink(path);
    return 0;
}

static void add(struct wr_usage *usage, uint32_t number, int32_t day, uint64_t units, uint64_t over)
{
    struct wr_usage_view view;
    uint64_t used;

    do {
        assert_true(wr_usage_find(usage, number, day, &view));
        used = view.used != 0 ? view.used : (uint64_t)day << WR_USAGE_UNIT_BITS;
    } while (!wr_usage_put(usage, number, &view, used + units, view.over + over));
}

static void assert_window(const struct wr_usage *usage, uint32_t number, unsigned index,
                          int32_t day, uint64_t units, uint64_t over)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];

    assert_true(wr_usage_read(usage, number, windows) > index);
    assert_int_equal(windows[index].day, day);
    assert_int_equal(windows[index].units, units);
    assert_int_equal(windows[index].over, over);
}

static void a_new_file_is_empty(void **state)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];
    struct wr_usage_view view;
    uint32_t at = 0, number;

    assert_int_equal(wr_usage_room(*state), ROOM);
    assert_int_equal(wr_usage_read(*state, 5, windows), 0);
    assert_int_equal(wr_usage_read(*state, ROOM, windows), 0);
    assert_true(wr_usage_find(*state, 0, DAY, &view));
    assert_int_equal(view.used, 0);
    assert_false(wr_usage_find(*state, ROOM, DAY, &view));
    assert_false(wr_usage_dirty_next(*state, &at, &number));
    at = 0;
    assert_false(wr_usage_known_next(*state, &at, &number));
    assert_false(wr_usage_is_restored(*state));
    wr_usage_set_restored(*state);
    assert_true(wr_usage_is_restored(*state));
}

static void counts_are_kept_by_window(void **state)
{
    add(*state, 7, DAY, 3, 0);
    add(*state, 7, DAY, 4, 2);
    add(*state, 7, DAY + 1, 10, 0);
    add(*state, 7, DAY, 1, 0); /* late */
    assert_window(*state, 7, 0, DAY, 8, 2);
    assert_window(*state, 7, 1, DAY + 1, 10, 0);
    wr_usage_close(*state);
    *state = open_with(ROOM, 1, 0);
    assert_window(*state, 7, 0, DAY, 8, 2);
}

static void the_farthest_window_gives_way(void **state)
{
    struct wr_usage_window windows[WR_USAGE_WINDOWS];

    for (int32_t i = 0; i < 6; i++)
        add(*state, 1, DAY + 7 * i, (uint64_t)i + 1, 0);
    assert_int_equal(wr_usage_read(*state, 1, windows), 4);
    assert_window(*state, 1, 0, DAY + 14, 3, 0);
    assert_window(*state, 1, 3, DAY + 35, 6, 0);
    /* A clock that was years ahead for a moment: that window goes first. */
    add(*state, 1, DAY + 5000, 99, 0); /* for DAY + 14 */
    add(*state, 1, DAY + 42, 7, 0);
    assert_window(*state, 1, 0, DAY + 21, 4, 0);
    assert_window(*state, 1, 3, DAY + 42, 7, 0);
}

static void a_window_that_changed_is_not_put(void **state)
{
    struct wr_usage_view first, second;

    assert_true(wr_usage_find(*state, 2, DAY, &first));
    assert_true(wr_usage_find(*state, 2, DAY, &second));
    assert_true(wr_usage_put(*state, 2, &first, (uint64_t)DAY << 44 | 1, 0));
    assert_false(wr_usage_put(*state, 2, &second, (uint64_t)DAY << 44 | 1, 0));
    assert_window(*state, 2, 0, DAY, 1, 0);
}

static void the_ledger_is_told_of_changes(void **state)
{
    uint32_t at = 0, number;

    add(*state, 99, DAY, 1, 0);
    add(*state, 0, DAY, 1, 0);
    add(*state, 64, DAY, 1, 0);
    assert_true(wr_usage_dirty_next(*state, &at, &number));
    assert_int_equal(number, 0);
    assert_true(wr_usage_dirty_next(*state, &at, &number));
    assert_int_equal(number, 64);
    assert_true(wr_usage_dirty_next(*state, &at, &number));
    assert_int_equal(number, 99);
    assert_false(wr_usage_dirty_next(*state, &at, &number));
    at = 0;
    assert_false(wr_usage_dirty_next(*state, &at, &number));
    wr_usage_mark(*state, 64);
    wr_usage_mark(*state, ROOM); /* nobody */
    add(*state, 3, DAY, 0, 0);
    assert_true(wr_usage_dirty_next(*state, &at, &number) == false);
    at = 0;
    assert_true(wr_usage_dirty_next(*state, &at, &number));
    assert_int_equal(number, 3);
    assert_true(wr_usage_dirty_next(*state, &at, &number));
    assert_int_equal(number, 64);
    at = 0;
    for (unsigned i = 0; i < 4; i++)
        assert_true(wr_usage_known_next(*state, &at, &number));
    assert_int_equal(number, 99);
    assert_false(wr_usage_known_next(*state, &at, &number));
}

static void raising_never_lowers(void **state)
{
    const struct wr_usage_window less = {DAY, 5, 1}, more = {DAY, 50, 0}, old = {DAY - 40, 7, 0};

    add(*state, 4, DAY, 10, 3);
    wr_usage_raise(*state, 4, &less, DAY);
    assert_window(*state, 4, 0, DAY, 10, 3);
    wr_usage_raise(*state, 4, &more, DAY);
    assert_window(*state, 4, 0, DAY, 50, 3);
    wr_usage_raise(*state, ROOM, &more, DAY); /* nobody */
    for (int32_t i = 1; i < 4; i++)
        add(*state, 4, DAY + i, 1, 0);
    wr_usage_raise(*state, 4, &old, DAY); /* would push out what counts */
    assert_window(*state, 4, 0, DAY, 50, 3);
    assert_window(*state, 4, 3, DAY + 3, 1, 0);
}

static void what_the_ledger_missed_is_said(void **state)
{
    wr_usage_set_flushed(*state, DAY + 1);
    for (int32_t i = 0; i < 4; i++)
        add(*state, 5, DAY + i, 100, 0);
    assert_int_equal(wr_usage_lost_units(*state), 0);
    add(*state, 5, DAY + 4, 100, 0); /* for DAY, which may have gone on after the last flush */
    assert_int_equal(wr_usage_lost_units(*state), 100);
    wr_usage_set_flushed(*state, DAY + 5);
    add(*state, 5, DAY + 5, 100, 0); /* for DAY + 1, over long since */
    assert_int_equal(wr_usage_lost_units(*state), 100);
}

/* A window of 1970, or of next year, is damage: it gives way to what the ledger has, and is no
 * loss.
 */
static void what_cannot_be_gives_way(void **state)
{
    const int32_t today = (int32_t)(((struct wr_usage *)*state)->mapped.header->created_ns /
                                    (86400 * INT64_C(1000000000)));
    const struct wr_usage_window right = {today, 7, 0};

    assert_true(wr_usage_can_begin(*state, today, today));
    assert_true(wr_usage_can_begin(*state, today + 2, today));
    assert_true(wr_usage_can_begin(*state, today - 160, today));  /* what was restored */
    assert_true(wr_usage_can_begin(*state, today, today + 3000)); /* of years ago */
    assert_false(wr_usage_can_begin(*state, today + 60, today));
    assert_false(wr_usage_can_begin(*state, 33, today));
    /* A clock before the file was made: one of them is wrong. */
    assert_true(wr_usage_can_begin(*state, today - 2000, today - 2000));

    wr_usage_set_flushed(*state, today);
    for (int32_t i = 0; i < WR_USAGE_WINDOWS; i++)
        add(*state, 5, today + 400 + i, 1000, 0);
    wr_usage_raise(*state, 5, &right, today);
    assert_window(*state, 5, 0, today, 7, 0);
    assert_int_equal(wr_usage_lost_units(*state), 0);
}

/* Advice that would put a copy over the file itself is not given. */
static void a_name_that_is_not_the_files(void **state)
{
    char beside[80];
    int fd;

    wr_usage_close(*state);
    *state = NULL;
    (void)snprintf(beside, sizeof beside, "/tmp/daily-%d.usage", (int)getpid());
    (void)unlink(path);
    (void)snprintf(text, sizeof text, "daily-%d", (int)getpid());
    wr_usage_close(open_as(text, ROOM, 1, 0));
    assert_null(open_as("weekly", ROOM, 1, WEIR_EFORMAT));
    assert_non_null(strstr(text, "give it its own name again (daily-"));
    fd = open(beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    assert_null(open_as("weekly", ROOM, 1, WEIR_EFORMAT));
    assert_int_equal(unlink(beside), 0);
    assert_null(strstr(text, "own name again"));
    assert_non_null(strstr(text, ".usage too, which stays as it is"));
    assert_non_null(strstr(text, "move it out of the directory"));
    fd = open(path, O_WRONLY);
    assert_int_equal(pwrite(fd, "\1", 1, offsetof(struct wr_usage_header, name)), 1);
    assert_int_equal(close(fd), 0);
    assert_null(open_as("weekly", ROOM, 1, WEIR_EFORMAT));
    assert_non_null(strstr(text, "has a damaged name in its header; stop weir and move it"));
}

static void files_that_do_not_fit_are_refused(void **state)
{
    struct wr_usage *none = open_with(ROOM, 2, WEIR_EFORMAT);

    (void)state;
    assert_null(none);
    assert_non_null(strstr(text, "give the quota another name"));
    none = open_as("weekly", ROOM, 1, WEIR_EFORMAT); /* a file that was given another's name */
    assert_non_null(strstr(text, "of the quota \"daily\", and the name of the file of \"weekly\""));
    assert_non_null(strstr(text, "its own name again (daily.usage)"));
    assert_int_equal(wr_usage_room_at(path), ROOM);
    wr_usage_close(open_with(2 * ROOM, 1, 0));
    assert_non_null(strstr(text, "warning: has cells for 100 customers, 200 are wanted"));
    assert_int_equal(truncate(path, 8192), 0);
    none = open_with(ROOM, 1, WEIR_ECORRUPT);
    assert_non_null(strstr(text, "it was truncated; stop weir, remove it, start weir"));
    assert_int_equal(truncate(path, 100), 0);
    none = open_with(ROOM, 1, WEIR_EFORMAT);
    assert_non_null(strstr(text, "only 100 bytes long"));
    assert_int_equal(unlink(path), 0);
    none = open_with(0, 1, WEIR_ENOENT);
    none = open_with(WR_USAGE_ROOM_LIMIT + 1, 1, WEIR_EINVAL);
    assert_null(none);
}

/* ---- threads ------------------------------------------------------------------------------- */

#define THREADS 4
#define TURNS 20000

struct worker {
    struct wr_usage *usage;
    pthread_t thread;
    unsigned index;
};

/* Windows begin while others count: worker by worker they are up to two apart. */
static void *count_along(void *argument)
{
    struct worker *worker = argument;

    for (int32_t i = 0; i < TURNS; i++)
        add(worker->usage, 9, DAY + (i >= TURNS / 2) + (int32_t)(worker->index % 2), 1,
            (uint64_t)i & 1);
    return NULL;
}

static void no_unit_is_lost_among_threads(void **state)
{
    struct worker workers[THREADS];

    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.usage = *state, .index = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, count_along, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    assert_window(*state, 9, 0, DAY, TURNS, TURNS / 2);
    assert_window(*state, 9, 1, DAY + 1, 2 * TURNS, TURNS);
    assert_window(*state, 9, 2, DAY + 2, TURNS, TURNS / 2);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(a_new_file_is_empty),
        T(counts_are_kept_by_window),
        T(the_farthest_window_gives_way),
        T(a_window_that_changed_is_not_put),
        T(the_ledger_is_told_of_changes),
        T(raising_never_lowers),
        T(what_the_ledger_missed_is_said),
        T(what_cannot_be_gives_way),
        T(a_name_that_is_not_the_files),
        T(files_that_do_not_fit_are_refused),
        T(no_unit_is_lost_among_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
