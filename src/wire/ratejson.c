/* ratejson.c - reading: one walk over the text, a table of members for each message.
 *
 * Invariants: nothing nests deeper than the messages do; a member comes once; numbers are whole,
 * and in the range of their type. */
#include "wire/ratejson.h"

#include <stdio.h>
#include <string.h>

#include "wire/json.h"
#include "wire/json_whole.h"

struct reading {
    struct wr_rate_reader *reader;
    struct wr_json json;
    const char *start; /* of the body */
    size_t entries;    /* used, of all descriptors */
};

/* A member of a message: its two spellings, and who reads its value. */
struct member {
    const char *name, *proto_name;
    bool (*read)(struct reading *r, void *message);
};

static bool fail(struct reading *r, const char *error)
{
    if (r->reader->error == NULL) {
        r->reader->error = r->json.error != NULL ? r->json.error : error;
        r->reader->offset = (size_t)(r->json.at - r->start);
    }
    return false;
}

/* ---- where we are: reader->member, for people ---------------------------------------------- */

static void go_to(struct reading *r, const char *text, size_t len)
{
    struct wr_rate_reader *reader = r->reader;
    size_t room = sizeof reader->member - reader->member_len;

    len = len < room ? len : room;
    memcpy(reader->member + reader->member_len, text, len);
    reader->member_len += len;
}

static void go_to_member(struct reading *r, struct weir_slice key)
{
    if (r->reader->member_len > 0)
        go_to(r, ".", 1);
    go_to(r, key.ptr, key.len);
}

static void go_to_item(struct reading *r, size_t index)
{
    char text[24];

    go_to(r, text, (size_t)snprintf(text, sizeof text, "[%zu]", index));
}

/* Out of a member or item that was read well. */
static void come_back(struct reading *r, size_t len)
{
    r->reader->member_len = len;
}

static bool is(struct weir_slice key, const char *name)
{
    return key.len == strlen(name) && memcmp(key.ptr, name, key.len) == 0;
}

/* ---- values ------------------------------------------------------------------------------- */

/* What comes next, without taking it. */
static bool look(const struct reading *r, struct wr_json_value *value)
{
    struct wr_json ahead = r->json;

    return wr_json_read(&ahead, value);
}

static bool read_string(struct reading *r, struct weir_slice *out)
{
    struct wr_json_value value;

    if (!wr_json_read(&r->json, &value) || value.kind != WR_JSON_STRING)
        return fail(r, "expected a string");
    *out = value.text;
    return true;
}

/* A whole number, or a string of one. */
static bool read_number(struct reading *r, uint64_t most, uint64_t *out)
{
    struct wr_json_value value;
    uint64_t number = 0;

    *out = 0;
    if (!wr_json_read(&r->json, &value) || value.text.len == 0 ||
        (value.kind != WR_JSON_NUMBER && value.kind != WR_JSON_STRING))
        return fail(r, "expected a whole number");
    switch (wr_json_whole(value.text, most, &number)) {
    case WR_JSON_NOT_WHOLE:
        return fail(r, "expected a whole number");
    case WR_JSON_TOO_LARGE:
        return fail(r, "the number is too large");
    case WR_JSON_IS_WHOLE:
        break;
    }
    *out = number;
    return true;
}

/* The members of one message into |message|; |name| says which it is, for people. */
static bool read_message(struct reading *r, const struct member *members, size_t count,
                         void *message)
{
    const size_t here = r->reader->member_len;
    struct weir_slice key;
    unsigned seen = 0;
    bool first = true;

    if (!wr_json_enter(&r->json, '{'))
        return fail(r, "expected an object");
    while (wr_json_member(&r->json, &first, &key)) {
        struct wr_json_value value;
        size_t i = 0;
        go_to_member(r, key);
        while (i < count && !is(key, members[i].name) && !is(key, members[i].proto_name))
            i++;
        if (i == count)
            return fail(r, "no such member");
        if ((seen & 1U << i) != 0)
            return fail(r, "a member is given twice");
        seen |= 1U << i;
        if (look(r, &value) && value.kind == WR_JSON_NULL)
            (void)wr_json_read(&r->json, &value);
        else if (!members[i].read(r, message))
            return false;
        if (r->json.error != NULL)
            return fail(r, NULL);
        come_back(r, here);
    }
    return r->json.error == NULL || fail(r, NULL);
}

/* ---- entries ------------------------------------------------------------------------------ */

static bool read_key(struct reading *r, void *message)
{
    return read_string(r, &((struct wr_entry *)message)->key);
}

static bool read_value(struct reading *r, void *message)
{
    return read_string(r, &((struct wr_entry *)message)->value);
}

static const struct member entry_members[] = {{"key", "key", read_key},
                                              {"value", "value", read_value}};

static bool read_entries(struct reading *r, void *message)
{
    struct wr_descriptor *descriptor = message;
    struct wr_entry *entries = r->reader->entries + r->entries;
    const size_t here = r->reader->member_len;
    bool first = true;

    descriptor->entries = entries;
    if (!wr_json_enter(&r->json, '['))
        return fail(r, "expected an array");
    while (wr_json_item(&r->json, &first)) {
        if (descriptor->count == WR_ENTRIES_MAX)
            return fail(r, "too many entries in a descriptor");
        entries[descriptor->count] = (struct wr_entry){{"", 0}, {"", 0}};
        go_to_item(r, descriptor->count);
        if (!read_message(r, entry_members, 2, &entries[descriptor->count]))
            return false;
        if (entries[descriptor->count].key.len == 0) {
            go_to(r, ".key", 4);
            return fail(r, "a descriptor entry has an empty key");
        }
        come_back(r, here);
        descriptor->count++;
    }
    r->entries += descriptor->count;
    return r->json.error == NULL || fail(r, NULL);
}

