/* envoy.h - deciding by the configuration of envoyproxy/ratelimit, in the same arena.
 *
 * Each descriptor meets at most one limit, a fixed window of its own key. By default a refused
 * question consumes nothing, as everywhere in weir; with count_over_limit every counter rises by
 * its hits whatever comes of it, as in the reference. */
#ifndef WR_ENGINE_ENVOY_H
#define WR_ENGINE_ENVOY_H

#include "base/descriptor.h"
#include "engine/engine.h"
#include "policy/envoy.h"

/* What is counted for each rule, in hits. */
enum wr_envoy_stat {
    WR_ENVOY_TOTAL,
    WR_ENVOY_WITHIN,
    WR_ENVOY_NEAR,
    WR_ENVOY_OVER,
    WR_ENVOY_SHADOW,   /* over, but let through */
    WR_ENVOY_RETURNED, /* negative hits */
    WR_ENVOY_STATS
};

/* Does the configuration speak of |domain|? Otherwise the question is about the policy's limits. */
bool wr_engine_knows_domain(const struct wr_engine *engine, struct weir_slice domain);

/* Answer |request|, whose domain is known, at |now|. |lane| is the number of the asking loop: each
 * counts apart.
 *
 * Owns:    names in |out| live as long as the policy.
 * Bounds:  as many charges as descriptors; no allocation.
 * Returns: 0; WEIR_ENOENT (the domain is not known), WEIR_EFULL (too many different limits came
 * with questions). */
int wr_engine_rate(struct wr_engine *engine, const struct wr_rate_request *request, unsigned lane,
                   int64_t now, struct wr_rate_response *out);

/* Why a descriptor is answered as it is. */
enum wr_rate_why {
    WR_RATE_MEETS,      /* |rule| */
    WR_RATE_MEETS_NONE, /* of the files' */
    WR_RATE_REPLACED,   /* |rule| would be met; another descriptor's takes its place */
    WR_RATE_OVERRIDDEN  /* the question brings a limit of its own */
};

struct wr_rate_reason {
    enum wr_rate_why why;
    const struct wr_envoy_rule *rule; /* NULL: none. Of the policy. */
    uint64_t hits, used;              /* asked for now; counted in the window before */
    bool counted;                     /* against a limit that is not unlimited */
    bool over;                        /* in shadow too */
};

/* As wr_engine_rate would answer, but nothing is taken nor counted; and why, for each descriptor.
 */
int wr_engine_rate_explain(struct wr_engine *engine, const struct wr_rate_request *request,
                           int64_t now, struct wr_rate_response *answer,
                           struct wr_rate_reason reasons[WR_DESCRIPTORS_MAX]);

/* Forget what is counted under the descriptors. |*found|: how many had a counter. Returns as
 * wr_engine_rate, or WEIR_EBUSY. */
int wr_engine_rate_forget(struct wr_engine *engine, const struct wr_rate_request *request,
                          size_t *found);

/* The sum over all lanes. */
uint64_t wr_engine_envoy_stat(const struct wr_engine *engine, size_t rule, enum wr_envoy_stat stat);

#endif
