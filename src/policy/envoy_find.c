/* envoy_find.c - which limit of envoyproxy/ratelimit's configuration a descriptor meets.
 *
 * Two look-ups for each entry (its key beneath the node reached so far, its value beneath that key)
 * whatever the size of the files; patterns are tried one by one, and only where no exact value was
 * found: those of the key, and those with a * in the key, the first in the file of both. A limit
 * applies only to a descriptor with exactly as many entries as its path has. */
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

/* What a pattern is about: a value, or a key, _ and a value, which are never copied together. */
struct subject {
    struct weir_slice key, value;
    size_t len;
};

static char char_at(const struct subject *subject, size_t at)
{
    size_t before = subject->len - subject->value.len;

    if (at >= before)
        return subject->value.ptr[at - before];
    if (at < subject->key.len)
        return subject->key.ptr[at];
    return '_';
}

/* One star at a time: where the text does not go on as the pattern does, the last star takes one
 * character more. */
static bool fits(const char *pattern, const struct subject *text)
{
    const char *star = NULL;
    size_t at = 0, resume = 0;

    while (at < text->len) {
        if (*pattern == '*') {
            star = pattern++;
            resume = at;
        } else if (*pattern != '\0' && *pattern == char_at(text, at)) {
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

bool wr_envoy_glob(const char *pattern, struct weir_slice text)
{
    struct subject subject = {{NULL, 0}, text, text.len};

    return fits(pattern, &subject);
}

/* The node of the first of |patterns| that |subject| fits; 0: none. */
static uint32_t first_fit(const struct wr_envoy_patterns *patterns, const struct subject *subject)
{
    for (const struct wr_envoy_pattern *p = patterns->first; p != NULL; p = p->next)
        if (fits(p->text, subject))
            return p->node;
    return 0;
}

/* The node that |entry| leads to from |node|; 0: none. */
static uint32_t step(const struct wr_envoy *envoy, uint32_t node, const struct wr_entry *entry)
{
    const struct wr_table_entry *found =
        wr_table_find(&envoy->table, WR_ENVOY_TAG_KEY(node), entry->key);
    const struct wr_envoy_key *key = found != NULL ? &envoy->keys[found->value] : NULL;
    struct subject value = {{NULL, 0}, entry->value, entry->value.len};
    struct subject both = {entry->key, entry->value, entry->key.len + 1 + entry->value.len};
    uint32_t of_key, of_both;

    if (key != NULL && key->has_values) {
        found = wr_table_find(&envoy->table, WR_ENVOY_TAG_VALUE(found->value), entry->value);
        if (found != NULL)
            return found->value;
    }
    of_key = key != NULL ? first_fit(&key->patterns, &value) : 0;
    of_both = first_fit(&envoy->nodes[node].joint, &both);
    if (of_key != 0 && of_both != 0)
        return of_key < of_both ? of_key : of_both;
    if (of_key != 0 || of_both != 0)
        return of_key | of_both;
    return key != NULL ? key->bare : 0;
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
