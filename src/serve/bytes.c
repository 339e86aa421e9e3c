/* bytes.c - a buffer that grows by doubling, so that appending costs the same however it is cut. */
#include "serve/bytes.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BYTES 4096U

bool wr_bytes_append(struct wr_bytes *to, const void *bytes, size_t len)
{
    if (len == 0)
        return true;
    if (to->room - to->end < len) {
        size_t room = to->room > 0 ? to->room : FIRST_BYTES;
        uint8_t *larger;

        while (room - to->end < len)
            room *= 2;
        larger = realloc(to->bytes, room);
        if (larger == NULL)
            return false;
        to->bytes = larger;
        to->room = room;
    }
    memcpy(to->bytes + to->end, bytes, len);
    to->end += len;
    return true;
}

void wr_bytes_settle(struct wr_bytes *bytes)
{
    if (bytes->start == 0)
        return;
    memmove(bytes->bytes, bytes->bytes + bytes->start, wr_bytes_held(bytes));
    bytes->end -= bytes->start;
    bytes->start = 0;
}

void wr_bytes_free(struct wr_bytes *bytes)
{
    free(bytes->bytes);
    *bytes = (struct wr_bytes){0};
}
