/* checkjson.c - described requests from JSON, strictly.
 *
 * The problem. A program that asks for a decision and misspells a member would have its limits
 * passed by in silence; so everything that is not understood is an error, and the error says where.
 *
 * The idea. One table of members says which of the four forms has which, and which of them must be
 * there. The text is walked once by wire/json.h, without a tree; strings are slices of the body, or
 * of the scratch memory where they had escapes.
 *
 * Invariants:
 *   1. Scratch used never exceeds the bytes of the body read, so that a body's length suffices.
 *   2. Every request of an array is read before the first is decided: an error charges nobody.
 *   3. Nothing nests: an object or array where none is meant is an error at its first byte.
 *
 * Rejected: a JSON library (a tree and dozens of allocations for each request, and no places). */
#include "wire/checkjson.h"

#include <string.h>

#include "base/ipaddr.h"
#include "wire/json.h"
#include "wire/json_whole.h"

#define IP_MAX 255U /* bytes of an address or host name */

enum member_id { IP, METHOD, PATH, STATUS, COST, HEADERS, KEYS, PLAN, PEEK, TTL, ID, MEMBERS };

#define IN(form) (1U << (form))
#define DESCRIBED (IN(WR_CHECK_FORM) | IN(WR_RESERVE_FORM))

static const struct member {
    const char *name;
    unsigned forms, required; /* bits: in which forms it may, and must, be */
} members[MEMBERS] = {
    [IP] = {"ip", DESCRIBED, DESCRIBED},
    [METHOD] = {"method", DESCRIBED, 0},
    [PATH] = {"path", DESCRIBED, 0},
    [STATUS] = {"status", DESCRIBED | IN(WR_SETTLE_FORM),
                0}, /* of requests: the log's form has it */
    [COST] = {"cost", DESCRIBED | IN(WR_SETTLE_FORM), IN(WR_SETTLE_FORM)},
    [HEADERS] = {"headers", DESCRIBED, 0},
    [KEYS] = {"keys", DESCRIBED, 0},
    [PLAN] = {"plan", DESCRIBED, 0},
    [PEEK] = {"peek", IN(WR_CHECK_FORM), 0},
    [TTL] = {"ttl", IN(WR_RESERVE_FORM), IN(WR_RESERVE_FORM)},
    [ID] = {"id", IN(WR_SETTLE_FORM) | IN(WR_RELEASE_FORM),
            IN(WR_SETTLE_FORM) | IN(WR_RELEASE_FORM)},
};

static const char *const unknown[] = {
    [WR_CHECK_FORM] =
        "no such member; there are ip, method, path, status, cost, headers, keys, plan "
        "and peek",
    [WR_RESERVE_FORM] =
        "no such member; there are ip, method, path, status, cost, headers, keys, plan and ttl",
    [WR_SETTLE_FORM] = "no such member; there are id, cost and status",
    [WR_RELEASE_FORM] = "no such member; there is id",
};

struct reading {
    struct wr_check_reader *reader;
    struct wr_json json;
    const char *start;            /* of the body */
    struct weir_request *request; /* the one at hand */
    struct weir_slice *fields;
    unsigned seen; /* members of it, a bit each */
};

/* ---- places ------------------------------------------------------------------------------- */

static void name_part(struct wr_check_reader *reader, const char *separator, struct weir_slice name)
{
    size_t n = strlen(separator), room = sizeof reader->member - reader->member_len;

    if (reader->member_len > 0 || separator[0] == '[') {
        n = n < room ? n : room;
        memcpy(reader->member + reader->member_len, separator, n);
        reader->member_len += n;
        room -= n;
    }
    n = name.len < room ? name.len : room;
    if (n > 0)
        memcpy(reader->member + reader->member_len, name.ptr, n);
    reader->member_len += n;
}

