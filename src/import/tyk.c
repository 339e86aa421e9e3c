/* tyk.c - policies of the Tyk gateway: policies.json, or what its API lists.
 *
 *   {"ID": {"name", "rate": 1000, "per": 60, "quota_max": 100, "quota_renewal_rate": 86400, ...}}
 *
 * A policy there is a plan here. Keys come in the field that the API's definition names, by default
 * Authorization. Its quota is renewed so many seconds after its first use; here windows lie on the
 * clock, and a renewal of a day is the civil day in UTC. */
#include "import/draft.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define KEY "api_key"
#define WR_TYK_KNOWN                                                                          \
    "rate per quota_max quota_renewal_rate id _id name access_rights partitions is_inactive " \
    "state "                                                                                  \
    "throttle_interval throttle_retry_limit key_expires_in max_query_depth"
#define WR_TYK_HARMLESS                                                                 \
    "org_id active tags meta_data last_updated quota_remaining quota_renews allowance " \
    "date_created enable_http_signature_validation hmac_enabled last_check auth_type "  \
    "auth_types apply_policies"
#define SLIDING_LOG_MAX 10000

static bool is_true(const struct wr_yaml *map, const char *name)
{
    return strcmp(wr_import_word(map, name, "false"), "true") == 0;
}

/* Where a policy is of some partitions alone, the rest of it does not hold, but that of another
 * policy of the key. |what|: how a note names it. */
static bool holds(struct wr_draft *draft, const struct wr_yaml *policy, const char *plan,
                  const char *partition, const char *what)
{
    static const char *const all[] = {"quota", "rate_limit", "acl", "complexity"};
    const struct wr_yaml *partitions = wr_import_member(policy, "partitions");
    bool some = false;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        some = some || is_true(partitions, all[i]);
    if (!some || is_true(partitions, partition))
        return true;
    wr_draft_note(draft, partitions->key->line, partitions->key->column,
                  "policy %s: partitions without %s: its %s does not hold, but that of another "
                  "policy of the key; here it is unlimited",
                  plan, partition, what);
    return false;
}

static void read_rate(struct wr_draft *draft, const struct wr_yaml *policy, const char *plan)
{
    const char *units = wr_import_word(policy, "rate", "0");
    struct wr_draft_limit like = {
        .name = "rate", .origin = "rate and per of the policies, for each key", .by = KEY};
    const char *rate;
    bool none = units[0] == '-' || strcmp(units, "0") == 0;
    int64_t per, whole;

    if (!none && !holds(draft, policy, plan, "rate_limit", "rate"))
        none = true;
    if (!wr_import_number(draft, policy, "per", &per) && !none) {
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: a rate of %s without per: left out", plan, units);
        none = true;
    }
    if (none) {
        wr_draft_set(draft, wr_draft_limit(draft, &like), plan, "unlimited");
        return;
    }
    rate = wr_draft_rate(draft, policy->line, units, per, -1);
    if (rate == NULL)
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: a rate of %s per %" PRId64 " seconds: left out", plan, units,
                      per);
    else if ((whole = strtoll(units, NULL, 10)) > SLIDING_LOG_MAX)
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: a log of %" PRId64 " stamps a key; counted by a sliding window, "
                      "which may be off by a part of the window before",
                      plan, whole);
    wr_draft_set(draft, wr_draft_limit(draft, &like), plan, rate);
}

static void read_quota(struct wr_draft *draft, const struct wr_yaml *policy, const char *plan)
{
    static const struct {
        int64_t s;
        const char *per;
    } civil[] = {{86400, "day"}, {604800, "week"}};
    struct wr_draft_limit like = {.by = KEY, .algorithm = "fixed-window"};
    int64_t most, renewal;

    if (!wr_import_number(draft, policy, "quota_max", &most) || most < 0 /* -1: none */ ||
        !holds(draft, policy, plan, "quota", "quota"))
        return;
    if (!wr_import_number(draft, policy, "quota_renewal_rate", &renewal) || renewal <= 0) {
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: a quota of %" PRId64 " that is never renewed", plan, most);
        return;
    }
    like.origin = wr_draft_text(
        draft, "quota renewed after %" PRId64 " s; there from the first use, here on the clock",
        renewal);
    like.name = "quota";
    for (size_t i = 0; i < 2; i++)
        if (renewal == civil[i].s) {
            like.kind = WR_DRAFT_QUOTA;
            like.per = civil[i].per;
            like.algorithm = NULL;
            like.name = wr_draft_text(draft, "quota-%s", like.per);
        }
    if (like.kind == WR_DRAFT_QUOTA)
        wr_draft_set(draft, wr_draft_limit(draft, &like), plan,
                     wr_draft_text(draft, "%" PRId64, most));
    else
        wr_draft_set(draft, wr_draft_limit(draft, &like), plan,
                     wr_draft_rate(draft, policy->line, wr_draft_text(draft, "%" PRId64, most),
                                   renewal, -1));
}

/* Limits of one API within a policy, which replace the policy's for it, and what is refused of it.
 */
