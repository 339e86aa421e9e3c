/* Response fields against strings written by hand: the one state of docs/headers.md in every
 * preset, and the corners. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/units.h"
#include "wire/fields.h"

#define NOW_NS (INT64_C(1790000000) * WR_NS_PER_S)

/* 60 per minute with 12 left, 5000 per day with 100 left. */
static struct wr_standings two_windows(void)
{
    struct wr_standings s = {.count = 2, .decisive = 0, .now_ns = NOW_NS};

    s.item[0] = (struct wr_standing){.name = "min",
                                     .quota_units = 60,
                                     .remaining_units = 12,
                                     .window_ns = 60 * WR_NS_PER_S,
                                     .next_ns = 20 * WR_NS_PER_S,
                                     .reset_ns = 20 * WR_NS_PER_S};
    s.item[1] = (struct wr_standing){.name = "day",
                                     .quota_units = 5000,
                                     .remaining_units = 100,
                                     .window_ns = 86400 * WR_NS_PER_S,
                                     .next_ns = 36000 * WR_NS_PER_S,
                                     .reset_ns = 36000 * WR_NS_PER_S};
    return s;
}

/* All fields as "Name: value\n". */
static const char *render(const struct wr_standings *standings, unsigned families)
{
    static char text[WEIR_HEADERS_BYTES * 2];
    char buffer[WEIR_HEADERS_BYTES];
    struct weir_header out[WEIR_HEADERS_MAX];
    int n = wr_fields_write(standings, families, out, buffer, sizeof buffer);

    assert_true(n >= 0 && n <= WEIR_HEADERS_MAX);
    text[0] = '\0';
    for (int i = 0; i < n; i++) {
        strcat(text, out[i].name);
        strcat(text, ": ");
        strncat(text, out[i].value.ptr, out[i].value.len);
        strcat(text, "\n");
    }
    return text;
}

static void test_one_state_in_every_preset(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_03),
                        "RateLimit-Limit: 60, 60;w=60, 5000;w=86400\n"
                        "RateLimit-Remaining: 12\n"
                        "RateLimit-Reset: 20\n");
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_06),
                        "RateLimit-Policy: 60;w=60, 5000;w=86400\n"
                        "RateLimit-Limit: 60\n"
                        "RateLimit-Remaining: 12\n"
                        "RateLimit-Reset: 20\n");
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_07),
                        "RateLimit-Policy: 60;w=60, 5000;w=86400\n"
                        "RateLimit: limit=60, remaining=12, reset=20\n");
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_11),
                        "RateLimit-Policy: \"min\";q=60;w=60, \"day\";q=5000;w=86400\n"
                        "RateLimit: \"min\";r=12;t=20, \"day\";r=100;t=36000\n");
    assert_string_equal(render(&s, WEIR_HEADERS_X), "X-RateLimit-Limit: 60\n"
                                                    "X-RateLimit-Remaining: 12\n"
                                                    "X-RateLimit-Reset: 1790000020\n");
    assert_string_equal(render(&s, WEIR_HEADERS_X_DELTA), "X-RateLimit-Limit: 60\n"
                                                          "X-RateLimit-Remaining: 12\n"
                                                          "X-RateLimit-Reset: 20\n");
}

/* A bucket of 10 that refills 5 a second: next unit in 0.13 s, whole in 1.93 s. */
static struct wr_standings empty_bucket(void)
{
    struct wr_standings s = {
        .count = 1, .now_ns = NOW_NS, .denied = true, .retry_after_ns = 130 * WR_NS_PER_MS};

    s.item[0] = (struct wr_standing){.name = "burst",
                                     .quota_units = 10,
                                     .next_ns = 130 * WR_NS_PER_MS,
                                     .reset_ns = 1930 * WR_NS_PER_MS,
                                     .violated = true};
    return s;
}

static void test_a_refused_bucket(void **state)
{
    struct wr_standings s = empty_bucket();
    (void)state;

    assert_string_equal(render(&s, WEIR_HEADERS_DEFAULT), "Retry-After: 1\n"
                                                          "Cache-Control: no-store\n"
                                                          "X-RateLimit-Limit: 10\n"
                                                          "X-RateLimit-Remaining: 0\n"
                                                          "X-RateLimit-Reset: 1790000002\n"
                                                          "RateLimit-Policy: \"burst\";q=10\n"
                                                          "RateLimit: \"burst\";r=0;t=1\n");
    /* The integer drafts want a window, so there is no policy to list. */
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_07),
                        "Retry-After: 1\nCache-Control: no-store\n"
                        "RateLimit: limit=10, remaining=0, reset=2\n");
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_03),
                        "Retry-After: 1\nCache-Control: no-store\nRateLimit-Limit: 10\n"
                        "RateLimit-Remaining: 0\nRateLimit-Reset: 2\n");
}

