/* accesslog_json.c - lines that are one JSON object, whoever wrote it.
 *
 * The problem. Every server names its members differently, some name one thing twice (Traefik logs
 * when a request began and when the line was written), and nginx lets its administrator choose.
 *
 * The idea. One table says which member tells what, and with which rank where several tell the
 * same; no server is guessed, so a mixture works too. Objects are entered in two places only:
 * `headers` (our own form) and Caddy's `request` with its `headers`. A member that is none of these
 * but has the name of a header field that the policy asks for, is that field.
 *
 *   weir     time ip method path status cost duration(s) headers{name: text | [texts]}
 *   nginx    msec | time_iso8601 | time_local, remote_addr, request | request_method request_uri,
 *            status, request_time(s), http_NAME
 *   Caddy    ts, request{remote_ip | client_ip method uri headers{name: [texts]}} status
 * duration(s) Traefik  StartUTC | time, ClientHost | ClientAddr, RequestMethod, RequestPath,
 * DownstreamStatus, Duration(ns), request_NAME Envoy    start_time, downstream_remote_address,
 * method, path | x-envoy-origin-path, response_code, duration(ms), NAME
 *
 * Rejected: a JSON library (a tree and a dozen allocations a line; numbers as doubles, while a
 * nanosecond matters to a bucket; lines that are not UTF-8 refused, which servers do write). */
#include <string.h>

#include "wire/json.h"
#include "wire/logparser.h"

enum target { TIME, CLIENT, METHOD, PATH, STATUS, DURATION, REQUEST, HEADERS, COST, TARGETS };

struct member {
    const char *name;
    uint8_t len;
    uint8_t target; /* enum target */
    uint8_t rank;   /* of two members with one target the lower rank wins; from 1 */
    uint8_t unit;   /* of durations: enum unit */
};

enum unit { SECONDS = 1, NANOSECONDS, BY_SERVER };

#define MEMBER(name, target, rank, unit)           \
    {                                              \
        name, sizeof(name) - 1, target, rank, unit \
    }

static const struct member members[] = {
    MEMBER("StartUTC", TIME, 1, 0),
    MEMBER("msec", TIME, 2, 0),
    MEMBER("time", TIME, 3, 0),
    MEMBER("ts", TIME, 4, 0),
    MEMBER("start_time", TIME, 5, 0),
    MEMBER("time_iso8601", TIME, 6, 0),
    MEMBER("time_local", TIME, 7, 0),
    MEMBER("ip", CLIENT, 1, 0),
    MEMBER("remote_addr", CLIENT, 2, 0),
    MEMBER("ClientHost", CLIENT, 3, 0),
    MEMBER("ClientAddr", CLIENT, 4, 0),
    MEMBER("downstream_remote_address", CLIENT, 5, 0),
    MEMBER("method", METHOD, 1, 0),
    MEMBER("request_method", METHOD, 2, 0),
    MEMBER("RequestMethod", METHOD, 3, 0),
    MEMBER("x-envoy-original-path", PATH, 1, 0),
    MEMBER("x_envoy_original_path", PATH, 1, 0),
    MEMBER("x-envoy-origin-path", PATH, 2, 0),
    MEMBER("path", PATH, 3, 0),
    MEMBER("request_uri", PATH, 4, 0),
    MEMBER("RequestPath", PATH, 5, 0),
    MEMBER("status", STATUS, 1, 0),
    MEMBER("DownstreamStatus", STATUS, 2, 0),
    MEMBER("response_code", STATUS, 3, 0),
    MEMBER("request_time", DURATION, 1, SECONDS),
    MEMBER("Duration", DURATION, 2, NANOSECONDS),
    MEMBER("duration", DURATION, 3, BY_SERVER),
    MEMBER("request", REQUEST, 1, 0),
    MEMBER("headers", HEADERS, 1, 0),
    MEMBER("cost", COST, 1, 0),
};

