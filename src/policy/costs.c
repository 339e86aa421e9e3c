/* costs.c - the sections `costs` and `bans`: what a request takes, and who is not served at all. */
#include <string.h>

#include "policy/loader.h"

/* ---- costs ------------------------------------------------------------------------------- */

struct cost_reading {
    struct wr_cost_rule *rule;
    struct wr_match match;
    bool has_cost;
};

static void read_cost_match(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    wr_read_match(ld, value, &((struct cost_reading *)into)->match);
}

static void read_cost(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct cost_reading *reading = into;

    reading->has_cost = true;
    (void)wr_read_int(ld, value, "cost", 0, WEIR_COST_MAX, &reading->rule->cost);
}

static void read_cost_rule(struct wr_loader *ld, const struct wr_yaml *node, uint32_t index,
                           uint64_t plans)
{
    static const struct wr_key keys[] = {{"match", read_cost_match}, {"cost", read_cost}};
    static const struct wr_map_spec spec = {"a cost", keys, sizeof keys / sizeof keys[0], false};
    struct wr_policy *policy = ld->policy;
    struct cost_reading reading = {
        .rule = &policy->costs[index],
        .match = {.methods = WR_METHODS_ALL, .use = WR_USE_COST, .index = index},
    };

    if (!wr_read_map(ld, node, &spec, &reading))
        return;
    if (!reading.has_cost)
        wr_error(ld, node, "expected cost: N beside match, found none");
    reading.rule->methods = reading.match.methods;
    reading.rule->plans = plans;
    if (!reading.match.has_path)
        policy->pathless_costs[policy->pathless_cost_count++] = index;
}

/* |node|, or NULL where it is no list. */
static const struct wr_yaml *cost_list(struct wr_loader *ld, const struct wr_yaml *node)
{
    if (node == NULL || node->kind == WR_YAML_LIST)
        return node;
    wr_error(ld, node, "costs: expected a list of {match, cost}, found %s", wr_found(node).text);
    return NULL;
}

static uint32_t read_cost_list(struct wr_loader *ld, const struct wr_yaml *node, uint32_t index,
                               uint64_t plans)
{
    if (node == NULL)
        return index;
    for (const struct wr_yaml *item = node->first; item != NULL; item = item->next)
        read_cost_rule(ld, item, index++, plans);
    return index;
}

void wr_read_costs(struct wr_loader *ld)
{
    const struct wr_yaml *common = cost_list(ld, ld->sections[WR_SECTION_COSTS]);
    const struct wr_yaml *own[WR_POLICY_PLANS_MAX];
    struct wr_policy *policy = ld->policy;
    size_t count = common != NULL ? common->count : 0;
    uint32_t index;

    policy->common_cost_count = count;
    for (size_t plan = 0; plan < policy->plan_count; plan++) {
        own[plan] = cost_list(ld, ld->plan_bodies[plan].costs);
        count += own[plan] != NULL ? own[plan]->count : 0;
    }
    policy->costs = wr_region_take(ld->region, count, sizeof *policy->costs);
    policy->pathless_costs = wr_region_take(ld->region, count, sizeof *policy->pathless_costs);
    if (policy->costs == NULL || policy->pathless_costs == NULL)
        return;
    policy->cost_count = count;
    index = read_cost_list(ld, common, 0, UINT64_MAX);
    for (size_t plan = 0; plan < policy->plan_count; plan++)
        index = read_cost_list(ld, own[plan], index, UINT64_C(1) << plan);
}

/* ---- bans -------------------------------------------------------------------------------- */

struct ban_reading {
    struct wr_net *nets;
    size_t count;
};

static void ban_value(struct wr_loader *ld, const struct wr_yaml *value, int identity)
{
    struct wr_policy *policy = ld->policy;
    struct weir_slice text = wr_slice_of(value);
    bool added;

    if (!wr_is_text(value)) {
        wr_error(ld, value, "%s: expected the value to ban, found %s", value->key->text,
                 wr_found_kind(value));
        return;
    }
    text.ptr = wr_keep(ld, value);
    if (text.ptr == NULL)
        return;
    if (wr_table_add(&policy->values, ld->region, WR_TAG_BANNED + (uint32_t)identity, text, 1,
                     &added) != NULL &&
        !added)
        wr_warning(ld, value, "bans: this value is banned twice");
    policy->banned_identities |= UINT32_C(1) << identity;
}

/* One pair of a ban: who, or why. Returns how many callers it names. */
static int read_ban_pair(struct wr_loader *ld, const struct wr_yaml *value,
                         struct ban_reading *reading)
{
    const char *name = value->key->text, *reason;
    int identity = wr_find_identity(ld->policy, (struct weir_slice){name, strlen(name)});

    if (strcmp(name, "reason") == 0) { /* for those who read the policy */
        (void)wr_read_text(ld, value, "a reason", &reason);
        return 0;
    }
    if (strcmp(name, "ip") == 0) {
        struct wr_net *net = &reading->nets[reading->count];
        if (!wr_read_net(ld, value, "ip", net))
            return 1;
        reading->count++;
        if (net->prefix == 0 || (net->prefix == 96 && wr_ip_is_v4(&net->ip)))
            wr_warning(ld, value, "bans: %s bans every caller%s", wr_found(value).text,
                       net->prefix == 0 ? "" : " of IPv4");
        return 1;
    }
    if (identity >= 0)
        ban_value(ld, value, identity);
    else
        wr_error(ld, value->key,
                 "unknown key in a ban: expected ip, reason, or a name from identity");
    return 1;
}

static void read_ban(struct wr_loader *ld, const struct wr_yaml *node, struct ban_reading *reading)
{
    int callers = 0;

    if (node->kind != WR_YAML_MAP) {
        wr_error(ld, node, "bans: expected a map such as {ip: 192.0.2.0/24}, found %s",
                 wr_found_kind(node));
        return;
    }
    for (const struct wr_yaml *value = node->first; value != NULL; value = value->next) {
        if (callers == 1 && strcmp(value->key->text, "reason") != 0) {
            wr_error(ld, value->key,
                     "bans: expected one caller a ban, found a second: bans do not "
                     "combine, write two");
            return;
        }
        callers += read_ban_pair(ld, value, reading);
    }
    if (callers == 0)
        wr_error(ld, node, "bans: expected ip or a name from identity, found neither");
}

void wr_read_bans(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_BANS];
    struct ban_reading reading = {0};

    if (node == NULL)
        return;
    if (node->kind != WR_YAML_LIST) {
        wr_error(ld, node, "bans: expected a list of {ip: ...} and {api_key: ...}, found %s",
                 wr_found_kind(node));
        return;
    }
    reading.nets = wr_region_take(ld->region, node->count, sizeof *reading.nets);
    if (reading.nets == NULL)
        return;
    for (const struct wr_yaml *item = node->first; item != NULL; item = item->next)
        read_ban(ld, item, &reading);
    wr_netset_make(&ld->policy->banned, reading.nets, reading.count);
}
