/* totals.h - what all loops have counted, by the names of limits: over reloads that reorder, add
 * and remove them. */
#ifndef WR_SERVE_TOTALS_H
#define WR_SERVE_TOTALS_H

#include "engine/envoy.h"
#include "serve/serve.h"

#define WR_TOTALS_LOOPS_MAX 1024
#define WR_TOTALS_KEPT_MAX 4096 /* names that no policy has any more, whose counts are kept */

struct wr_totals;

struct wr_totals *wr_totals_new(void); /* NULL: out of memory */
/* When all handles that it has learnt are closed. NULL is allowed. */
void wr_totals_free(struct wr_totals *totals);

/* Make |handle| known, before a loop decides by it; wr_handle_unref forgets it when it closes it.
 * Any thread. Returns 0 or WEIR_ENOMEM. */
int wr_totals_learn(struct wr_totals *totals, struct wr_handle *handle);
/* For wr_handle_unref alone. */
void wr_totals_forget(struct wr_handle *handle);

/* |loop| decides by |next|, which is known, from here on: what it has counted for the limits of the
 * policy before is kept under their names. In the loop's thread, between two turns; its first
 * policy before it turns. NULL: it is gone. The caller keeps its references: |loop| has none of
 * the old one afterwards. */
void wr_totals_swap(struct wr_totals *totals, struct wr_loop *loop, struct wr_handle *next);

struct wr_total {
    const char *name; /* of the limit, or the rule's path; of the handle that was asked for */
    bool shared;      /* of a limit, whether it is */
    union {
        uint64_t by_limit[WR_LIMIT_COUNTERS];
        uint64_t by_rule[WR_ENVOY_STATS];
    } count;
};

/* All that is counted. */
struct wr_counted {
    struct wr_door_metrics door[WR_DOORS];
    uint64_t outcome[4];
    uint64_t refused_unlogged;
    struct wr_store_metrics store; /* nodes: the most that a loop knows of */
    size_t limit_count, rule_count;
    const struct wr_total *limits; /* of the policy asked for, in its order */
    const struct wr_total *rules;  /* of its envoy_ratelimit files; paths given twice once */
};

/* Add everything up, for the policy of |handle|, which is known. One reader at a time; what |out|
 * points to is the totals' own until the next call. Returns 0 or WEIR_ENOMEM. */
int wr_totals_read(struct wr_totals *totals, const struct wr_handle *handle,
                   struct wr_counted *out);

struct wr_totals *wr_server_totals(struct wr_server *server);

#endif
