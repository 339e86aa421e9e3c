/* envoy_tree.h - the compiled form of envoyproxy/ratelimit's configuration: written by the reader,
 * walked by find. Internal to src/policy.
 *
 *   domain ──► node ──(key)──► key ──(value)──► node ──(key)──► ..
 *               │               ├─ patterns, in the order of the file ─► node
 *               │               └─ bare: any value ─► node
 *               └─ patterns with a * in the key, of key_value ─► node
 *
 * Keys and values are found in one table, by tags made of the number of the node or key they belong
 * to. A pair is never joined into one text, so a + b_c and a_b + c stay two: except for patterns
 * with a * in the key, which have no meaning but the reference's, on key, _ and value in one. The
 * numbers of nodes rise in the order of the file, so that of two patterns the first is known. */
#ifndef WR_POLICY_ENVOY_TREE_H
#define WR_POLICY_ENVOY_TREE_H

#include "policy/envoy.h"
#include "policy/region.h"
#include "policy/table.h"

struct wr_envoy_pattern {
    const char *text;
    uint32_t node;
    struct wr_envoy_pattern *next;
};

struct wr_envoy_patterns {
    struct wr_envoy_pattern *first, *last;
};

/* One descriptor of a file; or a domain. */
struct wr_envoy_node {
    const struct wr_envoy_rule *rule; /* NULL: none */
    const char *shared;               /* share_threshold: its pattern; or NULL */
    bool has_children;
    struct wr_envoy_patterns joint; /* of key_value: those of children with a * in the key */
};

/* All descriptors of one key beneath one node. */
struct wr_envoy_key {
    uint32_t bare;   /* node; 0: none (node 0 is nobody's child) */
    bool has_values; /* exact ones, in the table */
    struct wr_envoy_patterns patterns;
};

struct wr_envoy {
    struct wr_envoy_options options;
    struct wr_table table;
    struct wr_envoy_node *nodes;
    struct wr_envoy_key *keys;
    const struct wr_envoy_rule **rules;
    uint32_t node_count, key_count, rule_count;
    uint32_t node_room, key_room, rule_room;
};

#define WR_ENVOY_TAG_DOMAIN 0U                             /* name -> node */
#define WR_ENVOY_TAG_KEY(node) (((node) + 1U) << 1)        /* key -> key */
#define WR_ENVOY_TAG_VALUE(key) ((((key) + 1U) << 1) | 1U) /* value -> node */

#endif
