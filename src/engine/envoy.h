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

/* The sum over all lanes. */
uint64_t wr_engine_envoy_stat(const struct wr_engine *engine, size_t rule, enum wr_envoy_stat stat);

#endif
