/* bound_envoy.h - envoyproxy/ratelimit's rules bound to an arena: the part of bound.h for them. */
#ifndef WR_ENGINE_BOUND_ENVOY_H
#define WR_ENGINE_BOUND_ENVOY_H

#include <string.h>

#include "engine/bound.h"

#define WR_ENVOY_LANES 8 /* counters apart for as many loops, so that they share no cache line */

/* Limits that come with questions: each needs a class in the arena, of which there are few. So many
 * different ones are given classes, and no more: what asks for them is Envoy's configuration, not
 * its callers. */
#define WR_OVERRIDES_MAX 256

struct wr_override {
    uint64_t key;      /* unit and units, never 0; 0: free */
    uint16_t class_id; /* 0: not known yet */
};

int wr_envoy_bind(struct wr_engine *engine);
void wr_envoy_unbind(struct wr_engine *engine);

/* The class of |limit|, which is |units| per |unit|. Any thread. Returns 0 or WEIR_EFULL. */
int wr_overrides_class(struct wr_engine *engine, uint32_t units, uint8_t unit,
                       const struct wr_limit *limit, uint16_t *class_id);

#endif
