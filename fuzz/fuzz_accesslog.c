/* A log line of any bytes: parsed or refused with a column inside it; slices lie where they may.
 * The first byte chooses the format. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "wire/accesslog.h"

static void check_slice(struct weir_slice slice)
{
    volatile char sink = 0; /* a sanitizer sees every byte being read */

    for (size_t i = 0; i < slice.len; i++)
        sink = slice.ptr[i];
    (void)sink;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"X-Api-Key", "X-Forwarded-For", "User-Agent", "Referer",
                                        "k"};
    static struct wr_log_parser *parsers[4];
    struct wr_log_record record;
    struct wr_log_parser **parser;
    const char *error;
    size_t column = 0;

    if (size == 0)
        return 0;
    parser = &parsers[data[0] % 4];
    if (*parser == NULL &&
        (*parser = wr_log_parser_new((enum wr_log_format)(data[0] % 4), names, 5)) == NULL)
        abort();
    error = wr_log_parse(*parser, (const char *)data + 1, size - 1, &record, &column);
    if (column < 1 || column > size)
        abort();
    if (error != NULL)
        return 0;
    if (record.time_ns < 0 || record.time_ns >= WR_TIME_MAX_NS || record.cost < -1 ||
        record.cost > WEIR_COST_MAX || record.duration_ns < -1 || record.client.len == 0)
        abort();
    check_slice(record.client);
    check_slice(record.method);
    check_slice(record.path);
    for (size_t i = 0; i < 5; i++)
        check_slice(record.field[i]);
    return 0;
}
