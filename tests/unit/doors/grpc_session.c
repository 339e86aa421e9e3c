/* grpc_session.c - calls over a session, with nghttp2's own client on the other side: whatever the
 * pieces that bytes come in, what is refused, and what floods cost. */
#include "grpc_pair.h"

static void a_call_in_pieces(void **state)
{
    (void)state;
    for (size_t piece = 1; piece < 100; piece += piece < 20 ? 1 : 13) {
        struct pair p;
        struct body body = FRAMED("\0\0\0\0\5hello");
        open_pair(&p);
        assert_true(submit(&p, "/s/Ok", NULL, &body) > 0);
        assert_int_equal(exchange(&p, piece), 0);
        assert_int_equal(p.calls, 1);
        assert_string_equal(p.http_status, "200");
        assert_string_equal(p.grpc_status, "0");
        assert_int_equal(p.body_len, 10);
        assert_memory_equal(p.body, "\0\0\0\0\5hello", 10);
        assert_int_equal(p.closed, 1);
        assert_int_equal(p.bad, 0);
        close_pair(&p);
    }
}

/* The door cannot answer yet; others go on, and it is answered when it can. */
static void a_call_that_is_held(void **state)
{
    struct body question = FRAMED("\0\0\0\0\5?what"), other = FRAMED("\0\0\0\0\5hello");
    struct pair p;
    (void)state;

    open_pair(&p);
    p.busy = true;
    assert_true(submit(&p, "/s/Ok", NULL, &question) > 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(p.closed, 0);
    assert_true(submit(&p, "/s/Ok", NULL, &other) > 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(p.closed, 1);
    assert_int_equal(wr_grpc_resume(p.server, p.held, p.now), 0); /* still not */
    assert_int_equal(p.closed, 1);
    p.busy = false;
    p.body_len = 0;
    assert_int_equal(wr_grpc_resume(p.server, p.held, p.now), 0);
    assert_int_equal(p.closed, 2);
    assert_int_equal(p.dropped, 1);
    assert_memory_equal(p.body, "\0\0\0\0\5?what", 10);
    close_pair(&p);
    assert_int_equal(p.dropped, 1);
}

/* Whoever asked goes, by a reset, by his own deadline, or with the connection. */
static void held_calls_that_are_dropped(void **state)
{
    struct body question = FRAMED("\0\0\0\0\5?what");
    struct pair p;
    bool late;
    int32_t id;
    (void)state;

    open_pair(&p);
    p.busy = true;
    id = submit(&p, "/s/Ok", NULL, &question);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(nghttp2_submit_rst_stream(p.client, 0, id, NGHTTP2_CANCEL), 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(p.dropped, 1);
    question.at = 0;
    assert_true(submit(&p, "/s/Ok", "grpc-timeout=1S", &question) > 0);
    assert_int_equal(exchange(&p, 4096), 0);
    p.now += 2 * WR_NS_PER_S;
    assert_int_equal(wr_grpc_tick(p.server, p.now, &late), 0);
    assert_int_equal(p.dropped, 2);
    question.at = 0;
    assert_true(submit(&p, "/s/Ok", NULL, &question) > 0);
    assert_int_equal(exchange(&p, 4096), 0);
    close_pair(&p);
    assert_int_equal(p.dropped, 3);
}

static void expect_refusal(const char *path, const char *extra, struct body body, const char *http,
                           const char *status)
{
    struct pair p;

    open_pair(&p);
    assert_true(submit(&p, path, extra, &body) > 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_string_equal(p.http_status, http);
    assert_string_equal(p.grpc_status, status);
    assert_int_equal(p.bad, 1);
    assert_int_equal(p.calls, 0);
    if (strcmp(status, "12") == 0)
        assert_string_equal(p.encoding, "identity");
    close_pair(&p);
}

static void what_is_refused(void **state)
{
    static uint8_t large[70000];
    struct body ok = FRAMED("\0\0\0\0\5hello");
    (void)state;

    expect_refusal("/s/No", NULL, ok, "200", "12");
    expect_refusal("/s/Ok", "content-type=application/json", ok, "415", "");
    expect_refusal("/s/Ok", "grpc-encoding=gzip", ok, "200", "12");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED("\1\0\0\0\5hello"), "200", "13");
    expect_refusal("/s/Ok", "grpc-encoding=identity", (struct body)FRAMED("\1\0\0\0\5hello"), "200",
                   "12");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED("\2\0\0\0\5hello"), "200", "13");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED("\0\0\0\0\6hello"), "200", "13");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED("\0\0\0\0\4hello"), "200", "13");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED("\0\0\0"), "200", "13");
    expect_refusal("/s/Ok", NULL, (struct body)FRAMED(""), "200", "13");
    expect_refusal("/s/Ok", NULL, (struct body){large, sizeof large, 0, false}, "200", "8");
}

