/* script.c - what is asked of the script byte by byte, and answers that are none; no server. */
#include "remote/script.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "base/units.h"

#define NOW_US INT64_C(1700006400000000)

static const struct wr_script_ask plain = {.prefix = "weir", .nodes = 2, .slack_ms = 1000};

static struct wr_limit bucket(int64_t units, int64_t window_ns, int64_t burst)
{
    struct wr_limit limit;

    assert_null(wr_limit_make(&limit, WR_TOKEN_BUCKET, units, window_ns, burst, false));
    return limit;
}

static void a_key_has_its_tag_in_braces(void **state)
{
    struct wr_limit limit = bucket(10, WR_NS_PER_MINUTE, -1);
    struct wr_remote_charge charge = {
        .limit = &limit, .name = "per-key", .tag = {0x01, 0x23, [15] = 0xef}};
    const char *want = "weir:{012300000000000000000000000000ef}:per-key:1";
    char key[WR_SCRIPT_KEY_MAX], name[WR_SCRIPT_NAME_MAX + 2];

    (void)state;
    assert_int_equal(wr_script_key(key, sizeof key, "weir", &charge), strlen(want));
    assert_memory_equal(key, want, strlen(want));
    assert_int_equal(wr_script_key(key, strlen(want) - 1, "weir", &charge), 0);
    limit.algo = WR_SLIDING_WINDOW; /* another algorithm counts under another key */
    assert_int_equal(wr_script_key(key, sizeof key, "weir", &charge), strlen(want));
    assert_int_equal(key[strlen(want) - 1], '4');
    charge.name = name;
    memset(name, 'n', sizeof name);
    name[WR_SCRIPT_NAME_MAX + 1] = '\0';
    assert_int_equal(wr_script_key(key, sizeof key, "weir", &charge), 0);
    name[WR_SCRIPT_NAME_MAX] = '\0';
    assert_int_equal(wr_script_key(key, sizeof key, "weir", &charge),
                     4 + 2 + 32 + 2 + WR_SCRIPT_NAME_MAX + 2);
}

/* 10/minute: a unit is 6 s, 6 000 000 ticks, of which a microsecond pays one back. */
static void arguments_are_packed(void **state)
{
    static const unsigned char want[] = {
        0,                                  /* take */
        0, 0, 0, 0, 0,    0,    0,    0,    /* at the store's time */
        0, 0, 0, 0, 0,    0,    0x00, 0x40, /* 2 nodes */
        0, 0, 0, 0, 0,    0x40, 0x8f, 0x40, /* 1000 ms */
        1, 1,                               /* token bucket, shadow */
        0, 0, 0, 0, 0,    0,    0x08, 0x40, /* cost 3 */
        0, 0, 0, 0, 0,    0,    0,    0,    /* no lease */
        0, 0, 0, 0, 0x60, 0xe3, 0x56, 0x41, /* 6000000 */
        0, 0, 0, 0, 0,    0,    0xf0, 0x3f, /* 1 */
        0, 0, 0, 0, 0x38, 0x9c, 0x8c, 0x41, /* 60000000 */
        0, 0, 0, 0, 0x38, 0x9c, 0x8c, 0x41,
    };
    struct wr_limit limit = bucket(10, WR_NS_PER_MINUTE, -1);
    struct wr_remote_charge charges[2] = {{.limit = &limit, .name = "a", .cost = 1},
                                          {.limit = &limit, .name = "b", .cost = 3}};
    static struct wr_script_args args;

    (void)state;
    assert_true(wr_script_args(&args, &plain, WR_SCRIPT_TAKE, charges, 2, 2, 2));
    assert_int_equal(args.argc, 5);
    assert_memory_equal(args.argv[0], "EVALSHA", args.argvlen[0]);
    assert_memory_equal(args.argv[1], wr_script_sha1, 40);
    assert_true(args.argvlen[2] == 1 && args.argv[2][0] == '1');
    assert_memory_equal(args.argv[3], "weir:{00000000000000000000000000000000}:b:1",
                        args.argvlen[3]);
    assert_int_equal(args.argvlen[4], sizeof want);
    assert_memory_equal(args.argv[4], want, sizeof want);
}

static void the_greatest_call_fits(void **state)
{
    char name[WR_SCRIPT_NAME_MAX + 1], prefix[WR_SCRIPT_PREFIX_MAX + 1];
    struct wr_script_ask ask = {.prefix = prefix, .nodes = 1000000, .slack_ms = 1000};
    struct wr_remote_charge charges[WEIR_LIMITS_MAX] = {0};
    static struct wr_script_args args;
    struct wr_limit limit;

    (void)state;
    memset(name, 'n', sizeof name - 1);
    memset(prefix, 'p', sizeof prefix - 1);
    name[sizeof name - 1] = prefix[sizeof prefix - 1] = '\0';
    assert_null(wr_limit_make_calendar(&limit, WR_CALENDAR_MONTH, 10, false));
    for (unsigned i = 0; i < WEIR_LIMITS_MAX; i++)
        charges[i] = (struct wr_remote_charge){.limit = &limit, .name = name, .cost = 1};
    assert_true(
        wr_script_args(&args, &ask, WR_SCRIPT_REFUND, charges, WEIR_LIMITS_MAX, UINT32_MAX, 0));
    assert_int_equal(args.argc, 4 + WEIR_LIMITS_MAX);
    assert_true(args.used <= sizeof args.bytes);
    assert_memory_equal(args.argv[2], "16", args.argvlen[2]);
}

