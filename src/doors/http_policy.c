/* http_policy.c - names and kinds of the fields that the policy in force asks for, side by side, so
 * that a request is read without a call for each. */
#include "doors/http_policy.h"

#include <string.h>

void http_policy_learn(struct http_policy *policy, const struct wr_handle *handle)
{
    if (policy->generation == handle->generation)
        return;
    policy->generation = handle->generation;
    policy->field_count = weir_field_count(handle->weir);
    for (size_t i = 0; i < policy->field_count; i++) {
        policy->names[i] = weir_field_name(handle->weir, i);
        policy->lens[i] = strlen(policy->names[i]);
        policy->kinds[i] = weir_field_kind(handle->weir, i);
        policy->lists[i] = weir_field_is_list(handle->weir, i);
    }
    weir_answer_defaults(handle->weir, &policy->answers);
    policy->has_plans = wr_policy_plan_count(handle->policy) > 1;
}
