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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begun_again_while_it_runs),
        cmocka_unit_test(test_lists_are_freed),
    };

    return sem_init(&name_server_answers, 0, 0) != 0 ? 1
                                                     : cmocka_run_group_tests(tests, NULL, NULL);
}