/* Within Caddy's "request". client_ip is what Caddy took for the client; the peer is remote_ip, and
 * the policy walks the forwarding headers itself. */
static const struct member request_members[] = {
    MEMBER("remote_ip", CLIENT, 6, 0), MEMBER("remote_addr", CLIENT, 7, 0),
    MEMBER("client_ip", CLIENT, 8, 0), MEMBER("method", METHOD, 4, 0),
    MEMBER("uri", PATH, 6, 0),         MEMBER("headers", HEADERS, 1, 0),
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct line {
    struct wr_log_parser *parser;
    struct wr_json json;
    struct wr_log_record *out;
    uint8_t rank[TARGETS];      /* of the member that told it; 0: none yet */
    uint64_t from_object;       /* fields that came from a headers object */
    const char *bad_time;       /* a time that could not be read */
    struct weir_slice duration; /* in a unit that only the whole line tells */
    bool envoy;
    const char *error; /* of meaning, not of JSON */
    const char *error_at;
};

static const struct member *find(const struct member *table, size_t count, struct weir_slice key)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].len == key.len && memcmp(table[i].name, key.ptr, key.len) == 0)
            return &table[i];
    return NULL;
}

static bool is_text(const struct wr_json_value *value)
{
    return value->kind == WR_JSON_STRING || value->kind == WR_JSON_NUMBER;
}

/* A value that says something: servers log "-" or "" for what there is not. */
static bool is_present(const struct wr_json_value *value)
{
    if (!is_text(value) || value->text.len == 0)
        return false;
    return value->text.len > 1 || value->text.ptr[0] != '-';
}

/* ---- values ------------------------------------------------------------------------------- */

static bool read_time(struct weir_slice text, int64_t *ns)
{
    if (text.len == WR_LOGTIME_CLF_LEN && text.ptr[2] == '/')
        return wr_logtime_clf(text.ptr, ns);
    return wr_logtime_rfc3339(text, ns) || wr_logtime_epoch(text, ns);
}

static bool set_time(struct line *line, const struct wr_json_value *value, const char *at)
{
    if (read_time(value->text, &line->out->time_ns))
        return true;
    line->bad_time = at;
    return false;
}

static void set_status(struct wr_log_record *out, struct weir_slice text)
{
    int status = 0;

    if (text.len != 3)
        return;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return;
        status = status * 10 + (text.ptr[i] - '0');
    }
    out->status = status;
}

static void set_cost(struct line *line, const struct wr_json_value *value, const char *at)
{
    int64_t cost = 0;
    bool ok = value->kind == WR_JSON_NUMBER && value->text.len <= 10;

    if (value->kind == WR_JSON_NULL)
        return;
    for (size_t i = 0; ok && i < value->text.len; i++) {
        ok = value->text.ptr[i] >= '0' && value->text.ptr[i] <= '9';
        cost = cost * 10 + (value->text.ptr[i] - '0');
    }
    if (ok && cost <= WEIR_COST_MAX) {
        line->out->cost = cost;
    } else if (line->error == NULL) {
        line->error = "the cost is not a whole number from 0 to 1000000000";
        line->error_at = at;
    }
}

static void set_duration(struct line *line, enum unit unit, struct weir_slice text)
{
    int64_t ns;

    line->duration = (struct weir_slice){NULL, 0};
    line->out->duration_ns = -1;
    if (unit == BY_SERVER)
        line->duration = text;
    else if (wr_logtime_scaled(text, unit == SECONDS ? INT64_C(1000000000) : 1, &ns))
        line->out->duration_ns = ns;
}

/* ---- header fields ------------------------------------------------------------------------ */

/* |field| becomes "field, value". Values in pieces are joined at the end of the scratch memory, so
 * that a thousand of them are not copied a thousand times. |mark| is where the scratch memory ended
 * before |value| was read. */
