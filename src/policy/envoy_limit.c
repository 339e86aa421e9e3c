/* envoy_limit.c - a rate_limit of envoyproxy/ratelimit's configuration, and the scalars of Go's
 * YAML.
 *
 * Invariant: a rule that is added has a valid limit, or is unlimited, or an error was reported. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "policy/envoy_read.h"

#define PER_SECOND_MAX 1000000000U

struct written_limit {
    const struct wr_yaml *unit, *replaces, *units_at;
    const char *name;
    int64_t units;
    bool unlimited;
};

/* ---- scalars ----------------------------------------------------------------------------- */

/* Go's YAML takes these words for a truth value. */
bool wr_envoy_truth(struct wr_loader *ld, const struct wr_yaml *node, const char *what)
{
    static const char *const yes[] = {"true", "yes", "on", "y"};
    static const char *const no[] = {"false", "no", "off", "n", "", "~", "null"};

    if (node->kind == WR_YAML_SCALAR) {
        for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++)
            if (strcasecmp(node->text, yes[i]) == 0)
                return true;
        for (size_t i = 0; i < sizeof no / sizeof no[0]; i++)
            if (strcasecmp(node->text, no[i]) == 0)
                return false;
    }
    wr_error(ld, node, "%s: expected true or false, found %s", what, wr_found(node).text);
    return false;
}

/* A number with a point or an exponent, unquoted: the reference refuses it everywhere. */
static bool is_float(const struct wr_yaml *node)
{
    size_t digits = strspn(node->text, "0123456789+-");

    return node->plain && node->len > 0 && digits < node->len &&
           strspn(node->text, "0123456789+-.eE") == node->len &&
           strpbrk(node->text, "0123456789") != NULL && (node->text[digits] == '.' || digits > 0) &&
           strchr(node->text + digits, '.') == strrchr(node->text + digits, '.');
}

/* Text, or what stands for none. NULL: none, or an error. */
const char *wr_envoy_string(struct wr_loader *ld, const struct wr_yaml *node, const char *what)
{
    if (node->kind != WR_YAML_SCALAR) {
        wr_error(ld, node, "%s: expected a text, found %s", what, wr_found_kind(node));
        return NULL;
    }
    if (is_float(node)) {
        wr_error(ld, node, "%s: expected a text, found the number %s: put it in quotes", what,
                 node->text);
        return NULL;
    }
    if (node->len == 0 ||
        (node->plain && (strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0)))
        return NULL;
    return wr_keep(ld, node);
}

bool wr_envoy_is_nothing(const struct wr_yaml *node)
{
    return node->kind == WR_YAML_SCALAR &&
           (node->len == 0 || strcmp(node->text, "~") == 0 || strcasecmp(node->text, "null") == 0);
}

/* ---- rate_limit -------------------------------------------------------------------------- */

static void on_unit(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct written_limit *)into)->unit = value;
}

static void on_requests(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct written_limit *w = into;

    w->units_at = value;
    /* 010 is 8 to the reference, and 10 to whoever reads it. */
    if (value->kind == WR_YAML_SCALAR && value->len > 1 && value->text[0] == '0') {
        wr_error(ld, value,
                 "requests_per_unit: expected a decimal number without a 0 before it, found %s",
                 wr_found(value).text);
        return;
    }
    (void)wr_read_int(ld, value, "requests_per_unit", 0, UINT32_MAX, &w->units);
}

static void on_unlimited(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    ((struct written_limit *)into)->unlimited = wr_envoy_truth(ld, value, "unlimited");
}

static void on_name(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    const char *name = wr_envoy_string(ld, value, "name");

    ((struct written_limit *)into)->name = name != NULL ? name : "";
}

static void on_replaces(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct written_limit *)into)->replaces = value;
}

static void read_unit(struct wr_loader *ld, const struct wr_yaml *at, const struct written_limit *w,
                      struct wr_envoy_rule *rule)
{
    static const char *const names[WR_UNITS] = {NULL,  "second", "minute", "hour",
                                                "day", "month",  "year",   "week"};

    if (w->unit != NULL && w->unit->kind == WR_YAML_SCALAR)
        for (unsigned i = 1; i < WR_UNITS; i++)
            if (strcasecmp(w->unit->text, names[i]) == 0)
                rule->unit = (uint8_t)i;
    if (w->unlimited && rule->unit != WR_UNIT_UNKNOWN)
        wr_error(ld, w->unit, "unit: expected none where unlimited is true, found %s",
                 wr_found(w->unit).text);
    else if (!w->unlimited && rule->unit == WR_UNIT_UNKNOWN)
        wr_error(ld, w->unit != NULL ? w->unit : at,
                 "unit: expected second, minute, hour, day, week, month or year, found %s",
                 w->unit != NULL ? wr_found(w->unit).text : "none");
}

/* replaces: [{name: x}, ..] */
static const char *read_replaced(struct wr_loader *ld, const struct wr_yaml *item, const char *own)
{
    static const struct wr_key keys[] = {{"name", on_name}};
    static const struct wr_map_spec spec = {"replaces", keys, 1, false};
    struct written_limit w = {.name = ""};

    if (!wr_read_map(ld, item, &spec, &w))
        return "";
    if (w.name[0] == '\0')
        wr_error(ld, item, "replaces: expected the name of another limit, found none");
    else if (strcmp(w.name, own) == 0)
        wr_error(ld, item, "replaces: expected the name of another limit, found its own, \"%s\"",
                 own);
    return w.name;
}

