/* asks.c - a door's side of shared limits: stopped, resumed, answered in order, given back; with a
 * backend that answers when it is told to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/units.h"
#include "serve/broker_parts.h"
#include "serve/server.h"

#define CALLS_MAX 16

/* The backend: what it was asked for, in order. */
struct fake {
    struct wr_remote_call *call[CALLS_MAX];
    unsigned calls, refunds, forces;
    int64_t refunded;
    bool broken; /* nothing is asked: gone at once */
};

struct world {
    char path[64];
    struct wr_server server;
    struct wr_loop loop;
    struct fake fake;
};

/* One connection, and how often it was resumed. */
struct door {
    struct wr_asks asks;
    unsigned resumed;
};

static void take(void *backend, struct wr_remote_call *call)
{
    struct fake *fake = backend;

    assert_in_range(fake->calls, 0, CALLS_MAX - 1);
    fake->call[fake->calls++] = call;
    if (!fake->broken)
        return;
    call->trouble = WR_TROUBLE_BREAKER;
    call->done(call, WR_REMOTE_GONE);
}

static void refund(void *backend, const struct wr_remote_charge *charge, int64_t units,
                   int64_t now_ns)
{
    struct fake *fake = backend;

    (void)charge;
    (void)now_ns;
    fake->refunds++;
    fake->refunded += units;
}

static void force(void *backend, const struct wr_remote_charge *charge, int64_t units,
                  int64_t now_ns)
{
    (void)charge;
    (void)units;
    (void)now_ns;
    ((struct fake *)backend)->forces++;
}

static void drop(void *backend, const struct wr_remote_charge *charge)
{
    (void)backend;
    (void)charge;
}

static void state(const void *backend, struct wr_backend_state *out)
{
    (void)backend;
    *out = (struct wr_backend_state){.reachable = true, .nodes = 1};
}

static void close_fake(void *backend)
{
    (void)backend;
}

static const struct wr_backend_ops fake_ops = {"fake", take,  refund,    force,
                                               drop,   state, close_fake};

static struct wr_handle *open_policy(const struct world *w, struct wr_handle *before)
{
    char errors[4096] = "";
    struct wr_handle *handle;

    if (wr_handle_open(&handle, w->path, before, errors, sizeof errors) != 0)
        fail_msg("%s", errors);
    return handle;
}

static struct world *open_world(const char *mode)
{
    struct world *w = calloc(1, sizeof *w);
    struct wr_store_link *link = calloc(1, sizeof *link);
    FILE *file;

    assert_non_null(w);
    assert_non_null(link);
    (void)snprintf(w->path, sizeof w->path, "/tmp/weir-asks-XXXXXX");
    file = fdopen(mkstemp(w->path), "w");
    assert_non_null(file);
    (void)fprintf(file,
                  "version: 1\narena: {size: 1MiB}\n"
                  "store: {redis: {url: \"redis://127.0.0.1:1/0\"}, mode: %s, deadline: 5s}\n"
                  "limits: [{name: shared, by: [ip], rate: 1000/day, algorithm: fixed-window, "
                  "shared: true}]\n",
                  mode);
    (void)fclose(file);
    wr_store_state_init(&w->server.store);
    assert_int_equal(uv_loop_init(&w->loop.uv), 0);
    w->loop.server = &w->server;
    w->loop.handle = open_policy(w, NULL);
    w->loop.now_ns = weir_now(w->loop.handle->weir);
    w->loop.broker = wr_broker_new(&w->loop);
    assert_non_null(w->loop.broker);
    *link = (struct wr_store_link){
        .ops = &fake_ops, .backend = &w->fake, .loop = &w->loop, .handle = w->loop.handle};
    link->nodes = 1;
    wr_handle_ref(link->handle);
    w->loop.broker->link = link;
    return w;
}

static void turn(struct world *w)
{
    w->loop.now_ns += WR_NS_PER_MS; /* whatever the machine does meanwhile */
    (void)uv_run(&w->loop.uv, UV_RUN_NOWAIT);
}

