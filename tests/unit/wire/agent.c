/* agent.c - frames by hand: every byte of a request and of an answer written out, then what must be
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/agent.h"

/* A request: GET /a by 192.0.2.7, one header field of two, cost 5. */
static const uint8_t asking[] = {
    72,   0,    0,    0,    1,    1,    0,    0,    /* 72 bytes follow; version, ask */
    0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01, /* id */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* fingerprint */
    5,    0,    0,    0,    0,    0,    0,    0,    /* cost */
    0xff, 0xff, 0xff, 0xff, 0,    0,    2,    0,    /* no plan, no peek, two fields */
    3,    0,    0,    0,    2,    0,    0,    0,    /* bytes of method and path */
    9,    0,    0,    0,    2,    0,    0,    0,    /* of peer and the first field */
    0xff, 0xff, 0xff, 0xff, 'G',  'E',  'T',  '/',  /* the second is absent; texts */
    'a',  '1',  '9',  '2',  '.',  '0',  '.',  '2',  '.', '7', 'k', '1'};

/* An answer: refused by the only limit, number 3 under plan 1, come back in 2 s. */
static const uint8_t answering[] = {
    124,  0,    0,    0,    1,    2,    0,    0,    /* 124 bytes follow; version, answer */
    7,    0,    0,    0,    0,    0,    0,    0,    /* id */
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, /* fingerprint */
    0,    2,    1,    1,    0,    0,    1,    0,    /* decided: deny, limit, plan 1; 0 of 1 */
    1,    0,    0,    0,    0,    0,    0,    0,    /* cost */
    0,    0,    0,    0,    0,    0,    0,    0,    /* delay */
    0x00, 0x94, 0x35, 0x77, 0,    0,    0,    0,    /* retry after 2e9 */
    1,    2,    3,    4,    5,    6,    7,    8,    /* what it holds */
    9,    10,   11,   12,   13,   14,   15,   16,   /* */
    2,    1,    0,    1,    3,    0,    0,    0,    /* the verdict: deny, limit, plan 1, limit 3 */
    10,   0,    0,    0,    0,    0,    0,    0,    /* capacity */
    0,    0,    0,    0,    0,    0,    0,    0,    /* remaining */
    0x00, 0x94, 0x35, 0x77, 0,    0,    0,    0,    /* retry after */
    0,    0,    0,    0,    0,    0,    0,    0,    /* delay */
    0x00, 0x94, 0x35, 0x77, 0,    0,    0,    0,    /* next */
    0x00, 0xe4, 0x0b, 0x54, 2,    0,    0,    0,    /* reset 1e10 */
};

/* The end of the request that holds it. */
static const uint8_t releasing[] = {
    36,   0,    0,    0,    1, 3, 0, 0, 0, 0, 0, 0, 0, 0,  0,  0,  0x88, 0x77, 0x66, 0x55,
    0x44, 0x33, 0x22, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,   14,   15,   16};

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static void test_put_ask(void **state)
{
    struct weir_slice fields[2] = {slice("k1"), {NULL, 0}};
    struct weir_request request = {.method = slice("GET"),
                                   .path = slice("/a?key=k2"),
                                   .peer = slice("192.0.2.7"),
                                   .fields = fields,
                                   .field_count = 2,
                                   .cost_units = 5,
                                   .plan = -1};
    struct wr_agent_ask ask;
    uint8_t out[200];
    size_t len;
    (void)state;

    assert_int_equal(wr_agent_put_ask(&ask, UINT64_C(0x0102030405060708),
                                      UINT64_C(0x1122334455667788), &request),
                     0);
    assert_int_equal(ask.len, sizeof asking);
    memcpy(out, ask.head, ask.head_len);
    len = ask.head_len;
    for (unsigned i = 0; i < ask.text_count; i++) {
        memcpy(out + len, ask.text[i].ptr, ask.text[i].len);
        len += ask.text[i].len;
    }
    assert_int_equal(len, sizeof asking);
    assert_memory_equal(out, asking, sizeof asking);
}

static void test_get_ask(void **state)
{
    struct weir_slice fields[WR_AGENT_FIELDS_MAX];
    struct weir_request request;
    struct wr_agent_frame frame;
    (void)state;

    assert_int_equal(wr_agent_find(asking, sizeof asking, &frame), sizeof asking);
    assert_int_equal(frame.kind, WR_AGENT_ASK);
    assert_int_equal(frame.id, UINT64_C(0x0102030405060708));
    assert_int_equal(frame.fingerprint, UINT64_C(0x1122334455667788));
    assert_true(wr_agent_get_ask(asking, sizeof asking, fields, &request));
    assert_int_equal(request.cost_units, 5);
    assert_int_equal(request.plan, -1);
    assert_false(request.peek);
    assert_int_equal(request.field_count, 2);
    assert_int_equal(request.method.len, 3);
    assert_memory_equal(request.path.ptr, "/a", 2);
    assert_int_equal(request.path.len, 2);
    assert_memory_equal(request.peer.ptr, "192.0.2.7", 9);
    assert_memory_equal(fields[0].ptr, "k1", 2);
    assert_int_equal(fields[0].len, 2);
    assert_null(fields[1].ptr);
}

