/* accesslog_json.c - lines that are one JSON object, whoever wrote it.
 *
 * The problem. Every server names its members differently, some name one thing twice (Traefik logs
 * when a request began and when the line was written), and nginx lets its administrator choose.
 *
 * The idea. jansson reads the line; it is lent to the record until the next one. One table says
 * which member tells what, and with which rank where several tell the same; no server is guessed,
 * so a mixture works too. Objects are entered in two places only: `headers` (our own form) and
 * Caddy's `request` with its `headers`. A member that is none of these but has the name of a header
 * field that the policy asks for, is that field.
 *
 *   weir     time ip method path status cost duration(s) headers{name: text | [texts]}
 *   nginx    msec | time_iso8601 | time_local, remote_addr, request | request_method
 *            request_uri, status, request_time(s), http_NAME
 *   Caddy    ts, request{remote_ip | client_ip method uri headers{name: [texts]}} status
 *            duration(s)
 *   Traefik  StartUTC | time, ClientHost | ClientAddr, RequestMethod, RequestPath,
 *            DownstreamStatus, Duration(ns), request_NAME
 *   Envoy    start_time, downstream_remote_address, method, path | x-envoy-origin-path,
 *            response_code, duration(ms), NAME
 *
 * Invariants:
 *   1. A line that is no JSON is a bad line (json_load.c).
 *   2. A time in a string is exact to the nanosecond; a number with a fraction is rounded to the
 *      microsecond (json_number.c).
 *
 * Rejected: a parser of our own that kept numbers as text (a quarter of the time, numbers exact
 * too; but JSON is not what this project is about). */
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "wire/json_load.h"
#include "wire/json_mend.h"
#include "wire/json_number.h"
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
    struct wr_log_record *out;
    char *scratch; /* free memory for text that is not in the tree as it should be */
    char *scratch_end;
    bool mended;            /* strings may hold characters that stand for bytes */
    uint8_t rank[TARGETS];  /* of the member that told it; 0: none yet */
    uint64_t from_object;   /* fields that came from a headers object */
    const char *bad_time;   /* the member whose time could not be read */
    const json_t *duration; /* in a unit that only the whole line tells */
    bool envoy;
    const char *error; /* of meaning, not of JSON */
    const char *error_member;
};

static const struct member *find(const struct member *table, size_t count, struct weir_slice key)
{
    for (size_t i = 0; i < count; i++)
        if (table[i].len == key.len && memcmp(table[i].name, key.ptr, key.len) == 0)
            return &table[i];
    return NULL;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value) || json_is_number(value);
}

static struct weir_slice string_of(const json_t *value)
{
    return (struct weir_slice){json_string_value(value), json_string_length(value)};
}

/* A value that says something: servers log "-" or "" for what there is not. */
static bool is_present(const json_t *value)
{
    struct weir_slice text = string_of(value);

    if (!json_is_string(value))
        return json_is_number(value);
    return text.len > 1 || (text.len == 1 && text.ptr[0] != '-');
}

static bool fail(struct line *line, const char *member, const char *error)
{
    if (line->error == NULL) {
        line->error = error;
        line->error_member = member;
    }
    return false;
}

/* ---- text --------------------------------------------------------------------------------- */

static bool reserve(struct line *line, size_t len)
{
    if ((size_t)(line->scratch_end - line->scratch) >= len)
        return true;
    return fail(line, NULL, "the line holds more text than fits");
}

/* Append the text of |value| to the scratch memory. */
static bool put_text(struct line *line, const json_t *value)
{
    struct weir_slice text = string_of(value);

    if (!reserve(line, json_is_string(value) ? text.len : WR_JSON_NUMBER_MAX))
        return false;
    if (!json_is_string(value))
        line->scratch += wr_json_number_text(value, line->scratch);
    else if (line->mended)
        line->scratch += wr_json_mend_undo(text, line->scratch);
    else
        line->scratch = mempcpy(line->scratch, text.ptr, text.len);
    return true;
}

/* The text of |value|, where it lies if it can be. */
static bool text_of(struct line *line, const json_t *value, struct weir_slice *out)
{
    char *start = line->scratch;

    *out = string_of(value);
    if (json_is_string(value) && (!line->mended || !wr_json_mend_stands(*out)))
        return true;
    if (!put_text(line, value))
        return false;
    *out = (struct weir_slice){start, (size_t)(line->scratch - start)};
    return true;
}

