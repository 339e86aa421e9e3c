/* identity.c - the section `identity`: who a caller is, and which plan it has.
 *
 * Problem. Limits are only as good as the answer to "who is this?". An address comes from the peer
 * or from a header that only our own proxies may write; a user's name in a header is worth
 * something only if a trusted peer put it there; an API key proves itself.
 *
 * Idea. Every value that a request must bring along (a header field, a value given by the host
 * program) is one numbered field, found once here, so that the data plane looks up no names. Each
 * named identity has up to two: its header, and the given key of its own name, which wins.
 *
 * Invariants:
 *   1. A header identity is believed from trusted peers only, unless it says `trust: anyone`;
 *      api_key is believed from anyone, as guessing one is as hard as stealing one.
 *   2. No message quotes a value of an identity. */
#include <string.h>
#include <strings.h>

#include "policy/loader.h"

#define API_KEY "api_key"
#define IPV6_PREFIX_DEFAULT 64

/* ---- identity.ip ------------------------------------------------------------------------- */

struct ip_reading {
    int64_t prefix;
    const struct wr_yaml *from, *hops;
};

static void read_from(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const struct {
        const char *name;
        const char *header;
        enum wr_from from;
    } known[] = {
        {"peer", NULL, WR_FROM_PEER},
        {"x-forwarded-for", "X-Forwarded-For", WR_FROM_XFF},
        {"forwarded", "Forwarded", WR_FROM_FORWARDED},
        {"x-real-ip", "X-Real-IP", WR_FROM_SINGLE},
    };
    struct wr_client_rule *client = &ld->policy->client;

    ((struct ip_reading *)into)->from = value;
    if (!wr_is_text(value) || !wr_is_token(value)) {
        wr_error(ld, value,
                 "from: expected peer, x-forwarded-for, forwarded, x-real-ip or the name of a "
                 "header field with one address, found %s",
                 wr_found(value).text);
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcasecmp(value->text, known[i].name) != 0)
            continue;
        client->from = known[i].from;
        if (known[i].header != NULL)
            client->field = wr_add_field(ld, value, known[i].header, WEIR_FIELD_HEADER);
        return;
    }
    client->from = WR_FROM_SINGLE;
    client->field = wr_add_field(ld, value, value->text, WEIR_FIELD_HEADER);
}

static void read_trusted(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct wr_net *nets =
        wr_region_take(ld->region, value->kind == WR_YAML_LIST ? value->count : 1, sizeof *nets);
    size_t count = 0;

    (void)into;
    for (const struct wr_yaml *item = wr_first_item(value); nets != NULL && item != NULL;
         item = wr_next_item(value, item)) {
        if (!wr_read_net(ld, item, "trusted", &nets[count]))
            continue;
        if (nets[count].prefix == 0 || (nets[count].prefix == 96 && wr_ip_is_v4(&nets[count].ip)))
            wr_warning(ld, item, "trusted: %s believes everybody: any caller can claim any address",
                       wr_found(item).text);
        count++;
    }
    wr_netset_make(&ld->policy->client.trusted, nets, count);
}

static void read_hops(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    int64_t hops;

    ((struct ip_reading *)into)->hops = value;
    if (wr_read_int(ld, value, "hops", 1, WR_HOPS_MAX, &hops))
        ld->policy->client.hops = (unsigned)hops;
}

static void read_prefix(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct ip_reading *reading = into;

    (void)wr_read_int(ld, value, "ipv6_prefix", 1, 128, &reading->prefix);
}

static void read_ip(struct wr_loader *ld, const struct wr_yaml *value, struct ip_reading *reading)
{
    static const struct wr_key keys[] = {{"from", read_from},
                                         {"trusted", read_trusted},
                                         {"hops", read_hops},
                                         {"ipv6_prefix", read_prefix}};
    static const struct wr_map_spec spec = {"identity.ip", keys, sizeof keys / sizeof keys[0],
                                            false};
    const struct wr_client_rule *client = &ld->policy->client;

    (void)wr_read_map(ld, value, &spec, reading);
    if (reading->hops != NULL && client->from != WR_FROM_XFF && client->from != WR_FROM_FORWARDED)
        wr_error(ld, reading->hops->key,
                 "hops: expected only with from: x-forwarded-for or forwarded, which have several "
                 "entries");
}

