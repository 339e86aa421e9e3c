/* script_leases.c - leases never admit more than the limit alone would: nodes take leases from a
 * real Redis at random and spend them at random moments while they last; all that was ever
 * admitted, at the store and from leases, keeps the algorithm's bound over every interval. */
#include "core.h"

#define ROUNDS 60
#define STEPS 60
#define ADMITTED_MAX 400
#define NODES_MAX 5

static struct store store;

struct lease {
    int64_t units, until_ns;
};

struct fleet {
    struct wr_limit limit;
    uint64_t who;
    int64_t now_ns, ttl_ns;
    unsigned nodes;
    struct lease lease[NODES_MAX];
    int64_t at[ADMITTED_MAX], units[ADMITTED_MAX];
    unsigned count;
};

static void admit(struct fleet *f, int64_t units)
{
    if (units == 0)
        return;
    assert_true(f->count < ADMITTED_MAX);
    f->at[f->count] = f->now_ns;
    f->units[f->count++] = units;
}

static void start(struct schedule *s, struct fleet *f, enum wr_algo algo)
{
    struct subject t = subject_start(s, &store, algo, 1000, false);

    *f = (struct fleet){.limit = t.limit, .who = t.who, .now_ns = t.now_ns};
    f->nodes = 1 + (unsigned)schedule_below(s, NODES_MAX);
    /* As leases are meant: rate * ttl at most an eighth of the capacity; a second at most. */
    f->ttl_ns = t.limit.window_ns / 8;
    if (algo == WR_TOKEN_BUCKET)
        f->ttl_ns = (int64_t)wr_muldiv_floor((uint64_t)t.limit.burst, (uint64_t)t.limit.window_ns,
                                             8 * (uint64_t)t.limit.units);
    f->ttl_ns = wr_max_i64(1, wr_min_i64(f->ttl_ns, WR_NS_PER_S));
}

static void ask(struct schedule *s, struct fleet *f, struct lease *lease)
{
    int64_t cost = schedule_below(s, 3), rest;
    struct wr_remote_charge charge = store_charge(&f->limit, "fleet", f->who, cost);

    charge.ttl_ns = f->ttl_ns;
    charge.extra = schedule_one_in(s, 4) ? 0 : 1 + schedule_below(s, 2 * f->limit.units);
    store.ask.nodes = f->nodes;
    (void)store_take(&store, &charge, 1, 0, f->now_ns);
    CHECK(s, charge.granted <= charge.extra && charge.lease_ns <= f->ttl_ns);
    if (!charge.allowed)
        return;
    rest = charge.remaining + charge.granted;
    CHECK(s, charge.granted == wr_min_i64(charge.extra, rest / (2 * (int64_t)f->nodes)));
    admit(f, cost);
    *lease = (struct lease){charge.granted, f->now_ns + charge.lease_ns};
}

static void spend_some(struct schedule *s, struct fleet *f, struct lease *lease)
{
    int64_t units = lease->units == 0 ? 0 : 1 + schedule_below(s, lease->units);

    if (f->now_ns >= lease->until_ns)
        return;
    lease->units -= units;
    admit(f, units);
}

/* A bucket: B + N/W L. Windows: N in each; the sliding one N + N L/W. */
static void check_bound(struct schedule *s, const struct fleet *f)
{
    const struct wr_limit *limit = &f->limit;
    i128 window = limit->window_ns, units = limit->units;

    for (unsigned i = 0; i < f->count; i++) {
        i128 sum = 0, most = units * window;
        for (unsigned j = i; j < f->count; j++) {
            bool together = f->at[i] / limit->window_ns == f->at[j] / limit->window_ns;
            i128 length = f->at[j] - f->at[i];

            sum += (i128)f->units[j] * window;
            if (limit->algo == WR_TOKEN_BUCKET)
                CHECK(s, sum <= limit->burst * window + units * length);
            else if (together)
                CHECK(s, sum <= most);
            if (limit->algo == WR_SLIDING_WINDOW)
                CHECK(s, sum <= most + units * length);
        }
    }
}

static void run(enum wr_algo algo)
{
    struct schedule s = schedule_start();
    static struct fleet f;

    for (s.round = 0; s.round < ROUNDS; s.round++) {
        start(&s, &f, algo);
        for (s.step = 0; s.step < STEPS; s.step++) {
            struct lease *lease = &f.lease[schedule_below(&s, f.nodes)];
            int64_t step = schedule_step_ns(&s, 2 * f.ttl_ns + 1, f.ttl_ns, f.ttl_ns - 1);

            step = wr_min_i64(step, 3 * f.limit.window_ns);
            f.now_ns += step - step % WR_NS_PER_US;
            if (lease->units == 0 || f.now_ns >= lease->until_ns || schedule_one_in(&s, 4))
                ask(&s, &f, lease); /* what it still had is stranded */
            spend_some(&s, &f, lease);
        }
        check_bound(&s, &f);
    }
    store.ask.nodes = 1;
}

static void buckets_hold_with_leases(void **state)
{
    (void)state;
    run(WR_TOKEN_BUCKET);
}

static void fixed_windows_hold_with_leases(void **state)
{
    (void)state;
    run(WR_FIXED_WINDOW);
}

static void sliding_windows_hold_with_leases(void **state)
{
    (void)state;
    run(WR_SLIDING_WINDOW);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_hold_with_leases),
        cmocka_unit_test(fixed_windows_hold_with_leases),
        cmocka_unit_test(sliding_windows_hold_with_leases),
    };
    int failed;

    store_open(&store);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_close(&store);
    return failed;
}
