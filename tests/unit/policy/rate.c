/* rate.c - rates, durations, sizes, as people write them. */
#include "policy/rate.h"

#include "base/units.h"
#include "requests.h"

static void expect_rate(const char *text, int64_t units, int64_t window_ns, int64_t burst,
                        int64_t queue)
{
    struct wr_rate rate;
    size_t at;
    const char *wrong = wr_rate_parse(slice(text), &rate, &at);

    if (wrong != NULL)
        fail_msg("\"%s\": %s", text, wrong);
    assert_false(rate.unlimited);
    assert_int_equal(rate.units, units);
    assert_int_equal(rate.window_ns, window_ns);
    assert_int_equal(rate.burst, burst);
    assert_int_equal(rate.queue, queue);
}

static void test_units_and_durations(void **state)
{
    (void)state;
    expect_rate("600/minute", 600, 60 * WR_NS_PER_S, -1, -1);
    expect_rate("5/s", 5, WR_NS_PER_S, -1, -1);
    expect_rate("5/sec", 5, WR_NS_PER_S, -1, -1);
    expect_rate("5/second", 5, WR_NS_PER_S, -1, -1);
    expect_rate("5/seconds", 5, WR_NS_PER_S, -1, -1);
    expect_rate("5/m", 5, 60 * WR_NS_PER_S, -1, -1);
    expect_rate("5/min", 5, 60 * WR_NS_PER_S, -1, -1);
    expect_rate("5/h", 5, 3600 * WR_NS_PER_S, -1, -1);
    expect_rate("5/hour", 5, 3600 * WR_NS_PER_S, -1, -1);
    expect_rate("5/d", 5, 86400 * WR_NS_PER_S, -1, -1);
    expect_rate("5/day", 5, 86400 * WR_NS_PER_S, -1, -1);
    expect_rate("5/w", 5, 604800 * WR_NS_PER_S, -1, -1);
    expect_rate("5/week", 5, 604800 * WR_NS_PER_S, -1, -1);
    expect_rate("100/15m", 100, 900 * WR_NS_PER_S, -1, -1);
    expect_rate("7/250ms", 7, 250 * WR_NS_PER_MS, -1, -1);
    expect_rate("1/2d", 1, 172800 * WR_NS_PER_S, -1, -1);
    expect_rate("0/second", 0, WR_NS_PER_S, -1, -1);
    expect_rate("007/s", 7, WR_NS_PER_S, -1, -1);
    expect_rate("9223372036854775807/s", INT64_MAX, WR_NS_PER_S, -1, -1);
}

static void test_burst_and_queue(void **state)
{
    (void)state;
    expect_rate("10000/hour burst 2000", 10000, WR_NS_PER_HOUR, 2000, -1);
    expect_rate("5/second queue 20", 5, WR_NS_PER_S, -1, 20);
    expect_rate("5/second  burst\t0 ", 5, WR_NS_PER_S, 0, -1);
    expect_rate("  5 / second queue 0", 5, WR_NS_PER_S, -1, 0);
}

static void test_unlimited(void **state)
{
    struct wr_rate rate;
    size_t at;
    (void)state;

    assert_null(wr_rate_parse(slice("unlimited"), &rate, &at));
    assert_true(rate.unlimited);
    assert_null(wr_rate_parse(slice(" unlimited "), &rate, &at));
    assert_non_null(wr_rate_parse(slice("unlimited burst 3"), &rate, &at));
}

struct wrong {
    const char *text;
    size_t at;
    const char *says; /* part of the message */
};

static void test_wrong_rates(void **state)
{
    static const struct wrong cases[] = {
        {"", 0, "expected a rate"},
        {"x", 0, "expected a rate"},
        {"-5/s", 0, "expected a rate"},
        {"+5/s", 0, "expected a rate"},
        {"5", 1, "expected / and a unit"},
        {"5/", 2, "expected a unit"},
        {"5/0s", 2, "longer than zero"},
        {"0/0s", 2, "longer than zero"},
        {"5/parsec", 2, "expected a unit"},
        {"5/S", 2, "expected a unit"},
        {"5/5", 3, "expected a unit"},
        {"5/1.5s", 3, "expected a unit"},
        {"5/month", 2, "write 30d"},
        {"5/2years", 3, "write 30d"},
        {"1.5/s", 1, "expected / and a unit"},
        {"9223372036854775808/s", 0, "does not fit 63 bits"},
        {"99999999999999999999999999/s", 0, "does not fit 63 bits"},
        {"5/9223372036854775807w", 2, "too long"},
        {"5/s burst", 9, "expected a number"},
        {"5/s burst x", 10, "expected a number"},
        {"5/s brust 3", 4, "expected \"burst N\""},
        {"5/s burst 3 burst 4", 12, "twice"},
        {"5/s queue 3 queue 4", 12, "twice"},
        {"5/s burst 3 queue 4", 12, "exclude each other"},
        {"5/s queue 3 burst 4", 12, "exclude each other"},
        {"5/s 3", 4, "expected \"burst N\""},
        {"5/s, burst 3", 3, "expected \"burst N\""},
        {"5//s", 2, "expected a unit"},
        {"1_000/s", 1, "expected / and a unit"},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct wr_rate rate;
        size_t at;
        const char *wrong = wr_rate_parse(slice(cases[i].text), &rate, &at);
        if (wrong == NULL || strstr(wrong, cases[i].says) == NULL || at != cases[i].at)
            fail_msg("\"%s\": at %zu \"%s\", not at %zu \"%s\"", cases[i].text, at, wrong,
                     cases[i].at, cases[i].says);
    }
}

