/* rls.c - messages of the rate limit service <-> structs.
 *
 * Problem. protobuf-c decodes well-formed messages of any shape into memory that it asks for piece
 * by piece; a message of 64 KiB can ask for megabytes, and a caller's text may be no text.
 *
 * Idea. It reads, and its allocator hands out slices of one block that is used anew for every
 * message (no malloc on the path of a decision), and says no when the block is full. What came out
 * is then checked against bounds and copied into the structs of descriptor.h, in the same block.
 * What we write is a dozen fields of our own, put down as they are: through protobuf-c's structs it
 * took six times the instructions.
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

#include "base/arith.h"

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

/* Nearly all text is ASCII: eight bytes at a time, the last eight whatever came before them. */
static bool is_ascii(const unsigned char *eight)
{
    uint64_t word;

    memcpy(&word, eight, sizeof word);
    return (word & UINT64_C(0x8080808080808080)) == 0;
}

bool wr_utf8_valid(struct weir_slice text)
{
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.len;

    while (p < end) {
        size_t len;
        if (text.len >= 8 && is_ascii(end - p >= 8 ? p : end - 8)) {
            p += wr_min_u64(8, (uint64_t)(end - p));
        } else if (*p < 0x80) {
            p++;
        } else {
            len = character(p, end);
            if (len == 0)
                return false;
            p += len;
        }
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

/* Fields are put one before the other, from the last to the first: so the length of a message is
 * known when it is to be written. */
struct writer {
    uint8_t *start, *at;
    bool full;
};

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
    if ((size_t)(w->at - w->start) < len) {
        w->full = true;
        return;
    }
    w->at -= len;
    if (len > 0)
        memcpy(w->at, bytes, len);
}

static void put_varint(struct writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t len = 0;

    if (value < 128 && w->at > w->start) { /* all tags, and most of the rest */
        *--w->at = (uint8_t)value;
        return;
    }
    for (; value > 127; value >>= 7)
        bytes[len++] = (uint8_t)(value | 128);
    bytes[len++] = (uint8_t)value;
    put_bytes(w, bytes, len);
}

enum { VARINT = 0, BYTES = 2 };

static void put_number(struct writer *w, unsigned field, uint64_t value)
{
    put_varint(w, value);
    put_varint(w, field << 3 | VARINT);
}

/* The message from here to |end| is all there. */
static void put_head(struct writer *w, unsigned field, const uint8_t *end)
{
    put_varint(w, (uint64_t)(end - w->at));
    put_varint(w, field << 3 | BYTES);
}

static void put_text(struct writer *w, unsigned field, struct weir_slice text)
{
    const uint8_t *end = w->at;

    put_bytes(w, text.ptr, text.len);
    put_head(w, field, end);
}

static void put_limit(struct writer *w, const struct wr_rate_status *status)
{
    const uint8_t *end = w->at;

    if (status->name.len > 0)
        put_text(w, 3, status->name);
    if (status->unit != WR_UNIT_UNKNOWN)
        put_number(w, 2, status->unit);
    if (status->units != 0)
        put_number(w, 1, status->units);
    put_head(w, 2, end);
}

static void put_status(struct writer *w, const struct wr_rate_status *status)
{
    const uint8_t *end = w->at;

    if (status->reset_s > 0) {
        const uint8_t *duration_end = w->at;
        put_number(w, 1, (uint64_t)status->reset_s);
        put_head(w, 4, duration_end);
    }
    if (status->remaining != 0)
        put_number(w, 3, status->remaining);
    if (status->has_limit)
        put_limit(w, status);
    put_number(w, 1, status->code);
    put_head(w, 2, end);
}

static void put_header(struct writer *w, const struct wr_rate_header *header)
{
    const uint8_t *end = w->at;

    put_text(w, 2, header->value);
    put_text(w, 1, header->key);
    put_head(w, 3, end);
}

int64_t wr_rls_encode(const struct wr_rate_response *response, uint8_t *out, size_t size)
{
    struct writer w = {out, out + size, false};
    size_t len;

    if (response->body.len > 0)
        put_text(&w, 5, response->body);
    for (size_t i = response->header_count; i > 0; i--)
        put_header(&w, &response->headers[i - 1]);
    for (size_t i = response->count; i > 0; i--)
        put_status(&w, &response->statuses[i - 1]);
    put_number(&w, 1, response->code);
    if (w.full)
        return WEIR_EFULL;
    len = (size_t)(out + size - w.at);
    memmove(out, w.at, len);
    return (int64_t)len;
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
