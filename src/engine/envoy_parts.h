/* envoy_parts.h - a question on its way, between the files that decide it (envoy.c), explain it
 * (envoy_explain.c) and count it (envoy_stats.c). Internal to src/engine. */
#ifndef WR_ENGINE_ENVOY_PARTS_H
#define WR_ENGINE_ENVOY_PARTS_H

#include "engine/charge.h"
#include "engine/envoy.h"

/* One descriptor. */
struct wr_envoy_item {
    const struct wr_descriptor *asked;
    const struct wr_envoy_rule *rule;     /* NULL: none applies */
    const struct wr_envoy_rule *counts;   /* whose statistics this is in; NULL: nobody's */
    const struct wr_envoy_rule *replaced; /* the rule that another one's takes the place of */
    const char *name;
    struct wr_limit override;
    struct wr_charge charge;
    struct weir_receipt receipt;
    uint64_t hits;
    uint64_t before; /* counted in the window before this question */
    uint32_t units;
    uint8_t unit;
    bool counted; /* meets a limit that counts */
    bool shadow, quota;
    bool over;
};

struct wr_envoy_question {
    struct wr_engine *engine;
    const struct wr_envoy *envoy;
    const struct wr_rate_request *request;
    int64_t now;
    struct wr_envoy_item items[WR_DESCRIPTORS_MAX];
};

/* Which limit each descriptor meets. Returns as wr_engine_rate. */
int wr_envoy_match(struct wr_envoy_question *q, struct wr_engine *engine,
                   const struct wr_rate_request *request, int64_t now);

/* What taking would do; nothing is written. */
void wr_envoy_evaluate(struct wr_envoy_question *q);

/* Does the whole refuse? */
bool wr_envoy_is_over(const struct wr_envoy_question *q);

/* The answer to the question, which |passed| and was charged, or not. */
void wr_envoy_describe(const struct wr_envoy_question *q, bool passed,
                       struct wr_rate_response *out);

/* Into the statistics of item->counts. */
void wr_envoy_count(struct wr_engine *engine, unsigned lane, const struct wr_envoy_item *item);

#endif
