/* metrics.h - what a loop counts. Each loop writes its own with plain relaxed stores and the admin
 * door adds them up: no lock, no shared cache line on the path of a decision. */
#ifndef WR_SERVE_METRICS_H
#define WR_SERVE_METRICS_H

#include <stdint.h>

#include "engine/backend.h"
#include "policy/policy.h"
#include "weir/weir.h"

enum wr_door_id {
    WR_DOOR_HTTP,
    WR_DOOR_GRPC,
    WR_DOOR_RESP,
    WR_DOOR_AGENT,
    WR_DOOR_ADMIN,
    WR_DOORS
};

/* By limit. */
enum wr_limit_counter {
    WR_LIMIT_ALLOWED,
    WR_LIMIT_DENIED,
    WR_LIMIT_DELAYED,
    WR_LIMIT_SHADOW_DENIED,
    WR_LIMIT_OUTCOMES,
    /* Decided without the store that it is shared in, by when_store_gone: */
    WR_LIMIT_GONE_OPEN = WR_LIMIT_OUTCOMES,
    WR_LIMIT_GONE_CLOSED,
    WR_LIMIT_GONE_LOCAL,
    WR_LIMIT_COUNTERS
};

/* Upper bounds of the latency buckets, in ns: 10 us .. 1 s; the last is +Inf. */
#define WR_LATENCY_BUCKETS 12

struct wr_door_metrics {
    uint64_t requests;
    uint64_t bad_requests; /* refused as input: 4xx but 429, protocol errors */
    uint64_t connections_opened, connections_closed;
    uint64_t deadline_closed; /* closed because the other side was too slow */
    uint64_t latency[WR_LATENCY_BUCKETS + 1];
    uint64_t latency_sum_ns;
};

/* The store of shared limits, as a loop sees it. */
struct wr_store_metrics {
    uint64_t configured, up, nodes;           /* as they are now */
    uint64_t calls, commands;                 /* decisions asked for, and what that took */
    uint64_t gone[WR_TROUBLES];               /* not answered, by why */
    uint64_t latency[WR_LATENCY_BUCKETS + 1]; /* of those that were, as of doors */
    uint64_t latency_sum_ns;
    uint64_t lease_granted, lease_spent, lease_returned; /* units */
};

struct wr_metrics {
    struct wr_door_metrics door[WR_DOORS];
    uint64_t outcome[4]; /* by enum weir_outcome, of whole requests */
    struct wr_store_metrics store;
    uint64_t refused_unlogged; /* refusals above what the log may have */
    uint64_t limit[WR_POLICY_LIMITS_MAX][WR_LIMIT_COUNTERS]; /* by index in the policy in force */
};

/* Count an answer (by refused.h's wr_refused_answer): once by its outcome, once for each limit in
 * it. */
void wr_metrics_answer(struct wr_metrics *metrics, const struct weir_answer *answer);

/* Count a request that no limit of the policy decided. */
void wr_metrics_outcome(struct wr_metrics *metrics, enum weir_outcome outcome);

/* Count a request of |door| that was refused as input. */
void wr_metrics_bad_request(struct wr_metrics *metrics, enum wr_door_id door);

/* The upper bound of latency[|bucket|] in ns; -1: of the last, none. */
int64_t wr_metrics_latency_bound(unsigned bucket);

/* Count a request of |door| that took |elapsed_ns|. */
void wr_metrics_request(struct wr_metrics *metrics, enum wr_door_id door, int64_t elapsed_ns);

/* Count an answer of the store that took |elapsed_ns|. */
void wr_metrics_store(struct wr_store_metrics *metrics, int64_t elapsed_ns);

#endif
