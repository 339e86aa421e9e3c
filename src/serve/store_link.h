/* store_link.h - an open backend of a loop: the policy it was opened by, who still points to it,
 * and how it stands. */
#ifndef WR_SERVE_STORE_LINK_H
#define WR_SERVE_STORE_LINK_H

#include "engine/backend.h"
#include "serve/serve.h"

struct wr_store_link {
    struct wr_store_link *next; /* for whoever keeps several */
    /* the rest is private */
    const struct wr_backend_ops *ops;
    void *backend;
    struct wr_loop *loop;
    struct wr_handle *handle; /* a reference: its store was opened */
    unsigned users;           /* questions that point here */
    bool retired, closed, drained;
    bool up;       /* as published last */
    bool lost;     /* the server has been told so */
    unsigned well; /* lost: looks in a row that found it reachable, and not lost in between; */
    uint64_t well_ns, losses; /* since when; as of the last look */
    unsigned looks;           /* without an answer of it yet */
    unsigned nodes;
    uint64_t commands; /* counted so far */
};

/* Open the store of |handle|'s policy. NULL: it cannot be, and the log says why. */
struct wr_store_link *wr_store_link_open(struct wr_loop *loop, struct wr_handle *handle);

/* Is it what |handle|'s policy asks for? */
bool wr_store_link_fits(const struct wr_store_link *link, const struct wr_handle *handle);
/* It is: let the old policy go. */
void wr_store_link_follow(struct wr_store_link *link, struct wr_handle *handle);

void wr_store_link_join(struct wr_store_link *link);
/* True: it is retired, and nobody points to it any more. */
bool wr_store_link_leave(struct wr_store_link *link);
bool wr_store_link_used(const struct wr_store_link *link);

/* The process ends: what a ring counts here goes to the others; decisions go on meanwhile. */
void wr_store_link_drain(struct wr_store_link *link);
bool wr_store_link_drained(const struct wr_store_link *link);

/* Nothing new is asked here: how it stands is of no interest any more. */
void wr_store_link_retire(struct wr_store_link *link);
/* What is under way ends; freed when nobody points to it. */
void wr_store_link_close(struct wr_store_link *link);

void wr_store_link_take(struct wr_store_link *link, struct wr_remote_call *call);
/* Nothing where it is closed. */
void wr_store_link_refund(struct wr_store_link *link, const struct wr_remote_charge *charge,
                          int64_t units, int64_t now_ns);
void wr_store_link_force(struct wr_store_link *link, const struct wr_remote_charge *charge,
                         int64_t units, int64_t now_ns);
void wr_store_link_drop(struct wr_store_link *link, const struct wr_remote_charge *charge);

/* The other nodes of a ring; 0: it is none. */
size_t wr_store_link_peers(const struct wr_store_link *link,
                           struct wr_backend_peer out[WR_BACKEND_PEERS_MAX]);

/* How many share the store, as last known. */
unsigned wr_store_link_nodes(const struct wr_store_link *link);

/* A call of it ended with |result|. */
void wr_store_link_heard(struct wr_store_link *link, enum wr_remote_result result);
/* See how it stands: publish that, and tell the server of a change. */
void wr_store_link_look(struct wr_store_link *link);

/* Do two policies mean the same store? (How keys are hashed is not the store's affair.) */
bool wr_store_same_address(const struct wr_policy_address *a, const struct wr_policy_address *b);
bool wr_store_same(const struct wr_policy_store *a, const struct wr_policy_store *b);

#endif
