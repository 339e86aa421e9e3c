/* redis_slot.h - in which of the 16384 slots of a Redis Cluster a key lies. Pure. */
#ifndef WR_REMOTE_REDIS_SLOT_H
#define WR_REMOTE_REDIS_SLOT_H

#include <stddef.h>
#include <stdint.h>

#define WR_REDIS_SLOTS 16384

/* The slot of |key|. Where it has a hash tag (at least a byte between its first { and the next }),
 * only that is hashed. */
uint16_t wr_redis_slot(const char *key, size_t len);

#endif
