/* decide.c - all or none, which limit is spoken of, shadow, delays, count_denied, peeking. Values
 * by hand. */
#include "fixture.h"

#define LAYERS                                                                             \
    "version: 1\n"                                                                         \
    "identity: {api_key: {header: X-Api-Key}, user: {header: X-User-Id, trust: anyone}}\n" \
    "limits:\n"

/* traps.md 3, 4, 5: a refusal by one layer leaves every other as it was, the last and the first. */
static void test_all_or_none(void **state)
{
    struct weir *w = open_text(
        LAYERS "  - {name: broad, by: [ip], rate: 10/minute, algorithm: token-bucket}\n"
               "  - {name: narrow, by: [api_key], rate: 2/minute, algorithm: fixed-window}\n"
               "  - {name: last, by: [ip], rate: 5/minute, algorithm: sliding-log}\n",
        "");
    struct weir_answer a;
    (void)state;

    a = decide(w, T0, (struct call){.api_key = "k"});
    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_string_equal(speaks_of(w, &a), "narrow"); /* 1 left, of 9, 1, 4 */
    a = decide(w, T0, (struct call){.api_key = "k"});
    assert_int_equal(left(w, &a, "narrow"), 0);
    for (int i = 0; i < 5; i++) {
        a = decide(w, T0 + S, (struct call){.api_key = "k"});
        assert_int_equal(a.outcome, WEIR_DENY);
        assert_string_equal(speaks_of(w, &a), "narrow");
        assert_int_equal(a.retry_after_ns, 59 * S); /* the window ends at T0 + 60 s */
    }
    /* Another key from the same address: broad has given 2 (and got 1/6 of a token back), last 2.
     */
    a = decide(w, T0 + S, (struct call){.api_key = "other"});
    assert_int_equal(left(w, &a, "broad"), 7); /* floor(8 + 1/6 - 1) */
    assert_int_equal(left(w, &a, "last"), 2);  /* 5 - 2 - 1 */
    assert_int_equal(left(w, &a, "narrow"), 1);
    weir_close(w);
}

/* traps.md 67: denied, the limit that denies longest; never is longest; ties go to the first in the
 * file. */
static void test_longest_refusal(void **state)
{
    struct weir *w = open_text(
        LAYERS "  - {name: second, rate: 1/second, algorithm: fixed-window}\n"
               "  - {name: hour, rate: 1/hour, algorithm: fixed-window}\n"
               "  - {name: hour-too, rate: 1/hour, algorithm: fixed-window}\n"
               "  - {name: small, match: {path: /big}, rate: 3/minute, algorithm: token-bucket}\n",
        "");
    struct weir_answer a = decide(w, T0, (struct call){0});
    (void)state;

    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_string_equal(speaks_of(w, &a), "second"); /* all have 0 left: the first */
    a = decide(w, T0 + S / 2, (struct call){0});
    assert_string_equal(speaks_of(w, &a), "hour");
    assert_int_equal(a.retry_after_ns, 3600 * S - S / 2);
    a = decide(w, T0 + S / 2, (struct call){.path = "/big", .cost = 4}); /* 4 > 3: never */
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.reason, WEIR_REASON_CAPACITY);
    assert_int_equal(a.retry_after_ns, WEIR_NEVER);
    /* All four refuse 4 units for ever: the first in the file is spoken of. */
    assert_string_equal(speaks_of(w, &a), "second");
    weir_close(w);
}

/* traps.md 79: shadow has its own counts, decides nothing, and is not charged by refused requests.
 */
static void test_shadow(void **state)
{
    struct weir *w =
        open_text(LAYERS "  - {name: real, by: [user], rate: 3/hour, algorithm: fixed-window}\n"
                         "  - {name: trial, rate: 2/hour, algorithm: fixed-window, mode: shadow}\n",
                  "");
    struct weir_answer a;
    (void)state;

    for (int i = 0; i < 2; i++) {
        a = decide(w, T0, (struct call){.user = "u"});
        assert_int_equal(a.outcome, WEIR_ALLOW);
        assert_string_equal(speaks_of(w, &a), "real");
    }
    a = decide(w, T0, (struct call){.user = "u"});
    assert_int_equal(a.outcome, WEIR_SHADOW);
    assert_string_equal(speaks_of(w, &a), "trial");
    assert_int_equal(a.retry_after_ns, 3600 * S);
    assert_int_equal(left(w, &a, "real"), 0); /* it passed, so the enforced one was charged */
    a = decide(w, T0, (struct call){.user = "u"});
    assert_int_equal(a.outcome, WEIR_DENY); /* by real; the shadow does not hide that */
    assert_string_equal(speaks_of(w, &a), "real");
    weir_close(w);
}