static void close_world(struct world *w)
{
    wr_broker_close(w->loop.broker);
    (void)uv_run(&w->loop.uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&w->loop.uv), 0);
    wr_broker_free(w->loop.broker);
    assert_int_equal(w->loop.handle->references, 1); /* questions gave theirs back */
    wr_handle_unref(w->loop.handle);
    wr_store_state_fini(&w->server.store);
    (void)unlink(w->path);
    free(w);
}

static void on_resume(void *context)
{
    ((struct door *)context)->resumed++;
}

static void open_door(struct world *w, struct door *door)
{
    *door = (struct door){.resumed = 0};
    door->asks = (struct wr_asks){.loop = &w->loop, .resume = on_resume, .context = door};
}

static bool ask(struct door *door, int64_t cost, struct weir_answer *answer)
{
    const struct weir_request request = {.method = {"GET", 3},
                                         .path = {"/", 1},
                                         .peer = {"192.0.2.1", 9},
                                         .cost_units = cost,
                                         .plan = -1};

    return wr_asks_decide(&door->asks, &request, answer);
}

/* The |i|th call is answered: |remaining| are left after it, or it is refused (< 0). */
static void reply(struct world *w, unsigned i, int64_t remaining, int64_t granted)
{
    struct wr_remote_call *call = w->fake.call[i];
    struct wr_remote_charge *charge = &call->charge[0];

    charge->allowed = remaining >= 0;
    charge->remaining = remaining >= 0 ? remaining : 0;
    charge->retry_after_ns = remaining >= 0 ? 0 : WR_NS_PER_S;
    charge->granted = granted;
    charge->lease_ns = granted > 0 ? WR_NS_PER_S : 0;
    call->done(call, WR_REMOTE_DONE);
}