/* ---- descriptors -------------------------------------------------------------------------- */

static const char *const units[WR_UNITS] = {"UNKNOWN", "SECOND", "MINUTE", "HOUR",
                                            "DAY",     "MONTH",  "YEAR",   "WEEK"};

static bool read_requests_per_unit(struct reading *r, void *message)
{
    uint64_t number;
    bool good = read_number(r, UINT32_MAX, &number);

    ((struct wr_descriptor *)message)->limit_units = (uint32_t)number;
    return good;
}

/* By its name, or its number; this enum has no week. */
static bool read_unit(struct reading *r, void *message)
{
    struct wr_descriptor *descriptor = message;
    struct wr_json_value value;
    uint64_t number;

    if (look(r, &value) && value.kind == WR_JSON_STRING) {
        (void)wr_json_read(&r->json, &value);
        for (unsigned i = 0; i < WR_UNIT_WEEK; i++) {
            if (is(value.text, units[i])) {
                descriptor->limit_unit = (uint8_t)i;
                return true;
            }
        }
        return fail(r, "no such unit");
    }
    if (!read_number(r, INT32_MAX, &number))
        return false;
    descriptor->limit_unit = (uint8_t)(number < WR_UNIT_WEEK ? number : WR_UNIT_UNKNOWN);
    return true;
}

static const struct member limit_members[] = {
    {"requestsPerUnit", "requests_per_unit", read_requests_per_unit}, {"unit", "unit", read_unit}};

static bool read_limit(struct reading *r, void *message)
{
    struct wr_descriptor *descriptor = message;

    descriptor->has_limit = true;
    return read_message(r, limit_members, 2, message) &&
           (descriptor->limit_unit != WR_UNIT_UNKNOWN ||
            fail(r, "a limit override has no unit of time"));
}

static bool read_own_hits(struct reading *r, void *message)
{
    struct wr_descriptor *descriptor = message;

    descriptor->has_hits = true;
    return read_number(r, UINT64_MAX, &descriptor->hits);
}

static bool read_negative(struct reading *r, void *message)
{
    struct wr_json_value value;

    if (!wr_json_read(&r->json, &value) ||
        (value.kind != WR_JSON_TRUE && value.kind != WR_JSON_FALSE))
        return fail(r, "expected true or false");
    ((struct wr_descriptor *)message)->negative = value.kind == WR_JSON_TRUE;
    return true;
}

static const struct member descriptor_members[] = {
    {"entries", "entries", read_entries},
    {"limit", "limit", read_limit},
    {"hitsAddend", "hits_addend", read_own_hits},
    {"isNegativeHits", "is_negative_hits", read_negative}};

/* ---- the question ------------------------------------------------------------------------- */

static bool read_domain(struct reading *r, void *message)
{
    return read_string(r, &((struct wr_rate_request *)message)->domain);
}

static bool read_descriptors(struct reading *r, void *message)
{
    struct wr_rate_request *request = message;
    const size_t here = r->reader->member_len;
    bool first = true;

    if (!wr_json_enter(&r->json, '['))
        return fail(r, "expected an array");
    while (wr_json_item(&r->json, &first)) {
        struct wr_descriptor *descriptor = &r->reader->descriptors[request->count];
        if (request->count == WR_DESCRIPTORS_MAX)
            return fail(r, "too many descriptors");
        *descriptor = (struct wr_descriptor){.entries = r->reader->entries};
        go_to_item(r, request->count);
        if (!read_message(r, descriptor_members, 4, descriptor))
            return false;
        come_back(r, here);
        request->count++;
    }
    return r->json.error == NULL || fail(r, NULL);
}

static bool read_hits(struct reading *r, void *message)
{
    uint64_t number;
    bool good = read_number(r, UINT32_MAX, &number);

    ((struct wr_rate_request *)message)->hits = (uint32_t)number;
    return good;
}

static const struct member request_members[] = {{"domain", "domain", read_domain},
                                                {"descriptors", "descriptors", read_descriptors},
                                                {"hitsAddend", "hits_addend", read_hits}};

bool wr_rate_read(struct wr_rate_reader *reader, struct weir_slice body, char *scratch)
{
    struct reading r = {.reader = reader,
                        .json = {.at = body.ptr,
                                 .end = body.ptr + body.len,
                                 .scratch = scratch,
                                 .scratch_end = scratch + body.len,
                                 .strict = true},
                        .start = body.ptr};

    reader->error = NULL;
    reader->offset = reader->member_len = 0;
    reader->request =
        (struct wr_rate_request){.domain = {"", 0}, .descriptors = reader->descriptors};
    if (body.len == 0 || !wr_json_is_utf8(body))
        return fail(&r, "the body is not JSON");
    return read_message(&r, request_members, 3, &reader->request) &&
           (wr_json_finish(&r.json) || fail(&r, NULL));
}
