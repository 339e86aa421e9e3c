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

#include <inttypes.h>
#include <string.h>

/* Where a plugin is switched on. */
struct scope {
    const char *what;       /* "service shop", for comments */
    const char *methods;    /* of a route */
    const char *path;       /* patterns, as of struct wr_draft_limit */
    const char *plan;       /* of a consumer */
    const char *key_header; /* of the plugin key-auth */
    bool all;               /* every path */
    bool unsaid; /* a part of it has no counterpart: what is under it is not carried over */
};

/* What |of| says of another entity: "shop", or {name: shop}. NULL: nothing. */
static const char *named(const struct wr_yaml *of, const char *member)
{
    const struct wr_yaml *to = wr_import_member(of, member);

    if (to == NULL || to->kind != WR_YAML_MAP)
        return wr_import_word(of, member, NULL);
    return wr_import_word(to, "name",
                          wr_import_word(to, "username", wr_import_word(to, "id", NULL)));
}

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

/* The item of |list| that is called |name|; NULL: there is none. */
static const struct wr_yaml *find(const struct wr_yaml *list, const char *name)
{
    if (list == NULL || list->kind != WR_YAML_LIST)
        return NULL;
    for (const struct wr_yaml *item = list->first; item != NULL; item = item->next)
        if (strcmp(wr_import_word(item, "name", ""), name) == 0 ||
            strcmp(wr_import_word(item, "id", ""), name) == 0)
            return item;
    return NULL;
}

static bool is_true(const char *word)
{
    return strcmp(word, "true") == 0;
}

static const char *read_by(struct wr_draft *draft, const struct wr_yaml *config,
                           const struct scope *scope)
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
                   "fault_tolerant hide_client_headers error_message redis redis_host redis_port "
                   "redis_database "
                   "redis_timeout redis_username redis_password redis_ssl redis_ssl_verify "
                   "redis_server_name sync_rate");
}

