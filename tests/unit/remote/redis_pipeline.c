/* redis_pipeline.c - replies find who waits for them, through growth and wrapping round. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "remote/redis_pipeline.h"

static void on_reply(void *context, struct wr_redis_link *link, const struct redisReply *reply)
{
    (void)context;
    (void)link;
    (void)reply;
}

static bool add(struct wr_redis_pipeline *pipeline, uintptr_t number)
{
    return wr_redis_pipeline_add(pipeline, "ab", 2,
                                 (struct wr_redis_waiting){on_reply, (void *)number});
}

static void test_in_order_through_growth(void **state)
{
    struct wr_redis_pipeline pipeline = {0};
    uintptr_t in = 0, out = 0;
    (void)state;

    /* Three in, two out: the ring wraps at 64, and grows while wrapped. */
    for (int i = 0; i < 1000; i++) {
        for (int j = 0; j < 3; j++)
            assert_true(add(&pipeline, in++));
        for (int j = 0; j < 2; j++)
            assert_int_equal((uintptr_t)wr_redis_pipeline_shift(&pipeline).context, out++);
    }
    assert_int_equal(pipeline.count, 1000);
    while (pipeline.count > 0)
        assert_int_equal((uintptr_t)wr_redis_pipeline_shift(&pipeline).context, out++);
    assert_int_equal(out, in);
    assert_int_equal(pipeline.sent, 3000);
    assert_int_equal(pipeline.out_len, 6000);
    wr_redis_pipeline_free(&pipeline);
}

static void test_bytes_as_they_came(void **state)
{
    struct wr_redis_pipeline pipeline = {0};
    struct wr_redis_waiting waiting = {on_reply, NULL};
    char *big = malloc(300000), *out;
    (void)state;

    assert_non_null(big);
    memset(big, 'x', 300000);
    assert_true(wr_redis_pipeline_add(&pipeline, "abc", 3, waiting));
    assert_true(wr_redis_pipeline_add(&pipeline, big, 300000, waiting));
    assert_int_equal(pipeline.out_len, 300003);
    assert_memory_equal(pipeline.out, "abcx", 4);
    out = wr_redis_pipeline_detach(&pipeline);
    assert_int_equal(out[300002], 'x');
    assert_null(pipeline.out);
    assert_int_equal(pipeline.count, 2); /* they still wait */
    assert_true(wr_redis_pipeline_add(&pipeline, "d", 1, waiting));
    assert_int_equal(pipeline.out_len, 1);
    wr_redis_pipeline_written(&pipeline);
    assert_int_equal(pipeline.out_len, 0);
    assert_non_null(pipeline.out);
    assert_true(wr_redis_pipeline_add(&pipeline, big, 300000, waiting));
    wr_redis_pipeline_written(&pipeline); /* a large one is not kept */
    assert_null(pipeline.out);
    free(out);
    free(big);
    wr_redis_pipeline_free(&pipeline);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_through_growth),
        cmocka_unit_test(test_bytes_as_they_came),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
