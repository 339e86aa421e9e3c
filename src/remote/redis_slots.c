/* redis_slots.c - [first, last, [host, port, id, …], replicas…] for each range. A host that is nil,
 * empty or "?" is the one that was asked (cluster-preferred-endpoint-type). */
#include "remote/redis_slots.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "remote/redis_reply.h"
#include "remote/redis_slot.h"

static bool is_number(const redisReply *reply, long long most)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer <= most;
}

static bool read_range(const redisReply *row, struct wr_redis_range *out)
{
    const redisReply *primary, *host;

    if (row->type != REDIS_REPLY_ARRAY || row->elements < 3)
        return false;
    primary = row->element[2];
    if (!is_number(row->element[0], WR_REDIS_SLOTS - 1) ||
        !is_number(row->element[1], WR_REDIS_SLOTS - 1) || primary->type != REDIS_REPLY_ARRAY ||
        primary->elements < 2 || !is_number(primary->element[1], UINT16_MAX) ||
        primary->element[1]->integer == 0)
        return false;
    host = primary->element[0];
    *out = (struct wr_redis_range){
        .first = (uint16_t)row->element[0]->integer,
        .last = (uint16_t)row->element[1]->integer,
        .port = (uint16_t)primary->element[1]->integer,
    };
    if (host->type == REDIS_REPLY_STRING && host->len > 0 && strcmp(host->str, "?") != 0)
        out->host = host->str;
    return out->first <= out->last && (out->host == NULL || host->len < WR_REDIS_HOST_MAX) &&
           (host->type == REDIS_REPLY_STRING || host->type == REDIS_REPLY_NIL);
}

bool wr_redis_slots_next(const struct redisReply *reply, uint64_t *index,
                         struct wr_redis_range *out)
{
    *out = (struct wr_redis_range){0};
    if (reply->type != REDIS_REPLY_ARRAY)
        return false;
    while (*index < reply->elements)
        if (read_range(reply->element[(*index)++], out))
            return true;
    return false;
}