static void add_window(struct wr_draft *draft, const struct scope *scope, const char *unit,
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
                        const struct scope *scope)
{
    static const char *const units[] = {"second", "minute", "hour", "day", "month", "year"};
    const struct wr_yaml *config = wr_import_member(plugin, "config");
    /* In Kubernetes the name is the object's, and the plugin has a member of its own. */
    const char *name = wr_import_word(plugin, "plugin", wr_import_word(plugin, "name", "?"));
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
    base.by = read_by(draft, config, scope);
    base.methods = scope->methods;
    base.path = scope->path;
    if (base.path == NULL)
        base.path = wr_import_word(config, "path", NULL);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (wr_import_number(draft, config, units[i], &count) && count >= 0)
            add_window(draft, scope, units[i], &base, count);
    read_settings(draft, config);
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

/* ---- where routes lead ----------------------------------------------------------------------- */

static void add_path(struct wr_draft *draft, const struct wr_yaml *path, struct scope *scope)
{
    const char *prefix = path->kind == WR_YAML_SCALAR ? path->text : "~";
    const char *pattern;

    if (prefix[0] != '/' || strpbrk(prefix, "*{}\"\\\n") != NULL) {
        scope->unsaid = true;
        return;
    }
    scope->all = scope->all || strcmp(prefix, "/") == 0;
    pattern =
        wr_draft_text(draft, "%s%s", prefix, prefix[strlen(prefix) - 1] == '/' ? "**" : "/**");
    scope->path =
        scope->path == NULL ? pattern : wr_draft_text(draft, "%s\n%s", scope->path, pattern);
}

/* The paths of |route|, prefixes there, are added to those of |scope|. */
static void add_route(struct wr_draft *draft, const struct wr_yaml *route, struct scope *scope)
{
    const struct wr_yaml *paths = wr_import_member(route, "paths");
    const struct wr_yaml *hosts = wr_import_member(route, "hosts");
    bool by_host = hosts != NULL && hosts->kind == WR_YAML_LIST && hosts->count > 0;

    if (paths == NULL || paths->kind != WR_YAML_LIST || paths->count == 0) {
        scope->all = scope->all || !by_host;
        scope->unsaid = scope->unsaid || by_host;
        return;
    }
    if (by_host)
        wr_draft_note(draft, hosts->line, hosts->column,
                      "%s: its hosts; here its paths hold for every host", scope->what);
    for (const struct wr_yaml *path = paths->first; path != NULL; path = path->next)
        add_path(draft, path, scope);
}

static void close_scope(struct scope *scope)
{
    if (scope->all)
        scope->path = NULL;
}

static struct scope scope_of_route(struct wr_draft *draft, const struct wr_yaml *route)
{
    struct scope scope = {
        .what = wr_draft_text(draft, "route %s", wr_import_word(route, "name", "unnamed")),
        .methods = joined(draft, wr_import_member(route, "methods"))};

    add_route(draft, route, &scope);
    close_scope(&scope);
    return scope;
}

/* A service is its routes, those beside it that name it among them. */
static struct scope scope_of_service(struct wr_draft *draft, const struct wr_yaml *root,
                                     const struct wr_yaml *service)
{
    const struct wr_yaml *own = wr_import_member(service, "routes");
    const struct wr_yaml *others = wr_import_member(root, "routes");
    const struct wr_yaml *services = wr_import_member(root, "services");
    const char *name = wr_import_word(service, "name", "unnamed");
    struct scope scope = {.what = wr_draft_text(draft, "service %s", name)};

    if (own != NULL && own->kind == WR_YAML_LIST)
        for (const struct wr_yaml *route = own->first; route != NULL; route = route->next)
            add_route(draft, route, &scope);
    if (others != NULL && others->kind == WR_YAML_LIST)
        for (const struct wr_yaml *route = others->first; route != NULL; route = route->next)
            if (named(route, "service") != NULL && strcmp(named(route, "service"), name) == 0)
                add_route(draft, route, &scope);
    if (scope.path == NULL && !scope.all) /* no route leads to it here */
        scope.unsaid = scope.unsaid || services == NULL || services->count > 1;
    close_scope(&scope);
    return scope;
}

/* ---- walking --------------------------------------------------------------------------------- */

/* One at the top may name whom it is for. */
static struct scope scope_of_plugin(struct wr_draft *draft, const struct wr_yaml *root,
                                    const struct wr_yaml *plugin, const struct scope *around)
{
    const char *consumer = named(plugin, "consumer"), *service = named(plugin, "service");
    const char *route = named(plugin, "route");
    struct scope own = *around;

    if (service != NULL || route != NULL) {
        const struct wr_yaml *services = wr_import_member(root, "services");
        const struct wr_yaml *to =
            route != NULL ? find(wr_import_member(root, "routes"), route) : find(services, service);
        for (const struct wr_yaml *s = services != NULL ? services->first : NULL;
             route != NULL && to == NULL && s != NULL; s = s->next)
            to = find(wr_import_member(s, "routes"), route);
        if (to == NULL)
            own = (struct scope){.what = wr_draft_text(draft, "%s %s, which is not in this file",
                                                       route != NULL ? "route" : "service",
                                                       route != NULL ? route : service),
                                 .unsaid = true};
        else
            own = route != NULL ? scope_of_route(draft, to) : scope_of_service(draft, root, to);
    }
    if (consumer != NULL)
        own.plan = wr_draft_plan(draft, consumer, "consumer");
    if (consumer != NULL && own.plan == NULL)
        own = (struct scope){.what = wr_draft_text(draft, "consumer %s", consumer), .unsaid = true};
    return own;
}

static void read_plugins(struct wr_draft *draft, const struct wr_yaml *root,
                         const struct wr_yaml *of, const struct scope *scope)
{
    const struct wr_yaml *plugins = wr_import_member(of, "plugins");

    if (plugins == NULL || plugins->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *plugin = plugins->first; plugin != NULL; plugin = plugin->next) {
        struct scope own = scope_of_plugin(draft, root, plugin, scope);
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
        struct scope scope;
        if (wr_import_member(route, "plugins") == NULL)
            continue;
        scope = scope_of_route(draft, route);
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
        if (wr_import_member(service, "plugins") != NULL) {
            const struct scope scope = scope_of_service(draft, root, service);
            read_plugins(draft, root, service, &scope);
        }
        read_routes(draft, root, service);
    }
}

/* Is there one for the consumer |name|, by a plugin at the top? */
static bool is_plan(struct wr_draft *draft, const char *name)
{
    const char *plan = wr_draft_name(draft, name);

    for (const struct wr_draft_pair *p = draft->plans; p != NULL; p = p->next)
        if (strcmp(p->name, plan) == 0)
            return true;
    return false;
}

/* The group of |consumer| that is a plan: what holds for who has no plugin of his own. */
static const char *group_of(struct wr_draft *draft, const struct wr_yaml *consumer)
{
    const struct wr_yaml *groups = wr_import_member(consumer, "groups");

    if (groups == NULL || groups->kind != WR_YAML_LIST)
        return NULL;
    for (const struct wr_yaml *group = groups->first; group != NULL; group = group->next) {
        const char *name =
            group->kind == WR_YAML_SCALAR ? group->text : wr_import_word(group, "name", NULL);
        if (name != NULL && is_plan(draft, name))
            return name;
    }
    return NULL;
}

/* Groups of consumers are plans too; those who are in one are told apart as ever. */
static void read_groups(struct wr_draft *draft, const struct wr_yaml *root)
{
    const struct wr_yaml *groups = wr_import_member(root, "consumer_groups");

    if (groups == NULL || groups->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *group = groups->first; group != NULL; group = group->next) {
        const char *name = wr_import_word(group, "name", "unnamed");
        struct scope scope = {.what = wr_draft_text(draft, "consumer group %s", name)};
        if (wr_import_member(group, "plugins") == NULL)
            continue;
        scope.plan = wr_draft_plan(draft, name, "consumer group");
        if (scope.plan != NULL)
            read_plugins(draft, root, group, &scope);
    }
}

static void read_consumers(struct wr_draft *draft, const struct wr_yaml *root,
                           const struct wr_yaml *consumers)
{
    if (consumers == NULL || consumers->kind != WR_YAML_LIST)
        return;
    for (const struct wr_yaml *one = consumers->first; one != NULL; one = one->next) {
        const char *name = wr_import_word(one, "username", wr_import_word(one, "custom_id", "?"));
        const struct wr_yaml *keys = wr_import_member(one, "keyauth_credentials");
        struct scope scope = {.what = wr_draft_text(draft, "consumer %s", name)};
        if (wr_import_member(one, "plugins") == NULL && !is_plan(draft, name))
            name = group_of(draft, one);
        if (name == NULL)
            continue;
        scope.plan = wr_draft_plan(draft, name, "consumer");
        if (scope.plan == NULL)
            continue;
        read_plugins(draft, root, one, &scope);
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
    if ((consumers != NULL && consumers->kind == WR_YAML_LIST) ||
        wr_import_member(root, "consumer_groups") != NULL)
        (void)wr_draft_plan(draft, "default", "whoever is no consumer below");
    if (wr_import_word(root, "config", NULL) != NULL || wr_import_member(root, "config") != NULL) {
        const struct scope plugin = {.what = "everything", .key_header = "apikey"};
        read_plugin(draft, root, &plugin); /* one plugin alone, as the admin API shows it */
    }
    read_plugins(draft, root, root, &everywhere);
    read_services(draft, root);
    read_routes(draft, root, root);
    read_groups(draft, root);
    read_consumers(draft, root, consumers);
    if (draft->limits != NULL && draft->limits->next != NULL)
        wr_draft_note(draft, 0, 0,
                      "in Kong the most specific plugin replaces the others; here every limit that "
                      "matches holds");
}
