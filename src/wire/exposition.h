/* exposition.h - counters as monitoring systems read them: Prometheus' text format 0.0.4 and
 * OpenMetrics 1.0, by one writer. */
#ifndef WR_WIRE_EXPOSITION_H
#define WR_WIRE_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "weir/weir.h"

enum wr_exposition_form { WR_TEXT_0_0_4, WR_OPENMETRICS_1_0 };

/* Which form the value of an Accept field asks for ("" or none: text). By q-values; where both are
 * as good, OpenMetrics only if it is named and text is not. */
enum wr_exposition_form wr_exposition_choose(struct weir_slice accept);

/* The value of Content-Type. */
const char *wr_exposition_type(enum wr_exposition_form form);

enum wr_metric_kind { WR_COUNTER, WR_GAUGE, WR_HISTOGRAM };

struct wr_metric {
    const char *name; /* without _total, whatever the kind */
    enum wr_metric_kind kind;
    const char *help; /* one line of any text */
};

/* A text that grows. All zeros but |form| is an empty one; the memory is kept from one use to the
 * next. */
struct wr_exposition {
    enum wr_exposition_form form;
    bool failed; /* out of memory: what is there is not whole */
    char *text;
    size_t len, room;
    const struct wr_metric *metric; /* whose samples follow */
};

struct wr_metric_label {
    const char *name, *value; /* |value| is UTF-8 */
};
struct wr_metric_labels {
    struct wr_metric_label label[2];
    unsigned count;
};

static inline struct wr_metric_labels wr_label(const char *name, const char *value)
{
    return (struct wr_metric_labels){{{name, value}}, 1};
}
static inline struct wr_metric_labels wr_labels(const char *name, const char *value,
                                                const char *name2, const char *value2)
{
    return (struct wr_metric_labels){{{name, value}, {name2, value2}}, 2};
}

void wr_exposition_begin(struct wr_exposition *to, enum wr_exposition_form form);

/* Begin the family |metric|: HELP, TYPE and, in OpenMetrics, UNIT. All its samples follow. */
void wr_exposition_family(struct wr_exposition *to, const struct wr_metric *metric);

/* A sample of a counter or gauge. |labels| NULL: none. */
void wr_exposition_sample(struct wr_exposition *to, const struct wr_metric_labels *labels,
                          uint64_t value);
/* The same, of |ns| in seconds, exactly. */
void wr_exposition_seconds(struct wr_exposition *to, const struct wr_metric_labels *labels,
                           uint64_t ns);
/* The same, of |parts| / 10^|digits|, 1..9 of them. */
void wr_exposition_decimal(struct wr_exposition *to, const struct wr_metric_labels *labels,
                           uint64_t parts, unsigned digits);

/* All samples of a histogram of seconds: |count| buckets up to |bounds_ns|, rising, and one more of
 * what is above; each for itself, not yet added up. */
struct wr_histogram {
    const int64_t *bounds_ns;
    const uint64_t *buckets; /* count + 1 */
    unsigned count;
    uint64_t sum_ns;
};
void wr_exposition_histogram(struct wr_exposition *to, const struct wr_metric_label *label,
                             const struct wr_histogram *histogram);

void wr_exposition_end(struct wr_exposition *to);
void wr_exposition_free(struct wr_exposition *to);

#endif
