/* leases.h - who asks for leases: one question a key at a time, and where they are, so that they
 * can be given back. One of a loop. */
#ifndef WR_SERVE_LEASES_H
#define WR_SERVE_LEASES_H

#include "remote/lease_size.h"
#include "serve/broker.h"

#define WR_FLIGHTS_MAX 1024U /* keys whose lease is being asked for */
#define WR_LEASES_MAX 2048U  /* leases that are remembered, to be given back */

/* A lease that is being asked for. */
struct wr_flight {
    struct wr_flight *next;       /* of its chain, or spare */
    struct wr_flight *next_owned; /* by the question that asks */
    uint64_t key;                 /* wr_engine_lease_key */
    struct wr_question *waiting;
};

struct wr_leases;

struct wr_leases *wr_leases_new(void); /* NULL: out of memory */
void wr_leases_free(struct wr_leases *leases);

/* Before |question| is asked: how much more it is to ask for. False: another question asks for a
 * lease that it needs, and it waits for that; its pending has let go of all it held. */
bool wr_leases_prepare(struct wr_leases *leases, struct wr_question *question, unsigned nodes);

/* |question| has come back: remember what was granted, and let those that wait for it go on. */
void wr_leases_landed(struct wr_leases *leases, struct wr_question *question, bool gone);

/* |question| waits no more: whoever asked has gone. */
void wr_leases_leave(struct wr_question *question);

/* Give each lease to |give|, with the units that are left of it; they are no longer in the arena.
 */
void wr_leases_return(struct wr_leases *leases, struct wr_engine *engine, int64_t now,
                      void (*give)(void *context, const struct wr_remote_charge *charge,
                                   int64_t units),
                      void *context);

/* Another policy, or another store: what is remembered means nothing there. */
void wr_leases_forget(struct wr_leases *leases);

#endif
