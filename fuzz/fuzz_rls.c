/* A rate limit request of any bytes: refused with a reason, or within its bounds, valid text, and
 * answered in a message that is made and fits. And as protobuf-c reads it. */
#include <stdlib.h>

#include "rls_model.h"

static void require(bool holds)
{
    if (!holds)
        abort();
}

static void check(const struct wr_rate_request *request)
{
    require(request->count <= WR_DESCRIPTORS_MAX && wr_utf8_valid(request->domain));
    for (size_t i = 0; i < request->count; i++) {
        const struct wr_descriptor *d = &request->descriptors[i];
        require(d->count <= WR_ENTRIES_MAX);
        require(!d->has_limit || wr_unit_seconds((enum wr_unit)d->limit_unit) > 0);
        for (size_t j = 0; j < d->count; j++)
            require(d->entries[j].key.len > 0 && wr_utf8_valid(d->entries[j].key) &&
                    wr_utf8_valid(d->entries[j].value));
    }
}

/* Every status full: the longest answer to a question of that many descriptors. */
static void answer(const struct wr_rate_request *request)
{
    static struct wr_rate_response response;
    static uint8_t out[16384];

    response = (struct wr_rate_response){.code = WR_RATE_OVER_LIMIT, .count = request->count};
    for (size_t i = 0; i < request->count; i++)
        response.statuses[i] = (struct wr_rate_status){.code = WR_RATE_OK,
                                                       .has_limit = true,
                                                       .units = UINT32_MAX,
                                                       .unit = WR_UNIT_WEEK,
                                                       .name = {"a name", 6},
                                                       .remaining = UINT32_MAX,
                                                       .reset_s = INT64_MAX};
    require(wr_rls_encode(&response, out, sizeof out) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct wr_rate_request *request;
    const char *why;
    int result;

    require(rls_model_compare(data, size, &request, &result, &why) == NULL);
    if (result == 0) {
        check(request);
        answer(request);
    } else {
        require((result == WEIR_EINVAL || result == WEIR_EFULL) && why[0] != '\0');
    }
    return 0;
}
