/* kong.c - Kong's declarative configuration (kong.yaml, what `deck dump` writes, YAML or JSON): its
 * plugin rate-limiting, wherever it is switched on.
 *
 *   plugins: [{name: rate-limiting, config: {second, minute, hour, day, month, year, limit_by}}]
 *   services: [{name, plugins, routes: [{name, paths, methods, plugins}]}]
 *   consumers: [{username, plugins, groups: [{name}], keyauth_credentials: [{key}]}]
 *   consumer_groups: [{name, plugins}]
 *
 * Kong's windows are fixed and lie in UTC's calendar. A plugin of a consumer, or of a group, is a
 * plan of its own here. The most specific plugin of a kind replaces the others there; here all
 * limits that match hold, so what is broader and smaller must be said by hand: that is noted. */
#include "import/draft.h"
#include "import/kong_rest.h"
#include "import/kong_scope.h"

#include <inttypes.h>
#include <string.h>

/* The field that the first plugin key-auth of |of| looks for; NULL: it has none. */
static const char *key_name_of(const struct wr_yaml *of)
{
    const struct wr_yaml *plugins = wr_import_member(of, "plugins");

    if (plugins == NULL || plugins->kind != WR_YAML_LIST)
        return NULL;
    for (const struct wr_yaml *plugin = plugins->first; plugin != NULL; plugin = plugin->next) {
        const struct wr_yaml *names =
            wr_import_member(wr_import_member(plugin, "config"), "key_names");
        if (strcmp(wr_import_word(plugin, "name", ""), "key-auth") == 0 && names != NULL &&
            names->kind == WR_YAML_LIST && names->count > 0 && names->first->kind == WR_YAML_SCALAR)
            return names->first->text;
    }
    return NULL;
}

/* One for all: where plugins differ, the first counts. */
static const char *key_header_of(const struct wr_yaml *root)
{
    const struct wr_yaml *services = wr_import_member(root, "services");
    const char *name = key_name_of(root);

    if (services == NULL || services->kind != WR_YAML_LIST)
        services = NULL;
    for (const struct wr_yaml *s = services != NULL ? services->first : NULL;
         name == NULL && s != NULL; s = s->next)
        name = key_name_of(s);
    return name != NULL ? name : "apikey";
}

static bool is_true(const char *word)
{
    return strcmp(word, "true") == 0;
}

static const char *read_by(struct wr_draft *draft, const struct wr_yaml *config,
                           const struct wr_kong_scope *scope)
{
    const struct wr_yaml *at = wr_import_member(config, "limit_by");
    const char *by = wr_import_word(config, "limit_by", "consumer");

    if (strcmp(by, "ip") == 0)
        return "ip";
    if (strcmp(by, "service") == 0)
        return "";
    if (strcmp(by, "path") == 0)
        return "";
    if (strcmp(by, "header") == 0) {
        const char *header = wr_import_word(config, "header_name", "");
        const char *name = wr_draft_name(draft, header);
        wr_draft_identity(draft, name, header);
        return name;
    }
    if (strcmp(by, "consumer") != 0 && strcmp(by, "credential") != 0)
        wr_draft_note(draft, at->line, at->column, "limit_by: %s; counted by API key instead", by);
    wr_draft_identity(draft, "api_key", scope->key_header);
    return "api_key";
}

static void read_settings(struct wr_draft *draft, const struct wr_yaml *config)
{
    const struct wr_yaml *policy = wr_import_member(config, "policy");
    const char *where = wr_import_word(config, "policy", "local");
    int64_t code;

    if (wr_import_number(draft, config, "error_code", &code)) {
        if (code >= 400 && code <= 599 && (draft->status == 0 || draft->status == (int)code))
            draft->status = (int)code;
        else
            wr_draft_note(draft, config->line, config->column,
                          "error_code %" PRId64 ": here all refusals have %d", code,
                          draft->status != 0 ? draft->status : 429);
    }
    if (strcmp(where, "local") != 0)
        wr_draft_note(
            draft, policy->line, policy->column,
            "policy: %s; counts here are this host's until a store is named: store: "
            "{redis: ..., shared: true, when_gone: %s}",
            where, is_true(wr_import_word(config, "fault_tolerant", "true")) ? "open" : "closed");
    wr_import_rest(draft, "plugin rate-limiting", config,
                   "second minute hour day month year limit_by header_name path policy error_code",
                   "fault_tolerant hide_client_headers error_message redis redis_host redis_port "
                   "redis_database "
                   "redis_timeout redis_username redis_password redis_ssl redis_ssl_verify "
                   "redis_server_name sync_rate");
}

