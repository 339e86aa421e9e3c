/* limits.c - the section `limits`.
 *
 * Problem. A limit is written in a dozen keys of which some imply, need or exclude others: a queue
 * makes a leaky bucket, places are not a rate. Whoever wrote two that disagree must hear of it.
 *
 * Idea. Each key is read alone into a struct wr_limit_reading that remembers where it stands; then
 * rules over what was found settle the algorithm; limit_rates.c compiles one struct wr_limit for
 * each plan.
 *
 * Invariant: limits[i], rules[i] and the patterns that carry index i are of the i-th item of the
 * section, whatever is wrong with it. */
#include <string.h>

#include "base/units.h"
#include "policy/limit_reading.h"
#include "policy/rate.h"

#define HOLD_DEFAULT_NS (30 * WR_NS_PER_S)
#define HOLD_MAX_NS WR_NS_PER_DAY

/* ---- keys -------------------------------------------------------------------------------- */

static void read_name(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;
    const struct wr_table_entry *entry;
    struct weir_slice name;
    bool added;

    if (!wr_read_name(ld, value, "name", &reading->limit->name))
        return;
    name = (struct weir_slice){reading->limit->name, strlen(reading->limit->name)};
    entry = wr_table_add(&ld->names, ld->scratch, WR_NAME_LIMIT, name, value->line, &added);
    if (entry != NULL && !added)
        wr_error(ld, value,
                 "name: expected a name of its own, found \"%s\", the name of the limit "
                 "on line %u",
                 name.ptr, entry->value);
}

static void read_match(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    wr_read_match(ld, value, &((struct wr_limit_reading *)into)->match);
}

/* What "ip", "route", "method" or an identity stands for. False after an error. */
static bool read_part(struct wr_loader *ld, const struct wr_yaml *item, struct wr_part_rule *part)
{
    static const char *const sources[] = {"ip", "route", "method"};
    const char *names[WR_IDENTITIES_MAX + 3];
    const struct wr_policy *policy = ld->policy;
    const char *near;
    int identity;

    _Static_assert(WR_BY_IP == 0 && WR_BY_ROUTE == 1 && WR_BY_METHOD == 2, "indexes of sources[]");
    if (!wr_is_text(item)) {
        wr_error(ld, item, "by: expected ip, route, method or a name from identity, found %s",
                 wr_found(item).text);
        return false;
    }
    for (uint8_t i = 0; i < 3; i++) {
        names[i] = sources[i];
        if (strcmp(item->text, sources[i]) == 0) {
            *part = (struct wr_part_rule){.source = i};
            return true;
        }
    }
    if (strcmp(item->text, "customer") == 0 && ld->sections[WR_SECTION_CUSTOMERS] != NULL) {
        *part = (struct wr_part_rule){.source = WR_BY_CUSTOMER};
        return true;
    }
    identity = wr_find_identity(policy, wr_slice_of(item));
    if (identity >= 0) {
        *part = (struct wr_part_rule){WR_BY_IDENTITY, (uint8_t)identity};
        return true;
    }
    if (strcmp(item->text, "customer") == 0) {
        wr_error(ld, item, "by: customer: expected a section customers in the policy, found none");
        return false;
    }
    if (strcmp(item->text, "path") == 0) {
        wr_error(ld, item,
                 "by: expected route, found \"path\": every caller can make up new "
                 "paths, each of which would be a fresh counter");
        return false;
    }
    for (size_t i = 0; i < policy->identity_count; i++)
        names[3 + i] = policy->identities[i].name;
    near = wr_nearest(item->text, names, 3 + policy->identity_count, sizeof names[0]);
    wr_error(ld, item, "by: expected ip, route, method or a name from identity, found %s%s%s%s",
             wr_found(item).text, near != NULL ? " (did you mean " : "", near != NULL ? near : "",
             near != NULL ? "?)" : "");
    return false;
}

