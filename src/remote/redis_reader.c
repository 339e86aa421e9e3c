/* redis_reader.c - hiredis allocates an array when it has read how long it claims to be, and keeps
 * what it has read until a reply is whole. Both are bounded here, so that a server (or whatever
 * answers in its place) can take no more than that. */
#include "remote/redis_reader.h"

static void *create_array(const redisReadTask *task, int elements)
{
    const struct wr_redis_reader *reader = task->privdata;

    return elements > WR_REDIS_ELEMENTS_MAX ? NULL : reader->create_array(task, elements);
}

bool wr_redis_reader_init(struct wr_redis_reader *reader)
{
    *reader = (struct wr_redis_reader){.reader = redisReaderCreate()};
    if (reader->reader == NULL)
        return false;
    reader->objects = *reader->reader->fn;
    reader->create_array = reader->objects.createArray;
    reader->objects.createArray = create_array;
    reader->reader->fn = &reader->objects;
    reader->reader->privdata = reader;
    return true;
}

void wr_redis_reader_fini(struct wr_redis_reader *reader)
{
    if (reader->reader != NULL)
        redisReaderFree(reader->reader);
    reader->reader = NULL;
}

const char *wr_redis_reader_feed(struct wr_redis_reader *reader, const char *bytes, size_t len)
{
    return redisReaderFeed(reader->reader, bytes, len) == REDIS_OK ? NULL : reader->reader->errstr;
}

const char *wr_redis_reader_next(struct wr_redis_reader *reader, redisReply **out)
{
    void *reply = NULL;

    *out = NULL;
    if (redisReaderGetReply(reader->reader, &reply) != REDIS_OK)
        return reader->reader->errstr;
    if (reply == NULL && reader->reader->len - reader->reader->pos > WR_REDIS_REPLY_MAX)
        return "a reply that is too long";
    *out = reply;
    return NULL;
}
