/* shared.h - decisions that need more than this host's arena.
 *
 * A request may meet local limits, strict shared ones (every decision at the store) and leased
 * shared ones (units that the store granted this host before lie in its arena, as a word of
 * algo/lease.h).
 *
 *   wr_engine_begin    decides at once where the arena can: nothing is shared, a local limit or a
 * cached refusal says no, or every shared limit has a lease that lasts. Else it has taken nothing,
 * and says what the store is to be asked. wr_engine_finish   makes the answer of what the store
 * said: takes from the local limits, puts granted units into the arena; or, with the store gone,
 * decides as each limit wants it then: open, closed, or local with its part of the limit.
 *
 * Nothing here does I/O; any process may begin, only one with a backend gets further.
 * wr_engine_decide is begin, with an outcome WEIR_ASK where the store must be asked. */
#ifndef WR_ENGINE_SHARED_H
#define WR_ENGINE_SHARED_H

#include "engine/backend.h"
#include "engine/charge.h"
#include "engine/engine.h"

/* A request between begin and finish. Self-contained: it may outlive the request; not the engine.
 */
struct wr_pending {
    struct wr_remote_call
        call; /* to be handed to a backend as it is: done and context are the caller's.
                 charge[i].extra and ttl_ns are 0: whoever manages leases sets them */
    unsigned plan;
    unsigned count; /* limits, in the order of the file */
    uint16_t limit[WEIR_LIMITS_MAX];
    int8_t remote[WEIR_LIMITS_MAX]; /* index in call.charge; -1: decided here */
    uint32_t leased;                /* bit i: limit i is in leased mode; see also call.charge */
    struct wr_charge charge[WEIR_LIMITS_MAX]; /* local part: of local limits, leases, fall-backs */
    int64_t cost;
    bool peek;
};

/* Returns true when |answer| is complete; false when pending->call is to be asked. */
bool wr_engine_begin(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                     struct weir_answer *answer, struct wr_pending *pending);

/* Complete |answer|. |nodes|: how many share the store, for limits that fall back to local. Returns
 * the bits of call.charge[] that the caller must refund at the backend (they were taken there, but
 * a local limit refused since): their cost; a granted lease is kept. */
uint32_t wr_engine_finish(struct wr_engine *engine, struct wr_pending *pending,
                          enum wr_remote_result result, unsigned nodes, int64_t now,
                          struct weir_answer *answer);

/* Of a lease that this host holds: give back what is unspent, by setting it to nothing. Returns the
 * units, 0 where there is none. For draining: whoever manages leases remembers where they are. */
int64_t wr_engine_lease_return(struct wr_engine *engine, unsigned limit, unsigned plan,
                               const struct wr_pending *of, unsigned index, int64_t now);

#endif
