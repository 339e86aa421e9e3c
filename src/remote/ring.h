/* ring.h - shared limits among the nodes themselves: each key has an owner, which counts it in its
 * own arena. */
#ifndef WR_REMOTE_RING_H
#define WR_REMOTE_RING_H

#include "remote/remote.h"

/* As wr_remote_open, of a store of kind WR_STORE_RING. Listens at its address, for itself, in each
 * loop that opens one. WEIR_EINVAL too: an address beyond loopback, and no password. */
int wr_ring_open(struct wr_backend *out, uv_loop_t *loop, const struct wr_policy_store *store);

/* Could a process that has no ring yet listen at |self|? NULL, or why not. Loops share the address,
 * so a second daemon would go unnoticed, and each be asked for half of the keys. */
const char *wr_ring_probe(const struct wr_policy_address *self);

/* Of struct wr_backend_ops. */
void wr_ring_own(void *backend, const struct wr_engine *engine);
void wr_ring_leave(void *backend, void (*left)(void *context), void *context);
bool wr_ring_news(void *backend, struct wr_backend_news *out);
size_t wr_ring_peers(const void *backend, struct wr_backend_peer out[WR_BACKEND_PEERS_MAX]);

/* Tests: what time it is for keys owned here. NULL: the arena's clock. */
void wr_ring_clock(void *backend, int64_t (*now_ns)(void *context), void *context);

/* Tests: is the node ready, and are no keys on their way as far as it knows? */
bool wr_ring_is_settled(const void *backend);

/* Which address owns |tag| as this node sees it. */
void wr_ring_owner_of(const void *backend, const unsigned char tag[WR_TAG_BYTES], char *out,
                      size_t size);

#endif
