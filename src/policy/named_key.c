/* named_key.c - what limits count by, in words, and keys that a person names part by part.
 *
 * Invariant: a key that is named whole is, part for part, what select.c makes of a request with
 * those values. */
#include <string.h>

#include "policy/compiled.h"
#include "policy/explain.h"
#include "policy/rate.h"

/* ---- what limits say ----------------------------------------------------------------------- */

const char *wr_policy_part(const struct wr_policy *policy, size_t limit, unsigned part,
                           bool *identity)
{
    static const char *const sources[] = {[WR_BY_IP] = "ip",
                                          [WR_BY_ROUTE] = "route",
                                          [WR_BY_METHOD] = "method",
                                          [WR_BY_CUSTOMER] = "customer"};
    const struct wr_part_rule *rule;

    if (identity != NULL)
        *identity = false;
    if (limit >= policy->limit_count || part >= policy->rules[limit].parts)
        return NULL;
    rule = &policy->rules[limit].part[part];
    if (rule->source != WR_BY_IDENTITY)
        return sources[rule->source];
    if (identity != NULL)
        *identity = true;
    return policy->identities[rule->identity].name;
}

enum wr_when_missing wr_policy_when_missing(const struct wr_policy *policy, size_t limit)
{
    return (enum wr_when_missing)policy->rules[limit].when_missing;
}

unsigned wr_policy_prefix(const struct wr_policy *policy, size_t limit)
{
    return policy->prefixes[policy->rules[limit].prefix];
}

const char *wr_policy_method(const struct wr_policy *policy, size_t limit, size_t n, size_t *len)
{
    uint64_t methods = policy->rules[limit].methods;

    for (size_t i = 0; methods != WR_METHODS_ALL && i < policy->method_count; i++) {
        if ((methods >> i & 1) == 0 || n-- > 0)
            continue;
        *len = policy->methods[i].len;
        return policy->methods[i].ptr;
    }
    *len = 0;
    return NULL;
}

size_t wr_policy_pattern_count(const struct wr_policy *policy)
{
    size_t count = 0;

    for (const struct wr_pattern_end *end = policy->tree.newest; end != NULL; end = end->older)
        count += end->use == WR_USE_LIMIT;
    return count;
}

/* The newest of the tree come first: each limit's part is filled from its end. */
void wr_policy_patterns(const struct wr_policy *policy, const char **pattern, uint32_t *start)
{
    uint32_t before = 0;

    memset(start, 0, (policy->limit_count + 1) * sizeof *start);
    for (const struct wr_pattern_end *end = policy->tree.newest; end != NULL; end = end->older)
        if (end->use == WR_USE_LIMIT)
            start[end->index]++;
    for (size_t i = 0; i <= policy->limit_count; i++) {
        before += start[i];
        start[i] = before; /* for now: where it ends */
    }
    for (const struct wr_pattern_end *end = policy->tree.newest; end != NULL; end = end->older)
        if (end->use == WR_USE_LIMIT)
            pattern[--start[end->index]] = end->pattern;
}

/* ---- keys ----------------------------------------------------------------------------------- */

void wr_named_key_begin(struct wr_named_key *key, unsigned limit)
{
    *key = (struct wr_named_key){.selected = {.limit = (uint16_t)limit}};
}

void wr_named_key_plain(struct wr_named_key *key, struct weir_slice value)
{
    key->selected.parts = 1;
    key->selected.part[0] = (struct wr_key_part){value, WR_PART_VALUE};
    key->given = 1;
}

/* Is |name| |text|, or with |standing_in| "|text|@ip"? */
static bool is_named(struct weir_slice name, const char *text, bool standing_in)
{
    static const char suffix[] = "@ip";
    size_t len = strlen(text), more = standing_in ? sizeof suffix - 1 : 0;

    return name.len == len + more && memcmp(name.ptr, text, len) == 0 &&
           memcmp(name.ptr + len, suffix, more) == 0;
}

/* An address, or a network such as the one that a caller is counted by. */
static bool read_address(struct weir_slice value, unsigned prefix, struct wr_ip *out)
{
    struct wr_net net;

    if (wr_ip_parse_hostport(value, out))
        return true;
    if (!wr_net_parse(value, &net, NULL) || net.prefix != (wr_ip_is_v4(&net.ip) ? 128 : prefix))
        return false;
    *out = net.ip;
    return true;
}

