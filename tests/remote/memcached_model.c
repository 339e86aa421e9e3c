/* memcached_model.c - random schedules through the backend at a real memcached, beside the C core
 * on a word: the same verdict, and everything that is said of it, to the nanosecond. And quotas of
 * customers over nodes: ../quota_nodes.h. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../model/schedule.h"
#include "../quota_nodes.h"
#include "base/zone.h"
#include "remote/remote.h"

#define SKIPPED 77
#define ROUNDS 60
#define STEPS 40

static char directory[] = "/tmp/weir-memcached-XXXXXX", path[64];
static pid_t server;
static uv_loop_t loop;
static struct wr_backend backend;
static bool answered;
static enum wr_remote_result ended;

/* ---- a server, and calls to it -------------------------------------------------------------- */

static void start_server(void)
{
    if (mkdtemp(directory) == NULL)
        exit(1);
    (void)snprintf(path, sizeof path, "%s/socket", directory);
    server = fork();
    if (server != 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp("memcached", "memcached", "-s", path, "-u", "root", "-m", "64", (char *)NULL);
    execlp("/usr/sbin/memcached", "memcached", "-s", path, "-u", "root", "-m", "64", (char *)NULL);
    _exit(SKIPPED);
}

static void open_backend(void)
{
    struct wr_policy_address address = {.path = path};
    struct wr_policy_store store = {.kind = WR_STORE_MEMCACHED,
                                    .addresses = &address,
                                    .address_count = 1,
                                    .prefix = "weir",
                                    .deadline_ns = 5 * WR_NS_PER_S,
                                    .nodes = 1};
    struct wr_backend_state state;
    int status;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(wr_remote_open(&backend, &loop, &store), 0);
    do {
        (void)uv_run(&loop, UV_RUN_ONCE);
        if (waitpid(server, &status, WNOHANG) == server) {
            (void)fprintf(stderr, "SKIPPED: no memcached\n");
            exit(WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED ? SKIPPED : 1);
        }
        backend.ops->state(backend.context, &state);
    } while (!state.reachable);
}

static void on_done(struct wr_remote_call *call, enum wr_remote_result result)
{
    (void)call;
    answered = true;
    ended = result;
}

static void ask(struct wr_remote_call *call, int64_t now_ns)
{
    answered = false;
    call->now_ns = now_ns;
    call->done = on_done;
    backend.ops->take(backend.context, call);
    while (!answered)
        (void)uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(ended, WR_REMOTE_DONE);
}

/* Not before the server's own time: what lives for months is told it as a date. */
static int64_t present_ns(struct schedule *s)
{
    return (int64_t)time(NULL) * WR_NS_PER_S + schedule_below(s, WR_NS_PER_DAY);
}

/* ---- subjects ------------------------------------------------------------------------------- */

struct subject {
    struct wr_limit limit;
    const struct wr_word_algo *algo;
    uint64_t who, state;
    int64_t now_ns;
};

static struct subject start(struct schedule *s, enum wr_algo algo, bool count_denied)
{
    static uint64_t callers;
    struct subject t = {.algo = wr_word_algo(algo), .who = ++callers};
    int64_t most = algo == WR_SLIDING_WINDOW ? WR_SLIDING_WINDOW_UNITS_MAX : 999999937;

    do {
        int64_t units, window_ns, burst = -1;
        schedule_rate(s, most, &units, &window_ns);
        if (algo == WR_TOKEN_BUCKET || algo == WR_LEAKY_BUCKET)
            burst = 1 + schedule_below(s, 30);
        if (window_ns <= 30 * WR_NS_PER_DAY) /* memcached keeps nothing beyond 2038 */
            (void)wr_limit_make(&t.limit, algo, units, window_ns, burst, count_denied);
    } while (t.limit.algo == 0);
    t.now_ns = present_ns(s);
    return t;
}

/* As of a quota: days, weeks and months of somewhere. */
static struct subject start_civil(struct schedule *s, bool count_denied)
{
    static const char *const names[] = {"Europe/Istanbul", "America/New_York", "Asia/Kathmandu",
                                        "Australia/Lord_Howe"};
    static const uint8_t pers[] = {WR_PER_DAY, WR_PER_WEEK, WR_PER_MONTH};
    struct subject t = start(s, WR_FIXED_WINDOW, count_denied);
    char why[100];
    const struct wr_zone *zone = wr_zone_find(names[schedule_below(s, 4)], why, sizeof why);
    struct wr_civil civil = {.per = pers[schedule_below(s, 3)]};

    assert_non_null(zone);
    civil.zone = wr_zone_id(zone);
    do
        civil.anchor = (uint8_t)schedule_below(s, 32);
    while (!wr_civil_valid(&civil));
    assert_null(wr_limit_make_civil(&t.limit, &civil, 1 + schedule_below(s, 30), count_denied));
    return t;
}

static void set(struct wr_remote_charge *charge, const struct subject *t, int64_t cost)
{
    *charge = (struct wr_remote_charge){.limit = &t->limit, .name = "model", .cost = cost};
    memcpy(charge->tag, &t->who, sizeof t->who);
}

/* Forward, and not beyond the time that a key lives without being used. */
static void advance(struct schedule *s, struct subject *t, int64_t moment_ns)
{
    int64_t step = schedule_step_ns(s, t->limit.window_ns, t->limit.window_ns / t->limit.units,
                                    wr_max_i64(1, moment_ns));

    t->now_ns += wr_min_i64(step, 3 * t->limit.window_ns);
}

static void check_charge(struct schedule *s, const struct wr_remote_charge *said,
                         const struct subject *t, const struct wr_take *take, uint64_t after)
{
    int64_t next_ns, reset_ns;

    t->algo->times(&t->limit, after, t->now_ns, &next_ns, &reset_ns);
    CHECK(s, said->allowed == take->allowed);
    CHECK(s, said->never == take->never);
    CHECK(s, said->remaining == take->remaining);
    CHECK(s, said->retry_after_ns == take->retry_after_ns);
    CHECK(s, said->delay_ns == take->delay_ns);
    CHECK(s, said->next_ns == next_ns && said->reset_ns == reset_ns);
}

static void beside_the_core(enum wr_algo algo, bool civil)
{
    struct schedule s = schedule_start();

    for (s.round = 0; s.round < ROUNDS; s.round++) {
        bool count_denied = schedule_one_in(&s, 3);
        struct subject t = civil ? start_civil(&s, count_denied) : start(&s, algo, count_denied);
        int64_t moment_ns = 0;

        for (s.step = 0; s.step < STEPS; s.step++) {
            struct wr_remote_call call = {.count = 1};
            struct wr_take take;
            int64_t cost = schedule_cost(&s, wr_limit_capacity(&t.limit));

            advance(&s, &t, moment_ns);
            set(&call.charge[0], &t, cost);
            ask(&call, t.now_ns);
            t.algo->take(&t.limit, t.state, t.now_ns, cost, &take);
            check_charge(&s, &call.charge[0], &t, &take, take.told);
            t.state = take.state;
            if (!take.allowed && count_denied && cost > 0)
                t.state = t.algo->force(&t.limit, t.state, t.now_ns, cost);
            moment_ns = wr_max_i64(take.retry_after_ns, take.delay_ns);
        }
    }
}

static void fixed_windows(void **state)
{
    (void)state;
    beside_the_core(WR_FIXED_WINDOW, false);
}

static void quotas(void **state)
{
    (void)state;
    beside_the_core(WR_FIXED_WINDOW, true);
}

static void sliding_windows(void **state)
{
    (void)state;
    beside_the_core(WR_SLIDING_WINDOW, false);
}

static void token_buckets(void **state)
{
    (void)state;
    beside_the_core(WR_TOKEN_BUCKET, false);
}

static void leaky_buckets(void **state)
{
    (void)state;
    beside_the_core(WR_LEAKY_BUCKET, false);
}

/* Several limits of a call: taken all, or none. A refusal leaves what it was, to the unit. */
static void all_or_none(void **state)
{
    static const enum wr_algo algos[] = {WR_FIXED_WINDOW, WR_SLIDING_WINDOW, WR_TOKEN_BUCKET};
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        struct subject t[3];
        int64_t now_ns = present_ns(&s);

        for (unsigned i = 0; i < 3; i++)
            t[i] = start(&s, algos[i], false);
        for (s.step = 0; s.step < STEPS; s.step++) {
            struct wr_remote_call call = {.count = 3};
            struct wr_take take[3];
            int64_t cost = 1 + schedule_below(&s, 5);
            bool pass = true;

            now_ns += schedule_below(&s, WR_NS_PER_S);
            for (unsigned i = 0; i < 3; i++) {
                t[i].now_ns = now_ns;
                set(&call.charge[i], &t[i], cost);
                t[i].algo->take(&t[i].limit, t[i].state, now_ns, cost, &take[i]);
                pass = pass && take[i].allowed;
            }
            ask(&call, now_ns);
            for (unsigned i = 0; i < 3; i++) {
                CHECK(&s, call.charge[i].allowed == take[i].allowed);
                CHECK(&s, call.charge[i].remaining == take[i].remaining);
                if (pass)
                    t[i].state = take[i].state;
            }
        }
    }
}