static void an_error_of_the_call(void **state)
{
    struct pair p;
    struct body body = FRAMED("\0\0\0\0\1!");
    (void)state;

    open_pair(&p);
    (void)submit(&p, "/s/Ok", NULL, &body);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_string_equal(p.grpc_status, "2");
    assert_string_equal(p.message, "100%25 wrong");
    assert_int_equal(p.body_len, 0);
    close_pair(&p);
}

static void a_deadline_that_has_passed(void **state)
{
    struct pair p;
    struct body body = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    int32_t id;
    (void)state;

    open_pair(&p);
    id = submit(&p, "/s/Ok", "grpc-timeout=20m", &body);
    assert_int_equal(exchange(&p, 4096), 0);
    p.now += 20 * MS;
    body.unfinished = false;
    assert_int_equal(nghttp2_session_resume_data(p.client, id), 0);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(p.calls, 0);
    assert_int_equal(p.stream_error, NGHTTP2_CANCEL);
    close_pair(&p);
}

static void draining(void **state)
{
    struct pair p;
    struct body body = {(const uint8_t *)"\0\0\0\0\1x", 6, 0, true};
    int32_t id;
    (void)state;

    open_pair(&p);
    id = submit(&p, "/s/Ok", NULL, &body);
    assert_int_equal(exchange(&p, 4096), 0);
    assert_int_equal(wr_grpc_drain(p.server), 0);
    assert_true(p.goaway);
    assert_int_equal(p.goaway_last, INT32_MAX);
    assert_int_equal(exchange(&p, 4096), 0); /* the ping is answered */
    assert_int_equal(p.goaway_last, id);
    assert_int_equal(p.goaway_error, NGHTTP2_NO_ERROR);
    body.unfinished = false; /* what is in flight is answered, then it is over */
    assert_int_equal(nghttp2_session_resume_data(p.client, id), 0);
    assert_int_equal(exchange(&p, 4096), -1);
    assert_string_equal(p.grpc_status, "0");
    close_pair(&p);
}

/* Without calls, a connection may ask for this much and no more. */
static unsigned pings_until_the_end(struct pair *p, unsigned most)
{
    for (unsigned i = 0; i < most; i++) {
        assert_int_equal(nghttp2_submit_ping(p->client, 0, NULL), 0);
        if (exchange(p, 4096) != 0)
            return i;
    }
    return most;
}

