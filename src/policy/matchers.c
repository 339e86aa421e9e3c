/* matchers.c - `match: {method, path}` of limits and costs, and the section `routes`.
 *
 * All path patterns go into one tree, so that a path is walked once, whatever the number of limits;
 * methods become bits of one word. */
#include <string.h>
#include <strings.h>

#include "policy/loader.h"

/* The bit of the method |item|, new or known; 0 after an error. */
static uint64_t method_bit(struct wr_loader *ld, const struct wr_yaml *item)
{
    static const char *const standard[] = {"GET",    "HEAD",    "POST",    "PUT",  "PATCH",
                                           "DELETE", "OPTIONS", "CONNECT", "TRACE"};
    struct wr_policy *policy = ld->policy;

    if (!wr_is_text(item) || !wr_is_token(item)) {
        wr_error(ld, item, "method: expected a method such as GET, found %s", wr_found(item).text);
        return 0;
    }
    for (size_t i = 0; i < sizeof standard / sizeof standard[0]; i++) {
        if (strcasecmp(item->text, standard[i]) == 0 && strcmp(item->text, standard[i]) != 0) {
            wr_error(ld, item, "method: expected %s, found %s: methods differ by case", standard[i],
                     wr_found(item).text);
            return 0;
        }
    }
    for (size_t i = 0; i < policy->method_count; i++)
        if (policy->methods[i].len == item->len &&
            memcmp(policy->methods[i].ptr, item->text, item->len) == 0)
            return UINT64_C(1) << i;
    if (policy->method_count == WR_METHODS_MAX) {
        wr_error(ld, item, "method: expected at most %d different methods in a policy, found more",
                 WR_METHODS_MAX);
        return 0;
    }
    policy->methods[policy->method_count] = (struct weir_slice){wr_keep(ld, item), item->len};
    return UINT64_C(1) << policy->method_count++;
}

static void read_method(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_match *match = into;

    match->methods = 0;
    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "method: expected at least one method, found an empty list");
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item))
        match->methods |= method_bit(ld, item);
}

void wr_read_pattern(struct wr_loader *ld, const struct wr_yaml *value, enum wr_pattern_use use,
                     uint32_t index)
{
    const char *pattern, *wrong;
    size_t at;

    if (!wr_read_text(ld, value, "a path pattern such as /search/**", &pattern))
        return;
    wrong = wr_tree_add(&ld->policy->tree, ld->region, pattern, use, index, &at);
    if (wrong != NULL)
        wr_error_in(ld, value, at, "path %s: %s", wr_found(value).text, wrong);
}

static void read_path(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_match *match = into;

    match->has_path = true;
    if (value->kind == WR_YAML_LIST && value->count == 0)
        wr_error(ld, value, "path: expected at least one pattern, found an empty list");
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item))
        wr_read_pattern(ld, item, match->use, match->index);
}

void wr_read_match(struct wr_loader *ld, const struct wr_yaml *value, struct wr_match *match)
{
    static const struct wr_key keys[] = {{"method", read_method}, {"path", read_path}};
    static const struct wr_map_spec spec = {"match", keys, sizeof keys / sizeof keys[0], false};

    (void)wr_read_map(ld, value, &spec, match);
}

void wr_read_routes(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_ROUTES];
    uint32_t index = 0;

    if (node == NULL)
        return;
    if (node->kind != WR_YAML_LIST) {
        wr_error(ld, node, "routes: expected a list of path patterns, found %s",
                 wr_found(node).text);
        return;
    }
    for (const struct wr_yaml *item = node->first; item != NULL; item = item->next)
        wr_read_pattern(ld, item, WR_USE_ROUTE, index++);
}
