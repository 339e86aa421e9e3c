/* exposition.c - the two text formats of metrics.
 *
 * The formats differ in four places: a counter's family is called x_total in 0.0.4 and x in
 * OpenMetrics (its samples x_total in both), OpenMetrics has UNIT lines and escapes quotes in HELP,
 * and it ends with # EOF. So there is one writer with these four branches.
 *
 * Numbers are integers, and decimals of integers: no floating point, so nothing is rounded. Bounds
 * of buckets are written as Go and Python write floats (1e-05, 0.0025, 1.0), as OpenMetrics wants
 * it: the same bound is the same text in both formats, and so the same series.
 *
 * Rejected: the protobuf format (Prometheus asks for it only for native histograms); gzip (a scrape
 * is local, or TLS is; the work would be done on a loop that decides). */
#include "wire/exposition.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "wire/utf8.h"

#define ROOM_FIRST 16384U
#define NS_PER_S UINT64_C(1000000000)
#define NS_EXPONENT 100000U /* below 0.0001 s floats are written with an exponent */

/* ---- growing ------------------------------------------------------------------------------- */

static bool make_room(struct wr_exposition *to, size_t len)
{
    size_t room = to->room > 0 ? to->room : ROOM_FIRST;
    char *larger;

    if (to->failed || len <= to->room - to->len)
        return !to->failed;
    while (room - to->len < len)
        room *= 2;
    larger = realloc(to->text, room);
    to->failed = larger == NULL;
    if (to->failed)
        return false;
    to->text = larger;
    to->room = room;
    return true;
}

static void put(struct wr_exposition *to, const char *bytes, size_t len)
{
    if (!make_room(to, len))
        return;
    memcpy(to->text + to->len, bytes, len);
    to->len += len;
}

static void put_text(struct wr_exposition *to, const char *text)
{
    put(to, text, strlen(text));
}

static void put_number(struct wr_exposition *to, uint64_t number)
{
    char digits[20];
    size_t at = sizeof digits;

    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    put(to, digits + at, sizeof digits - at);
}

/* |parts| / 10^|digits|, with at least one digit behind the point. */
static void put_decimal(struct wr_exposition *to, uint64_t parts, unsigned digits)
{
    char fraction[10];
    uint64_t scale = 1;
    size_t len = digits;

    for (unsigned i = 0; i < digits; i++)
        scale *= 10;
    put_number(to, parts / scale);
    parts %= scale;
    for (size_t i = digits; i > 0; i--, parts /= 10)
        fraction[i - 1] = (char)('0' + parts % 10);
    while (len > 1 && fraction[len - 1] == '0')
        len--;
    put(to, ".", 1);
    put(to, fraction, len);
}

/* A bucket's bound, as a float is written: 25000 ns are 2.5e-05. */
static void put_bound(struct wr_exposition *to, uint64_t ns)
{
    uint64_t unit = 1;
    unsigned exponent = 9, digits = 0;

    if (ns == 0 || ns >= NS_EXPONENT) {
        put_decimal(to, ns, 9);
        return;
    }
    while (ns / unit >= 10) {
        unit *= 10;
        exponent--;
        digits++;
    }
    put_number(to, ns / unit);
    if (ns % unit > 0) { /* put_decimal gives the fraction; its 0 is not wanted */
        size_t before = to->len;
        put_decimal(to, ns % unit, digits);
        if (!to->failed) {
            memmove(to->text + before, to->text + before + 1, to->len - before - 1);
            to->len--;
        }
    }
    put_text(to, "e-0");
    put_number(to, exponent);
}

/* \ and end of line escaped, and " where |quotes|; what is no UTF-8 becomes ? */
static void put_escaped(struct wr_exposition *to, const char *text, bool quotes)
{
    size_t left = strlen(text);

    while (left > 0) {
        unsigned char first = (unsigned char)*text;
        size_t n = first < 0x80 ? 1 : wr_utf8_sequence((const unsigned char *)text, left);
        if (*text == '\n')
            put(to, "\\n", 2);
        else if (*text == '\\' || (quotes && *text == '"'))
            put(to, (char[2]){'\\', *text}, 2);
        else
            put(to, n > 0 ? text : "?", n > 0 ? n : 1);
        n += n == 0;
        text += n;
        left -= n;
    }
}

