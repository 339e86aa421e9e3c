/* kong.c - Kong's declarative configuration (kong.yaml, what `deck dump` writes, YAML or JSON): its
 * plugin rate-limiting, wherever it is switched on.
 *
 *   plugins: [{name: rate-limiting, config: {second, minute, hour, day, month, year, limit_by}}]
 *   services: [{name, plugins, routes: [{name, paths, methods, plugins}]}]
 *   consumers: [{username, plugins, keyauth_credentials: [{key}]}]
 *
 * Kong's windows are fixed and lie in UTC's calendar. A plugin of a consumer is a plan of its own
 * here. The most specific plugin of a kind replaces the others there; here all limits that match
 * hold, so what is broader and smaller must be said by hand: that is noted. */
#include "import/draft.h"

#include <inttypes.h>
#include <string.h>

/* Where a plugin is switched on. */
struct scope {
    const char *what;    /* "service shop", for comments */
    const char *methods; /* of a route */
    const char *path;
    const char *plan; /* of a consumer */
    bool unsaid;      /* a part of it has no counterpart: what is under it is not carried over */
};

static bool is_true(const char *word)
{
    return strcmp(word, "true") == 0;
}

static const char *read_by(struct wr_draft *draft, const struct wr_yaml *config)
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
    wr_draft_identity(draft, "api_key", "apikey");
    return "api_key";
}

static void read_settings(struct wr_draft *draft, const struct wr_yaml *config)
{
    const struct wr_yaml *policy = wr_import_member(config, "policy");
    const char *where = wr_import_word(config, "policy", "local");
    int64_t code;

    if (wr_import_number(draft, config, "error_code", &code) && code >= 400 && code <= 599)
        draft->status = (int)code;
    if (strcmp(where, "local") != 0)
        wr_draft_note(
            draft, policy->line, policy->column,
            "policy: %s; counts here are this host's until a store is named: store: "
            "{redis: ..., shared: true, when_gone: %s}",
            where, is_true(wr_import_word(config, "fault_tolerant", "true")) ? "open" : "closed");
    wr_import_rest(draft, config,
                   "second minute hour day month year limit_by header_name path policy error_code",
                   "fault_tolerant hide_client_headers redis redis_host redis_port redis_database "
                   "redis_timeout redis_username redis_password redis_ssl redis_ssl_verify "
                   "redis_server_name sync_rate");
}

static void add_window(struct wr_draft *draft, const struct scope *scope, const char *unit,
                       const struct wr_draft_limit *base, int64_t count)
{
    struct wr_draft_limit like = *base;
    const char *text = wr_draft_text(draft, "%" PRId64 "/%s", count, unit);

    like.name = wr_draft_text(draft, "%s-%s", base->name, unit);
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
                        const struct scope *scope)
{
    static const char *const units[] = {"second", "minute", "hour", "day", "month", "year"};
    const struct wr_yaml *config = wr_import_member(plugin, "config");
    const char *name = wr_import_word(plugin, "name", "?");
    struct wr_draft_limit base = {.algorithm = "fixed-window"};
    int64_t count;

    if (strcmp(wr_import_word(plugin, "enabled", "true"), "false") == 0)
        return;
    if (strcmp(name, "rate-limiting") != 0) {
        if (strstr(name, "rate-limiting") != NULL || strstr(name, "ratelimiting") != NULL)
            wr_draft_note(draft, plugin->line, plugin->column, "%s: plugin %s", scope->what, name);
        return;
    }
    if (scope->unsaid) {
        wr_draft_note(draft, plugin->line, plugin->column,
                      "%s: its hosts or paths have no counterpart, so its limits were left out",
                      scope->what);
        return;
    }
    base.name = wr_draft_text(draft, "kong-%s", scope->plan != NULL ? "consumers" : scope->what);
    base.origin = scope->plan != NULL
                      ? "plugin rate-limiting of the consumers"
                      : wr_draft_text(draft, "plugin rate-limiting of %s", scope->what);
    base.by = read_by(draft, config);
    base.methods = scope->methods;
    base.path = scope->path;
    if (base.path == NULL)
        base.path = wr_import_word(config, "path", NULL);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (wr_import_number(draft, config, units[i], &count) && count >= 0)
            add_window(draft, scope, units[i], &base, count);
    read_settings(draft, config);
}

static void read_plugins(struct wr_draft *draft, const struct wr_yaml *of,
                         const struct scope *scope)
{
    const struct wr_yaml *plugins = wr_import_member(of, "plugins");

    if (plugins == NULL || plugins->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *plugin = plugins->first; plugin != NULL; plugin = plugin->next) {
        struct scope own = *scope;
        const char *consumer = wr_import_word(plugin, "consumer", NULL);
        /* One at the top may name whom it is for. */
        if (consumer != NULL)
            own.plan = wr_draft_plan(draft, consumer, "consumer");
        own.unsaid = own.unsaid || wr_import_word(plugin, "service", NULL) != NULL ||
                     wr_import_word(plugin, "route", NULL) != NULL;
        read_plugin(draft, plugin, &own);
    }
}

