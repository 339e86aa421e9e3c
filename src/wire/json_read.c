/* json_read.c - one pass over JSON text, without a tree.
 *
 * The idea. The caller walks: enter an object, take its members one by one, read or skip each
 * value. Nothing is built; strings without escapes are slices of the input, others are decoded into
 * the caller's scratch memory, which as many bytes as the input suffice for. Values that nobody
 * asked for are skipped with one bit a level instead of recursion.
 *
 * Invariants:
 *   1. |at| never passes |end|; every byte is looked at before it is stepped over.
 *   2. After an error nothing moves: |at| is where it happened, and every call answers false.
 *   3. What is skipped is checked as strictly as what is read. */
#include "wire/json.h"

#include <string.h>

static bool fail(struct wr_json *json, const char *error)
{
    if (json->error == NULL)
        json->error = error;
    return false;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Step over blanks; false at the end of the text. */
static bool more(struct wr_json *json)
{
    while (json->at < json->end && is_blank(*json->at))
        json->at++;
    return json->at < json->end;
}

static bool expect(struct wr_json *json, char c, const char *error)
{
    if (json->error != NULL)
        return false;
    if (!more(json) || *json->at != c)
        return fail(json, error);
    json->at++;
    return true;
}

/* ---- strings ------------------------------------------------------------------------------ */

/* The value of |digits| hexadecimal digits at |p|, or -1. */
static int32_t hex(const char *p, const char *end, int digits)
{
    int32_t value = 0;

    if (end - p < digits)
        return -1;
    for (int i = 0; i < digits; i++) {
        char c = p[i];
        int digit;
        if (is_digit(c))
            digit = c - '0';
        else if (c >= 'a' && c <= 'f')
            digit = c - 'a' + 10;
        else if (c >= 'A' && c <= 'F')
            digit = c - 'A' + 10;
        else
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static void put(struct wr_json *json, uint32_t byte)
{
    *json->scratch++ = (char)(unsigned char)byte;
}

static void put_utf8(struct wr_json *json, uint32_t point)
{
    if (point < 0x80) {
        put(json, point);
    } else if (point < 0x800) {
        put(json, 0xc0 | point >> 6);
        put(json, 0x80 | (point & 0x3f));
    } else if (point < 0x10000) {
        put(json, 0xe0 | point >> 12);
        put(json, 0x80 | (point >> 6 & 0x3f));
        put(json, 0x80 | (point & 0x3f));
    } else {
        put(json, 0xf0 | point >> 18);
        put(json, 0x80 | (point >> 12 & 0x3f));
        put(json, 0x80 | (point >> 6 & 0x3f));
        put(json, 0x80 | (point & 0x3f));
    }
}

/* After "\u": four digits, or a pair of surrogates. A surrogate alone becomes U+FFFD. */
static bool decode_unicode(struct wr_json *json)
{
    int32_t point = hex(json->at, json->end, 4), low;

    if (point < 0)
        return fail(json, "\\u wants four hexadecimal digits");
    json->at += 4;
    if (point >= 0xd800 && point <= 0xdfff) {
        low = json->end - json->at >= 6 && json->at[0] == '\\' && json->at[1] == 'u'
                  ? hex(json->at + 2, json->end, 4)
                  : -1;
        if (point <= 0xdbff && low >= 0xdc00 && low <= 0xdfff) {
            json->at += 6;
            point = 0x10000 + ((point - 0xd800) << 10) + (low - 0xdc00);
        } else if (json->strict) {
            return fail(json, "half of a surrogate pair");
        } else {
            point = 0xfffd;
        }
    }
    put_utf8(json, (uint32_t)point);
    return true;
}

/* After the backslash. */
static bool decode_escape(struct wr_json *json)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found;
    char c;
    int32_t byte;

    if (json->at == json->end)
        return fail(json, "the string is not closed");
    c = *json->at++;
    if (c == 'u')
        return decode_unicode(json);
    if (c == 'x' && !json->strict) {
        if ((byte = hex(json->at, json->end, 2)) < 0)
            return fail(json, "\\x wants two hexadecimal digits");
        json->at += 2;
        put(json, (uint32_t)byte);
        return true;
    }
    found = c != '\0' ? strchr(from, c) : NULL;
    if (found == NULL) {
        json->at--;
        return fail(json, "no such escape in a JSON string");
    }
    put(json, (unsigned char)to[found - from]);
    return true;
}

/* From the first backslash on: |start| is where the string began. */
static bool read_escaped(struct wr_json *json, const char *start, struct weir_slice *out)
{
    char *decoded = json->scratch;

    /* An escape is never shorter than what it stands for. */
    if (json->scratch_end - json->scratch < json->end - start)
        return fail(json, "the text holds more than fits");
    memcpy(json->scratch, start, (size_t)(json->at - start));
    json->scratch += json->at - start;
    while (json->at < json->end && *json->at != '"') {
        if ((unsigned char)*json->at < 0x20)
            return fail(json, "a control character in a string");
        if (*json->at++ != '\\')
            put(json, (unsigned char)json->at[-1]);
        else if (!decode_escape(json))
            return false;
    }
    if (json->at == json->end)
        return fail(json, "the string is not closed");
    json->at++;
    *out = (struct weir_slice){decoded, (size_t)(json->scratch - decoded)};
    return true;
}

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The high bits of the bytes of |x| that equal |byte|, or lie below |n| (up to 128). The lowest bit
 * set is exact; above it a borrow may set others. */
static uint64_t bytes_equal(uint64_t x, unsigned char byte)
{
    x ^= EACH_BYTE(byte);
    return (x - EACH_BYTE(1)) & ~x & EACH_BYTE(0x80);
}

static uint64_t bytes_below(uint64_t x, unsigned char n)
{
    return (x - EACH_BYTE(n)) & ~x & EACH_BYTE(0x80);
}

/* The first byte from |p| on that is a quote, a backslash or a control character; or |end|. Eight
 * at a time, the first lowest (little-endian, as the arena requires too): strings are most of a
 * line. */
static const char *plain_end(const char *p, const char *end)
{
    uint64_t x, found;

    for (; end - p >= 8; p += 8) {
        memcpy(&x, p, sizeof x);
        found = bytes_equal(x, '"') | bytes_equal(x, '\\') | bytes_below(x, 0x20);
        if (found != 0)
            return p + (__builtin_ctzll(found) >> 3);
    }
    while (p < end && *p != '"' && *p != '\\' && (unsigned char)*p >= 0x20)
        p++;
    return p;
}

static bool read_string(struct wr_json *json, struct weir_slice *out)
{
    const char *start;

    if (!expect(json, '"', "expected a string in quotes"))
        return false;
    start = json->at;
    json->at = plain_end(start, json->end);
    if (json->at == json->end)
        return fail(json, "the string is not closed");
    if (*json->at == '\\')
        return read_escaped(json, start, out);
    if (*json->at != '"')
        return fail(json, "a control character in a string");
    *out = (struct weir_slice){start, (size_t)(json->at - start)};
    json->at++;
    return true;
}

/* ---- other values ------------------------------------------------------------------------- */

static bool digits(struct wr_json *json)
{
    const char *start = json->at;

    while (json->at < json->end && is_digit(*json->at))
        json->at++;
    return json->at > start || fail(json, "expected a digit");
}

static bool read_number(struct wr_json *json, struct weir_slice *out)
{
    const char *start = json->at;

    if (*json->at == '-')
        json->at++;
    if (json->at < json->end && *json->at == '0')
        json->at++;
    else if (!digits(json))
        return false;
    if (json->at < json->end && *json->at == '.') {
        json->at++;
        if (!digits(json))
            return false;
    }
    if (json->at < json->end && (*json->at == 'e' || *json->at == 'E')) {
        json->at++;
        if (json->at < json->end && (*json->at == '+' || *json->at == '-'))
            json->at++;
        if (!digits(json))
            return false;
    }
    *out = (struct weir_slice){start, (size_t)(json->at - start)};
    return true;
}

static bool read_word(struct wr_json *json, const char *word, size_t len)
{
    if ((size_t)(json->end - json->at) < len || memcmp(json->at, word, len) != 0)
        return fail(json, "expected a JSON value");
    json->at += len;
    return true;
}

bool wr_json_read(struct wr_json *json, struct wr_json_value *out)
{
    *out = (struct wr_json_value){.kind = WR_JSON_NULL};
    if (json->error != NULL)
        return false;
    if (!more(json))
        return fail(json, "the text ends within the JSON object");
    switch (*json->at) {
    case '{':
        out->kind = WR_JSON_OBJECT;
        return true;
    case '[':
        out->kind = WR_JSON_ARRAY;
        return true;
    case '"':
        out->kind = WR_JSON_STRING;
        return read_string(json, &out->text);
    case 't':
        out->kind = WR_JSON_TRUE;
        return read_word(json, "true", 4);
    case 'f':
        out->kind = WR_JSON_FALSE;
        return read_word(json, "false", 5);
    case 'n':
        return read_word(json, "null", 4);
    default:
        if (*json->at != '-' && !is_digit(*json->at))
            return fail(json, "expected a JSON value");
        out->kind = WR_JSON_NUMBER;
        return read_number(json, &out->text);
    }
}

/* ---- containers --------------------------------------------------------------------------- */

bool wr_json_enter(struct wr_json *json, char open)
{
    return expect(json, open, open == '{' ? "expected a JSON object" : "expected a JSON array");
}

/* Past the comma before the next element; false at |close|, which is stepped over. */
static bool next(struct wr_json *json, bool *first, char close)
{
    if (json->error != NULL)
        return false;
    if (!more(json))
        return fail(json, "the text ends within the JSON object");
    if (*json->at == close) {
        json->at++;
        return false;
    }
    if (!*first && !expect(json, ',', "expected a comma or the end of the object or array"))
        return false;
    *first = false;
    return true;
}

bool wr_json_member(struct wr_json *json, bool *first, struct weir_slice *key)
{
    *key = (struct weir_slice){NULL, 0};
    return next(json, first, '}') && read_string(json, key) &&
           expect(json, ':', "expected a colon after the member's name");
}

bool wr_json_item(struct wr_json *json, bool *first)
{
    return next(json, first, ']');
}

/* Pass over a value that is no container. What a string decodes to is forgotten. */
static bool skip_scalar(struct wr_json *json)
{
    struct wr_json_value value;
    char *scratch = json->scratch;
    bool ok = wr_json_read(json, &value);

    json->scratch = scratch;
    return ok;
}

bool wr_json_skip(struct wr_json *json)
{
    uint64_t objects = 0; /* bit 0: is the innermost open container an object? */
    unsigned depth = 0;
    bool first = false;

    for (;;) {
        bool open = more(json) && (*json->at == '{' || *json->at == '[');
        if (open && depth == WR_JSON_DEPTH_MAX)
            return fail(json, "nested too deeply");
        if (open) {
            objects = objects << 1 | (*json->at++ == '{');
            depth++;
            first = true;
        } else if (!skip_scalar(json)) {
            return false;
        } else {
            first = false;
        }
        while (depth > 0) { /* to the next value, closing what ends before it */
            char *scratch = json->scratch;
            struct weir_slice key;
            bool at_value = (objects & 1) != 0 ? wr_json_member(json, &first, &key)
                                               : wr_json_item(json, &first);
            json->scratch = scratch;
            if (at_value)
                break;
            if (json->error != NULL)
                return false;
            objects >>= 1;
            depth--;
            first = false;
        }
        if (depth == 0)
            return true;
    }
}

bool wr_json_finish(struct wr_json *json)
{
    if (json->error != NULL)
        return false;
    return !more(json) || fail(json, "more text after the JSON object");
}
