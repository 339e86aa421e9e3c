/* customerjson.c - bodies of changes to a customer, and the walk over such bodies (jsonbody.c). */
#include "wire/customerjson.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static char scratch[512];

static bool read_body(struct wr_customer_body *out, const char *text)
{
    return wr_customer_body_read(out, (struct weir_slice){text, strlen(text)}, scratch);
}

static void is(struct weir_slice got, const char *wanted)
{
    assert_non_null(got.ptr);
    assert_int_equal(got.len, strlen(wanted));
    assert_memory_equal(got.ptr, wanted, got.len);
}

static void whole_ones(void **state)
{
    struct wr_customer_body body;
    (void)state;

    assert_true(read_body(&body, "{}"));
    assert_null(body.name.ptr);
    assert_int_equal(body.anchor, -1);
    assert_int_equal(body.partner, -1);
    assert_true(read_body(&body, " {\"name\":\"a\\u00e9\",\"tenant\":\"\",\"anchor\":31,"
                                 "\"partner\":true,\"suspended\":false,\"key\":true} "));
    is(body.name, "a\xc3\xa9");
    is(body.tenant, "");
    assert_int_equal(body.anchor, 31);
    assert_int_equal(body.partner, 1);
    assert_int_equal(body.suspended, 0);
    assert_int_equal(body.key, 1);
    assert_int_equal(body.ended, -1);
    assert_true(read_body(&body, "{\"ended\":false}"));
    assert_int_equal(body.ended, 0);
    assert_true(read_body(&body, "{\"anchor\":null}"));
    assert_int_equal(body.anchor, 0);
    assert_true(read_body(&body, "{\"identity\":\"user\",\"value\":\"x\",\"prefix\":\"p\","
                                 "\"plan\":\"pro\",\"trial_plan\":\"g\",\"trial_until\":\"u\","
                                 "\"trial_for\":\"f\",\"reason\":\"r\"}"));
    is(body.value, "x");
    is(body.trial_until, "u");
    is(body.trial_for, "f");
    is(body.reason, "r");
}

static void refused(const char *text, const char *error, const char *member)
{
    struct wr_customer_body body;

    assert_false(read_body(&body, text));
    assert_non_null(body.error);
    if (error != NULL)
        assert_string_equal(body.error, error);
    assert_int_equal(body.member.len, strlen(member));
    assert_memory_equal(body.member.ptr != NULL ? body.member.ptr : "", member, strlen(member));
}

static void others(void **state)
{
    static const char day[] = "expected a day of the month, 1 to 31, or null";
    (void)state;

    refused("", NULL, "");
    refused("[]", NULL, "");
    refused("{} {}", NULL, "");
    refused("{\"name\":\"a\"", NULL, "");
    refused("{\"name\":\"\xff\"}", "the body is not UTF-8", "");
    refused("{\"nmae\":\"a\"}", "no such member", "nmae");
    refused("{\"name\":1}", "expected a string", "name");
    refused("{\"name\":{\"a\":[1]}}", "expected a string", "name");
    refused("{\"name\":\"a\\u0000\"}", "expected a text without NUL", "name");
    refused("{\"name\":\"\",\"name\":\"\"}", "given twice", "name");
    refused("{\"anchor\":1,\"anchor\":1}", "given twice", "anchor");
    refused("{\"key\":false,\"key\":false}", "given twice", "key");
    refused("{\"anchor\":0}", day, "anchor");
    refused("{\"anchor\":32}", day, "anchor");
    refused("{\"anchor\":-1}", day, "anchor");
    refused("{\"anchor\":1e1}", day, "anchor");
    refused("{\"anchor\":\"1\"}", day, "anchor");
    refused("{\"partner\":1}", "expected true or false", "partner");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(whole_ones), cmocka_unit_test(others)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
