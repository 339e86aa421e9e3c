/* resp.c - commands of RESP.
 *
 * Problem. Clients send commands as arrays of bulk strings, people type lines into a terminal, and
 * whoever does not like us sends lengths of half a gigabyte.
 *
 * Idea. The parser keeps no state between calls: the arguments of a command that is not whole yet
 * are found anew when more has come. A bulk string is skipped by its length, so that costs a few
 * additions an argument, of which there are at most limits->args, whatever their size.
 *
 * Invariants:
 *   1. Nothing at or behind bytes + len is read.
 *   2. Every length is compared with its bound before it is added to anything.
 *   3. MORE is answered only while less than WR_RESP_COMMAND_MAX bytes are there, so a caller that
 *      holds that much never waits for ever. */
#include "wire/resp.h"

#include <stdio.h>
#include <string.h>

#include "base/arith.h"
#include "base/hex.h"

#define NUMBER_LINE_MAX 32U /* bytes of "*N" or "$N" and its end; no valid number is longer */

static enum wr_resp_step bad(struct wr_resp_command *out, const char *text)
{
    (void)snprintf(out->error, sizeof out->error, "Protocol error: %s", text);
    return WR_RESP_BAD;
}

/* ---- arrays of bulk strings -------------------------------------------------------------- */

/* Digits with an optional minus; no blanks, no plus, no empty text. */
static bool parse_length(const char *text, size_t len, int64_t *out)
{
    bool minus = len > 0 && text[0] == '-';
    size_t i = minus ? 1 : 0;
    int64_t value = 0;

    *out = 0;
    if (i == len || len - i > 18)
        return false;
    for (; i < len; i++) {
        if (text[i] < '0' || text[i] > '9')
            return false;
        value = value * 10 + (text[i] - '0');
    }
    *out = minus ? -value : value;
    return true;
}

/* A line of one to four digits that is all there, as nearly every one is: nothing is searched for.
 * False: look closer. */
static bool take_small(const char *bytes, size_t len, size_t *at, int64_t *number)
{
    size_t i = *at + 1, end = wr_min_u64(len, i + 4);
    int64_t value = 0;

    for (; i < end && bytes[i] >= '0' && bytes[i] <= '9'; i++)
        value = value * 10 + (bytes[i] - '0');
    if (i == *at + 1 || len - i < 2 || bytes[i] != '\r' || bytes[i + 1] != '\n')
        return false;
    *number = value;
    *at = i + 2;
    return true;
}

/* Any line with a number, or the start of one. */
static enum wr_resp_step take_any(const char *bytes, size_t len, size_t *at, int64_t *number)
{
    size_t start = *at + 1;
    size_t seen = wr_min_u64(len - start, NUMBER_LINE_MAX);
    const char *end = memchr(bytes + start, '\r', seen);

    *number = 0;
    if (end == NULL)
        return seen < NUMBER_LINE_MAX ? WR_RESP_MORE : WR_RESP_BAD;
    if ((size_t)(end - bytes) + 1 == len)
        return WR_RESP_MORE;
    if (end[1] != '\n' || !parse_length(bytes + start, (size_t)(end - bytes) - start, number))
        return WR_RESP_BAD;
    *at = (size_t)(end - bytes) + 2;
    return WR_RESP_COMMAND;
}

/* The number behind the type byte at |*at|, which moves behind its line. */
static enum wr_resp_step take_number(const char *bytes, size_t len, size_t *at, int64_t *number)
{
    return take_small(bytes, len, at, number) ? WR_RESP_COMMAND : take_any(bytes, len, at, number);
}

/* The bulk string at |*at|. */
static enum wr_resp_step take_bulk(const char *bytes, size_t len, size_t max, size_t *at,
                                   struct weir_slice *arg, struct wr_resp_command *out)
{
    enum wr_resp_step step;
    int64_t length;

    if (*at == len)
        return WR_RESP_MORE;
    if (bytes[*at] != '$') {
        char text[] = "expected '$', got '?'";
        if (bytes[*at] > 0x20 && bytes[*at] < 0x7f)
            text[sizeof text - 3] = bytes[*at];
        return bad(out, text);
    }
    step = take_number(bytes, len, at, &length);
    if (step == WR_RESP_MORE)
        return step;
    if (step == WR_RESP_BAD || length < 0 || (uint64_t)length > max)
        return bad(out, "invalid bulk length");
    if (len - *at < (size_t)length + 2)
        return WR_RESP_MORE;
    if (bytes[*at + (size_t)length] != '\r' || bytes[*at + (size_t)length + 1] != '\n')
        return bad(out, "expected CRLF behind a bulk string");
    *arg = (struct weir_slice){bytes + *at, (size_t)length};
    *at += (size_t)length + 2;
    return WR_RESP_COMMAND;
}