/* Places have no window: 5000;w=86400 behind their number would be another limit's quota. */
static void test_places_have_no_quota_policy(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.item[s.decisive].concurrent = true;
    s.item[s.decisive].window_ns = 0;
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_03), "RateLimit-Limit: 60\n"
                                                           "RateLimit-Remaining: 12\n"
                                                           "RateLimit-Reset: 20\n");
}

static void test_a_refusal_lists_the_violated(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.denied = true;
    s.retry_after_ns = 12 * WR_NS_PER_S + 1;
    s.item[0].remaining_units = 0;
    s.item[0].violated = true;
    /* t is the next unit (20 s) but never after Retry-After (13 s). */
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_11),
                        "Retry-After: 13\nCache-Control: no-store\n"
                        "RateLimit-Policy: \"min\";q=60;w=60, \"day\";q=5000;w=86400\n"
                        "RateLimit: \"min\";r=0;t=13\n");
}

static void test_never(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.denied = true;
    s.retry_after_ns = WEIR_NEVER;
    s.item[1].violated = true;
    s.item[1].next_ns = 0;
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_11),
                        "Cache-Control: no-store\n"
                        "RateLimit-Policy: \"min\";q=60;w=60, \"day\";q=5000;w=86400\n"
                        "RateLimit: \"day\";r=100\n");
    s.count = 0; /* a ban: no limit to speak of */
    assert_string_equal(render(&s, WEIR_HEADERS_DEFAULT), "Cache-Control: no-store\n");
    s.denied = false;
    assert_string_equal(render(&s, WEIR_HEADERS_DEFAULT), "");
}

static void test_windows_that_are_none(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.item[0].window_ns = 1500 * WR_NS_PER_MS; /* not whole seconds */
    s.item[1].window_ns = 0;
    s.item[1].concurrent = true;
    s.item[1].next_ns = 0; /* nothing in use */
    assert_string_equal(
        render(&s, WEIR_HEADERS_DRAFT_11),
        "RateLimit-Policy: \"min\";q=60, \"day\";q=5000;qu=\"concurrent-requests\"\n"
        "RateLimit: \"min\";r=12;t=20, \"day\";r=100\n");
}

/* -06 and -07 forbid two policies of one quota in a list. */
static void test_equal_quotas(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.item[1].quota_units = 60;
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_07),
                        "RateLimit-Policy: 60;w=60\nRateLimit: limit=60, remaining=12, reset=20\n");
}

static void test_names_are_sent_once(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_06 | WEIR_HEADERS_DRAFT_07 | WEIR_HEADERS_X |
                                       WEIR_HEADERS_X_DELTA),
                        "X-RateLimit-Limit: 60\n"
                        "X-RateLimit-Remaining: 12\n"
                        "X-RateLimit-Reset: 1790000020\n"
                        "RateLimit-Policy: 60;w=60, 5000;w=86400\n"
                        "RateLimit-Limit: 60\n"
                        "RateLimit-Remaining: 12\n"
                        "RateLimit-Reset: 20\n"
                        "RateLimit: limit=60, remaining=12, reset=20\n");
}

static void test_numbers_are_clamped(void **state)
{
    struct wr_standings s = two_windows();
    (void)state;

    s.count = 1;
    s.item[0].quota_units = INT64_MAX;
    s.item[0].remaining_units = -5;
    s.item[0].next_ns = INT64_MAX;
    s.item[0].reset_ns = INT64_MAX;
    s.item[0].window_ns = 0;
    assert_string_equal(render(&s, WEIR_HEADERS_DRAFT_11),
                        "RateLimit-Policy: \"min\";q=999999999999999\n"
                        "RateLimit: \"min\";r=0;t=9223372037\n");
    assert_string_equal(render(&s, WEIR_HEADERS_X), "X-RateLimit-Limit: 999999999999999\n"
                                                    "X-RateLimit-Remaining: 0\n"
                                                    "X-RateLimit-Reset: 9223372037\n");
}

