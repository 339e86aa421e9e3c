/* attack.c - floods of fresh keys against a table that is too small for them, replayed in virtual
 * time: do the callers who are being limited stay limited?
 *
 * Well-behaved and offending callers share the table with an attack whose keys nobody sees again.
 * Each caller has a bucket of its own beside the arena that forgets nothing; where the arena admits
 * and that refuses, the arena was wrong. Six attacks: keys used once or used up, half as many of
 * them alive as there are slots, or ten times as many, under the callers' limit or under a slow
 * one. LRU and random eviction give the offenders two to three times their limit in four of the
 * six. */
#include "../unit/store/fixture.h"

#include <stdlib.h>

#include "algo/limit.h"

#define STEADY 70   /* callers at 5/s */
#define BRISK 20    /* at 9.5/s */
#define OFFENDER 10 /* at 30/s */
#define CALLERS (STEADY + BRISK + OFFENDER)
#define LIMIT_PER_S 10
#define LIMIT_BURST 20
#define SLOW_PER_HOUR 100
#define WARM_NS (2 * WR_NS_PER_S)
#define COUNTED_NS (3 * WR_NS_PER_S)
#define SHARE 88 /* leaves few slots in the smallest arena: about 6600 */

struct attack {
    const char *name;
    unsigned shots;     /* requests of one key */
    unsigned tenths;    /* live keys in tenths of the slots */
    bool slow;          /* under SLOW_PER_HOUR instead of the callers' limit */
    unsigned wrong_max; /* of the callers' decisions, in hundredths of a percent */
};

/* What the simulations of the rule found, and room for chance: with a tenth of their callers. */
static const struct attack attacks[] = {
    {"once, half the slots", 1, 5, false, 50},  {"once, as many as slots", 1, 10, false, 100},
    {"once, ten times", 1, 100, false, 400},    {"used up, ten times", 20, 100, false, 400},
    {"slow once, ten times", 1, 100, true, 50}, {"slow used up, ten times", 20, 100, true, 50},
};

struct caller {
    uint64_t hash;
    uint64_t truth; /* the state of a bucket that nobody evicts */
    int64_t next_ns;
    int64_t every_ns;
    bool offends;
};

struct tally {
    uint64_t decisions, wrong;
    uint64_t offenders_admitted, offenders_due;
};

static struct wr_arena *arena;
static struct wr_limit callers_limit, slow_limit;
static uint16_t callers_class, slow_class;

static bool judge(const unsigned char params[WR_CLASS_PARAMS], uint64_t value, int64_t now_ns,
                  struct wr_worth *out)
{
    struct wr_limit limit;

    memcpy(&limit, params, sizeof limit);
    *out = (struct wr_worth){0, limit.window_ns};
    if (!wr_limit_valid(&limit))
        return false;
    out->used_q32 = wr_token_bucket.used_q32(&limit, value, now_ns);
    /* What a whole bucket takes to recover, which is what the rule compares. */
    out->window_ns = limit.window_ns / limit.units * limit.burst;
    return true;
}

static uint16_t class_of(const struct wr_limit *limit)
{
    struct wr_class class = {.log_window_ns = 0};
    uint16_t number;

    memcpy(class.params, limit, sizeof *limit);
    assert_int_equal(wr_arena_class(arena, &class, &number), 0);
    return number;
}

/* One request against the arena. */
static bool decide(uint64_t hash, const struct wr_limit *limit, uint16_t class_id, int64_t now_ns)
{
    struct wr_slot_view view;
    struct wr_take take;
    struct wr_worth worth;

    wr_slot_find(arena, hash, &view);
    wr_token_bucket.take(limit, view.state, now_ns, 1, &take);
    if (!take.allowed)
        return false;
    worth.used_q32 = wr_token_bucket.used_q32(limit, take.state, now_ns);
    worth.window_ns = limit->window_ns / limit->units * limit->burst;
    assert_int_not_equal(wr_slot_put(arena, hash, &view, class_id, take.state, &worth, now_ns),
                         WEIR_EAGAIN);
    return true;
}

static void call(struct caller *caller, bool counted, struct tally *tally)
{
    bool admitted = decide(caller->hash, &callers_limit, callers_class, caller->next_ns);
    struct wr_take truth;

    wr_token_bucket.take(&callers_limit, caller->truth, caller->next_ns, 1, &truth);
    caller->truth = truth.state;
    /* Irregular, as callers are: two requests soon after each other give a key some weight. */
    caller->next_ns += (int64_t)(test_hash(caller->hash ^ (uint64_t)caller->next_ns) %
                                 (uint64_t)(2 * caller->every_ns));
    if (!counted)
        return;
    tally->decisions++;
    tally->wrong += admitted && !truth.allowed;
    if (caller->offends) {
        tally->offenders_admitted += admitted;
        tally->offenders_due += truth.allowed;
    }
}