static void read_replaces(struct wr_loader *ld, const struct wr_yaml *list,
                          struct wr_envoy_rule *rule)
{
    const char **names;

    if (list == NULL || wr_envoy_is_nothing(list))
        return;
    if (list->kind != WR_YAML_LIST) {
        wr_error(ld, list, "replaces: expected a list of maps with a name, found %s",
                 wr_found(list).text);
        return;
    }
    names = wr_region_take(ld->region, list->count, sizeof(void *));
    if (names == NULL)
        return;
    for (const struct wr_yaml *item = list->first; item != NULL; item = item->next)
        names[rule->replaces_count++] = read_replaced(ld, item, rule->name);
    rule->replaces = names;
}

static void make_limit(struct wr_loader *ld, const struct wr_envoy_place *place,
                       const struct wr_yaml *at, const struct written_limit *w,
                       struct wr_envoy_rule *rule)
{
    const char *problem;

    rule->units = (uint32_t)w->units;
    if (rule->unlimited || rule->unit == WR_UNIT_UNKNOWN)
        return;
    if (w->units_at == NULL)
        wr_warning(ld, at, "rate_limit: no requests_per_unit, so nothing passes");
    if (rule->unit == WR_UNIT_SECOND && rule->units > PER_SECOND_MAX)
        wr_warning(ld, w->units_at,
                   "requests_per_unit: counted as %u, the most a second holds here",
                   PER_SECOND_MAX);
    problem =
        wr_envoy_limit(&place->envoy->options, rule->units, (enum wr_unit)rule->unit, &rule->limit);
    if (problem != NULL)
        wr_error(ld, at, "rate_limit: %s", problem);
}

static bool add_rule(struct wr_loader *ld, struct wr_envoy *envoy, struct wr_envoy_rule *rule)
{
    if (envoy->rule_count == envoy->rule_room) {
        uint32_t room = envoy->rule_room == 0 ? 16 : envoy->rule_room * 2;
        const struct wr_envoy_rule **larger = wr_region_take(ld->region, room, sizeof(void *));
        if (larger == NULL)
            return false;
        for (uint32_t i = 0; i < envoy->rule_count; i++)
            larger[i] = envoy->rules[i];
        envoy->rules = larger;
        envoy->rule_room = room;
    }
    rule->index = envoy->rule_count;
    envoy->rules[envoy->rule_count++] = rule;
    return true;
}

void wr_envoy_read_limit(struct wr_loader *ld, struct wr_envoy_place *place,
                         const struct wr_envoy_written *d)
{
    static const struct wr_key keys[] = {{"unit", on_unit},
                                         {"requests_per_unit", on_requests},
                                         {"unlimited", on_unlimited},
                                         {"name", on_name},
                                         {"replaces", on_replaces}};
    static const struct wr_map_spec spec = {"rate_limit", keys, sizeof keys / sizeof keys[0],
                                            false};
    struct written_limit w = {.name = ""};
    struct wr_envoy_rule *rule = wr_region_take(ld->region, 1, sizeof *rule);

    if (rule == NULL || !wr_read_map(ld, d->rate_limit, &spec, &w))
        return;
    if (place->envoy->rule_count == WR_ENVOY_RULES_MAX) {
        wr_error(ld, d->rate_limit, "rate_limit: expected at most %d in all files, found more",
                 WR_ENVOY_RULES_MAX);
        return;
    }
    rule->path = wr_region_text(ld->region, place->path, strlen(place->path));
    rule->name = w.name;
    rule->unlimited = w.unlimited;
    rule->shadow = d->shadow;
    rule->quota = d->quota;
    read_unit(ld, d->rate_limit, &w, rule);
    read_replaces(ld, w.replaces, rule);
    make_limit(ld, place, d->rate_limit, &w, rule);
    if (rule->path != NULL && add_rule(ld, place->envoy, rule))
        place->envoy->nodes[place->node].rule = rule;
}

const char *wr_envoy_limit(const struct wr_envoy_options *options, uint32_t units,
                           enum wr_unit unit, struct wr_limit *out)
{
    static const enum wr_calendar calendars[WR_UNITS] = {[WR_UNIT_WEEK] = WR_CALENDAR_WEEK,
                                                         [WR_UNIT_MONTH] = WR_CALENDAR_MONTH,
                                                         [WR_UNIT_YEAR] = WR_CALENDAR_YEAR};

    *out = (struct wr_limit){0};
    if (unit == WR_UNIT_UNKNOWN || (unsigned)unit >= WR_UNITS)
        return "no such unit";
    if (unit == WR_UNIT_SECOND && units > PER_SECOND_MAX)
        units = PER_SECOND_MAX;
    if (calendars[unit] != WR_CALENDAR_NONE && !options->epoch_windows)
        return wr_limit_make_calendar(out, calendars[unit], units, false);
    return wr_limit_make(out, WR_FIXED_WINDOW, units, wr_unit_seconds(unit) * WR_NS_PER_S, -1,
                         false);
}