static void test_every_length_of_number(void **state)
{
    struct wr_standings s = two_windows();
    int64_t power = 1;
    char expected[64];
    (void)state;

    s.count = 1;
    for (int digits = 1; digits <= 15; digits++, power *= 10) {
        s.item[0].quota_units = power;
        (void)snprintf(expected, sizeof expected, "X-RateLimit-Limit: 1%0*d\n", digits - 1, 0);
        if (digits == 1)
            (void)snprintf(expected, sizeof expected, "X-RateLimit-Limit: 1\n");
        assert_memory_equal(render(&s, WEIR_HEADERS_X), expected, strlen(expected));
        s.item[0].quota_units = power * 10 - 1;
        memset(expected, '9', sizeof expected);
        memcpy(expected, "X-RateLimit-Limit: ", 19);
        expected[19 + digits] = '\n';
        assert_memory_equal(render(&s, WEIR_HEADERS_X), expected, 20 + (size_t)digits);
    }
}

/* A refusal never says "now". */
static void test_no_zero_with_a_refusal(void **state)
{
    struct wr_standings s = empty_bucket();
    (void)state;

    s.retry_after_ns = 1;
    s.item[0].next_ns = 1;
    s.item[0].reset_ns = 0;
    assert_string_equal(render(&s, WEIR_HEADERS_X_DELTA | WEIR_HEADERS_DRAFT_11),
                        "Retry-After: 1\nCache-Control: no-store\nX-RateLimit-Limit: 10\n"
                        "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1\n"
                        "RateLimit-Policy: \"burst\";q=10\nRateLimit: \"burst\";r=0;t=1\n");
    assert_string_equal(strstr(render(&s, WEIR_HEADERS_X), "X-RateLimit-Reset"),
                        "X-RateLimit-Reset: 1790000001\n");
}

static void test_expose(void **state)
{
    struct wr_standings s = empty_bucket();
    (void)state;

    s.expose = true;
    assert_string_equal(strstr(render(&s, WEIR_HEADERS_DEFAULT), "Access"),
                        "Access-Control-Expose-Headers: Retry-After, X-RateLimit-Limit, "
                        "X-RateLimit-Remaining, X-RateLimit-Reset, RateLimit-Policy, RateLimit\n");
    s = (struct wr_standings){.expose = true};
    assert_string_equal(render(&s, WEIR_HEADERS_DEFAULT), "");
}

/* Any buffer that is too small is refused, and nothing is written behind it. */
static void test_small_buffers(void **state)
{
    struct wr_standings s = two_windows();
    struct weir_header out[WEIR_HEADERS_MAX];
    char buffer[256];
    size_t need = 0;
    int n;
    (void)state;

    s.expose = true;
    for (size_t size = 0; size + 1 < sizeof buffer; size++) {
        memset(buffer, 0x55, sizeof buffer);
        n = wr_fields_write(&s, WEIR_HEADERS_DEFAULT, out, buffer, size);
        for (size_t i = size; i < sizeof buffer; i++)
            assert_int_equal(buffer[i], 0x55);
        if (n >= 0 && need == 0)
            need = size;
        assert_int_equal(n, need == 0 ? WEIR_EFULL : 6);
    }
    assert_true(need > 100);
}

/* The most there can be fits into WEIR_HEADERS_BYTES. */
static void test_the_largest(void **state)
{
    static char name[65];
    struct wr_standings s = {.count = WEIR_LIMITS_MAX,
                             .now_ns = NOW_NS,
                             .denied = true,
                             .retry_after_ns = INT64_MAX,
                             .expose = true};
    (void)state;

    memset(name, 'n', 64);
    for (size_t i = 0; i < s.count; i++)
        s.item[i] = (struct wr_standing){.name = name,
                                         .quota_units = INT64_MAX - (int64_t)i,
                                         .remaining_units = INT64_MAX,
                                         .window_ns = WR_NS_PER_S * 999999999,
                                         .next_ns = INT64_MAX,
                                         .reset_ns = INT64_MAX,
                                         .concurrent = true,
                                         .violated = true};
    assert_non_null(strstr(render(&s, 0x3f), "Access-Control-Expose-Headers: "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_state_in_every_preset),
        cmocka_unit_test(test_a_refused_bucket),
        cmocka_unit_test(test_places_have_no_quota_policy),
        cmocka_unit_test(test_a_refusal_lists_the_violated),
        cmocka_unit_test(test_never),
        cmocka_unit_test(test_windows_that_are_none),
        cmocka_unit_test(test_equal_quotas),
        cmocka_unit_test(test_names_are_sent_once),
        cmocka_unit_test(test_numbers_are_clamped),
        cmocka_unit_test(test_every_length_of_number),
        cmocka_unit_test(test_no_zero_with_a_refusal),
        cmocka_unit_test(test_expose),
        cmocka_unit_test(test_small_buffers),
        cmocka_unit_test(test_the_largest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