static void read_by(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_rule *rule = ((struct wr_limit_reading *)into)->rule;
    struct wr_part_rule part;

    if (value->kind == WR_YAML_MAP) {
        wr_error(ld, value, "by: expected a list of names, found a map");
        return;
    }
    for (const struct wr_yaml *item = wr_first_item(value); item != NULL;
         item = wr_next_item(value, item)) {
        if (!read_part(ld, item, &part))
            continue;
        for (size_t i = 0; i < rule->parts; i++)
            if (rule->part[i].source == part.source && rule->part[i].identity == part.identity)
                wr_error(ld, item, "by: expected each name once, found %s again",
                         wr_found(item).text);
        if (rule->parts == WEIR_KEY_PARTS_MAX) {
            wr_error(ld, item, "by: expected at most %d names, found more", WEIR_KEY_PARTS_MAX);
            return;
        }
        rule->part[rule->parts++] = part;
    }
}

static void read_when_missing(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"ip", "skip", "deny"};
    struct wr_limit_reading *reading = into;
    size_t i;

    _Static_assert(WR_MISSING_IP == 0 && WR_MISSING_SKIP == 1 && WR_MISSING_DENY == 2,
                   "indexes of choices[]");
    reading->when_missing = value;
    if (wr_read_choice(ld, value, "when_missing", choices, 3, &i))
        reading->rule->when_missing = (uint8_t)i;
}

static void read_rate(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct wr_limit_reading *)into)->rate = value;
}

static void read_quota(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct wr_limit_reading *)into)->quota = value;
}

static void read_concurrent(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct wr_limit_reading *)into)->concurrent = value;
}

static void read_algorithm(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;
    const char *names[WR_ALGO_MAX];
    size_t i;

    for (i = 0; i < WR_ALGO_MAX; i++)
        names[i] = wr_algo_name((enum wr_algo)(i + 1));
    reading->algorithm = value;
    if (wr_read_choice(ld, value, "algorithm", names, WR_ALGO_MAX, &i))
        reading->algo = (enum wr_algo)(i + 1);
}

static void read_hold(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;
    const char *wrong = "expected a duration such as 30s";
    size_t at = 0;
    int64_t ns = 0;

    reading->hold = value;
    if (wr_is_text(value))
        wrong = wr_duration_parse(wr_slice_of(value), &ns, &at);
    if (wrong == NULL && ns > HOLD_MAX_NS) {
        wrong = "expected at most 1d, after which a place is free again in any case";
        at = 0;
    }
    if (wrong != NULL)
        wr_error_in(ld, value, at, "hold %s: %s", wr_found(value).text, wrong);
    else
        reading->hold_ns = ns;
}

static void read_mode(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"enforce", "shadow"};
    size_t i;

    if (wr_read_choice(ld, value, "mode", choices, 2, &i))
        ((struct wr_limit_reading *)into)->limit->shadow = i == 1;
}

static void read_count_denied(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_limit_reading *reading = into;

    reading->count_denied_at = value;
    (void)wr_read_bool(ld, value, "count_denied", &reading->count_denied);
}

static void read_prefix(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t prefix;

    if (wr_read_int(ld, value, "ipv6_prefix", 1, 128, &prefix))
        ((struct wr_limit_reading *)into)->rule->prefix = wr_add_prefix(ld, value, prefix);
}

/* ---- rules between keys ------------------------------------------------------------------ */

static void settle_concurrency(struct wr_loader *ld, struct wr_limit_reading *reading)
{
    if (reading->rate != NULL)
        wr_error(ld, reading->concurrent->key,
                 "concurrent: expected one of rate and concurrent, found both: write two limits");
    if (reading->algo != 0 && reading->algo != WR_CONCURRENCY)
        wr_error(ld, reading->algorithm, "algorithm: expected none beside concurrent, found %s",
                 wr_algo_name(reading->algo));
    reading->algo = WR_CONCURRENCY;
    wr_make_plans(ld, reading, reading->concurrent);
}

static void settle_rate(struct wr_loader *ld, struct wr_limit_reading *reading)
{
    if (reading->hold != NULL)
        wr_error(ld, reading->hold->key, "hold: expected only with concurrent");
    if (reading->algo == WR_CONCURRENCY) {
        wr_error(ld, reading->algorithm,
                 "algorithm: concurrency counts requests in flight: "
                 "expected concurrent: N, found a rate");
        return;
    }
    if (wr_settle_algorithm(ld, reading))
        wr_make_plans(ld, reading, reading->rate);
}