/* A list of words as "A, B"; NULL: none. */
static const char *joined(struct wr_draft *draft, const struct wr_yaml *list)
{
    const char *out = NULL;

    if (list == NULL || list->kind != WR_YAML_LIST)
        return NULL;
    for (const struct wr_yaml *item = list->first; item != NULL; item = item->next)
        if (item->kind == WR_YAML_SCALAR)
            out = out == NULL ? item->text : wr_draft_text(draft, "%s, %s", out, item->text);
    return out;
}

/* The pattern of a route's only path, a prefix there. False: it cannot be said. */
static bool read_path(struct wr_draft *draft, const struct wr_yaml *route, const char **path)
{
    const struct wr_yaml *paths = wr_import_member(route, "paths");
    const char *prefix;

    *path = NULL;
    if (paths == NULL || paths->kind != WR_YAML_LIST || paths->count == 0)
        return wr_import_member(route, "hosts") == NULL;
    prefix = paths->first->kind == WR_YAML_SCALAR ? paths->first->text : "~";
    if (paths->count != 1 || prefix[0] != '/' || strpbrk(prefix, "*{}\"\\") != NULL)
        return false;
    if (strcmp(prefix, "/") == 0)
        return true;
    *path = wr_draft_text(draft, "%s%s", prefix, prefix[strlen(prefix) - 1] == '/' ? "**" : "/**");
    return true;
}

static void read_routes(struct wr_draft *draft, const struct wr_yaml *of)
{
    const struct wr_yaml *routes = wr_import_member(of, "routes");

    if (routes == NULL || routes->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *route = routes->first; route != NULL; route = route->next) {
        struct scope scope = {
            .what = wr_draft_text(draft, "route %s", wr_import_word(route, "name", "unnamed")),
            .methods = joined(draft, wr_import_member(route, "methods")),
        };
        scope.unsaid = !read_path(draft, route, &scope.path);
        read_plugins(draft, route, &scope);
    }
}

/* A service is its routes: with one of them, what holds for it holds there. */
static void read_services(struct wr_draft *draft, const struct wr_yaml *services)
{
    if (services == NULL || services->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *service = services->first; service != NULL;
         service = service->next) {
        const struct wr_yaml *routes = wr_import_member(service, "routes");
        struct scope scope = {
            .what = wr_draft_text(draft, "service %s", wr_import_word(service, "name", "unnamed"))};
        if (routes != NULL && routes->kind == WR_YAML_LIST && routes->count == 1)
            scope.unsaid = !read_path(draft, routes->first, &scope.path);
        else
            scope.unsaid = services->count > 1;
        read_plugins(draft, service, &scope);
        read_routes(draft, service);
    }
}

static void read_consumers(struct wr_draft *draft, const struct wr_yaml *consumers)
{
    if (consumers == NULL || consumers->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *one = consumers->first; one != NULL; one = one->next) {
        const char *name = wr_import_word(one, "username", wr_import_word(one, "custom_id", "?"));
        const struct wr_yaml *keys = wr_import_member(one, "keyauth_credentials");
        struct scope scope = {.what = wr_draft_text(draft, "consumer %s", name)};
        if (wr_import_member(one, "plugins") == NULL)
            continue;
        scope.plan = wr_draft_plan(draft, name, "consumer");
        read_plugins(draft, one, &scope);
        if (keys == NULL || keys->kind != WR_YAML_LIST)
            continue;
        for (const struct wr_yaml *key = keys->first; key != NULL; key = key->next)
            if (wr_import_word(key, "key", NULL) != NULL && scope.plan != NULL)
                wr_draft_key(draft, wr_import_word(key, "key", ""), scope.plan);
    }
}

void wr_import_kong(struct wr_draft *draft, const char *name, const char *text, size_t len)
{
    const struct wr_yaml *root = wr_import_tree(draft, text, len);
    const struct scope everywhere = {.what = "everything"};
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
    if (consumers != NULL && consumers->kind == WR_YAML_LIST)
        (void)wr_draft_plan(draft, "default", "whoever is no consumer below");
    if (wr_import_word(root, "config", NULL) != NULL || wr_import_member(root, "config") != NULL) {
        const struct scope plugin = {.what = "everything"};
        read_plugin(draft, root, &plugin); /* one plugin alone, as the admin API shows it */
    }
    read_plugins(draft, root, &everywhere);
    read_services(draft, wr_import_member(root, "services"));
    read_routes(draft, root);
    read_consumers(draft, consumers);
    if (draft->limits != NULL && draft->limits->next != NULL)
        wr_draft_note(draft, 0, 0,
                      "in Kong the most specific plugin replaces the others; here every limit that "
                      "matches holds");
}