static enum wr_resp_step parse_array(const char *bytes, size_t len,
                                     const struct wr_resp_limits *limits, struct weir_slice *args,
                                     struct wr_resp_command *out)
{
    size_t at = 0;
    int64_t count;
    enum wr_resp_step step = take_number(bytes, len, &at, &count);

    if (step == WR_RESP_MORE)
        return step;
    if (step == WR_RESP_BAD || count > (int64_t)limits->args || count < -1)
        return bad(out, "invalid multibulk length");
    if (count <= 0) {
        out->consumed = at;
        return WR_RESP_NOTHING;
    }
    for (int64_t i = 0; i < count; i++) {
        step = take_bulk(bytes, len, limits->bulk_bytes, &at, &args[i], out);
        if (step == WR_RESP_MORE && len >= WR_RESP_COMMAND_MAX)
            return bad(out, "too big mbulk count string");
        if (step != WR_RESP_COMMAND)
            return step;
    }
    out->consumed = at;
    out->argc = (unsigned)count;
    return WR_RESP_COMMAND;
}

/* ---- inline commands --------------------------------------------------------------------- */

struct line {
    const char *at, *end;
    char *to;
};

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/* What stands behind a backslash within double quotes. */
static char unescape(struct line *line)
{
    static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
    char c = *line->at++;
    const char *found = c != '\0' ? strchr(from, c) : NULL;

    if (found != NULL)
        return to[found - from];
    if (c == 'x' && line->end - line->at >= 2 && wr_hex_byte(line->at) >= 0) {
        c = (char)wr_hex_byte(line->at);
        line->at += 2;
    }
    return c;
}

/* From behind the opening |quote| to behind the closing one, which a blank or the end must follow.
 */
static bool take_quoted(struct line *line, char quote)
{
    while (line->at < line->end) {
        char c = *line->at++;
        if (c == quote)
            return line->at == line->end || is_blank(*line->at);
        if (c == '\\' && line->at < line->end) {
            if (quote == '"')
                c = unescape(line);
            else if (*line->at == '\'')
                c = *line->at++;
        }
        *line->to++ = c;
    }
    return false;
}

static bool take_word(struct line *line, struct weir_slice *arg)
{
    char *start = line->to;

    while (line->at < line->end && !is_blank(*line->at)) {
        char c = *line->at++;
        if (c == '"' || c == '\'') {
            if (!take_quoted(line, c))
                return false;
        } else {
            *line->to++ = c;
        }
    }
    *arg = (struct weir_slice){start, (size_t)(line->to - start)};
    return true;
}

static enum wr_resp_step parse_inline(const char *bytes, size_t len,
                                      const struct wr_resp_limits *limits, char *scratch,
                                      struct weir_slice *args, struct wr_resp_command *out)
{
    size_t seen = wr_min_u64(len, WR_RESP_INLINE_MAX);
    const char *end = memchr(bytes, '\n', seen);
    struct line line = {bytes, end, scratch};

    if (end == NULL)
        return seen < WR_RESP_INLINE_MAX ? WR_RESP_MORE : bad(out, "too big inline request");
    out->consumed = (size_t)(end - bytes) + 1;
    if (end > bytes && end[-1] == '\r')
        line.end--;
    out->is_inline = true;
    for (;;) {
        while (line.at < line.end && is_blank(*line.at))
            line.at++;
        if (line.at >= line.end)
            break;
        if (out->argc == limits->args)
            return bad(out, "too many words in an inline request");
        if (!take_word(&line, &args[out->argc]))
            return bad(out, "unbalanced quotes in request");
        out->argc++;
    }
    return out->argc > 0 ? WR_RESP_COMMAND : WR_RESP_NOTHING;
}

enum wr_resp_step wr_resp_parse(const char *bytes, size_t len, const struct wr_resp_limits *limits,
                                char *scratch, struct weir_slice *args, struct wr_resp_command *out)
{
    out->consumed = 0;
    out->argc = 0;
    out->is_inline = false;
    out->error[0] = '\0';
    if (len == 0)
        return WR_RESP_MORE;
    if (bytes[0] == '*')
        return parse_array(bytes, len, limits, args, out);
    return parse_inline(bytes, len, limits, scratch, args, out);
}

bool wr_resp_integer(struct weir_slice text, int64_t *out)
{
    bool minus = text.len > 0 && text.ptr[0] == '-';
    size_t i = text.len > 0 && (minus || text.ptr[0] == '+') ? 1 : 0;
    int64_t value = 0;

    *out = 0;
    if (i == text.len)
        return false;
    for (; i < text.len; i++) {
        int digit = text.ptr[i] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, minus ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return true;
}
