/* redis_reader.h - hiredis's parser, with bounds on what a server can make it hold. */
#ifndef WR_REMOTE_REDIS_READER_H
#define WR_REMOTE_REDIS_READER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#define WR_REDIS_REPLY_MAX (8U << 20) /* bytes of one reply */
#define WR_REDIS_ELEMENTS_MAX 20000   /* of an array; CLUSTER SLOTS has at most 16384 */

/* Not to be moved while it is open. */
struct wr_redis_reader {
    redisReader *reader;
    redisReplyObjectFunctions objects; /* hiredis's own, but for arrays */
    void *(*create_array)(const redisReadTask *task, int elements); /* hiredis's */
};

/* False: out of memory. */
bool wr_redis_reader_init(struct wr_redis_reader *reader);
void wr_redis_reader_fini(struct wr_redis_reader *reader);

/* Returns NULL, or what is wrong with it. */
const char *wr_redis_reader_feed(struct wr_redis_reader *reader, const char *bytes, size_t len);

/* The next reply, to be freed by freeReplyObject, into |*out|; NULL: there is none yet. Returns
 * NULL, or what is wrong. */
const char *wr_redis_reader_next(struct wr_redis_reader *reader, redisReply **out);

#endif
