/* windows.c - the fixed and the sliding window against the list of all that was charged.
 *
 * The model keeps every charge with the number of the window it counts in, sums them up anew each
 * time, and finds what remains and when to come back by trying. It must agree to the unit and to
 * the nanosecond.
 */
#include "charges.h"

struct subject {
    struct wr_limit limit;
    const struct wr_word_algo *algo;
    uint64_t state;
    struct charges model;
    int64_t now_ns;
};

/* |denied|: trying is charged. */
static struct subject start(struct schedule *s, bool sliding, bool denied)
{
    struct subject t = {.state = 0};
    enum wr_algo algo = sliding ? WR_SLIDING_WINDOW : WR_FIXED_WINDOW;
    int64_t units, window_ns;

    do {
        schedule_rate(s, sliding ? WR_SLIDING_WINDOW_UNITS_MAX : WR_FIXED_WINDOW_UNITS_MAX, &units,
                      &window_ns);
    } while (wr_limit_make(&t.limit, algo, units, window_ns, -1, denied) != NULL);
    t.algo = wr_word_algo(algo);
    t.now_ns = schedule_start_ns(s);
    t.model = (struct charges){
        .sliding = sliding, .units = units, .window_ns = window_ns, .newest = NEVER_SEEN};
    return t;
}

/* Move the clock, but not so far that the word's index takes an old window for one to come: half of
 * what its bits count. What happens then is in tests/unit/algo. */
static void advance(struct subject *t, int64_t step_ns)
{
    unsigned bits = 64U - (t->model.sliding ? 2U : 1U) * t->limit.count_bits;
    int64_t windows = bits < 40 ? INT64_C(1) << (bits - 1) : INT64_C(1) << 40;
    int64_t now_ns = wr_max_i64(0, t->now_ns + step_ns);
    i128 apart = t->model.newest == NEVER_SEEN ? 0 : now_ns / t->limit.window_ns - t->model.newest;

    if (apart < windows && -apart < windows)
        t->now_ns = now_ns;
}

static void check_retry(struct schedule *s, const struct subject *t, int64_t cost, int64_t retry_ns)
{
    int64_t then = t->now_ns + retry_ns;
    struct wr_take out;

    CHECK(s, retry_ns > 0);
    CHECK(s, charges_pass(&t->model, then, cost));
    CHECK(s, !charges_pass(&t->model, then - 1, cost));
    for (int i = 0; i < 4; i++)
        CHECK(s, !charges_pass(&t->model, t->now_ns + schedule_below(s, retry_ns), cost));
    t->algo->take(&t->limit, t->state, then, cost, &out);
    CHECK(s, out.allowed);
    t->algo->take(&t->limit, t->state, then - 1, cost, &out);
    CHECK(s, !out.allowed);
}

static void check_times(struct schedule *s, const struct subject *t)
{
    int64_t left = room(&t->model, t->now_ns), next, reset;

    t->algo->times(&t->limit, t->state, t->now_ns, &next, &reset);
    CHECK(s, (next == 0) == (left == t->limit.units) && (reset == 0) == (next == 0));
    if (next == 0)
        return;
    CHECK(s, charges_pass(&t->model, t->now_ns + next, left + 1));
    CHECK(s, !charges_pass(&t->model, t->now_ns + next - 1, left + 1));
    CHECK(s, charges_pass(&t->model, t->now_ns + reset, t->limit.units));
    CHECK(s, !charges_pass(&t->model, t->now_ns + reset - 1, t->limit.units));
}

static void check_used(struct schedule *s, const struct subject *t)
{
    i128 used = t->algo->used_q32(&t->limit, t->state, t->now_ns);
    i128 whole = (i128)t->limit.units * t->limit.window_ns;
    i128 exact = estimate(&t->model, t->now_ns);

    if (exact >= whole)
        CHECK(s, used == (i128)1 << 32);
    else /* rounded up */
        CHECK(s, used * whole >= exact << 32 && (used - 1) * whole < exact << 32);
}

