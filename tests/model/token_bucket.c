/* token_bucket.c - the token bucket against a level that drips.
 *
 * The model is the picture everybody has: a level between 0 and B that rises by N/W a ns, in exact
 * fractions (multiplied by W). The code knows no level, only a moment. Where W/N is no whole number
 * of ns the code may be early by less than a quantum (2 ns), and is never late. */
#include "level.h"

#define EARLY_NS 2
#define ADMITTED_MAX 120

struct subject {
    struct wr_limit limit;
    uint64_t state;
    struct level model;
    int64_t now_ns;
    int64_t early_ns;
};

/* |denied|: trying is charged. */
static struct subject start(struct schedule *s, bool denied)
{
    struct subject t = {.state = 0};
    int64_t units, window_ns, burst = -1;

    do {
        schedule_rate(s, WR_RATE_UNITS_MAX, &units, &window_ns);
        if (schedule_one_in(s, 2))
            burst = 1 + schedule_below(s, schedule_one_in(s, 4) ? 1000000 : 20);
    } while (wr_limit_make(&t.limit, WR_TOKEN_BUCKET, units, window_ns, burst, denied) != NULL);
    t.now_ns = schedule_start_ns(s);
    t.early_ns = t.limit.scale.den == 1 ? 0 : EARLY_NS;
    t.model = (struct level){units, window_ns, t.limit.burst,
                             (i128)t.limit.burst * t.limit.window_ns, t.now_ns};
    return t;
}

static void check_retry(struct schedule *s, const struct subject *t, int64_t cost, int64_t retry_ns)
{
    int64_t then = t->now_ns + retry_ns;
    struct wr_take out;

    CHECK(s, retry_ns > 0);
    CHECK(s, level_passes(&t->model, then + t->early_ns, cost));
    CHECK(s, !level_passes(&t->model, then - 1, cost));
    wr_token_bucket.take(&t->limit, t->state, then, cost, &out);
    CHECK(s, out.allowed);
    wr_token_bucket.take(&t->limit, t->state, then - 1, cost, &out);
    CHECK(s, !out.allowed);
}

/* One decision by both; the model follows the code's verdict. Returns a moment of interest. */
static int64_t decide(struct schedule *s, struct subject *t, int64_t cost, bool *allowed)
{
    const struct level *m = &t->model;
    struct wr_take out;
    uint64_t before = t->state;

    wr_token_bucket.take(&t->limit, t->state, t->now_ns, cost, &out);
    if (level_passes(m, t->now_ns, cost))
        CHECK(s, out.allowed);
    if (out.allowed)
        CHECK(s, level_passes(m, t->now_ns + t->early_ns, cost));
    CHECK(s, out.never == (cost > t->limit.burst));
    CHECK(s, out.delay_ns == 0);
    *allowed = out.allowed;
    t->state = out.state;
    if (out.allowed) {
        CHECK(s, out.retry_after_ns == 0);
        CHECK(s, cost > 0 || t->state == before);
        if (cost > 0)
            spend(&t->model, t->now_ns, cost);
    } else {
        CHECK(s, t->state == before);
        if (t->limit.count_denied && cost > 0) {
            t->state = wr_token_bucket.force(&t->limit, t->state, t->now_ns, cost);
            CHECK(s, out.told == t->state);
            spend_by_force(&t->model, t->now_ns, cost);
        }
        if (!out.never)
            check_retry(s, t, cost, out.retry_after_ns);
    }
    CHECK(s, out.remaining >= tokens_at(m, t->now_ns));
    CHECK(s, out.remaining <= tokens_at(m, t->now_ns + t->early_ns));
    return out.retry_after_ns;
}

static void decisions_are_those_of_a_level_that_drips(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 20000; s.round++) {
        struct subject t = start(&s, schedule_one_in(&s, 3));
        int64_t unit_ns = t.limit.window_ns / t.limit.units, moment = 1;
        bool allowed;

        for (s.step = 0; s.step < 60 && t.now_ns < WR_TIME_MAX_NS / 2; s.step++) {
            t.now_ns += schedule_step_ns(&s, t.limit.window_ns, unit_ns, moment);
            if (schedule_one_in(&s, 20)) {
                int64_t cost = schedule_cost(&s, t.limit.burst);
                t.state = wr_token_bucket.force(&t.limit, t.state, t.now_ns, cost);
                if (cost > 0)
                    spend_by_force(&t.model, t.now_ns, cost);
            }
            moment = decide(&s, &t, schedule_cost(&s, t.limit.burst), &allowed);
        }
    }
}

/* Over any interval of length L: admitted <= B + N/W * L. Every pair of admissions is an interval.
 */
static void no_interval_holds_more_than_the_bound(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 3000; s.round++) {
        int64_t at[ADMITTED_MAX], cost[ADMITTED_MAX], moment = 1;
        struct subject t = start(&s, false);
        int64_t unit_ns = t.limit.window_ns / t.limit.units;
        unsigned n = 0;

        for (s.step = 0; s.step < 400 && n < ADMITTED_MAX && t.now_ns < WR_TIME_MAX_NS / 2;
             s.step++) {
            bool allowed;
            t.now_ns += schedule_step_ns(&s, t.limit.window_ns / 8 + 1, unit_ns, moment);
            at[n] = t.now_ns;
            cost[n] = schedule_cost(&s, t.limit.burst);
            moment = decide(&s, &t, cost[n], &allowed);
            n += allowed ? 1 : 0;
        }
        for (unsigned i = 0; i < n; i++) {
            i128 sum = 0;
            for (unsigned j = i; j < n; j++) {
                sum += cost[j];
                CHECK(&s, sum * t.limit.window_ns <=
                              (i128)t.limit.burst * t.limit.window_ns +
                                  (i128)(at[j] - at[i] + t.early_ns) * t.limit.units);
            }
        }
    }
}

