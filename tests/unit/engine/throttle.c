/* CL.THROTTLE's arithmetic: redis-cell's worked examples, and a slow model of its source over
 * random calls whose parameters change from call to call. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/engine.h"
#include "engine/throttle.h"

#define S INT64_C(1000000000)
#define MS INT64_C(1000000)
#define T0 (INT64_C(1767225600) * S)

static struct wr_throttle throttle;

static int open_arena(void **state)
{
    struct wr_arena_options options = {.size_bytes = UINT64_C(2) << 20, .judge = wr_engine_judge};
    static struct wr_diag diag;
    struct wr_arena *arena;

    wr_diag_init(&diag, "arena");
    assert_int_equal(wr_arena_open(&arena, &options, &diag), 0);
    wr_throttle_init(&throttle, arena);
    *state = arena;
    return 0;
}

static int close_arena(void **state)
{
    wr_arena_close(*state);
    return 0;
}

static uint64_t hash_of(const char *key)
{
    return wr_throttle_hash(&throttle, (struct weir_slice){key, strlen(key)});
}

static struct wr_throttle_rate rate_of(int64_t burst, int64_t count, int64_t period,
                                       int64_t quantity)
{
    struct wr_throttle_rate rate;

    assert_null(wr_throttle_rate_make(&rate, burst, count, period, quantity));
    return rate;
}

static int64_t seconds_up(int64_t ns)
{
    return ns < 0 ? -1 : (ns + S - 1) / S;
}

/* CL.THROTTLE key burst count period quantity at T0 + ms, and its five integers. */
static void call(const char *key, int64_t at_ms, const int64_t parameters[4], const int64_t want[5])
{
    struct wr_throttle_rate rate =
        rate_of(parameters[0], parameters[1], parameters[2], parameters[3]);
    struct wr_throttle_reply reply;

    assert_int_equal(wr_throttle_take(&throttle, hash_of(key), &rate, T0 + at_ms * MS, &reply), 0);
    assert_int_equal(reply.limited, want[0]);
    assert_int_equal(reply.limit, want[1]);
    assert_int_equal(reply.remaining, want[2]);
    assert_int_equal(seconds_up(reply.retry_after_ns), want[3]);
    assert_int_equal(seconds_up(reply.reset_after_ns), want[4]);
}
#define CALL(key, at_ms, b, c, p, q, ...) \
    call(key, at_ms, (const int64_t[]){b, c, p, q}, (const int64_t[]){__VA_ARGS__})

/* 2 60 60: a unit takes 1 s, three fit. */
static void worked_examples(void **state)
{
    (void)state;
    CALL("a", 0, 2, 60, 60, 1, 0, 3, 2, -1, 1);
    CALL("a", 0, 2, 60, 60, 1, 0, 3, 1, -1, 2);
    CALL("a", 0, 2, 60, 60, 1, 0, 3, 0, -1, 3);
    CALL("a", 400, 2, 60, 60, 1, 1, 3, 0, 1, 3);  /* 0.6 s to go, all in 2.6 s */
    CALL("a", 400, 2, 60, 60, 0, 0, 3, 0, -1, 3); /* a look */
    CALL("a", 1000, 2, 60, 60, 3, 1, 3, 1, 2, 2); /* two short */
    CALL("a", 2000, 2, 60, 60, 1, 0, 3, 1, -1, 2);
    CALL("a", 2000, 2, 60, 60, 4, 1, 3, 1, -1, 2); /* never */
    CALL("a", 60000, 2, 60, 60, 1, 0, 3, 2, -1, 1);
    CALL("b", 0, 15, 30, 60, 1, 0, 16, 15, -1, 2);
}

