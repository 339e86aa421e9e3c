/* script_model.c - random schedules through the script in a real Redis, beside the C core and the
 * models of tests/model, which know neither. Verdicts, and what remains to the unit, are those of
 * the models; the times those of the core, to the nanosecond where the core is exact. */
#include "../model/charges.h"
#include "../model/level.h"
#include "../model/promises.h"
#include "core.h"

#define ROUNDS 100

static struct store store;

static int64_t step_ns(struct schedule *s, const struct subject *t)
{
    int64_t unit_ns = t->limit.window_ns / t->limit.units;
    int64_t moment = wr_max_i64(t->last.retry_after_ns, t->last.delay_ns);

    return schedule_step_ns(s, t->limit.window_ns, unit_ns, wr_max_i64(1, moment));
}

/* ---- token buckets: a level ---------------------------------------------------------------- */

static void check_level(struct schedule *s, const struct subject *t, struct level *m, int64_t cost)
{
    int64_t then = t->now_ns + t->last.retry_after_ns;

    CHECK(s, t->last.allowed == level_passes(m, t->now_ns, cost));
    if (t->last.allowed && cost > 0)
        spend(m, t->now_ns, cost);
    CHECK(s, t->last.remaining == tokens_at(m, t->now_ns));
    if (!t->last.allowed && !t->last.never)
        CHECK(s, level_passes(m, then, cost) && !level_passes(m, then - 1, cost));
}

static void token_buckets_are_levels_that_drip(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        struct subject t = subject_start(&s, &store, WR_TOKEN_BUCKET, 999999937, false);
        struct level m = {t.limit.units, t.limit.window_ns, t.limit.burst,
                          (i128)t.limit.burst * t.limit.window_ns, t.now_ns};
        bool same = true;

        for (s.step = 0; s.step < 50 && same; s.step++) {
            int64_t cost = schedule_cost(&s, t.limit.burst);

            subject_advance(&s, &t, step_ns(&s, &t));
            same = subject_decide(&s, &t, cost);
            check_level(&s, &t, &m, cost);
            if (same && schedule_one_in(&s, 20)) {
                cost = 1 + schedule_below(&s, t.limit.burst);
                subject_force(&t, cost);
                spend_by_force(&m, t.now_ns, cost);
            }
        }
    }
}

/* ---- leaky buckets: a list of promises --------------------------------------------------------
 */

static void check_promises(struct schedule *s, const struct subject *t, struct promises *m,
                           int64_t cost)
{
    int64_t then = t->now_ns + t->last.retry_after_ns;
    i128 departs = next_departure(m, t->now_ns) - (i128)t->now_ns * m->units;

    CHECK(s, t->last.allowed == promises_pass(m, t->now_ns));
    if (!t->last.allowed) {
        CHECK(s, promises_pass(m, then) && !promises_pass(m, then - 1));
        return;
    }
    CHECK(s, t->last.delay_ns == (departs + m->units - 1) / m->units);
    if (cost > 0)
        promise(m, t->now_ns, cost);
    CHECK(s, t->last.remaining == promises_room(m, t->now_ns));
}

static void leaky_buckets_depart_as_promised(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        struct subject t = subject_start(&s, &store, WR_LEAKY_BUCKET, 999999937, false);
        struct promises m = {t.limit.units, t.limit.window_ns, t.limit.burst};
        bool same = true;

        for (s.step = 0; s.step < 50 && same; s.step++) {
            /* What is spaced further than 366 days the model does not know. */
            int64_t most = WR_WINDOW_MAX_NS / (t.limit.window_ns / t.limit.units + 1);
            int64_t cost = schedule_one_in(&s, 5) ? schedule_cost(&s, 3 * m.queue + 3) : 1;

            cost = wr_min_i64(cost, wr_max_i64(1, most));
            subject_advance(&s, &t, step_ns(&s, &t));
            same = subject_decide(&s, &t, cost);
            check_promises(&s, &t, &m, cost);
        }
    }
}

/* ---- windows: lists of charges ------------------------------------------------------------- */

static void check_charges(struct schedule *s, const struct subject *t, struct charges *m,
                          int64_t cost)
{
    int64_t then = t->now_ns + t->last.retry_after_ns;

    set_back(m, t->now_ns);
    CHECK(s, t->last.allowed == charges_pass(m, t->now_ns, cost));
    if (t->last.allowed)
        charge(m, t->now_ns, cost);
    CHECK(s, t->last.remaining == room(m, t->now_ns));
    if (!t->last.allowed && !t->last.never)
        CHECK(s, charges_pass(m, then, cost) && !charges_pass(m, then - 1, cost));
}