static void add_window(struct wr_draft *draft, const struct wr_kong_scope *scope, const char *unit,
                       const struct wr_draft_limit *base, int64_t count)
{
    struct wr_draft_limit like = *base;
    const char *text = wr_draft_text(draft, "%" PRId64 "/%s", count, unit);

    like.name = wr_draft_text(draft, "%s-%s", base->name, unit);
    like.origin =
        wr_draft_text(draft, "%s, for each %s", base->origin, unit); /* not to be merged */
    if (strcmp(unit, "year") == 0) {
        text = wr_draft_text(draft, "%" PRId64 "/365d", count);
        wr_draft_note(draft, 0, 0, "%s: %" PRId64 " a year are counted by 365 days", scope->what,
                      count);
    } else if (strcmp(unit, "day") == 0 || strcmp(unit, "month") == 0) {
        like.kind = WR_DRAFT_QUOTA;
        like.per = unit;
        like.algorithm = NULL;
        text = wr_draft_text(draft, "%" PRId64, count);
    }
    wr_draft_set(draft, wr_draft_limit(draft, &like), scope->plan, text);
}

static void read_plugin(struct wr_draft *draft, const struct wr_yaml *plugin,
                        const struct wr_kong_scope *scope)
{
    static const char *const units[] = {"second", "minute", "hour", "day", "month", "year"};
    const struct wr_yaml *config = wr_import_member(plugin, "config");
    /* In Kubernetes the name is the object's, and the plugin has a member of its own. */
    const char *name = wr_import_word(plugin, "plugin", wr_import_word(plugin, "name", "?"));
    struct wr_draft_limit base = {.algorithm = "fixed-window"};
    int64_t count;

    if (strcmp(wr_import_word(plugin, "enabled", "true"), "false") == 0 ||
        is_true(wr_import_word(plugin, "disabled", "false")))
        return;
    if (strcmp(name, "key-auth") == 0)
        wr_kong_note_key_names(draft, plugin, scope->what, scope->key_header);
    if (strcmp(name, "rate-limiting") != 0) {
        if (strstr(name, "rate-limiting") != NULL || strstr(name, "ratelimiting") != NULL)
            wr_draft_note(draft, plugin->line, plugin->column, "%s: plugin %s", scope->what, name);
        return;
    }
    if (scope->unsaid) {
        wr_draft_note(draft, plugin->line, plugin->column,
                      "%s: how it is reached has no counterpart, so its limits were left out",
                      scope->what);
        return;
    }
    base.name = wr_draft_text(draft, "kong-%s", scope->plan != NULL ? "consumers" : scope->what);
    base.origin = scope->plan != NULL
                      ? "plugin rate-limiting of the consumers"
                      : wr_draft_text(draft, "plugin rate-limiting of %s", scope->what);
    base.by = read_by(draft, config, scope);
    base.methods = scope->methods;
    base.path = scope->path;
    if (base.path == NULL)
        base.path = wr_import_word(config, "path", NULL);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (wr_import_number(draft, config, units[i], &count) && count >= 0)
            add_window(draft, scope, units[i], &base, count);
    read_settings(draft, config);
    wr_kong_note_plugin(draft, plugin, scope->what);
}

/* ---- walking --------------------------------------------------------------------------------- */

static void read_plugins(struct wr_draft *draft, const struct wr_yaml *root,
                         const struct wr_yaml *of, const struct wr_kong_scope *scope)
{
    const struct wr_yaml *plugins = wr_import_member(of, "plugins");

    if (plugins == NULL || plugins->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *plugin = plugins->first; plugin != NULL; plugin = plugin->next) {
        struct wr_kong_scope own = wr_kong_scope_of_plugin(draft, root, plugin, scope);
        own.key_header = key_header_of(root);
        read_plugin(draft, plugin, &own);
    }
}

static void read_routes(struct wr_draft *draft, const struct wr_yaml *root,
                        const struct wr_yaml *of)
{
    const struct wr_yaml *routes = wr_import_member(of, "routes");

    if (routes == NULL || routes->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *route = routes->first; route != NULL; route = route->next) {
        struct wr_kong_scope scope;
        wr_kong_note_route(draft, route);
        if (wr_import_member(route, "plugins") == NULL)
            continue;
        scope = wr_kong_scope_of_route(draft, route);
        read_plugins(draft, root, route, &scope);
    }
}

static void read_services(struct wr_draft *draft, const struct wr_yaml *root)
{
    const struct wr_yaml *services = wr_import_member(root, "services");

    if (services == NULL || services->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *service = services->first; service != NULL;
         service = service->next) {
        wr_kong_note_service(draft, service);
        if (wr_import_member(service, "plugins") != NULL) {
            const struct wr_kong_scope scope = wr_kong_scope_of_service(draft, root, service);
            read_plugins(draft, root, service, &scope);
        }
        read_routes(draft, root, service);
    }
}

