/* remote.h - open the backend that a policy's store asks for. */
#ifndef WR_REMOTE_REMOTE_H
#define WR_REMOTE_REMOTE_H

#include <uv.h>

#include "engine/backend.h"
#include "policy/policy.h"

/* A backend, open on one loop: ops->take(context, call). */
struct wr_backend {
    const struct wr_backend_ops *ops;
    void *context;
};

/* Open the backend of |store| (copied) on |loop|. It connects by itself, in its own time: a store
 * that is gone is no error here.
 *
 * Returns: 0; WEIR_EINVAL, this build has no such backend; WEIR_ENOMEM. |*out| is zeros then. */
int wr_remote_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store);

/* Who this process is among those that share a store: random, the same for all its loops. */
void wr_remote_member(uint64_t out[2]);

#endif
