/* customers.c - the section `customers`: that there are customers, what leads to one, and who is
 * told of them.
 *
 * Nothing here opens anything: the daemon keeps the files, and every process of the host finds them
 * by the directory that stands here. No message quotes a secret, nor a URL, which may hold one. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "policy/customers.h"
#include "policy/loader.h"
#include "policy/rate.h"

#define ROOM_DEFAULT 65536
#define FLUSH_DEFAULT_NS WR_NS_PER_S
#define FLUSH_MIN_NS (100 * WR_NS_PER_MS)
#define FLUSH_MAX_NS WR_NS_PER_MINUTE
#define KEEP_MIN_NS (62 * WR_NS_PER_DAY) /* all of last month, on the last day of this one */
#define KEEP_MAX_NS (36500 * WR_NS_PER_DAY)
#define SECRET_BYTES_GOOD 16
#define WEBHOOK_TIMEOUT_NS (10 * WR_NS_PER_S)
#define WEBHOOK_GIVE_UP_NS WR_NS_PER_DAY
#define DIRECTORY_END ".customers"
#define BY_DEFAULT "api_key"
#define RESERVED "customer"

struct reading {
    struct wr_policy_customers *customers;
    const struct wr_yaml *by;
};

/* ---- where -------------------------------------------------------------------------------- */

static void read_directory(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_customers *customers = ((struct reading *)into)->customers;

    customers->directory_written = true;
    (void)wr_read_file(ld, value, "the path of a directory", &customers->directory,
                       &customers->directory_at);
}

/* Beside the arena, which all processes of the host find as well. */
static void settle_directory(struct wr_loader *ld, const struct wr_yaml *node,
                             struct wr_policy_customers *customers)
{
    const char *arena = ld->policy->settings.arena_path;
    size_t len = arena != NULL ? strlen(arena) : 0;
    char *path;

    if (customers->directory_written)
        return;
    customers->directory_at = wr_place_of(node);
    if (arena == NULL) {
        wr_error(ld, node->key,
                 "customers: expected a directory to keep them in, or arena.path, beside which "
                 "there would be one, found neither");
        return;
    }
    path = wr_region_take(ld->region, len + sizeof DIRECTORY_END, 1);
    if (path == NULL)
        return;
    (void)snprintf(path, len + sizeof DIRECTORY_END, "%s%s", arena, DIRECTORY_END);
    customers->directory = path;
}

static void read_customers_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_customers *customers = ((struct reading *)into)->customers;

    (void)wr_read_file(ld, value, "the path of a file with the customers", &customers->file,
                       &customers->file_at);
}

/* ---- by what ------------------------------------------------------------------------------ */

static void read_by(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)ld;
    ((struct reading *)into)->by = value;
}

static void add_by(struct wr_loader *ld, const struct wr_yaml *at, const char *name,
                   struct wr_policy_customers *customers)
{
    const struct wr_policy *policy = ld->policy;
    int identity = wr_find_identity(policy, (struct weir_slice){name, strlen(name)});

    if (identity < 0) {
        const char *near = policy->identity_count > 0
                               ? wr_nearest(name, &policy->identities[0].name,
                                            policy->identity_count, sizeof policy->identities[0])
                               : NULL;
        wr_error(
            ld, at,
            "by: expected a name from identity that leads to a customer, found \"%.40s\"%s%s%s",
            name, near != NULL ? " (did you mean " : "", near != NULL ? near : "",
            near != NULL ? "?)" : "");
        return;
    }
    for (unsigned i = 0; i < customers->by_count; i++) {
        if (customers->identity[i] == identity) {
            wr_error(ld, at, "by: expected each name once, found \"%s\" again", name);
            return;
        }
    }
    if (customers->by_count == WR_CUSTOMERS_BY_MAX) {
        wr_error(ld, at, "by: expected at most %d names, found more", WR_CUSTOMERS_BY_MAX);
        return;
    }
    customers->identity[customers->by_count] = (uint8_t)identity;
    customers->by[customers->by_count++] = policy->identities[identity].name;
}

static void settle_by(struct wr_loader *ld, const struct wr_yaml *node,
                      const struct reading *reading)
{
    const struct wr_yaml *by = reading->by;

    if (by == NULL) {
        add_by(ld, node->key, BY_DEFAULT, reading->customers);
        return;
    }
    if (by->kind == WR_YAML_MAP || (by->kind == WR_YAML_LIST && by->count == 0)) {
        wr_error(ld, by, "by: expected names from identity, found %s",
                 by->kind == WR_YAML_MAP ? "a map" : "an empty list");
        return;
    }
    for (const struct wr_yaml *item = wr_first_item(by); item != NULL;
         item = wr_next_item(by, item)) {
        if (wr_is_text(item))
            add_by(ld, item, item->text, reading->customers);
        else
            wr_error(ld, item, "by: expected a name from identity, found %s", wr_found(item).text);
    }
}

/* ---- numbers ------------------------------------------------------------------------------ */

static void read_room(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t room;

    if (wr_read_int(ld, value, "room", 1, WR_CUSTOMERS_ROOM_MAX, &room))
        ((struct reading *)into)->customers->room = (uint32_t)room;
}

/* A duration that has bounds. */
struct span {
    const char *what, *bounds;
    int64_t least_ns, most_ns;
};

