/* envoy_file.c - one file of envoyproxy/ratelimit's configuration -> the tree of envoy_tree.h.
 *
 * Problem. The reference's reader accepts what Go's YAML does and finds the rest wrong in its own
 * words, without a place. People move here with files that work there: all of those must load, and
 * what is wrong there must be wrong here.
 *
 * Idea. Each descriptor is read alone into a struct; then it is hung into the tree, and its own
 * descriptors are read beneath it. Depth is bounded by the YAML reader.
 *
 * Invariants:
 *   1. Pairs of key and value are unique beneath a node.
 *   2. Every rule has a valid limit, or is unlimited.
 *   3. Patterns keep the order of the file.
 *
 * Known here and without effect: detailed_metric, value_to_metric, metadata (docs/envoy.md). */
#include <stdio.h>
#include <string.h>

#include "policy/envoy_read.h"

/* ---- the tree ---------------------------------------------------------------------------- */

/* The number of a new node; 0 when out of memory (and of the very first). */
static uint32_t add_node(struct wr_loader *ld, struct wr_envoy *envoy)
{
    if (envoy->node_count == envoy->node_room) {
        uint32_t room = envoy->node_room == 0 ? 16 : envoy->node_room * 2;
        struct wr_envoy_node *larger = wr_region_take(ld->region, room, sizeof *larger);
        if (larger == NULL)
            return 0;
        if (envoy->node_count > 0)
            memcpy(larger, envoy->nodes, envoy->node_count * sizeof *larger);
        envoy->nodes = larger;
        envoy->node_room = room;
    }
    return envoy->node_count++;
}

/* The number of |key| beneath |node|, new or old; -1 when out of memory. */
static int64_t add_key(struct wr_loader *ld, struct wr_envoy *envoy, uint32_t node, const char *key)
{
    struct weir_slice text = {key, strlen(key)};
    struct wr_table_entry *entry;
    bool added;

    if (envoy->key_count == envoy->key_room) {
        uint32_t room = envoy->key_room == 0 ? 16 : envoy->key_room * 2;
        struct wr_envoy_key *larger = wr_region_take(ld->region, room, sizeof *larger);
        if (larger == NULL)
            return -1;
        if (envoy->key_count > 0)
            memcpy(larger, envoy->keys, envoy->key_count * sizeof *larger);
        envoy->keys = larger;
        envoy->key_room = room;
    }
    entry = wr_table_add(&envoy->table, ld->region, WR_ENVOY_TAG_KEY(node), text, envoy->key_count,
                         &added);
    if (entry == NULL)
        return -1;
    if (added)
        envoy->key_count++;
    return entry->value;
}

static void report_twice(struct wr_loader *ld, const struct wr_envoy_written *d,
                         const struct wr_envoy_place *place)
{
    wr_error(ld, d->key, "expected each descriptor once, found %s again", place->path);
}

/* Hang a pattern behind those before it. */
static void add_pattern(struct wr_loader *ld, struct wr_envoy_patterns *patterns, const char *text,
                        uint32_t node)
{
    struct wr_envoy_pattern *pattern = wr_region_take(ld->region, 1, sizeof *pattern);

    if (pattern == NULL)
        return;
    pattern->text = text;
    pattern->node = node;
    if (patterns->last != NULL)
        patterns->last->next = pattern;
    else
        patterns->first = pattern;
    patterns->last = pattern;
}

/* |key|, or |key|_|value|. NULL: out of memory. */
static const char *join(struct wr_loader *ld, const char *key, const char *value)
{
    size_t room = strlen(key) + (value != NULL ? strlen(value) : 0) + 2;
    char *text = wr_region_take(ld->region, room, 1);

    if (text != NULL)
        (void)snprintf(text, room, "%s%s%s", key, value != NULL ? "_" : "",
                       value != NULL ? value : "");
    return text;
}

/* The patterns that lead to |node|, the child of |parent| for |key| and |value|. */
static void hang_patterns(struct wr_loader *ld, struct wr_envoy *envoy, uint32_t parent,
                          struct wr_envoy_key *key, const struct wr_envoy_written *d, uint32_t node)
{
    const char *pattern = NULL;

