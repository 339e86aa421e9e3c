/* rls_read.c - questions of the rate limit service: messages -> structs.
 *
 * Problem. Any bytes may come; the messages are five, of eleven fields, and reading them was the
 * largest part of a decision that was ours (docs/decisions/0013).
 *
 * Idea. One function reads a field of any message: a number, a kind, a value that lies in the
 * bytes. Each message is a loop that takes what it knows and passes over the rest. Texts stay where
 * they are, structs have their places before a byte is read: nothing is allocated and nothing
 * copied. Then a second look, at structs alone: at their bounds, and whether texts are text.
 *
 * Invariants:
 *   1. Every byte is read as protobuf demands before anything else is found fault with: what is no
 *      message is called that, whatever it would mean.
 *   2. What is beyond the bounds of descriptor.h is read into a last place over and over, counted
 *      and refused.
 *   3. protobuf-c accepts and refuses the same, with the same content: tests/model/rls.c and
 *      fuzz/fuzz_rls.c compare them.
 *
 * Rejected: protobuf-c itself, in one block of memory for each message (five times as slow);
 * stopping at the first descriptor too many (then what the rest is would change the answer). */
#include <string.h>

#include "base/arith.h"
#include "wire/rls.h"
#include "wire/utf8.h"

/* ---- text -------------------------------------------------------------------------------- */

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
            len = wr_utf8_sequence(p, (size_t)(end - p));
            if (len == 0)
                return false;
            p += len;
        }
    }
    return true;
}

/* ---- fields of any message ----------------------------------------------------------------- */

#define VARINT_BYTES 10U /* of 64 bits */
#define SHORT_BYTES 5U   /* of a tag, of a length */

enum kind { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 }; /* 3 and 4, groups, are refused */

/* What of a message is unread. */
struct input {
    const uint8_t *at, *end;
};

struct field {
    uint32_t number;
    enum kind kind;
    uint64_t value;     /* of a VARINT */
    struct input bytes; /* of BYTES */
};

/* A number of at most |most| bytes, in any length; bits beyond the 64th are dropped. */
static bool read_varint(struct input *in, unsigned most, uint64_t *value)
{
    *value = 0;
    for (unsigned i = 0; i < most && in->at < in->end; i++) {
        uint8_t byte = *in->at++;
        *value |= (uint64_t)(byte & 127) << (7 * i);
        if (byte < 128)
            return true;
    }
    return false;
}

static bool skip(struct input *in, uint64_t len)
{
    if (len > (uint64_t)(in->end - in->at))
        return false;
    in->at += len;
    return true;
}

/* False: it is none. */
static bool read_field(struct input *in, struct field *out)
{
    uint64_t tag, len;

    *out = (struct field){0};
    if (!read_varint(in, SHORT_BYTES, &tag))
        return false;
    out->number = (uint32_t)(tag >> 3);
    out->kind = (enum kind)(tag & 7);
    if (out->number == 0)
        return false;
    switch (out->kind) {
    case VARINT:
        return read_varint(in, VARINT_BYTES, &out->value);
    case FIXED64:
        return skip(in, 8);
    case BYTES:
        if (!read_varint(in, SHORT_BYTES, &len) || !skip(in, len))
            return false;
        out->bytes = (struct input){in->at - len, in->at};
        return true;
    case FIXED32:
        return skip(in, 4);
    default:
        return false;
    }
}

/* Bytes as text, not looked at yet. None have no address, as those that were not sent. */
static bool read_text(const struct field *field, struct weir_slice *out)
{
    size_t len = (size_t)(field->bytes.end - field->bytes.at);

    if (field->kind != BYTES)
        return false;
    *out = (struct weir_slice){len > 0 ? (const char *)field->bytes.at : NULL, len};
    return true;
}

static bool read_number(const struct field *field, uint64_t *out)
{
    *out = field->value;
    return field->kind == VARINT;
}

/* Larger ones lose what is above their 32 bits; negative ones are large. */
static bool read_u32(const struct field *field, uint32_t *out)
{
    *out = (uint32_t)field->value;
    return field->kind == VARINT;
}

/* ---- messages ------------------------------------------------------------------------------ */

/* Each reads what is in |in|: the last of a field counts, and whoever is there twice is read twice
 * into the same place, which is what merging is. False: it is no such message. */

static bool read_entry(struct input in, struct wr_entry *out)
{
    struct field field;
    bool good = true;

    *out = (struct wr_entry){0};
    while (good && in.at < in.end) {
        good = read_field(&in, &field);
        if (good && field.number == 1)
            good = read_text(&field, &out->key);
        else if (good && field.number == 2)
            good = read_text(&field, &out->value);
    }
    return good;
}

/* RateLimitDescriptor.RateLimitOverride. */
static bool read_override(struct input in, uint32_t *units, uint32_t *unit)
{
    struct field field;
    bool good = true;

    while (good && in.at < in.end) {
        good = read_field(&in, &field);
        if (good && field.number == 1)
            good = read_u32(&field, units);
        else if (good && field.number == 2)
            good = read_u32(&field, unit);
    }
    return good;
}