static void test_answer(void **state)
{
    enum wr_agent_status status;
    struct weir_answer answer;
    struct wr_agent_more more;
    struct wr_agent_frame frame;
    uint8_t out[WR_AGENT_ANSWER_MAX];
    (void)state;

    assert_int_equal(sizeof answering, 128);
    assert_true(wr_agent_get_answer(answering, sizeof answering, &status, &answer, &more));
    assert_int_equal(status, WR_AGENT_DECIDED);
    assert_int_equal(answer.outcome, WEIR_DENY);
    assert_int_equal(answer.reason, WEIR_REASON_LIMIT);
    assert_int_equal(answer.plan, 1);
    assert_int_equal(answer.decisive, 0);
    assert_int_equal(answer.retry_after_ns, INT64_C(2000000000));
    assert_int_equal(answer.count, 1);
    assert_int_equal(answer.verdicts[0].limit, 3);
    assert_int_equal(answer.verdicts[0].capacity_units, 10);
    assert_int_equal(more.next_ns[0], INT64_C(2000000000));
    assert_int_equal(more.reset_ns[0], INT64_C(10000000000));
    assert_memory_equal(more.hold, releasing + 24, 16);
    assert_int_equal(wr_agent_find(answering, sizeof answering, &frame), sizeof answering);
    assert_int_equal(wr_agent_put_answer(out, frame.id, frame.fingerprint, status, &answer, &more),
                     sizeof answering);
    assert_memory_equal(out, answering, sizeof answering);
}

static void test_not_decided(void **state)
{
    enum wr_agent_status status;
    struct weir_answer answer;
    struct wr_agent_more more;
    uint8_t out[WR_AGENT_ANSWER_MAX];
    size_t len = wr_agent_put_answer(out, 9, 4, WR_AGENT_OTHER_POLICY, NULL, NULL);
    (void)state;

    assert_int_equal(len, 72);
    assert_true(wr_agent_get_answer(out, len, &status, &answer, &more));
    assert_int_equal(status, WR_AGENT_OTHER_POLICY);
    assert_int_equal(answer.count, 0);
    out[24] = 3; /* no such status */
    assert_false(wr_agent_get_answer(out, len, &status, &answer, &more));
}

static void test_release(void **state)
{
    uint8_t out[WR_AGENT_RELEASE_BYTES], hold[WR_AGENT_HOLD_BYTES];
    (void)state;

    assert_int_equal(sizeof releasing, 40);
    wr_agent_put_release(out, UINT64_C(0x1122334455667788), releasing + 24);
    assert_memory_equal(out, releasing, sizeof releasing);
    assert_true(wr_agent_get_release(releasing, sizeof releasing, hold));
    assert_memory_equal(hold, releasing + 24, 16);
    assert_false(wr_agent_get_release(answering, sizeof answering, hold));
    out[0]--; /* a byte is missing */
    assert_false(wr_agent_get_release(out, sizeof out - 1, hold));
}

/* Every prefix waits for more, whatever the byte that is missing. */
static void test_prefixes(void **state)
{
    struct wr_agent_frame frame;
    (void)state;

    for (size_t len = 0; len < sizeof asking; len++)
        assert_int_equal(wr_agent_find(asking, len, &frame), 0);
    for (size_t len = 0; len < sizeof answering; len++)
        assert_int_equal(wr_agent_find(answering, len, &frame), 0);
}

static int find_with(size_t at, uint8_t value)
{
    uint8_t bytes[sizeof asking];
    struct wr_agent_frame frame;

    memcpy(bytes, asking, sizeof bytes);
    bytes[at] = value;
    return wr_agent_find(bytes, sizeof bytes, &frame);
}

static void test_refused_frames(void **state)
{
    (void)state;
    assert_int_equal(find_with(4, 2), WEIR_EFORMAT); /* another version */
    assert_int_equal(find_with(5, 0), WEIR_EFORMAT); /* no such kind */
    assert_int_equal(find_with(5, 4), WEIR_EFORMAT);
    assert_int_equal(find_with(0, 19), WEIR_EFORMAT); /* shorter than its head */
    assert_int_equal(find_with(2, 1), WEIR_EFORMAT);  /* longer than any frame may be */
}