/* What is given back can be had again, and no more. */
static void refunds(void **state)
{
    struct schedule s = schedule_start();

    (void)state;
    for (s.round = 0; s.round < ROUNDS; s.round++) {
        enum wr_algo algo = s.round % 2 == 0 ? WR_TOKEN_BUCKET : WR_FIXED_WINDOW;
        struct subject t = start(&s, algo, false);
        int64_t capacity = wr_limit_capacity(&t.limit);
        int64_t cost = 1 + schedule_below(&s, capacity), back = 1 + schedule_below(&s, cost);
        struct wr_remote_call call = {.count = 1};
        struct wr_take take;

        set(&call.charge[0], &t, cost);
        ask(&call, t.now_ns);
        CHECK(&s, call.charge[0].allowed);
        backend.ops->refund(backend.context, &call.charge[0], back, t.now_ns);
        t.algo->take(&t.limit, 0, t.now_ns, cost, &take);
        t.state = t.algo->refund(&t.limit, take.state, take.state, t.now_ns, back);
        t.algo->take(&t.limit, t.state, t.now_ns, 0, &take);
        CHECK(&s, take.remaining == capacity - cost + back);
        for (int tries = 0; tries < 200; tries++) { /* nobody says when it is done */
            set(&call.charge[0], &t, 0);
            ask(&call, t.now_ns);
            if (call.charge[0].remaining == take.remaining)
                break;
        }
        CHECK(&s, call.charge[0].remaining == take.remaining);
    }
}