/* Give-backs, compared with a model in which the charge never was: exact when nobody charged in
 * between, otherwise between nothing and exact. */
static void give_backs_never_give_too_much(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 20000; s.round++) {
        struct subject t = start(&s, false);
        int64_t unit_ns = t.limit.window_ns / t.limit.units;
        int64_t cost = 1 + schedule_below(&s, t.limit.burst), left;
        bool allowed, alone = true;
        struct level without;
        struct wr_take out;
        uint64_t receipt;

        (void)decide(&s, &t, schedule_below(&s, t.limit.burst + 1), &allowed);
        t.now_ns += schedule_step_ns(&s, t.limit.window_ns, unit_ns, unit_ns);
        without = t.model;
        (void)decide(&s, &t, cost, &allowed);
        if (!allowed)
            continue;
        receipt = t.state;
        for (s.step = 0; s.step < schedule_below(&s, 4); s.step++) {
            int64_t other = schedule_below(&s, 3);
            t.now_ns += schedule_below(&s, 3 * unit_ns);
            (void)decide(&s, &t, other, &allowed);
            if (allowed && other > 0) {
                spend(&without, t.now_ns, other);
                alone = false;
            }
        }
        t.state = wr_token_bucket.refund(&t.limit, t.state, receipt, t.now_ns, cost);
        wr_token_bucket.take(&t.limit, t.state, t.now_ns, 0, &out);
        left = out.remaining;
        CHECK(&s, left <= tokens_at(&without, t.now_ns + t.early_ns));
        CHECK(&s, left >= tokens_at(alone ? &without : &t.model, t.now_ns));
    }
}

/* What was used in units is used under the new limit, or all of it. */
static void a_change_keeps_the_units_used(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 20000; s.round++) {
        struct subject old = start(&s, false), t = start(&s, false);
        bool allowed;
        i128 debt, expected;
        struct wr_take out;

        (void)decide(&s, &old, schedule_below(&s, old.limit.burst + 1), &allowed);
        old.now_ns += schedule_below(&s, old.limit.window_ns);
        t.now_ns = old.now_ns;
        t.state = wr_token_bucket.carry(&t.limit, &old.limit, old.state, t.now_ns);
        wr_token_bucket.take(&t.limit, t.state, t.now_ns, 0, &out);
        /* Tokens of the new bucket: B' - debt / W; the code rounds the debt up, by less than two
         * quanta, a quantum being at most 1 / unit units. */
        debt = (i128)old.limit.burst * old.limit.window_ns - level_at(&old.model, old.now_ns);
        expected = (i128)t.limit.burst * old.limit.window_ns - debt;
        expected = expected < 0 ? 0 : expected;
        CHECK(&s, out.remaining <= (int64_t)((expected + (i128)old.early_ns * old.limit.units) /
                                             old.limit.window_ns));
        expected -= 2 * (i128)old.limit.window_ns / (i128)t.limit.scale.unit + 1;
        CHECK(&s, out.remaining >= (expected < 0 ? 0 : (int64_t)(expected / old.limit.window_ns)));
    }
}

/* Whatever the clock does: what is admitted stays below B and what the clock's steps ahead refill,
 * and no wait is longer than two refills and the noise. */
static void a_clock_that_jumps_gains_nothing(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 2000; s.round++) {
        struct subject t = start(&s, false);
        int64_t refill = (int64_t)((i128)t.limit.burst * t.limit.window_ns / t.limit.units) + 1;
        i128 admitted = 0, ahead = 0;

        for (s.step = 0; s.step < 100; s.step++) {
            int64_t step = schedule_step_ns(&s, refill, refill / 4 + 1, refill), cost;
            struct wr_take out;

            step = wr_min_i64(step, WR_NS_PER_DAY * 400);
            if (schedule_one_in(&s, 3))
                t.now_ns = wr_max_i64(0, t.now_ns - step);
            else
                ahead += step, t.now_ns += step;
            cost = schedule_cost(&s, t.limit.burst);
            wr_token_bucket.take(&t.limit, t.state, t.now_ns, cost, &out);
            t.state = out.state;
            admitted += out.allowed ? cost : 0;
            CHECK(&s, admitted * t.limit.window_ns <= (i128)t.limit.burst * t.limit.window_ns +
                                                          (ahead + EARLY_NS * 100) * t.limit.units);
            CHECK(&s, out.retry_after_ns <= 2 * refill + WR_CLOCK_NOISE_NS + EARLY_NS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_a_level_that_drips),
        cmocka_unit_test(no_interval_holds_more_than_the_bound),
        cmocka_unit_test(give_backs_never_give_too_much),
        cmocka_unit_test(a_change_keeps_the_units_used),
        cmocka_unit_test(a_clock_that_jumps_gains_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
