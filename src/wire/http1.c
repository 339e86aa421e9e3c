/* http1.c - a request of HTTP/1.1 from the bytes of a stream.
 *
 * The problem. Input comes in pieces of any size; a proxy in front reads the same bytes, and every
 * byte that it and we could read differently is a way to smuggle a request past it.
 *
 * The idea. Three steps, each resumable by an offset: look for the line that ends the head,
 * refusing bare LF on the way; read the head in one pass when it is whole; then wait for the body.
 * The head is read again when its body is there, so that nothing has to be kept but offsets, and
 * the input may move in memory between calls.
 *
 * Invariants:
 *   1. Nothing beyond |len| is looked at; offsets only grow until DONE or BAD.
 *   2. A body has one length: Content-Length once, in digits; or "chunked" once; never both.
 *   3. What is waited for is at most WR_HTTP_INPUT_MAX bytes.
 *
 * Rejected: libmicrohttpd 0.9.75, Debian's: it takes Transfer-Encoding beside Content-Length, two
 * Host fields, folded fields, a blank before the colon, bare LF and NUL for well-formed (tried, see
 * docs/decisions), and http-parser 2.9, which is no longer maintained. */
#include "wire/http1_parts.h"

#include <string.h>

#define METHOD_MAX 32U

enum framing { NO_BODY, LENGTH, CHUNKED };

/* A head that is being read. */
struct head {
    const char *at, *end; /* |end|: behind the empty line */
    struct wr_http_request *out;
    bool has_length, chunked, close, keep, expects;
    unsigned hosts;
    size_t length;
    int status;
    const char *error;
};

static bool refuse(struct head *head, int status, const char *error)
{
    head->status = status;
    head->error = error;
    return false;
}

/* ---- the request line --------------------------------------------------------------------- */

/* "http://host/path" -> "/path". */
static bool cut_authority(struct head *head, struct weir_slice *target)
{
    size_t scheme =
        target->len > 7 && wr_http_name_is((struct weir_slice){target->ptr, 7}, "http://")    ? 7
        : target->len > 8 && wr_http_name_is((struct weir_slice){target->ptr, 8}, "https://") ? 8
                                                                                              : 0;
    const char *end = target->ptr + target->len, *path;

    if (scheme == 0)
        return refuse(head, 400, "the request target is neither a path nor an http URL");
    path = target->ptr + scheme;
    path += wr_http_span(path, end, WR_CHAR_HOST);
    if (path == target->ptr + scheme)
        return refuse(head, 400, "the request target has no host");
    if (path == end) {
        *target = (struct weir_slice){"/", 1};
        return true;
    }
    if (*path != '/')
        return refuse(head, 400, "the request target is not well-formed");
    *target = (struct weir_slice){path, (size_t)(end - path)};
    return true;
}

static bool read_version(struct head *head)
{
    const char *at = head->at;

    if (head->end - at < 10 || memcmp(at, "HTTP/", 5) != 0)
        return refuse(head, 400, "expected METHOD TARGET HTTP/1.1");
    if (memcmp(at + 5, "1.", 2) != 0 || (at[7] != '0' && at[7] != '1'))
        return refuse(head, 505, "the version is neither HTTP/1.1 nor HTTP/1.0");
    if (at[8] != '\r' || at[9] != '\n')
        return refuse(head, 400, "expected the end of the line after the version");
    head->out->http10 = at[7] == '0';
    head->at += 10;
    return true;
}

static bool read_request_line(struct head *head)
{
    struct wr_http_request *out = head->out;
    size_t n = wr_http_span(head->at, head->end, WR_CHAR_TOKEN);

    if (n == 0 || head->at[n] != ' ')
        return refuse(head, 400, "expected METHOD TARGET HTTP/1.1");
    if (n > METHOD_MAX)
        return refuse(head, 501, "no such method");
    out->method = (struct weir_slice){head->at, n};
    head->at += n + 1;
    n = wr_http_span(head->at, head->end, WR_CHAR_TARGET);
    if (n == 0 || head->at[n] != ' ')
        return refuse(head, 400, "expected METHOD TARGET HTTP/1.1");
    if (n > WR_HTTP_TARGET_MAX)
        return refuse(head, 414, "the request line is longer than 8 KiB");
    out->target = (struct weir_slice){head->at, n};
    head->at += n + 1;
    if (out->target.ptr[0] != '/' && !(n == 1 && out->target.ptr[0] == '*') &&
        !cut_authority(head, &out->target))
        return false;
    return read_version(head);
}

