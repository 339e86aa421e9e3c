/* json_mend.c - bytes that are not UTF-8, through a parser that takes only UTF-8.
 *
 * The problem. Two keys that differ in such a byte are two callers, and a path with one is matched
 * as it was on the wire; to replace them all by U+FFFD would decide otherwise than the gateway did.
 * The library refuses the line, as it should.
 *
 * The idea. Of the last private characters, U+10FF80 to U+10FFFF, each stands for one byte 0x80 to
 * 0xff. As long as it is JSON the line is UTF-8; afterwards they are turned back. Only lines that
 * the parser has refused come here.
 *
 * Invariants:
 *   1. What is mended and turned back is, byte for byte, what the log said: where the log itself
 *      holds one of those characters, its four bytes are stood for one by one. (Escaped,
 *      \udbff\udf80, it becomes a byte; it means nothing anyhow.)
 *   2. Outside of strings nothing is changed, so nothing becomes JSON by it but strings.
 *
 * Rejected: Latin-1 for the whole line (then é of an escape and the byte 0xe9 are the same). */
#include "wire/json_mend.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/utf8.h"

#define PIECE_MAX 12 /* a surrogate pair, escaped */
#define GROWTH 4     /* a byte becomes at most so many */

struct mender {
    const unsigned char *at;
    const unsigned char *end;
    bool in_string;
    bool changed;
    char piece[PIECE_MAX]; /* what takes the place of the last bytes */
};

/* The value of |digits| hexadecimal digits |offset| bytes on, or -1. */
static int hex_at(const struct mender *m, size_t offset, size_t digits)
{
    int value = 0;

    if ((size_t)(m->end - m->at) < offset + digits)
        return -1;
    for (size_t i = 0; i < digits; i++) {
        unsigned char c = m->at[offset + i], letter = c | 0x20;
        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (letter >= 'a' && letter <= 'f')
            value = value * 16 + (letter - 'a' + 10);
        else
            return -1;
    }
    return value;
}

/* The next |taken| bytes as they are. */
static size_t keep(struct mender *m, size_t taken)
{
    memcpy(m->piece, m->at, taken);
    m->at += taken;
    return taken;
}

static size_t put(struct mender *m, size_t taken, const char *piece, size_t len)
{
    memcpy(m->piece, piece, len);
    m->at += taken;
    m->changed = true;
    return len;
}

static size_t put_byte(struct mender *m, size_t taken, unsigned byte)
{
    static const char hex[] = "0123456789abcdef";
    const char stands[4] = {'\xf4', '\x8f', (char)(0xbe | (byte >> 6 & 1)),
                            (char)(0x80 | (byte & 0x3f))};
    const char escape[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
    const char plain = (char)byte;

    if (byte >= 0x80)
        return put(m, taken, stands, sizeof stands);
    if (byte < 0x20 || byte == '"' || byte == '\\')
        return put(m, taken, escape, sizeof escape);
    return put(m, taken, &plain, 1);
}

static bool is_stand_in(const unsigned char *p)
{
    return p[0] == 0xf4 && p[1] == 0x8f && p[2] >= 0xbe;
}

static size_t mend_escape(struct mender *m)
{
    int byte, unit, low;

    if (m->end - m->at < 2)
        return keep(m, 1);
    if (m->at[1] == 'x' && (byte = hex_at(m, 2, 2)) >= 0)
        return put_byte(m, 4, (unsigned)byte);
    if (m->at[1] != 'u' || (unit = hex_at(m, 2, 4)) < 0xd800 || unit > 0xdfff)
        return keep(m, 2); /* also \\ and \", so that what follows is not taken for an escape */
    low = m->end - m->at >= 12 && m->at[6] == '\\' && m->at[7] == 'u' ? hex_at(m, 8, 4) : -1;
    if (unit < 0xdc00 && low >= 0xdc00 && low <= 0xdfff)
        return keep(m, 12);
    return put(m, 6, "\\ufffd", 6);
}

/* Step over a piece of the text; |piece| holds what takes its place, of the length returned. */
static size_t mend_next(struct mender *m)
{
    size_t left = (size_t)(m->end - m->at), sequence;

    if (*m->at == '"')
        m->in_string = !m->in_string;
    else if (m->in_string && *m->at == '\\')
        return mend_escape(m);
    if (*m->at < 0x80 || !m->in_string)
        return keep(m, 1);
    sequence = wr_utf8_sequence(m->at, left);
    if (sequence == 0 || (sequence == 4 && is_stand_in(m->at)))
        return put_byte(m, 1, *m->at);
    return keep(m, sequence);
}

static struct mender mender_of(struct weir_slice text)
{
    const unsigned char *at = (const unsigned char *)text.ptr;

    return (struct mender){.at = at, .end = at + text.len};
}

char *wr_json_mend(struct weir_slice text, size_t *len)
{
    struct mender m = mender_of(text);
    char *out = malloc(text.len * GROWTH + PIECE_MAX);

    *len = 0;
    if (out == NULL)
        return NULL;
    while (m.at < m.end) {
        size_t n = mend_next(&m);
        memcpy(out + *len, m.piece, n);
        *len += n;
    }
    if (m.changed)
        return out;
    free(out);
    *len = 0;
    return NULL;
}

size_t wr_json_mend_origin(struct weir_slice text, size_t at)
{
    struct mender m = mender_of(text);
    size_t made = 0;

    while (m.at < m.end) {
        const unsigned char *start = m.at;
        size_t n = mend_next(&m), origin = (size_t)((const char *)start - text.ptr);
        if (at < made + n) /* a piece as long as what it stands for is that, byte for byte */
            return n == (size_t)(m.at - start) ? origin + at - made : origin;
        made += n;
    }
    return text.len;
}

bool wr_json_mend_stands(struct weir_slice text)
{
    return memmem(text.ptr, text.len, "\xf4\x8f\xbe", 3) != NULL ||
           memmem(text.ptr, text.len, "\xf4\x8f\xbf", 3) != NULL;
}

size_t wr_json_mend_undo(struct weir_slice text, char *out)
{
    const unsigned char *p = (const unsigned char *)text.ptr, *end = p + text.len;
    size_t len = 0;

    while (p < end) {
        if (end - p >= 4 && is_stand_in(p)) {
            out[len++] = (char)(0x80 | (p[2] & 1) << 6 | (p[3] & 0x3f));
            p += 4;
        } else {
            out[len++] = (char)*p++;
        }
    }
    return len;
}
