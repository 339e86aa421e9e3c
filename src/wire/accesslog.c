/* accesslog.c - lines with columns: the common and the combined log format.
 *
 *   client ident user [17/May/2015:10:05:03 +0000] "GET /x HTTP/1.1" 200 512 "referer" "agent"
 * "xff"
 *
 * The problem. Callers write half of such a line, so none of it can be trusted to be plain: user
 * names with blanks and brackets, request lines that are no HTTP, quotes. Servers escape quotes and
 * control bytes inside quoted fields (\" and \xNN), but not blanks or brackets in the user name.
 *
 * The idea. Up to the time there are three words (a user name with blanks makes the line a bad one:
 * to guess where it ends is to let a caller forge the rest); from there on everything is delimited.
 * Scanning is memchr, which looks at 32 bytes at a time; a time stamp equal to the line before's is
 * not parsed again.
 *
 * Invariants:
 *   1. A line is good if its format is: client, time, closed quotes, a three-digit status. What the
 *      request line holds does not matter; method and path are what can be had of it.
 *   2. Slices are of the line, or, where there was an escape to undo, of the scratch memory.
 *   3. A dash for a quoted field means that there was none.
 *   4. What follows the fields that are known is ignored: many add their own.
 *
 * Rejected: strptime and regular expressions (2 us a line and more); guessing the columns of
 * other formats (a wrong guess decides about the wrong address; such a line is bad, with a reason).
 */
#include "wire/accesslog.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hex.h"
#include "wire/logparser.h"

bool wr_log_format_named(const char *name, enum wr_log_format *out)
{
    static const struct {
        const char *name;
        enum wr_log_format format;
    } formats[] = {{"auto", WR_LOG_UNKNOWN},
                   {"common", WR_LOG_COMMON},
                   {"combined", WR_LOG_COMBINED},
                   {"json", WR_LOG_JSON}};

    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (strcmp(name, formats[i].name) == 0) {
            *out = formats[i].format;
            return true;
        }
    }
    return false;
}

static int find_literal(const struct wr_log_parser *parser, const char *name)
{
    return wr_log_field_find(parser, (struct weir_slice){name, strlen(name)});
}

struct wr_log_parser *wr_log_parser_new(enum wr_log_format format, const char *const *names,
                                        size_t count)
{
    struct wr_log_parser *parser;

    if (count > WR_LOG_FIELDS_MAX || (parser = calloc(1, sizeof *parser)) == NULL)
        return NULL;
    parser->scratch = malloc(WR_LOG_SCRATCH);
    if (parser->scratch == NULL) {
        free(parser);
        return NULL;
    }
    parser->format = format;
    parser->names = names;
    parser->count = count;
    for (size_t i = 0; i < count; i++)
        parser->name_len[i] = strlen(names[i]);
    parser->referer = find_literal(parser, "Referer");
    parser->user_agent = find_literal(parser, "User-Agent");
    parser->forwarded_for = find_literal(parser, "X-Forwarded-For");
    return parser;
}

void wr_log_parser_free(struct wr_log_parser *parser)
{
    if (parser == NULL)
        return;
    json_decref(parser->tree);
    free(parser->scratch);
    free(parser);
}

static unsigned fold(char c)
{
    unsigned byte = (unsigned char)c;

    if (byte >= 'A' && byte <= 'Z')
        return byte + ('a' - 'A');
    return byte == '_' ? '-' : byte;
}

int wr_log_field_find(const struct wr_log_parser *parser, struct weir_slice name)
{
    for (size_t i = 0; i < parser->count; i++) {
        size_t k = 0;
        if (parser->name_len[i] != name.len)
            continue;
        while (k < name.len && fold(parser->names[i][k]) == fold(name.ptr[k]))
            k++;
        if (k == name.len)
            return (int)i;
    }
    return -1;
}

struct weir_slice wr_log_strip_port(struct weir_slice text)
{
    const char *end = text.ptr + text.len, *colon, *close;