static void read_span(struct wr_loader *ld, const struct wr_yaml *value, const struct span *span,
                      int64_t *out)
{
    const char *wrong = "expected a duration such as 1s";
    size_t at = 0;
    int64_t ns = 0;

    if (wr_is_text(value))
        wrong = wr_duration_parse(wr_slice_of(value), &ns, &at);
    if (wrong == NULL && (ns < span->least_ns || ns > span->most_ns))
        wr_error_in(ld, value, 0, "%s %s: expected %s", span->what, wr_found(value).text,
                    span->bounds);
    else if (wrong != NULL)
        wr_error_in(ld, value, at, "%s %s: %s", span->what, wr_found(value).text, wrong);
    else
        *out = ns;
}

static void read_flush(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct span span = {"flush", "100ms to 1m", FLUSH_MIN_NS, FLUSH_MAX_NS};

    read_span(ld, value, &span, &((struct reading *)into)->customers->flush_ns);
}

static void read_keep(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct span span = {"keep", "62d to 36500d", KEEP_MIN_NS, KEEP_MAX_NS};

    read_span(ld, value, &span, &((struct reading *)into)->customers->keep_ns);
}

/* ---- who is told -------------------------------------------------------------------------- */

static void read_hook_url(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    (void)wr_read_url(ld, value, "url", true, &((struct wr_policy_webhook *)into)->url);
}

static void read_hook_secret(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_webhook *hook = into;

    if (!wr_read_text(ld, value, "a secret that deliveries are signed with", &hook->secret))
        return;
    if (value->len < SECRET_BYTES_GOOD)
        wr_warning(ld, value, "secret: fewer than %d characters can be guessed", SECRET_BYTES_GOOD);
}

static void read_hook_secret_file(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_webhook *hook = into;

    (void)wr_read_file(ld, value, "the path of a file with the secret", &hook->secret_file,
                       &hook->secret_file_at);
}

static void read_hook_ca(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_policy_webhook *hook = into;

    (void)wr_read_file(ld, value, "the path of a file with certificates", &hook->ca_file,
                       &hook->ca_file_at);
}

static void read_hook_timeout(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct span span = {"timeout", "100ms to 30s", 100 * WR_NS_PER_MS,
                                     30 * WR_NS_PER_S};

    read_span(ld, value, &span, &((struct wr_policy_webhook *)into)->timeout_ns);
}

static void read_hook_give_up(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct span span = {"give_up", "1s to 7d", WR_NS_PER_S, 7 * WR_NS_PER_DAY};

    read_span(ld, value, &span, &((struct wr_policy_webhook *)into)->give_up_ns);
}

static void read_hook(struct wr_loader *ld, const struct wr_yaml *value, const char *what,
                      struct wr_policy_webhook *hook)
{
    static const struct wr_key keys[] = {{"url", read_hook_url},
                                         {"secret", read_hook_secret},
                                         {"secret_file", read_hook_secret_file},
                                         {"ca_file", read_hook_ca},
                                         {"timeout", read_hook_timeout},
                                         {"give_up", read_hook_give_up}};
    const struct wr_map_spec spec = {what, keys, sizeof keys / sizeof keys[0], true};
    size_t errors = ld->diag->errors;

    *hook = (struct wr_policy_webhook){.at = wr_place_of(value),
                                       .timeout_ns = WEBHOOK_TIMEOUT_NS,
                                       .give_up_ns = WEBHOOK_GIVE_UP_NS};
    if (!wr_read_map(ld, value, &spec, hook) || ld->diag->errors > errors)
        return;
    if (hook->url == NULL)
        wr_error(ld, value, "%s: expected url, found none", what);
    else if ((hook->secret != NULL) == (hook->secret_file != NULL))
        wr_error(ld, value, "%s: expected one of secret and secret_file to sign with, found %s",
                 what, hook->secret != NULL ? "both" : "neither");
    else if (strncmp(hook->url, "http://", 7) == 0)
        wr_warning(ld, value, "%s: over http:// everybody on the way reads what it says", what);
}

static void read_webhook(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_hook(ld, value, "webhook", &((struct reading *)into)->customers->webhook);
}

static void read_confirm(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    read_hook(ld, value, "confirm_upgrade", &((struct reading *)into)->customers->confirm_upgrade);
}

/* ---- the section --------------------------------------------------------------------------- */

void wr_read_customers(struct wr_loader *ld)
{
    static const struct wr_key keys[] = {
        {"directory", read_directory}, {"by", read_by},
        {"room", read_room},           {"flush", read_flush},
        {"keep", read_keep},           {"file", read_customers_file},
        {"webhook", read_webhook},     {"confirm_upgrade", read_confirm}};
    static const struct wr_map_spec spec = {"customers", keys, sizeof keys / sizeof keys[0], false};
    const struct wr_yaml *node = ld->sections[WR_SECTION_CUSTOMERS];
    struct reading reading = {0};
    int identity = wr_find_identity(ld->policy, (struct weir_slice){RESERVED, sizeof RESERVED - 1});

    if (node == NULL)
        return;
    reading.customers = wr_region_take(ld->region, 1, sizeof *reading.customers);
    if (reading.customers == NULL)
        return;
    reading.customers->at = wr_place_of(node);
    reading.customers->room = ROOM_DEFAULT;
    reading.customers->flush_ns = FLUSH_DEFAULT_NS;
    ld->policy->settings.customers = reading.customers;
    if (identity >= 0)
        wr_error(ld, ld->identity_nodes[identity]->key,
                 "identity: expected another name than \"" RESERVED
                 "\", which means the customer where there is a section customers");
    if (node->kind != WR_YAML_SCALAR || node->len > 0)
        (void)wr_read_map(ld, node, &spec, &reading);
    settle_by(ld, node, &reading);
    settle_directory(ld, node, reading.customers);
}