static void set_up_callers(struct caller callers[CALLERS], int64_t start_ns)
{
    for (unsigned i = 0; i < CALLERS; i++) {
        int64_t every = i < STEADY           ? WR_NS_PER_S / 5
                        : i < STEADY + BRISK ? WR_NS_PER_S * 10 / 95
                                             : WR_NS_PER_S / 30;
        callers[i] = (struct caller){
            .hash = test_hash(1000000 + i),
            .every_ns = every,
            .next_ns = start_ns + (int64_t)(test_hash(i) % (uint64_t)every),
            .offends = i >= STEADY + BRISK,
        };
    }
}

/* Run |attack|: fast keys begin to come when the callers have settled (one who begins in a flood of
 * keys that are worth as much as his first has no history to defend); slow ones long before, so
 * that as many as wanted are alive. */
static void run(const struct attack *attack, struct tally *tally)
{
    const struct wr_limit *limit = attack->slow ? &slow_limit : &callers_limit;
    uint16_t class_id = attack->slow ? slow_class : callers_class;
    int64_t recovery_ns = limit->window_ns / limit->units * attack->shots;
    int64_t end_ns = NOW + WARM_NS + COUNTED_NS;
    int64_t start_ns = attack->slow ? NOW - recovery_ns : NOW;
    uint64_t live = wr_arena_slots(arena) * attack->tenths / 10;
    int64_t every_ns = recovery_ns / (int64_t)live; /* a new key */
    struct caller callers[CALLERS];
    uint64_t key = test_hash(live + attack->shots);

    memset(tally, 0, sizeof *tally);
    set_up_callers(callers, NOW);
    for (int64_t now = start_ns; now < end_ns; now += every_ns) {
        uint64_t hash = test_hash(key++);
        for (unsigned i = 0; i < CALLERS; i++)
            while (callers[i].next_ns <= now)
                call(&callers[i], callers[i].next_ns >= NOW + WARM_NS, tally);
        for (unsigned shot = 0; shot < attack->shots; shot++)
            (void)decide(hash, limit, class_id, now);
    }
}

static void offenders_stay_limited(void **unused)
{
    uint64_t evicted = 0, unstored = 0;

    (void)unused;
    assert_null(wr_limit_make(&callers_limit, WR_TOKEN_BUCKET, LIMIT_PER_S, WR_NS_PER_S,
                              LIMIT_BURST, false));
    assert_null(
        wr_limit_make(&slow_limit, WR_TOKEN_BUCKET, SLOW_PER_HOUR, WR_NS_PER_HOUR, -1, false));
    for (size_t i = 0; i < sizeof attacks / sizeof attacks[0]; i++) {
        const struct attack *attack = &attacks[i];
        struct wr_arena_options options = {
            .size_bytes = WR_ARENA_BYTES_MIN, .node_share = SHARE, .judge = judge};
        struct tally t;

        assert_int_equal(wr_arena_open(&arena, &options, NULL), 0);
        callers_class = class_of(&callers_limit);
        slow_class = class_of(&slow_limit);
        run(attack, &t);
        print_message("%s: %llu.%02llu %% wrong, offenders %llu.%02llu times; evicted %llu, "
                      "unstored %llu\n",
                      attack->name, (unsigned long long)(t.wrong * 100 / t.decisions),
                      (unsigned long long)(t.wrong * 10000 / t.decisions % 100),
                      (unsigned long long)(t.offenders_admitted / t.offenders_due),
                      (unsigned long long)(t.offenders_admitted * 100 / t.offenders_due % 100),
                      (unsigned long long)wr_arena_count(arena, WR_EVICTED_LIVE),
                      (unsigned long long)wr_arena_count(arena, WR_UNSTORED));
        assert_true(t.wrong * 10000 <= t.decisions * attack->wrong_max);
        assert_true(t.offenders_admitted * 100 <= t.offenders_due * 112);
        evicted += wr_arena_count(arena, WR_EVICTED_LIVE);
        unstored += wr_arena_count(arena, WR_UNSTORED);
        wr_arena_close(arena);
    }
    assert_true(evicted > 0);
    assert_true(unstored > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(offenders_stay_limited)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
