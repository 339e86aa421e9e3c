/* aws.c - usage plans of Amazon API Gateway, as `aws apigateway get-usage-plans` prints them, or
 * get-usage-plan one of them.
 *
 *   throttle  {rateLimit, burstLimit}   a token bucket of each API key
 *   quota     {limit, offset, period}   DAY, WEEK or MONTH, in UTC
 *   apiStages [{apiId, stage, throttle: {"/pets/GET": {...}}}]   the same for one method
 *
 * A plan there is a plan here; which keys have it stands in another export. */
#include "import/draft.h"

#include <inttypes.h>
#include <string.h>

#define KEY "api_key"

static void read_throttle(struct wr_draft *draft, const struct wr_yaml *throttle, const char *plan,
                          const struct wr_draft_limit *like)
{
    const char *units = wr_import_word(throttle, "rateLimit", NULL);
    const char *rate;
    int64_t burst;

    if (throttle == NULL)
        return;
    wr_import_rest(draft, "throttle", throttle, "rateLimit burstLimit", "");
    if (!wr_import_number(draft, throttle, "burstLimit", &burst))
        burst = -1;
    if (wr_import_member(throttle, "burstLimit") != NULL && burst < 1) {
        wr_draft_note(draft, throttle->line, throttle->column,
                      "throttle of plan %s: expected a burstLimit of at least 1; here the burst is "
                      "the rate's",
                      plan);
        burst = -1;
    }
    rate = units != NULL ? wr_draft_rate(draft, throttle->line, units, 1, burst) : NULL;
    if (rate == NULL) {
        wr_draft_note(draft, throttle->line, throttle->column,
                      "throttle of plan %s: expected a rateLimit, found %s: left out", plan,
                      units != NULL ? units : "none");
        return;
    }
    wr_draft_set(draft, wr_draft_limit(draft, like), plan, rate);
}

static void read_quota(struct wr_draft *draft, const struct wr_yaml *quota, const char *plan)
{
    static const char *const periods[][2] = {{"DAY", "day"}, {"WEEK", "week"}, {"MONTH", "month"}};
    const char *period = wr_import_word(quota, "period", "");
    struct wr_draft_limit like = {.kind = WR_DRAFT_QUOTA, .by = KEY};
    int64_t limit, offset;

    if (quota == NULL)
        return;
    wr_import_rest(draft, "quota", quota, "limit offset period", "");
    for (size_t i = 0; i < 3; i++)
        if (strcmp(period, periods[i][0]) == 0)
            like.per = periods[i][1];
    if (!wr_import_number(draft, quota, "limit", &limit) || limit < 0 || like.per == NULL) {
        wr_draft_note(draft, quota->line, quota->column,
                      "quota of plan %s: expected a limit and DAY, WEEK or MONTH, found \"%s\"",
                      plan, period);
        return;
    }
    if (wr_import_number(draft, quota, "offset", &offset) && offset != 0)
        wr_draft_note(draft, quota->line, quota->column,
                      "quota of plan %s: offset %" PRId64 ", by which the first period is smaller",
                      plan, offset);
    like.name = wr_draft_text(draft, "quota-%s", like.per);
    like.origin = "quota of the usage plans; by: [customer] instead counts for bills";
    wr_draft_set(draft, wr_draft_limit(draft, &like), plan,
                 wr_draft_text(draft, "%" PRId64, limit));
}

/* "/pets/{id}/GET", "/GET" for the root. */
static void read_method(struct wr_draft *draft, const struct wr_yaml *throttle, const char *plan)
{
    const char *resource = throttle->key->text, *slash = strrchr(resource, '/');
    struct wr_draft_limit like = {.by = KEY, .algorithm = "token-bucket"};
    size_t len;

    if (slash == NULL || strpbrk(resource, "\"\\+\n") != NULL) {
        wr_draft_note(draft, throttle->key->line, throttle->key->column,
                      "throttle of method \"%s\": its path has no counterpart", resource);
        return;
    }
    len = slash == resource ? 1 : (size_t)(slash - resource);
    if (strcmp(resource, "*/*") != 0)
        like.path = wr_draft_text(draft, "%.*s", (int)len, resource);
    if (slash[1] != '*' && strcmp(slash + 1, "ANY") != 0)
        like.methods = wr_draft_text(draft, "%s", slash + 1);
    like.name = wr_draft_text(draft, "throttle%s", resource);
    like.origin = wr_draft_text(draft, "throttle of the method %s", resource);
    read_throttle(draft, throttle, plan, &like);
}