    if (strchr(d->key_text, '*') != NULL) {
        pattern = join(ld, d->key_text, d->value_text);
        if (pattern != NULL)
            add_pattern(ld, &envoy->nodes[parent].joint, pattern, node);
    } else if (d->value_text != NULL && strchr(d->value_text, '*') != NULL) {
        pattern = d->value_text;
        add_pattern(ld, &key->patterns, pattern, node);
    }
    envoy->nodes[node].shared = d->share ? pattern : NULL;
}

/* A node for the key and value of |d| beneath place->node, which becomes it. */
static bool hang(struct wr_loader *ld, struct wr_envoy_place *place,
                 const struct wr_envoy_written *d)
{
    struct wr_envoy *envoy = place->envoy;
    const char *value = d->value_text;
    int64_t number = add_key(ld, envoy, place->node, d->key_text);
    uint32_t node = add_node(ld, envoy);
    bool added = true;

    if (number < 0 || node == 0)
        return false;
    envoy->nodes[place->node].has_children = true;
    envoy->keys[number].has_values |= value != NULL;
    if (value == NULL) {
        added = envoy->keys[number].bare == 0;
        envoy->keys[number].bare = node;
    } else if (wr_table_add(&envoy->table, ld->region, WR_ENVOY_TAG_VALUE((uint32_t)number),
                            (struct weir_slice){value, strlen(value)}, node, &added) == NULL) {
        return false;
    }
    if (added)
        hang_patterns(ld, envoy, place->node, &envoy->keys[number], d, node);
    else
        report_twice(ld, d, place);
    place->node = node;
    return true;
}

/* ---- descriptors ------------------------------------------------------------------------- */

#define NODE_READER(name, member)                                                   \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into) \
    {                                                                               \
        (void)ld;                                                                   \
        ((struct wr_envoy_written *)into)->member = value;                          \
    }
NODE_READER(on_key, key)
NODE_READER(on_value, value)
NODE_READER(on_rate_limit, rate_limit)
NODE_READER(on_descriptors, descriptors)

#define TRUTH_READER(name, member, text)                                             \
    static void name(struct wr_loader *ld, const struct wr_yaml *value, void *into)  \
    {                                                                                \
        ((struct wr_envoy_written *)into)->member = wr_envoy_truth(ld, value, text); \
    }
TRUTH_READER(on_shadow, shadow, "shadow_mode")
TRUTH_READER(on_quota, quota, "quota_mode")
TRUTH_READER(on_share, share, "share_threshold")

static void on_metric(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)into;
    (void)wr_envoy_truth(ld, value, value->key->text);
}

static void on_metadata(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    (void)value;
    (void)into; /* any map at all */
}

static void read_descriptors(struct wr_loader *ld, const struct wr_envoy_place *parent,
                             const struct wr_yaml *list);

static void read_descriptor(struct wr_loader *ld, const struct wr_envoy_place *parent,
                            const struct wr_yaml *node)
{
    static const struct wr_key keys[] = {
        {"key", on_key},
        {"value", on_value},
        {"rate_limit", on_rate_limit},
        {"descriptors", on_descriptors},
        {"shadow_mode", on_shadow},
        {"quota_mode", on_quota},
        {"share_threshold", on_share},
        {"detailed_metric", on_metric},
        {"value_to_metric", on_metric},
        {"metadata", on_metadata},
    };
    static const struct wr_map_spec spec = {"a descriptor", keys, sizeof keys / sizeof keys[0],
                                            false};
    struct wr_envoy_written d = {0};
    struct wr_envoy_place here = *parent;
    const char *key, *value;

    if (!wr_read_map(ld, node, &spec, &d))
        return;
    key = d.key_text = d.key != NULL ? wr_envoy_string(ld, d.key, "key") : NULL;
    value = d.value_text = d.value != NULL ? wr_envoy_string(ld, d.value, "value") : NULL;
    if (key == NULL) {
        wr_error(ld, d.key != NULL ? d.key : node, "expected a key in a descriptor, found none");
        return;
    }
    if (d.share && strchr(key, '*') == NULL && (value == NULL || strchr(value, '*') == NULL))
        wr_error(ld, node, "share_threshold: expected a value with a * in it, found %s",
                 d.value != NULL ? wr_found(d.value).text : "none");
    (void)snprintf(here.path, sizeof here.path, "%.400s.%.50s%s%.50s", parent->path, key,
                   value != NULL ? "_" : "", value != NULL ? value : "");
    if (!hang(ld, &here, &d))
        return;
    if (d.rate_limit != NULL && !wr_envoy_is_nothing(d.rate_limit))
        wr_envoy_read_limit(ld, &here, &d);
    if (d.descriptors != NULL)
        read_descriptors(ld, &here, d.descriptors);
}