static void other_cases(void **state)
{
    (void)state;
    CALL("c", 0, 0, 1, 1, 1, 0, 1, 0, -1, 1);    /* burst 0: one at a time */
    CALL("c", 999, 0, 1, 1, 1, 1, 1, 0, 1, 1);   /* 1 ms early */
    CALL("c", 1000, 0, 1, 1, 1, 0, 1, 0, -1, 1); /* in time */
    CALL("d", 0, 4, 1, 1, 0, 0, 5, 5, -1, 0);    /* a look at a fresh key */
    CALL("d", 0, 4, 1, 1, 6, 1, 5, 5, -1, 0);    /* never, and nothing is used */
    CALL("d", 0, 4, 1, 1, 5, 0, 5, 0, -1, 5);
    CALL("d", 0, 9, 1, 1, 1, 0, 10, 4, -1, 6); /* a larger burst sees the same moment */
    CALL("d", 0, 1, 1, 1, 0, 1, 2, 0, 4, 6);   /* a smaller one: 6 - 2 s until even a look passes */
    CALL("d", 0, 99, 100, 1, 1, 1, 100, 0, 6, 6); /* 100/s: 1 s holds all; 6.01 - 1 s to go */
    CALL("d", 6000, 0, 1, 1, 1, 0, 1, 0, -1, 1);
    /* 1000 millionths of a second apiece. */
    CALL("e", 0, 999999, 1000000, 1, 1000000, 0, 1000000, 0, -1, 1);
    CALL("e", 0, 999999, 1000000, 1, 1, 1, 1000000, 0, 1, 1);
    CALL("e", 500, 999999, 1000000, 1, 500000, 0, 1000000, 0, -1, 1);
}

static void keys_are_bytes(void **state)
{
    uint64_t a = wr_throttle_hash(&throttle, (struct weir_slice){"a\0b", 3});
    uint64_t b = wr_throttle_hash(&throttle, (struct weir_slice){"a\0c", 3});

    (void)state;
    assert_true(a != b);
    assert_true(a != hash_of("a"));
    assert_true(hash_of("") != hash_of("a"));
}

static void refused_numbers(void **state)
{
    static const int64_t bad[][4] = {
        {-1, 1, 1, 1},         {INT64_MAX, 1, 1, 1}, {1, -1, 1, 1},
        {1, 1, -1, 1},         {1, 1, 1, -1},        {INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN},
        {1, INT64_MAX, 1, 1},  {1, 1, INT64_MAX, 1}, {999999999999, 1, 60, 1},
        {0, 1000000001, 1, 1},
    };
    struct wr_throttle_rate rate;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_non_null(wr_throttle_rate_make(&rate, bad[i][0], bad[i][1], bad[i][2], bad[i][3]));
    assert_null(wr_throttle_rate_make(&rate, 999999999999, 1000000, 1, INT64_MAX));
    assert_null(wr_throttle_rate_make(&rate, 0, 1, 50 * 366 * INT64_C(86400), 1));
    assert_non_null(wr_throttle_rate_make(&rate, 0, 1, 50 * 366 * INT64_C(86400) + 1, 1));
}

/* ---- the model --------------------------------------------------------------------------- */

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* What redis-cell keeps of a key, and what its source makes of a call. */
static int64_t model_tat[8];

static void model(unsigned key, int64_t now, const int64_t p[4], struct wr_throttle_reply *out)
{
    int64_t interval = (int64_t)((double)p[2] * 1e9 / (double)p[1]); /* its own floating point */
    int64_t limit = p[0] + 1, tolerance = interval * limit, increment = interval * p[3];
    int64_t tat = model_tat[key] > now ? model_tat[key] : now;
    int64_t wanted = tat + increment;

    out->limited = now < wanted - tolerance;
    out->retry_after_ns = -1;
    if (out->limited && increment <= tolerance)
        out->retry_after_ns = wanted - tolerance - now;
    if (!out->limited && p[3] > 0)
        model_tat[key] = tat = wanted;
    out->limit = limit;
    out->reset_after_ns = tat - now;
    out->remaining = 0; /* the most that would pass now */
    while (out->remaining < limit && tat + interval * (out->remaining + 1) - tolerance <= now)
        out->remaining++;
}

static void random_call(int64_t now)
{
    static const int64_t bursts[] = {0, 1, 2, 4, 15, 29, 99}, counts[] = {1, 3, 7, 10, 30, 60, 999},
                         periods[] = {1, 2, 10, 60, 3600, 86400};
    unsigned key = (unsigned)draw(8);
    int64_t p[4] = {bursts[draw(7)], counts[draw(7)], periods[draw(6)], (int64_t)draw(6)};
    struct wr_throttle_rate rate = rate_of(p[0], p[1], p[2], p[3]);
    struct wr_throttle_reply want, got;
    char name[] = "key 0";

    name[4] = (char)('0' + key);
    model(key, now, p, &want);
    assert_int_equal(wr_throttle_take(&throttle, hash_of(name), &rate, now, &got), 0);
    assert_int_equal(got.limited, want.limited);
    assert_int_equal(got.limit, want.limit);
    assert_int_equal(got.remaining, want.remaining);
    assert_int_equal(got.retry_after_ns, want.retry_after_ns);
    assert_int_equal(got.reset_after_ns, want.reset_after_ns);
}