static bool join(struct wr_json *json, struct weir_slice *field, struct weir_slice value,
                 char *mark)
{
    char *at = mark;

    if ((size_t)(json->scratch_end - json->scratch) < field->len + value.len + 2) {
        json->error = "the line holds more text than fits";
        return false;
    }
    if (field->len == 0 || field->ptr + field->len != mark) { /* not the last thing there */
        char *moved = json->scratch;
        if (field->len > 0)
            memcpy(moved, field->ptr, field->len);
        field->ptr = moved;
        at = moved + field->len;
    }
    memmove(at + 2, value.ptr, value.len); /* may be just there */
    at[0] = ',';
    at[1] = ' ';
    at += 2 + value.len;
    field->len += 2 + value.len;
    json->scratch = at;
    return true;
}

/* One line of a header field, at the cursor. */
static bool read_field_line(struct line *line, int index)
{
    char *mark = line->json.scratch;
    struct wr_json_value value;
    struct weir_slice *field = line->out->field + index;

    if (!wr_json_read(&line->json, &value))
        return false;
    if (value.kind == WR_JSON_OBJECT || value.kind == WR_JSON_ARRAY)
        return wr_json_skip(&line->json);
    if (!is_text(&value))
        return true;
    if ((line->from_object & UINT64_C(1) << index) != 0)
        return join(&line->json, field, value.text, mark);
    *field = value.text;
    line->from_object |= UINT64_C(1) << index;
    return true;
}

static bool read_field(struct line *line, int index)
{
    struct wr_json *json = &line->json;
    struct wr_json_value value;
    bool first = true;
    char *scratch = json->scratch;
    const char *at = json->at;

    if (!wr_json_read(json, &value))
        return false;
    if (value.kind == WR_JSON_ARRAY) {
        (void)wr_json_enter(json, '[');
        while (wr_json_item(json, &first))
            if (!read_field_line(line, index))
                return false;
        return json->error == NULL;
    }
    json->at = at;
    json->scratch = scratch;
    return read_field_line(line, index);
}

static bool read_headers(struct line *line)
{
    struct wr_json *json = &line->json;
    struct weir_slice key;
    bool first = true;

    if (!wr_json_enter(json, '{'))
        return false;
    while (wr_json_member(json, &first, &key)) {
        int index = wr_log_field_find(line->parser, key);
        if (index >= 0 ? !read_field(line, index) : !wr_json_skip(json))
            return false;
    }
    return json->error == NULL;
}

static bool has_prefix(struct weir_slice key, const char *prefix, size_t len)
{
    return key.len > len && memcmp(key.ptr, prefix, len) == 0;
}

/* A member of the line that may be a header field: http_x_api_key, request_X-Api-Key, x-api-key. */
static bool read_flat_field(struct line *line, struct weir_slice key)
{
    struct wr_json_value value;
    int index;

    if (has_prefix(key, "http_", 5))
        key = (struct weir_slice){key.ptr + 5, key.len - 5};
    else if (has_prefix(key, "request_", 8))
        key = (struct weir_slice){key.ptr + 8, key.len - 8};
    index = wr_log_field_find(line->parser, key);
    if (index < 0 || (line->from_object & UINT64_C(1) << index) != 0)
        return wr_json_skip(&line->json);
    if (!wr_json_read(&line->json, &value))
        return false;
    if (value.kind == WR_JSON_OBJECT || value.kind == WR_JSON_ARRAY)
        return wr_json_skip(&line->json);
    if (is_present(&value))
        line->out->field[index] = value.text;
    return true;
}

/* ---- the line ----------------------------------------------------------------------------- */

static bool take(struct line *line, const struct member *member, const struct wr_json_value *value,
                 const char *at)
{
    struct wr_log_record *out = line->out;

    switch ((enum target)member->target) {
    case TIME:
        return set_time(line, value, at);
    case CLIENT:
        out->client = wr_log_strip_port(value->text);
        return true;
    case METHOD:
        out->method = value->text;
        return true;
    case PATH:
        out->path = value->text;
        return true;
    case STATUS:
        set_status(out, value->text);
        return true;
    case DURATION:
        set_duration(line, (enum unit)member->unit, value->text);
        return true;
    case REQUEST:
        if (line->rank[METHOD] == 0 && line->rank[PATH] == 0)
            wr_log_split_request(value->text, out);
        return true;
    case HEADERS:
    case COST:
    case TARGETS:
        break;
    }
    return false;
}

