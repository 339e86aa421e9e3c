/* leases.h - who asks for leases: one question a key at a time, and where they are, so that they
 * can be given back. One of a loop. */
#ifndef WR_SERVE_LEASES_H
#define WR_SERVE_LEASES_H

#include "remote/lease_book.h"
#include "serve/broker.h"

#define WR_FLIGHTS_MAX 1024U /* keys whose lease is being asked for */

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

/* Are leases that |question| is granted kept? Under another policy than the loop's, or as the
 * process ends, they are to be given back as they come. */
bool wr_leases_keep(const struct wr_question *question);

/* |question| has come back: remember what was granted, and let those that wait for it go on. |to|:
 * where the leases go whose places it takes. */
void wr_leases_landed(struct wr_leases *leases, struct wr_question *question, bool gone,
                      const struct wr_lease_giving *to);

/* |question| waits no more: whoever asked has gone. */
void wr_leases_leave(struct wr_question *question);

/* When wr_leases_due is to be called next; 0: not yet. */
int64_t wr_leases_due_ns(const struct wr_leases *leases);

/* Give back what is left of leases that end. */
void wr_leases_due(struct wr_leases *leases, const struct wr_lease_giving *to);

/* Give back what is left of all: the policy, the store or the process goes. */
void wr_leases_return(struct wr_leases *leases, const struct wr_lease_giving *to);

#endif