static void name_index(struct wr_check_reader *reader, size_t index)
{
    char digits[4]; /* of the first that is too many, too */
    size_t at = sizeof digits;

    _Static_assert(WR_CHECK_BATCH_MAX <= 9999, "an index fits");
    do {
        digits[--at] = (char)('0' + index % 10);
        index /= 10;
    } while (index > 0);
    reader->member_len = 0;
    name_part(reader, "[", (struct weir_slice){digits + at, sizeof digits - at});
    name_part(reader, "]", (struct weir_slice){NULL, 0});
}

static struct weir_slice text_of(const char *text)
{
    return (struct weir_slice){text, strlen(text)};
}

static bool fail_at(struct reading *r, const char *at, const char *error)
{
    if (r->reader->error == NULL) {
        r->reader->error = error;
        r->reader->offset = (size_t)(at - r->start);
    }
    return false;
}

/* What the JSON reader found. */
static bool fail_json(struct reading *r)
{
    return fail_at(r, r->json.at, r->json.error);
}

/* ---- values ------------------------------------------------------------------------------- */

static const char *skip_blanks(const struct reading *r)
{
    const char *at = r->json.at;

    while (at < r->json.end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r'))
        at++;
    return at;
}

/* The value at the cursor, which has to be of |kind|, or |error|. */
static bool want(struct reading *r, enum wr_json_kind kind, struct weir_slice *text,
                 const char *error)
{
    const char *at = skip_blanks(r);
    struct wr_json_value value;

    *text = (struct weir_slice){NULL, 0};
    if (!wr_json_read(&r->json, &value))
        return fail_json(r);
    if (value.kind != kind)
        return fail_at(r, at, error);
    *text = value.text;
    return true;
}

static bool want_string(struct reading *r, struct weir_slice *text)
{
    const char *at = skip_blanks(r);

    return want(r, WR_JSON_STRING, text, "expected a string") &&
           (text->len > 0 || fail_at(r, at, "expected a string that is not empty"));
}

static bool want_count(struct reading *r, int64_t most, int64_t *out, const char *error)
{
    const char *at = skip_blanks(r);
    struct weir_slice text;
    uint64_t value;

    *out = 0;
    if (!want(r, WR_JSON_NUMBER, &text, error))
        return false;
    if (wr_json_whole(text, (uint64_t)most, &value) != WR_JSON_IS_WHOLE)
        return fail_at(r, at, error);
    *out = (int64_t)value;
    return true;
}

static bool want_bool(struct reading *r, bool *out)
{
    const char *at = skip_blanks(r);
    struct wr_json_value value;

    if (!wr_json_read(&r->json, &value))
        return fail_json(r);
    *out = value.kind == WR_JSON_TRUE;
    return value.kind == WR_JSON_TRUE || value.kind == WR_JSON_FALSE ||
           fail_at(r, at, "expected true or false");
}

/* ---- headers and keys --------------------------------------------------------------------- */

static unsigned char lower(char c)
{
    unsigned char byte = (unsigned char)c;

    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20U) : byte;
}

static bool same(struct weir_slice key, const char *name, enum weir_field_kind kind)
{
    for (size_t i = 0; i < key.len; i++) {
        if (name[i] == '\0' || (kind == WEIR_FIELD_HEADER ? lower(name[i]) != lower(key.ptr[i])
                                                          : name[i] != key.ptr[i]))
            return false;
    }
    return name[key.len] == '\0';
}

/* The field of |kind| called |key|, or -1: nobody asks for it. */
static int find_field(const struct reading *r, struct weir_slice key, enum weir_field_kind kind)
{
    for (size_t i = 0; i < r->reader->field_count; i++)
        if (r->reader->field_kinds[i] == kind && same(key, r->reader->field_names[i], kind))
            return (int)i;
    return -1;
}

/* An array of strings, joined by ", " in the scratch memory: each took three bytes more there than
 * what it holds, so the two between them fit. */
