/* resp_write.c - replies of RESP.
 *
 * Invariant: a reply is written whole or, when it does not fit, |full| is set and what is written
 * so far must not be sent: half a reply would shift all that follow. */
#include <string.h>

#include "wire/resp.h"

void wr_resp_raw(struct wr_resp_out *out, const char *bytes, size_t len)
{
    if (out->full || out->size - out->len < len) {
        out->full = true;
        return;
    }
    if (len > 0)
        memcpy(out->bytes + out->len, bytes, len);
    out->len += len;
}

static void write_line(struct wr_resp_out *out, char type, const char *text)
{
    wr_resp_raw(out, &type, 1);
    wr_resp_raw(out, text, strlen(text));
    wr_resp_raw(out, "\r\n", 2);
}

static unsigned digits_of(uint64_t value)
{
    unsigned digits = 1;

    for (; value >= 10; value /= 10)
        digits++;
    return digits;
}

static void write_number(struct wr_resp_out *out, char type, int64_t value)
{
    uint64_t rest = value < 0 ? -(uint64_t)value : (uint64_t)value;
    unsigned digits = digits_of(rest);
    size_t len = 3U + (value < 0 ? 1U : 0U) + digits; /* with the type and the end */
    char *at = out->bytes + out->len;

    if (out->full || out->size - out->len < len) {
        out->full = true;
        return;
    }
    out->len += len;
    *at++ = type;
    if (value < 0)
        *at++ = '-';
    at[digits] = '\r';
    at[digits + 1] = '\n';
    for (; digits > 0; rest /= 10)
        at[--digits] = (char)('0' + rest % 10);
}

void wr_resp_simple(struct wr_resp_out *out, const char *text)
{
    write_line(out, '+', text);
}

void wr_resp_error(struct wr_resp_out *out, const char *text)
{
    write_line(out, '-', text);
}

void wr_resp_error_begin(struct wr_resp_out *out, const char *text)
{
    wr_resp_raw(out, "-", 1);
    wr_resp_raw(out, text, strlen(text));
}

void wr_resp_error_bytes(struct wr_resp_out *out, struct weir_slice bytes, size_t max)
{
    for (size_t i = 0; i < bytes.len && i < max; i++) {
        char c = bytes.ptr[i];
        if (c < ' ' || c > '~')
            c = (unsigned char)c < ' ' ? ' ' : '?';
        wr_resp_raw(out, &c, 1);
    }
}

void wr_resp_error_end(struct wr_resp_out *out, const char *text)
{
    wr_resp_raw(out, text, strlen(text));
    wr_resp_raw(out, "\r\n", 2);
}

void wr_resp_int(struct wr_resp_out *out, int64_t value)
{
    write_number(out, ':', value);
}

void wr_resp_bulk_head(struct wr_resp_out *out, size_t len)
{
    write_number(out, '$', (int64_t)len);
}

void wr_resp_bulk(struct wr_resp_out *out, struct weir_slice bytes)
{
    wr_resp_bulk_head(out, bytes.len);
    wr_resp_raw(out, bytes.ptr, bytes.len);
    wr_resp_raw(out, "\r\n", 2);
}

void wr_resp_text(struct wr_resp_out *out, const char *text)
{
    wr_resp_bulk(out, (struct weir_slice){text, strlen(text)});
}

void wr_resp_null(struct wr_resp_out *out)
{
    if (out->resp3)
        wr_resp_raw(out, "_\r\n", 3);
    else
        wr_resp_raw(out, "$-1\r\n", 5);
}

void wr_resp_array(struct wr_resp_out *out, size_t count)
{
    write_number(out, '*', (int64_t)count);
}

void wr_resp_map(struct wr_resp_out *out, size_t pairs)
{
    if (out->resp3)
        write_number(out, '%', (int64_t)pairs);
    else
        write_number(out, '*', (int64_t)(2 * pairs));
}
