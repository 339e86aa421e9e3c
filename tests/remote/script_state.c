/* script_state.c - what the script writes and what it leaves alone: all or none, TTLs, keys that
 * are not what they should be. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "store.h"

#define NOW (INT64_C(1700006400) * WR_NS_PER_S)
#define HOUR WR_NS_PER_HOUR

static struct store store;
static uint64_t callers;

static struct wr_limit limit_of(enum wr_algo algo, int64_t units, int64_t window_ns,
                                bool count_denied)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, algo, units, window_ns, -1, count_denied));
    return limit;
}

static void key_of(char key[WR_SCRIPT_KEY_MAX], const struct wr_remote_charge *charge)
{
    key[wr_script_key(key, WR_SCRIPT_KEY_MAX, "weir", charge)] = '\0';
}

static long long number(const char *command, const char *key)
{
    redisReply *reply = store_run(&store, "%s %s", command, key);
    long long value = reply->integer;

    assert_int_equal(reply->type, REDIS_REPLY_INTEGER);
    freeReplyObject(reply);
    return value;
}

static void run(const char *format, const char *key)
{
    redisReply *reply = store_run(&store, format, key);

    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
}

/* One charge of each algorithm, of the same caller, that holds 3. */
static unsigned one_of_each(struct wr_limit limits[WR_ALGO_MAX],
                            struct wr_remote_charge charges[WR_ALGO_MAX], bool count_denied)
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f"};

    callers++;
    for (unsigned i = 0; i < WR_ALGO_MAX; i++) {
        enum wr_algo algo = (enum wr_algo)(i + 1);
        limits[i] = limit_of(algo, 3, HOUR, count_denied);
        if (algo == WR_LEAKY_BUCKET)
            assert_null(wr_limit_make(&limits[i], algo, 3, HOUR, 2, count_denied));
        charges[i] = store_charge(&limits[i], names[i], callers, 1);
        charges[i].place = i + 1;
    }
    return WR_ALGO_MAX;
}

struct dump {
    size_t len;
    char bytes[2000];
};

static void dump(struct dump *out, const struct wr_remote_charge *charge)
{
    char key[WR_SCRIPT_KEY_MAX];
    redisReply *reply;

    key_of(key, charge);
    reply = store_run(&store, "DUMP %s", key);
    out->len = reply->type == REDIS_REPLY_NIL ? 0 : reply->len;
    assert_true(out->len <= sizeof out->bytes);
    if (out->len > 0)
        memcpy(out->bytes, reply->str, out->len);
    freeReplyObject(reply);
}

static void dump_all(struct dump *out, const struct wr_remote_charge *charges, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        dump(&out[i], &charges[i]);
}

static bool same(const struct dump *a, const struct dump *b)
{
    return a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0;
}

/* Six limits of 3, and one of them, in turn, that has none left. */
static void a_refused_request_changes_nothing(void **state)
{
    static struct dump before[WR_ALGO_MAX], after[WR_ALGO_MAX];
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];

    (void)state;
    for (unsigned full = 0; full < WR_ALGO_MAX; full++) {
        unsigned count = one_of_each(limits, charges, false);

        assert_true(store_take(&store, charges, count, 0, NOW));
        for (unsigned i = 0; i < 2; i++) {
            charges[full].place = 100 + i;
            assert_true(store_take(&store, &charges[full], 1, 0, NOW + WR_NS_PER_US));
        }
        charges[full].place = 200;
        dump_all(before, charges, count);
        assert_false(store_take(&store, charges, count, 0, NOW + WR_NS_PER_MS));
        dump_all(after, charges, count);
        for (unsigned i = 0; i < count; i++) {
            assert_true(before[i].len > 0 && same(&before[i], &after[i]));
            assert_int_equal(charges[i].allowed, i != full);
            assert_int_equal(charges[i].remaining, i == full ? 0 : 1); /* as if it had passed */
            assert_int_equal(charges[i].retry_after_ns > 0, i == full);
        }
    }
}

static void a_look_writes_nothing(void **state)
{
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];
    unsigned count = one_of_each(limits, charges, false);

    (void)state;
    for (unsigned i = 0; i < count; i++)
        charges[i].cost = 0;
    assert_true(store_take(&store, charges, count, 0, NOW));
    for (unsigned i = 0; i < count; i++) {
        char key[WR_SCRIPT_KEY_MAX];
        key_of(key, &charges[i]);
        assert_int_equal(number("EXISTS", key), 0);
        assert_int_equal(charges[i].remaining, 3);
        assert_true(charges[i].next_ns == 0 && charges[i].reset_ns == 0);
    }
}