static void run_windows(bool sliding, bool jumping)
{
    struct schedule s = schedule_start();
    int64_t most = sliding ? WR_SLIDING_WINDOW_UNITS_MAX : WR_FIXED_WINDOW_UNITS_MAX;

    for (s.round = 0; s.round < ROUNDS; s.round++) {
        enum wr_algo algo = sliding ? WR_SLIDING_WINDOW : WR_FIXED_WINDOW;
        struct subject t = subject_start(&s, &store, algo, most, false);
        struct charges m = {.sliding = sliding,
                            .units = t.limit.units,
                            .window_ns = t.limit.window_ns,
                            .newest = NEVER_SEEN};

        for (s.step = 0; s.step < 50; s.step++) {
            int64_t step = step_ns(&s, &t), cost = schedule_cost(&s, t.limit.units);

            subject_advance(&s, &t, jumping && schedule_one_in(&s, 3) ? -step : step);
            CHECK(&s, subject_decide(&s, &t, cost));
            check_charges(&s, &t, &m, cost);
        }
    }
}

static void windows_are_sums_of_lists(void **state)
{
    (void)state;
    run_windows(false, false);
    run_windows(true, false);
}

static void windows_under_a_jumping_clock(void **state)
{
    (void)state;
    run_windows(false, true);
    run_windows(true, true);
}

/* ---- all words beside the core: a jumping clock, force, give-backs, count_denied ------------ */

static void beside_the_core(enum wr_algo algo, int64_t units_max, unsigned rounds)
{
    struct schedule s = schedule_start();

    for (s.round = 0; s.round < rounds; s.round++) {
        struct subject t = subject_start(&s, &store, algo, units_max, schedule_one_in(&s, 3));
        bool same = true;

        for (s.step = 0; s.step < 50 && same; s.step++) {
            int64_t capacity = wr_limit_capacity(&t.limit), step = step_ns(&s, &t);
            struct wr_remote_charge taken;
            uint64_t receipt;

            subject_advance(&s, &t, schedule_one_in(&s, 5) ? -step : step);
            same = subject_decide(&s, &t, schedule_cost(&s, capacity));
            taken = t.last;
            receipt = t.state;
            if (same && schedule_one_in(&s, 10))
                subject_force(&t, 1 + schedule_below(&s, capacity));
            if (same && schedule_one_in(&s, 3) && taken.allowed && taken.cost > 0) {
                if (schedule_one_in(&s, 2))
                    subject_advance(&s, &t, schedule_below(&s, t.limit.window_ns));
                if (schedule_one_in(&s, 2))
                    same = subject_decide(&s, &t, schedule_below(&s, 3));
                if (same)
                    subject_refund(&t, &taken, receipt, 1 + schedule_below(&s, taken.cost));
            }
        }
    }
}

static void token_buckets_beside_the_core(void **state)
{
    (void)state;
    beside_the_core(WR_TOKEN_BUCKET, 999999937, 2 * ROUNDS);
}

static void leaky_buckets_beside_the_core(void **state)
{
    (void)state;
    beside_the_core(WR_LEAKY_BUCKET, 999999937, 2 * ROUNDS);
}

static void fixed_windows_beside_the_core(void **state)
{
    (void)state;
    beside_the_core(WR_FIXED_WINDOW, WR_FIXED_WINDOW_UNITS_MAX, ROUNDS);
}

static void sliding_windows_beside_the_core(void **state)
{
    (void)state;
    beside_the_core(WR_SLIDING_WINDOW, WR_SLIDING_WINDOW_UNITS_MAX, ROUNDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(token_buckets_are_levels_that_drip),
        cmocka_unit_test(leaky_buckets_depart_as_promised),
        cmocka_unit_test(windows_are_sums_of_lists),
        cmocka_unit_test(windows_under_a_jumping_clock),
        cmocka_unit_test(token_buckets_beside_the_core),
        cmocka_unit_test(leaky_buckets_beside_the_core),
        cmocka_unit_test(fixed_windows_beside_the_core),
        cmocka_unit_test(sliding_windows_beside_the_core),
    };
    int failed;

    store_open(&store);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_close(&store);
    return failed;
}
