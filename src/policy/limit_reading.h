/* limit_reading.h - one limit while it is read: what was found, and where. Internal to src/policy.
 */
#ifndef WR_POLICY_LIMIT_READING_H
#define WR_POLICY_LIMIT_READING_H

#include "policy/loader.h"

struct wr_limit_reading {
    struct wr_policy_limit *limit;
    struct wr_rule *rule;
    struct wr_match match;
    const struct wr_yaml *rate, *concurrent, *hold, *algorithm, *when_missing;
    const struct wr_yaml *shared, *store_mode, *when_store_gone;
    enum wr_algo algo; /* 0: not given */
    int64_t hold_ns;
    bool count_denied;
};

/* Parse all rates of reading->rate, for their errors, and settle reading->algo by what they say.
 * False after an error. */
bool wr_settle_algorithm(struct wr_loader *ld, struct wr_limit_reading *reading);

/* Compile |node|, the value of rate or concurrent, for every plan: by[] and unlimited[]. */
void wr_make_plans(struct wr_loader *ld, struct wr_limit_reading *reading,
                   const struct wr_yaml *node);

/* shared.c: the keys of a limit that lies in the store, and what they mean together. */
void wr_read_shared(struct wr_loader *ld, const struct wr_yaml *value, void *into);
void wr_read_store_mode(struct wr_loader *ld, const struct wr_yaml *value, void *into);
void wr_read_when_store_gone(struct wr_loader *ld, const struct wr_yaml *value, void *into);
/* limit->by is settled, or NULL after an error. */
void wr_settle_shared(struct wr_loader *ld, const struct wr_yaml *node,
                      struct wr_limit_reading *reading);

#endif
