/* reserve.c - estimates corrected afterwards, places freed, the same arena under another policy. */
#include "fixture.h"

#define TOKENS                                                                  \
    "version: 1\n"                                                              \
    "limits:\n"                                                                 \
    "  - {name: tokens, rate: 1000/hour burst 1000, algorithm: token-bucket}\n" \
    "  - {name: day, rate: 5000/day, algorithm: fixed-window}\n"                \
    "  - {name: exact, rate: 2000/hour, algorithm: sliding-log}\n"

static void test_settle_below(void **state)
{
    struct weir *w = open_text(TOKENS, "");
    struct weir_answer a = reserve(w, T0, 60 * S, (struct call){.cost = 400});
    (void)state;

    assert_int_equal(left(w, &a, "tokens"), 600);
    assert_int_equal(weir_settle(w, &a, 150, T0), 0);
    a = decide(w, T0, (struct call){.cost = LOOK});
    assert_int_equal(left(w, &a, "tokens"), 850);
    assert_int_equal(left(w, &a, "day"), 4850);
    assert_int_equal(left(w, &a, "exact"), 1850);
    weir_close(w);
}

static void test_settle_above_and_undo(void **state)
{
    struct weir *w = open_text(TOKENS, "");
    struct weir_answer a = reserve(w, T0, 60 * S, (struct call){.cost = 400}), b;
    (void)state;

    assert_int_equal(weir_settle(w, &a, 700, T0), 0);
    b = decide(w, T0, (struct call){.cost = LOOK});
    assert_int_equal(left(w, &b, "tokens"), 300);
    assert_int_equal(left(w, &b, "day"), 4300);
    assert_int_equal(left(w, &b, "exact"), 1300);
    a = reserve(w, T0, 60 * S, (struct call){.cost = 200});
    assert_int_equal(weir_settle(w, &a, 0, T0), 0); /* never happened */
    b = decide(w, T0, (struct call){.cost = LOOK});
    assert_int_equal(left(w, &b, "tokens"), 300);
    assert_int_equal(left(w, &b, "exact"), 1300);
    weir_close(w);
}

/* traps.md 84: settled once, in time, and only what was reserved and allowed. */
static void test_settle_refused(void **state)
{
    struct weir *w = open_text(TOKENS, "");
    struct weir_answer a = reserve(w, T0, 60 * S, (struct call){.cost = 100});
    (void)state;

    assert_int_equal(weir_settle(w, &a, 50, T0 + 60 * S), WEIR_EEXPIRED);
    a = reserve(w, T0, 60 * S, (struct call){.cost = 100});
    assert_int_equal(weir_settle(w, &a, 50, T0), 0);
    assert_int_equal(weir_settle(w, &a, 50, T0), WEIR_EEXPIRED);
    a = decide(w, T0, (struct call){.cost = 100});
    assert_int_equal(weir_settle(w, &a, 50, T0), WEIR_EEXPIRED);
    a = reserve(w, T0, 60 * S, (struct call){.cost = 900});
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(weir_settle(w, &a, 50, T0), WEIR_EEXPIRED);
    assert_int_equal(weir_settle(w, &a, -1, T0), WEIR_EINVAL);
    weir_close(w);
}

#define PLACES     \
    "version: 1\n" \
    "limits:\n"    \
    "  - {name: places, concurrent: 2, hold: 30s}\n"

/* traps.md 59: a place is freed by its release, or by its deadline when nobody releases it. */
static void test_places(void **state)
{
    struct weir *w = open_text(PLACES, "");
    struct weir_answer a = decide(w, T0, (struct call){0});
    struct weir_answer b = decide(w, T0 + S, (struct call){.cost = 50}),
                       c; /* one place, whatever the cost */
    (void)state;

    assert_true(weir_holds(w, &a));
    assert_int_equal(b.outcome, WEIR_ALLOW);
    c = decide(w, T0 + 2 * S, (struct call){0});
    assert_int_equal(c.outcome, WEIR_DENY);
    assert_false(weir_holds(w, &c));
    assert_int_equal(c.retry_after_ns, 28 * S); /* the first place's deadline */
    weir_release(w, &a, T0 + 3 * S);
    weir_release(w, &a, T0 + 3 * S); /* harmless */
    c = decide(w, T0 + 3 * S, (struct call){0});
    assert_int_equal(c.outcome, WEIR_ALLOW);
    assert_int_equal(decide(w, T0 + 3 * S, (struct call){0}).outcome, WEIR_DENY);
    /* b is never released: its place is free at T0 + 31 s, c's not before T0 + 33 s. */
    assert_int_equal(decide(w, T0 + 31 * S - 1, (struct call){0}).outcome, WEIR_DENY);
    assert_int_equal(decide(w, T0 + 31 * S, (struct call){0}).outcome, WEIR_ALLOW);
    assert_int_equal(decide(w, T0 + 31 * S, (struct call){0}).outcome, WEIR_DENY);
    weir_close(w);
}

/* traps.md 77: a limit that changes keeps what was used. */
static void test_changed_limit_keeps_its_history(void **state)
{
    char arena[] = "/dev/shm/weir-test-arena-XXXXXX";
    struct weir_answer a;
    struct weir *w;
    (void)state;

    assert_true(mkdtemp(arena) != NULL);
    char path[64];
    (void)snprintf(path, sizeof path, "%s/a", arena);
    w = open_text("version: 1\nlimits:\n  - {name: x, rate: 10/hour, algorithm: token-bucket}\n",
                  path);
    a = decide(w, T0, (struct call){.cost = 8});
    assert_int_equal(left(w, &a, "x"), 2);
    weir_close(w);
    w = open_text("version: 1\nlimits:\n  - {name: x, rate: 20/hour, algorithm: token-bucket}\n",
                  path);
    a = decide(w, T0, (struct call){.cost = LOOK});
    assert_int_equal(left(w, &a, "x"), 12); /* 8 used of 20 */
    weir_close(w);
    w = open_text("version: 1\nlimits:\n  - {name: x, rate: 5/hour, algorithm: token-bucket}\n",
                  path);
    a = decide(w, T0, (struct call){.cost = 1});
    assert_int_equal(a.outcome,
                     WEIR_DENY); /* 8 used: none of 5 left; traps.md 66: still a retry time */
    assert_true(a.retry_after_ns > 0);
    assert_true(a.retry_after_ns <= 2 * 3600 * S);
    weir_close(w);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(arena), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settle_below),
        cmocka_unit_test(test_settle_above_and_undo),
        cmocka_unit_test(test_settle_refused),
        cmocka_unit_test(test_places),
        cmocka_unit_test(test_changed_limit_keeps_its_history),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
