/* queue.c - deadlines in queues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "serve/queue.h"

static struct wr_queues queues_of(uint64_t first, uint64_t second)
{
    struct wr_queues queues = {0};

    queues.queue[0].after_ms = first;
    queues.queue[1].after_ms = second;
    return queues;
}

static void test_due_in_order(void **state)
{
    struct wr_queues queues = queues_of(100, 30);
    struct wr_queued a, b, c;
    unsigned queue;
    (void)state;

    wr_queued_init(&a);
    wr_queued_init(&b);
    wr_queued_init(&c);
    assert_true(wr_queue_next(&queues) == WR_NO_DEADLINE);
    wr_queue_wait(&queues, &a, 0, 1000);
    wr_queue_wait(&queues, &b, 0, 1010);
    wr_queue_wait(&queues, &c, 1, 1020);
    assert_int_equal(wr_queue_next(&queues), 1050);
    assert_null(wr_queue_due(&queues, 1049, &queue));
    assert_ptr_equal(wr_queue_due(&queues, 1050, &queue), &c);
    assert_int_equal(queue, 1);
    assert_int_equal(wr_queue_next(&queues), 1100);
    assert_ptr_equal(wr_queue_due(&queues, 2000, &queue), &a);
    assert_ptr_equal(wr_queue_due(&queues, 2000, &queue), &b);
    assert_int_equal(queue, 0);
    assert_null(wr_queue_due(&queues, 2000, &queue));
}

static void test_waiting_anew_moves_the_deadline(void **state)
{
    struct wr_queues queues = queues_of(100, 30);
    struct wr_queued a, b, c;
    unsigned queue;
    (void)state;

    wr_queued_init(&a);
    wr_queued_init(&b);
    wr_queued_init(&c);
    wr_queue_wait(&queues, &a, 0, 1000);
    wr_queue_wait(&queues, &b, 0, 1001);
    wr_queue_wait(&queues, &c, 0, 1002);
    wr_queue_wait(&queues, &b, 0, 1050); /* from the middle to the end */
    wr_queue_wait(&queues, &a, 1, 1090); /* from the front into another */
    assert_ptr_equal(wr_queue_due(&queues, 1102, &queue), &c);
    assert_ptr_equal(wr_queue_due(&queues, 1120, &queue), &a);
    assert_null(wr_queue_due(&queues, 1149, &queue));
    wr_queue_leave(&queues, &b);
    wr_queue_leave(&queues, &b); /* twice is no harm */
    assert_true(wr_queue_next(&queues) == WR_NO_DEADLINE);
}

static void test_a_time_of_zero_is_never_due(void **state)
{
    struct wr_queues queues = queues_of(0, 30);
    struct wr_queued a;
    unsigned queue;
    (void)state;

    wr_queued_init(&a);
    wr_queue_wait(&queues, &a, 1, 1000);
    wr_queue_wait(&queues, &a, 0, 1000);
    assert_int_equal(a.queue, -1);
    assert_null(wr_queue_due(&queues, UINT64_MAX - 1, &queue));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_due_in_order),
        cmocka_unit_test(test_waiting_anew_moves_the_deadline),
        cmocka_unit_test(test_a_time_of_zero_is_never_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