/* Does the word hold the counts of |m| at |now_ns|, and not only "this or more"? */
static bool holds(const struct wr_limit *limit, const struct charges *m, int64_t now_ns)
{
    int64_t window = window_at(m, now_ns), most = (INT64_C(1) << limit->count_bits) - 1;

    return charged_in(m, window) < most && charged_in(m, window - 1) < most;
}

/* Trying is charged, as far as the word can count. */
static void charge_denied(struct schedule *s, struct subject *t, int64_t cost, uint64_t told)
{
    uint64_t forced = t->algo->force(&t->limit, t->state, t->now_ns, cost);

    CHECK(s, told == forced);
    charge(&t->model, t->now_ns, cost);
    t->state = forced;
}

static int64_t decide(struct schedule *s, struct subject *t, int64_t cost, bool *allowed)
{
    struct charges *m = &t->model, after;
    bool moved = m->newest != NEVER_SEEN && !stands_still(m, t->now_ns) &&
                 m->newest > t->now_ns / m->window_ns;
    uint64_t before = t->state;
    struct wr_take out;

    set_back(m, t->now_ns);
    after = *m;
    charge(&after, t->now_ns, cost);
    if (t->limit.count_denied && !holds(&t->limit, &after, t->now_ns))
        cost = 0;
    t->algo->take(&t->limit, t->state, t->now_ns, cost, &out);
    CHECK(s, out.allowed == charges_pass(m, t->now_ns, cost));
    CHECK(s, out.never == (cost > t->limit.units));
    CHECK(s, out.delay_ns == 0);
    t->state = out.state;
    *allowed = out.allowed;
    if (!out.allowed || cost == 0)
        CHECK(s, moved || out.state == before);
    if (out.allowed)
        charge(m, t->now_ns, cost);
    else if (t->limit.count_denied)
        charge_denied(s, t, cost, out.told);
    CHECK(s, out.remaining == room(m, t->now_ns));
    CHECK(s, (out.retry_after_ns == 0) == (out.allowed || out.never));
    if (out.retry_after_ns > 0)
        check_retry(s, t, cost, out.retry_after_ns);
    return out.retry_after_ns;
}

/* Have both move what is too far ahead. */
static void look(struct subject *t)
{
    struct wr_take out;

    t->algo->take(&t->limit, t->state, t->now_ns, 0, &out);
    t->state = out.state;
    set_back(&t->model, t->now_ns);
}

/* Above N, but within what the word can count. */
static void force(struct schedule *s, struct subject *t)
{
    int64_t cost = schedule_below(s, t->limit.units / 4 + 2);
    struct charges before;

    look(t);
    before = t->model;
    charge(&t->model, t->now_ns, cost);
    if (holds(&t->limit, &t->model, t->now_ns))
        t->state = t->algo->force(&t->limit, t->state, t->now_ns, cost);
    else
        t->model = before;
}

/* Give back a charge of the model's last ones, some of which are in windows long gone. */
static void give_back(struct schedule *s, struct subject *t)
{
    int64_t cost = 1 + schedule_below(s, t->limit.units);
    uint64_t receipt;
    unsigned mine;
    bool allowed;

    (void)decide(s, t, cost, &allowed);
    if (!allowed)
        return;
    receipt = t->state;
    mine = t->model.count - 1;
    for (int64_t i = schedule_below(s, 3); i > 0 && t->model.count < CHARGES_MAX; i--) {
        t->now_ns += schedule_below(s, t->limit.window_ns);
        (void)decide(s, t, schedule_below(s, t->limit.units / 2 + 2), &allowed);
    }
    t->state = t->algo->refund(&t->limit, t->state, receipt, t->now_ns, cost);
    if (t->model.count < CHARGES_MAX)
        t->model.charges[mine].cost = 0;
    if (t->state == 0)
        t->model.newest = NEVER_SEEN;
    (void)decide(s, t, 0, &allowed);
}

/* The word that a change writes is of the present: should the clock go back, what was over stays
 * over. */
static void forget_old(struct charges *m, int64_t now_ns)
{
    int64_t window = window_at(m, now_ns), kept = 0;

    for (unsigned i = 0; i < m->count; i++) {
        int64_t age = window - m->charges[i].window;
        if (age != 0 && !(m->sliding && age == 1))
            m->charges[i].cost = 0;
        kept += m->charges[i].cost;
    }
    m->newest = kept > 0 ? window : NEVER_SEEN;
}

