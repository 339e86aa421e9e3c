/* grpc_stream.c - the blocks that calls are held in: taken and put back, never more than bounds
 * say. */
#include "doors/grpc_stream.h"

#include <stdlib.h>
#include <string.h>

#define SPARE_MAX 256U /* 200 KiB for each thread */

struct wr_grpc_stream *wr_grpc_stream_take(struct wr_grpc *g, int32_t id)
{
    struct wr_grpc_stream *s = g->spare->first;

    if (s != NULL) {
        g->spare->first = s->next;
        g->spare->count--;
    } else {
        s = malloc(sizeof *s);
        if (s == NULL)
            return NULL;
    }
    memset(s, 0, offsetof(struct wr_grpc_stream, inline_bytes));
    s->bytes = s->inline_bytes;
    s->room = sizeof s->inline_bytes;
    s->id = id;
    s->started_ns = g->now_ns;
    s->due_ns = g->now_ns + g->question_ns;
    s->next = g->open;
    if (g->open != NULL)
        g->open->previous = s;
    g->open = s;
    return s;
}

void wr_grpc_stream_forget(struct wr_grpc *g, struct wr_grpc_stream *s)
{
    if (s->bytes != s->inline_bytes) {
        g->buffered -= s->room;
        free(s->bytes);
    }
    s->bytes = s->inline_bytes;
    s->room = sizeof s->inline_bytes;
    s->len = 0;
}

void wr_grpc_stream_put(struct wr_grpc *g, struct wr_grpc_stream *s)
{
    if (s->kept != NULL)
        g->events->dropped(g->context, s->kept);
    s->kept = NULL;
    if (g->heading == s)
        g->heading = NULL;
    wr_grpc_stream_forget(g, s);
    if (s->previous != NULL)
        s->previous->next = s->next;
    else
        g->open = s->next;
    if (s->next != NULL)
        s->next->previous = s->previous;
    if (g->spare->count >= SPARE_MAX) {
        free(s);
        return;
    }
    s->next = g->spare->first;
    g->spare->first = s;
    g->spare->count++;
}

void wr_grpc_spare_free(struct wr_grpc_spare *spare)
{
    while (spare->first != NULL) {
        struct wr_grpc_stream *next = spare->first->next;
        free(spare->first);
        spare->first = next;
    }
    spare->count = 0;
}

/* Room for |len| bytes in all. */
bool wr_grpc_stream_reserve(struct wr_grpc *g, struct wr_grpc_stream *s, size_t len)
{
    size_t room = s->room;
    uint8_t *larger;

    if (len <= s->room)
        return true;
    while (room < len)
        room *= 2;
    if (g->buffered + room > WR_GRPC_BUFFER_MAX)
        return false;
    larger = malloc(room);
    if (larger == NULL)
        return false;
    if (s->len > 0)
        memcpy(larger, s->bytes, s->len);
    if (s->bytes != s->inline_bytes) {
        g->buffered -= s->room;
        free(s->bytes);
    }
    s->bytes = larger;
    s->room = room;
    g->buffered += room;
    return true;
}
