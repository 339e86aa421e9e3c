/* shared.h - decisions that need more than this host's arena.
 *
 * A request may meet local limits, strict shared ones (every decision at the store) and leased
 * shared ones (units that the store granted this host before lie in its arena, as a word of
 * algo/lease.h).
 *
 *   wr_engine_begin    decides at once where the arena can: nothing is shared, a local limit or a
 *                      cached refusal says no, or every shared limit has a lease that lasts. Else
 *                      it says what the store is to be asked.
 *   wr_engine_finish   makes the answer of what the store said: takes from the local limits, puts
 *                      granted units into the arena; or, with the store gone, decides as each limit
 *                      wants it then: open, closed, or local with its part of the limit.
 *
 * Between the two nothing local is taken, but the units of leases that last are held: they were
 * granted for requests of this moment, and could be gone when the store has answered. finish gives
 * them back to their leases when the request is refused; a pending that is dropped strands them.
 *
 * Nothing here does I/O; any process may begin, only one with a backend gets further.
 * wr_engine_decide is begin, with an outcome WEIR_ASK where the store must be asked. */
#ifndef WR_ENGINE_SHARED_H
#define WR_ENGINE_SHARED_H

#include "engine/backend.h"
#include "engine/ballot.h"
#include "engine/engine.h"

#define WR_GONE_RETRY_NS                                                     \
    WR_NS_PER_S /* of a refusal by a store that is gone, if nothing is known \
                 */

/* A request between begin and finish. Self-contained: it may outlive the request; not the engine.
 * About 8 KiB. */
struct wr_pending {
    /* To be handed to a backend as it is: done and context are the caller's. charge[i].extra is
     * 0: whoever manages leases sets it; ttl_ns is the limit's where it is leased, asked for a
     * lease or not. call.retry_ns is what a limit that is closed then tells its callers. */
    struct wr_remote_call call;
    /* Bits of call.charge[], once the answer is complete: cost units are to be forced at the
     * backend (count_denied, where a refusal was decided without asking it). */
    uint32_t force;
    /* wr_engine_finish, _settle_shared and _release_shared: what is to be done at the backend with
     * call.charge[i]: this many units forced (> 0) or refunded (< 0). After finish: what a lease
     * still held when a new one was granted, besides the bits that it returned. */
    int64_t adjust[WEIR_LIMITS_MAX];

    struct wr_ballot ballot; /* limits in the order of the file; charge[i] of local limits, leases,
                                fall-backs */
    int8_t remote[WEIR_LIMITS_MAX]; /* index in call.charge; -1: not asked */
    uint32_t asked;                 /* bit i: limit i is decided by the store */
    uint32_t leased;                /* bit i: limit i is in leased mode, charge[i] its lease */
    uint32_t held;                  /* bit i: its cost was spent from that lease */
    uint64_t hash[WEIR_LIMITS_MAX]; /* of shared limits: where a fall-back counts the key */
    uint32_t customer;              /* as weir_answer's */
    uint8_t customer_anchor;
    bool is_his_plan;             /* the plan is the customer's own; then */
    struct wr_customer_seen seen; /* him, as he was */
    /* After finish: the request was refused as the customer's quota is used up, and he moves to
     * this plan: begin it once more, with this as request.plan; its answer counts. Whoever does
     * not has refused the last request under the old plan. -1: it is as the answer says. */
    int16_t upgrade_to;
    int64_t cost;
    bool peek; /* call.charge[i].cost is then 0 */
};

/* Returns true when |answer| is complete; false when pending->call is to be asked: |answer| is then
 * WEIR_ASK. */
bool wr_engine_begin(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                     struct weir_answer *answer, struct wr_pending *pending);

/* The same for a reservation: no lease is spent. Its cost is an estimate, and what the true one is
 * more must be charged where all nodes see it. */
bool wr_engine_begin_reserve(struct wr_engine *engine, const struct weir_request *request,
                             int64_t now, struct weir_answer *answer, struct wr_pending *pending);

/* The same for one limit and one key under the default plan (of a quota of customers, one of his
 * keys, and his plan), as wr_engine_check_one; |reserve|: as
 * wr_engine_begin_reserve. */
bool wr_engine_begin_check(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                           int64_t cost, bool reserve, int64_t now, struct weir_answer *answer,
                           struct wr_pending *pending);

/* The same for one limit, under |plan|, and a key of parts; no lease is spent. With a cost of 0 a
 * look at the store. */
bool wr_engine_begin_one(struct wr_engine *engine, const struct wr_selected *key, unsigned plan,
                         int64_t cost, int64_t now, struct weir_answer *answer,
                         struct wr_pending *pending);

/* Is any limit shared, and decided as such? If not, begin is wr_engine_decide. */
bool wr_engine_shares(const struct wr_engine *engine);

/* It will not be asked: what is held goes back to its leases. */
void wr_engine_cancel(struct wr_engine *engine, struct wr_pending *pending, int64_t now);