/* ---- fields that say how the message is framed -------------------------------------------- */

static bool take_length(struct head *head, struct weir_slice value)
{
    size_t length = 0;

    if (head->has_length)
        return refuse(head, 400, "Content-Length is given twice");
    if (value.len == 0)
        return refuse(head, 400, "Content-Length is not a number");
    for (size_t i = 0; i < value.len; i++) {
        if (value.ptr[i] < '0' || value.ptr[i] > '9')
            return refuse(head, 400, "Content-Length is not a number");
        if (length <= WR_HTTP_BODY_MAX) /* beyond, it is too large whatever follows */
            length = length * 10 + (size_t)(value.ptr[i] - '0');
    }
    head->has_length = true;
    head->length = length;
    return true;
}

static bool take_coding(struct head *head, struct weir_slice value)
{
    if (head->chunked)
        return refuse(head, 400, "Transfer-Encoding is given twice");
    if (!wr_http_name_is(value, "chunked"))
        return refuse(head, 501, "the only Transfer-Encoding known is chunked");
    head->chunked = true;
    return true;
}

static bool take_host(struct head *head, struct weir_slice value)
{
    if (head->hosts++ > 0)
        return refuse(head, 400, "Host is given twice");
    if (wr_http_span(value.ptr, value.ptr + value.len, WR_CHAR_HOST) != value.len)
        return refuse(head, 400, "Host is not well-formed");
    return true;
}

static void take_connection(struct head *head, struct weir_slice value)
{
    const char *at = value.ptr, *end = value.ptr + value.len;

    while (at < end) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma != NULL ? comma : end;
        struct weir_slice option = wr_http_trimmed(at, stop);
        if (wr_http_name_is(option, "close"))
            head->close = true;
        else if (wr_http_name_is(option, "keep-alive"))
            head->keep = true;
        at = stop < end ? stop + 1 : end;
    }
}

static bool take_field(struct head *head, const struct wr_http_field *field)
{
    switch (field->name.len) {
    case sizeof "host" - 1:
        return !wr_http_name_is(field->name, "host") || take_host(head, field->value);
    case sizeof "expect" - 1:
        if (!wr_http_name_is(field->name, "expect"))
            return true;
        if (!wr_http_name_is(field->value, "100-continue"))
            return refuse(head, 417, "the only expectation known is 100-continue");
        head->expects = true;
        return true;
    case sizeof "connection" - 1:
        if (wr_http_name_is(field->name, "connection"))
            take_connection(head, field->value);
        return true;
    case sizeof "content-length" - 1:
        return !wr_http_name_is(field->name, "content-length") || take_length(head, field->value);
    case sizeof "transfer-encoding" - 1:
        return !wr_http_name_is(field->name, "transfer-encoding") ||
               take_coding(head, field->value);
    default:
        return true;
    }
}

/* ---- fields ------------------------------------------------------------------------------- */

static bool read_fields(struct head *head)
{
    struct wr_http_request *out = head->out;

    out->field_count = 0;
    while (head->at < head->end - 2) {
        struct wr_http_field *field = &out->field[out->field_count];
        const char *error;
        if (out->field_count == WR_HTTP_FIELDS_MAX)
            return refuse(head, 431, "too many fields");
        error = wr_http_read_field(&head->at, head->end, field);
        if (error != NULL)
            return refuse(head, 400, error);
        if (!take_field(head, field))
            return false;
        out->field_count++;
    }
    return true;
}

static bool read_head(struct head *head)
{
    struct wr_http_request *out = head->out;

    if (!read_request_line(head) || !read_fields(head))
        return false;
    if (head->hosts == 0 && !out->http10)
        return refuse(head, 400, "Host is missing");
    if (head->chunked && head->has_length)
        return refuse(head, 400, "both Content-Length and Transfer-Encoding");
    if (head->chunked && out->http10)
        return refuse(head, 400, "Transfer-Encoding in HTTP/1.0");
    if (head->length > WR_HTTP_BODY_MAX)
        return refuse(head, 413, "the body is larger than 256 KiB");
    out->keep_alive = !head->close && (!out->http10 || head->keep);
    return true;
}

/* ---- where the head ends ------------------------------------------------------------------ */