/* The plan of the group of |consumer|, for who has no plugin of his own; NULL: none. */
static const char *group_of(struct wr_draft *draft, const struct wr_yaml *consumer)
{
    const char *found = NULL;

    for (const struct wr_yaml *group = wr_import_first(consumer, "groups"); group != NULL;
         group = group->next) {
        const char *name =
            group->kind == WR_YAML_SCALAR ? group->text : wr_import_word(group, "name", NULL);
        const char *plan = name != NULL ? wr_draft_find_plan(draft, name, "consumer group") : NULL;
        if (found == NULL)
            found = plan;
        else if (plan != NULL)
            wr_draft_note(draft, group->line, group->column,
                          "consumer %s: group %s: here it has plan %s alone",
                          wr_kong_consumer_name(consumer), name, found);
    }
    return found;
}

/* Groups of consumers are plans too; those who are in one are told apart as ever. */
static void read_groups(struct wr_draft *draft, const struct wr_yaml *root)
{
    const struct wr_yaml *groups = wr_import_member(root, "consumer_groups");

    if (groups == NULL || groups->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *group = groups->first; group != NULL; group = group->next) {
        const char *name = wr_import_word(group, "name", "unnamed");
        struct wr_kong_scope scope = {.what = wr_draft_text(draft, "consumer group %s", name)};
        wr_kong_note_group(draft, group);
        if (wr_import_member(group, "plugins") == NULL)
            continue;
        scope.plan = wr_draft_plan(draft, name, "consumer group");
        if (scope.plan != NULL)
            read_plugins(draft, root, group, &scope);
    }
}

/* Has |consumer| a plugin of its own that limits? */
static bool has_limits(const struct wr_yaml *consumer)
{
    const struct wr_yaml *plugin = wr_import_first(consumer, "plugins");

    while (plugin != NULL && strcmp(wr_import_word(plugin, "name", ""), "rate-limiting") != 0)
        plugin = plugin->next;
    return plugin != NULL;
}

static void read_consumers(struct wr_draft *draft, const struct wr_yaml *root)
{
    const struct wr_yaml *one, *key;

    for (one = wr_import_first(root, "consumers"); one != NULL; one = one->next) {
        const char *name = wr_kong_consumer_name(one);
        struct wr_kong_scope scope = {.what = wr_draft_text(draft, "consumer %s", name)};
        scope.plan = has_limits(one) ? wr_draft_plan(draft, name, "consumer")
                                     : wr_draft_find_plan(draft, name, "consumer");
        if (scope.plan == NULL && has_limits(one))
            continue; /* the plan was left out, which is noted */
        read_plugins(draft, root, one, &scope);
        if (scope.plan == NULL)
            scope.plan = group_of(draft, one);
        for (key = wr_import_first(one, "keyauth_credentials"); key != NULL; key = key->next)
            if (wr_import_word(key, "key", NULL) != NULL && scope.plan != NULL)
                wr_draft_key(draft, wr_import_word(key, "key", ""), scope.plan);
        wr_kong_note_consumer(draft, one, name, scope.plan);
    }
}

void wr_import_kong(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    const struct wr_yaml *root = wr_import_tree(draft, text, len);
    const struct wr_kong_scope everywhere = {.what = "everything"};
    const struct wr_yaml *consumers;
    (void)name;

    if (root == NULL)
        return;
    if (root->kind != WR_YAML_MAP) {
        wr_draft_error(draft, root->line, root->column,
                       "expected Kong's declarative configuration, as a map");
        return;
    }
    consumers = wr_import_member(root, "consumers");
    if ((consumers != NULL && consumers->kind == WR_YAML_LIST) ||
        wr_import_member(root, "consumer_groups") != NULL)
        (void)wr_draft_plan(draft, "default", "whoever is no consumer below");
    if (wr_import_word(root, "config", NULL) != NULL || wr_import_member(root, "config") != NULL) {
        const struct wr_kong_scope plugin = {.what = "everything", .key_header = "apikey"};
        read_plugin(draft, root, &plugin); /* one plugin alone, as the admin API shows it */
        wr_kong_note_alone(draft, root);
    } else {
        wr_kong_note_root(draft, root);
    }
    read_plugins(draft, root, root, &everywhere);
    read_services(draft, root);
    read_routes(draft, root, root);
    read_groups(draft, root);
    read_consumers(draft, root);
    if (draft->limits != NULL && draft->limits->next != NULL)
        wr_draft_note(draft, 0, 0,
                      "in Kong the most specific plugin replaces the others; here every limit that "
                      "matches holds");
}
