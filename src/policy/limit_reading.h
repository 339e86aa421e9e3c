/* limit_reading.h - one limit while it is read: what was found, and where. Internal to src/policy.
 */
#ifndef WR_POLICY_LIMIT_READING_H
#define WR_POLICY_LIMIT_READING_H

#include "policy/loader.h"

struct wr_limit_reading {
    struct wr_policy_limit *limit;
    struct wr_rule *rule;
    struct wr_match match;
    const struct wr_yaml *rate, *concurrent, *quota, *hold, *algorithm, *when_missing;
    const struct wr_yaml *shared, *store_mode, *when_store_gone;
    enum wr_algo algo; /* 0: not given */
    int64_t hold_ns;
    const struct wr_yaml *count_denied_at;
    bool count_denied;
};

/* Is the customer all that the limit tells callers apart by? */
static inline bool wr_is_by_customer(const struct wr_rule *rule)
{
    return rule->parts == 1 && rule->part[0].source == WR_BY_CUSTOMER;
}

/* Parse all rates of reading->rate, for their errors, and settle reading->algo by what they say.
 * False after an error. */
bool wr_settle_algorithm(struct wr_loader *ld, struct wr_limit_reading *reading);

/* Compile |node|, the value of rate or concurrent, for every plan: by[] and unlimited[]. */
void wr_make_plans(struct wr_loader *ld, struct wr_limit_reading *reading,
                   const struct wr_yaml *node);

/* The value of |node| for |plan|: what the section `plans` says, of a map the plan's entry, or what
 * there is for the default plan; else |node| itself. NULL: there is none. */
const struct wr_yaml *wr_value_for(struct wr_loader *ld, const struct wr_limit_reading *reading,
                                   const struct wr_yaml *node, size_t plan);

/* The value of rate or concurrent where it stands in `plans` alone: sets one of them to an empty
 * map. */
void wr_find_in_plans(struct wr_loader *ld, const struct wr_yaml *node,
                      struct wr_limit_reading *reading);

/* quota.c: compile reading->quota, and what the plans say of it. */
void wr_settle_quota(struct wr_loader *ld, const struct wr_yaml *node,
                     struct wr_limit_reading *reading);

/* shared.c: the keys of a limit that lies in the store, and what they mean together. */
void wr_read_shared(struct wr_loader *ld, const struct wr_yaml *value, void *into);
void wr_read_store_mode(struct wr_loader *ld, const struct wr_yaml *value, void *into);
void wr_read_when_store_gone(struct wr_loader *ld, const struct wr_yaml *value, void *into);
/* limit->by is settled, or NULL after an error. */
void wr_settle_shared(struct wr_loader *ld, const struct wr_yaml *node,
                      struct wr_limit_reading *reading);

/* Why |limit|, of an algorithm that can lease, is not leased by |nodes| (0: not said); NULL: it is.
 */
const char *wr_why_strict(const struct wr_limit *limit, unsigned nodes);

#endif