static void read_descriptors(struct wr_loader *ld, const struct wr_envoy_place *parent,
                             const struct wr_yaml *list)
{
    if (wr_envoy_is_nothing(list))
        return;
    if (list->kind != WR_YAML_LIST) {
        wr_error(ld, list, "descriptors: expected a list of descriptors, found %s",
                 wr_found(list).text);
        return;
    }
    for (const struct wr_yaml *item = list->first; item != NULL; item = item->next)
        read_descriptor(ld, parent, item);
}

/* ---- files ------------------------------------------------------------------------------- */

struct written_file {
    const struct wr_yaml *domain, *descriptors;
};

static void on_domain(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct written_file *)into)->domain = value;
}

static void on_top_descriptors(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct written_file *)into)->descriptors = value;
}

/* The node of a domain, made if it is new. False after an error. */
static bool find_domain(struct wr_loader *ld, struct wr_envoy_place *place,
                        const struct wr_yaml *at, const char *name)
{
    struct wr_envoy *envoy = place->envoy;
    struct wr_table_entry *entry;
    bool added;

    entry = wr_table_add(&envoy->table, ld->region, WR_ENVOY_TAG_DOMAIN,
                         (struct weir_slice){name, strlen(name)}, envoy->node_count, &added);
    if (entry == NULL)
        return false;
    if (added) {
        place->node = add_node(ld, envoy);
        return !ld->region->failed;
    }
    if (!envoy->options.merge_domains)
        wr_error(ld, at,
                 "domain: expected each domain in one file, found \"%.64s\" again (merge_domains: "
                 "true in the policy allows it)",
                 name);
    place->node = entry->value;
    return true;
}

static void read_file(struct wr_loader *ld, struct wr_envoy *envoy, const struct wr_yaml *root)
{
    static const struct wr_key keys[] = {{"domain", on_domain},
                                         {"descriptors", on_top_descriptors}};
    static const struct wr_map_spec spec = {"a rate limit configuration", keys, 2, false};
    struct written_file file = {0};
    struct wr_envoy_place place = {.envoy = envoy};
    const char *domain;

    if (!wr_read_map(ld, root, &spec, &file))
        return;
    domain = file.domain != NULL ? wr_envoy_string(ld, file.domain, "domain") : NULL;
    if (domain == NULL) {
        wr_error(ld, file.domain != NULL ? file.domain : root,
                 "expected a domain in a rate limit configuration, found none");
        return;
    }
    if (!find_domain(ld, &place, file.domain, domain))
        return;
    (void)snprintf(place.path, sizeof place.path, "%.100s", domain);
    if (file.descriptors != NULL)
        read_descriptors(ld, &place, file.descriptors);
}

void wr_envoy_read_text(struct wr_loader *ld, struct wr_envoy *envoy, const char *text, size_t len)
{
    const struct wr_yaml *root;

    if (!wr_yaml_parse(&root, text, len, ld->scratch, ld->diag))
        return;
    if (root == NULL || wr_envoy_is_nothing(root))
        wr_diag_add(ld->diag, WR_ERROR, 1, 1, "expected a rate limit configuration, found nothing");
    else
        read_file(ld, envoy, root);
}