/* The address |value| as part |part|. */
static void give_address(const struct wr_policy *policy, struct wr_named_key *key, unsigned part,
                         struct weir_slice value, bool standing_in)
{
    struct wr_key_part *out = &key->selected.part[part];

    if (read_address(value, wr_policy_prefix(policy, key->selected.limit), &key->ip[part])) {
        key->ip[part] = wr_ip_mask(key->ip[part], wr_policy_prefix(policy, key->selected.limit));
        *out = (struct wr_key_part){{(const char *)key->ip[part].bytes, sizeof key->ip[part].bytes},
                                    standing_in ? WR_PART_FALLBACK : WR_PART_IP};
    } else {
        *out = (struct wr_key_part){value, standing_in ? WR_PART_FALLBACK_HOST : WR_PART_HOST};
    }
}

/* The id of a customer, in digits. */
static bool read_id(struct weir_slice value, uint64_t *id)
{
    int64_t digits;
    size_t at;

    *id = 0;
    if (value.len == 0 || wr_count_parse(value, INT64_MAX, &digits, &at) != NULL)
        return false;
    *id = (uint64_t)digits;
    return true;
}

static void give_customer(struct wr_named_key *key, unsigned part, struct weir_slice value)
{
    (void)read_id(value, &key->customer[part]);
    key->selected.part[part] = (struct wr_key_part){
        {(const char *)&key->customer[part], sizeof key->customer[part]}, WR_PART_CUSTOMER};
}

static bool is_pattern(const struct wr_policy *policy, struct weir_slice value)
{
    for (const struct wr_pattern_end *end = policy->tree.newest; end != NULL; end = end->older)
        if (end->pattern_len == value.len && memcmp(end->pattern, value.ptr, value.len) == 0)
            return true;
    return value.len == 0; /* of paths that none matches */
}

/* NULL, or what is wrong with |value|: one that no request can have, so that nobody is told that a
 * caller has used nothing when it is a slip. */
static const char *wrong_value(const struct wr_policy *policy, const struct wr_named_key *key,
                               enum wr_part_source source, bool standing_in,
                               struct weir_slice value)
{
    struct wr_ip ip;
    uint64_t id;

    if (value.len == 0 && source != WR_BY_ROUTE)
        return "expected a value";
    if ((standing_in || source == WR_BY_IP) && !wr_ip_or_host(value) &&
        !read_address(value, wr_policy_prefix(policy, key->selected.limit), &ip))
        return "expected an address, or the name of a host";
    if (source == WR_BY_CUSTOMER && !standing_in && !read_id(value, &id))
        return "expected the number of a customer";
    if (source == WR_BY_ROUTE && !is_pattern(policy, value))
        return "expected a pattern as the policy writes it, or nothing: paths that none matches";
    return NULL;
}

const char *wr_named_key_give(const struct wr_policy *policy, struct wr_named_key *key,
                              struct weir_slice name, struct weir_slice value)
{
    const struct wr_rule *rule = &policy->rules[key->selected.limit];

    for (unsigned i = 0; i < rule->parts; i++) {
        bool identity;
        const char *part = wr_policy_part(policy, key->selected.limit, i, &identity), *wrong;
        bool customer = rule->part[i].source == WR_BY_CUSTOMER;
        bool standing_in = (identity || customer) && is_named(name, part, true);
        if (!standing_in && !is_named(name, part, false))
            continue;
        if ((key->given >> i & 1) != 0)
            return "given twice";
        if (standing_in && rule->when_missing != WR_MISSING_IP)
            return "nothing stands in for a missing value here: see when_missing";
        wrong = wrong_value(policy, key, rule->part[i].source, standing_in, value);
        if (wrong != NULL)
            return wrong;
        if (standing_in || rule->part[i].source == WR_BY_IP)
            give_address(policy, key, i, value, standing_in);
        else if (customer)
            give_customer(key, i, value);
        else
            key->selected.part[i] = (struct wr_key_part){value, WR_PART_VALUE};
        key->given |= 1U << i;
        key->selected.parts = rule->parts;
        return NULL;
    }
    return "the limit has no such part";
}

const char *wr_named_key_lacks(const struct wr_policy *policy, const struct wr_named_key *key)
{
    unsigned part = 0;

    while (part < policy->rules[key->selected.limit].parts && (key->given >> part & 1) != 0)
        part++;
    return wr_policy_part(policy, key->selected.limit, part, NULL);
}
