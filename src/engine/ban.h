/* ban.h - bans made at run time, as decisions see them; those of the policy's own list are
 * policy/select.c's. */
#ifndef WR_ENGINE_BAN_H
#define WR_ENGINE_BAN_H

#include "base/ipaddr.h"
#include "base/siphash.h"
#include "engine/engine.h"
#include "store/ban.h"

/* The hashes that callers are banned by, under the arena's secret: of a network, and of the value
 * of a named identity. Never equal to that of a slot's key. */
uint64_t wr_ban_hash_net(struct wr_sip_key secret, const struct wr_net *net);
uint64_t wr_ban_hash_value(struct wr_sip_key secret, struct weir_slice identity,
                           struct weir_slice value);

/* For how long yet is the caller of |request| banned at |now|? WEIR_NEVER: for ever; 0: not. To be
 * asked where wr_ban_any says so.
 *
 * Bounds:  a look-up for each length of network in use (of 129), one for each identity of the
 *          policy. */
int64_t wr_ban_left(const struct wr_engine *engine, const struct weir_request *request,
                    const struct wr_selection *selection, int64_t now);

#endif
