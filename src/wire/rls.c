/* rls.c - answers of the rate limit service: structs -> messages. rls_read.c is the other way.
 *
 * Fields are put one before the other, from the last to the first: so the length of a message is
 * known when it is to be written. */
#include "wire/rls.h"

#include <string.h>

struct writer {
    uint8_t *start, *at;
    bool full;
};

static void put_bytes(struct writer *w, const void *bytes, size_t len)
{
    if ((size_t)(w->at - w->start) < len) {
        w->full = true;
        return;
    }
    w->at -= len;
    if (len > 0)
        memcpy(w->at, bytes, len);
}

static void put_varint(struct writer *w, uint64_t value)
{
    uint8_t bytes[10];
    size_t len = 0;

    if (value < 128 && w->at > w->start) { /* all tags, and most of the rest */
        *--w->at = (uint8_t)value;
        return;
    }
    for (; value > 127; value >>= 7)
        bytes[len++] = (uint8_t)(value | 128);
    bytes[len++] = (uint8_t)value;
    put_bytes(w, bytes, len);
}

enum { VARINT = 0, BYTES = 2 };

static void put_number(struct writer *w, unsigned field, uint64_t value)
{
    put_varint(w, value);
    put_varint(w, field << 3 | VARINT);
}

/* The message from here to |end| is all there. */
static void put_head(struct writer *w, unsigned field, const uint8_t *end)
{
    put_varint(w, (uint64_t)(end - w->at));
    put_varint(w, field << 3 | BYTES);
}

static void put_text(struct writer *w, unsigned field, struct weir_slice text)
{
    const uint8_t *end = w->at;

    put_bytes(w, text.ptr, text.len);
    put_head(w, field, end);
}

static void put_limit(struct writer *w, const struct wr_rate_status *status)
{
    const uint8_t *end = w->at;

    if (status->name.len > 0)
        put_text(w, 3, status->name);
    if (status->unit != WR_UNIT_UNKNOWN)
        put_number(w, 2, status->unit);
    if (status->units != 0)
        put_number(w, 1, status->units);
    put_head(w, 2, end);
}

static void put_status(struct writer *w, const struct wr_rate_status *status)
{
    const uint8_t *end = w->at;

    if (status->reset_s > 0) {
        const uint8_t *duration_end = w->at;
        put_number(w, 1, (uint64_t)status->reset_s);
        put_head(w, 4, duration_end);
    }
    if (status->remaining != 0)
        put_number(w, 3, status->remaining);
    if (status->has_limit)
        put_limit(w, status);
    put_number(w, 1, status->code);
    put_head(w, 2, end);
}

static void put_header(struct writer *w, const struct wr_rate_header *header)
{
    const uint8_t *end = w->at;

    put_text(w, 2, header->value);
    put_text(w, 1, header->key);
    put_head(w, 3, end);
}

int64_t wr_rls_encode(const struct wr_rate_response *response, uint8_t *out, size_t size)
{
    struct writer w = {out, out + size, false};
    size_t len;

    if (response->body.len > 0)
        put_text(&w, 5, response->body);
    for (size_t i = response->header_count; i > 0; i--)
        put_header(&w, &response->headers[i - 1]);
    for (size_t i = response->count; i > 0; i--)
        put_status(&w, &response->statuses[i - 1]);
    put_number(&w, 1, response->code);
    if (w.full)
        return WEIR_EFULL;
    len = (size_t)(out + size - w.at);
    memmove(out, w.at, len);
    return (int64_t)len;
}

void wr_health_encode(enum wr_health health, uint8_t out[WR_HEALTH_BYTES])
{
    out[0] = 1 << 3 | VARINT;
    out[1] = (uint8_t)health;
}
