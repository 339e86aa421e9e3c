/* redis.h - shared limits in Redis: one server, a primary found by sentinels, or a cluster. */
#ifndef WR_REMOTE_REDIS_H
#define WR_REMOTE_REDIS_H

#include "remote/remote.h"

/* As wr_remote_open, of a store of kind WR_STORE_REDIS, _SENTINEL or _CLUSTER. */
int wr_redis_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store);

#endif