static void note_rights(struct wr_draft *draft, const struct wr_yaml *rights, const char *plan)
{
    if (rights == NULL || rights->kind == WR_YAML_SCALAR)
        return;
    for (const struct wr_yaml *api = rights->first; api != NULL; api = api->next) {
        const struct wr_yaml *limit = wr_import_member(api, "limit");
        const struct wr_yaml *urls = wr_import_member(api, "allowed_urls");
        const char *id = api->key != NULL ? api->key->text : wr_import_word(api, "api_id", "?");
        const char *name = wr_import_word(api, "api_name", wr_import_word(api, "apiname", id));
        if (limit != NULL && limit->kind == WR_YAML_MAP && limit->count > 0)
            wr_draft_note(draft, limit->line, limit->column,
                          "limits of API %s alone: where it listens is not in this file", name);
        if (!wr_import_empty(urls))
            wr_draft_note(
                draft, urls->key->line, urls->key->column,
                "policy %s: allowed_urls of API %s: requests elsewhere are refused there, "
                "not here",
                plan, name);
        wr_import_rest(draft, wr_draft_text(draft, "policy %s: API %s", plan, name), api,
                       "limit allowed_urls",
                       "api_id api_name apiid apiname versions allowance_scope");
    }
}

/* What Tyk does with a policy besides: refuse its keys, or have those beyond the rate wait. */
static void note_states(struct wr_draft *draft, const struct wr_yaml *policy, const char *plan)
{
    static const char *const others[] = {"key_expires_in", "max_query_depth"}; /* 0, -1: none */
    const struct wr_yaml *partitions = wr_import_member(policy, "partitions");
    const char *state = wr_import_word(policy, "state", "active");
    int64_t tries, interval, value;

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (wr_import_number(draft, policy, others[i], &value) && value > 0)
            wr_draft_note(draft, wr_import_member(policy, others[i])->line, 0,
                          "policy %s: %s %" PRId64 ": not carried over", plan, others[i], value);

    if (is_true(partitions, "per_api"))
        wr_draft_note(draft, partitions->key->line, partitions->key->column,
                      "policy %s: partitions: per_api: each API counts apart there; here all share "
                      "a key's count",
                      plan);
    wr_import_rest(draft, wr_draft_text(draft, "policy %s: partitions", plan), partitions,
                   "quota rate_limit acl complexity per_api", "");
    if (strcmp(state, "active") != 0)
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: its state is %s, so its keys are refused there; ban or end them "
                      "here",
                      plan, state);
    if (is_true(policy, "is_inactive"))
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: is_inactive, so its keys are refused there; ban or end them here",
                      plan);
    if (wr_import_number(draft, policy, "throttle_retry_limit", &tries) && tries > 0 &&
        wr_import_number(draft, policy, "throttle_interval", &interval) && interval > 0)
        wr_draft_note(draft, policy->line, policy->column,
                      "policy %s: requests beyond the rate are tried %" PRId64
                      " times more there, each %" PRId64 " s later; here they are refused",
                      plan, tries, interval);
}

static void read_policy(struct wr_draft *draft, const struct wr_yaml *policy, const char *id)
{
    const char *plan;

    if (policy->kind != WR_YAML_MAP) {
        wr_draft_error(draft, policy->line, policy->column, "expected a policy, as a map");
        return;
    }
    id = wr_import_word(policy, "id", wr_import_word(policy, "_id", id));
    plan = wr_draft_new_plan(draft, wr_import_word(policy, "name", id), id);
    if (plan == NULL)
        return;
    read_rate(draft, policy, plan);
    read_quota(draft, policy, plan);
    note_states(draft, policy, plan);
    note_rights(draft, wr_import_member(policy, "access_rights"), plan);
    wr_import_rest(draft, wr_draft_text(draft, "policy %s", plan), policy, WR_TYK_KNOWN,
                   WR_TYK_HARMLESS);
}

/* What the dashboard's API lists has the policies under Data. */
static const struct wr_yaml *policies_of(const struct wr_yaml *root)
{
    const struct wr_yaml *data = wr_import_member(root, "Data");

    return data != NULL && data->kind == WR_YAML_LIST ? data : root;
}

void wr_import_tyk(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    const struct wr_yaml *root = policies_of(wr_import_tree(draft, text, len));
    bool one =
        wr_import_member(root, "quota_max") != NULL || wr_import_member(root, "rate") != NULL;
    (void)name;

    if (root == NULL)
        return;
    if (root->kind == WR_YAML_SCALAR) {
        wr_draft_error(draft, root->line, root->column, "expected policies as JSON");
        return;
    }
    wr_draft_identity(draft, KEY, "Authorization");
    if (one)
        read_policy(draft, root, "policy");
    for (const struct wr_yaml *policy = one ? NULL : root->first; policy != NULL;
         policy = policy->next)
        read_policy(draft, policy, policy->key != NULL ? policy->key->text : "policy");
    if (draft->plans != NULL)
        wr_draft_note(draft, 0, 0,
                      "which keys have which policy is with the keys: name them in "
                      "identity.plan.keys, or make customers; others count as plan %s",
                      draft->plans->name);
}