static void test_delay_is_the_longest(void **state)
{
    struct weir *w =
        open_text(LAYERS "  - {name: fast, rate: 10/second queue 5, algorithm: leaky-bucket}\n"
                         "  - {name: slow, rate: 2/second queue 5, algorithm: leaky-bucket}\n",
                  "");
    struct weir_answer a = decide(w, T0, (struct call){0});
    (void)state;

    assert_int_equal(a.outcome, WEIR_ALLOW);
    a = decide(w, T0, (struct call){0});
    assert_int_equal(a.outcome, WEIR_DELAY);
    assert_int_equal(a.delay_ns, S / 2); /* 500 ms behind the first, not 100 */
    weir_close(w);
}

/* traps.md 14: by default a steady retrier is released; count_denied is the strict choice. */
static void test_count_denied(void **state)
{
    struct weir *w =
        open_text(LAYERS "  - {name: strict, by: [api_key], rate: 2/minute, algorithm: "
                         "sliding-log, count_denied: true}\n"
                         "  - {name: plain, by: [user], rate: 2/minute, algorithm: sliding-log}\n",
                  "");
    struct weir_answer a;
    (void)state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(decide(w, T0, (struct call){.api_key = "k", .user = "u"}).outcome,
                         WEIR_ALLOW);
    a = decide(w, T0 + 30 * S, (struct call){.api_key = "k", .user = "u"});
    assert_int_equal(a.outcome, WEIR_DENY);
    /* At 61 s the two of T0 have aged out; the refused one of 30 s counts in strict alone. */
    a = decide(w, T0 + 61 * S, (struct call){.api_key = "k", .user = "u"});
    assert_int_equal(a.outcome, WEIR_ALLOW);
    assert_int_equal(left(w, &a, "strict"), 0);
    assert_int_equal(left(w, &a, "plain"), 1);
    weir_close(w);
}

/* Whoever waits as told passes, though his refusal was charged: by the algorithm that refuses, and
 * by one beside it that let him pass. */
static void test_count_denied_is_told(void **state)
{
    static const struct {
        const char *limits;
        int64_t wait_ns;
    } cases[] = {
        /* 3 in 10 s: -1 after the fourth, 2 tokens until there is 1. */
        {"{name: a, by: [api_key], rate: 3/10s, algorithm: token-bucket, count_denied: true}",
         20 * S / 3 + 1},
        /* At a full 10 s: 4 (10 - e)/10 <= 2 in the next window, at e = 5. */
        {"{name: a, by: [api_key], rate: 3/10s, algorithm: sliding-window, count_denied: true}",
         15 * S},
        {"{name: a, by: [api_key], rate: 3/10s, algorithm: fixed-window, count_denied: true}",
         10 * S},
        {"{name: a, by: [api_key], rate: 3/10s, algorithm: sliding-log, count_denied: true}",
         10 * S},
        /* A departure a second, one waits; the second is for 1 s, the third is refused. */
        {"{name: a, by: [api_key], rate: 2/2s queue 2, algorithm: leaky-bucket, count_denied: "
         "true}",
         2 * S},
        /* Refused by the first for 1 s; the second has 3 of 10 s, a fourth is charged to it. */
        {"{name: a, by: [user], rate: 3/3s, algorithm: token-bucket}\n  - {name: b, by: "
         "[api_key], rate: 4/40s, algorithm: token-bucket, count_denied: true}",
         10 * S},
        {"{name: a, by: [user], rate: 3/3s, algorithm: token-bucket}\n  - {name: b, by: "
         "[api_key], rate: 4/40s, algorithm: sliding-log, count_denied: true}",
         40 * S},
        {"{name: a, by: [user], rate: 3/3s, algorithm: token-bucket}\n  - {name: b, by: "
         "[api_key], rate: 5/50s, algorithm: token-bucket, count_denied: true}",
         1 * S},
    };
    const int64_t start = T0 - T0 % (10 * S);
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char policy[600];
        struct weir *w;
        struct weir_answer a;

        (void)snprintf(policy, sizeof policy, LAYERS "  - %s\n", cases[i].limits);
        w = open_text(policy, "");
        for (int k = 0; k < 3; k++)
            assert_int_not_equal(
                decide(w, start, (struct call){.api_key = "k", .user = "u"}).outcome, WEIR_DENY);
        a = decide(w, start, (struct call){.api_key = "k", .user = "u", .peek = true});
        assert_int_equal(a.outcome, WEIR_DENY);
        a = decide(w, start, (struct call){.api_key = "k", .user = "u"});
        assert_int_equal(a.outcome, WEIR_DENY);
        assert_int_equal(a.retry_after_ns, cases[i].wait_ns);
        a = decide(w, start + a.retry_after_ns, (struct call){.api_key = "k", .user = "u"});
        assert_int_not_equal(a.outcome, WEIR_DENY);
        weir_close(w);
    }
}