/* google.protobuf.UInt64Value. */
static bool read_wrapped(struct input in, uint64_t *value)
{
    struct field field;
    bool good = true;

    while (good && in.at < in.end) {
        good = read_field(&in, &field);
        if (good && field.number == 1)
            good = read_number(&field, value);
    }
    return good;
}

/* What is being read of a descriptor, beyond what remains of it. */
struct reading {
    struct wr_descriptor *out;
    struct wr_entry *entries;
    uint32_t unit;
};

static bool read_descriptor_field(struct reading *r, const struct field *field)
{
    uint64_t flag;

    switch (field->number) {
    case 1:
        return field->kind == BYTES &&
               read_entry(field->bytes, &r->entries[wr_min_u64(r->out->count++, WR_ENTRIES_MAX)]);
    case 2:
        r->out->has_limit = true;
        return field->kind == BYTES && read_override(field->bytes, &r->out->limit_units, &r->unit);
    case 3:
        r->out->has_hits = true;
        return field->kind == BYTES && read_wrapped(field->bytes, &r->out->hits);
    case 4:
        if (!read_number(field, &flag))
            return false;
        r->out->negative = flag != 0;
        return true;
    default:
        return true;
    }
}

static bool read_descriptor(struct input in, struct wr_entry *entries, struct wr_descriptor *out)
{
    struct reading r = {.out = out, .entries = entries};
    struct field field;
    bool good = true;

    *out = (struct wr_descriptor){.entries = entries};
    while (good && in.at < in.end)
        good = read_field(&in, &field) && read_descriptor_field(&r, &field);
    out->limit_unit = (uint8_t)(r.unit <= WR_UNIT_YEAR ? r.unit : WR_UNIT_UNKNOWN);
    return good;
}

static bool read_request(struct input in, struct wr_rls_space *space, struct wr_rate_request *out)
{
    struct field field;
    bool good = true;

    out->descriptors = space->descriptors;
    while (good && in.at < in.end) {
        good = read_field(&in, &field);
        if (good && field.number == 1) {
            good = read_text(&field, &out->domain);
        } else if (good && field.number == 2) {
            size_t at = wr_min_u64(out->count++, WR_DESCRIPTORS_MAX);
            good = field.kind == BYTES &&
                   read_descriptor(field.bytes, space->entries[at], &space->descriptors[at]);
        } else if (good && field.number == 3) {
            good = read_u32(&field, &out->hits);
        }
    }
    return good;
}

/* ---- what they say ------------------------------------------------------------------------- */

static int refuse(int error, const char *text, const char **why)
{
    *why = text;
    return error;
}

static int check_descriptor(const struct wr_descriptor *d, const char **why)
{
    if (d->has_limit && d->limit_unit == WR_UNIT_UNKNOWN)
        return refuse(WEIR_EINVAL, "a limit override has no unit of time", why);
    if (d->count > WR_ENTRIES_MAX)
        return refuse(WEIR_EFULL, "a descriptor has more than 16 entries", why);
    for (size_t i = 0; i < d->count; i++) {
        const struct wr_entry *entry = &d->entries[i];
        if (!wr_utf8_valid(entry->key) || !wr_utf8_valid(entry->value))
            return refuse(WEIR_EINVAL, "a descriptor's key or value is not UTF-8", why);
        if (entry->key.len == 0)
            return refuse(WEIR_EINVAL, "a descriptor entry has an empty key", why);
    }
    return 0;
}

static int check_request(const struct wr_rate_request *request, const char **why)
{
    int result = 0;

    if (!wr_utf8_valid(request->domain))
        return refuse(WEIR_EINVAL, "the domain is not UTF-8", why);
    if (request->count > WR_DESCRIPTORS_MAX)
        return refuse(WEIR_EFULL, "the request has more than 64 descriptors", why);
    for (size_t i = 0; result == 0 && i < request->count; i++)
        result = check_descriptor(&request->descriptors[i], why);
    return result;
}

int wr_rls_decode(const uint8_t *bytes, size_t len, struct wr_rls_space *space,
                  struct wr_rate_request *out, const char **why)
{
    int result;

    *out = (struct wr_rate_request){0};
    *why = "";
    if (read_request((struct input){bytes, bytes + len}, space, out))
        result = check_request(out, why);
    else
        result = refuse(WEIR_EINVAL, "the message is not a RateLimitRequest", why);
    if (result != 0)
        *out = (struct wr_rate_request){0};
    return result;
}

int wr_health_decode(const uint8_t *bytes, size_t len, struct weir_slice *service)
{
    struct input in = {bytes, bytes + len};
    struct field field;
    bool good = true;

    *service = (struct weir_slice){NULL, 0};
    while (good && in.at < in.end) {
        good = read_field(&in, &field);
        if (good && field.number == 1)
            good = read_text(&field, service);
    }
    if (good && wr_utf8_valid(*service))
        return 0;
    *service = (struct weir_slice){NULL, 0};
    return WEIR_EINVAL;
}
