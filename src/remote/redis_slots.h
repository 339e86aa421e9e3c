/* redis_slots.h - who has which slot of a cluster, as CLUSTER SLOTS says. Pure. */
#ifndef WR_REMOTE_REDIS_SLOTS_H
#define WR_REMOTE_REDIS_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

struct redisReply;

/* A range of slots and its primary; |host| is borrowed from the reply: NULL: the one that was
 * asked.
 */
struct wr_redis_range {
    uint16_t first, last;
    const char *host;
    uint16_t port;
};

/* The next range of |reply| at |*index|, which moves on. False: there is none left. What makes no
 * sense is left out. */
bool wr_redis_slots_next(const struct redisReply *reply, uint64_t *index,
                         struct wr_redis_range *out);

#endif
