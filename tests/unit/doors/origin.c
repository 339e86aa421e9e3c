/* Requests on behalf of other web sites. */
#include "doors/origin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

/* NULL: no such field. */
static bool is_own(const char *host, const char *origin)
{
    static struct wr_http_request request;

    request.field_count = 0;
    if (host != NULL)
        request.field[request.field_count++] = (struct wr_http_field){slice("Host"), slice(host)};
    if (origin != NULL)
        request.field[request.field_count++] =
            (struct wr_http_field){slice("Origin"), slice(origin)};
    return wr_origin_is_own(&request);
}

static void programs(void **state)
{
    (void)state;
    assert_true(is_own("127.0.0.1:9180", NULL));
    assert_true(is_own("127.0.0.1", NULL));
    assert_true(is_own("[::1]:9180", NULL));
    assert_true(is_own("[::1]", NULL));
    assert_true(is_own("localhost:9180", NULL));
    assert_true(is_own("LocalHost", NULL));
    assert_true(is_own(NULL, NULL)); /* HTTP/1.0 */
    assert_true(is_own("", NULL));
}

static void names_that_may_be_lent(void **state)
{
    (void)state;
    assert_false(is_own("evil.example:9180", NULL));
    assert_false(is_own("localhost.evil.example", NULL));
    assert_false(is_own("127.0.0.1.evil.example", NULL));
    assert_false(is_own("xlocalhost", NULL));
    assert_false(is_own(":9180", NULL));
}

static void pages(void **state)
{
    (void)state;
    assert_true(is_own("127.0.0.1:9180", "http://127.0.0.1:9180"));
    assert_true(is_own("localhost:9180", "https://localhost:9180"));
    assert_false(is_own("127.0.0.1:9180", "http://127.0.0.1:8080"));
    assert_false(is_own("127.0.0.1:9180", "http://evil.example"));
    assert_false(is_own("127.0.0.1:9180", "http://127.0.0.1:9180.evil.example"));
    assert_false(is_own("127.0.0.1:9180", "null"));
    assert_false(is_own("127.0.0.1:9180", ""));
    assert_false(is_own(NULL, "http://127.0.0.1:9180"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(programs),
                                       cmocka_unit_test(names_that_may_be_lent),
                                       cmocka_unit_test(pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