/* The same windows with another N: every count goes on. */
static void change_units(struct schedule *s, struct subject *t)
{
    struct wr_limit old = t->limit;
    int64_t units = 1 + schedule_below(s, 2 * old.units);

    look(t);
    if (wr_limit_make(&t->limit, (enum wr_algo)old.algo, units, old.window_ns, -1,
                      old.count_denied) != NULL ||
        !holds(&t->limit, &t->model, t->now_ns)) {
        t->limit = old;
        return;
    }
    t->state = t->algo->carry(&t->limit, &old, t->state, t->now_ns);
    t->model.units = units;
    forget_old(&t->model, t->now_ns);
}

static void run(bool sliding, bool jumping)
{
    struct schedule s = schedule_start();

    for (s.round = 0; s.round < 3000; s.round++) {
        struct subject t = start(&s, sliding, schedule_one_in(&s, 3));
        int64_t unit_ns = t.limit.window_ns / t.limit.units, moment = 1;
        bool allowed;

        for (s.step = 0; s.step < 60 && t.now_ns < WR_TIME_MAX_NS / 2; s.step++) {
            int64_t step = schedule_step_ns(&s, t.limit.window_ns, unit_ns, moment);
            advance(&t, jumping && schedule_one_in(&s, 3) ? -step : step);
            if (schedule_one_in(&s, 20))
                force(&s, &t);
            if (!jumping && !t.limit.count_denied && schedule_one_in(&s, 20))
                give_back(&s, &t);
            if (schedule_one_in(&s, 20))
                change_units(&s, &t);
            moment = decide(&s, &t, schedule_cost(&s, t.limit.units), &allowed);
            check_times(&s, &t);
            check_used(&s, &t);
        }
    }
}

static void fixed_windows_are_sums_of_a_list(void **state)
{
    (void)state;
    run(false, false);
}

static void sliding_windows_are_weighted_sums_of_a_list(void **state)
{
    (void)state;
    run(true, false);
}

static void fixed_windows_under_a_jumping_clock(void **state)
{
    (void)state;
    run(false, true);
}

static void sliding_windows_under_a_jumping_clock(void **state)
{
    (void)state;
    run(true, true);
}

/* Over any interval of length L: a sliding window admits at most N + N L/W (docs/algorithms.md), a
 * fixed one N for every window that the interval touches. */
static void no_interval_holds_more_than_the_bound(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < 2000; s.round++) {
        int64_t at[CHARGES_MAX], cost[CHARGES_MAX], moment = 1;
        bool sliding = schedule_one_in(&s, 2);
        struct subject t = start(&s, sliding, false);
        unsigned n = 0;

        for (s.step = 0; s.step < 300 && n < 100; s.step++) {
            bool allowed;
            advance(&t, schedule_step_ns(&s, t.limit.window_ns / 4, 1, moment));
            at[n] = t.now_ns;
            cost[n] = schedule_cost(&s, t.limit.units);
            moment = decide(&s, &t, cost[n], &allowed);
            n += allowed ? 1 : 0;
        }
        for (unsigned i = 0; i < n; i++) {
            i128 sum = 0;
            for (unsigned j = i; j < n; j++) {
                i128 window_ns = t.limit.window_ns;
                i128 touched = at[j] / t.limit.window_ns - at[i] / t.limit.window_ns + 1;
                sum += cost[j];
                CHECK(&s, sum <= touched * t.limit.units);
                if (sliding)
                    CHECK(&s, sum * window_ns <= (window_ns + at[j] - at[i]) * t.limit.units);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_windows_are_sums_of_a_list),
        cmocka_unit_test(sliding_windows_are_weighted_sums_of_a_list),
        cmocka_unit_test(fixed_windows_under_a_jumping_clock),
        cmocka_unit_test(sliding_windows_under_a_jumping_clock),
        cmocka_unit_test(no_interval_holds_more_than_the_bound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
