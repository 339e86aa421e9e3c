/* ring_model.c - random schedules through a ring of three nodes, beside the C core on one arena
 * that nobody shares: the same verdicts, units and times, to the nanosecond, whichever node is
 * asked and whoever owns the keys. */
#include "../model/schedule.h"
#include "engine/bound.h"
#include "nodes.h"

#include <string.h>

#define ROUNDS 60
#define STEPS 60
#define KEYS 6

static struct nodes nodes;
static struct wr_arena *arena; /* the core's */

struct key {
    struct wr_limit limit;
    struct wr_remote_charge last; /* what the ring said, */
    struct weir_receipt receipt;  /* and the core */
    char name[16];
    uint64_t who;
};

static struct key new_key(struct schedule *s, bool exotic)
{
    static uint64_t callers;
    enum wr_algo algo = (enum wr_algo)(1 + schedule_below(s, exotic ? 6 : 4));
    struct key key = {.who = ++callers};

    (void)snprintf(key.name, sizeof key.name, "limit%d", (int)schedule_below(s, 3));
    for (;;) {
        int64_t units, window_ns, burst = -1;
        int64_t most = algo == WR_SLIDING_WINDOW ? WR_SLIDING_WINDOW_UNITS_MAX
                       : algo >= WR_SLIDING_LOG  ? 30
                                                 : 999999937;
        schedule_rate(s, most, &units, &window_ns);
        if (algo == WR_LEAKY_BUCKET)
            burst = schedule_below(s, 8);
        else if (algo == WR_TOKEN_BUCKET && schedule_one_in(s, 2))
            burst = 1 + schedule_below(s, 20);
        /* An index of few bits may mean another window by the time it is looked at again: not so
         * where taking and giving back has made the word 0 meanwhile. */
        if (!exotic && algo == WR_SLIDING_WINDOW && (units > 1000 || window_ns < WR_NS_PER_MINUTE))
            continue;
        if (wr_limit_make(&key.limit, algo, units, window_ns, burst, schedule_one_in(s, 4)) == NULL)
            return key;
    }
}

static struct wr_charge core_charge(const struct key *key, int64_t cost)
{
    struct wr_class spec;
    struct wr_charge charge = {
        .limit = &key->limit, .hash = key->who << 40 | key->who << 4 | 1, .cost = cost};

    charge.hash *= UINT64_C(0x9e3779b97f4a7c15);
    wr_bound_class(&key->limit, &spec);
    assert_int_equal(wr_arena_class(arena, &spec, &charge.class_id), 0);
    return charge;
}

static struct wr_remote_charge ring_charge(const struct key *key, int64_t cost)
{
    struct wr_remote_charge charge = {.limit = &key->limit, .name = key->name, .cost = cost};

    memcpy(charge.tag, &key->who, sizeof key->who);
    return charge;
}

/* What the core says of |cost| for each of keys[0..count), all or none. */
static bool core_decide(struct key *keys, const int64_t *cost, unsigned count, uint32_t shadow,
                        struct wr_charge *charge)
{
    bool pass = true;

    for (unsigned i = 0; i < count; i++) {
        charge[i] = core_charge(&keys[i], cost[i]);
        wr_charge_evaluate(arena, &charge[i], nodes.now_ns);
        pass = pass && (charge[i].take.allowed || (shadow >> i & 1) != 0);
        wr_receipt_clear(&keys[i].receipt);
    }
    for (unsigned i = 0; i < count; i++) {
        if (pass || !charge[i].take.allowed)
            wr_charge_commit(arena, &charge[i], nodes.now_ns, pass ? &keys[i].receipt : NULL);
        if (!pass && keys[i].limit.count_denied)
            wr_charge_force(arena, &charge[i], nodes.now_ns);
    }
    return pass;
}

static void check_one(struct schedule *s, const struct wr_remote_charge *said,
                      const struct wr_charge *core, bool pass, unsigned count)
{
    CHECK(s, said->allowed == core->take.allowed);
    CHECK(s, said->never == core->take.never);
    CHECK(s, said->retry_after_ns == core->take.retry_after_ns);
    if (!pass && count > 1)
        return; /* what of a group was given back is told as not taken */
    CHECK(s, said->remaining == core->take.remaining);
    CHECK(s, said->delay_ns == core->take.delay_ns);
    if (wr_limit_is_word(core->limit)) {
        int64_t next_ns, reset_ns;
        wr_word_algo((enum wr_algo)core->limit->algo)
            ->times(core->limit, core->take.told, nodes.now_ns, &next_ns, &reset_ns);
        CHECK(s, said->next_ns == next_ns && said->reset_ns == reset_ns);
    }
}

