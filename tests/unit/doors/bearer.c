/* The admin door's key. */
#include "doors/bearer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define TOKEN "0123456789abcdef"

static struct weir_slice slice(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static enum wr_bearer look(const char *value)
{
    static struct wr_http_request request;

    request.field_count = 2;
    request.field[0] = (struct wr_http_field){slice("Host"), slice("x")};
    request.field[1] = (struct wr_http_field){slice("AUTHORIZATION"), slice(value)};
    return wr_bearer_look(&request, TOKEN);
}

static void the_token(void **state)
{
    (void)state;
    assert_int_equal(look("Bearer " TOKEN), WR_BEARER_GOOD);
    assert_int_equal(look("bearer " TOKEN), WR_BEARER_GOOD); /* schemes have no case */
    assert_int_equal(look("Bearer   " TOKEN), WR_BEARER_GOOD);
}

/* Each byte of it counts, and so does its length. */
static void other_tokens(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof TOKEN - 1; i++) {
        char value[] = "Bearer " TOKEN;
        value[7 + i] ^= 1;
        assert_int_equal(look(value), WR_BEARER_WRONG);
    }
    assert_int_equal(look("Bearer " TOKEN TOKEN), WR_BEARER_WRONG);
    assert_int_equal(look("Bearer " TOKEN "0"), WR_BEARER_WRONG);
    assert_int_equal(look("Bearer 0123456789abcde"), WR_BEARER_WRONG);
    assert_int_equal(look("Bearer 0123456789ABCDEF"), WR_BEARER_WRONG);
    assert_int_equal(look("Bearer " TOKEN " "), WR_BEARER_WRONG);
    assert_int_equal(look("Bearer x"), WR_BEARER_WRONG);
}

static void no_token(void **state)
{
    (void)state;
    assert_int_equal(look(""), WR_BEARER_MISSING);
    assert_int_equal(look("Bearer"), WR_BEARER_MISSING);
    assert_int_equal(look("Bearer "), WR_BEARER_MISSING);
    assert_int_equal(look("Basic " TOKEN), WR_BEARER_MISSING);
    assert_int_equal(look("Bearer" TOKEN), WR_BEARER_MISSING);
    assert_int_equal(look(TOKEN), WR_BEARER_MISSING);
}

static void fields_that_are_missing_or_given_twice(void **state)
{
    static struct wr_http_request request;

    (void)state;
    assert_int_equal(wr_bearer_look(&request, TOKEN), WR_BEARER_MISSING);
    request.field_count = 2;
    request.field[0] = request.field[1] =
        (struct wr_http_field){slice("Authorization"), slice("Bearer " TOKEN)};
    assert_int_equal(wr_bearer_look(&request, TOKEN), WR_BEARER_MISSING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_token), cmocka_unit_test(other_tokens),
                                       cmocka_unit_test(no_token),
                                       cmocka_unit_test(fields_that_are_missing_or_given_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
