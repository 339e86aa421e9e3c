/* redis_reader.c - replies in pieces, and what claims to be too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "remote/redis_reader.h"

static void test_replies_byte_by_byte(void **state)
{
    static const char bytes[] = "*2\r\n:7\r\n$3\r\nabc\r\n+OK\r\n";
    struct wr_redis_reader reader;
    redisReply *reply;
    unsigned replies = 0;
    (void)state;

    assert_true(wr_redis_reader_init(&reader));
    for (size_t i = 0; i < sizeof bytes - 1; i++) {
        assert_null(wr_redis_reader_feed(&reader, bytes + i, 1));
        assert_null(wr_redis_reader_next(&reader, &reply));
        if (reply == NULL)
            continue;
        assert_int_equal(reply->type, replies == 0 ? REDIS_REPLY_ARRAY : REDIS_REPLY_STATUS);
        replies++;
        freeReplyObject(reply);
    }
    assert_int_equal(replies, 2);
    wr_redis_reader_fini(&reader);
}

static const char *wrong_with(const char *bytes)
{
    static char text[128];
    struct wr_redis_reader reader;
    redisReply *reply;
    const char *wrong;

    assert_true(wr_redis_reader_init(&reader));
    wrong = wr_redis_reader_feed(&reader, bytes, strlen(bytes));
    if (wrong == NULL)
        wrong = wr_redis_reader_next(&reader, &reply);
    if (wrong == NULL) {
        wr_redis_reader_fini(&reader);
        return NULL;
    }
    strncpy(text, wrong, sizeof text - 1);
    wr_redis_reader_fini(&reader);
    return text;
}

static void test_arrays_that_claim_too_much(void **state)
{
    (void)state;
    assert_null(wrong_with("*20000\r\n"));
    assert_non_null(wrong_with("*20001\r\n"));
    assert_non_null(wrong_with("*1\r\n*2147483647\r\n"));
}

static void test_a_reply_that_never_ends(void **state)
{
    struct wr_redis_reader reader;
    const char *wrong = NULL;
    char *bytes = calloc(1, 1 << 20);
    unsigned fed = 0;
    (void)state;

    assert_non_null(bytes);
    assert_true(wr_redis_reader_init(&reader));
    assert_null(wr_redis_reader_feed(&reader, "$500000000\r\n", 12));
    while (wrong == NULL && fed < 20) {
        redisReply *reply;
        assert_null(wr_redis_reader_feed(&reader, bytes, 1 << 20));
        wrong = wr_redis_reader_next(&reader, &reply);
        assert_null(reply);
        fed++;
    }
    assert_int_equal(fed, 8); /* 8 MiB and the 12 bytes before them are too many */
    wr_redis_reader_fini(&reader);
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replies_byte_by_byte),
        cmocka_unit_test(test_arrays_that_claim_too_much),
        cmocka_unit_test(test_a_reply_that_never_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
