/* Any standing, any families, any size of buffer: within bounds, printable, each name once. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wire/fields.h"

struct input {
    const uint8_t *at;
    size_t left;
};

/* The next 8 bytes, or zeros. */
static int64_t next(struct input *in)
{
    int64_t value = 0;
    size_t n = in->left < 8 ? in->left : 8;

    if (n > 0)
        memcpy(&value, in->at, n);
    in->at += n;
    in->left -= n;
    return value;
}

static void check(const struct weir_header *out, int n, const char *buffer, size_t size)
{
    for (int i = 0; i < n; i++) {
        const struct weir_slice *value = &out[i].value;
        if (value->ptr < buffer || value->ptr + value->len > buffer + size || value->len == 0)
            abort();
        for (size_t k = 0; k < value->len; k++)
            if (value->ptr[k] < 0x20 || value->ptr[k] > 0x7e)
                abort();
        for (int j = 0; j < i; j++)
            if (strcmp(out[i].name, out[j].name) == 0)
                abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"per-ip", "a", "per.key_with-a.long-name"};
    struct input in = {data, size};
    struct wr_standings s = {0};
    struct weir_header out[WEIR_HEADERS_MAX];
    uint64_t shape = (uint64_t)next(&in);
    size_t room = (size_t)(shape >> 16) % (WEIR_HEADERS_BYTES + 1);
    char *buffer = malloc(room + 1);
    int n;

    if (buffer == NULL)
        abort();
    s.count = shape % (WEIR_LIMITS_MAX + 1);
    s.decisive = s.count > 0 ? (shape >> 8) % s.count : 0;
    s.denied = (shape >> 40 & 1) != 0;
    s.expose = (shape >> 41 & 1) != 0;
    s.now_ns = next(&in);
    s.retry_after_ns = next(&in);
    for (size_t i = 0; i < s.count; i++)
        s.item[i] = (struct wr_standing){.name = names[i % 3],
                                         .quota_units = next(&in),
                                         .remaining_units = next(&in),
                                         .window_ns = next(&in),
                                         .next_ns = next(&in),
                                         .reset_ns = next(&in),
                                         .concurrent = i % 2 == 0,
                                         .violated = i % 3 == 0};
    n = wr_fields_write(&s, (unsigned)(shape >> 48) & 0x3f, out, buffer, room);
    if (n < 0 && (n != WEIR_EFULL || room == WEIR_HEADERS_BYTES))
        abort();
    check(out, n, buffer, room);
    free(buffer);
    return 0;
}
