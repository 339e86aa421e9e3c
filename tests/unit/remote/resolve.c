/* resolve.c - lookups that take longer than whoever asked is patient. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "name_server.h"
#include "remote/resolve.h"

static void on_resolved(void *context, const char *error)
{
    assert_null(error);
    ++*(int *)context;
}

static void run_until(uv_loop_t *loop, const int *count, int wanted)
{
    while (*count < wanted)
        assert_true(uv_run(loop, UV_RUN_ONCE) != 0 || *count == wanted);
}

static void test_begun_again_while_it_runs(void **state)
{
    struct wr_resolve resolve = {0};
    int first = 0, second = 0;
    uv_loop_t loop;
    (void)state;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_true(wr_resolve_start(&resolve, &loop, "a.test", 1, on_resolved, &first));
    assert_true(wr_resolve_start(&resolve, &loop, "a.test", 1, on_resolved, &second));
    assert_int_equal(sem_post(&name_server_answers), 0);
    run_until(&loop, &second, 1);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0); /* nothing else is under way */
    assert_int_equal(first, 0);
    assert_int_equal(second, 1);
    assert_int_equal(name_server_asked, 1);
    assert_true(wr_resolve_more(&resolve));
    wr_resolve_free(&resolve);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void test_lists_are_freed(void **state)
{
    struct wr_resolve resolve = {0};
    uv_loop_t loop;
    (void)state;

    assert_int_equal(uv_loop_init(&loop), 0);
    for (int i = 0; i < 3; i++) {
        int count = 0;
        assert_int_equal(sem_post(&name_server_answers), 0);
        assert_true(wr_resolve_start(&resolve, &loop, "a.test", 1, on_resolved, &count));
        run_until(&loop, &count, 1);
        assert_int_equal(name_server_lists, 1);
    }
    assert_non_null(wr_resolve_next(&resolve));
    assert_false(wr_resolve_more(&resolve));
    wr_resolve_free(&resolve);
    assert_int_equal(name_server_lists, 0);
    assert_int_equal(uv_loop_close(&loop), 0);
}

static void on_cancelled(void *context, const char *error)
{
    assert_string_equal(error, "cancelled");
    ++*(int *)context;
}

/* Nobody waits for a name server that is silent; what it says at last is for who asks next, in
 * whichever loop. */
static void test_an_answer_that_comes_too_late(void **state)
{
    struct wr_resolve first = {0}, second = {0}, third = {0};
    int count = 0;
    uv_loop_t loop, other;
    (void)state;

    name_server_asked = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(uv_loop_init(&other), 0);
    assert_true(wr_resolve_start(&first, &loop, "slow.test", 1, on_cancelled, &count));
    while (name_server_asked == 0)
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    wr_resolve_cancel(&first);
    assert_int_equal(count, 0); /* never from within */
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(count, 1);
    count = 0;
    assert_true(wr_resolve_start(&second, &other, "slow.test", 1, on_resolved, &count));
    assert_int_equal(sem_post(&name_server_answers), 0);
    run_until(&other, &count, 1);
    assert_true(wr_resolve_start(&third, &loop, "slow.test", 1, on_resolved, &count));
    run_until(&loop, &count, 2);
    assert_int_equal(name_server_asked, 1);
    assert_true(wr_resolve_more(&third));
    wr_resolve_free(&second);
    wr_resolve_free(&third);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(uv_loop_close(&other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begun_again_while_it_runs),
        cmocka_unit_test(test_lists_are_freed),
        cmocka_unit_test(test_an_answer_that_comes_too_late),
    };

    return sem_init(&name_server_answers, 0, 0) != 0 ? 1
                                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