static void agrees_with_the_model(void **state)
{
    const char *seed = getenv("WEIR_SEED");
    int64_t now = T0;

    (void)state;
    random_state = seed != NULL ? strtoull(seed, NULL, 10) | 1 : 20261130;
    print_message("seed %" PRIu64 "\n", random_state);
    memset(model_tat, 0, sizeof model_tat);
    for (int i = 0; i < 40000; i++) {
        random_call(now);
        now +=
            (int64_t)draw(4) == 0 ? (int64_t)draw(20 * (uint64_t)S) : (int64_t)draw((uint64_t)MS);
    }
}

/* ---- the arena --------------------------------------------------------------------------- */

static void any_number_of_parameters(void **state)
{
    struct wr_class spec = {.log_window_ns = 1000 * MS, .log_tick_ns = MS};
    struct wr_throttle_reply reply;
    uint16_t number, most = 0;

    random_state = 7;
    for (int i = 0; i < 20000; i++) {
        int64_t count = 1 + (int64_t)draw(1000), period = 1 + (int64_t)draw(100000000);
        struct wr_throttle_rate rate;
        char key[32];
        if (wr_throttle_rate_make(&rate, (int64_t)draw(1000), count, period, 1) != NULL)
            continue;
        (void)snprintf(key, sizeof key, "p%d", i);
        assert_int_equal(wr_throttle_take(&throttle, hash_of(key), &rate, T0, &reply), 0);
        assert_false(reply.limited);
    }
    for (unsigned i = 0; i < WR_THROTTLE_CLASSES; i++)
        most = throttle.class_id[i] > most ? throttle.class_id[i] : most;
    assert_true(most > 50 && most <= WR_THROTTLE_CLASSES);
    assert_int_equal(wr_arena_class(*state, &spec, &number), 0);
}

/* Each class is at least as long as what it stands for, and at most an eighth longer: the judge
 * then says how much is used. */
static void judged_by_what_is_used(void **state)
{
    static const int64_t intervals_s[] = {1, 7, 60, 3601, 86400, 8640000, 900000000, 1580000000};

    for (size_t i = 0; i < sizeof intervals_s / sizeof intervals_s[0]; i++) {
        struct wr_throttle_rate rate = rate_of(0, 1, intervals_s[i], 1);
        struct wr_throttle_reply reply;
        struct wr_slot_view view;
        struct wr_class spec;
        struct wr_worth worth;
        char key[32];

        (void)snprintf(key, sizeof key, "j%zu", i);
        assert_int_equal(wr_throttle_take(&throttle, hash_of(key), &rate, T0, &reply), 0);
        wr_slot_find(*state, hash_of(key), &view);
        assert_non_null(view.slot);
        assert_true(wr_arena_class_get(*state, view.class_id, &spec));
        assert_true(wr_engine_judge(spec.params, view.state, T0, &worth));
        assert_true(worth.used_q32 <= UINT64_C(1) << 32);
        assert_true(worth.used_q32 >= (UINT64_C(1) << 32) / 9 * 8);
        assert_true(wr_engine_judge(spec.params, view.state, T0 + intervals_s[i] * S, &worth));
        assert_int_equal(worth.used_q32, 0);
    }
}

/* A moment further ahead than its class can leave it: nobody waits for longer than that class. */
static void damage_is_bounded(void **state)
{
    struct wr_throttle_rate rate = rate_of(0, 1, 60, 1);
    struct wr_throttle_reply reply;
    struct wr_slot_view view;

    assert_int_equal(wr_throttle_take(&throttle, hash_of("x"), &rate, T0, &reply), 0);
    wr_slot_find(*state, hash_of("x"), &view);
    view.slot->state = UINT64_MAX;
    assert_int_equal(wr_throttle_take(&throttle, hash_of("x"), &rate, T0, &reply), 0);
    assert_true(reply.limited);
    assert_true(reply.retry_after_ns >= 60 * S && reply.retry_after_ns <= 68 * S);
    assert_int_equal(reply.remaining, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(worked_examples, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(other_cases, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(keys_are_bytes, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(refused_numbers, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(agrees_with_the_model, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(any_number_of_parameters, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(judged_by_what_is_used, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(damage_is_bounded, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