static void what_cannot_be_asked_is_refused(void **state)
{
    struct wr_limit fine = bucket(999983, WR_NS_PER_DAY, -1), limit = bucket(10, WR_NS_PER_S, -1);
    struct wr_remote_charge charge = {.limit = &fine, .name = "a", .cost = 1};
    static struct wr_script_args args;

    (void)state;
    assert_false(wr_script_args(&args, &plain, WR_SCRIPT_TAKE, &charge, 1, 1, 0));
    charge.limit = &limit;
    assert_false(wr_script_args(&args, &plain, WR_SCRIPT_TAKE, &charge, 1, 0, 0));
    assert_false(wr_script_args(&args, &plain, WR_SCRIPT_TAKE, &charge, 1, 2, 0));
    assert_true(wr_script_args(&args, &plain, WR_SCRIPT_TAKE, &charge, 1, 3, 0));
}

/* What |text| says of a charge of 1 under 10/minute. */
static enum wr_script_result read_text(const char *text, struct wr_remote_charge *charge,
                                       struct wr_script_answer *answer)
{
    static struct wr_limit limit;
    redisReader *reader = redisReaderCreate();
    enum wr_script_result result;
    void *reply = NULL;

    limit = bucket(10, WR_NS_PER_MINUTE, -1);
    *charge = (struct wr_remote_charge){.limit = &limit,
                                        .name = "a",
                                        .cost = 1,
                                        .extra = 4,
                                        .ttl_ns = WR_NS_PER_S,
                                        .remaining = 77};
    assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    result = wr_script_read(charge, 1, 1, 0, WR_SCRIPT_TAKE, reply, answer);
    freeReplyObject(reply);
    redisReaderFree(reader);
    return result;
}

/* Leases of a second: the bucket holds 9. A debt of 2 units, 1 taken, 2 granted: 4 are left. */
static void an_answer_is_worked_out(void **state)
{
    struct wr_remote_charge charge;
    struct wr_script_answer answer;

    (void)state;
    assert_int_equal(read_text("*3\r\n:1700006400000000\r\n:2\r\n:12000000\r\n", &charge, &answer),
                     WR_SCRIPT_DONE);
    assert_true(answer.passed && answer.now_ns == NOW_US * 1000);
    assert_true(charge.allowed && charge.granted == 2 && charge.lease_ns == WR_NS_PER_S);
    assert_int_equal(charge.remaining, 4);
    assert_true(charge.next_ns == 6 * WR_NS_PER_S && charge.reset_ns == 30 * WR_NS_PER_S);
    assert_true(charge.receipt[0] == NOW_US && charge.receipt[1] == 30000000);

    assert_int_equal(read_text("*3\r\n:1700006400000000\r\n:-1\r\n:54000001\r\n", &charge, &answer),
                     WR_SCRIPT_DONE);
    assert_true(!answer.passed && !charge.allowed && charge.remaining == 0 && !charge.never);
    assert_int_equal(charge.retry_after_ns, 6000001000);
}

static void nonsense_reaches_no_charge(void **state)
{
    static const char *const nonsense[] = {
        "*3\r\n:1700006400000000\r\n:0\r\n:54000001\r\n", /* allowed, above the capacity */
        "*3\r\n:1700006400000000\r\n:-1\r\n:1\r\n",       /* refused, with room */
        "*3\r\n:1700006400000000\r\n:5\r\n:0\r\n",        /* more granted than wanted */
        "*3\r\n:1700006400000000\r\n:4\r\n:36000000\r\n", /* more than is left */
        "*3\r\n:1700006400000000\r\n:-2\r\n:0\r\n",
        "*3\r\n:1700006400000000\r\n:0\r\n:-1\r\n",
        "*3\r\n:-1700006400000000\r\n:0\r\n:0\r\n",
        "*3\r\n:9223372036854775807\r\n:0\r\n:0\r\n",
        "*2\r\n:1700006400000000\r\n:0\r\n",
        "*4\r\n:1700006400000000\r\n:0\r\n:0\r\n:0\r\n",
        "*3\r\n:1700006400000000\r\n:0\r\n$1\r\n0\r\n",
        "*3\r\n:1700006400000000\r\n*0\r\n:0\r\n",
        "*3\r\n$-1\r\n:0\r\n:0\r\n",
        "*0\r\n",
        "*-1\r\n",
        "+OK\r\n",
        "-ERR no\r\n",
        ":1\r\n",
        "$-1\r\n",
    };
    struct wr_remote_charge charge;
    struct wr_script_answer answer;

    (void)state;
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        if (read_text(nonsense[i], &charge, &answer) != WR_SCRIPT_NONSENSE)
            fail_msg("believed: %s", nonsense[i]);
        assert_true(charge.remaining == 77 && !answer.passed && answer.now_ns == 0);
    }
    assert_int_equal(wr_script_read(&charge, 1, 1, 0, WR_SCRIPT_TAKE, NULL, &answer),
                     WR_SCRIPT_NONSENSE);
    assert_int_equal(read_text("*1\r\n:1700006400000000\r\n", &charge, &answer), WR_SCRIPT_AGAIN);
    assert_int_equal(answer.now_ns, NOW_US * 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_its_tag_in_braces),
        cmocka_unit_test(arguments_are_packed),
        cmocka_unit_test(the_greatest_call_fits),
        cmocka_unit_test(what_cannot_be_asked_is_refused),
        cmocka_unit_test(an_answer_is_worked_out),
        cmocka_unit_test(nonsense_reaches_no_charge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