/* ---- named identities -------------------------------------------------------------------- */

struct identity_reading {
    struct wr_identity *identity;
    const struct wr_yaml *trust;
    bool given;
};

static void read_identity_header(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    ((struct identity_reading *)into)->identity->header = wr_read_header(ld, value);
}

static void read_trust(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    static const char *const choices[] = {"anyone", "peers"};
    struct identity_reading *reading = into;
    size_t i;

    reading->trust = value;
    if (wr_read_choice(ld, value, "trust", choices, 2, &i))
        reading->identity->trust_anyone = i == 0;
}

static void read_given(struct wr_loader *ld, const struct wr_yaml *value, void *into)
{
    struct identity_reading *reading = into;
    bool given;

    if (!wr_read_bool(ld, value, "given", &given))
        return;
    reading->given = true;
    if (!given)
        wr_error(ld, value, "given: expected true, or header: NAME instead, found false");
}

static void read_named(struct wr_loader *ld, const struct wr_yaml *value)
{
    static const struct wr_key keys[] = {
        {"header", read_identity_header}, {"trust", read_trust}, {"given", read_given}};
    static const char *const reserved[] = {"route", "method", "path", "host"};
    struct wr_policy *policy = ld->policy;
    struct wr_identity *identity = &policy->identities[policy->identity_count];
    struct identity_reading reading = {.identity = identity};
    struct wr_map_spec spec = {value->key->text, keys, sizeof keys / sizeof keys[0], true};
    size_t errors = ld->diag->errors;

    if (policy->identity_count == WR_IDENTITIES_MAX) {
        wr_error(ld, value->key, "expected at most %d identities, found more", WR_IDENTITIES_MAX);
        return;
    }
    for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++) {
        if (strcmp(value->key->text, reserved[i]) == 0) {
            wr_error(ld, value->key,
                     "expected the name of an identity, found \"%s\", which has a "
                     "meaning of its own",
                     reserved[i]);
            return;
        }
    }
    *identity = (struct wr_identity){.header = -1, .given = -1};
    if (!wr_read_name(ld, value->key, "identity", &identity->name))
        return;
    identity->trust_anyone = strcmp(identity->name, API_KEY) == 0;
    identity->given = wr_add_field(ld, value->key, identity->name, WEIR_FIELD_KEY);
    ld->identity_nodes[policy->identity_count++] = value;
    if (!wr_read_map(ld, value, &spec, &reading))
        return;
    if (identity->header < 0 && !reading.given && ld->diag->errors == errors)
        wr_error(ld, value,
                 "%s: expected header: NAME, or given: true for a value that the host "
                 "program gives",
                 identity->name);
    if (identity->header < 0 && reading.trust != NULL)
        wr_error(ld, reading.trust->key, "trust: expected only with header");
}

/* ---- the section ------------------------------------------------------------------------- */

void wr_read_identity(struct wr_loader *ld)
{
    const struct wr_yaml *node = ld->sections[WR_SECTION_IDENTITY];
    const struct wr_yaml *plan = NULL;
    struct ip_reading ip = {.prefix = IPV6_PREFIX_DEFAULT};

    ld->policy->client.field = -1;
    ld->policy->plan_field = -1;
    ld->policy->key_identity = -1;
    if (node != NULL && node->kind != WR_YAML_MAP) {
        wr_error(ld, node,
                 "identity: expected a map with ip, plan and names of identities, found "
                 "%s",
                 wr_found(node).text);
        node = NULL;
    }
    for (const struct wr_yaml *value = node != NULL ? node->first : NULL; value != NULL;
         value = value->next) {
        if (strcmp(value->key->text, "ip") == 0)
            read_ip(ld, value, &ip);
        else if (strcmp(value->key->text, "plan") == 0)
            plan = value;
        else
            read_named(ld, value);
    }
    (void)wr_add_prefix(ld, node, ip.prefix);
    wr_read_plan(ld, plan);
}