/* ---- quotas over nodes --------------------------------------------------------------------- */

static int64_t left(const struct wr_remote_charge *charge, int64_t now_ns)
{
    struct wr_remote_call call = {.count = 1};
    struct wr_limit limit;

    assert_null(wr_limit_make_civil(&limit, &charge->limit->civil, WR_CIVIL_UNITS_MAX, false));
    call.charge[0] = *charge;
    call.charge[0].limit = &limit;
    call.charge[0].cost = 0;
    ask(&call, now_ns);
    return call.charge[0].remaining;
}

/* Nobody says when an order is done. */
static void wait_for(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    for (int tries = 0; tries < 1000 && left(charge, now_ns) != units; tries++)
        continue;
    assert_int_equal(left(charge, now_ns), units);
}

static void take_for_node(struct wr_remote_call *call, int64_t now_ns)
{
    ask(call, now_ns);
}

static void refund_for_node(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    int64_t before = left(charge, now_ns);

    backend.ops->refund(backend.context, charge, units, now_ns);
    wait_for(charge, before + units, now_ns);
}

static void force_for_node(const struct wr_remote_charge *charge, int64_t units, int64_t now_ns)
{
    int64_t before = left(charge, now_ns);

    backend.ops->force(backend.context, charge, units, now_ns);
    wait_for(charge, before - units, now_ns);
}

int main(void)
{
    static const struct quota_store nodes = {take_for_node, refund_for_node, force_for_node};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fixed_windows), cmocka_unit_test(sliding_windows),
        cmocka_unit_test(token_buckets), cmocka_unit_test(leaky_buckets),
        cmocka_unit_test(all_or_none),   cmocka_unit_test(refunds),
        cmocka_unit_test(quotas),
    };
    int failed;

    start_server();
    open_backend();
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    failed += quota_nodes_run(&nodes, (int64_t)time(NULL) * WR_NS_PER_S);
    backend.ops->close(backend.context);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    failed += uv_loop_close(&loop) != 0;
    (void)kill(server, SIGKILL);
    (void)waitpid(server, NULL, 0);
    (void)unlink(path);
    (void)rmdir(directory);
    return failed;
}