/* |field| becomes "field, value". It is grown at the end of the scratch memory, so that a thousand
 * values are not copied a thousand times. */
static bool join(struct line *line, struct weir_slice *field, const json_t *value)
{
    if (field->ptr + field->len != line->scratch) {
        if (!reserve(line, field->len))
            return false;
        memcpy(line->scratch, field->ptr, field->len);
        field->ptr = line->scratch;
        line->scratch += field->len;
    }
    if (!reserve(line, 2))
        return false;
    line->scratch = mempcpy(line->scratch, ", ", 2);
    if (!put_text(line, value))
        return false;
    field->len = (size_t)(line->scratch - field->ptr);
    return true;
}

/* ---- numbers ------------------------------------------------------------------------------ */

static bool read_time(const json_t *value, int64_t *ns)
{
    struct weir_slice text = string_of(value);
    int64_t found;

    if (json_is_number(value)) {
        if (!wr_json_number_ns(value, WR_NS_PER_S, WR_NS_PER_US, &found) || found >= WR_TIME_MAX_NS)
            return false;
        *ns = found;
        return true;
    }
    if (text.len == WR_LOGTIME_CLF_LEN && text.ptr[2] == '/')
        return wr_logtime_clf(text.ptr, ns);
    return wr_logtime_rfc3339(text, ns) || wr_logtime_epoch(text, ns);
}

static void set_status(struct wr_log_record *out, const json_t *value)
{
    struct weir_slice text = string_of(value);
    double number = json_number_value(value);
    int status = 0;

    if (json_is_number(value)) {
        out->status = number >= 100 && number <= 999 ? (int)number : 0;
        return;
    }
    if (text.len != 3)
        return;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9')
            return;
        status = status * 10 + (text.ptr[i] - '0');
    }
    out->status = status;
}

static void set_cost(struct line *line, const json_t *value)
{
    double cost = json_number_value(value);

    if (json_is_null(value))
        return;
    if (json_is_number(value) && cost >= 0 && cost <= (double)WEIR_COST_MAX && cost == floor(cost))
        line->out->cost = (int64_t)cost;
    else
        (void)fail(line, "cost", "the cost is not a whole number from 0 to 1000000000");
}

static void set_duration(struct wr_log_record *out, int64_t unit_ns, const json_t *value)
{
    int64_t ns;
    bool ok = json_is_string(value) ? wr_logtime_scaled(string_of(value), unit_ns, &ns)
                                    : wr_json_number_ns(value, unit_ns, 1, &ns);

    out->duration_ns = ok ? ns : -1;
}

/* ---- header fields ------------------------------------------------------------------------ */

/* One line of a header field. */
static bool add_field_line(struct line *line, int index, const json_t *value)
{
    const uint64_t bit = UINT64_C(1) << index;
    struct weir_slice *field = &line->out->field[index];

    if (!is_text(value))
        return true;
    if ((line->from_object & bit) != 0)
        return join(line, field, value);
    line->from_object |= bit;
    return text_of(line, value, field);
}

static bool read_headers(struct line *line, json_t *headers)
{
    const char *key;
    size_t key_len, i;
    json_t *value, *item;

    json_object_keylen_foreach(headers, key, key_len, value)
    {
        int index = wr_log_field_find(line->parser, (struct weir_slice){key, key_len});
        if (index < 0)
            continue;
        if (!add_field_line(line, index, value))
            return false;
        json_array_foreach(value, i, item)
        {
            if (!add_field_line(line, index, item))
                return false;
        }
    }
    return true;
}

static bool has_prefix(struct weir_slice key, const char *prefix, size_t len)
{
    return key.len > len && memcmp(key.ptr, prefix, len) == 0;
}

/* A member of the line that may be a header field: http_x_api_key, request_X-Api-Key, x-api-key. */
static bool read_flat_field(struct line *line, struct weir_slice key, const json_t *value)
{
    int index;

    if (has_prefix(key, "http_", 5))
        key = (struct weir_slice){key.ptr + 5, key.len - 5};
    else if (has_prefix(key, "request_", 8))
        key = (struct weir_slice){key.ptr + 8, key.len - 8};
    index = wr_log_field_find(line->parser, key);
    if (index < 0 || (line->from_object & UINT64_C(1) << index) != 0 || !is_present(value))
        return true;
    return text_of(line, value, &line->out->field[index]);
}

/* ---- the line ----------------------------------------------------------------------------- */

