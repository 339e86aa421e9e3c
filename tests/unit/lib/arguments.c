/* arguments.c - what weir.h says of arguments out of their range. */
#include "../engine/fixture.h"

static struct weir *open_one(void)
{
    return open_text("version: 1\nlimits:\n  - {name: x, rate: 10/hour, algorithm: token-bucket}\n",
                     "");
}

static void open_refuses(const char *path, const struct weir_options *options, const char *text)
{
    struct weir *w = (struct weir *)1;
    char errors[200];

    assert_int_equal(weir_open(&w, path, options, errors, sizeof errors), WEIR_EINVAL);
    assert_null(w);
    assert_non_null(strstr(errors, text));
    assert_int_equal(weir_open(&w, path, options, NULL, 0), WEIR_EINVAL);
}

static void test_open(void **state)
{
    (void)state;
    open_refuses(NULL, NULL, "policy_path: expected a path, found NULL");
    open_refuses("x", &(struct weir_options){.flags = 7}, "options.flags: expected 0");
    open_refuses("x", &(struct weir_options){.arena_bytes = 1},
                 "options.arena_bytes: expected 0, or 1 MiB");
    open_refuses("x", &(struct weir_options){.arena_bytes = UINT64_MAX}, "options.arena_bytes");
}

#define YEAR_2200 (INT64_C(7258118400) * S)

/* One charge in the year 292277 would lock the key until then. */
static void test_moments(void **state)
{
    struct weir *w = open_one();
    struct weir_request request = {.cost_units = -1, .plan = -1};
    struct weir_verdict verdict;
    struct weir_answer answer;
    (void)state;

    assert_int_equal(weir_decide(w, &request, INT64_MAX, &answer), WEIR_EINVAL);
    assert_int_equal(weir_decide(w, &request, -1, &answer), WEIR_EINVAL);
    assert_int_equal(weir_decide(w, &request, YEAR_2200 + 1, &answer), WEIR_EINVAL);
    assert_int_equal(weir_check(w, 0, slice("k"), 1, -2, &verdict), WEIR_EINVAL);
    assert_int_equal(weir_check(w, 0, slice("k"), 1, WEIR_NOW, &verdict), 0);
    assert_int_equal(weir_decide(w, &request, 0, &answer), 0);
    assert_int_equal(weir_decide(w, &request, YEAR_2200, &answer), 0);
    weir_close(w);
}

static void test_numbers(void **state)
{
    struct weir *w = open_one();
    struct weir_request request = {.cost_units = WEIR_COST_MAX + 1, .plan = -1};
    struct weir_verdict verdict;
    struct weir_answer answer;
    (void)state;

    assert_int_equal(weir_decide(w, &request, T0, &answer), WEIR_EINVAL);
    request.cost_units = -2;
    assert_int_equal(weir_decide(w, &request, T0, &answer), WEIR_EINVAL);
    request.cost_units = 1;
    request.plan = 1; /* there is one plan, 0 */
    assert_int_equal(weir_decide(w, &request, T0, &answer), WEIR_EINVAL);
    request.plan = -1;
    request.field_count = 1; /* the policy asks for none */
    assert_int_equal(weir_decide(w, &request, T0, &answer), WEIR_EINVAL);
    assert_int_equal(weir_check(w, 1, slice("k"), 1, T0, &verdict), WEIR_EINVAL);
    assert_int_equal(weir_check(w, 0, slice("k"), -1, T0, &verdict), WEIR_EINVAL);
    weir_close(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_open), cmocka_unit_test(test_moments),
                                       cmocka_unit_test(test_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
