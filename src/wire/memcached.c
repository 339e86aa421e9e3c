/* memcached.c - the meta protocol: a line a command, a line (and a block) a reply.
 *
 * Invariants:
 *   1. Every byte of a reply that is used was bounds-checked: the length that the server tells is
 *      believed only up to WR_MC_VALUE_MAX, and the block must end in CR LF.
 *   2. A key is what the caller made: printable, without blanks, at most WR_MC_KEY_MAX bytes. */
#include "wire/memcached.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LINE_MAX 512U
#define TTL_RELATIVE_MAX_S (INT64_C(30) * 86400)

/* ---- commands ------------------------------------------------------------------------------ */

__attribute__((format(printf, 2, 3))) static void put(struct wr_mc_out *out, const char *format,
                                                      ...)
{
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(out->bytes + out->len, out->size - out->len, format, arguments);
    va_end(arguments);
    if (len < 0 || (size_t)len >= out->size - out->len)
        out->full = true;
    else
        out->len += (size_t)len;
}

/* Moments are read as 32 bits: what would live longer is kept until then. */
static int64_t expiry(struct wr_mc_ttl ttl)
{
    if (ttl.s <= TTL_RELATIVE_MAX_S)
        return ttl.s;
    return ttl.s < INT32_MAX - ttl.now_s ? ttl.now_s + ttl.s : INT32_MAX;
}

void wr_mc_get(struct wr_mc_out *out, struct weir_slice key)
{
    put(out, "mg %.*s v c\r\n", (int)key.len, key.ptr);
}

void wr_mc_add(struct wr_mc_out *out, struct weir_slice key, uint64_t units, struct wr_mc_ttl ttl)
{
    /* J is the number that a new one starts with: the delta is not added to it. */
    put(out, "ma %.*s N%" PRId64 " J%" PRIu64 " D%" PRIu64 " v\r\n", (int)key.len, key.ptr,
        expiry(ttl), units, units);
}

void wr_mc_subtract(struct wr_mc_out *out, struct weir_slice key, uint64_t units)
{
    put(out, "ma %.*s MD D%" PRIu64 " v\r\n", (int)key.len, key.ptr, units);
}

void wr_mc_set(struct wr_mc_out *out, struct weir_slice key, struct weir_slice value, uint64_t cas,
               struct wr_mc_ttl ttl)
{
    put(out, "ms %.*s %zu T%" PRId64 " ", (int)key.len, key.ptr, value.len, expiry(ttl));
    if (cas != 0)
        put(out, "C%" PRIu64, cas);
    else
        put(out, "ME"); /* as add: only where there is nothing */
    put(out, "\r\n%.*s\r\n", (int)value.len, value.ptr);
}

void wr_mc_delete(struct wr_mc_out *out, struct weir_slice key)
{
    put(out, "md %.*s\r\n", (int)key.len, key.ptr);
}

void wr_mc_noop(struct wr_mc_out *out)
{
    put(out, "mn\r\n");
}

/* ---- replies ------------------------------------------------------------------------------- */

bool wr_mc_number(struct weir_slice text, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;

    *out = 0;
    while (text.len > 0 && text.ptr[text.len - 1] == ' ')
        text.len--;
    for (; digits < text.len; digits++) {
        unsigned digit = (unsigned char)text.ptr[digits] - (unsigned)'0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return digits > 0;
}

/* The next word of |line|; empty at its end. */
static struct weir_slice word(struct weir_slice *line)
{
    struct weir_slice out;
    const char *blank;

    while (line->len > 0 && *line->ptr == ' ') {
        line->ptr++;
        line->len--;
    }
    blank = memchr(line->ptr, ' ', line->len);
    out = (struct weir_slice){line->ptr, blank != NULL ? (size_t)(blank - line->ptr) : line->len};
    line->ptr += out.len;
    line->len -= out.len;
    return out;
}

static bool is(struct weir_slice slice, const char *text)
{
    return slice.len == strlen(text) && memcmp(slice.ptr, text, slice.len) == 0;
}

/* Flags behind a reply: of those we ask for, the CAS token. */
static bool read_flags(struct weir_slice line, struct wr_mc_reply *out)
{
    for (struct weir_slice flag = word(&line); flag.len > 0; flag = word(&line)) {
        struct weir_slice rest = {flag.ptr + 1, flag.len - 1};
        if (*flag.ptr == 'c' && !wr_mc_number(rest, &out->cas))
            return false;
    }
    return true;
}

/* "VA LENGTH FLAGS" with the block behind it, which begins at |block|. */
static enum wr_mc_step read_value(struct weir_slice line, const char *bytes, size_t len,
                                  size_t block, struct wr_mc_reply *out)
{
    uint64_t size;

    if (!wr_mc_number(word(&line), &size) || size > WR_MC_VALUE_MAX || !read_flags(line, out))
        return WR_MC_BAD;
    if (len - block < size + 2)
        return WR_MC_MORE;
    if (memcmp(bytes + block + size, "\r\n", 2) != 0)
        return WR_MC_BAD;
    out->value = (struct weir_slice){bytes + block, (size_t)size};
    out->consumed = block + (size_t)size + 2;
    return WR_MC_VALUE;
}

static bool is_refusal(struct weir_slice name)
{
    return is(name, "ERROR") || is(name, "CLIENT_ERROR") || is(name, "SERVER_ERROR");
}

enum wr_mc_step wr_mc_parse(const char *bytes, size_t len, struct wr_mc_reply *out)
{
    static const struct {
        const char *name;
        enum wr_mc_step step;
    } names[] = {{"HD", WR_MC_STORED},     {"EN", WR_MC_MISS},   {"NF", WR_MC_NOT_FOUND},
                 {"NS", WR_MC_NOT_STORED}, {"EX", WR_MC_EXISTS}, {"MN", WR_MC_NOOP}};
    const char *end = memchr(bytes, '\n', len < LINE_MAX ? len : LINE_MAX);
    struct weir_slice whole, line, name;

    *out = (struct wr_mc_reply){0};
    if (end == NULL)
        return len < LINE_MAX ? WR_MC_MORE : WR_MC_BAD;
    if (end == bytes || end[-1] != '\r')
        return WR_MC_BAD;
    whole = line = (struct weir_slice){bytes, (size_t)(end - bytes) - 1};
    name = word(&line);
    if (is(name, "VA"))
        return read_value(line, bytes, len, whole.len + 2, out);
    out->consumed = whole.len + 2;
    if (is_refusal(name)) {
        out->value = whole;
        return WR_MC_REFUSED;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (is(name, names[i].name))
            return read_flags(line, out) ? names[i].step : WR_MC_BAD;
    return WR_MC_BAD;
}