static void test_nul_in_a_rate(void **state)
{
    struct wr_rate rate;
    size_t at;
    (void)state;

    assert_non_null(wr_rate_parse((struct weir_slice){"5/s\0", 4}, &rate, &at));
    assert_int_equal(at, 3);
}

static void test_durations(void **state)
{
    static const char *const wrong[] = {"", "s", "5", "0s", "5 s", "5s ", "1h30m", "-1s", "5month"};
    int64_t ns;
    size_t at;
    (void)state;

    assert_null(wr_duration_parse(slice("250ms"), &ns, &at));
    assert_int_equal(ns, 250 * WR_NS_PER_MS);
    assert_null(wr_duration_parse(slice("2d"), &ns, &at));
    assert_int_equal(ns, 2 * WR_NS_PER_DAY);
    assert_null(wr_duration_parse(slice("30seconds"), &ns, &at));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (wr_duration_parse(slice(wrong[i]), &ns, &at) == NULL)
            fail_msg("\"%s\" was taken for a duration", wrong[i]);
}

static void test_sizes(void **state)
{
    static const char *const wrong[] = {"",       "MiB",    "64 MiB", "64mib",      "64M",
                                        "1.5GiB", "64MiBx", "-1",     "16777216TiB"};
    uint64_t bytes;
    size_t at;
    (void)state;

    assert_null(wr_size_parse(slice("65536"), &bytes, &at));
    assert_int_equal(bytes, 65536);
    assert_null(wr_size_parse(slice("64KiB"), &bytes, &at));
    assert_int_equal(bytes, 65536);
    assert_null(wr_size_parse(slice("64MiB"), &bytes, &at));
    assert_int_equal(bytes, 67108864);
    assert_null(wr_size_parse(slice("2GiB"), &bytes, &at));
    assert_int_equal(bytes, 2147483648);
    assert_null(wr_size_parse(slice("64MB"), &bytes, &at));
    assert_int_equal(bytes, 64000000);
    assert_null(wr_size_parse(slice("16777215TiB"), &bytes, &at));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (wr_size_parse(slice(wrong[i]), &bytes, &at) == NULL)
            fail_msg("\"%s\" was taken for a size", wrong[i]);
}

static void test_counts(void **state)
{
    int64_t n;
    size_t at;
    (void)state;

    assert_null(wr_count_parse(slice("12"), 12, &n, &at));
    assert_int_equal(n, 12);
    assert_non_null(wr_count_parse(slice("13"), 12, &n, &at));
    assert_non_null(wr_count_parse(slice("12 "), 12, &n, &at));
    assert_int_equal(at, 2);
    assert_non_null(wr_count_parse(slice(""), 12, &n, &at));
    assert_non_null(wr_count_parse(slice("0x1"), 12, &n, &at));
}

static void expect_words(int64_t units, int64_t window_ns, const char *expected)
{
    char out[64];

    wr_rate_words(units, window_ns, out, sizeof out);
    assert_string_equal(out, expected);
}

static void test_words(void **state)
{
    (void)state;
    expect_words(600, WR_NS_PER_MINUTE, "600 per minute");
    expect_words(1, WR_NS_PER_WEEK, "1 per week");
    expect_words(100, 15 * WR_NS_PER_MINUTE, "100 per 15m");
    expect_words(5, 250 * WR_NS_PER_MS, "5 per 250ms");
    expect_words(5, 30 * WR_NS_PER_DAY, "5 per 30d");
    expect_words(5, 90 * WR_NS_PER_MINUTE, "5 per 90m");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_units_and_durations),
        cmocka_unit_test(test_burst_and_queue),
        cmocka_unit_test(test_unlimited),
        cmocka_unit_test(test_wrong_rates),
        cmocka_unit_test(test_nul_in_a_rate),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
