/* A rate limit request of any bytes: refused with a reason, or within its bounds, valid text, and
 * answered in a message that is made and fits. */
#include <stdlib.h>

#include "wire/rls.h"

static _Alignas(16) unsigned char block[64 << 10];

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
    struct wr_rls_memory memory = {block, sizeof block, 0, false};
    struct wr_rate_request request;
    struct weir_slice service;
    const char *why;
    int result = wr_rls_decode(data, size, &memory, &request, &why);

    require(memory.used <= memory.size && why != NULL);
    if (result == 0) {
        check(&request);
        answer(&request);
    } else {
        require((result == WEIR_EINVAL || result == WEIR_EFULL) && why[0] != '\0');
    }
    if (wr_health_decode(data, size, &memory, &service) == 0)
        require(wr_utf8_valid(service));
    return 0;
}
