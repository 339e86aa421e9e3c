/* The value of an Accept field, and a label of metrics: any bytes. Held: a form is chosen; whatever
 * the label, its sample is one line that ends as it was to end, and is UTF-8; and the same bytes in
 * a line of the log stay one line without a control character. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "serve/log.h"
#include "wire/exposition.h"
#include "wire/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int held)
{
    if (!held)
        abort();
}

/* UTF-8 without control characters. */
static void must_be_clean(const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t n = c < 0x80 ? 1 : wr_utf8_sequence((const unsigned char *)text + i, len - i);
        must(n > 0);
        i += n;
    }
}

static void write_sample(const char *label)
{
    static const struct wr_metric metric = {"weir_x", WR_GAUGE, "X."};
    const struct wr_metric_labels labels = wr_label("limit", label);
    struct wr_exposition to = {0};
    size_t head;

    wr_exposition_begin(&to, WR_OPENMETRICS_1_0);
    wr_exposition_family(&to, &metric);
    head = to.len;
    wr_exposition_sample(&to, &labels, 7);
    must(!to.failed && to.len - head >= 19);
    must(memchr(to.text + head, '\n', to.len - head) == to.text + to.len - 1);
    must(memcmp(to.text + to.len - 5, "\"} 7\n", 5) == 0);
    must_be_clean(to.text, to.len);
    wr_exposition_free(&to);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct weir_slice all = {(const char *)data, size};
    const struct wr_log_value value = wr_log_slice("path", all);
    char line[WR_LOG_LINE_MAX], *label = malloc(size + 1);
    enum wr_exposition_form form;
    size_t len;

    if (label == NULL)
        return 0;
    memcpy(label, data, size);
    label[size] = '\0';
    form = wr_exposition_choose(all);
    must(form == WR_TEXT_0_0_4 || form == WR_OPENMETRICS_1_0);
    write_sample(label);
    for (int json = 0; json < 2; json++) {
        len = wr_log_format(line, sizeof line, json != 0, 0, WR_LOG_INFO, "refused", &value, 1);
        for (size_t i = 0; i < len; i++)
            must((unsigned char)line[i] >= 0x20 && line[i] != 0x7f);
        must(len < sizeof line && (json == 0 || line[len - 1] == '}'));
    }
    free(label);
    return 0;
}
