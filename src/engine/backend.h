/* backend.h - where the state of shared limits lies, when it is not in this host's arena: the
 * vtable that Redis, Memcached and the ring implement (src/remote), and that the engine never calls
 * itself.
 *
 * The engine says what is to be taken (shared.h), whoever owns an event loop hands that to a
 * backend, and the engine makes an answer of what comes back. So the engine stays free of I/O, and
 * a simulation can put any network between the two.
 *
 * A backend belongs to one event loop: every function is called in that loop's thread, and calls
 * back in it. */
#ifndef WR_ENGINE_BACKEND_H
#define WR_ENGINE_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "algo/limit.h"
#include "weir/weir.h"

struct wr_engine;

/* Who is counted, as every node of a fleet names him: the first 128 bits of a cryptographic hash
 * over the parts of the partition key (not the limit's name: the limits of one caller that count by
 * the same parts lie together). Keys and addresses reach no store in clear. */
#define WR_TAG_BYTES 16

/* One limit's part in a decision at a store. */
struct wr_remote_charge {
    /* Asked: */
    const struct wr_limit *limit;    /* under the request's plan; borrowed until done */
    const char *name;                /* of the limit, part of its key; borrowed until done */
    unsigned char tag[WR_TAG_BYTES]; /* of whose units */
    int64_t cost;                    /* units that must be had; 0 looks */
    int64_t extra;  /* units wanted besides as a lease, as many as may be; 0: none */
    int64_t ttl_ns; /* of that lease: what is not spent by then is void */
    uint64_t place; /* concurrency: a random name of the place, to release it by */

    /* Answered. Durations are by the store's clock, from the moment it decided. */
    bool allowed;      /* this limit would let it pass */
    bool never;        /* refused, and no waiting helps */
    int64_t granted;   /* units of the lease, 0..extra; already taken from remaining */
    int64_t lease_ns;  /* how long the lease may be spent from the moment of asking: ttl_ns, or to
                          the end of its window where that is sooner */
    int64_t remaining; /* units, after this, 0..capacity */
    int64_t retry_after_ns;    /* refused: > 0, or 0 with never */
    int64_t delay_ns;          /* leaky bucket, allowed */
    int64_t next_ns, reset_ns; /* as weir_verdict_times */
    uint64_t receipt[2];       /* the backend's: what giving back needs; opaque */
};

/* How a call ended. */
enum wr_remote_result {
    WR_REMOTE_DONE, /* decided: every charge that said allowed was taken, or, if one refused, none
                     */
    WR_REMOTE_GONE, /* no answer within the deadline, or none to be had: see wr_remote_trouble */
};

/* What kept a store from answering; for metrics, the log and /readyz. */
enum wr_remote_trouble {
    WR_TROUBLE_NONE,
    WR_TROUBLE_CONNECT,  /* refused, reset, not to be resolved */
    WR_TROUBLE_TIMEOUT,  /* no answer within the deadline */
    WR_TROUBLE_BREAKER,  /* not asked: it failed before, and is probed */
    WR_TROUBLE_BUSY,     /* it answered that it cannot now: LOADING, BUSY, OOM, CLUSTERDOWN */
    WR_TROUBLE_DENIED,   /* it refuses us: NOAUTH, NOPERM, WRONGPASS */
    WR_TROUBLE_PROTOCOL, /* an answer that makes no sense */
    WR_TROUBLES
};

/* One decision at a store. The caller's memory, not to be touched or moved until done. */
struct wr_remote_call {
    struct wr_remote_charge charge[WEIR_LIMITS_MAX];
    unsigned count;
    /* charge[i] for which bit i is set decide nothing (shadow mode): they are taken when the others
     * let the request pass and they would themselves. */
    uint32_t shadow;
    int64_t now_ns; /* arena's clock, when it is asked */
    void (*done)(struct wr_remote_call *call, enum wr_remote_result result);
    void *context;                  /* the caller's */
    enum wr_remote_trouble trouble; /* with WR_REMOTE_GONE, */
    int64_t retry_ns;               /* and how long until the store is tried again; 0: not known */
    /* The backend's while the call is under way: */
    void *link[2];
    uint64_t priv[2];
};

/* How a backend stands, for /readyz, metrics and the log. */
struct wr_backend_state {
    bool reachable;   /* the last it heard was an answer */
    unsigned nodes;   /* of weir that share the store, this one too; the last known; at least 1 */
    uint64_t losses;  /* how often it was reachable and then was not, where that is counted */
    char detail[160]; /* why not reachable; "": it is */
    uint64_t calls, commands, gone[WR_TROUBLES]; /* counters, from zero */
};

/* Something that happened among the nodes; for the log. */
struct wr_backend_news {
    char node[128]; /* whom it is about */
    char what[128];
    bool grave; /* somebody should look at it */
};

#define WR_BACKEND_PEERS_MAX 64

/* What another node has been asked and given by this one; for metrics. */
struct wr_backend_peer {
    char name[128];
    bool up;
    uint64_t forwarded, answered, late; /* commands for its keys; answers in time, and after it */
    uint64_t handed_over;               /* keys */
};

struct wr_backend_ops {
    const char *name; /* redis, sentinel, cluster, memcached, ring */
    /* Decide |call|, all or none. call->done is called exactly once: within the store's deadline,
     * never from within take itself unless the call is refused at once (WR_REMOTE_GONE, nothing was
     * asked: TROUBLE_BREAKER, or TROUBLE_BUSY with too many calls under way).
     */
    void (*take)(void *backend, struct wr_remote_call *call);
    /* Without an answer; may be lost with the store, never doubled. |charge| is copied. */
    void (*refund)(void *backend, const struct wr_remote_charge *charge, int64_t units,
                   int64_t now_ns);
    void (*force)(void *backend, const struct wr_remote_charge *charge, int64_t units,
                  int64_t now_ns);
    void (*drop)(void *backend, const struct wr_remote_charge *charge); /* forget the key: reset */
    void (*state)(const void *backend, struct wr_backend_state *out);
    /* What is under way ends as WR_REMOTE_GONE. Frees the backend, at the latest in later turns of
     * its loop. */
    void (*close)(void *backend);
    /* The ring, whose nodes are the store; NULL elsewhere. In whose arena the keys that this node
     * owns lie: to be said before the first take, and again before that engine is freed. */
    void (*own)(void *backend, const struct wr_engine *engine);
    /* Of Redis: be counted no longer among the nodes. Of the ring: hand what this node owns to the
     * others. |left| is called once, when that is done or there is
     * nobody to hand it to, at the latest by close. Decisions go on meanwhile. */
    void (*leave)(void *backend, void (*left)(void *context), void *context);
    /* The next of them; false: there is none. In one of the process's loops each. */
    bool (*news)(void *backend, struct wr_backend_news *out);
    /* The other nodes, as all loops of the process have to do with them; of the ring. Returns how
     * many. */
    size_t (*peers)(const void *backend, struct wr_backend_peer out[WR_BACKEND_PEERS_MAX]);
};

#endif