static bool join_strings(struct reading *r, struct weir_slice *out)
{
    struct wr_json *json = &r->json;
    char *start = json->scratch;
    bool first = true;

    *out = (struct weir_slice){start, 0};
    if (!wr_json_enter(json, '['))
        return fail_json(r);
    while (wr_json_item(json, &first)) {
        char *mark = json->scratch;
        struct weir_slice text;
        size_t gap = mark > start ? 2 : 0;
        if (!want(r, WR_JSON_STRING, &text, "expected a string or an array of strings"))
            return false;
        if (text.len > 0)
            memmove(mark + gap, text.ptr, text.len); /* decoded, it lies just there */
        if (gap > 0)
            memcpy(mark, ", ", gap);
        json->scratch = mark + gap + text.len;
    }
    if (json->error != NULL)
        return fail_json(r);
    out->len = (size_t)(json->scratch - start);
    return true;
}

/* A header's value: a string, or an array of them. */
static bool want_header(struct reading *r, struct weir_slice *out)
{
    struct wr_json look = r->json;
    struct wr_json_value value;

    *out = (struct weir_slice){NULL, 0};
    if (wr_json_read(&look, &value) && value.kind == WR_JSON_ARRAY)
        return join_strings(r, out);
    return want(r, WR_JSON_STRING, out, "expected a string or an array of strings");
}

static bool read_field(struct reading *r, struct weir_slice key, enum weir_field_kind kind)
{
    const char *at = r->json.at;
    int index = find_field(r, key, kind);
    struct weir_slice value;

    name_part(r->reader, ".", key);
    if (index < 0 && kind == WEIR_FIELD_KEY)
        return fail_at(r, at, "the policy has no identity of this name");
    if (kind == WEIR_FIELD_HEADER ? !want_header(r, &value)
                                  : !want(r, WR_JSON_STRING, &value, "expected a string"))
        return false;
    if (index < 0)
        return true;
    if (r->fields[index].ptr != NULL)
        return fail_at(r, at, "given twice");
    if (value.ptr == NULL)
        value.ptr = "";
    r->fields[index] = value;
    return true;
}

static bool read_fields(struct reading *r, enum weir_field_kind kind)
{
    struct wr_check_reader *reader = r->reader;
    size_t member_len = reader->member_len;
    struct weir_slice key;
    bool first = true;

    if (!want(r, WR_JSON_OBJECT, &key, "expected an object of strings"))
        return false;
    (void)wr_json_enter(&r->json, '{');
    while (wr_json_member(&r->json, &first, &key)) {
        if (!read_field(r, key, kind))
            return false;
        reader->member_len = member_len;
    }
    return r->json.error == NULL || fail_json(r);
}

/* ---- members ------------------------------------------------------------------------------ */

static bool read_ip(struct reading *r)
{
    const char *at = skip_blanks(r);

    return want_string(r, &r->request->peer) &&
           ((r->request->peer.len <= IP_MAX && wr_ip_or_host(r->request->peer)) ||
            fail_at(r, at, "expected an address or a host name"));
}

static bool read_plan(struct reading *r)
{
    const char *at = skip_blanks(r);
    struct weir_slice name;

    if (!want(r, WR_JSON_STRING, &name, "expected a string"))
        return false;
    r->request->plan = r->reader->find_plan(r->reader->context, name);
    return r->request->plan >= 0 || fail_at(r, at, "the policy has no plan of this name");
}

static bool read_ttl(struct reading *r)
{
    struct wr_json look = r->json;
    struct wr_json_value value;

    if (wr_json_read(&look, &value) && value.kind == WR_JSON_STRING)
        return want_string(r, &r->reader->ttl);
    return want_count(r, INT32_MAX, &r->reader->ttl_s,
                      "expected a duration: \"30s\", or a number of seconds");
}

static bool read_value(struct reading *r, enum member_id member)
{
    switch (member) {
    case IP:
        return read_ip(r);
    case METHOD:
        return want_string(r, &r->request->method);
    case PATH:
        return want_string(r, &r->request->path);
    case STATUS:
        return want_count(r, 999, &r->reader->status,
                          "expected a status: a whole number up to 999");
    case COST:
        return want_count(r, WEIR_COST_MAX, &r->request->cost_units,
                          "expected a whole number from 0 to 1000000000");
    case HEADERS:
        return read_fields(r, WEIR_FIELD_HEADER);
    case KEYS:
        return read_fields(r, WEIR_FIELD_KEY);
    case PLAN:
        return read_plan(r);
    case PEEK:
        return want_bool(r, &r->request->peek);
    case TTL:
        return read_ttl(r);
    case ID:
        return want_string(r, &r->reader->id);
    case MEMBERS:
        break;
    }
    return false;
}