static void settle(struct wr_loader *ld, const struct wr_yaml *node,
                   struct wr_limit_reading *reading)
{
    bool identity = false;

    if (reading->limit->name == NULL && node->kind == WR_YAML_MAP)
        reading->limit->name = "";
    if (reading->rate == NULL && reading->concurrent == NULL && reading->quota == NULL)
        wr_find_in_plans(ld, node, reading);
    if (reading->quota != NULL)
        wr_settle_quota(ld, node, reading);
    else if (reading->concurrent != NULL)
        settle_concurrency(ld, reading);
    else if (reading->rate != NULL)
        settle_rate(ld, reading);
    else
        wr_error(ld, node,
                 "expected rate: N/UNIT, concurrent: N or quota: {limit: N, per: day} in a limit, "
                 "found none");
    for (size_t i = 0; i < reading->rule->parts; i++)
        identity = identity || reading->rule->part[i].source == WR_BY_IDENTITY ||
                   reading->rule->part[i].source == WR_BY_CUSTOMER;
    if (reading->when_missing != NULL && !identity)
        wr_warning(ld, reading->when_missing->key,
                   "when_missing has no effect: nothing in by can be missing");
    reading->rule->methods = reading->match.methods;
}

/* ---- the section ------------------------------------------------------------------------- */

static void read_limit(struct wr_loader *ld, const struct wr_yaml *node, uint32_t index)
{
    static const struct wr_key keys[] = {
        {"name", read_name},
        {"match", read_match},
        {"by", read_by},
        {"when_missing", read_when_missing},
        {"rate", read_rate},
        {"quota", read_quota},
        {"algorithm", read_algorithm},
        {"concurrent", read_concurrent},
        {"hold", read_hold},
        {"mode", read_mode},
        {"count_denied", read_count_denied},
        {"ipv6_prefix", read_prefix},
        {"shared", wr_read_shared},
        {"store_mode", wr_read_store_mode},
        {"when_store_gone", wr_read_when_store_gone},
    };
    static const struct wr_map_spec spec = {"a limit", keys, sizeof keys / sizeof keys[0], false};
    struct wr_policy *policy = ld->policy;
    struct wr_limit_reading reading = {
        .limit = &policy->limits[index],
        .rule = &policy->rules[index],
        .match = {.methods = WR_METHODS_ALL, .use = WR_USE_LIMIT, .index = index},
        .hold_ns = HOLD_DEFAULT_NS,
    };
    bool named = false;

    ld->limit_nodes[index] = node;
    if (!wr_read_map(ld, node, &spec, &reading))
        return;
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next)
        named = named || strcmp(value->key->text, "name") == 0;
    if (!named)
        wr_error(ld, node, "expected name: NAME in a limit, found none");
    settle(ld, node, &reading);
    wr_settle_shared(ld, node, &reading);
    if (!reading.match.has_path)
        policy->pathless[policy->pathless_count++] = (uint16_t)index;
}

void wr_read_limits(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_LIMITS];
    struct wr_policy *policy = ld->policy;
    uint32_t index = 0;

    if (node == NULL)
        return;
    if (node->kind != WR_YAML_LIST) {
        wr_error(ld, node, "limits: expected a list of limits, found %s", wr_found(node).text);
        return;
    }
    if (node->count > WR_POLICY_LIMITS_MAX) {
        wr_error(ld, node, "limits: expected at most %d limits, found %u", WR_POLICY_LIMITS_MAX,
                 node->count);
        return;
    }
    policy->limits = wr_region_take(ld->region, node->count, sizeof *policy->limits);
    policy->rules = wr_region_take(ld->region, node->count, sizeof *policy->rules);
    policy->pathless = wr_region_take(ld->region, node->count, sizeof *policy->pathless);
    ld->limit_nodes = wr_region_take(ld->scratch, node->count, sizeof(void *));
    if (policy->limits == NULL || policy->rules == NULL || policy->pathless == NULL ||
        ld->limit_nodes == NULL)
        return;
    policy->limit_count = node->count;
    for (const struct wr_yaml *item = node->first; item != NULL; item = item->next)
        read_limit(ld, item, index++);
}