static void a_flood_of_pings(void **state)
{
    struct pair p;
    (void)state;

    open_pair(&p);
    assert_in_range(pings_until_the_end(&p, 5000), 1900, 2000);
    assert_true(p.goaway);
    assert_int_equal(p.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    close_pair(&p);
    open_pair(&p); /* as time passes, more may come */
    assert_int_equal(pings_until_the_end(&p, 1900), 1900);
    p.now += 10 * WR_NS_PER_S;
    assert_int_equal(pings_until_the_end(&p, 1900), 1900);
    close_pair(&p);
}

/* Frames of a type that HTTP/2 does not have; PRIORITY_UPDATE (RFC 9218) is one to nghttp2. */
static void a_flood_of_unknown_frames(void **state)
{
    static const uint8_t frames[][9 + 7] = {
        {0, 0, 7, 0x0a, 0, 0, 0, 0, 0, 'p', 'a', 'y', 'l', 'o', 'a', 'd'},
        {0, 0, 7, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 1, 'u', '=', '1'},
        {0, 0, 7, 0xff, 0xff, 0, 0, 0, 1, 'p', 'a', 'y', 'l', 'o', 'a', 'd'}};
    (void)state;

    for (size_t i = 0; i < 3; i++) {
        struct pair p;
        unsigned n = 0;
        open_pair(&p);
        assert_int_equal(exchange(&p, 4096), 0);
        while (n < 5000 && wr_grpc_read(p.server, frames[i], sizeof frames[i], p.now) == 0)
            n++;
        assert_in_range(n, 1900, 2000);
        assert_int_equal(p.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
        assert_int_equal(p.bad, 1);
        close_pair(&p);
    }
}

/* They are no reason to refuse who also asks. */
static void an_unknown_frame_between_calls(void **state)
{
    static const uint8_t frame[] = {0, 0, 3, 0xbe, 1, 0, 0, 0, 0, 'x', 'y', 'z'};
    struct pair p;
    (void)state;

    open_pair(&p);
    for (unsigned i = 0; i < 3000; i++) {
        struct body body = FRAMED("\0\0\0\0\1x");
        (void)submit(&p, "/s/Ok", NULL, &body);
        assert_int_equal(exchange(&p, 4096), 0);
        for (size_t at = 0; at < sizeof frame; at++) /* in pieces */
            assert_int_equal(wr_grpc_read(p.server, frame + at, 1, p.now), 0);
    }
    assert_int_equal(p.closed, 3000);
    close_pair(&p);
}

static void rapid_resets(void **state)
{
    struct pair p;
    unsigned i = 0;
    (void)state;

    open_pair(&p);
    for (; i < 5000; i++) {
        int32_t id = submit(&p, "/s/Ok", NULL, &(struct body){NULL, 0, 0, true});
        int result = exchange(&p, 4096);
        if (result == 0) {
            (void)nghttp2_submit_rst_stream(p.client, 0, id, NGHTTP2_CANCEL);
            result = exchange(&p, 4096);
        }
        if (result != 0)
            break;
    }
    assert_in_range(i, 1900, 2000);
    assert_int_equal(p.goaway_error, NGHTTP2_ENHANCE_YOUR_CALM);
    close_pair(&p);
}

static void many_honest_calls(void **state)
{
    struct pair p;
    (void)state;

    open_pair(&p);
    for (unsigned i = 0; i < 5000; i++) {
        struct body body = FRAMED("\0\0\0\0\1x");
        (void)submit(&p, "/s/Ok", NULL, &body);
        assert_int_equal(exchange(&p, 4096), 0);
        assert_int_equal(nghttp2_submit_ping(p.client, 0, NULL), 0);
        assert_int_equal(exchange(&p, 4096), 0);
    }
    assert_int_equal(p.calls, 5000);
    assert_int_equal(p.closed, 5000);
    close_pair(&p);
}

/* Sixteen unfinished questions of 64 KiB are what is kept of one connection at most. */
static void unfinished_questions_are_bounded(void **state)
{
    static uint8_t bytes[60000];
    static struct body bodies[40];
    struct pair p;
    (void)state;

    open_pair(&p);
    for (size_t i = 0; i < 40; i++) {
        bodies[i] = (struct body){bytes, sizeof bytes, 0, true};
        (void)submit(&p, "/s/Ok", NULL, &bodies[i]);
        assert_int_equal(exchange(&p, 65536), 0);
    }
    assert_string_equal(p.grpc_status, "8");
    assert_in_range(p.bad, 20, 30);
    close_pair(&p); /* streams that are open are freed with it */
}

static void oversized_headers(void **state)
{
    struct pair p;
    static char value[20000];
    nghttp2_nv headers[] = {NV(":method", "POST"),
                            NV(":scheme", "http"),
                            NV(":authority", "x"),
                            NV(":path", "/s/Ok"),
                            NV("content-type", "application/grpc"),
                            NV("x", "")};
    (void)state;

    open_pair(&p);
    memset(value, 'a', sizeof value - 1);
    headers[5] = (nghttp2_nv)NV("x", value);
    assert_true(nghttp2_submit_request(p.client, NULL, headers, 6, NULL, NULL) > 0);
    (void)exchange(&p, 4096);
    assert_int_equal(p.calls, 0);
    assert_int_equal(p.closed, 1);
    assert_int_not_equal(p.stream_error, NGHTTP2_NO_ERROR);
    close_pair(&p);
}

static void what_is_not_http2(void **state)
{
    struct pair p;
    static const char text[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    (void)state;

    open_pair(&p);
    assert_int_equal(wr_grpc_read(p.server, (const uint8_t *)text, sizeof text - 1, p.now), -1);
    assert_int_equal(p.bad, 1);
    close_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_in_pieces),
        cmocka_unit_test(a_call_that_is_held),
        cmocka_unit_test(held_calls_that_are_dropped),
        cmocka_unit_test(what_is_refused),
        cmocka_unit_test(an_error_of_the_call),
        cmocka_unit_test(a_deadline_that_has_passed),
        cmocka_unit_test(draining),
        cmocka_unit_test(a_flood_of_pings),
        cmocka_unit_test(a_flood_of_unknown_frames),
        cmocka_unit_test(an_unknown_frame_between_calls),
        cmocka_unit_test(rapid_resets),
        cmocka_unit_test(many_honest_calls),
        cmocka_unit_test(unfinished_questions_are_bounded),
        cmocka_unit_test(oversized_headers),
        cmocka_unit_test(what_is_not_http2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
