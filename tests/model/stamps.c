/* stamps.c - the exact log and concurrency against what they promise: never more than N units in
 * any window of W, never more than N requests in flight; and come back just when it passes.
 *
 * The store's list is an array of stamps here, oldest first. */
#include "algo/concurrency.h"
#include "algo/sliding_log.h"
#include "schedule.h"

#define STAMPS_MAX 4000

struct subject {
    struct wr_limit limit;
    int64_t stamps[STAMPS_MAX]; /* of every unit ever admitted */
    unsigned count;
    int64_t now_ns;
};

static void start(struct schedule *s, struct subject *t, enum wr_algo algo, bool denied)
{
    int64_t units, window_ns;

    do {
        schedule_rate(s, 60, &units, &window_ns);
    } while (wr_limit_make(&t->limit, algo, units, window_ns, -1, denied) != NULL);
    t->now_ns = schedule_start_ns(s);
    t->count = 0;
}

static uint32_t live_at(const struct subject *t, int64_t now_ns)
{
    uint32_t live = 0;

    for (unsigned i = 0; i < t->count; i++)
        live += t->stamps[i] > now_ns - t->limit.window_ns ? 1 : 0;
    return live;
}

static void take(const struct subject *t, int64_t now_ns, int64_t cost, struct wr_take *out)
{
    uint32_t live = live_at(t, now_ns), must_age;

    if (t->limit.algo == WR_CONCURRENCY)
        wr_concurrency_take(&t->limit, live, cost == 0, out, &must_age);
    else
        wr_sliding_log_take(&t->limit, live, cost, out, &must_age);
    if (must_age > 0)
        out->retry_after_ns = wr_sliding_log_retry(
            &t->limit, must_age <= live ? t->stamps[t->count - live + must_age - 1] : now_ns,
            now_ns);
}

static int64_t decide(struct schedule *s, struct subject *t, int64_t cost)
{
    bool places = t->limit.algo == WR_CONCURRENCY;
    int64_t taken = places && cost > 0 ? 1 : cost;
    struct wr_take out, then;

    take(t, t->now_ns, cost, &out);
    CHECK(s, out.allowed == (cost == 0 || live_at(t, t->now_ns) + taken <= t->limit.units));
    CHECK(s, out.never == (taken > t->limit.units));
    if (out.allowed) {
        for (int64_t i = 0; i < taken && t->count < STAMPS_MAX; i++)
            t->stamps[t->count++] = t->now_ns;
    } else {
        if (t->limit.count_denied) /* trying is charged, up to twice the limit */
            for (int64_t i = 0; i < cost && t->count < STAMPS_MAX; i++)
                if (live_at(t, t->now_ns) < 2 * t->limit.units)
                    t->stamps[t->count++] = t->now_ns;
        CHECK(s, out.never == (out.retry_after_ns == 0));
        if (!out.never) {
            take(t, t->now_ns + out.retry_after_ns, cost, &then);
            CHECK(s, then.allowed);
            take(t, t->now_ns + out.retry_after_ns - 1, cost, &then);
            CHECK(s, !then.allowed);
        }
    }
    CHECK(s, out.remaining == wr_max_i64(0, t->limit.units - live_at(t, t->now_ns)));
    return out.retry_after_ns;
}

static void no_window_holds_more_than_the_limit(void **state)
{
    struct schedule s = schedule_start();
    static struct subject t;

    (void)state;
    for (s.round = 0; s.round < 400; s.round++) {
        bool denied = schedule_one_in(&s, 3);
        int64_t moment = 1;

        start(&s, &t, WR_SLIDING_LOG, denied);
        for (s.step = 0; s.step < 150; s.step++) {
            t.now_ns += schedule_step_ns(&s, t.limit.window_ns / 2 + 1, 1, moment);
            moment = decide(&s, &t, schedule_cost(&s, t.limit.units));
        }
        for (unsigned i = 0; i < t.count && !denied;
             i++) { /* a window that begins with each stamp */
            int64_t sum = 0;
            for (unsigned j = i; j < t.count; j++)
                sum += t.stamps[j] - t.stamps[i] < t.limit.window_ns ? 1 : 0;
            CHECK(&s, sum <= t.limit.units);
        }
    }
}

/* Requests end when they like, or never; the list and the count of those in flight agree, and
 * nobody holds a place for longer than the hold. */
static void no_more_are_in_flight_than_there_are_places(void **state)
{
    struct schedule s = schedule_start();
    static struct subject t;

    (void)state;
    for (s.round = 0; s.round < 1500; s.round++) {
        int64_t moment = 1;

        start(&s, &t, WR_CONCURRENCY, false);
        for (s.step = 0; s.step < 150; s.step++) {
            t.now_ns += schedule_step_ns(&s, t.limit.window_ns / 3 + 1, 1, moment);
            if (t.count > 0 && schedule_one_in(&s, 3)) { /* a release: its stamp is removed */
                unsigned ended = (unsigned)schedule_below(&s, t.count);
                t.count--;
                for (unsigned i = ended; i < t.count; i++)
                    t.stamps[i] = t.stamps[i + 1];
            }
            moment = decide(&s, &t, schedule_cost(&s, 3));
            CHECK(&s, live_at(&t, t.now_ns) <= t.limit.units);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_window_holds_more_than_the_limit),
        cmocka_unit_test(no_more_are_in_flight_than_there_are_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
