/* redis_slots.c - answers to CLUSTER SLOTS, good and bad, as bytes through hiredis's reader. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "remote/redis_slots.h"

static redisReply *parse(const char *bytes)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;

    assert_non_null(reader);
    assert_int_equal(redisReaderFeed(reader, bytes, strlen(bytes)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
    assert_non_null(reply);
    redisReaderFree(reader);
    return reply;
}

static void expect(const struct wr_redis_range *range, unsigned first, unsigned last,
                   const char *host, unsigned port)
{
    assert_int_equal(range->first, first);
    assert_int_equal(range->last, last);
    assert_int_equal(range->port, port);
    if (host == NULL)
        assert_null(range->host);
    else
        assert_string_equal(range->host, host);
}

static void test_ranges_one_after_the_other(void **state)
{
    /* 0-5460 at 10.0.0.1:7000 with a replica; 5461-16383 at an unknown host, port 7001; the same
     * with an empty one. */
    redisReply *reply = parse("*3\r\n"
                              "*4\r\n:0\r\n:5460\r\n"
                              "*3\r\n$8\r\n10.0.0.1\r\n:7000\r\n$1\r\na\r\n"
                              "*3\r\n$8\r\n10.0.0.2\r\n:7002\r\n$1\r\nb\r\n"
                              "*3\r\n:5461\r\n:16382\r\n*2\r\n$-1\r\n:7001\r\n"
                              "*3\r\n:16383\r\n:16383\r\n*2\r\n$0\r\n\r\n:7003\r\n");
    struct wr_redis_range range;
    uint64_t index = 0;
    (void)state;

    assert_true(wr_redis_slots_next(reply, &index, &range));
    expect(&range, 0, 5460, "10.0.0.1", 7000);
    assert_true(wr_redis_slots_next(reply, &index, &range));
    expect(&range, 5461, 16382, NULL, 7001);
    assert_true(wr_redis_slots_next(reply, &index, &range));
    expect(&range, 16383, 16383, NULL, 7003);
    assert_false(wr_redis_slots_next(reply, &index, &range));
    freeReplyObject(reply);
}

static void test_what_makes_no_sense_is_left_out(void **state)
{
    static const char *const bad[] = {
        ":1\r\n",
        "*-1\r\n",
        "*1\r\n:5\r\n",
        "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:-1\r\n:3\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:5\r\n:4\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:0\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n:7\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*1\r\n$1\r\na\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*0\r\n",
        "*1\r\n*3\r\n$1\r\n0\r\n:1\r\n*2\r\n$1\r\na\r\n:1\r\n",
    };
    struct wr_redis_range range;
    (void)state;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redisReply *reply = parse(bad[i]);
        uint64_t index = 0;
        assert_false(wr_redis_slots_next(reply, &index, &range));
        freeReplyObject(reply);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges_one_after_the_other),
        cmocka_unit_test(test_what_makes_no_sense_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
