/* script_stamps.c - the exact log and concurrency by the script, against all stamps that ever were:
 * never more than N in any window, never more than N in flight; the times to the nanosecond. */
#include "core.h"

#define ROUNDS 80
#define STAMPS_MAX 4000

static struct store store;

struct place {
    int64_t taken_ns;
    struct wr_remote_charge charge;
};

struct stamps {
    struct subject t;
    struct place all[STAMPS_MAX]; /* not given back, oldest first */
    unsigned count;
};

/* How many live, and where the oldest of them is. */
static unsigned live_at(const struct stamps *m, int64_t now_ns, unsigned *first)
{
    unsigned i = 0;

    while (i < m->count && m->all[i].taken_ns <= now_ns - m->t.limit.window_ns)
        i++;
    *first = i;
    return m->count - i;
}

static void push(struct stamps *m, unsigned count)
{
    for (; count > 0 && m->count < STAMPS_MAX; count--)
        m->all[m->count++] = (struct place){m->t.now_ns, m->t.last};
}

static void check_times(struct schedule *s, const struct stamps *m)
{
    const struct wr_remote_charge *said = &m->t.last;
    unsigned first, live = live_at(m, m->t.now_ns, &first);
    int64_t window_ns = m->t.limit.window_ns;

    if (live == 0) {
        CHECK(s, said->next_ns == 0 && said->reset_ns == 0);
        return;
    }
    CHECK(s, said->next_ns == m->all[first].taken_ns + window_ns - m->t.now_ns);
    CHECK(s, said->reset_ns == m->all[m->count - 1].taken_ns + window_ns - m->t.now_ns);
}

static void decide(struct schedule *s, struct stamps *m, int64_t cost)
{
    const struct wr_limit *limit = &m->t.limit;
    bool places = limit->algo == WR_CONCURRENCY;
    int64_t taken = places && cost > 0 ? 1 : cost;
    unsigned first, live = live_at(m, m->t.now_ns, &first);
    struct wr_remote_charge *said = &m->t.last;

    *said = store_charge(limit, "stamps", m->t.who, cost);
    said->place = schedule_next(s);
    (void)store_take(m->t.store, said, 1, 0, m->t.now_ns);
    CHECK(s, said->allowed == (cost == 0 || live + taken <= limit->units));
    CHECK(s, said->never == (taken > limit->units));
    if (said->allowed) {
        push(m, (unsigned)taken);
        live += (unsigned)taken;
    } else if (!said->never) {
        int64_t frees_ns = m->all[first + live + taken - limit->units - 1].taken_ns;
        CHECK(s, said->retry_after_ns == frees_ns + limit->window_ns - m->t.now_ns);
    }
    CHECK(s, said->remaining == limit->units - live);
    check_times(s, m);
}

/* Give one of those that live back, and all of its stamps that were as it. */
static void give_back(struct schedule *s, struct stamps *m)
{
    unsigned which = (unsigned)schedule_below(s, m->count), kept = 0;
    bool places = m->t.limit.algo == WR_CONCURRENCY;
    struct wr_remote_charge back = m->all[which].charge;
    int64_t units = places ? 1 : back.cost, taken_ns = m->all[which].taken_ns;

    store_do(m->t.store, WR_SCRIPT_REFUND, &back, 1, m->t.now_ns);
    for (unsigned i = 0; i < m->count; i++) {
        bool gone = units > 0 && m->all[i].taken_ns == taken_ns &&
                    (!places || m->all[i].charge.place == back.place);
        if (gone)
            units--;
        else
            m->all[kept++] = m->all[i];
    }
    m->count = kept;
}

static void run(enum wr_algo algo)
{
    struct schedule s = schedule_start();
    static struct stamps m;

    for (s.round = 0; s.round < ROUNDS; s.round++) {
        m.t = subject_start(&s, &store, algo, 60, false);
        m.count = 0;
        for (s.step = 0; s.step < 50; s.step++) {
            int64_t moment = wr_max_i64(1, m.t.last.retry_after_ns);
            int64_t step = schedule_step_ns(&s, m.t.limit.window_ns / 2 + 1, 1, moment);

            m.t.now_ns += step - step % WR_NS_PER_US;
            if (m.count > 0 && schedule_one_in(&s, 5))
                give_back(&s, &m);
            decide(&s, &m, schedule_cost(&s, algo == WR_CONCURRENCY ? 2 : m.t.limit.units));
        }
    }
}

static void logs_are_lists_of_stamps(void **state)
{
    (void)state;
    run(WR_SLIDING_LOG);
}

static void places_are_in_flight(void **state)
{
    (void)state;
    run(WR_CONCURRENCY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logs_are_lists_of_stamps),
        cmocka_unit_test(places_are_in_flight),
    };
    int failed;

    store_open(&store);
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    store_close(&store);
    return failed;
}