static void test_stopped_and_resumed(void **unused)
{
    struct world *w = open_world("strict");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    wr_asks_again(&door.asks);
    assert_false(ask(&door, 3, &answer));
    assert_true(wr_asks_waits(&door.asks));
    assert_int_equal(w->fake.calls, 1);
    assert_int_equal(w->fake.call[0]->charge[0].cost, 3);
    turn(w);
    assert_int_equal(door.resumed, 0);
    reply(w, 0, 997, 0);
    assert_int_equal(door.resumed, 0); /* never from within the backend */
    turn(w);
    assert_int_equal(door.resumed, 1);
    wr_asks_again(&door.asks);
    assert_true(ask(&door, 3, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 997);
    assert_int_equal(w->fake.calls, 1);
    wr_asks_answered(&door.asks);
    assert_null(door.asks.first);
    wr_asks_abandon(&door.asks);
    assert_int_equal(w->fake.refunds, 0);
    close_world(w);
}

static void test_several_in_their_order(void **unused)
{
    struct world *w = open_world("strict");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    door.asks.keep = true;
    for (int i = 0; i < 3; i++)
        assert_false(ask(&door, 1 + i, &answer));
    door.asks.keep = false;
    reply(w, 1, 20, 0);
    reply(w, 0, 10, 0);
    turn(w);
    assert_int_equal(door.resumed, 0);
    reply(w, 2, -1, 0);
    turn(w);
    assert_int_equal(door.resumed, 1);
    wr_asks_again(&door.asks);
    assert_true(ask(&door, 1, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 10);
    wr_asks_answered(&door.asks); /* a part of them: the rest stays */
    assert_true(ask(&door, 2, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 20);
    assert_true(ask(&door, 3, &answer));
    assert_int_equal(answer.outcome, WEIR_DENY);
    wr_asks_answered(&door.asks);
    assert_int_equal(w->fake.calls, 3);
    close_world(w);
}

static void test_who_goes_gets_nothing(void **unused)
{
    struct world *w = open_world("strict");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    for (int i = 0; i < 3; i++)
        assert_false(ask(&door, 5, &answer));
    reply(w, 0, 995, 0);
    wr_asks_abandon(&door.asks);
    assert_int_equal(w->fake.refunded, 5); /* of the one that is there */
    reply(w, 1, 990, 0);
    assert_int_equal(w->fake.refunded, 10);
    reply(w, 2, -1, 0);
    turn(w);
    assert_int_equal(w->fake.refunded, 10); /* a refusal took nothing */
    assert_int_equal(door.resumed, 0);
    close_world(w);
}

static void test_gone_before_it_is_resumed(void **unused)
{
    struct world *w = open_world("strict");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    assert_false(ask(&door, 1, &answer));
    reply(w, 0, 9, 0);
    wr_asks_abandon(&door.asks);
    turn(w);
    assert_int_equal(door.resumed, 0);
    assert_int_equal(w->fake.refunded, 1);
    close_world(w);
}

static void test_another_policy_meanwhile(void **unused)
{
    struct world *w = open_world("strict");
    struct wr_handle *before = w->loop.handle;
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    assert_false(ask(&door, 4, &answer));
    w->loop.handle = open_policy(w, before);
    wr_broker_follow(w->loop.broker);
    assert_ptr_equal(w->loop.broker->link->backend, &w->fake); /* the same store: kept */
    wr_handle_unref(before);
    reply(w, 0, 996, 0);
    turn(w);
    wr_asks_again(&door.asks);
    assert_false(ask(&door, 4, &answer)); /* under the new one, once more */
    assert_int_equal(w->fake.refunded, 4);
    assert_int_equal(w->fake.calls, 2);
    reply(w, 1, 996, 0);
    turn(w);
    wr_asks_again(&door.asks);
    assert_true(ask(&door, 4, &answer));
    wr_asks_answered(&door.asks);
    assert_int_equal(w->fake.refunded, 4);
    close_world(w);
}

static void test_gone_at_once_is_no_wait(void **unused)
{
    struct world *w = open_world("strict");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    w->fake.broken = true;
    assert_true(ask(&door, 1, &answer));
    assert_int_equal(answer.outcome, WEIR_ALLOW); /* local */
    assert_false(wr_asks_waits(&door.asks));
    wr_asks_answered(&door.asks);
    assert_int_equal(w->loop.metrics.limit[0][WR_LIMIT_GONE_LOCAL], 1);
    assert_int_equal(w->loop.metrics.store.gone[WR_TROUBLE_BREAKER], 1);
    turn(w);
    assert_int_equal(door.resumed, 0);
    close_world(w);
}

/* Have the key asked for so often that the next question wants a lease. */
static void heat(struct world *w, struct door *door)
{
    struct weir_answer answer;

    wr_asks_again(&door->asks);
    assert_false(ask(door, 1, &answer));
    reply(w, w->fake.calls - 1, 999, 0);
    turn(w);
    wr_asks_again(&door->asks);
    assert_true(ask(door, 1, &answer));
    wr_asks_answered(&door->asks);
}

static void test_one_asks_for_the_lease_of_all(void **unused)
{
    struct world *w = open_world("leased");
    struct weir_answer answer;
    struct door first, others[3];
    (void)unused;

    open_door(w, &first);
    heat(w, &first);
    assert_int_equal(w->fake.calls, 1);
    assert_int_equal(w->fake.call[0]->charge[0].extra, 0); /* it was cold */
    assert_false(ask(&first, 1, &answer));
    assert_in_range(w->fake.call[1]->charge[0].extra, 1, 1000);
    for (int i = 0; i < 3; i++) {
        open_door(w, &others[i]);
        assert_false(ask(&others[i], 1, &answer));
    }
    assert_int_equal(w->fake.calls, 2); /* they wait */
    wr_asks_abandon(&others[1].asks);   /* and one no longer */
    reply(w, 1, 990, 2);
    turn(w);
    assert_int_equal(others[0].resumed + others[2].resumed, 2);
    assert_int_equal(others[1].resumed, 0);
    for (int i = 0; i < 3; i += 2) {
        wr_asks_again(&others[i].asks);
        assert_true(ask(&others[i], 1, &answer));
        assert_int_equal(answer.outcome, WEIR_ALLOW);
        wr_asks_answered(&others[i].asks);
    }
    assert_int_equal(w->fake.calls, 2);
    assert_int_equal(w->loop.metrics.store.lease_granted, 2);
    assert_int_equal(w->loop.metrics.store.lease_spent, 2);
    wr_asks_abandon(&first.asks);
    assert_int_equal(w->fake.refunded, 1);
    close_world(w);
}

static void test_the_lease_that_never_comes(void **unused)
{
    struct world *w = open_world("leased");
    struct weir_answer answer;
    struct door first, other;
    (void)unused;

    open_door(w, &first);
    open_door(w, &other);
    heat(w, &first);
    assert_false(ask(&first, 1, &answer));
    assert_false(ask(&other, 1, &answer));
    w->fake.call[1]->trouble = WR_TROUBLE_TIMEOUT;
    w->fake.call[1]->done(w->fake.call[1], WR_REMOTE_GONE);
    turn(w);
    wr_asks_again(&other.asks);
    assert_true(ask(&other, 1, &answer)); /* it has waited long enough: it asks nobody */
    assert_int_equal(w->fake.calls, 2);
    assert_int_equal(w->loop.metrics.limit[0][WR_LIMIT_GONE_LOCAL], 2);
    assert_int_equal(w->loop.metrics.store.gone[WR_TROUBLE_TIMEOUT], 2); /* it lost by the same */
    wr_asks_abandon(&first.asks);
    wr_asks_answered(&other.asks);
    close_world(w);
}

static void test_drained_leases_go_back(void **unused)
{
    struct world *w = open_world("leased");
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    heat(w, &door);
    assert_false(ask(&door, 1, &answer));
    reply(w, 1, 900, 7);
    turn(w);
    wr_asks_again(&door.asks);
    assert_true(ask(&door, 1, &answer));
    wr_asks_answered(&door.asks);
    assert_true(ask(&door, 2, &answer)); /* from the lease */
    wr_asks_answered(&door.asks);
    wr_broker_drain(w->loop.broker);
    assert_int_equal(w->fake.refunded, 5);
    assert_int_equal(w->loop.metrics.store.lease_returned, 5);
    close_world(w);
}

/* |n| requests in a row, of these costs. */
static bool ask_all(struct door *door, const int64_t *costs, unsigned n,
                    struct weir_answer *answers)
{
    struct weir_request requests[4];

    wr_asks_again(&door->asks);
    for (unsigned i = 0; i < n; i++)
        requests[i] = (struct weir_request){.method = {"GET", 3},
                                            .path = {"/", 1},
                                            .peer = {"192.0.2.1", 9},
                                            .cost_units = costs[i],
                                            .plan = -1};
    return wr_asks_decide_all(&door->asks, requests, n, answers);
}

static void expect_left(const struct weir_answer *answers, int64_t a, int64_t b, int64_t c)
{
    const int64_t left[3] = {a, b, c};

    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(answers[i].outcome, WEIR_ALLOW);
        assert_int_equal(answers[i].verdicts[0].remaining_units, left[i]);
    }
}

static void test_a_batch_by_a_lease(void **unused)
{
    static const int64_t twos[3] = {2, 2, 2}, large[3] = {4, 20, 3};
    struct world *w = open_world("leased");
    struct weir_answer answers[3];
    struct door door;
    (void)unused;

    open_door(w, &door);
    heat(w, &door);
    assert_false(ask(&door, 1, &answers[0]));
    reply(w, 1, 900, 20);
    turn(w);
    wr_asks_again(&door.asks);
    assert_true(ask(&door, 1, &answers[0]));
    wr_asks_answered(&door.asks);
    assert_true(ask_all(&door, twos, 3, answers));
    expect_left(answers, 918, 916, 914); /* 900 there */
    assert_null(door.asks.first);        /* nothing to be remembered */
    assert_int_equal(w->loop.metrics.store.lease_spent, 6);
    assert_false(ask_all(&door, large, 3, answers)); /* the second is the store's */
    assert_int_equal(w->fake.calls, 3);
    reply(w, 2, 880, 0);
    turn(w);
    assert_true(ask_all(&door, large, 3, answers));
    expect_left(answers, 910, 880, 907);
    wr_asks_answered(&door.asks);
    assert_null(door.asks.first);
    assert_int_equal(w->fake.calls, 3);
    assert_int_equal(w->loop.metrics.store.lease_spent, 13);
    assert_false(ask_all(&door, large, 3, answers)); /* 7 - 4, 20, 3 - 3 */
    wr_asks_abandon(&door.asks);
    wr_broker_drain(w->loop.broker);
    assert_int_equal(w->fake.refunded, 7);
    reply(w, 3, 860, 0);
    assert_int_equal(w->fake.refunded, 27);
    close_world(w);
}

static unsigned check_all(struct door *door, const int64_t *costs, unsigned n,
                          struct weir_verdict *verdicts)
{
    struct weir_charge charges[4];

    wr_asks_again(&door->asks);
    for (unsigned i = 0; i < n; i++)
        charges[i] = (struct weir_charge){.limit = 0, .key = {"x", 1}, .cost_units = costs[i]};
    return wr_asks_check_all(&door->asks, charges, n, verdicts);
}

static bool check(struct door *door, int64_t cost, struct weir_answer *answer)
{
    return wr_asks_check(&door->asks, 0, (struct weir_slice){"x", 1}, cost, answer);
}

static void lease_by_check(struct world *w, struct door *door, int64_t units)
{
    struct weir_answer answer;

    for (unsigned i = 0; i < 2; i++) { /* cold, hot */
        assert_false(check(door, 1, &answer));
        reply(w, w->fake.calls - 1, 900, i * units);
        turn(w);
        wr_asks_again(&door->asks);
        assert_true(check(door, 1, &answer));
        wr_asks_answered(&door->asks);
    }
}

static void test_checks_by_a_lease(void **unused)
{
    static const int64_t twos[3] = {2, 2, 2}, large[3] = {4, 20, 3};
    struct world *w = open_world("leased");
    struct weir_verdict verdicts[3];
    struct weir_answer answer;
    struct door door;
    (void)unused;

    open_door(w, &door);
    assert_int_equal(check_all(&door, twos, 3, verdicts), 0); /* cold */
    assert_null(door.asks.first);
    lease_by_check(w, &door, 20);
    assert_int_equal(check_all(&door, twos, 3, verdicts), 3);
    assert_null(door.asks.first);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(verdicts[i].outcome, WEIR_ALLOW);
        assert_int_equal(verdicts[i].remaining_units, 918 - 2 * i); /* 900 there */
    }
    assert_int_equal(w->loop.metrics.store.lease_spent, 6);
    assert_int_equal(check_all(&door, large, 3, verdicts), 1);
    door.asks.keep = true;
    assert_false(check(&door, 20, &answer));
    assert_true(check(&door, 3, &answer));
    door.asks.keep = false;
    reply(w, 2, 880, 0);
    turn(w);
    assert_int_equal(check_all(&door, large, 3, verdicts), 0); /* they are there already */
    assert_true(check(&door, 4, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 910);
    assert_true(check(&door, 20, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 880);
    assert_true(check(&door, 3, &answer));
    assert_int_equal(answer.verdicts[0].remaining_units, 907);
    wr_asks_answered(&door.asks);
    assert_int_equal(check_all(&door, large, 3, verdicts), 1);
    wr_asks_abandon(&door.asks); /* the 4 go back */
    wr_broker_drain(w->loop.broker);
    assert_int_equal(w->fake.refunded, 7);
    close_world(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_and_resumed),
        cmocka_unit_test(test_several_in_their_order),
        cmocka_unit_test(test_who_goes_gets_nothing),
        cmocka_unit_test(test_gone_before_it_is_resumed),
        cmocka_unit_test(test_another_policy_meanwhile),
        cmocka_unit_test(test_gone_at_once_is_no_wait),
        cmocka_unit_test(test_one_asks_for_the_lease_of_all),
        cmocka_unit_test(test_the_lease_that_never_comes),
        cmocka_unit_test(test_drained_leases_go_back),
        cmocka_unit_test(test_a_batch_by_a_lease),
        cmocka_unit_test(test_checks_by_a_lease),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
