/* bytes.h - a buffer that grows: bytes are put at its end and taken from its start. */
#ifndef WR_SERVE_BYTES_H
#define WR_SERVE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All zeros is an empty one. |start| bytes are gone, those up to |end| are held. */
struct wr_bytes {
    uint8_t *bytes;
    size_t start, end, room;
};

static inline size_t wr_bytes_held(const struct wr_bytes *bytes)
{
    return bytes->end - bytes->start;
}

/* False: out of memory, nothing is changed. */
bool wr_bytes_append(struct wr_bytes *to, const void *bytes, size_t len);

/* Move what is held to the front. */
void wr_bytes_settle(struct wr_bytes *bytes);

void wr_bytes_free(struct wr_bytes *bytes);

#endif