/* Judged, because another slot refused: as a take would say, and nothing is taken. */
static void what_is_judged_is_not_taken(void **state)
{
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];
    unsigned count = one_of_each(limits, charges, false);

    (void)state;
    store_do(&store, WR_SCRIPT_JUDGE, charges, count, NOW);
    for (unsigned i = 0; i < count; i++) {
        assert_true(charges[i].allowed && charges[i].remaining == 2);
        charges[i].cost = 0;
    }
    assert_true(store_take(&store, charges, count, 0, NOW));
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(charges[i].remaining, 3);
}

/* Of a refused request, those that count refusals are charged, also where they had room. */
static void refusals_are_counted_where_wanted(void **state)
{
    struct wr_limit counts = limit_of(WR_TOKEN_BUCKET, 10, HOUR, true);
    struct wr_limit refuses = limit_of(WR_FIXED_WINDOW, 0, HOUR, false);
    struct wr_remote_charge charges[2];

    (void)state;
    callers++;
    charges[0] = store_charge(&counts, "counts", callers, 4);
    charges[1] = store_charge(&refuses, "refuses", callers, 4);
    assert_false(store_take(&store, charges, 2, 0, NOW));
    assert_true(charges[0].allowed && charges[1].never);
    charges[0].cost = 0;
    assert_true(store_take(&store, charges, 1, 0, NOW));
    assert_int_equal(charges[0].remaining, 6);
}

/* A shadow that refuses decides nothing, and is not charged; one that allows is, if all pass. */
static void shadows_do_not_decide(void **state)
{
    struct wr_limit limits[3];
    struct wr_remote_charge charges[3];

    (void)state;
    callers++;
    for (unsigned i = 0; i < 3; i++) {
        limits[i] = limit_of(WR_SLIDING_WINDOW, i == 1 ? 1 : 5, HOUR, false);
        charges[i] = store_charge(&limits[i], i == 0 ? "x" : i == 1 ? "y" : "z", callers, 2);
    }
    assert_true(store_take(&store, charges, 3, 2 | 4, NOW));
    assert_true(charges[0].allowed && !charges[1].allowed && charges[2].allowed);
    assert_true(charges[0].remaining == 3 && charges[1].remaining == 1);
    charges[0].cost = 9; /* refused: nor is the shadow that would allow charged */
    assert_false(store_take(&store, charges, 3, 2 | 4, NOW));
    charges[0].cost = charges[1].cost = charges[2].cost = 0;
    assert_true(store_take(&store, charges, 3, 2 | 4, NOW));
    assert_true(charges[0].remaining == 3 && charges[1].remaining == 1 &&
                charges[2].remaining == 3);
}

static void the_clock_is_the_stores(void **state)
{
    struct wr_limit limit = limit_of(WR_TOKEN_BUCKET, 10, HOUR, false);
    struct wr_remote_charge charge = store_charge(&limit, "time", ++callers, 1);
    struct wr_script_answer answer;
    struct timespec now;

    (void)state;
    store.ask.moment_us = 0;
    assert_int_equal(store_call(&store, WR_SCRIPT_TAKE, &charge, 1, 0, &answer), WR_SCRIPT_DONE);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    assert_true(answer.passed);
    assert_true(answer.now_ns > (now.tv_sec - 600) * WR_NS_PER_S);
    assert_true(answer.now_ns < (now.tv_sec + 60) * WR_NS_PER_S);
}

/* Every key ends by itself, soon after its state means nothing; a key that lost its TTL gets one
 * when it is next seen, also by a refusal. */
static void every_key_ends(void **state)
{
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];
    unsigned count = one_of_each(limits, charges, false);
    struct wr_script_answer answer;

    (void)state;
    store.ask.moment_us = 0;
    store.ask.slack_ms = WR_SCRIPT_SLACK_MS;
    assert_int_equal(store_call(&store, WR_SCRIPT_TAKE, charges, count, 0, &answer),
                     WR_SCRIPT_DONE);
    assert_true(answer.passed);
    for (unsigned i = 0; i < count; i++) {
        bool bucket = limits[i].algo <= WR_LEAKY_BUCKET;
        long long most = (bucket ? 20 : limits[i].algo == WR_SLIDING_WINDOW ? 120 : 60) * 60000;
        char key[WR_SCRIPT_KEY_MAX];

        key_of(key, &charges[i]);
        assert_in_range(number("PTTL", key), 1, most + 1001);
        if (limits[i].algo != WR_FIXED_WINDOW)
            assert_true(number("PTTL", key) > most / 2 - 60000);
        run("PERSIST %s", key);
        assert_int_equal(number("PTTL", key), -1);
        charges[i].cost = 3;
        charges[i].place = 77;
        if (limits[i].algo == WR_LEAKY_BUCKET || limits[i].algo == WR_CONCURRENCY)
            charges[i].cost = 0; /* a refusal takes more to come by: a look */
        assert_int_equal(store_call(&store, WR_SCRIPT_TAKE, &charges[i], 1, 0, &answer),
                         WR_SCRIPT_DONE);
        assert_int_equal(charges[i].allowed, charges[i].cost == 0);
        assert_in_range(number("PTTL", key), 1, most + 1001);
    }
    store.ask.slack_ms = STORE_SLACK_MS;
}