    if (text.len == 0)
        return text;
    if (text.ptr[0] == '[') {
        close = memchr(text.ptr, ']', text.len);
        if (close == NULL || (close + 1 != end && close[1] != ':'))
            return text;
        return (struct weir_slice){text.ptr + 1, (size_t)(close - text.ptr - 1)};
    }
    colon = memchr(text.ptr, ':', text.len);
    if (colon == NULL || colon == text.ptr || colon + 1 == end)
        return text;
    for (const char *p = colon + 1; p < end; p++)
        if (*p < '0' || *p > '9') /* also a second colon: IPv6 */
            return text;
    return (struct weir_slice){text.ptr, (size_t)(colon - text.ptr)};
}

/* RFC 9110 section 5.6.2: what a method may be made of. */
static bool is_token(const char *p, const char *end)
{
    static const char others[] = "!#$%&'*+-.^_`|~";

    for (; p < end; p++) {
        bool letter = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z');
        if (!letter && (*p < '0' || *p > '9') && (*p == '\0' || strchr(others, *p) == NULL))
            return false;
    }
    return true;
}

void wr_log_split_request(struct weir_slice request, struct wr_log_record *out)
{
    const char *end = request.ptr + request.len;
    const char *blank = request.len > 0 ? memchr(request.ptr, ' ', request.len) : NULL;
    const char *last;

    out->method = (struct weir_slice){"", 0};
    out->path = (struct weir_slice){"", 0};
    if (blank == NULL || blank == request.ptr || !is_token(request.ptr, blank))
        return;
    out->method = (struct weir_slice){request.ptr, (size_t)(blank - request.ptr)};
    blank++;
    /* A target may hold blanks in logs; the protocol is what follows the last one. HTTP/0.9 has
     * none.
     */
    last = memrchr(blank, ' ', (size_t)(end - blank));
    if (last != NULL && end - last > 5 && memcmp(last + 1, "HTTP/", 5) == 0)
        end = last;
    else if (end - blank > 5 && last == NULL && memcmp(blank, "HTTP/", 5) == 0)
        end = blank;
    out->path = (struct weir_slice){blank, (size_t)(end - blank)};
}

/* ---- columns ------------------------------------------------------------------------------ */

static const char *bad(struct wr_log_parser *parser, const char *at, const char *error)
{
    parser->column = at;
    return error;
}

/* The closing quote of a field that begins at |p|, or NULL. |*escaped| says whether it holds a
 * backslash. */
static const char *closing_quote(const char *p, const char *end, bool *escaped)
{
    const char *quote = memchr(p, '"', (size_t)(end - p));

    *escaped = false;
    if (quote == NULL)
        return NULL;
    if (memchr(p, '\\', (size_t)(quote - p)) == NULL)
        return quote;
    *escaped = true;
    while (p < end && *p != '"')
        p += *p == '\\' && p + 1 < end ? 2 : 1;
    return p < end ? p : NULL;
}

/* How many bytes the escape at |p| takes, of those up to |end|; 0: it is none. nginx writes \xNN,
 * Apache \" \\ \n \t ... and \xnn. */
static size_t read_escape(const char *p, const char *end, char *out)
{
    static const char from[] = "\"\\nrtvbf", to[] = "\"\\\n\r\t\v\b\f";
    const char *found;

    if (end - p >= 4 && p[1] == 'x' && wr_hex_byte(p + 2) >= 0) {
        *out = (char)wr_hex_byte(p + 2);
        return 4;
    }
    if (end - p < 2 || p[1] == '\0' || (found = strchr(from, p[1])) == NULL)
        return 0;
    *out = to[found - from];
    return 2;
}

/* |field| with its escapes undone, in the scratch memory; never longer. Unknown escapes stay. */
static struct weir_slice unescape(char **scratch, struct weir_slice field)
{
    const char *p = field.ptr, *end = field.ptr + field.len;
    char *start = *scratch, *out = start;

    while (p < end) {
        size_t taken = *p == '\\' ? read_escape(p, end, out) : 0;
        if (taken == 0) {
            *out = *p;
            taken = 1;
        }
        p += taken;
        out++;
    }
    *scratch = out;
    return (struct weir_slice){start, (size_t)(out - start)};
}

/* A cursor over the columns of one line. */
struct columns {
    struct wr_log_parser *parser;
    const char *at;
    const char *end;
    char *scratch;
};

