/* Questions of the Envoy Rate Limit Service as JSON: any bytes. Held: what is read lies in the body
 * or the scratch memory; what is written back of it fits where it is said to fit. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/ratejson.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct wr_rate_reader reader;
static struct wr_rate_response response;

static void echo(const struct wr_rate_request *request)
{
    size_t most;
    char *out;

    response = (struct wr_rate_response){
        .code = WR_RATE_OK, .count = request->count, .body = request->domain};
    for (size_t i = 0; i < request->count; i++) {
        const struct wr_descriptor *d = &request->descriptors[i];
        response.statuses[i] = (struct wr_rate_status){.code = WR_RATE_OVER_LIMIT,
                                                       .unit = d->limit_unit,
                                                       .has_limit = d->has_limit,
                                                       .units = d->limit_units,
                                                       .reset_s = INT64_MAX,
                                                       .remaining = UINT32_MAX};
        if (d->count > 0)
            response.statuses[i].name = d->entries[d->count - 1].value;
        if (d->count > 0 && i < WR_RATE_HEADERS_MAX)
            response.headers[response.header_count++] =
                (struct wr_rate_header){d->entries[0].key, d->entries[0].value};
    }
    most = wr_rate_write_max(&response);
    out = malloc(most);
    if (out == NULL || wr_rate_write(&response, out) > most)
        abort();
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *body, *scratch;

    if (size > 1 << 16)
        return 0;
    body = malloc(size + 1);
    scratch = malloc(size + 1);
    if (body == NULL || scratch == NULL)
        abort();
    memcpy(body, data, size);
    if (wr_rate_read(&reader, (struct weir_slice){body, size}, scratch))
        echo(&reader.request);
    else if (reader.error == NULL)
        abort();
    free(body);
    free(scratch);
    return 0;
}
