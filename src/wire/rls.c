/* rls.c - protobuf-c's structs <-> ours.
 *
 * Problem. protobuf-c decodes well-formed messages of any shape into memory that it asks for piece
 * by piece; a message of 64 KiB can ask for megabytes, and a caller's text may be no text.
 *
 * Idea. Its allocator hands out slices of one block that is used anew for every message (no malloc
 * on the path of a decision), and says no when the block is full. What came out is then checked
 * against bounds and copied into the structs of descriptor.h, in the same block.
 *
 * Invariants:
 *   1. Nothing that is returned points outside |memory|.
 *   2. All text is UTF-8; at most WR_DESCRIPTORS_MAX descriptors of WR_ENTRIES_MAX entries.
 *   3. Field number 0, groups, varints of more than ten bytes and truncation are refused: the first
 *      here, the others by protobuf-c (tests/unit/wire/rls.c holds all of them).
 *
 * Rejected: a decoder of our own (faster by a third of a microsecond, and one more parser to be
 * right about); malloc for each message (a request of 100 descriptors is 500 allocations). */
#include "wire/rls.h"

#include <string.h>

#include <rls.pb-c.h>

/* ---- memory ------------------------------------------------------------------------------ */

static void *take(void *data, size_t size)
{
    struct wr_rls_memory *memory = (struct wr_rls_memory *)data;
    size_t rounded = (size + 15) & ~(size_t)15;
    unsigned char *at = memory->bytes + memory->used;

    if (size > memory->size || rounded > memory->size - memory->used) {
        memory->full = true;
        return NULL;
    }
    memory->used += rounded;
    return at;
}

static void keep(void *data, void *pointer)
{
    (void)data;
    (void)pointer; /* all of it is given back at once, by the next message */
}

static ProtobufCAllocator allocator_of(struct wr_rls_memory *memory)
{
    memory->used = 0;
    memory->full = false;
    return (ProtobufCAllocator){take, keep, memory};
}

/* ---- text -------------------------------------------------------------------------------- */

/* How many bytes the character at |p|, before |end|, has; 0: it is none. The ranges of the second
 * byte are those of table 3-7 of the Unicode standard. */