/* The quoted field at the cursor, to be decoded only if |wanted|. */
static const char *quoted(struct columns *c, bool wanted, const char *missing,
                          struct weir_slice *out)
{
    const char *start = c->at + 1, *close;
    bool escaped;

    if (c->at >= c->end || *c->at != '"')
        return bad(c->parser, c->at, missing);
    close = closing_quote(start, c->end, &escaped);
    if (close == NULL)
        return bad(c->parser, c->at, "the quote is not closed");
    *out = (struct weir_slice){start, (size_t)(close - start)};
    if (escaped && wanted)
        *out = unescape(&c->scratch, *out);
    c->at = close + 1;
    return NULL;
}

static bool blank(struct columns *c)
{
    if (c->at >= c->end || *c->at != ' ')
        return false;
    c->at++;
    return true;
}

/* Is there a time stamp in brackets, then a quote, at the cursor? Steps to the quote. */
static bool time_stamp(struct columns *c, int64_t *ns)
{
    struct wr_log_parser *parser = c->parser;
    const char *text = c->at + 1, *after = text + WR_LOGTIME_CLF_LEN;

    if (c->end - c->at < WR_LOGTIME_CLF_LEN + 4 || *c->at != '[' || after[0] != ']' ||
        after[1] != ' ' || after[2] != '"')
        return false;
    c->at = after + 2;
    if (parser->memo_ns > 0 && memcmp(text, parser->memo_text, WR_LOGTIME_CLF_LEN) == 0) {
        *ns = parser->memo_ns;
        return true;
    }
    if (!wr_logtime_clf(text, ns)) {
        c->at = text - 1;
        return false;
    }
    memcpy(parser->memo_text, text, WR_LOGTIME_CLF_LEN);
    parser->memo_ns = *ns;
    return true;
}

/* The next word and the blank behind it. */
static bool word(struct columns *c, struct weir_slice *out)
{
    const char *space = memchr(c->at, ' ', (size_t)(c->end - c->at));

    if (space == NULL || space == c->at)
        return false;
    *out = (struct weir_slice){c->at, (size_t)(space - c->at)};
    c->at = space + 1;
    return true;
}

/* From the client to before the request's quote. */
static const char *client_and_time(struct columns *c, struct wr_log_record *out)
{
    struct weir_slice ignored;

    if (!word(c, &out->client) ||
        (out->client.ptr[0] == '[' && memchr(out->client.ptr, ']', out->client.len) == NULL))
        return bad(c->parser, out->client.len > 0 ? out->client.ptr : c->at,
                   "expected a client address and a blank");
    out->client = wr_log_strip_port(out->client);
    if (!word(c, &ignored))
        return bad(c->parser, c->at, "expected the identity, or -");
    if (!word(c, &ignored))
        return bad(c->parser, c->at, "expected the user, or -");
    if (!time_stamp(c, &out->time_ns))
        return bad(
            c->parser, c->at,
            "expected a time as [17/May/2015:10:05:03 +0000] and then the request in quotes");
    return NULL;
}

static const char *status_and_size(struct columns *c, struct wr_log_record *out)
{
    const char *p = c->at;

    if (!blank(c) || c->end - c->at < 3)
        return bad(c->parser, p, "expected a status of three digits");
    p = c->at;
    out->status = 0;
    for (int i = 0; i < 3; i++) {
        if (p[i] < '0' || p[i] > '9')
            return bad(c->parser, p, "expected a status of three digits");
        out->status = out->status * 10 + (p[i] - '0');
    }
    c->at += 3;
    if (!blank(c) || c->at == c->end)
        return bad(c->parser, c->at, "expected the size of the answer");
    p = c->at;
    if (*c->at == '-')
        c->at++;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    if (c->at == p || (c->at < c->end && *c->at != ' '))
        return bad(c->parser, p, "expected the size of the answer in digits, or -");
    return NULL;
}

static void set_field(struct wr_log_parser *parser, int index, struct weir_slice value,
                      struct wr_log_record *out)
{
    bool dash = value.len == 1 && value.ptr[0] == '-';

    if (index >= 0 && (size_t)index < parser->count && !dash)
        out->field[index] = value;
}

