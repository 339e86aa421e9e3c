/* grpc_deadline.c - what a client that does not go on costs: nothing, after a while. */
#include "grpc_pair.h"

static int tick_after(struct pair *p, int64_t ns, bool *late)
{
    p->now += ns;
    return wr_grpc_tick(p->server, p->now, late);
}

static void nothing_waits_after_a_call(void **state)
{
    struct pair p;
    struct body body = FRAMED("\0\0\0\0\1x");
    bool late;
    (void)state;

    open_pair(&p);
    assert_true(wr_grpc_waits(p.server)); /* for the greeting */
    (void)submit(&p, "/s/Ok", NULL, &body);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_false(wr_grpc_waits(p.server));
    assert_int_equal(tick_after(&p, WR_NS_PER_HOUR, &late), 0);
    assert_false(late || p.goaway);
    close_pair(&p);
}

static void a_client_that_does_not_greet(void **state)
{
    struct pair p;
    bool late;
    (void)state;

    open_pair(&p);
    assert_int_equal(wr_grpc_read(p.server, (const uint8_t *)"PRI * HT", 8, p.now), 0);
    assert_int_equal(tick_after(&p, WR_GRPC_GREETING_NS - 1, &late), 0);
    assert_false(late);
    assert_int_equal(tick_after(&p, 1, &late), -1);
    assert_true(late && p.goaway);
    assert_int_equal(p.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    close_pair(&p);
}

/* Only that call: others on the connection may be honest. */
static void a_question_that_is_not_ended(void **state)
{
    struct pair p;
    struct body half = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true}, whole = FRAMED("\0\0\0\0\1x");
    bool late;
    (void)state;

    open_pair(&p);
    (void)submit(&p, "/s/Ok", NULL, &half);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_true(wr_grpc_waits(p.server));
    assert_int_equal(tick_after(&p, WR_GRPC_QUESTION_NS - 1, &late), 0);
    assert_int_equal(p.closed, 0);
    assert_int_equal(tick_after(&p, 1, &late), 0);
    assert_false(late);
    assert_int_equal(p.closed, 1);
    assert_int_equal(p.stream_error, NGHTTP2_CANCEL);
    assert_int_equal(p.bad, 1);
    assert_false(wr_grpc_waits(p.server));
    (void)submit(&p, "/s/Ok", NULL, &whole);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_string_equal(p.grpc_status, "0");
    close_pair(&p);
}

static void the_callers_own_deadline(void **state)
{
    struct pair p;
    struct body half = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    bool late;
    (void)state;

    open_pair(&p);
    (void)submit(&p, "/s/Ok", "grpc-timeout=50m", &half);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(tick_after(&p, 49 * MS, &late), 0);
    assert_int_equal(p.closed, 0);
    assert_int_equal(tick_after(&p, MS, &late), 0);
    assert_int_equal(p.stream_error, NGHTTP2_CANCEL);
    close_pair(&p);
}

/* A refusal is an answer too; the rest of the question is not waited for without end. */
static void a_refused_question_that_is_not_ended(void **state)
{
    struct pair p;
    struct body half = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    bool late;
    (void)state;

    open_pair(&p);
    (void)submit(&p, "/s/No", NULL, &half);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_string_equal(p.grpc_status, "12");
    assert_int_equal(tick_after(&p, WR_GRPC_QUESTION_NS, &late), 0);
    assert_int_equal(p.closed, 1);
    assert_false(late || wr_grpc_waits(p.server));
    close_pair(&p);
}

static void shut_window(struct pair *p)
{
    const nghttp2_settings_entry shut = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 0};

    assert_int_equal(nghttp2_submit_settings(p->client, 0, &shut, 1), 0);
    assert_int_equal(exchange(p, 4096), 0);
}

/* Answers wait in the blocks of their streams, as many as there may be, and not for ever. */
static void a_window_that_stays_shut(void **state)
{
    static struct body bodies[WR_GRPC_STREAMS_MAX];
    struct pair p;
    bool late;
    (void)state;

    open_pair(&p);
    shut_window(&p);
    for (unsigned i = 0; i < WR_GRPC_STREAMS_MAX; i++) {
        bodies[i] = (struct body)FRAMED("\0\0\0\0\1x");
        (void)submit(&p, "/s/Ok", NULL, &bodies[i]);
        assert_int_equal(exchange(&p, 4096), 0);
    }
    assert_int_equal(p.calls, WR_GRPC_STREAMS_MAX);
    assert_int_equal(p.body_len, 0);
    assert_int_equal(p.closed, 0);
    assert_int_equal(tick_after(&p, WR_GRPC_ANSWER_NS - 1, &late), 0);
    assert_int_equal(tick_after(&p, 1, &late), -1);
    assert_true(late && p.goaway);
    assert_int_equal(p.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    close_pair(&p);
}

static void a_window_that_is_opened_in_time(void **state)
{
    struct pair p;
    struct body body = FRAMED("\0\0\0\0\1x");
    bool late;
    int32_t id;
    (void)state;

    open_pair(&p);
    shut_window(&p);
    id = submit(&p, "/s/Ok", NULL, &body);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(tick_after(&p, WR_GRPC_ANSWER_NS - 1, &late), 0);
    assert_int_equal(nghttp2_submit_window_update(p.client, 0, id, 100), 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(p.body_len, 6);
    assert_int_equal(p.closed, 1);
    assert_int_equal(tick_after(&p, WR_GRPC_ANSWER_NS, &late), 0);
    assert_false(late);
    close_pair(&p);
}

static void other_times(void **state)
{
    struct pair p;
    struct body half = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    bool late;
    (void)state;

    open_pair(&p);
    wr_grpc_set_patience(p.server, WR_NS_PER_S);
    (void)submit(&p, "/s/Ok", NULL, &half);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(tick_after(&p, WR_NS_PER_S - 1, &late), 0);
    assert_int_equal(p.closed, 0);
    assert_int_equal(tick_after(&p, 1, &late), 0);
    assert_int_equal(p.stream_error, NGHTTP2_CANCEL);
    close_pair(&p);
}

static void a_drain_that_is_not_answered(void **state)
{
    struct pair p;
    struct body half = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    int32_t id;
    (void)state;

    open_pair(&p);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(wr_grpc_drain(p.server), 0);
    assert_int_equal(p.goaway_last, INT32_MAX);
    assert_int_equal(wr_grpc_drain_end(p.server), -1); /* no call is open: nothing to wait for */
    close_pair(&p);

    open_pair(&p);
    id = submit(&p, "/s/Ok", NULL, &half);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(wr_grpc_drain(p.server), 0);
    assert_int_equal(wr_grpc_drain_end(p.server), 0);
    assert_int_equal(p.goaway_last, id);
    half.unfinished = false;
    assert_int_equal(nghttp2_session_resume_data(p.client, id), 0);
    assert_int_equal(exchange(&p, 4096), -1);
    assert_string_equal(p.grpc_status, "0");
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_waits_after_a_call),
        cmocka_unit_test(a_client_that_does_not_greet),
        cmocka_unit_test(a_question_that_is_not_ended),
        cmocka_unit_test(the_callers_own_deadline),
        cmocka_unit_test(a_refused_question_that_is_not_ended),
        cmocka_unit_test(a_window_that_stays_shut),
        cmocka_unit_test(a_window_that_is_opened_in_time),
        cmocka_unit_test(other_times),
        cmocka_unit_test(a_drain_that_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
