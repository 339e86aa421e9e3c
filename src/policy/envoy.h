/* envoy.h - the configuration of envoyproxy/ratelimit, read unchanged, and which of its limits a
 * descriptor meets. Where weir decides otherwise than the reference, and why: docs/envoy.md. */
#ifndef WR_POLICY_ENVOY_H
#define WR_POLICY_ENVOY_H

#include "algo/limit.h"
#include "base/descriptor.h"
#include "policy/policy.h"

#define WR_ENVOY_FILES_MAX 256
#define WR_ENVOY_RULES_MAX 65535

/* What the policy says of deciding by these files. */
struct wr_envoy_options {
    bool count_over_limit; /* counters rise though the request is refused, as in the reference */
    bool epoch_windows;    /* months of 30 days, weeks from Thursday, as in the reference */
    bool merge_domains;    /* a domain may be in several files */
    bool shadow_mode;      /* count and say, but refuse nothing */
    bool headers;          /* answers carry RateLimit fields and a body for the caller */
};

/* One rate_limit of a file. */
struct wr_envoy_rule {
    const char *path; /* where it stands, "shop.plan_free.path": for statistics and messages */
    const char *name; /* "": none */
    const char *const *replaces;
    size_t replaces_count;
    struct wr_limit limit; /* zeros where unlimited */
    uint32_t index;        /* of the rule, from 0 */
    uint32_t units;
    uint8_t unit; /* enum wr_unit */
    bool unlimited, shadow, quota;
};

/* What a descriptor meets. */
struct wr_envoy_match {
    const struct wr_envoy_rule *rule; /* NULL: none */
    /* For each entry: the pattern that stands in for its value where one counter is for all values
     * (share_threshold); NULL: its own value. */
    const char *shared[WR_ENTRIES_MAX];
};

struct wr_envoy;

/* NULL: the policy has no such files. */
const struct wr_envoy *wr_policy_envoy(const struct wr_policy *policy);

const struct wr_envoy_options *wr_envoy_options(const struct wr_envoy *envoy);
size_t wr_envoy_rule_count(const struct wr_envoy *envoy);
const struct wr_envoy_rule *wr_envoy_rule(const struct wr_envoy *envoy, size_t index);

/* The number of a domain; -1: no file is about it. */
int wr_envoy_domain(const struct wr_envoy *envoy, struct weir_slice name);

/* Which rule of |domain| does |descriptor| meet? Level by level: the exact value, else the first
 * pattern in the order of the file, else the key alone; no way back. Pure; no allocation. */
void wr_envoy_find(const struct wr_envoy *envoy, int domain, const struct wr_descriptor *descriptor,
                   struct wr_envoy_match *out);

/* The limit of |units| per |unit|. Returns NULL, or a static text that says what is wrong. */
const char *wr_envoy_limit(const struct wr_envoy_options *options, uint32_t units,
                           enum wr_unit unit, struct wr_limit *out);

/* Does |text| fit |pattern|, in which each * is any number of characters? */
bool wr_envoy_glob(const char *pattern, struct weir_slice text);

#endif