/* "referer" "user agent" ["x-forwarded-for"] */
static const char *combined_fields(struct columns *c, struct wr_log_record *out)
{
    struct wr_log_parser *parser = c->parser;
    struct weir_slice value;
    const char *error;

    (void)blank(c);
    error = quoted(c, parser->referer >= 0, "expected the referer in quotes", &value);
    if (error != NULL)
        return error;
    set_field(parser, parser->referer, value, out);
    (void)blank(c);
    error = quoted(c, parser->user_agent >= 0, "expected the user agent in quotes", &value);
    if (error != NULL)
        return error;
    set_field(parser, parser->user_agent, value, out);
    if (c->end - c->at < 2 || c->at[0] != ' ' || c->at[1] != '"')
        return NULL;
    c->at++;
    error = quoted(c, parser->forwarded_for >= 0, "", &value);
    if (error == NULL)
        set_field(parser, parser->forwarded_for, value, out);
    return error;
}

static const char *parse_columns(struct wr_log_parser *parser, const char *line, const char *end,
                                 struct wr_log_record *out)
{
    struct columns c = {.parser = parser, .at = line, .end = end, .scratch = parser->scratch};
    struct weir_slice request;
    const char *error = client_and_time(&c, out);

    if (error == NULL)
        error = quoted(&c, true, "expected the request in quotes", &request);
    if (error != NULL)
        return error;
    wr_log_split_request(request, out);
    error = status_and_size(&c, out);
    if (error != NULL)
        return error;
    if (parser->format == WR_LOG_COMMON || (parser->format == WR_LOG_UNKNOWN && c.at == end))
        return NULL;
    return combined_fields(&c, out);
}

/* The object behind "2025-12-31T17:37:40.493+01:00 stdout F ", or NULL. */
static const char *behind_cri_prefix(const char *line, const char *end)
{
    struct weir_slice stamp;
    int64_t ns;
    const char *space = memchr(line, ' ', (size_t)(end - line));

    if (space == NULL || end - space < 10 ||
        (memcmp(space, " stdout ", 8) != 0 && memcmp(space, " stderr ", 8) != 0))
        return NULL;
    stamp = (struct weir_slice){line, (size_t)(space - line)};
    space = memchr(space + 8, ' ', (size_t)(end - space - 8));
    return space != NULL && wr_logtime_rfc3339(stamp, &ns) ? space + 1 : NULL;
}

static const char *parse_json(struct wr_log_parser *parser, const char *line, const char *end,
                              struct wr_log_record *out)
{
    const char *start = line, *behind;

    while (start < end && (*start == ' ' || *start == '\t'))
        start++;
    if ((behind = behind_cri_prefix(start, end)) != NULL)
        start = behind;
    if (start == end || *start != '{')
        return bad(parser, start, "expected a JSON object");
    return wr_log_parse_json(parser, start, end, out);
}

/* Anything that is not columns begins so. */
static bool looks_like_json(const char *line, const char *end)
{
    return *line == '{' || *line == '\t' || *line == ' ' || behind_cri_prefix(line, end) != NULL;
}

const char *wr_log_parse(struct wr_log_parser *parser, const char *line, size_t len,
                         struct wr_log_record *out, size_t *column)
{
    const char *end = line + len, *error;

    out->time_ns = 0;
    out->duration_ns = -1;
    out->cost = -1;
    out->client = out->method = out->path = (struct weir_slice){"", 0};
    out->status = 0;
    for (size_t i = 0; i < parser->count; i++)
        out->field[i] = (struct weir_slice){NULL, 0};
    while (end > line && (end[-1] == '\r' || end[-1] == ' '))
        end--;
    parser->column = line;
    if (line == end)
        error = "the line is empty";
    else if (len > WR_LOG_LINE_MAX)
        error = "the line is longer than 1 MiB";
    else if (parser->format == WR_LOG_JSON ||
             (parser->format == WR_LOG_UNKNOWN && looks_like_json(line, end)))
        error = parse_json(parser, line, end, out);
    else
        error = parse_columns(parser, line, end, out);
    *column = (size_t)(parser->column - line) + 1;
    return error;
}
