/* redis_pipeline.c - a buffer of commands and a ring of callbacks. Both grow by doubling; how many
 * commands there may be at once is bounded by who sends them. */
#include "remote/redis_pipeline.h"

#include <stdlib.h>
#include <string.h>

#define OUTPUT_FIRST 4096
#define OUTPUT_SPARE ((size_t)256 * 1024) /* a larger buffer is not kept */
#define RING_FIRST 64

static bool reserve_output(struct wr_redis_pipeline *pipeline, size_t len)
{
    size_t size = pipeline->out_size == 0 ? OUTPUT_FIRST : pipeline->out_size;
    char *bytes;

    while (size - pipeline->out_len < len)
        size *= 2;
    if (size == pipeline->out_size)
        return true;
    bytes = realloc(pipeline->out, size);
    if (bytes == NULL)
        return false;
    pipeline->out = bytes;
    pipeline->out_size = size;
    return true;
}

static bool reserve_ring(struct wr_redis_pipeline *pipeline)
{
    size_t size = pipeline->ring_size == 0 ? RING_FIRST : pipeline->ring_size * 2;
    struct wr_redis_waiting *ring;

    if (pipeline->count < pipeline->ring_size)
        return true;
    ring = malloc(size * sizeof *ring);
    if (ring == NULL)
        return false;
    for (size_t i = 0; i < pipeline->count; i++)
        ring[i] = pipeline->ring[(pipeline->first + i) & (pipeline->ring_size - 1)];
    free(pipeline->ring);
    pipeline->ring = ring;
    pipeline->ring_size = size;
    pipeline->first = 0;
    return true;
}

bool wr_redis_pipeline_add(struct wr_redis_pipeline *pipeline, const char *bytes, size_t len,
                           struct wr_redis_waiting waiting)
{
    if (!reserve_output(pipeline, len) || !reserve_ring(pipeline))
        return false;
    memcpy(pipeline->out + pipeline->out_len, bytes, len);
    pipeline->out_len += len;
    pipeline->ring[(pipeline->first + pipeline->count) & (pipeline->ring_size - 1)] = waiting;
    pipeline->count++;
    pipeline->sent++;
    return true;
}

struct wr_redis_waiting wr_redis_pipeline_shift(struct wr_redis_pipeline *pipeline)
{
    struct wr_redis_waiting waiting = pipeline->ring[pipeline->first];

    pipeline->first = (pipeline->first + 1) & (pipeline->ring_size - 1);
    pipeline->count--;
    return waiting;
}

char *wr_redis_pipeline_detach(struct wr_redis_pipeline *pipeline)
{
    char *out = pipeline->out;

    pipeline->out = NULL;
    pipeline->out_len = pipeline->out_size = 0;
    return out;
}

void wr_redis_pipeline_written(struct wr_redis_pipeline *pipeline)
{
    pipeline->out_len = 0;
    if (pipeline->out_size > OUTPUT_SPARE)
        free(wr_redis_pipeline_detach(pipeline));
}

void wr_redis_pipeline_free(struct wr_redis_pipeline *pipeline)
{
    free(pipeline->ring);
    free(pipeline->out);
    *pipeline = (struct wr_redis_pipeline){0};
}