static size_t character(const unsigned char *p, const unsigned char *end)
{
    static const unsigned char continuation_min = 0x80, continuation_max = 0xbf;
    unsigned char low = continuation_min, high = continuation_max;
    size_t len;

    if (*p < 0x80)
        return 1;
    if (*p < 0xc2 || *p > 0xf4)
        return 0;
    len = *p < 0xe0 ? 2 : *p < 0xf0 ? 3 : 4;
    if (*p == 0xe0)
        low = 0xa0;
    else if (*p == 0xed)
        high = 0x9f;
    else if (*p == 0xf0)
        low = 0x90;
    else if (*p == 0xf4)
        high = 0x8f;
    if ((size_t)(end - p) < len || p[1] < low || p[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if (p[i] < continuation_min || p[i] > continuation_max)
            return 0;
    return len;
}

bool wr_utf8_valid(struct weir_slice text)
{
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.len;

    while (p < end) {
        size_t len = character(p, end);
        if (len == 0)
            return false;
        p += len;
    }
    return true;
}

static bool text_of(const ProtobufCBinaryData *bytes, struct weir_slice *out)
{
    *out = (struct weir_slice){(const char *)bytes->data, bytes->len};
    return wr_utf8_valid(*out);
}

/* protobuf-c keeps fields it does not know, number 0 as well, which no message may have. */
static bool well_formed(const ProtobufCMessage *message)
{
    for (unsigned i = 0; i < message->n_unknown_fields; i++)
        if (message->unknown_fields[i].tag == 0)
            return false;
    return true;
}

/* ---- requests ---------------------------------------------------------------------------- */

struct decoding {
    struct wr_rls_memory *memory;
    const char *why;
};

static int refuse(struct decoding *d, int error, const char *why)
{
    d->why = why;
    return error;
}

static int copy_entries(struct decoding *d, const WrRls__Descriptor *from, struct wr_descriptor *to)
{
    struct wr_entry *entries;

    if (from->n_entries > WR_ENTRIES_MAX)
        return refuse(d, WEIR_EFULL, "a descriptor has more than 16 entries");
    entries = take(d->memory, from->n_entries * sizeof *entries);
    if (entries == NULL)
        return refuse(d, WEIR_EFULL, "the request is too large");
    for (size_t i = 0; i < from->n_entries; i++) {
        const WrRls__Entry *entry = from->entries[i];
        if (!well_formed(&entry->base))
            return refuse(d, WEIR_EINVAL, "a field has number 0");
        if (!text_of(&entry->key, &entries[i].key) || !text_of(&entry->value, &entries[i].value))
            return refuse(d, WEIR_EINVAL, "a descriptor's key or value is not UTF-8");
        if (entries[i].key.len == 0)
            return refuse(d, WEIR_EINVAL, "a descriptor entry has an empty key");
    }
    to->entries = entries;
    to->count = from->n_entries;
    return 0;
}

static int copy_descriptor(struct decoding *d, const WrRls__Descriptor *from,
                           struct wr_descriptor *to)
{
    *to = (struct wr_descriptor){.negative = from->is_negative_hits != 0};
    if (!well_formed(&from->base) || (from->limit != NULL && !well_formed(&from->limit->base)) ||
        (from->hits_addend != NULL && !well_formed(&from->hits_addend->base)))
        return refuse(d, WEIR_EINVAL, "a field has number 0");
    if (from->limit != NULL) {
        int32_t unit = from->limit->unit;
        if (unit < WR_UNIT_SECOND || unit > WR_UNIT_YEAR)
            return refuse(d, WEIR_EINVAL, "a limit override has no unit of time");
        to->has_limit = true;
        to->limit_unit = (uint8_t)unit;
        to->limit_units = from->limit->requests_per_unit;
    }
    if (from->hits_addend != NULL) {
        to->has_hits = true;
        to->hits = from->hits_addend->value;
    }
    return copy_entries(d, from, to);
}

static int copy_request(struct decoding *d, const WrRls__Request *from, struct wr_rate_request *to)
{
    struct wr_descriptor *descriptors;

    if (!well_formed(&from->base))
        return refuse(d, WEIR_EINVAL, "a field has number 0");
    if (!text_of(&from->domain, &to->domain))
        return refuse(d, WEIR_EINVAL, "the domain is not UTF-8");
    if (from->n_descriptors > WR_DESCRIPTORS_MAX)
        return refuse(d, WEIR_EFULL, "the request has more than 64 descriptors");
    descriptors = take(d->memory, from->n_descriptors * sizeof *descriptors);
    if (descriptors == NULL)
        return refuse(d, WEIR_EFULL, "the request is too large");
    for (size_t i = 0; i < from->n_descriptors; i++) {
        int result = copy_descriptor(d, from->descriptors[i], &descriptors[i]);
        if (result != 0)
            return result;
    }
    to->descriptors = descriptors;
    to->count = from->n_descriptors;
    to->hits = from->hits_addend;
    return 0;
}

int wr_rls_decode(const uint8_t *bytes, size_t len, struct wr_rls_memory *memory,
                  struct wr_rate_request *out, const char **why)
{
    ProtobufCAllocator allocator = allocator_of(memory);
    struct decoding d = {memory, ""};
    const WrRls__Request *request = wr_rls__request__unpack(&allocator, len, bytes);
    int result;

    *out = (struct wr_rate_request){0};
    if (request != NULL)
        result = copy_request(&d, request, out);
    else if (memory->full)
        result = refuse(&d, WEIR_EFULL, "the request is too large");
    else
        result = refuse(&d, WEIR_EINVAL, "the message is not a RateLimitRequest");
    if (result != 0)
        *out = (struct wr_rate_request){0};
    *why = d.why;
    return result;
}

/* ---- responses --------------------------------------------------------------------------- */

/* All parts of one response, in one place that lives as long as it is packed. */
struct parts {
    WrRls__Response response;
    WrRls__Status statuses[WR_DESCRIPTORS_MAX];
    WrRls__Limit limits[WR_DESCRIPTORS_MAX];
    WrRls__Duration durations[WR_DESCRIPTORS_MAX];
    WrRls__Header headers[WR_RATE_HEADERS_MAX];
    WrRls__Status *status_at[WR_DESCRIPTORS_MAX];
    WrRls__Header *header_at[WR_RATE_HEADERS_MAX];
};

/* protobuf-c only reads what it packs. */
static ProtobufCBinaryData bytes_of(struct weir_slice text)
{
    return (ProtobufCBinaryData){text.len, (uint8_t *)(uintptr_t)text.ptr};
}

static void fill_status(struct parts *p, size_t i, const struct wr_rate_status *from)
{
    WrRls__Status *status = &p->statuses[i];

    wr_rls__status__init(status);
    status->has_code = 1;
    status->code = from->code;
    status->has_limit_remaining = from->remaining != 0;
    status->limit_remaining = from->remaining;
    if (from->has_limit) {
        wr_rls__limit__init(&p->limits[i]);
        p->limits[i].has_requests_per_unit = from->units != 0;
        p->limits[i].requests_per_unit = from->units;
        p->limits[i].has_unit = from->unit != WR_UNIT_UNKNOWN;
        p->limits[i].unit = from->unit;
        p->limits[i].has_name = from->name.len > 0;
        p->limits[i].name = bytes_of(from->name);
        status->current_limit = &p->limits[i];
    }
    if (from->reset_s > 0) {
        wr_rls__duration__init(&p->durations[i]);
        p->durations[i].has_seconds = 1;
        p->durations[i].seconds = from->reset_s;
        status->duration_until_reset = &p->durations[i];
    }
    p->status_at[i] = status;
}

/* More than |response| can take, so that it need not be measured before it is packed. */
static size_t at_most(const struct wr_rate_response *response)
{
    size_t most = 16 + response->body.len;

    for (size_t i = 0; i < response->count; i++)
        most += 64 + response->statuses[i].name.len;
    for (size_t i = 0; i < response->header_count; i++)
        most += 32 + response->headers[i].key.len + response->headers[i].value.len;
    return most;
}

int64_t wr_rls_encode(const struct wr_rate_response *response, uint8_t *out, size_t size)
{
    struct parts p;

    wr_rls__response__init(&p.response);
    p.response.has_overall_code = 1;
    p.response.overall_code = response->code;
    for (size_t i = 0; i < response->count; i++)
        fill_status(&p, i, &response->statuses[i]);
    p.response.n_statuses = response->count;
    p.response.statuses = p.status_at;
    for (size_t i = 0; i < response->header_count; i++) {
        wr_rls__header__init(&p.headers[i]);
        p.headers[i].has_key = 1;
        p.headers[i].key = bytes_of(response->headers[i].key);
        p.headers[i].has_value = 1;
        p.headers[i].value = bytes_of(response->headers[i].value);
        p.header_at[i] = &p.headers[i];
    }
    p.response.n_response_headers_to_add = response->header_count;
    p.response.response_headers_to_add = p.header_at;
    p.response.has_raw_body = response->body.len > 0;
    p.response.raw_body = bytes_of(response->body);
    if (at_most(response) > size && wr_rls__response__get_packed_size(&p.response) > size)
        return WEIR_EFULL;
    return (int64_t)wr_rls__response__pack(&p.response, out);
}

/* ---- health ------------------------------------------------------------------------------ */

int wr_health_decode(const uint8_t *bytes, size_t len, struct wr_rls_memory *memory,
                     struct weir_slice *service)
{
    ProtobufCAllocator allocator = allocator_of(memory);
    const WrRls__HealthRequest *request = wr_rls__health_request__unpack(&allocator, len, bytes);

    *service = (struct weir_slice){NULL, 0};
    if (request == NULL)
        return memory->full ? WEIR_EFULL : WEIR_EINVAL;
    return well_formed(&request->base) && text_of(&request->service, service) ? 0 : WEIR_EINVAL;
}

void wr_health_encode(enum wr_health health, uint8_t out[WR_HEALTH_BYTES])
{
    WrRls__HealthResponse response;

    wr_rls__health_response__init(&response);
    response.has_status = 1;
    response.status = health;
    (void)wr_rls__health_response__pack(&response, out);
}