static bool take_text(struct line *line, enum target target, struct weir_slice text)
{
    struct wr_log_record *out = line->out;

    if (target == CLIENT)
        out->client = wr_log_strip_port(text);
    else if (target == METHOD)
        out->method = text;
    else if (target == PATH)
        out->path = text;
    else if (line->rank[METHOD] == 0 && line->rank[PATH] == 0)
        wr_log_split_request(text, out);
    return true;
}

/* Did |value| tell what |member| is for? */
static bool take(struct line *line, const struct member *member, const json_t *value)
{
    struct wr_log_record *out = line->out;
    struct weir_slice text;

    switch ((enum target)member->target) {
    case TIME:
        if (read_time(value, &out->time_ns))
            return true;
        line->bad_time = member->name;
        return false;
    case STATUS:
        set_status(out, value);
        return true;
    case DURATION:
        line->duration = member->unit == BY_SERVER ? value : NULL;
        if (member->unit != BY_SERVER)
            set_duration(out, member->unit == SECONDS ? WR_NS_PER_S : 1, value);
        return true;
    case CLIENT:
    case METHOD:
    case PATH:
    case REQUEST:
        return text_of(line, value, &text) && take_text(line, (enum target)member->target, text);
    case HEADERS:
    case COST:
    case TARGETS:
        break;
    }
    return false;
}

static void read_member(struct line *line, const struct member *member, const json_t *value)
{
    uint8_t *rank = &line->rank[member->target];

    if (member->target == COST)
        set_cost(line, value);
    else if (is_present(value) && (*rank == 0 || member->rank < *rank) && take(line, member, value))
        *rank = member->rank;
}

static void read_request(struct line *line, json_t *request)
{
    const char *key;
    size_t key_len;
    json_t *value;

    json_object_keylen_foreach(request, key, key_len, value)
    {
        const struct member *member =
            find(request_members, COUNT(request_members), (struct weir_slice){key, key_len});
        if (member == NULL)
            continue;
        if (member->target == HEADERS)
            (void)read_headers(line, value);
        else
            read_member(line, member, value);
    }
}

static void read_line(struct line *line, json_t *object)
{
    const char *key;
    size_t key_len;
    json_t *value;

    json_object_keylen_foreach(object, key, key_len, value)
    {
        const struct weir_slice name = {key, key_len};
        const struct member *member = find(members, COUNT(members), name);
        if (member == NULL)
            (void)read_flat_field(line, name, value);
        else if (member->target == HEADERS)
            (void)read_headers(line, value);
        else if (member->target == REQUEST && json_is_object(value))
            read_request(line, value);
        else
            read_member(line, member, value);
        line->envoy |= member != NULL && member->target == TIME && member->rank == 5;
    }
}

static const char *bad(struct wr_log_parser *parser, struct weir_slice text, const char *member,
                       const char *error)
{
    const char *at = member != NULL ? wr_json_locate(text, member) : NULL;

    parser->column = at != NULL ? at : text.ptr;
    return error;
}

const char *wr_log_parse_json(struct wr_log_parser *parser, const char *start, const char *end,
                              struct wr_log_record *out)
{
    const struct weir_slice text = {start, (size_t)(end - start)};
    struct line line = {.parser = parser,
                        .out = out,
                        .scratch = parser->scratch,
                        .scratch_end = parser->scratch + WR_LOG_SCRATCH};

    json_decref(parser->tree);
    parser->tree = wr_json_load(text, &line.mended, &parser->error);
    if (parser->tree == NULL) {
        parser->column = text.ptr + parser->error.at;
        return parser->error.reason;
    }
    read_line(&line, parser->tree);
    if (line.error != NULL)
        return bad(parser, text, line.error_member, line.error);
    if (line.rank[TIME] == 0 && line.bad_time != NULL)
        return bad(parser, text, line.bad_time,
                   "the time is neither RFC 3339 nor seconds since the epoch, or out of range");
    if (line.rank[TIME] == 0)
        return bad(parser, text, NULL,
                   "no time in the JSON object (time, ts, msec, time_local, ...)");
    if (line.rank[CLIENT] == 0)
        return bad(parser, text, NULL,
                   "no client address in the JSON object (ip, remote_addr, ClientHost, ...)");
    if (line.duration != NULL)
        set_duration(out, line.envoy ? WR_NS_PER_MS : WR_NS_PER_S, line.duration);
    return NULL;
}