/* Whatever lies under the key: three pass, the fourth does not, and the key ends. */
static void holds_three(const char *what, struct wr_remote_charge *charge)
{
    char key[WR_SCRIPT_KEY_MAX];

    key_of(key, charge);
    for (unsigned i = 0; i < 4; i++) {
        bool passed;
        charge->place = i + 1;
        passed = store_take(&store, charge, 1, 0, NOW);
        if (passed != (i < 3))
            fail_msg("%s under %s: take %u", what, wr_algo_name(charge->limit->algo), i);
    }
    assert_true(number("PTTL", key) > 0);
}

static void garbage_is_no_pass(void **state)
{
    static const char *const garbage[] = {
        "SET %s garbage", "SET %s 5",         "SETBIT %s 263 1", /* 33 bytes of no kind */
        "RPUSH %s a b c", "RPUSH %s 9 8 7 6",                    /* long ago */
        "HSET %s a b",    "SADD %s a",        "ZADD %s 5 place", "ZADD %s inf place",
    };
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];

    (void)state;
    for (size_t g = 0; g < sizeof garbage / sizeof garbage[0]; g++) {
        unsigned count = one_of_each(limits, charges, false);
        for (unsigned i = 0; i < count; i++) {
            char key[WR_SCRIPT_KEY_MAX];
            if (strstr(garbage[g], "inf") != NULL && limits[i].algo == WR_CONCURRENCY)
                continue; /* a place, taken by somebody's clock: of now */
            key_of(key, &charges[i]);
            run(garbage[g], key);
            holds_three(garbage[g], &charges[i]);
        }
    }
}

/* 33 bytes of each kind with numbers that we never write: not numbers, negative, endless. */
static void numbers_that_are_none_are_no_pass(void **state)
{
    static const unsigned char numbers[][8] = {
        {0, 0, 0, 0, 0, 0, 0xf8, 0x7f},                   /* NaN */
        {0, 0, 0, 0, 0, 0, 0xf0, 0x7f},                   /* inf */
        {0, 0, 0, 0, 0, 0, 0xf0, 0xff},                   /* -inf */
        {0, 0, 0, 0, 0, 0, 0xf0, 0xbf},                   /* -1 */
        {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xef, 0x7f}, /* the greatest */
    };
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];

    (void)state;
    for (unsigned n = 0; n < sizeof numbers / sizeof numbers[0]; n++) {
        for (unsigned field = 0; field < 4; field++) {
            (void)one_of_each(limits, charges, false);
            for (unsigned i = 0; i < WR_SLIDING_WINDOW; i++) {
                unsigned char value[33] = {(unsigned char)limits[i].algo};
                char key[WR_SCRIPT_KEY_MAX];

                memcpy(value + 1 + 8 * field, numbers[n], 8);
                key_of(key, &charges[i]);
                freeReplyObject(store_run(&store, "SET %s %b", key, value, sizeof value));
                holds_three("no number", &charges[i]);
            }
        }
    }
}

static void a_flushed_script_is_loaded_again(void **state)
{
    struct wr_limit limit = limit_of(WR_TOKEN_BUCKET, 3, HOUR, false);
    struct wr_remote_charge charge = store_charge(&limit, "flush", ++callers, 1);

    (void)state;
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    run("SCRIPT FLUSH", "");
    assert_true(store_take(&store, &charge, 1, 0, NOW));
    assert_int_equal(charge.remaining, 1);
}

static void a_dropped_key_is_gone(void **state)
{
    struct wr_limit limits[WR_ALGO_MAX];
    struct wr_remote_charge charges[WR_ALGO_MAX];
    unsigned count = one_of_each(limits, charges, false);

    (void)state;
    assert_true(store_take(&store, charges, count, 0, NOW));
    store_do(&store, WR_SCRIPT_DROP, charges, count, NOW);
    for (unsigned i = 0; i < count; i++) {
        char key[WR_SCRIPT_KEY_MAX];
        key_of(key, &charges[i]);
        assert_int_equal(number("EXISTS", key), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_request_changes_nothing),
        cmocka_unit_test(a_look_writes_nothing),
        cmocka_unit_test(what_is_judged_is_not_taken),
        cmocka_unit_test(refusals_are_counted_where_wanted),
        cmocka_unit_test(shadows_do_not_decide),
        cmocka_unit_test(the_clock_is_the_stores),
        cmocka_unit_test(every_key_ends),
        cmocka_unit_test(garbage_is_no_pass),
        cmocka_unit_test(numbers_that_are_none_are_no_pass),
        cmocka_unit_test(a_flushed_script_is_loaded_again),
        cmocka_unit_test(a_dropped_key_is_gone),
    };
    int failed;

    store_open(&store);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_close(&store);
    return failed;
}
