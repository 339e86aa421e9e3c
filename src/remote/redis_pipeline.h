/* redis_pipeline.h - commands that are to be written, and who waits for the replies, in order. */
#ifndef WR_REMOTE_REDIS_PIPELINE_H
#define WR_REMOTE_REDIS_PIPELINE_H

#include "remote/redis_link.h"

struct wr_redis_waiting {
    wr_redis_reply_fn fn;
    void *context;
};

/* All zeros to begin with. */
struct wr_redis_pipeline {
    struct wr_redis_waiting *ring; /* ring_size of them: 0, or a power of two */
    size_t ring_size, first, count;
    uint64_t sent; /* commands ever added */
    char *out;     /* bytes to be written */
    size_t out_len, out_size;
};

/* False: out of memory; nothing is added then. */
bool wr_redis_pipeline_add(struct wr_redis_pipeline *pipeline, const char *bytes, size_t len,
                           struct wr_redis_waiting waiting);

/* Who waits for the next reply; count > 0. */
struct wr_redis_waiting wr_redis_pipeline_shift(struct wr_redis_pipeline *pipeline);

/* All of |out| is written. */
void wr_redis_pipeline_written(struct wr_redis_pipeline *pipeline);

/* |out|, with everything in it, is the caller's, to be freed. */
char *wr_redis_pipeline_detach(struct wr_redis_pipeline *pipeline);

void wr_redis_pipeline_free(struct wr_redis_pipeline *pipeline);

#endif
