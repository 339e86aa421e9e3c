/* stopped.c - a process that holds a list's lock is stopped: others wait for a bounded time and say
 * busy; they do not take the lock of a living process. Killed, it is taken over at once. */
#include "process.h"

#include "store/log.h"

static const struct wr_worth much = {UINT64_C(1) << 32, WR_NS_PER_S};
static uint16_t list_class;

static int hold_and_stop(struct wr_arena *arena, unsigned unused)
{
    struct wr_log log;

    (void)unused;
    if (wr_arena_after_fork(arena) != 0 ||
        wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW) != 0)
        return 1;
    (void)raise(SIGSTOP);
    wr_log_close(&log);
    return 0;
}

static void a_stopped_owner_makes_others_say_busy(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 30);
    struct wr_log log;
    int64_t start, stamp, oldest, newest;
    int status;
    pid_t pid;

    (void)unused;
    list_class = test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS);
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW), 0);
    assert_int_equal(wr_log_append(&log, 4, &stamp), 0);
    wr_log_close(&log);
    pid = spawn(hold_and_stop, arena, 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_true(WIFSTOPPED(status));

    start = wr_clock_mono().ns;
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW), WEIR_EBUSY);
    assert_in_range(wr_clock_mono().ns - start, 10 * WR_NS_PER_MS, 2 * WR_NS_PER_S);
    assert_int_equal(wr_arena_count(arena, WR_BUSY_LISTS), 1);
    assert_int_equal(wr_slot_drop(arena, test_hash(1)), WEIR_EBUSY);
    /* looking needs no lock, other keys are not held up */
    assert_int_equal(wr_log_peek(arena, test_hash(1), list_class, NOW, &oldest, &newest), 4);
    assert_int_equal(wr_log_open(&log, arena, test_hash(2), list_class, &much, NOW), 0);
    wr_log_close(&log);
    assert_int_equal(wr_arena_count(arena, WR_STOLEN_LOCKS), 0);

    kill_and_wait(pid);
    start = wr_clock_mono().ns;
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW), 0);
    assert_true(wr_clock_mono().ns - start < WR_NS_PER_S);
    assert_int_equal(log.live, 4);
    wr_log_close(&log);
    assert_int_equal(wr_arena_count(arena, WR_STOLEN_LOCKS), 1);
    wr_arena_close(arena);
}

static void a_stopped_owner_that_goes_on_finds_its_list(void **unused)
{
    struct wr_arena *arena = test_arena("", WR_ARENA_BYTES_MIN, 30);
    struct wr_log log;
    int status;
    pid_t pid;

    (void)unused;
    list_class = test_class_make(arena, 10, WR_NS_PER_S, WR_NS_PER_MS);
    pid = spawn(hold_and_stop, arena, 0);
    assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW), WEIR_EBUSY);
    assert_int_equal(kill(pid, SIGCONT), 0);
    assert_int_equal(wait_for(pid, 20), 0);
    assert_int_equal(wr_log_open(&log, arena, test_hash(1), list_class, &much, NOW), 0);
    wr_log_close(&log);
    wr_arena_close(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stopped_owner_makes_others_say_busy),
        cmocka_unit_test(a_stopped_owner_that_goes_on_finds_its_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