static bool ask_with(size_t at, uint8_t value)
{
    uint8_t bytes[sizeof asking];
    struct weir_slice fields[WR_AGENT_FIELDS_MAX];
    struct weir_request request;

    memcpy(bytes, asking, sizeof bytes);
    bytes[at] = value;
    return wr_agent_get_ask(bytes, sizeof bytes, fields, &request);
}

static void test_refused_asks(void **state)
{
    (void)state;
    assert_true(ask_with(36, 1));
    assert_false(ask_with(36, 2));    /* peek is 0 or 1 */
    assert_false(ask_with(37, 1));    /* reserved */
    assert_false(ask_with(32, 0xfe)); /* plan -2 */
    assert_false(ask_with(31, 0x80)); /* a negative cost */
    assert_false(ask_with(28, 1));    /* above WEIR_COST_MAX */
    assert_false(ask_with(38, 65));   /* more fields than there may be */
    assert_false(ask_with(39, 1));
    assert_false(ask_with(38, 7)); /* than fit */
    assert_false(ask_with(40, 2)); /* a byte is left */
    assert_false(ask_with(40, 4)); /* one is missing */
    assert_false(ask_with(43, 0x80));
    assert_false(ask_with(5, 2)); /* an answer */
}

static bool answer_with(size_t at, uint8_t value)
{
    uint8_t bytes[sizeof answering];
    enum wr_agent_status status;
    struct weir_answer answer;
    struct wr_agent_more more;

    memcpy(bytes, answering, sizeof bytes);
    bytes[at] = value;
    return wr_agent_get_answer(bytes, sizeof bytes, &status, &answer, &more);
}

static void test_refused_answers(void **state)
{
    (void)state;
    assert_true(answer_with(25, 0));
    assert_false(answer_with(25, 4)); /* WEIR_ASK is no answer */
    assert_false(answer_with(26, 9)); /* no such reason */
    assert_false(answer_with(28, 1)); /* decisive beyond the last */
    assert_false(answer_with(29, 0x80));
    assert_false(answer_with(30, 0)); /* count and length differ */
    assert_false(answer_with(30, 2));
    assert_false(answer_with(31, 1));
    assert_false(answer_with(24, 1));     /* not decided, with verdicts */
    assert_false(answer_with(39, 0x80));  /* negative: cost, */
    assert_false(answer_with(47, 0x80));  /* delay, */
    assert_false(answer_with(55, 0x80));  /* retry, */
    assert_false(answer_with(95, 0x80));  /* remaining, */
    assert_false(answer_with(119, 0x80)); /* next */
    assert_false(answer_with(119, 0x7f)); /* or further away than anything is */
    assert_false(answer_with(72, 3));     /* a verdict in shadow outcome */
    assert_false(answer_with(74, 2));
    assert_false(answer_with(88, 11)); /* more remaining than the capacity */
    assert_false(answer_with(5, 3));   /* a release, of that length */
    assert_false(answer_with(5, 1));
}

/* A request longer than a frame is not asked: 52 bytes of head, 4 for each field, then texts. */
static void test_too_long(void **state)
{
    static char text[WR_AGENT_FRAME_MAX];
    struct weir_slice fields[WR_AGENT_FIELDS_MAX + 1] = {{text, WR_AGENT_FRAME_MAX - 56}};
    struct weir_request request = {
        .fields = fields, .field_count = 1, .cost_units = -1, .plan = -1};
    struct wr_agent_ask ask;
    (void)state;

    assert_int_equal(wr_agent_put_ask(&ask, 1, 2, &request), 0);
    assert_int_equal(ask.len, WR_AGENT_FRAME_MAX);
    fields[0].len++;
    assert_int_equal(wr_agent_put_ask(&ask, 1, 2, &request), WEIR_EFULL);
    fields[0].len = SIZE_MAX;
    assert_int_equal(wr_agent_put_ask(&ask, 1, 2, &request), WEIR_EFULL);
    fields[0].len = 0;
    request.field_count = WR_AGENT_FIELDS_MAX + 1;
    assert_int_equal(wr_agent_put_ask(&ask, 1, 2, &request), WEIR_EFULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_put_ask),      cmocka_unit_test(test_get_ask),
        cmocka_unit_test(test_answer),       cmocka_unit_test(test_not_decided),
        cmocka_unit_test(test_prefixes),     cmocka_unit_test(test_refused_frames),
        cmocka_unit_test(test_refused_asks), cmocka_unit_test(test_refused_answers),
        cmocka_unit_test(test_too_long),     cmocka_unit_test(test_release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
