/* calendar.c - what callers are told of windows of the calendar. Lengths worked out by hand: in
 * Berlin clocks went forward on Sunday, 2026-03-29. */
#include "../engine/fixture.h"

#define MOMENT (T0 + (87 * INT64_C(86400) + 36000) * S) /* 2026-03-29T10:00:00Z */

static void check_told(const char *per, const char *policy_field, const char *detail)
{
    char text[400], buffer[WEIR_HEADERS_BYTES], body[WEIR_PROBLEM_BYTES];
    struct weir_header headers[WEIR_HEADERS_MAX];
    struct weir_slice fields[FIELDS_MAX];
    struct weir_answer answer;
    struct weir_request request;
    struct weir *w;
    int count, at = 0;

    (void)snprintf(text, sizeof text,
                   "version: 1\nlimits:\n  - {name: q, by: [ip], quota: {limit: 1, per: %s, zone: "
                   "Europe/Berlin}}\n",
                   per);
    w = open_text(text, "");
    request = request_of(w, &(struct call){.cost = 0}, fields);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_decide(w, &request, MOMENT, &answer), 0);
    assert_int_equal(answer.outcome, WEIR_DENY);
    count = weir_answer_headers(w, &answer, WEIR_HEADERS_DRAFT_11, headers, buffer, sizeof buffer);
    while (at < count && strcmp(headers[at].name, "RateLimit-Policy") != 0)
        at++;
    assert_true(at < count);
    assert_int_equal(headers[at].value.len, strlen(policy_field));
    assert_memory_equal(headers[at].value.ptr, policy_field, strlen(policy_field));
    assert_true(weir_answer_problem(w, &answer, 429, body, sizeof body) > 0);
    assert_non_null(strstr(body, detail));
    weir_close(w);
}

static void test_windows(void **state)
{
    (void)state;
    check_told("day", "\"q\";q=1;w=82800", "\"detail\":\"1 request per day; ");
    check_told("week", "\"q\";q=1;w=601200", "\"detail\":\"1 request per week; ");
    check_told("month", "\"q\";q=1;w=2674800", "\"detail\":\"1 request per month; ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_windows)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