static bool read_member(struct reading *r, struct weir_slice key)
{
    unsigned form = IN(r->reader->form);
    const char *at = r->json.at;

    name_part(r->reader, ".", key);
    for (unsigned i = 0; i < MEMBERS; i++) {
        if ((members[i].forms & form) == 0 || !same(key, members[i].name, WEIR_FIELD_KEY))
            continue;
        if ((r->seen & 1U << i) != 0)
            return fail_at(r, at, "given twice");
        r->seen |= 1U << i;
        return read_value(r, (enum member_id)i);
    }
    return fail_at(r, at, unknown[r->reader->form]);
}

static bool require(struct reading *r, const char *at)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        if ((members[i].required & IN(r->reader->form)) != 0 && (r->seen & 1U << i) == 0) {
            name_part(r->reader, ".", text_of(members[i].name));
            return fail_at(r, at, "missing");
        }
    }
    return true;
}

static bool read_object(struct reading *r)
{
    struct wr_check_reader *reader = r->reader;
    size_t member_len = reader->member_len;
    const char *at = skip_blanks(r);
    struct weir_slice key;
    bool first = true;

    r->request = &reader->requests[reader->count];
    r->fields = reader->fields + reader->count * reader->field_count;
    r->seen = 0;
    *r->request = (struct weir_request){.method = {"GET", 3},
                                        .path = {"/", 1},
                                        .fields = r->fields,
                                        .field_count = reader->field_count,
                                        .cost_units = -1,
                                        .plan = -1};
    for (size_t i = 0; i < reader->field_count; i++)
        r->fields[i] = (struct weir_slice){NULL, 0};
    if (!want(r, WR_JSON_OBJECT, &key, "expected an object"))
        return false;
    (void)wr_json_enter(&r->json, '{');
    while (wr_json_member(&r->json, &first, &key)) {
        if (!read_member(r, key))
            return false;
        reader->member_len = member_len;
    }
    reader->count++;
    return r->json.error == NULL ? require(r, at) : fail_json(r);
}

static bool read_array(struct reading *r)
{
    struct wr_check_reader *reader = r->reader;
    bool first = true;

    reader->array = true;
    (void)wr_json_enter(&r->json, '[');
    while (wr_json_item(&r->json, &first)) {
        name_index(reader, reader->count);
        if (reader->count == WR_CHECK_BATCH_MAX)
            return fail_at(r, r->json.at, "more than 1000 requests in one array");
        if (!read_object(r))
            return false;
    }
    reader->member_len = 0;
    return r->json.error == NULL || fail_json(r);
}

bool wr_check_read(struct wr_check_reader *reader, struct weir_slice body)
{
    struct reading r = {.reader = reader,
                        .json = {.at = body.ptr,
                                 .end = body.ptr + body.len,
                                 .scratch = reader->scratch,
                                 .scratch_end = reader->scratch + body.len,
                                 .strict = true},
                        .start = body.ptr};
    const char *at;

    reader->array = false;
    reader->count = reader->member_len = reader->offset = 0;
    reader->id = reader->ttl = (struct weir_slice){NULL, 0};
    reader->ttl_s = 0;
    reader->status = 0;
    reader->error = NULL;
    if (body.len == 0)
        return fail_at(&r, body.ptr, "expected a JSON object, found no body");
    if (!wr_json_is_utf8(body))
        return fail_at(&r, body.ptr, "the body is not UTF-8");
    at = skip_blanks(&r);
    if (reader->form == WR_CHECK_FORM && at < r.json.end && *at == '[') {
        if (!read_array(&r))
            return false;
    } else if (!read_object(&r)) {
        return false;
    }
    return wr_json_finish(&r.json) || fail_json(&r);
}
