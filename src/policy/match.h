/* match.h - all path patterns of a policy as one tree, so that finding those that match a path
 * costs a walk along what matches, not a look at every pattern. */
#ifndef WR_POLICY_MATCH_H
#define WR_POLICY_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "policy/path.h"
#include "policy/region.h"
#include "weir/weir.h"

#define WR_PATTERN_SEGMENTS_MAX 32 /* segments of a pattern */
#define WR_PATTERN_BYTES_MAX 1024  /* of its text */

/* What a pattern is given for. */
enum wr_pattern_use {
    WR_USE_LIMIT,
    WR_USE_COST,
    WR_USE_ROUTE,
    WR_USE_PLAN_DENY,  /* the plan does not have it */
    WR_USE_PLAN_ALLOW, /* the plan has it, and only what it has so */
};

/* One pattern that ends at a node. */
struct wr_pattern_end {
    const struct wr_pattern_end *next; /* of the same node */
    struct wr_pattern_end *older;      /* of the tree: added before */
    const char *pattern;               /* as written */
    uint32_t pattern_len;
    const char
        *shape;     /* one byte a segment and a last one: strcmp orders the more specific first */
    uint32_t rank;  /* over all patterns: 0 is the most specific; known after wr_tree_finish */
    uint32_t index; /* which limit, cost, route or plan */
    enum wr_pattern_use use;
};

struct wr_tree_node {
    uint32_t id;
    uint32_t literals;               /* children by literal segment, in the tree's edges */
    const struct wr_tree_node *one;  /* child for any one segment */
    const struct wr_tree_node *rest; /* child for "**": its own children go backwards from the
                                        path's end */
    const struct wr_pattern_end *ends;
};

struct wr_tree_edge {
    struct weir_slice text;
    const struct wr_tree_node *parent;
    struct wr_tree_node *child; /* NULL: free */
};

/* All zeros is an empty tree. */
struct wr_tree {
    struct wr_tree_node *root;  /* NULL: no patterns */
    struct wr_tree_edge *edges; /* open addressing, at most half full */
    size_t edge_mask;           /* room - 1; 0: no room yet */
    size_t edge_count;
    struct wr_pattern_end *newest;
    uint32_t nodes;
    uint32_t ends;
};

/* Add |pattern| (terminated, to outlive the tree). Returns NULL, or a static text that says what is
 * wrong with it, |*at| being the offset. Out of memory: region->failed. */
const char *wr_tree_add(struct wr_tree *tree, struct wr_region *region, const char *pattern,
                        enum wr_pattern_use use, uint32_t index, size_t *at);

/* Rank all patterns; equally specific ones in the order they were added. False: out of memory. */
bool wr_tree_finish(struct wr_tree *tree);

/* A state of the walk: |node| is reached with the segments before |from| used up, and for nodes
 * under a "**" those from |to| on as well. */
struct wr_walk_step {
    const struct wr_tree_node *node;
    uint32_t from, to;
    bool backward;
};

/* Each step leaves at most two more than it takes on the way down, one on the way back. */
#define WR_WALK_STEPS_MAX (3 * WR_PATTERN_SEGMENTS_MAX + 4)

struct wr_walk {
    const struct wr_tree *tree;
    const struct wr_path *path;
    size_t waiting;
    size_t visited; /* nodes looked at so far, for tests */
    struct wr_walk_step steps[WR_WALK_STEPS_MAX];
};

void wr_walk_start(struct wr_walk *walk, const struct wr_tree *tree, const struct wr_path *path);

/* The next node whose patterns (at least one) match the whole path, in no particular order; each
 * node once. NULL: no more. */
const struct wr_tree_node *wr_walk_next(struct wr_walk *walk);

#endif
