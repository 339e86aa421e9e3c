/* remote.c - which backend a store is. */
#include "remote/remote.h"

#include <sys/random.h>

#include "base/clock.h"
#include "remote/memcached.h"
#include "remote/redis.h"
#include "remote/ring.h"

typedef int open_fn(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store);

/* A row a kind of store; NULL: not in this build. */
static open_fn *const backends[] = {
    [WR_STORE_REDIS] = wr_redis_open,   [WR_STORE_SENTINEL] = wr_redis_open,
    [WR_STORE_CLUSTER] = wr_redis_open, [WR_STORE_MEMCACHED] = wr_memcached_open,
    [WR_STORE_RING] = wr_ring_open,
};

int wr_remote_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store)
{
    size_t kind = (size_t)store->kind;

    *out = (struct wr_backend){0};
    if (kind >= sizeof backends / sizeof backends[0] || backends[kind] == NULL)
        return WEIR_EINVAL;
    return backends[kind](out, loop, store);
}

static uint64_t member[2];
static uv_once_t member_once = UV_ONCE_INIT;

static void make_member(void)
{
    if (getrandom(member, sizeof member, 0) != (ssize_t)sizeof member)
        member[0] = (uint64_t)wr_clock_mono().ns;
}

void wr_remote_member(uint64_t out[2])
{
    uv_once(&member_once, make_member);
    out[0] = member[0];
    out[1] = member[1];
}
