/* redis_slot.c - keys to slots; the values of the Redis Cluster Specification and of a real
 * server's CLUSTER KEYSLOT. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "remote/redis_slot.h"

static unsigned slot(const char *key)
{
    return wr_redis_slot(key, strlen(key));
}

static void test_the_check_value(void **state)
{
    (void)state;
    assert_int_equal(slot("123456789"), 0x31C3 % 16384);
    assert_int_equal(slot(""), 0);
    assert_int_equal(slot("foo"), 12182);
}

static void test_only_the_first_tag_counts(void **state)
{
    (void)state;
    assert_int_equal(slot("u1"), 4574);
    assert_int_equal(slot("{u1}.a"), 4574);
    assert_int_equal(slot("a{u1}{x}"), 4574);
    assert_int_equal(slot("weir:{u1}:per-key"), 4574);
}

static void test_an_empty_or_open_tag_is_none(void **state)
{
    (void)state;
    assert_int_equal(slot("{}.b"), 12094);
    assert_int_not_equal(slot("{u1"), 4574);
    assert_int_not_equal(slot("}u1{"), 4574);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_check_value),
        cmocka_unit_test(test_only_the_first_tag_counts),
        cmocka_unit_test(test_an_empty_or_open_tag_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