/* What nobody answers is done when a look behind it, through the same node, is answered. */
static void wait_behind(unsigned node, const struct wr_remote_charge *charge)
{
    struct wr_remote_call call = {.count = 1, .charge = {*charge}};

    call.charge[0].cost = 0;
    call.charge[0].name = "behind";
    assert_true(nodes_take(&nodes, node, &call));
}

static void decide(struct schedule *s, struct key *keys, unsigned count)
{
    unsigned node = (unsigned)schedule_below(s, 3);
    struct wr_remote_call call = {.count = count};
    struct wr_charge core[WEIR_LIMITS_MAX];
    int64_t cost[WEIR_LIMITS_MAX];
    bool pass;

    for (unsigned i = 0; i < count; i++) {
        cost[i] = schedule_cost(s, wr_limit_capacity(&keys[i].limit));
        call.charge[i] = ring_charge(&keys[i], cost[i]);
        /* A refusal by one owner does not make another charge for what a shadow limit refused. */
        if (count > 1 && !keys[i].limit.count_denied && schedule_one_in(s, 5))
            call.shadow |= UINT32_C(1) << i;
    }
    pass = core_decide(keys, cost, count, call.shadow, core);
    CHECK(s, nodes_take(&nodes, node, &call));
    for (unsigned i = 0; i < count && !pass && count > 1; i++)
        wait_behind(node, &call.charge[i]); /* give-backs are on their way */
    for (unsigned i = 0; i < count; i++) {
        check_one(s, &call.charge[i], &core[i], pass, count);
        keys[i].last = call.charge[i];
    }
}

static void order(void (*op)(void *, const struct wr_remote_charge *, int64_t, int64_t),
                  unsigned node, const struct wr_remote_charge *charge, int64_t units)
{
    op(nodes.node[node].backend.context, charge, units, nodes.now_ns);
    wait_behind(node, charge);
}

static void give_back_some(struct schedule *s, struct key *key)
{
    int64_t cost = wr_receipt_cost(&key->receipt);
    int64_t units = cost > 0 ? 1 + schedule_below(s, cost) : 0;

    if (!wr_receipt_taken(&key->receipt) || !key->last.allowed)
        return;
    wr_charge_refund(arena, &key->limit, &key->receipt, units, nodes.now_ns);
    order(nodes.node[0].backend.ops->refund, (unsigned)schedule_below(s, 3), &key->last, units);
    wr_receipt_clear(&key->receipt);
}

static void force_some(struct schedule *s, const struct key *key)
{
    int64_t units = 1 + schedule_below(s, wr_limit_capacity(&key->limit) + 1);
    struct wr_charge core = core_charge(key, units);
    struct wr_remote_charge charge = ring_charge(key, units);

    wr_charge_force(arena, &core, nodes.now_ns);
    order(nodes.node[0].backend.ops->force, (unsigned)schedule_below(s, 3), &charge, units);
}

static void advance(struct schedule *s, const struct key *key, bool jumping)
{
    int64_t unit_ns = key->limit.units > 0 ? key->limit.window_ns / key->limit.units : 1;
    int64_t moment = wr_max_i64(key->last.retry_after_ns, key->last.delay_ns);
    int64_t step = schedule_step_ns(s, key->limit.window_ns, unit_ns, wr_max_i64(1, moment));

    if (jumping && schedule_one_in(s, 8))
        step = -step;
    nodes.now_ns = wr_min_i64(WR_TIME_MAX_NS / 2, wr_max_i64(WR_NS_PER_DAY, nodes.now_ns + step));
}

static void one_key(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 4 * ROUNDS; s.round++) {
        struct key key = new_key(&s, true);
        nodes.now_ns = schedule_start_ns(&s);
        for (s.step = 0; s.step < STEPS; s.step++) {
            advance(&s, &key, true);
            decide(&s, &key, 1);
            if (schedule_one_in(&s, 10))
                force_some(&s, &key);
            if (schedule_one_in(&s, 4))
                give_back_some(&s, &key);
        }
    }
}

static void many_keys_all_or_none(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        struct key keys[KEYS];
        for (unsigned i = 0; i < KEYS; i++)
            keys[i] = new_key(&s, false);
        nodes.now_ns = schedule_start_ns(&s);
        for (s.step = 0; s.step < STEPS; s.step++) {
            advance(&s, &keys[schedule_below(&s, KEYS)], false);
            decide(&s, keys, 1 + (unsigned)schedule_below(&s, KEYS));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key),
        cmocka_unit_test(many_keys_all_or_none),
    };
    const struct wr_arena_options options = {
        .size_bytes = UINT64_C(16) << 20, .node_share = 50, .judge = wr_engine_judge};
    int failed;

    assert_int_equal(wr_arena_open(&arena, &options, NULL), 0);
    nodes_open(&nodes, 3, "secret");
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    nodes_close(&nodes);
    wr_arena_close(arena);
    return failed;
}
