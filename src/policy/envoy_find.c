/* envoy_find.c - which limit of envoyproxy/ratelimit's configuration a descriptor meets.
 *
 * Two look-ups for each entry (its key beneath the node reached so far, its value beneath that key)
 * whatever the size of the files; patterns are tried one by one, and only where no exact value was
 * found. A limit applies only to a descriptor with exactly as many entries as its path has. */
#include <string.h>

#include "policy/compiled.h"
#include "policy/envoy_tree.h"

const struct wr_envoy *wr_policy_envoy(const struct wr_policy *policy)
{
    return policy->envoy;
}

const struct wr_envoy_options *wr_envoy_options(const struct wr_envoy *envoy)
{
    return &envoy->options;
}

size_t wr_envoy_rule_count(const struct wr_envoy *envoy)
{
    return envoy->rule_count;
}

const struct wr_envoy_rule *wr_envoy_rule(const struct wr_envoy *envoy, size_t index)
{
    return index < envoy->rule_count ? envoy->rules[index] : NULL;
}

int wr_envoy_domain(const struct wr_envoy *envoy, struct weir_slice name)
{
    const struct wr_table_entry *entry = wr_table_find(&envoy->table, WR_ENVOY_TAG_DOMAIN, name);

    return entry != NULL ? (int)entry->value : -1;
}

/* One star at a time: where the text does not go on as the pattern does, the last star takes one
 * character more. */
bool wr_envoy_glob(const char *pattern, struct weir_slice text)
{
    const char *star = NULL;
    size_t at = 0, resume = 0;

    while (at < text.len) {
        if (*pattern == '*') {
            star = pattern++;
            resume = at;
        } else if (*pattern != '\0' && *pattern == text.ptr[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++resume;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* The node that |entry| leads to from |node|; 0: none. */
static uint32_t step(const struct wr_envoy *envoy, uint32_t node, const struct wr_entry *entry)
{
    const struct wr_table_entry *found =
        wr_table_find(&envoy->table, WR_ENVOY_TAG_KEY(node), entry->key);
    const struct wr_envoy_key *key;
    uint32_t number;

    if (found == NULL)
        return 0;
    number = found->value;
    key = &envoy->keys[number];
    if (key->has_values) {
        found = wr_table_find(&envoy->table, WR_ENVOY_TAG_VALUE(number), entry->value);
        if (found != NULL)
            return found->value;
    }
    for (const struct wr_envoy_pattern *p = key->first; p != NULL; p = p->next)
        if (wr_envoy_glob(p->text, entry->value))
            return p->node;
    return key->bare;
}

void wr_envoy_find(const struct wr_envoy *envoy, int domain, const struct wr_descriptor *descriptor,
                   struct wr_envoy_match *out)
{
    uint32_t node = (uint32_t)domain;

    out->rule = NULL;
    if (descriptor->count > WR_ENTRIES_MAX || descriptor->count == 0)
        return;
    for (size_t i = 0; i < descriptor->count; i++)
        out->shared[i] = NULL;
    for (size_t i = 0; i < descriptor->count; i++) {
        node = step(envoy, node, &descriptor->entries[i]);
        if (node == 0)
            return;
        out->shared[i] = envoy->nodes[node].shared;
    }
    out->rule = envoy->nodes[node].rule;
}