static bool read_member(struct line *line, const struct member *member)
{
    struct wr_json *json = &line->json;
    struct wr_json_value value;
    const char *at = json->at;
    uint8_t *rank = &line->rank[member->target];

    if (!wr_json_read(json, &value))
        return false;
    if (member->target == COST)
        set_cost(line, &value, at);
    if (value.kind == WR_JSON_OBJECT || value.kind == WR_JSON_ARRAY)
        return wr_json_skip(json);
    if (is_present(&value) && (*rank == 0 || member->rank < *rank) &&
        take(line, member, &value, at))
        *rank = member->rank;
    return true;
}

static bool at_object(struct wr_json *json)
{
    struct wr_json look = *json;
    struct wr_json_value value;

    return wr_json_read(&look, &value) && value.kind == WR_JSON_OBJECT;
}

static bool read_request(struct line *line)
{
    struct wr_json *json = &line->json;
    struct weir_slice key;
    bool first = true;

    if (!wr_json_enter(json, '{'))
        return false;
    while (wr_json_member(json, &first, &key)) {
        const struct member *member = find(request_members, COUNT(request_members), key);
        bool ok;
        if (member == NULL)
            ok = wr_json_skip(json);
        else if (member->target == HEADERS && at_object(json))
            ok = read_headers(line);
        else
            ok = read_member(line, member);
        if (!ok)
            return false;
    }
    return json->error == NULL;
}

static bool read_line(struct line *line)
{
    struct wr_json *json = &line->json;
    struct weir_slice key;
    bool first = true;

    if (!wr_json_enter(json, '{'))
        return false;
    while (wr_json_member(json, &first, &key)) {
        const struct member *member = find(members, COUNT(members), key);
        bool ok;
        if (member == NULL)
            ok = read_flat_field(line, key);
        else if (member->target == HEADERS && at_object(json))
            ok = read_headers(line);
        else if (member->target == REQUEST && at_object(json))
            ok = read_request(line);
        else
            ok = read_member(line, member);
        if (!ok)
            return false;
        line->envoy |= member != NULL && member->target == TIME && member->rank == 5;
    }
    return wr_json_finish(json);
}

static const char *fail(struct line *line, const char *at, const char *error)
{
    line->parser->column = at;
    return error;
}

const char *wr_log_parse_json(struct wr_log_parser *parser, const char *text, const char *end,
                              struct wr_log_record *out)
{
    struct line line = {.parser = parser,
                        .json = {.at = text,
                                 .end = end,
                                 .scratch = parser->scratch,
                                 .scratch_end = parser->scratch + WR_LOG_SCRATCH},
                        .out = out};
    int64_t unit_ns;

    if (!read_line(&line))
        return fail(&line, line.json.at, line.json.error);
    if (line.error != NULL)
        return fail(&line, line.error_at, line.error);
    if (line.rank[TIME] == 0 && line.bad_time != NULL)
        return fail(&line, line.bad_time,
                    "the time is neither RFC 3339 nor seconds since the epoch, or out of range");
    if (line.rank[TIME] == 0)
        return fail(&line, text, "no time in the JSON object (time, ts, msec, time_local, ...)");
    if (line.rank[CLIENT] == 0)
        return fail(&line, text,
                    "no client address in the JSON object (ip, remote_addr, ClientHost, ...)");
    unit_ns = line.envoy ? INT64_C(1000000) : INT64_C(1000000000);
    if (line.duration.ptr != NULL && !wr_logtime_scaled(line.duration, unit_ns, &out->duration_ns))
        out->duration_ns = -1;
    return NULL;
}
