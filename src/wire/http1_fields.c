/* http1_fields.c - the letters of HTTP/1.1: tokens, field lines. A table says what a byte may be
 * part of, so that reading is one look at each byte. */
#include "wire/http1_parts.h"

/* ---- characters --------------------------------------------------------------------------- */

#define T WR_CHAR_TOKEN
#define V WR_CHAR_VALUE
#define G WR_CHAR_TARGET
#define H WR_CHAR_HOST
#define A (T | V | G | H)
/* What a byte may be part of. RFC 9110: tchar, field-vchar with SP and HTAB; RFC 3986: host. Of a
 * target only blanks and controls are no part: what else is in it is for the policy to normalise.
 */
static const unsigned char chars[256] = {
    ['\t'] = V,        [' '] = V,
    ['!'] = A,         ['"'] = V | G,
    ['#'] = T | V | G, ['$'] = A,
    ['%'] = A,         ['&'] = A,
    ['\''] = A,        ['('] = V | G | H,
    [')'] = V | G | H, ['*'] = A,
    ['+'] = A,         [','] = V | G | H,
    ['-'] = A,         ['.'] = A,
    ['/'] = V | G,     ['0' ... '9'] = A,
    [':'] = V | G | H, [';'] = V | G | H,
    ['<'] = V | G,     ['='] = V | G | H,
    ['>'] = V | G,     ['?'] = V | G,
    ['@'] = V | G,     ['A' ... 'Z'] = A,
    ['['] = V | G | H, ['\\'] = V | G,
    [']'] = V | G | H, ['^'] = T | V | G,
    ['_'] = A,         ['`'] = T | V | G,
    ['a' ... 'z'] = A, ['{'] = V | G,
    ['|'] = T | V | G, ['}'] = V | G,
    ['~'] = A,         [0x80 ... 0xff] = V | G,
};
#undef T
#undef V
#undef G
#undef H
#undef A

size_t wr_http_span(const char *at, const char *end, unsigned char kind)
{
    const char *p = at;

    while (p < end && (chars[(unsigned char)*p] & kind) != 0)
        p++;
    return (size_t)(p - at);
}

static unsigned char lower(char c)
{
    unsigned char byte = (unsigned char)c;

    return byte >= 'A' && byte <= 'Z' ? (unsigned char)(byte | 0x20U) : byte;
}

bool wr_http_name_is(struct weir_slice name, const char *text)
{
    for (size_t i = 0; i < name.len; i++)
        if (lower(name.ptr[i]) != (unsigned char)text[i]) /* a terminator is no letter of a name */
            return false;
    return text[name.len] == '\0';
}

const struct wr_http_field *wr_http_find(const struct wr_http_request *request, const char *name)
{
    for (unsigned i = 0; i < request->field_count; i++)
        if (wr_http_name_is(request->field[i].name, name))
            return &request->field[i];
    return NULL;
}

struct weir_slice wr_http_trimmed(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t'))
        at++;
    while (at < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (struct weir_slice){at, (size_t)(end - at)};
}

const char *wr_http_read_field(const char **at, const char *end, struct wr_http_field *field)
{
    const char *p = *at;
    size_t n = wr_http_span(p, end, WR_CHAR_TOKEN);

    if (n == 0)
        return *p == ' ' || *p == '\t' ? "a field is folded over two lines"
                                       : "expected the name of a field";
    if (p[n] != ':')
        return "expected a colon right after the name of a field";
    field->name = (struct weir_slice){p, n};
    p += n + 1;
    n = wr_http_span(p, end, WR_CHAR_VALUE);
    if (p[n] != '\r' || p[n + 1] != '\n')
        return "a control character in a field";
    field->value = wr_http_trimmed(p, p + n);
    *at = p + n + 2;
    return NULL;
}

enum wr_http_step wr_http_bad(struct wr_http_parser *parser, int status, const char *error)
{
    parser->status = status;
    parser->error = error;
    return WR_HTTP_BAD;
}
