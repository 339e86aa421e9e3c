/* explain.c - why a request meets the limits that it meets.
 *
 * The problem. select.c looks at what matches and at nothing else, so it cannot say why a limit was
 * left out; and whoever asks why wants to hear of every limit.
 *
 * The idea. What was selected is taken as it is. For all others the questions of select.c are asked
 * one by one, in its order, of the same tables.
 *
 * Invariants: a limit is WR_MATCHES exactly when it is in the selection; cost grows with the limits
 * of the policy, which no caller decides. */
#include "policy/explain.h"

#include <string.h>

#include "policy/path.h"
#include "policy/values.h"

/* ---- paths ---------------------------------------------------------------------------------- */

/* Of a limit's patterns that match, the most specific one, as select.c has it. */
static void keep(struct wr_match_reason *reason, const struct wr_pattern_end *end)
{
    if (reason->why == WR_MATCHES && reason->rank <= end->rank)
        return;
    *reason =
        (struct wr_match_reason){.why = WR_MATCHES, .pattern = end->pattern, .rank = end->rank};
}

static void walk(const struct wr_policy *policy, const struct wr_path *path,
                 struct wr_match_reason *out)
{
    struct wr_walk walk;
    const struct wr_tree_node *node;

    wr_walk_start(&walk, &policy->tree, path);
    while ((node = wr_walk_next(&walk)) != NULL)
        for (const struct wr_pattern_end *end = node->ends; end != NULL; end = end->next)
            if (end->use == WR_USE_LIMIT)
                keep(&out[end->index], end);
}

/* WR_MATCHES for limits that the path is no reason against. */
static void match_paths(const struct wr_policy *policy, struct weir_slice text,
                        struct wr_match_reason *out)
{
    struct wr_path path;

    for (size_t i = 0; i < policy->limit_count; i++)
        out[i] = (struct wr_match_reason){.why = WR_OTHER_PATH};
    if (policy->tree.root != NULL) {
        wr_path_split(text, WR_SLASH_IN_SEGMENT, &path);
        walk(policy, &path, out);
        if (path.encoded_slash) {
            wr_path_split(text, WR_SLASH_SEPARATES, &path);
            walk(policy, &path, out);
        }
    }
    for (size_t i = 0; i < policy->pathless_count; i++)
        out[policy->pathless[i]].why = WR_MATCHES;
}

/* ---- reasons -------------------------------------------------------------------------------- */

static const char *missing_identity(const struct wr_policy *policy, size_t limit,
                                    const struct weir_request *request,
                                    const struct wr_selection *selection)
{
    const struct wr_rule *rule = &policy->rules[limit];

    for (unsigned i = 0; i < rule->parts; i++) {
        if (rule->part[i].source == WR_BY_CUSTOMER && !selection->customer_known)
            return "customer";
        const struct wr_identity *identity = &policy->identities[rule->part[i].identity];
        if (rule->part[i].source == WR_BY_IDENTITY &&
            wr_identity_value(identity, request, selection->peer_trusted).len == 0)
            return identity->name;
    }
    return NULL;
}

void wr_policy_explain(const struct wr_policy *policy, const struct weir_request *request,
                       const struct wr_selection *selection, struct wr_match_reason *out)
{
    uint64_t method = wr_method_bit(policy, request->method);
    size_t matching = 0, at = 0;

    match_paths(policy, request->path, out);
    for (size_t i = 0; i < policy->limit_count; i++) {
        struct wr_match_reason *reason = &out[i];
        if (reason->why != WR_MATCHES)
            continue;
        if ((policy->rules[i].methods & method) == 0) {
            reason->why = WR_OTHER_METHOD;
            continue;
        }
        if (policy->rules[i].unlimited[selection->plan]) {
            reason->why = WR_NO_LIMIT;
            continue;
        }
        reason->missing = missing_identity(policy, i, request, selection);
        if (at < selection->count && selection->selected[at].limit == i)
            at++;
        else
            reason->why = matching >= WEIR_LIMITS_MAX ? WR_BEYOND_MAX : WR_KEY_SKIPPED;
        matching++;
    }
}

int wr_policy_cost_rule(const struct wr_policy *policy, int32_t rule, size_t *index)
{
    size_t first = (size_t)rule;

    *index = (size_t)rule;
    if (*index < policy->common_cost_count || *index >= policy->cost_count)
        return -1;
    while (first > policy->common_cost_count &&
           policy->costs[first - 1].plans == policy->costs[rule].plans)
        first--;
    *index -= first;
    return __builtin_ctzll(policy->costs[rule].plans);
}

size_t wr_policy_identity_count(const struct wr_policy *policy)
{
    return policy->identity_count;
}

const char *wr_policy_identity(const struct wr_policy *policy, size_t index)
{
    return index < policy->identity_count ? policy->identities[index].name : NULL;
}

enum wr_value_from wr_policy_identity_value(const struct wr_policy *policy, size_t index,
                                            const struct weir_request *request,
                                            struct weir_slice *value)
{
    const struct wr_identity *identity = &policy->identities[index];
    struct weir_slice given = wr_request_field(request, identity->given);

    *value = wr_identity_value(identity, request, wr_policy_trusts(policy, request->peer));
    if (value->len > 0)
        return given.ptr != NULL ? WR_VALUE_GIVEN : WR_VALUE_HEADER;
    if (given.ptr == NULL)
        *value = wr_identity_value(identity, request, true);
    return value->len > 0 ? WR_VALUE_NOT_BELIEVED : WR_VALUE_MISSING;
}
