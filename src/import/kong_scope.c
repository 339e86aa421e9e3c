/* kong_scope.c - whom and what a plugin of Kong is for: all requests, the paths of a route or of
 * all routes of a service, and of them those of a consumer or a group, which is a plan here.
 *
 * Where a route chooses by what has no counterpart (hosts, headers, regular expressions), its paths
 * hold alone, which is noted; where it has no paths, its limits are left out. */
#include "import/kong_scope.h"

#include <string.h>

#include "import/kong_rest.h"

/* What |of| says of another entity: "shop", or {name: shop}. NULL: nothing. */
static const char *named(const struct wr_yaml *of, const char *member)
{
    const struct wr_yaml *to = wr_import_member(of, member);

    if (to == NULL || to->kind != WR_YAML_MAP)
        return wr_import_word(of, member, NULL);
    return wr_import_word(to, "name",
                          wr_import_word(to, "username", wr_import_word(to, "id", NULL)));
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

static void add_path(struct wr_draft *draft, const struct wr_yaml *path,
                     struct wr_kong_scope *scope)
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
static void add_route(struct wr_draft *draft, const struct wr_yaml *route,
                      struct wr_kong_scope *scope)
{
    const struct wr_yaml *path = wr_import_first(route, "paths");
    const struct wr_yaml *by = wr_kong_narrowing(route);

    if (path == NULL) {
        scope->all = scope->all || by == NULL;
        scope->unsaid = scope->unsaid || by != NULL;
        return;
    }
    if (by != NULL)
        wr_draft_note(draft, by->line, by->column,
                      "%s: its %s; here its paths hold whatever those are", scope->what,
                      by->key->text);
    for (; path != NULL; path = path->next)
        add_path(draft, path, scope);
}

/* One of the routes of a service, whose methods are not told apart from its other routes'. */
static void add_route_of_many(struct wr_draft *draft, const struct wr_yaml *route,
                              struct wr_kong_scope *scope)
{
    const struct wr_yaml *methods = wr_import_member(route, "methods");

    if (!wr_import_empty(methods))
        wr_draft_note(draft, methods->key->line, methods->key->column,
                      "%s: methods of its route %s; here its paths hold for every method",
                      scope->what, wr_import_word(route, "name", "unnamed"));
    add_route(draft, route, scope);
}

static void close_scope(struct wr_kong_scope *scope)
{
    if (scope->all)
        scope->path = NULL;
}

struct wr_kong_scope wr_kong_scope_of_route(struct wr_draft *draft, const struct wr_yaml *route)
{
    struct wr_kong_scope scope = {
        .what = wr_draft_text(draft, "route %s", wr_import_word(route, "name", "unnamed")),
        .methods = joined(draft, wr_import_member(route, "methods"))};

    add_route(draft, route, &scope);
    close_scope(&scope);
    return scope;
}

/* A service is its routes, those beside it that name it among them. */
struct wr_kong_scope wr_kong_scope_of_service(struct wr_draft *draft, const struct wr_yaml *root,
                                              const struct wr_yaml *service)
{
    const struct wr_yaml *own = wr_import_member(service, "routes");
    const struct wr_yaml *others = wr_import_member(root, "routes");
    const struct wr_yaml *services = wr_import_member(root, "services");
    const char *name = wr_import_word(service, "name", "unnamed");
    struct wr_kong_scope scope = {.what = wr_draft_text(draft, "service %s", name)};

    if (own != NULL && own->kind == WR_YAML_LIST)
        for (const struct wr_yaml *route = own->first; route != NULL; route = route->next)
            add_route_of_many(draft, route, &scope);
    if (others != NULL && others->kind == WR_YAML_LIST)
        for (const struct wr_yaml *route = others->first; route != NULL; route = route->next)
            if (named(route, "service") != NULL && strcmp(named(route, "service"), name) == 0)
                add_route_of_many(draft, route, &scope);
    if (scope.path == NULL && !scope.all) /* no route leads to it here */
        scope.unsaid = scope.unsaid || services == NULL || services->count > 1;
    close_scope(&scope);
    return scope;
}

const char *wr_kong_consumer_name(const struct wr_yaml *consumer)
{
    return wr_import_word(
        consumer, "username",
        wr_import_word(consumer, "custom_id", wr_import_word(consumer, "id", "?")));
}

/* The consumer that |plugin| is for, by whichever name it is called there; NULL: it names none. */
static const char *consumer_of(struct wr_draft *draft, const struct wr_yaml *root,
                               const struct wr_yaml *plugin)
{
    const char *name = named(plugin, "consumer");

    for (const struct wr_yaml *one = name != NULL ? wr_import_first(root, "consumers") : NULL;
         one != NULL; one = one->next)
        if (strcmp(wr_import_word(one, "username", ""), name) == 0 ||
            strcmp(wr_import_word(one, "custom_id", ""), name) == 0 ||
            strcmp(wr_import_word(one, "id", ""), name) == 0)
            return wr_kong_consumer_name(one);
    if (name != NULL)
        wr_draft_note(draft, plugin->line, plugin->column,
                      "consumer %s is not in this file, so nobody has its plan; name its keys in "
                      "identity.plan.keys",
                      name);
    return name;
}

/* The plan of whom |plugin| is for, where it says so. */
static void find_plan(struct wr_draft *draft, const struct wr_yaml *root,
                      const struct wr_yaml *plugin, struct wr_kong_scope *scope)
{
    const char *consumer = consumer_of(draft, root, plugin);
    const char *group = named(plugin, "consumer_group");
    const struct wr_yaml *found;

    if (consumer == NULL && group == NULL)
        return;
    if (consumer == NULL) {
        found = find(wr_import_member(root, "consumer_groups"), group);
        group = wr_import_word(found, "name", group);
    }
    scope->plan = consumer != NULL ? wr_draft_plan(draft, consumer, "consumer")
                                   : wr_draft_plan(draft, group, "consumer group");
    if (scope->plan == NULL)
        *scope = (struct wr_kong_scope){
            .what = wr_draft_text(draft, "the plan of %s", consumer != NULL ? consumer : group),
            .unsaid = true};
}

/* One at the top may name whom it is for. */
struct wr_kong_scope wr_kong_scope_of_plugin(struct wr_draft *draft, const struct wr_yaml *root,
                                             const struct wr_yaml *plugin,
                                             const struct wr_kong_scope *around)
{
    const char *service = named(plugin, "service"), *route = named(plugin, "route");
    struct wr_kong_scope own = *around;

    if (service != NULL || route != NULL) {
        const struct wr_yaml *services = wr_import_member(root, "services");
        const struct wr_yaml *to =
            route != NULL ? find(wr_import_member(root, "routes"), route) : find(services, service);
        for (const struct wr_yaml *s = services != NULL ? services->first : NULL;
             route != NULL && to == NULL && s != NULL; s = s->next)
            to = find(wr_import_member(s, "routes"), route);
        if (to == NULL)
            own = (struct wr_kong_scope){.what = wr_draft_text(draft,
                                                               "%s %s, which is not in this file",
                                                               route != NULL ? "route" : "service",
                                                               route != NULL ? route : service),
                                         .unsaid = true};
        else
            own = route != NULL ? wr_kong_scope_of_route(draft, to)
                                : wr_kong_scope_of_service(draft, root, to);
    }
    find_plan(draft, root, plugin, &own);
    return own;
}
