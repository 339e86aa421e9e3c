/* broker.h - a loop's way to the store of shared limits: its backend, what is being asked of it,
 * and what is to be undone there.
 *
 * Doors do not come here to decide: they have asks (asks.h), which do. */
#ifndef WR_SERVE_BROKER_H
#define WR_SERVE_BROKER_H

#include "engine/shared.h"
#include "serve/asks.h"
#include "serve/serve.h"

/* Being asked or remembered, of a loop: 10 KiB each. As many as a backend takes at once. */
#define WR_QUESTIONS_MAX 4096U

struct wr_broker;
struct wr_store_link; /* an open backend */
struct wr_flight;     /* leases.h */

enum wr_question_state {
    WR_QUESTION_ASKING, /* the store has it */
    WR_QUESTION_WAITS,  /* for a lease that another question asks for */
    WR_QUESTION_AGAIN,  /* that has come, or its customer moves to another plan: to be begun anew */
    WR_QUESTION_ALONE,  /* that will not come, the store is gone: to be begun and ended without */
    WR_QUESTION_DONE    /* |answer| is complete */
};

/* One decision between being asked for and being answered. */
struct wr_question {
    struct wr_question *next; /* of its asks; or spare */
    struct wr_asks *asks;     /* NULL: whoever asked has gone */
    struct wr_broker *broker;
    struct wr_loop *loop;
    struct wr_handle *handle; /* a reference: decided under it */
    struct wr_store_link *link;
    struct wr_flight *flight;         /* those that it asks for; WAITS: the one it waits for */
    struct wr_question *next_waiting; /* for the same flight */
    uint64_t since_ns;                /* uv_hrtime, when it was begun first */
    uint64_t asked_ns;                /* uv_hrtime, when the store was asked */
    enum wr_question_state state;
    enum wr_remote_trouble lost_by; /* ALONE: why the store did not answer whom it waited for */
    bool taking;                    /* ops->take has not returned */
    bool heard;                     /* the store has answered it */
    struct weir_answer answer;
    struct wr_pending pending;
};

/* ---- of a loop --------------------------------------------------------------------------------
 */

/* NULL: out of memory. In the loop's thread or before it runs; |loop| has its first policy. */
struct wr_broker *wr_broker_new(struct wr_loop *loop);

/* The loop's policy has changed, or is its first: open its store, or keep the one that is open. */
void wr_broker_follow(struct wr_broker *broker);

/* Questions that the store still has, though whoever asked has gone. */
unsigned wr_broker_abandoned(const struct wr_broker *broker);

/* The other nodes of its store's ring, as the process has to do with them. Returns how many. */
size_t wr_broker_peers(const struct wr_broker *broker,
                       struct wr_backend_peer out[WR_BACKEND_PEERS_MAX]);

/* No more leases; those that there are go back. */
void wr_broker_drain(struct wr_broker *broker);
/* Is something on its way that the end should wait for? */
bool wr_broker_busy(struct wr_broker *broker);

/* Doors are closed: end everything. Memory goes with wr_broker_free, when the loop has run out. */
void wr_broker_close(struct wr_broker *broker);
void wr_broker_free(struct wr_broker *broker);

/* Hand |call| to the store as it is; call->done is called in this loop, as ops->take says. False:
 * the policy has no store, or it cannot be opened. */
bool wr_broker_take(struct wr_broker *broker, struct wr_remote_call *call);

/* ---- afterwards -------------------------------------------------------------------------------
 */

/* Do at the store what wr_engine_settle_shared or _release_shared, under |handle|, left to be done
 * there. What was taken from a store that the policy has since left stays as it is. */
void wr_broker_adjust(struct wr_loop *loop, const struct wr_handle *handle,
                      const struct wr_pending *pending);

/* Give all back that |answer|, decided under |handle|, took anywhere. */
void wr_broker_give_back(struct wr_loop *loop, struct wr_handle *handle,
                         struct weir_answer *answer);

/* Forget what |key| has used of its limit, here and at the store. As wr_engine_forget, and 0 of a
 * shared limit: nobody waits for what the store had. */
int wr_broker_forget(struct wr_loop *loop, const struct wr_selected *key);

/* ---- for asks.c -------------------------------------------------------------------------------
 */

/* A question of |asks|; NULL: too many, or no memory. */
struct wr_question *wr_question_new(struct wr_asks *asks);
/* Not while the store has it. */
void wr_question_free(struct wr_question *question);
/* Begun, and not complete: have its pending asked. Afterwards it is DONE (the store could not be
 * asked), ASKING or WAITS. */
void wr_question_ask(struct wr_question *question);
/* Complete it without the store. */
void wr_question_finish_alone(struct wr_question *question, enum wr_remote_trouble trouble);
/* The lease that it waited for has come, or, if |gone|, never will: |trouble|. */
void wr_question_landed(struct wr_question *question, bool gone, const struct wr_remote_call *of);
/* |answer|, of its pending, is complete: count leases that were spent, charge what is owed. */
void wr_question_decided(struct wr_question *question, const struct weir_answer *answer);
/* Whoever asked has gone. */
void wr_question_abandon(struct wr_question *question);
/* |asks| is to go on, in this turn; no longer. */
void wr_broker_ready(struct wr_broker *broker, struct wr_asks *asks);
void wr_broker_unready(struct wr_broker *broker, struct wr_asks *asks);

#endif