/* ---- families and samples ------------------------------------------------------------------ */

static bool is_open(const struct wr_exposition *to)
{
    return to->form == WR_OPENMETRICS_1_0;
}

static void put_name(struct wr_exposition *to, const char *suffix)
{
    put_text(to, to->metric->name);
    put_text(to, suffix);
}

static void put_head(struct wr_exposition *to, const char *what)
{
    put_text(to, what);
    put_name(to, to->metric->kind == WR_COUNTER && !is_open(to) ? "_total " : " ");
}

static const char *unit_of(const char *name)
{
    static const char *const units[] = {"seconds", "bytes", "ratio"};
    const char *last = strrchr(name, '_');

    for (size_t i = 0; last != NULL && i < sizeof units / sizeof units[0]; i++)
        if (strcmp(last + 1, units[i]) == 0)
            return units[i];
    return NULL;
}

void wr_exposition_begin(struct wr_exposition *to, enum wr_exposition_form form)
{
    to->form = form;
    to->failed = false;
    to->len = 0;
    to->metric = NULL;
}

void wr_exposition_family(struct wr_exposition *to, const struct wr_metric *metric)
{
    static const char *const kinds[] = {
        [WR_COUNTER] = "counter\n", [WR_GAUGE] = "gauge\n", [WR_HISTOGRAM] = "histogram\n"};
    const char *unit = unit_of(metric->name);

    to->metric = metric;
    put_head(to, "# HELP ");
    put_escaped(to, metric->help, is_open(to));
    put(to, "\n", 1);
    put_head(to, "# TYPE ");
    put_text(to, kinds[metric->kind]);
    if (is_open(to) && unit != NULL) {
        put_head(to, "# UNIT ");
        put_text(to, unit);
        put(to, "\n", 1);
    }
}

static void put_labels(struct wr_exposition *to, const struct wr_metric_labels *labels)
{
    for (unsigned i = 0; labels != NULL && i < labels->count; i++) {
        put(to, i == 0 ? "{" : ",", 1);
        put_text(to, labels->label[i].name);
        put(to, "=\"", 2);
        put_escaped(to, labels->label[i].value, true);
        put(to, "\"", 1);
    }
    if (labels != NULL && labels->count > 0)
        put(to, "}", 1);
    put(to, " ", 1);
}

static void begin_sample(struct wr_exposition *to, const struct wr_metric_labels *labels)
{
    put_name(to, to->metric->kind == WR_COUNTER ? "_total" : "");
    put_labels(to, labels);
}

void wr_exposition_sample(struct wr_exposition *to, const struct wr_metric_labels *labels,
                          uint64_t value)
{
    begin_sample(to, labels);
    put_number(to, value);
    put(to, "\n", 1);
}

void wr_exposition_decimal(struct wr_exposition *to, const struct wr_metric_labels *labels,
                           uint64_t parts, unsigned digits)
{
    begin_sample(to, labels);
    put_decimal(to, parts, digits);
    put(to, "\n", 1);
}

void wr_exposition_seconds(struct wr_exposition *to, const struct wr_metric_labels *labels,
                           uint64_t ns)
{
    wr_exposition_decimal(to, labels, ns, 9);
}

static void put_bucket(struct wr_exposition *to, const struct wr_metric_label *label,
                       const struct wr_histogram *h, unsigned bucket)
{
    put_name(to, "_bucket{");
    put_text(to, label->name);
    put(to, "=\"", 2);
    put_escaped(to, label->value, true);
    put_text(to, "\",le=\"");
    if (bucket < h->count)
        put_bound(to, (uint64_t)h->bounds_ns[bucket]);
    else
        put_text(to, "+Inf");
    put_text(to, "\"} ");
}

void wr_exposition_histogram(struct wr_exposition *to, const struct wr_metric_label *label,
                             const struct wr_histogram *histogram)
{
    const struct wr_metric_labels labels = {{*label}, 1};
    uint64_t sum = 0;

    for (unsigned i = 0; i <= histogram->count; i++) {
        sum += histogram->buckets[i];
        put_bucket(to, label, histogram, i);
        put_number(to, sum);
        put(to, "\n", 1);
    }
    put_name(to, "_sum");
    put_labels(to, &labels);
    put_decimal(to, histogram->sum_ns, 9);
    put(to, "\n", 1);
    put_name(to, "_count");
    put_labels(to, &labels);
    put_number(to, sum);
    put(to, "\n", 1);
}

