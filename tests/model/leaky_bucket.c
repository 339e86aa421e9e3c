/* leaky_bucket.c - the leaky bucket against the list of all that was ever promised.
 *
 * The model keeps every request that passed with its cost and works the departures out from the
 * first one each time, in exact fractions (moments multiplied by N): each departs when it comes, or
 * cost * W/N after the one before it departs. Where W/N is no whole number of ns the code may be
 * early by less than a quantum (2 ns), and is never late. */
#include "promises.h"

#define EARLY_NS 2

struct subject {
    struct wr_limit limit;
    uint64_t state;
    int64_t now_ns;
    int64_t early_ns;
    struct promises model;
};

/* |denied|: trying is charged. */
static struct subject start(struct schedule *s, bool denied)
{
    struct subject t = {.state = 0};
    int64_t units, window_ns;

    do {
        schedule_rate(s, WR_RATE_UNITS_MAX, &units, &window_ns);
    } while (wr_limit_make(&t.limit, WR_LEAKY_BUCKET, units, window_ns, schedule_below(s, 8),
                           denied) != NULL);
    t.now_ns = schedule_start_ns(s);
    t.early_ns = t.limit.scale.den == 1 ? 0 : EARLY_NS;
    t.model = (struct promises){units, window_ns, t.limit.burst};
    return t;
}

static void check_retry(struct schedule *s, const struct subject *t, int64_t retry_ns)
{
    int64_t then = t->now_ns + retry_ns;
    struct wr_take out;

    CHECK(s, retry_ns > 0);
    CHECK(s, promises_pass(&t->model, then + t->early_ns));
    CHECK(s, !promises_pass(&t->model, then - 1));
    wr_leaky_bucket.take(&t->limit, t->state, then, 1, &out);
    CHECK(s, out.allowed);
    wr_leaky_bucket.take(&t->limit, t->state, then - 1, 1, &out);
    CHECK(s, !out.allowed);
}

static void check_delay(struct schedule *s, const struct subject *t, int64_t delay_ns)
{
    int64_t units = t->limit.units;
    i128 departs = next_departure(&t->model, t->now_ns);
    i128 exact_ns = (departs + units - 1) / units - t->now_ns;

    CHECK(s, delay_ns <= exact_ns);
    CHECK(s, delay_ns + t->early_ns >= exact_ns);
}

/* Trying leads no further than a full queue and a window, or the cost's own way: the model does not
 * know what is cut there. */
static bool is_cut(const struct subject *t, int64_t cost)
{
    const struct promises *m = &t->model;
    i128 ahead = next_departure(m, t->now_ns) - (i128)t->now_ns * m->units;
    i128 most = m->queue + (cost > m->units ? cost : m->units);

    return ahead + (i128)cost * m->window_ns > most * m->window_ns - 2 * EARLY_NS * m->units;
}

/* Trying is charged. */
static void charge_denied(struct schedule *s, struct subject *t, int64_t cost, uint64_t told)
{
    CHECK(s, told == wr_leaky_bucket.force(&t->limit, t->state, t->now_ns, cost));
    t->state = told;
    promise(&t->model, t->now_ns, cost);
}

static int64_t decide(struct schedule *s, struct subject *t, int64_t cost)
{
    struct wr_take out;
    uint64_t before = t->state;

    if (t->limit.count_denied && is_cut(t, cost))
        cost = 0;
    wr_leaky_bucket.take(&t->limit, t->state, t->now_ns, cost, &out);
    if (promises_pass(&t->model, t->now_ns))
        CHECK(s, out.allowed);
    CHECK(s, !out.never);
    if (!out.allowed) {
        CHECK(s, out.state == before && out.delay_ns == 0 && out.remaining == 0);
        if (t->limit.count_denied && cost > 0)
            charge_denied(s, t, cost, out.told);
        check_retry(s, t, out.retry_after_ns);
        return out.retry_after_ns;
    }
    CHECK(s, promises_pass(&t->model, t->now_ns + t->early_ns));
    CHECK(s, out.retry_after_ns == 0);
    check_delay(s, t, out.delay_ns);
    t->state = out.state;
    if (cost > 0)
        promise(&t->model, t->now_ns, cost);
    else
        CHECK(s, out.state == before);
    CHECK(s, out.remaining >= promises_room(&t->model, t->now_ns));
    CHECK(s, out.remaining <= promises_room(&t->model, t->now_ns + t->early_ns));
    return out.delay_ns;
}

static int64_t cost_for(struct schedule *s, const struct subject *t)
{
    int64_t cost = schedule_one_in(s, 5) ? schedule_cost(s, 3 * t->limit.burst + 3) : 1;
    /* What is spaced further than 366 days is spaced by 366 days, which the model does not know. */
    int64_t most = WR_WINDOW_MAX_NS / (t->limit.window_ns / t->limit.units + 1);
    return wr_min_i64(cost, wr_max_i64(1, most));
}