static void read_stages(struct wr_draft *draft, const struct wr_yaml *stages, const char *plan)
{
    if (stages == NULL || stages->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *stage = stages->first; stage != NULL; stage = stage->next) {
        const struct wr_yaml *methods = wr_import_member(stage, "throttle");
        wr_import_rest(draft, "apiStages", stage, "apiId stage throttle", "");
        if (stages->count > 1 && !wr_import_empty(methods))
            wr_draft_note(draft, stage->line, stage->column,
                          "throttle of API %s alone: here paths of all APIs are one space",
                          wr_import_word(stage, "apiId", "?"));
        if (methods == NULL || methods->kind != WR_YAML_MAP)
            continue;
        for (const struct wr_yaml *one = methods->first; one != NULL; one = one->next)
            read_method(draft, one, plan);
    }
}

static void read_plan(struct wr_draft *draft, const struct wr_yaml *item)
{
    const char *id = wr_import_word(item, "id", "?");
    const char *name = wr_import_word(item, "name", id);
    const char *plan = wr_draft_new_plan(draft, name, id);
    const struct wr_draft_limit all = {.name = "throttle",
                                       .origin = "throttle of the usage plans, for each key",
                                       .by = KEY,
                                       .algorithm = "token-bucket"};

    if (plan == NULL)
        return;
    read_throttle(draft, wr_import_member(item, "throttle"), plan, &all);
    read_quota(draft, wr_import_member(item, "quota"), plan);
    read_stages(draft, wr_import_member(item, "apiStages"), plan);
    wr_import_rest(draft, wr_draft_text(draft, "plan %s", plan), item,
                   "id name throttle quota apiStages", "description productCode tags");
}

/* {"items": [...]}, the list alone (--query items), or one plan. NULL: none of them. */
static const struct wr_yaml *find_plans(struct wr_draft *draft, const struct wr_yaml *root)
{
    const struct wr_yaml *items = wr_import_member(root, "items");
    const struct wr_yaml *position = wr_import_member(root, "position");

    if (items == NULL)
        items = wr_import_member(root, "Items");
    if (position == NULL)
        position = wr_import_member(root, "NextToken"); /* with --max-items */
    if (items != NULL && !wr_import_empty(position))
        wr_draft_note(draft, position->key->line, position->key->column,
                      "%s: there are more usage plans than in this file; see --starting-token",
                      position->key->text);
    if (items != NULL)
        wr_import_rest(draft, "usage plans", root, "items Items position NextToken",
                       "ResponseMetadata");
    if (items == NULL && (root->kind == WR_YAML_LIST || wr_import_member(root, "id") != NULL))
        items = root;
    if (items != NULL && (items->kind == WR_YAML_LIST || items == root))
        return items;
    wr_draft_error(draft, root->line, root->column,
                   "expected {\"items\": [...]}, as aws apigateway get-usage-plans prints it");
    return NULL;
}

void wr_import_aws(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    const struct wr_yaml *root = wr_import_tree(draft, text, len), *items;
    (void)name;

    items = root != NULL ? find_plans(draft, root) : NULL;
    if (items == NULL)
        return;
    wr_draft_identity(draft, KEY, "X-Api-Key");
    if (items->kind == WR_YAML_MAP)
        read_plan(draft, items);
    for (const struct wr_yaml *item = items->kind == WR_YAML_LIST ? items->first : NULL;
         item != NULL; item = item->next)
        read_plan(draft, item);
    if (draft->plans != NULL)
        wr_draft_note(draft, 0, 0,
                      "which keys have which plan is in get-usage-plan-keys: name them in "
                      "identity.plan.keys, or make customers; others count as plan %s",
                      draft->plans->name);
}