/* Find the empty line. One before the request line is let pass (RFC 9112 section 2.2). */
static enum wr_http_step find_head(struct wr_http_parser *parser, const char *bytes, size_t len)
{
    size_t most = len < WR_HTTP_HEAD_MAX ? len : WR_HTTP_HEAD_MAX;
    bool first;

    while (parser->scanned < most) {
        const char *lf = memchr(bytes + parser->scanned, '\n', most - parser->scanned);
        size_t at;
        if (lf == NULL)
            break;
        at = (size_t)(lf - bytes);
        if (at == 0 || bytes[at - 1] != '\r')
            return wr_http_bad(parser, 400, "a line ends in LF without CR");
        parser->scanned = at + 1;
        if (at - 1 == parser->line && parser->line > 2) {
            parser->head = at + 1;
            return WR_HTTP_DONE;
        }
        if (at - 1 == parser->line && parser->line == 2)
            return wr_http_bad(parser, 400, "expected METHOD TARGET HTTP/1.1");
        parser->line = at + 1;
    }
    if (parser->scanned < most)
        parser->scanned = most;
    first = parser->line <= 2; /* still in the request line */
    if (first && len - parser->line > WR_HTTP_TARGET_MAX)
        return wr_http_bad(parser, 414, "the request line is longer than 8 KiB");
    if (len >= WR_HTTP_HEAD_MAX)
        return wr_http_bad(parser, 431, "the head is larger than 16 KiB");
    return WR_HTTP_MORE;
}

/* ---- the request -------------------------------------------------------------------------- */

static size_t request_start(const char *bytes)
{
    return bytes[0] == '\r' && bytes[1] == '\n' ? 2 : 0;
}

static bool parse_head(struct wr_http_parser *parser, const char *bytes,
                       struct wr_http_request *out)
{
    struct head head = {
        .at = bytes + request_start(bytes), .end = bytes + parser->head, .out = out};

    out->body = (struct weir_slice){NULL, 0};
    if (!read_head(&head)) {
        (void)wr_http_bad(parser, head.status, head.error);
        return false;
    }
    if (parser->framing == NO_BODY && head.chunked)
        parser->framing = CHUNKED;
    else if (parser->framing == NO_BODY && head.length > 0) {
        parser->framing = LENGTH;
        parser->body = head.length;
    }
    if (!head.expects || out->http10)
        parser->continued = true;
    return true;
}

/* The body, once it is whole. */
static enum wr_http_step find_body(struct wr_http_parser *parser, const char *bytes, size_t len,
                                   char *scratch, struct wr_http_request *out)
{
    enum wr_http_step step = WR_HTTP_DONE;

    if (parser->framing == CHUNKED) {
        step = wr_http_find_chunks(parser, bytes, len);
        if (step == WR_HTTP_DONE) {
            out->body =
                (struct weir_slice){scratch, wr_http_join_chunks(bytes + parser->head, scratch)};
            parser->consumed = parser->scanned;
        }
        return step;
    }
    if (len - parser->head < parser->body)
        return WR_HTTP_MORE;
    if (parser->framing == LENGTH)
        out->body = (struct weir_slice){bytes + parser->head, parser->body};
    parser->consumed = parser->head + parser->body;
    return step;
}

enum wr_http_step wr_http_parse(struct wr_http_parser *parser, const char *bytes, size_t len,
                                char *scratch, struct wr_http_request *out)
{
    enum wr_http_step step;
    size_t consumed;
    bool fresh = parser->head == 0;

    if (fresh) {
        step = find_head(parser, bytes, len);
        if (step != WR_HTTP_DONE)
            return step;
        if (!parse_head(parser, bytes, out))
            return WR_HTTP_BAD;
        parser->scanned = parser->head;
    }
    step = find_body(parser, bytes, len, scratch, out);
    if (step == WR_HTTP_DONE) {
        struct weir_slice body = out->body;
        if (!fresh && !parse_head(parser, bytes, out)) /* the input may have moved */
            return WR_HTTP_BAD;
        out->body = body;
        consumed = parser->consumed;
        *parser = (struct wr_http_parser){.consumed = consumed};
        return WR_HTTP_DONE;
    }
    if (step == WR_HTTP_MORE && !parser->continued) {
        parser->continued = true;
        return WR_HTTP_CONTINUE;
    }
    return step;
}