/* Where |key| lies in a store, for its drop(): limit, name and tag. False: its limit is not shared.
 */
bool wr_engine_store_key(const struct wr_engine *engine, const struct wr_selected *key,
                         struct wr_remote_charge *out);

/* Forget the lease that this host has of |key|. As wr_engine_forget. */
int wr_engine_forget_lease(struct wr_engine *engine, const struct wr_selected *key);

/* Complete |answer|. |nodes|: how many share the store, for limits that fall back to local. Returns
 * the bits of call.charge[] that the caller must refund at the backend (they were taken there, but
 * a local limit refused since): their cost; a granted lease is kept. Limits that say count_denied
 * are not among them: the attempt counts. */
uint32_t wr_engine_finish(struct wr_engine *engine, struct wr_pending *pending,
                          enum wr_remote_result result, unsigned nodes, int64_t now,
                          struct weir_answer *answer);

/* wr_engine_decide for a reservation: where a limit is shared, WEIR_ASK or a refusal. */
void wr_engine_decide_reserve(struct wr_engine *engine, const struct weir_request *request,
                              int64_t now, struct weir_answer *answer);

/* begin, and where the store would have to be asked finish as with the store gone. */
void wr_engine_decide_alone(struct wr_engine *engine, const struct weir_request *request,
                            int64_t now, struct weir_answer *answer);

/* What the hashes of callers in the store are made with: store.secret, or what is in
 * store.secret_file, which whoever opens files reads. Before the first decision. */
void wr_engine_store_secret(struct wr_engine *engine, const void *secret, size_t len);

/* Shared limits are this arena's alone from now on, as if the policy had no store. */
void wr_engine_keep_local(struct wr_engine *engine);

/* ---- leases -------------------------------------------------------------------------------- */

/* Where the lease of the limit behind call.charge[index] is, for wr_engine_lease_*. 0: the limit is
 * not leased. */
uint64_t wr_engine_lease_key(const struct wr_pending *pending, unsigned index);

/* How many units of it are unspent. */
int64_t wr_engine_lease_units(struct wr_engine *engine, uint64_t key, int64_t now);

/* Take all of them out, to be given back to the store. Returns how many; 0 where there is none. For
 * draining: whoever manages leases remembers where they are. */
int64_t wr_engine_lease_return(struct wr_engine *engine, uint64_t key, int64_t now);

/* The same of what ends in (since_ns, end_ns], whether that is over or not: of one grant, and of
 * those that lie with it under the same end, which are of the same window. */
int64_t wr_engine_lease_collect(struct wr_engine *engine, uint64_t key, int64_t since_ns,
                                int64_t end_ns, int64_t now);

/* Where the lease of |key| of |limit|, under the default plan, is; what the arena has of it is
 * being fetched from here on. 0: leases do not decide that limit. */
uint64_t wr_engine_lease_of(struct wr_engine *engine, unsigned limit, struct weir_slice key);

/* wr_engine_begin_check by the lease at |key|, as wr_engine_lease_of has it, without the 6 KiB of a
 * pending: for those who decide many in a row. False: it cannot be decided so, and nothing is taken
 * or charged. |receipt|: of what was taken. */
bool wr_engine_lease_check(struct wr_engine *engine, unsigned limit, uint64_t key, int64_t cost,
                           int64_t now, struct weir_verdict *verdict, struct weir_receipt *receipt);

/* What it took. */
int64_t wr_engine_lease_taken(const struct weir_receipt *receipt);

/* What wr_engine_begin_check would have answered. */
void wr_engine_lease_answer(const struct weir_verdict *verdict, const struct weir_receipt *receipt,
                            int64_t cost, int64_t now, struct weir_answer *answer);

/* ---- afterwards ---------------------------------------------------------------------------- */

/* As wr_engine_settle and wr_engine_release, which do the local part alone; what is to be done at
 * the backend is left in out->call.charge[], call.count and out->adjust[]. Returns as
 * wr_engine_settle.
 */
int wr_engine_settle_shared(struct wr_engine *engine, struct weir_answer *answer, int64_t cost,
                            int64_t now, struct wr_pending *out);
void wr_engine_release_shared(struct wr_engine *engine, struct weir_answer *answer, int64_t now,
                              struct wr_pending *out);

/* Likewise wr_engine_ended. */
void wr_engine_ended_shared(struct wr_engine *engine, struct weir_answer *answer, int status,
                            int64_t now, struct wr_pending *out);

/* ---- for the rest of the engine ------------------------------------------------------------ */

/* Not to be inlined: their frames of 10 KiB would be the frames of decisions that share nothing. */

/* wr_engine_decide of an engine with shared limits. */
void wr_shared_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer) __attribute__((noinline));

/* wr_engine_check_one of a shared limit; |lease|: one may be spent. */
void wr_shared_check(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                     bool lease, int64_t now, struct weir_answer *answer) __attribute__((noinline));

#endif
