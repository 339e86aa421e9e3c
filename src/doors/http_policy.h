/* http_policy.h - what a door that reads requests as JSON looks up in the policy in force. */
#ifndef WR_DOORS_HTTP_POLICY_H
#define WR_DOORS_HTTP_POLICY_H

#include "serve/serve.h"

struct http_policy {
    uint64_t generation; /* 0: none yet */
    size_t field_count;
    const char *names[WR_POLICY_FIELDS_MAX];
    size_t lens[WR_POLICY_FIELDS_MAX];
    enum weir_field_kind kinds[WR_POLICY_FIELDS_MAX];
    bool lists[WR_POLICY_FIELDS_MAX];
    struct weir_answer_options answers;
    bool has_plans;
};

/* Once for each policy. */
void http_policy_learn(struct http_policy *policy, const struct wr_handle *handle);

#endif