void wr_exposition_end(struct wr_exposition *to)
{
    if (is_open(to))
        put_text(to, "# EOF\n");
}

void wr_exposition_free(struct wr_exposition *to)
{
    free(to->text);
    *to = (struct wr_exposition){.form = to->form};
}

/* ---- which form ---------------------------------------------------------------------------- */

const char *wr_exposition_type(enum wr_exposition_form form)
{
    return form == WR_OPENMETRICS_1_0 ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                                      : "text/plain; version=0.0.4; charset=utf-8";
}

static struct weir_slice trim(struct weir_slice s)
{
    while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
        s = (struct weir_slice){s.ptr + 1, s.len - 1};
    while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
        s.len--;
    return s;
}

/* Take what is before |stop| (or the end) off |*rest|. Quoted strings are not looked for: no value
 * that we know has one. */
static struct weir_slice take(struct weir_slice *rest, char stop)
{
    const char *end = rest->len > 0 ? memchr(rest->ptr, stop, rest->len) : NULL;
    struct weir_slice part = *rest;

    if (end != NULL) {
        part.len = (size_t)(end - rest->ptr);
        *rest = (struct weir_slice){end + 1, rest->len - part.len - 1};
    } else {
        *rest = (struct weir_slice){NULL, 0};
    }
    return trim(part);
}

static bool is(struct weir_slice s, const char *text)
{
    return s.len == strlen(text) && strncasecmp(s.ptr, text, s.len) == 0;
}

/* A q-value in thousandths; what is none counts as 0: not acceptable. */
static unsigned weight_of(struct weir_slice s)
{
    unsigned weight = 0, scale = 100;

    if (s.len == 0 || s.len > 5 || (s.ptr[0] != '0' && s.ptr[0] != '1') ||
        (s.len > 1 && s.ptr[1] != '.'))
        return 0;
    weight = (unsigned)(s.ptr[0] - '0') * 1000;
    for (size_t i = 2; i < s.len; i++, scale /= 10) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return 0;
        weight += (unsigned)(s.ptr[i] - '0') * scale;
    }
    return weight <= 1000 ? weight : 0;
}

/* How much a form is wanted, and by how exact a name: 0 none, 1 by a wildcard, 2 by its own. */
struct wish {
    unsigned exact, weight;
};

static void wish_for(struct wish *wish, unsigned exact, unsigned weight)
{
    if (exact > wish->exact || (exact == wish->exact && weight > wish->weight))
        *wish = (struct wish){exact, weight};
}

static void read_range(struct weir_slice range, struct wish *text, struct wish *open)
{
    struct weir_slice type = take(&range, ';'), version = {NULL, 0};
    unsigned weight = 1000;

    while (range.len > 0) {
        struct weir_slice value = take(&range, ';');
        struct weir_slice name = take(&value, '=');
        if (is(name, "q"))
            weight = weight_of(trim(value));
        else if (is(name, "version"))
            version = trim(value);
    }
    if (is(type, "*/*")) {
        wish_for(text, 1, weight);
        wish_for(open, 1, weight);
    } else if (is(type, "text/*") ||
               (is(type, "text/plain") && (version.len == 0 || is(version, "0.0.4")))) {
        wish_for(text, 2, weight);
    } else if (is(type, "application/openmetrics-text") &&
               (version.len == 0 || is(version, "1.0.0"))) {
        wish_for(open, 2, weight);
    }
}

enum wr_exposition_form wr_exposition_choose(struct weir_slice accept)
{
    struct wish text = {0, 0}, open = {0, 0};

    while (accept.len > 0)
        read_range(take(&accept, ','), &text, &open);
    return open.exact == 2 && open.weight > 0 &&
                   (open.weight > text.weight || (open.weight == text.weight && text.exact < 2))
               ? WR_OPENMETRICS_1_0
               : WR_TEXT_0_0_4;
}