/* traps.md 80: cost 0 and a peek look and take nothing. */
static void test_looking_takes_nothing(void **state)
{
    struct weir *w = open_text(
        LAYERS "  - {name: one, by: [api_key], rate: 3/hour, algorithm: token-bucket}\n", "");
    struct weir_answer a;
    (void)state;

    for (int i = 0; i < 10; i++) {
        a = decide(w, T0, (struct call){.api_key = "k", .cost = LOOK});
        assert_int_equal(a.outcome, WEIR_ALLOW);
        assert_int_equal(left(w, &a, "one"), 3);
        a = decide(w, T0, (struct call){.api_key = "k", .cost = 4, .peek = true});
        assert_int_equal(a.outcome, WEIR_DENY);
    }
    a = decide(w, T0, (struct call){.api_key = "k", .cost = 3});
    assert_int_equal(a.outcome, WEIR_ALLOW);
    weir_close(w);
}

static void test_when_missing(void **state)
{
    struct weir *w = open_text(LAYERS "  - {name: address, by: [api_key], when_missing: ip, rate: "
                                      "1/hour, algorithm: fixed-window}\n"
                                      "  - {name: skipped, by: [user], when_missing: skip, rate: "
                                      "1/hour, algorithm: fixed-window}\n"
                                      "  - {name: needed, match: {path: /private}, by: [user], "
                                      "when_missing: deny, rate: 9/hour}\n",
                               "");
    struct weir_answer a = decide(w, T0, (struct call){.peer = "192.0.2.1"});
    (void)state;

    assert_int_equal(a.count, 1);
    assert_string_equal(speaks_of(w, &a), "address");
    assert_int_equal(decide(w, T0, (struct call){.peer = "192.0.2.1"}).outcome, WEIR_DENY);
    assert_int_equal(decide(w, T0, (struct call){.peer = "192.0.2.2"}).outcome, WEIR_ALLOW);
    a = decide(w, T0, (struct call){.peer = "192.0.2.9", .path = "/private"});
    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.reason, WEIR_REASON_MISSING);
    assert_int_equal(a.retry_after_ns, WEIR_NEVER);
    assert_string_equal(speaks_of(w, &a), "needed");
    /* Refused: the address limit was not charged by it. */
    assert_int_equal(decide(w, T0, (struct call){.peer = "192.0.2.9"}).outcome, WEIR_ALLOW);
    weir_close(w);
}

static void test_ban(void **state)
{
    struct weir *w = open_text(LAYERS "  - {name: one, rate: 1/hour, algorithm: fixed-window}\n"
                                      "bans:\n  - {ip: 203.0.113.0/24}\n  - {api_key: stolen}\n",
                               "");
    struct weir_answer a = decide(w, T0, (struct call){.peer = "203.0.113.77"});
    (void)state;

    assert_int_equal(a.outcome, WEIR_DENY);
    assert_int_equal(a.reason, WEIR_REASON_BANNED);
    assert_int_equal(a.decisive, -1);
    assert_int_equal(decide(w, T0, (struct call){.api_key = "stolen"}).reason, WEIR_REASON_BANNED);
    assert_int_equal(decide(w, T0, (struct call){.api_key = "fine"}).outcome, WEIR_ALLOW);
    weir_close(w);
}

/* A clock set back by a day: nobody waits longer than two windows, even while retrying all along.
 */
static void test_clock_set_back(void **state)
{
    struct weir *w = open_text(
        LAYERS "  - {name: bucket, rate: 1/second burst 1, algorithm: token-bucket}\n", "");
    int64_t back = T0 - 86400 * S;
    int admitted = 0;
    (void)state;

    assert_int_equal(decide(w, T0, (struct call){0}).outcome, WEIR_ALLOW);
    for (int i = 0; i < 25; i++) /* every 100 ms for 2.5 s */
        admitted += decide(w, back + i * 100 * MS, (struct call){0}).outcome == WEIR_ALLOW;
    assert_true(admitted >= 1); /* at the latest 2 s after the step */
    assert_true(admitted <= 3);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_or_none),
        cmocka_unit_test(test_longest_refusal),
        cmocka_unit_test(test_shadow),
        cmocka_unit_test(test_delay_is_the_longest),
        cmocka_unit_test(test_count_denied),
        cmocka_unit_test(test_count_denied_is_told),
        cmocka_unit_test(test_looking_takes_nothing),
        cmocka_unit_test(test_when_missing),
        cmocka_unit_test(test_ban),
        cmocka_unit_test(test_clock_set_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
