/* memcached.h - the backend on memcached servers, 1.6 or newer. */
#ifndef WR_REMOTE_MEMCACHED_H
#define WR_REMOTE_MEMCACHED_H

#include "remote/remote.h"

/* As wr_remote_open, for a store of WR_STORE_MEMCACHED. */
int wr_memcached_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store);

#endif
