/* redis_ticket.c - in which order the groups of a call are asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/redis_store.h"

static const struct wr_limit window = {.algo = WR_FIXED_WINDOW}, leaky = {.algo = WR_LEAKY_BUCKET};

static int weight(const struct wr_limit *const *limits, unsigned count, uint32_t shadow)
{
    static struct wr_remote_call call;
    const struct wr_redis_ticket ticket = {.call = &call};

    call = (struct wr_remote_call){.count = count, .shadow = shadow};
    for (unsigned i = 0; i < count; i++)
        call.charge[i].limit = limits[i];
    return wr_redis_ticket_weight(&ticket, (UINT32_C(1) << count) - 1);
}

static void test_the_order(void **state)
{
    const struct wr_limit *all[WEIR_LIMITS_MAX], *queues[] = {&leaky, &window};
    int most, two, one, queue;
    (void)state;

    for (unsigned i = 0; i < WEIR_LIMITS_MAX; i++)
        all[i] = &window;
    most = weight(all, WEIR_LIMITS_MAX, 0);
    two = weight(all, 2, 0);
    one = weight(all, 2, 1); /* one of them decides */
    queue = weight(queues, 2, 0);
    assert_true(most > two && two > one);
    assert_true(one > queue + WEIR_LIMITS_MAX * WEIR_LIMITS_MAX); /* a ring's own come first */
    assert_true(weight(queues, 2, 1) > queue + WEIR_LIMITS_MAX * WEIR_LIMITS_MAX);
    assert_true(queue >
                weight(all, WEIR_LIMITS_MAX, UINT16_MAX) + WEIR_LIMITS_MAX * WEIR_LIMITS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
