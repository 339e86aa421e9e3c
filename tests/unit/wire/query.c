/* Queries of request targets. */
#include "wire/query.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char scratch[256];

static struct wr_query over(const char *text)
{
    return (struct wr_query){.at = text, .end = text + strlen(text), .scratch = scratch};
}

static void expect(struct wr_query *query, const char *name, const char *value)
{
    struct weir_slice n, v;

    assert_true(wr_query_next(query, &n, &v));
    assert_int_equal(n.len, strlen(name));
    assert_memory_equal(n.ptr, name, n.len);
    assert_int_equal(v.len, strlen(value));
    assert_memory_equal(v.ptr, value, v.len);
}

static void expect_end(struct wr_query *query)
{
    struct weir_slice n, v;

    assert_false(wr_query_next(query, &n, &v));
    assert_null(query->error);
}

static void parameters(void **state)
{
    struct wr_query query = over("limit=per-ip&key=2001%3adb8%3A%3A1&user=a+b%2Bc&flag&=x&a=b=c");

    (void)state;
    expect(&query, "limit", "per-ip");
    expect(&query, "key", "2001:db8::1");
    expect(&query, "user", "a b+c");
    expect(&query, "flag", "");
    expect(&query, "", "x");
    expect(&query, "a", "b=c");
    expect_end(&query);
    expect_end(&query);
}

static void empty_ones_are_passed_over(void **state)
{
    struct wr_query query = over("&&a=&&b=2&");

    (void)state;
    expect(&query, "a", "");
    expect(&query, "b", "2");
    expect_end(&query);
    query = over("");
    expect_end(&query);
}

static void what_is_decoded_may_hold_anything(void **state)
{
    struct wr_query query = over("%26%3d=%3D%26");

    (void)state;
    expect(&query, "&=", "=&");
    expect_end(&query);
}

static void escapes_that_are_none(void **state)
{
    static const char *const bad[] = {"a=%", "a=%4", "a=%4g", "a=%g4", "%=1", "a=%%41", "a=% 41"};

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct wr_query query = over(bad[i]);
        struct weir_slice n, v;
        assert_false(wr_query_next(&query, &n, &v));
        assert_non_null(query.error);
        assert_int_equal(n.len, strlen(bad[i]));
        assert_int_equal(v.len, 0);
        assert_false(wr_query_next(&query, &n, &v)); /* and stays wrong */
    }
}

/* An escape cut by the end of its parameter is not completed by the next one's bytes. */
static void an_escape_ends_with_its_parameter(void **state)
{
    struct wr_query query = over("a=%4&1=2");
    struct weir_slice n, v;

    (void)state;
    assert_false(wr_query_next(&query, &n, &v));
    assert_non_null(query.error);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parameters),
                                       cmocka_unit_test(empty_ones_are_passed_over),
                                       cmocka_unit_test(what_is_decoded_may_hold_anything),
                                       cmocka_unit_test(escapes_that_are_none),
                                       cmocka_unit_test(an_escape_ends_with_its_parameter)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
