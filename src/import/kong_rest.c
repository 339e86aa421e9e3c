/* kong_rest.c - what entities of Kong say that was not carried over.
 *
 * Each kind of entity has a list of members that the reader knows, and one of those that have no
 * part in what is limited (timeouts, tags, certificates); any other is noted by its name, so that a
 * member that a later version of Kong adds is not dropped in silence. */
#include "import/kong_rest.h"

#include <string.h>

#define COMMON " id tags created_at updated_at"

void wr_kong_note_root(struct wr_draft *draft, const struct wr_yaml *root)
{
    wr_import_rest(draft, "configuration", root,
                   "services routes plugins consumers consumer_groups _info",
                   "_format_version _transform _comment _ignore _workspace _konnect certificates "
                   "ca_certificates snis upstreams targets vaults keys key_sets licenses acls "
                   "filter_chains");
    wr_import_rest(draft, "_info", wr_import_member(root, "_info"), "", "select_tags");
}

void wr_kong_note_service(struct wr_draft *draft, const struct wr_yaml *service)
{
    const char *what =
        wr_draft_text(draft, "service %s", wr_import_word(service, "name", "unnamed"));

    if (strcmp(wr_import_word(service, "enabled", "true"), "false") == 0)
        wr_draft_note(draft, service->line, service->column,
                      "%s is not enabled, so nothing reaches it there; here its limits hold", what);
    wr_import_rest(draft, what, service, "name routes plugins enabled",
                   "host port url protocol path retries connect_timeout read_timeout write_timeout "
                   "ca_certificates client_certificate tls_verify tls_verify_depth" COMMON);
}

void wr_kong_note_route(struct wr_draft *draft, const struct wr_yaml *route)
{
    wr_import_rest(
        draft, wr_draft_text(draft, "route %s", wr_import_word(route, "name", "unnamed")), route,
        "name service plugins paths methods hosts headers snis sources destinations "
        "expression",
        "protocols strip_path preserve_host regex_priority https_redirect_status_code "
        "path_handling request_buffering response_buffering priority" COMMON);
}

void wr_kong_note_group(struct wr_draft *draft, const struct wr_yaml *group)
{
    wr_import_rest(draft,
                   wr_draft_text(draft, "consumer group %s", wr_import_word(group, "name", "?")),
                   group, "name plugins", COMMON);
}

void wr_kong_note_plugin(struct wr_draft *draft, const struct wr_yaml *plugin, const char *what)
{
    wr_import_rest(draft, wr_draft_text(draft, "%s: plugin rate-limiting", what), plugin,
                   "name plugin config enabled disabled consumer consumer_group service route",
                   "instance_name protocols ordering apiVersion kind metadata status" COMMON);
}

void wr_kong_note_alone(struct wr_draft *draft, const struct wr_yaml *plugin)
{
    static const char *const whom[] = {"consumer", "consumer_group", "service", "route"};

    for (size_t i = 0; i < sizeof whom / sizeof whom[0]; i++) {
        const struct wr_yaml *at = wr_import_member(plugin, whom[i]);
        if (!wr_import_empty(at))
            wr_draft_note(draft, at->key->line, at->key->column,
                          "plugin alone: its %s is not in this file; here its limits hold for "
                          "everything",
                          whom[i]);
    }
}

void wr_kong_note_key_names(struct wr_draft *draft, const struct wr_yaml *plugin, const char *what,
                            const char *header)
{
    const struct wr_yaml *name = wr_import_first(wr_import_member(plugin, "config"), "key_names");

    for (; name != NULL; name = name->next)
        if (name->kind == WR_YAML_SCALAR && strcmp(name->text, header) != 0)
            wr_draft_note(draft, name->line, name->column,
                          "%s: plugin key-auth: keys in %s; here they are looked for in %s alone",
                          what, name->text, header);
}

const struct wr_yaml *wr_kong_narrowing(const struct wr_yaml *route)
{
    static const char *const by[] = {"expression", "hosts",   "headers",
                                     "snis",       "sources", "destinations"};

    for (size_t i = 0; i < sizeof by / sizeof by[0]; i++)
        if (!wr_import_empty(wr_import_member(route, by[i])))
            return wr_import_member(route, by[i]);
    return NULL;
}

/* Does a limit count callers of |plan| by their keys? NULL: of no plan of their own. */
static bool is_counted(const struct wr_draft *draft, const char *plan)
{
    for (const struct wr_draft_limit *l = draft->limits; l != NULL; l = l->next)
        for (const struct wr_draft_value *v = l->values; v != NULL; v = v->next)
            if (strcmp(l->by, "api_key") == 0 &&
                (v->plan == NULL || (plan != NULL && strcmp(v->plan, plan) == 0)))
                return true;
    return false;
}

void wr_kong_note_consumer(struct wr_draft *draft, const struct wr_yaml *consumer, const char *name,
                           const char *plan)
{
    unsigned keys = 0;

    for (const struct wr_yaml *key = wr_import_first(consumer, "keyauth_credentials"); key != NULL;
         key = key->next)
        keys += wr_import_word(key, "key", NULL) != NULL;
    if (keys > 1 && is_counted(draft, plan))
        wr_draft_note(draft, consumer->line, consumer->column,
                      "consumer %s has %u keys, which limit_by: consumer counts together there; "
                      "here each key counts apart, so that it may have %u times as much: make it "
                      "a customer and count by: [customer]",
                      name, keys, keys);
    if (keys == 0 && plan != NULL)
        wr_draft_note(draft, consumer->line, consumer->column,
                      "consumer %s: no key of it is in this file, so nobody has plan %s; name its "
                      "keys in identity.plan.keys",
                      name, plan);
    wr_import_rest(draft, wr_draft_text(draft, "consumer %s", name), consumer,
                   "username custom_id plugins groups keyauth_credentials", "acls" COMMON);
}