static void departures_are_those_of_a_list(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 2500; s.round++) {
        struct subject t = start(&s, schedule_one_in(&s, 3));
        int64_t unit_ns = t.limit.window_ns / t.limit.units, moment = 1;

        for (s.step = 0; s.step < PROMISED_MAX - 10 && t.now_ns < WR_TIME_MAX_NS / 2; s.step++) {
            int64_t span = wr_min_i64(t.limit.window_ns, (t.limit.burst + 1) * unit_ns + 1);
            t.now_ns += schedule_step_ns(&s, span, unit_ns, moment);
            moment = decide(&s, &t, cost_for(&s, &t));
        }
    }
}

/* Departures of cost 1 are W/N apart: the k-th of a burst is ceil(k W/N) after the first, to within
 * the quantum that the first was rounded by. */
static void a_burst_departs_at_exact_distances(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 300; s.round++) {
        struct subject t = start(&s, false);
        struct wr_take out;
        int64_t queue = 1 + schedule_below(&s, 5000);

        if (wr_limit_make(&t.limit, WR_LEAKY_BUCKET, t.limit.units, t.limit.window_ns, queue,
                          false) != NULL)
            continue;
        for (int64_t k = 0; k <= queue; k++) {
            i128 exact = ((i128)k * t.limit.window_ns + t.limit.units - 1) / t.limit.units;
            wr_leaky_bucket.take(&t.limit, t.state, t.now_ns, 1, &out);
            CHECK(&s, out.allowed);
            CHECK(&s, out.delay_ns <= exact && out.delay_ns + t.early_ns >= exact);
            t.state = out.state;
        }
        wr_leaky_bucket.take(&t.limit, t.state, t.now_ns, 1, &out);
        CHECK(&s, !out.allowed);
    }
}

static void give_backs_are_exact_or_nothing(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 20000; s.round++) {
        struct subject t = start(&s, false);
        int64_t unit_ns = t.limit.window_ns / t.limit.units;
        int64_t cost = wr_max_i64(1, cost_for(&s, &t));
        uint64_t receipt, before;
        struct wr_take out;

        (void)decide(&s, &t, cost_for(&s, &t));
        t.now_ns += schedule_below(&s, 3 * unit_ns);
        before = t.state;
        wr_leaky_bucket.take(&t.limit, t.state, t.now_ns, cost, &out);
        if (!out.allowed)
            continue;
        receipt = out.state;
        t.now_ns += schedule_below(&s, 2 * unit_ns);
        if (schedule_one_in(&s, 2)) { /* nobody in between: as if it had never been */
            t.state = wr_leaky_bucket.refund(&t.limit, receipt, receipt, t.now_ns, cost);
            CHECK(&s, (t.state >> 63) == 0 || before >> 63 == 1);
            (void)decide(&s, &t, 1);
        } else {
            wr_leaky_bucket.take(&t.limit, receipt, t.now_ns, 1, &out);
            if (out.allowed)
                CHECK(&s, wr_leaky_bucket.refund(&t.limit, out.state, receipt, t.now_ns, cost) ==
                              out.state);
        }
    }
}

/* Whatever the clock does: a key waits for its queue to drain, not for the clock to catch up; and
 * the departures stay apart on the clock's steps ahead. */
static void a_clock_that_jumps_gains_nothing(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 2000; s.round++) {
        struct subject t = start(&s, false);
        int64_t unit_ns = t.limit.window_ns / t.limit.units + 1;
        int64_t queue_ns = t.limit.burst * unit_ns;
        i128 admitted = 0, ahead = 0;

        for (s.step = 0; s.step < 100; s.step++) {
            int64_t step = schedule_step_ns(&s, t.limit.window_ns, unit_ns, queue_ns);
            struct wr_take out;

            step = wr_min_i64(step, WR_NS_PER_DAY * 400);
            if (schedule_one_in(&s, 3))
                t.now_ns = wr_max_i64(0, t.now_ns - step);
            else
                ahead += step, t.now_ns += step;
            wr_leaky_bucket.take(&t.limit, t.state, t.now_ns, 1, &out);
            t.state = out.state;
            admitted += out.allowed ? 1 : 0;
            CHECK(&s,
                  admitted * t.limit.window_ns <= (i128)(t.limit.burst + 1) * t.limit.window_ns +
                                                      (ahead + EARLY_NS * 100) * t.limit.units);
            CHECK(&s, out.retry_after_ns <= t.limit.window_ns +
                                                wr_max_i64(t.limit.window_ns, WR_CLOCK_NOISE_NS) +
                                                EARLY_NS);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(departures_are_those_of_a_list),
        cmocka_unit_test(a_burst_departs_at_exact_distances),
        cmocka_unit_test(give_backs_are_exact_or_nothing),
        cmocka_unit_test(a_clock_that_jumps_gains_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
