/* exposition.c - both formats by hand, and which one is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/exposition.h"

static const struct wr_metric counter = {"weir_x", WR_COUNTER, "A \"word\", a \\ and\na line."};
static const struct wr_metric gauge = {"weir_y_bytes", WR_GAUGE, "Bytes."};
static const struct wr_metric histogram = {"weir_z_seconds", WR_HISTOGRAM, "Time."};

static void write_all(struct wr_exposition *to, enum wr_exposition_form form)
{
    static const int64_t bounds[] = {9, 25000, 100000, 1000000000, INT64_C(2500000000)};
    static const uint64_t buckets[] = {1, 0, 2, 3, 0, 4};
    static const struct wr_histogram h = {bounds, buckets, 5, UINT64_C(12000000034)};
    const struct wr_metric_label door = {"door", "http"};
    const struct wr_metric_labels one = wr_label("limit", "a\"b\\c\nd\xff\xc3\xa9");
    const struct wr_metric_labels two = wr_labels("limit", "a", "outcome", "denied");

    wr_exposition_begin(to, form);
    wr_exposition_family(to, &counter);
    wr_exposition_sample(to, &one, 0);
    wr_exposition_sample(to, &two, UINT64_MAX);
    wr_exposition_family(to, &gauge);
    wr_exposition_sample(to, NULL, 1234567890);
    wr_exposition_seconds(to, NULL, UINT64_C(1500000000));
    wr_exposition_decimal(to, NULL, 70, 2);
    wr_exposition_family(to, &histogram);
    wr_exposition_histogram(to, &door, &h);
    wr_exposition_end(to);
    assert_false(to->failed);
}

#define SAMPLES                                            \
    "weir_x_total{limit=\"a\\\"b\\\\c\\nd?\xc3\xa9\"} 0\n" \
    "weir_x_total{limit=\"a\",outcome=\"denied\"} 18446744073709551615\n"
#define VALUES "weir_y_bytes 1234567890\nweir_y_bytes 1.5\nweir_y_bytes 0.7\n"
#define BUCKETS                                               \
    "weir_z_seconds_bucket{door=\"http\",le=\"9e-09\"} 1\n"   \
    "weir_z_seconds_bucket{door=\"http\",le=\"2.5e-05\"} 1\n" \
    "weir_z_seconds_bucket{door=\"http\",le=\"0.0001\"} 3\n"  \
    "weir_z_seconds_bucket{door=\"http\",le=\"1.0\"} 6\n"     \
    "weir_z_seconds_bucket{door=\"http\",le=\"2.5\"} 6\n"     \
    "weir_z_seconds_bucket{door=\"http\",le=\"+Inf\"} 10\n"   \
    "weir_z_seconds_sum{door=\"http\"} 12.000000034\n"        \
    "weir_z_seconds_count{door=\"http\"} 10\n"

static const char text_form[] =
    "# HELP weir_x_total A \"word\", a \\\\ and\\na line.\n# TYPE weir_x_total counter\n" SAMPLES
    "# HELP weir_y_bytes Bytes.\n# TYPE weir_y_bytes gauge\n" VALUES
    "# HELP weir_z_seconds Time.\n# TYPE weir_z_seconds histogram\n" BUCKETS;

static const char open_form[] =
    "# HELP weir_x A \\\"word\\\", a \\\\ and\\na line.\n# TYPE weir_x counter\n" SAMPLES
    "# HELP weir_y_bytes Bytes.\n# TYPE weir_y_bytes gauge\n# UNIT weir_y_bytes bytes\n" VALUES
    "# HELP weir_z_seconds Time.\n# TYPE weir_z_seconds histogram\n"
    "# UNIT weir_z_seconds seconds\n" BUCKETS "# EOF\n";

static void expect(const struct wr_exposition *to, const char *text)
{
    assert_int_equal(to->len, strlen(text));
    assert_memory_equal(to->text, text, to->len);
}

static void test_both_forms(void **state)
{
    struct wr_exposition to = {0};
    (void)state;

    write_all(&to, WR_TEXT_0_0_4);
    expect(&to, text_form);
    write_all(&to, WR_OPENMETRICS_1_0); /* in the same memory */
    expect(&to, open_form);
    wr_exposition_free(&to);
    assert_null(to.text);
}

static void test_it_grows(void **state)
{
    struct wr_exposition to = {0};
    size_t line = strlen("weir_y_bytes 7\n");
    (void)state;

    wr_exposition_begin(&to, WR_TEXT_0_0_4);
    wr_exposition_family(&to, &gauge);
    to.len = 0;
    for (int i = 0; i < 100000; i++)
        wr_exposition_sample(&to, NULL, 7);
    assert_int_equal(to.len, 100000 * line);
    assert_memory_equal(to.text + to.len - line, "weir_y_bytes 7\n", line);
    wr_exposition_free(&to);
}

static void test_choice(void **state)
{
    static const struct {
        const char *accept;
        enum wr_exposition_form form;
    } cases[] = {
        {"", WR_TEXT_0_0_4},
        {"*/*", WR_TEXT_0_0_4},
        {"text/html", WR_TEXT_0_0_4},
        {"application/openmetrics-text", WR_OPENMETRICS_1_0},
        {"Application/OpenMetrics-Text ; Version=1.0.0 ; charset=utf-8", WR_OPENMETRICS_1_0},
        {"application/openmetrics-text; version=0.0.1", WR_TEXT_0_0_4},
        {"application/openmetrics-text; q=0", WR_TEXT_0_0_4},
        {"application/openmetrics-text; q=2", WR_TEXT_0_0_4},
        {"application/openmetrics-text; q=x, */*", WR_TEXT_0_0_4},
        {"application/openmetrics-text, */*", WR_OPENMETRICS_1_0},
        {"application/openmetrics-text; q=0.5, */*", WR_TEXT_0_0_4},
        {"application/openmetrics-text, text/plain", WR_TEXT_0_0_4},
        {"application/openmetrics-text;q=0.501,text/plain;q=0.5", WR_OPENMETRICS_1_0},
        {"text/*;q=0.9, application/openmetrics-text;q=1.0", WR_OPENMETRICS_1_0},
        /* text is wanted less than anything else */
        {"text/plain;q=0.1, */*;q=0.9, application/openmetrics-text;q=0.5", WR_OPENMETRICS_1_0},
        {",,;;,=,application/openmetrics-text;=;q", WR_TEXT_0_0_4},
        /* what Prometheus 2 and 3 send */
        {"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;"
         "q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
         WR_OPENMETRICS_1_0},
        {"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
         "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;"
         "escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
         WR_OPENMETRICS_1_0},
    };
    (void)state;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct weir_slice accept = {cases[i].accept, strlen(cases[i].accept)};
        if (wr_exposition_choose(accept) != cases[i].form)
            fail_msg("%s", cases[i].accept);
    }
    assert_int_equal(wr_exposition_choose((struct weir_slice){NULL, 0}), WR_TEXT_0_0_4);
    assert_string_equal(wr_exposition_type(WR_TEXT_0_0_4),
                        "text/plain; version=0.0.4; charset=utf-8");
    assert_string_equal(wr_exposition_type(WR_OPENMETRICS_1_0),
                        "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_forms),
        cmocka_unit_test(test_it_grows),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
