/* engine.h - where policy, algorithms and arena meet: decide, all or none. */
#ifndef WR_ENGINE_ENGINE_H
#define WR_ENGINE_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "policy/policy.h"
#include "store/arena.h"
#include "weir/weir.h"

/* A policy bound to an arena: every limit of every plan has its class there, and every limit the
 * hash state that the keys under it start from. Immutable after it is made. */
struct wr_engine;

/* Borrows both for its life. Returns 0, WEIR_ENOMEM, WEIR_EFULL (too many classes). */
int wr_engine_new(struct wr_engine **out, const struct wr_policy *policy, struct wr_arena *arena);
void wr_engine_free(struct wr_engine *engine);

/* Open the files of customers and of what they use, if the policy has the section `customers`: to
 * be asked before the first decision. Without it, or where their folder cannot be made (a warning
 * in |diag|), nobody is known. |diag| is then about them. Returns 0, or as wr_customers_open: a
 * file that does not fit is refused. */
int wr_engine_open_customers(struct wr_engine *engine, struct wr_diag *diag);

/* Instead, for trying a policy out without a database: each value that can lead to a customer is
 * one of its own, as soon as it comes, with the plan that the request has by itself until a quota
 * upgrades it, at once. At most WR_SUPPOSED_MAX of them, or as many as the policy has room for;
 * further ones are unknown. One thread at a time. The files are in $TMPDIR, and have no name. As
 * wr_engine_open_customers otherwise. */
#define WR_SUPPOSED_MAX (1U << 18)
int wr_engine_suppose_customers(struct wr_engine *engine, struct wr_diag *diag);

/* Has somebody come for whom there was no room? */
bool wr_engine_supposed_full(const struct wr_engine *engine);

/* The upgrade that the last decision made; false: it made none. */
struct wr_supposed_upgrade {
    bool made;
    uint8_t from, to; /* plans */
};
bool wr_engine_supposed_upgrade(const struct wr_engine *engine, struct wr_supposed_upgrade *out);

/* What the request of |answer| took of the quota that is its limit |i|, and how much of it was
 * beyond what the plan includes; to be asked before anybody else takes of it. False: nothing was
 * counted there. */
struct wr_quota_taken {
    int64_t units;
    int64_t overage_units; /* of them, beyond the limit and metered */
    int64_t grace_units;   /* of them, beyond the limit and forgiven */
};
bool wr_engine_quota_taken(const struct wr_engine *engine, const struct weir_answer *answer,
                           unsigned i, struct wr_quota_taken *out);

/* The judge that an arena to be used by an engine is opened with. */
bool wr_engine_judge(const unsigned char params[WR_CLASS_PARAMS], uint64_t value, int64_t now_ns,
                     struct wr_worth *out);

/* As weir_check, weir_decide and so on. Arguments are checked by the caller. */
void wr_engine_check(struct wr_engine *engine, unsigned limit, struct weir_slice key, int64_t cost,
                     int64_t now, struct weir_verdict *out);
void wr_engine_check_batch(struct wr_engine *engine, const struct weir_charge *charges, size_t n,
                           int64_t now, struct weir_verdict *out);
void wr_engine_decide(struct wr_engine *engine, const struct weir_request *request, int64_t now,
                      struct weir_answer *answer);
void wr_engine_decide_batch(struct wr_engine *engine, const struct weir_request *requests, size_t n,
                            int64_t now, struct weir_answer *answers);
/* wr_engine_check with what wr_engine_settle and wr_engine_release need: an answer over one limit.
 * It is a reservation once the caller has set expires_ns. Of a shared limit WEIR_ASK or a refusal:
 * see wr_engine_begin_check. */
void wr_engine_check_one(struct wr_engine *engine, unsigned limit, struct weir_slice key,
                         int64_t cost, int64_t now, struct weir_answer *answer);
/* Forget what |key| has used of |limit|. Returns 0, WEIR_ENOENT, WEIR_EBUSY (its list is held by a
 * stopped process). */
int wr_engine_reset(struct wr_engine *engine, unsigned limit, struct weir_slice key);
/* The answer to |answer|'s request had |status|, 100..599: what quotas took that do not count such
 * is given back. */
void wr_engine_ended(struct wr_engine *engine, struct weir_answer *answer, int status, int64_t now);
/* Would it ever give anything back? */
bool wr_engine_awaits_status(const struct wr_engine *engine, const struct weir_answer *answer);
int wr_engine_settle(struct wr_engine *engine, struct weir_answer *answer, int64_t cost,
                     int64_t now);
void wr_engine_release(struct wr_engine *engine, struct weir_answer *answer, int64_t now);
bool wr_engine_holds(const struct wr_engine *engine, const struct weir_answer *answer);
void wr_engine_times(const struct wr_engine *engine, const struct weir_verdict *verdict,
                     int64_t now, int64_t *next_ns, int64_t *reset_ns);

#endif
